//! The array of the published experiment in the model world: two pools on RAID 1+0, a LU on each, with a
//! datastore and the template on it.
//!
//! It is made once, thick and thin, on disks that cost no time; its content is moved to modelled drives for
//! every operation, so that all begin with the same array, its cache empty.

use std::collections::BTreeMap;
use std::rc::Rc;

use anyhow::{Result, anyhow};
use array::Config;
use array::config::{
    ArrayId, CacheSettings, GroupConfig, HostConfig, Level, PoolConfig, Provisioning, VolumeConfig,
};
use lab_core::interrupt::Stop;
use lab_tools::datastore::{Content, File, Patience, Ways};
use lab_tools::drives;
use lab_tools::hosts::Connection;
use lab_tools::hosts::modelled::{Carriage, ModelledPort, Work};
use lab_tools::testbed::{Started, Testbed, modelled_drive};
use scsi::Lun;
use world::World;
use world_model::{DiskSpec, Link};

use super::sizes::Sizes;
use crate::bulk::TEMPLATE;
use crate::host::{Datastores, Host, HostPlan};
use crate::scenario::Vaai;

const TARGET: &str = "iqn.2026-11.model:vaai";
const INITIATOR: &str = "iqn.2026-11.model:host";
pub(super) const POOLS: [&str; 2] = ["first", "second"];
/// What is kept in flight while it is made, where nothing takes time.
const MAKING: Ways = Ways { outstanding: 32, transfer_bytes: 1 << 20 };
/// The LUs, of the first pool and of the second.
pub(super) const LUNS: [Lun; 2] = [Lun(0), Lun(1)];

/// How the LUs have their space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    /// All of it from the beginning.
    Thick,
    /// When it is written.
    Thin,
}

/// An array, with the template on it.
pub(super) struct Bed {
    made: Testbed,
    pub(super) template: File,
}

impl Bed {
    pub(super) fn make(vaai: &Vaai, sizes: &Sizes, space: Space, seed: u64) -> Result<Bed> {
        let array = &vaai.model.array;
        let first = DiskSpec::drive(&drives::load(&array.drive)?)?;
        let second = DiskSpec::drive(&drives::load(&array.second_drive)?)?;
        let of_first = (0..array.drives).map(|n| (drive(0, n), first.clone()));
        let of_second = (0..array.second_drives).map(|n| (drive(1, n), second.clone()));
        let specs: BTreeMap<String, DiskSpec> = of_first.chain(of_second).collect();
        let config = declaration(vaai, sizes, space, specs.keys().cloned().collect());
        let mut template = None;
        let made = Testbed::make(config, specs, seed, async |started| {
            let free = Carriage {
                link: Link::plain(u64::MAX, std::time::Duration::ZERO),
                unsolicited_bytes: u64::MAX,
                burst_bytes: u64::MAX,
                segments_per_ack: 1.0,
            };
            let world = started.world.clone();
            let port = ModelledPort::new(&world, free, Work::default());
            let connection = Connection::Modelled(port.host(session(started, 0)?, Work::default()));
            let host = Host::open(world, connection, plan(vaai, MAKING), Datastores::New).await?;
            let store = &host.stores[0];
            let file = store.create_file(TEMPLATE, "template.vmdk", sizes.template, sizes.used).await?;
            store.fill(&file, Content::Zeros).await?;
            template = Some(file);
            Ok(())
        })?;
        let template = template.ok_or_else(|| anyhow!("the template was not made"))?;
        Ok(Bed { made, template })
    }

    pub(super) fn model(&self, seed: u64) -> world_model::Model {
        self.made.model(seed)
    }

    pub(super) async fn start(&self, world: &World) -> Result<Started> {
        self.made.start(world).await
    }
}

/// A session of the host of that number.
pub(super) fn session(started: &Started, host: u8) -> Result<array::LocalSession> {
    let opened = started.port().open(INITIATOR, [0x80, 0, 0, host + 1, 0, 0]);
    opened.map_err(|refused| anyhow!("host {host} is refused: {refused:?}"))
}

/// What a host mounts, and how it works.
pub(super) fn plan(vaai: &Vaai, ways: Ways) -> HostPlan {
    let patience = Patience { first: vaai.power_on.backoff_first.0, max: vaai.power_on.backoff_max.0 };
    HostPlan { luns: LUNS.to_vec(), ways, patience, stop: Stop::default(), number: 0 }
}

fn drive(pool: usize, number: u32) -> String {
    format!("{}-{number:02}", POOLS[pool])
}

fn declaration(vaai: &Vaai, sizes: &Sizes, space: Space, drives: Vec<String>) -> Config {
    let array = &vaai.model.array;
    let members = |pool: &str| -> Vec<String> {
        drives.iter().filter(|name| name.starts_with(pool)).cloned().collect()
    };
    let group = |pool: &str| GroupConfig {
        stripe_unit_bytes: array.stripe_unit.0 as u32,
        ..GroupConfig::new(pool.into(), Level::Raid10, members(pool))
    };
    let pool = |pool: &str| PoolConfig {
        page_bytes: vaai.array.page.0,
        soft_threshold_percent: 100,
        critical_threshold_percent: 100,
        placement: false,
        ..PoolConfig::new(pool.into(), vec![pool.into()])
    };
    let volume = |(pool, len_bytes): (&str, u64)| VolumeConfig {
        provisioning: match space {
            Space::Thick => Provisioning::Thick,
            Space::Thin => Provisioning::Thin,
        },
        ..VolumeConfig::new(pool.into(), pool.into(), len_bytes)
    };
    let luns = LUNS.iter().zip(POOLS).map(|(lun, pool)| (lun.0, pool.to_owned()));
    Config {
        id: ArrayId([3; 16]),
        controllers: 1,
        drives: drives.iter().cloned().map(modelled_drive).collect(),
        cache: Some(CacheSettings::new(array.cache.0)),
        groups: POOLS.map(group).to_vec(),
        pools: POOLS.map(pool).to_vec(),
        volumes: POOLS.into_iter().zip(sizes.lus).map(volume).collect(),
        hosts: vec![HostConfig::new("hosts".into(), INITIATOR.into(), luns.collect())],
        ..Config::empty(TARGET)
    }
}

/// The array's port, and hosts that reach it as the published ones did.
pub(super) struct Reach {
    pub(super) port: Rc<ModelledPort>,
    work: Work,
}

impl Reach {
    pub(super) fn new(vaai: &Vaai, world: &World) -> Result<Reach> {
        let model = &vaai.model;
        let port = ModelledPort::new(world, model.carriage()?, model.controller_work());
        Ok(Reach { port, work: model.host_work() })
    }

    /// The host of that number.
    pub(super) fn host(&self, started: &Started, number: u8) -> Result<Connection> {
        Ok(Connection::Modelled(self.port.host(session(started, number)?, self.work)))
    }
}
