//! The array: for each server a system disk at one controller and a data disk at the other, each kind on
//! eight groups RAID1 of its own.
//!
//! An array of that time keeps acknowledged writes in memory with a battery, mirrored to the other
//! controller. That is the journal of each pool here, on two memories that both controllers reach, as masu
//! requires of all drives of an array with several nodes.

use anyhow::{Context, Result};
use array::Config;
use array::config::{
    CacheSettings, GroupConfig, HostConfig, Level, PoolConfig, PortalConfig, Provisioning, VolumeConfig,
};
use lab_tools::drives;
use lab_tools::testbed::{Testbed, modelled_drive};
use world_model::DiskSpec;

use crate::bed::{Shape, array_of, initiator};
use crate::results::{Disks, Layout};
use crate::scenario::{SERVERS_MAX, Sanboot};

/// The layout that the published experiment advises: one system disk for each group.
pub(super) const LAYOUT: Layout = Layout::Raid1x8;

/// The controller that is lost, or gives its pools away. The other one has the control plane.
pub(super) const GOES: usize = 1;
/// The one that remains.
pub(super) const STAYS: usize = 0;

/// The LUN of a server's disk.
pub(super) fn lun(disks: Disks) -> array::Lun {
    array::Lun(disks as u16)
}

fn prefix(disks: Disks) -> char {
    match disks {
        Disks::System => 's',
        Disks::Data => 'd',
    }
}

fn volume(disks: Disks, server: u32) -> String {
    format!("{}v{server}", prefix(disks))
}

/// A pool, and its group.
pub(super) fn pool(disks: Disks, number: u32) -> String {
    format!("{}{number}", prefix(disks))
}

fn journal(disks: Disks, number: u32) -> String {
    format!("j{}", pool(disks, number))
}

/// Drives of a group, or of a journal.
fn pair(group: &str) -> Vec<String> {
    (0..2).map(|n| format!("{group}-{n}")).collect()
}

/// The layout's shape.
pub(super) fn shape() -> Shape {
    Shape::of(LAYOUT).expect("a layout of an array")
}

/// Drives that hold the disks of one kind.
pub(super) fn drives_of(disks: Disks) -> Vec<String> {
    (0..shape().groups).flat_map(|n| pair(&pool(disks, n))).collect()
}

/// The array, with these disks at the controller that goes.
///
/// # Errors
///
/// The drives have no room for the disks.
pub(super) fn make(sanboot: &Sanboot, goes: Disks, seed: u64) -> Result<Testbed> {
    let config = declaration(sanboot, goes);
    let drive = DiskSpec::drive(&drives::load(&sanboot.array.drive)?)?;
    let memory =
        DiskSpec::new(sanboot.takeover.journal.0).with_latency(sanboot.takeover.memory.0).with_cache_bytes(0);
    let spec = |name: &str| if name.starts_with('j') { memory.clone() } else { drive.clone() };
    let specs = config.drives.iter().map(|drive| (drive.name.clone(), spec(&drive.name))).collect();
    Testbed::make(config, specs, seed, async |_| Ok(())).context("the array with two controllers")
}

fn declaration(sanboot: &Sanboot, goes: Disks) -> Config {
    let shape = shape();
    let numbers = || Disks::ALL.into_iter().flat_map(|disks| (0..shape.groups).map(move |n| (disks, n)));
    let mirror = |name: String| GroupConfig {
        stripe_unit_bytes: sanboot.array.stripe_unit.0 as u32,
        ..GroupConfig::new(name.clone(), Level::Raid1, pair(&name))
    };
    let groups: Vec<GroupConfig> =
        numbers().flat_map(|(disks, n)| [pool(disks, n), journal(disks, n)]).map(mirror).collect();
    let pools = numbers().map(|(disks, n)| PoolConfig {
        page_bytes: sanboot.array.page.0,
        soft_threshold_percent: 100,
        critical_threshold_percent: 100,
        controller: if disks == goes { GOES } else { STAYS },
        placement: false,
        journal: Some(journal(disks, n)),
        ..PoolConfig::new(pool(disks, n), vec![pool(disks, n)])
    });
    let servers = || (0..SERVERS_MAX).flat_map(|server| Disks::ALL.map(|disks| (disks, server)));
    let volumes = servers().map(|(disks, server)| VolumeConfig {
        provisioning: Provisioning::Thick,
        ..VolumeConfig::new(volume(disks, server), pool(disks, shape.group_of(server)), sanboot.array.lu.0)
    });
    let hosts = (0..SERVERS_MAX).map(|server| {
        let luns = Disks::ALL.map(|disks| (lun(disks).0, volume(disks, server))).into();
        HostConfig::new(format!("server{server}"), initiator(server), luns)
    });
    Config {
        controllers: 2,
        portals: [STAYS, GOES].map(portal).into(),
        drives: groups.iter().flat_map(|group| group.drives.clone()).map(modelled_drive).collect(),
        cache: Some(CacheSettings::new(sanboot.array.cache.0)),
        groups,
        pools: pools.collect(),
        volumes: volumes.collect(),
        hosts: hosts.collect(),
        ..array_of(sanboot, &shape)
    }
}

/// Hosts learn from the ports that are declared which of them is at the owner of a LU.
fn portal(controller: usize) -> PortalConfig {
    let listen = std::net::SocketAddr::from(([10, 0, controller as u8, 1], 3260));
    PortalConfig { listen, controller, segment_bytes_max: None }
}
