//! What the array of a history has.

use std::net::Ipv4Addr;
use std::ops::Range;

use array::Config;
use array::config::{DriveConfig, GroupConfig, Level, PoolConfig, PortalConfig, Provisioning, VolumeConfig};
use world::Rng;
use world_model::Model;

use crate::lives::disk_spec;
use crate::stacks::array::{
    Between, CONTROLLERS, DISK_BYTES, DISKS, PAGE_BYTES, VOLUMES, declaration, portal,
};

/// Controllers of an array that has some at other nodes, and pools: each begins with one of its own.
const CONTROLLERS_MAX: usize = 4;
/// A drive of the first further pool, for [`crate::faults::Fault::SomeFences`].
pub(crate) const UNFENCED: &str = "d10";
/// The volume of a further pool.
const FURTHER_PAGES: u64 = 12;

/// What the array has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) between: Between,
    /// The node of each controller, as declared; empty: all of them run at the owner.
    pub(crate) controller_nodes: Vec<String>,
    /// The mirrors of further pools open with one drive.
    pub(crate) starts_degraded: bool,
}

/// A volume of the workload.
pub(crate) struct Volume {
    pub(crate) name: String,
    pub(crate) lun: u16,
    pub(crate) pool: usize,
    pub(crate) pages: u64,
}

impl Shape {
    /// All controllers run at the owner.
    pub(crate) fn of_one_place(between: Between) -> Shape {
        Shape { between, controller_nodes: vec![], starts_degraded: false }
    }

    /// So many nodes are declared for two to four controllers.
    pub(crate) fn spread(between: Between, nodes: usize, rng: &mut Rng) -> Shape {
        let controllers = rng.usize(CONTROLLERS..=CONTROLLERS_MAX);
        // None for some: whoever owns the array runs them.
        let node = |_| match rng.usize(..=nodes) {
            0 => String::new(),
            number => format!("n{number}"),
        };
        Shape { between, controller_nodes: (0..controllers).map(node).collect(), starts_degraded: false }
    }

    pub(crate) fn is_spread(&self) -> bool {
        !self.controller_nodes.is_empty()
    }

    fn controllers(&self) -> usize {
        self.controller_nodes.len().max(CONTROLLERS)
    }

    /// The controllers that open a port of their own at the owner.
    pub(crate) fn ports(&self) -> Range<usize> {
        if self.is_spread() { 0..1 } else { 0..CONTROLLERS }
    }

    fn further(&self) -> Range<usize> {
        CONTROLLERS..self.controllers()
    }

    /// Puts its drives into the model.
    pub(crate) fn add_disks(&self, model: &Model) -> Vec<world_model::Disk> {
        let count = DISKS + self.further().len() * 2;
        (0..count).map(|i| model.disk(&format!("d{i}"), disk_spec(DISK_BYTES))).collect()
    }

    /// The volumes of which the hosts use the data: what is acknowledged has to be durable, and with caches
    /// only the first pool has a journal.
    pub(crate) fn volumes(&self) -> Vec<Volume> {
        let first = VOLUMES.map(|(name, pool, pages, _)| (name.to_owned(), pool, pages));
        let all = first.into_iter().chain(self.further().map(|n| (format!("v{}", n + 2), n, FURTHER_PAGES)));
        let all = (0..).zip(all).map(|(lun, (name, pool, pages))| Volume { name, lun, pool, pages });
        all.filter(|volume| self.between == Between::Nothing || volume.pool == 0).collect()
    }

    /// As the node at this address declares it.
    pub(crate) fn declaration(&self, at: Ipv4Addr) -> Config {
        let mut config = declaration(self.between, at);
        if !self.is_spread() {
            return config;
        }
        config.controllers = self.controllers();
        config.controller_nodes = self.controller_nodes.clone();
        config.portals = vec![PortalConfig { listen: portal(at, 0), controller: 0, segment_bytes_max: None }];
        for n in self.further() {
            let drives: Vec<String> =
                (0..2).map(|i| format!("d{}", DISKS + 2 * (n - CONTROLLERS) + i)).collect();
            config.drives.extend(drives.iter().map(|name| DriveConfig {
                name: name.clone(),
                spec: array::DriveSpec::Modelled { name: name.clone() },
            }));
            config.groups.push(GroupConfig {
                stripe_unit_bytes: raid::STRIPE_UNIT_BYTES_DEFAULT,
                start_degraded: self.starts_degraded,
                ..GroupConfig::new(format!("g{n}"), Level::Raid1, drives)
            });
            config.pools.push(PoolConfig {
                page_bytes: PAGE_BYTES,
                controller: n,
                ..PoolConfig::new(format!("p{n}"), vec![format!("g{n}")])
            });
            let (name, len_bytes) = (format!("v{}", n + 2), FURTHER_PAGES * PAGE_BYTES);
            config.hosts[0].luns.insert(n as u16 + 2, name.clone());
            config.volumes.push(VolumeConfig {
                provisioning: Provisioning::Thin,
                physical_block_bytes: 512,
                ..VolumeConfig::new(name, format!("p{n}"), len_bytes)
            });
        }
        config
    }
}
