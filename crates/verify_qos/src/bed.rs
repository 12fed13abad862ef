//! The array in the model world: RAID 1+0 of modelled drives, one pool, one LU for each VM.
//!
//! It is made once on disks that cost no time, and its content is moved to modelled drives for every run: all
//! runs begin with the same array.

use anyhow::Result;
use array::config::{
    ArrayId, CachePolicy, CacheSettings, GroupConfig, HostConfig, Level, Policy, PolicyConfig, PoolConfig,
    Provisioning, QosSettings, VolumeConfig,
};
use array::{Config, LocalSession, Lun};

use super::scenario::Qos;
use lab_tools::testbed::{Started, Testbed, modelled_drive};

pub(super) const TARGET: &str = "iqn.2026-11.model:qos";
/// Group and pool.
pub(super) const POOL: &str = "pool";

/// What is on the array.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// LUs.
    pub(super) volumes: usize,
    /// Each.
    pub(super) volume_bytes: u64,
    /// Beside them, on no VM's path: what else lies on the array.
    pub(super) others_bytes: u64,
    /// A drive that is in no group.
    pub(super) has_spare: bool,
}

impl Shape {
    /// That of the published experiment.
    pub(super) fn published(qos: &Qos) -> Shape {
        Shape {
            volumes: qos.published.vms,
            volume_bytes: qos.published.disk.0,
            others_bytes: qos.array.others.0,
            has_spare: false,
        }
    }
}

pub(super) fn drive_name(number: u32) -> String {
    format!("d{number}")
}

pub(super) fn volume_name(vm: usize) -> String {
    format!("vm{:02}", vm + 1)
}

/// Volumes grow in so many pieces in turn, so that none has better places on the drives than another.
pub(super) const PIECES: u64 = 32;

/// So many pieces of each volume.
pub(super) fn grown(whole: &Config, pieces: u64) -> Config {
    let mut config = whole.clone();
    for volume in &mut config.volumes {
        // Whole MiB, as volumes are.
        volume.len_bytes = ((volume.len_bytes >> 20) * pieces / PIECES) << 20;
    }
    config
}

/// So many LUs are mapped to one host.
const LUS_PER_HOST: usize = 100;

fn initiator(host: usize) -> String {
    format!("iqn.2026-11.model:host{host}")
}

/// Under which number a VM's host sees its LU.
pub(super) fn lun(vm: usize) -> Lun {
    Lun((vm % LUS_PER_HOST) as u16)
}

/// An array that was made.
pub(super) type Bed = Testbed;

pub(super) fn make(qos: &Qos, shape: Shape, seed: u64) -> Result<Testbed> {
    let config = declaration(qos, shape);
    Testbed::alike(grown(&config, 1), &qos.published.drive, seed, async |started| {
        for piece in 2..=PIECES {
            started.array.apply(grown(&config, piece)).await?;
        }
        Ok(())
    })
}

/// A session of a VM's host, for this VM alone.
pub(super) fn session(started: &Started, vm: usize) -> Result<LocalSession> {
    let isid = [0, 0, 0, 0, 0, (vm % LUS_PER_HOST) as u8];
    let opened = started.port().open(&initiator(vm / LUS_PER_HOST), isid);
    opened.map_err(|e| anyhow::anyhow!("VM {vm}: its host is refused: {e}"))
}

/// The array with these policies, one for each VM that is promised anything.
pub(super) fn with_policies(config: &Config, policies: &[Policy]) -> Config {
    let mut config = config.clone();
    config.policies.clear();
    for (vm, policy) in policies.iter().enumerate() {
        let name = (!policy.is_none()).then(|| volume_name(vm));
        if let Some(name) = name.clone() {
            config.policies.push(PolicyConfig::new(name, *policy));
        }
        config.volumes[vm].policy = name;
    }
    config
}

/// The array, on modelled drives.
pub(super) fn declaration(qos: &Qos, shape: Shape) -> Config {
    let in_group: Vec<String> = (0..qos.published.drives).map(drive_name).collect();
    let spare = shape.has_spare.then(|| drive_name(qos.published.drives));
    let has_cache = qos.array.cache.0 > 0;
    let volume = |name: String, len_bytes: u64| VolumeConfig {
        provisioning: Provisioning::Thick,
        cache: if has_cache { CachePolicy::default() } else { CachePolicy::Off },
        ..VolumeConfig::new(name, POOL.into(), len_bytes)
    };
    let host = |host: usize| {
        HostConfig::new(
            format!("host{host}"),
            initiator(host),
            (host * LUS_PER_HOST..shape.volumes.min((host + 1) * LUS_PER_HOST))
                .map(|vm| (lun(vm).0, volume_name(vm)))
                .collect(),
        )
    };
    Config {
        id: ArrayId([9; 16]),
        controllers: 1,
        drives: in_group.iter().cloned().chain(spare.clone()).map(modelled_drive).collect(),
        spares: spare.into_iter().collect(),
        // A write waits in it, however long it is, until the drives have made room.
        cache: has_cache.then(|| CacheSettings {
            direct_bytes: 2 * qos.published.transfer.0,
            ..CacheSettings::new(qos.array.cache.0)
        }),
        groups: vec![GroupConfig {
            stripe_unit_bytes: qos.array.stripe_unit.0 as u32,
            ..GroupConfig::new(POOL.into(), Level::Raid10, in_group)
        }],
        pools: vec![PoolConfig {
            page_bytes: qos.array.page.0,
            soft_threshold_percent: 100,
            critical_threshold_percent: 100,
            placement: false,
            ..PoolConfig::new(POOL.into(), vec![POOL.into()])
        }],
        volumes: (0..shape.volumes)
            .map(|vm| volume(volume_name(vm), shape.volume_bytes))
            .chain((shape.others_bytes > 0).then(|| volume("others".into(), shape.others_bytes)))
            .collect(),
        qos: QosSettings {
            unit_bytes: qos.published.unit.0,
            depth_max: qos.array.depth,
            ..QosSettings::default()
        },
        hosts: (0..shape.volumes.div_ceil(LUS_PER_HOST)).map(host).collect(),
        ..Config::empty(TARGET)
    }
}
