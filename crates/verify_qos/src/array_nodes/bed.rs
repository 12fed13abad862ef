//! The array: for each node a controller, and for that a pool on drives of its own with five LUs.

use ::qos::Policy;
use anyhow::Result;
use array::config::{
    ArrayId, DriveConfig, GroupConfig, HostConfig, Level, PolicyConfig, PoolConfig, Provisioning,
    QosSettings, Sharing, VolumeConfig,
};
use array::{Config, Lun};
use lab_tools::testbed::{Testbed, modelled_drive};

use super::scenario::ArrayNodes;
use crate::bed::TARGET;
use crate::scenario::Qos;

/// VMs of a node, by what they are promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// Two of the aggregated policy with a minimum.
    Gold,
    /// One with a minimum of its own.
    Silver,
    /// One of the aggregated policy with a maximum.
    Bronze,
    /// One without a policy.
    Free,
}

impl Class {
    /// In files.
    pub(super) fn name(self) -> &'static str {
        match self {
            Class::Gold => "gold",
            Class::Silver => "silver",
            Class::Bronze => "bronze",
            Class::Free => "free",
        }
    }
}

/// The VMs of a node.
pub(super) const VMS: [Class; 5] = [Class::Gold, Class::Gold, Class::Silver, Class::Bronze, Class::Free];

/// What is promised in a phase, in units per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Promised {
    /// Minimum of the aggregated policy; 0: there is none.
    pub(super) gold: u64,
    /// Minimum of one VM of each node.
    pub(super) silver: u64,
    /// Maximum of the other aggregated policy.
    pub(super) bronze: Option<u64>,
}

/// The class and the node of a VM.
pub(super) fn place_of(vm: usize) -> (Class, usize) {
    (VMS[vm % VMS.len()], vm / VMS.len())
}

/// Its LUN at the host of its node.
pub(super) fn lun(vm: usize) -> Lun {
    Lun((vm % VMS.len()) as u16)
}

pub(super) fn volume_name(vm: usize) -> String {
    format!("n{}vm{}", vm / VMS.len() + 1, vm % VMS.len() + 1)
}

/// The host of the VMs of a node.
pub(super) fn initiator(node: usize) -> String {
    format!("iqn.2026-11.model:node{}", node + 1)
}

fn pool_name(node: usize) -> String {
    format!("p{}", node + 1)
}

/// It, with so many nodes.
pub(super) fn make(qos: &Qos, shape: &ArrayNodes, nodes: usize, seed: u64) -> Result<Testbed> {
    let config = declaration(qos, (shape, nodes), modelled_drive);
    Testbed::alike(config, &qos.published.drive, seed, async |_| Ok(()))
}

/// The array without policies, with drives of these names.
pub(super) fn declaration(
    qos: &Qos,
    (shape, nodes): (&ArrayNodes, usize),
    drive: impl Fn(String) -> DriveConfig,
) -> Config {
    let drives = |node: usize| (0..shape.drives).map(move |n| format!("n{}d{n}", node + 1));
    let group = |node: usize| GroupConfig {
        stripe_unit_bytes: qos.array.stripe_unit.0 as u32,
        ..GroupConfig::new(pool_name(node), Level::Raid10, drives(node).collect())
    };
    let pool = |node: usize| PoolConfig {
        page_bytes: qos.array.page.0,
        soft_threshold_percent: 100,
        critical_threshold_percent: 100,
        placement: false,
        controller: node,
        ..PoolConfig::new(pool_name(node), vec![pool_name(node)])
    };
    let volume = |vm: usize| VolumeConfig {
        provisioning: Provisioning::Thick,
        ..VolumeConfig::new(volume_name(vm), pool_name(vm / VMS.len()), shape.disk.0)
    };
    let host = |node: usize| {
        let own = node * VMS.len()..(node + 1) * VMS.len();
        let luns = own.map(|vm| (lun(vm).0, volume_name(vm))).collect();
        HostConfig::new(format!("host{}", node + 1), initiator(node), luns)
    };
    Config {
        id: ArrayId([9; 16]),
        controllers: nodes,
        drives: (0..nodes).flat_map(drives).map(drive).collect(),
        groups: (0..nodes).map(group).collect(),
        pools: (0..nodes).map(pool).collect(),
        volumes: (0..nodes * VMS.len()).map(volume).collect(),
        qos: QosSettings {
            unit_bytes: qos.published.unit.0,
            depth_max: qos.array.depth,
            ..QosSettings::default()
        },
        hosts: (0..nodes).map(host).collect(),
        ..Config::empty(TARGET)
    }
}

/// The array with what is promised.
pub(super) fn with_policies(config: &Config, promised: Promised) -> Config {
    let mut config = config.clone();
    let minimum = |units: u64| Policy { minimum_iops: units, ..Policy::none() };
    let aggregated = |name: &str, policy: Policy| PolicyConfig {
        sharing: Sharing::Aggregated,
        ..PolicyConfig::new(name.into(), policy)
    };
    let gold = (promised.gold > 0).then(|| aggregated("gold", minimum(promised.gold)));
    let silver = (promised.silver > 0).then(|| PolicyConfig::new("silver".into(), minimum(promised.silver)));
    let bronze = promised
        .bronze
        .map(|most| aggregated("bronze", Policy { maximum_iops: Some(most), ..Policy::none() }));
    for (vm, volume) in config.volumes.iter_mut().enumerate() {
        let policy = match place_of(vm).0 {
            Class::Gold => &gold,
            Class::Silver => &silver,
            Class::Bronze => &bronze,
            Class::Free => &None,
        };
        volume.policy = policy.as_ref().map(|policy| policy.name.clone());
    }
    config.policies = [gold, silver, bronze].into_iter().flatten().collect();
    config
}
