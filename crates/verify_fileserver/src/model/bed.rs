//! The array in the model world: a pool for each server's data LU at the first controller, the system LUs at
//! the second.
//!
//! It is made once for each format, with the pages that creating files took. What an array of 2010 has for
//! its acknowledged writes, memory with a battery, mirrored to the other controller, is the journal of each
//! pool here, on a drive of a constant time.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use array::config::{
    ArrayId, CacheSettings, GroupConfig, HostConfig, Level, PoolConfig, Provisioning, VolumeConfig,
};
use array::{Config, LocalSession, Lun};
use block::Pieces;
use scsi::Status;
use world::{Buf, World};
use world_model::{DiskSpec, Model};

use super::super::scenario::Fileserver;
use super::disk::{FILE_AT, Format, Vdisk};
use super::layout::Layout;
use lab_tools::drives;
use lab_tools::files::Plan;
use lab_tools::testbed::{self, Started, Testbed, modelled_drive, notice_attentions};

const TARGET: &str = "iqn.2026-11.model:array";
/// The LU has room for the disk, its tables and what the host's file system needs: an eighth of a percent
/// each, and a round GiB.
pub(super) const LU_MORE_BYTES: u64 = 1 << 30;
const BLOCK_BYTES: u64 = 512;
/// Of a pool's journal.
const JOURNAL_BYTES: u64 = 512 << 20;

/// What is made.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) format: Format,
    pub(super) servers: u32,
    /// So much of a pool is free when all is made; none: nothing else is in it.
    pub(super) pool_free_bytes: Option<u64>,
    /// Groups that are not in a pool yet.
    pub(super) spare_groups: u32,
    /// The first so many controllers own the data LUs, in turn.
    pub(super) owners: usize,
    /// Of a disk that is grown and compacted.
    pub(super) staged: Option<StagedShape>,
}

/// What is different of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct StagedShape {
    /// So much of each drive is used; none: all of it.
    pub(super) drive_bytes: Option<u64>,
    /// Of the pools.
    pub(super) thresholds: (u8, u8),
}

impl Shape {
    /// As published: nothing else in the pools, all data LUs at the first controller.
    pub(super) fn published(format: Format, servers: u32) -> Shape {
        Shape { format, servers, pool_free_bytes: None, spare_groups: 0, owners: 1, staged: None }
    }

    /// The controller that owns a server's LU.
    pub(super) fn owner(&self, server: u32) -> usize {
        server as usize % self.owners
    }
}

/// An array that was made.
#[derive(Clone)]
pub(super) struct Bed {
    pub(super) shape: Shape,
    pub(super) made: Testbed,
    /// A server's disk when it begins.
    pub(super) vdisk: Vdisk,
}

pub(super) fn volume(server: u32) -> String {
    format!("data{server}")
}

fn initiator(server: u32) -> String {
    format!("iqn.2026-11.model:server{server}")
}

/// Drives of a server's group.
pub(super) fn drives_of(scenario: &Fileserver, server: u32) -> Vec<String> {
    (0..scenario.array.drives_per_group).map(|d| format!("g{server}d{d}")).collect()
}

/// Plan and layout: the same for all servers and runs.
pub(super) fn set(scenario: &Fileserver, seed: u64) -> Result<(Arc<Plan>, Arc<Layout>)> {
    let p = &scenario.published;
    let spec = lab_tools::files::SetSpec::published(seed).with_trees(p.trees, p.dummy_trees);
    let plan = Plan::new(spec)?;
    let layout = Layout::new(&plan, p.disk.0)?;
    Ok((Arc::new(plan), Arc::new(layout)))
}

impl Bed {
    /// Makes it; disks are filled as the layout says, if it is given.
    pub(super) fn make(
        scenario: &Fileserver,
        shape: Shape,
        filled: Option<&Layout>,
        seed: u64,
    ) -> Result<Bed> {
        let new = if shape.staged.is_some() { Vdisk::with_content } else { Vdisk::empty };
        let mut vdisk = new(shape.format, scenario.published.disk.0)?;
        if let Some(layout) = filled {
            vdisk.fill(&layout.filling())?;
        }
        let written = vdisk.end(scenario.published.disk.0);
        let config = declaration(scenario, &shape);
        let spec = DiskSpec::drive(&drives::load(&scenario.array.drive)?)?;
        let spec = match shape.staged.and_then(|staged| staged.drive_bytes) {
            Some(bytes) => spec.with_len_bytes(bytes),
            None => spec,
        };
        let memory = DiskSpec::new(JOURNAL_BYTES).with_latency(scenario.array.memory.0).with_cache_bytes(0);
        let spec_of = |name: &String| if name.starts_with('j') { memory.clone() } else { spec.clone() };
        let specs = config.drives.iter().map(|drive| (drive.name.clone(), spec_of(&drive.name))).collect();
        let made = Testbed::make(config, specs, seed, async |started| {
            if shape.format != Format::Fixed {
                for server in 0..shape.servers {
                    touch_pages(started, &shape, server, (written, scenario.array.page.0)).await?;
                }
            }
            match shape.pool_free_bytes {
                Some(free) => fill_pools(started, free).await,
                None => Ok(()),
            }
        });
        let made = made.context("the array of the file servers")?;
        Ok(Bed { shape, made, vdisk })
    }

    /// A model with this bed's drives, as they were when it was made.
    pub(super) fn model(&self, seed: u64) -> Model {
        self.made.model(seed)
    }

    /// Starts the array.
    pub(super) async fn start(&self, world: &World) -> Result<Started> {
        self.made.start(world).await
    }
}

/// A server's way to its LUs, at the controller that owns its data.
pub(super) fn session(started: &Started, shape: &Shape, server: u32) -> Result<LocalSession> {
    let opened = started.ports[shape.owner(server)].open(&initiator(server), [0; 6]);
    opened.map_err(|e| anyhow::anyhow!("server {server} is refused: {e}"))
}

/// A page is in the pool once something of it was written.
async fn touch_pages(
    started: &Started,
    shape: &Shape,
    server: u32,
    (written, page_bytes): (u64, u64),
) -> Result<()> {
    let session = session(started, shape, server)?;
    notice_attentions(&session, Lun(0)).await;
    let block = Buf::shared_zeros(BLOCK_BYTES as usize).freeze();
    for at in (0..written.max(FILE_AT)).step_by(page_bytes as usize) {
        let response = session.execute(Lun(0), testbed::write(at, Pieces::from(block.clone()), 0)).await;
        ensure!(response.status == Status::Good, "a page at {at} cannot be written: {:02x?}", response.sense);
    }
    Ok(())
}

/// What else lies in a pool, so that so much is free.
async fn fill_pools(started: &mut Started, free_bytes: u64) -> Result<()> {
    let status = started.array.status().await?;
    let mut config = started.array.config().clone();
    for pool in status.iter().flat_map(|controller| &controller.pools).filter(|p| p.name.starts_with('p')) {
        let page = pool.page_bytes;
        let left = pool.size_bytes.saturating_sub(pool.used_bytes + free_bytes) / page * page;
        let name = format!("others-{}", pool.name);
        config.volumes.push(VolumeConfig {
            provisioning: Provisioning::Thick,
            ..VolumeConfig::new(name, pool.name.clone(), left)
        });
    }
    started.array.apply(config).await?;
    Ok(())
}

/// The group of a pool's journal, and the beginning of its drive's name.
fn journal(server: u32) -> String {
    format!("j{server}")
}

/// A group that a pool gets while it is in use.
pub(super) fn spare_group(number: u32) -> String {
    format!("spare{number}")
}

fn group(scenario: &Fileserver, name: String, drives: Vec<String>) -> GroupConfig {
    GroupConfig {
        stripe_unit_bytes: scenario.array.stripe_unit.0 as u32,
        ..GroupConfig::new(name, Level::Raid5, drives)
    }
}

fn declaration(scenario: &Fileserver, shape: &Shape) -> Config {
    let a = &scenario.array;
    let named = |prefix: String| (0..a.drives_per_group).map(move |d| format!("{prefix}d{d}")).collect();
    let mut groups: Vec<GroupConfig> = (0..shape.servers)
        .map(|server| group(scenario, format!("g{server}"), drives_of(scenario, server)))
        .collect();
    groups.push(group(scenario, "gs".into(), named("gs".into())));
    groups.extend((0..shape.servers).map(|n| {
        let name = journal(n);
        GroupConfig {
            stripe_unit_bytes: a.stripe_unit.0 as u32,
            ..GroupConfig::new(name.clone(), Level::Raid0, vec![format!("{name}d0")])
        }
    }));
    groups.extend((0..shape.spare_groups).map(|n| group(scenario, spare_group(n), named(spare_group(n)))));
    let pool = |name: String, group: String, controller: usize| {
        let new = PoolConfig::new(name, vec![group]);
        let own = (new.soft_threshold_percent, new.critical_threshold_percent);
        let (soft, critical) = shape.staged.map_or(own, |staged| staged.thresholds);
        PoolConfig {
            page_bytes: a.page.0,
            controller: controller.min(a.controllers - 1),
            placement: false,
            soft_threshold_percent: soft,
            critical_threshold_percent: critical,
            ..new
        }
    };
    let of_server = |n| PoolConfig {
        journal: Some(journal(n)),
        ..pool(format!("p{n}"), format!("g{n}"), shape.owner(n))
    };
    let mut pools: Vec<PoolConfig> = (0..shape.servers).map(of_server).collect();
    pools.push(pool("system".into(), "gs".into(), 1));
    let lu_bytes = scenario.published.disk.0 + LU_MORE_BYTES;
    // A fixed VHD is written from end to end when it is made; one that grows takes its pages as it grows.
    let provisioning = match shape.format {
        Format::Fixed => Provisioning::Thick,
        Format::Dynamic | Format::Vhdx => Provisioning::Thin,
    };
    let data = (0..shape.servers)
        .map(|n| VolumeConfig { provisioning, ..VolumeConfig::new(volume(n), format!("p{n}"), lu_bytes) });
    let system = (0..shape.servers).map(|n| VolumeConfig {
        provisioning: Provisioning::Thin,
        ..VolumeConfig::new(format!("system{n}"), "system".to_owned(), lu_bytes)
    });
    let hosts = (0..shape.servers).map(|n| {
        let luns = [(0, volume(n)), (1, format!("system{n}"))].into();
        HostConfig::new(format!("server{n}"), initiator(n), luns)
    });
    Config {
        id: ArrayId([7; 16]),
        controllers: a.controllers,
        drives: groups.iter().flat_map(|group| group.drives.clone()).map(modelled_drive).collect(),
        cache: Some(CacheSettings::new(a.cache.0)),
        groups,
        pools,
        volumes: data.chain(system).collect(),
        hosts: hosts.collect(),
        ..Config::empty(TARGET)
    }
}
