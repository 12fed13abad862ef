//! An array of the laboratory's own: real controllers on threads of this process, at a port that the system
//! chooses.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow};
use array::DriveSpec;
use array::config::{
    ArrayId, Config, DriveConfig, GroupConfig, HostConfig, Level, PoolConfig, PortalConfig, VolumeConfig,
};
use array::status::{ControllerStatus, Drive};
use futures::executor::block_on;
use lab_core::quantity::Size;
use scsi::Counters;
use serde::Deserialize;

use super::thread::{ArrayThread, portal};
use crate::hosts::thread_cpu;

/// The array under test.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrayShape {
    /// What its drives are.
    pub drives: DriveKind,
    /// Page size of its pools.
    pub page: Size,
    /// TCP segments on both ends.
    pub segment_bytes_max: u16,
}

/// What the drives of the array are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DriveKind {
    /// A buffer of this process: its time is that of the processor.
    Memory,
    /// Sparse files.
    File,
}

/// A pool of the array under test, with one volume on it.
#[derive(Clone, Debug)]
pub struct PoolShape {
    /// Its name, and that of its drive, group and volume.
    pub name: &'static str,
    /// Capacity of the drive.
    pub drive_bytes: u64,
    /// Capacity of the volume.
    pub volume_bytes: u64,
    /// Its soft threshold.
    pub threshold_percent: u8,
}

/// A running array.
pub struct Embedded {
    /// Its meter is the CPU time of its controller's thread.
    running: ArrayThread<Duration>,
    files: Vec<PathBuf>,
}

/// What an array has done so far.
#[derive(Clone, Debug, Default)]
pub struct ArrayReading {
    /// CPU time of its controller's thread.
    pub cpu: Duration,
    /// By name.
    pub drives: BTreeMap<String, Drive>,
    /// By name.
    pub volumes: BTreeMap<String, Counters>,
    /// By name: bytes used and bytes for data.
    pub pools: BTreeMap<String, (u64, u64)>,
}

/// The target's name.
pub const TARGET: &str = "iqn.2026-11.net.masu:lab";
/// Stripe unit of groups with one drive, where it does not matter.
const STRIPE_UNIT_BYTES: u32 = 64 << 10;

fn config(shape: &ArrayShape, pools: &[PoolShape], seed: u64, dir: &Path) -> (Config, Vec<PathBuf>) {
    let mut config = Config::empty(TARGET);
    let mut id = [0; 16];
    id[..8].copy_from_slice(b"masu-lab");
    id[8..].copy_from_slice(&seed.to_be_bytes());
    config.id = ArrayId(id);
    config.portals = vec![PortalConfig { segment_bytes_max: Some(shape.segment_bytes_max), ..portal() }];
    let mut files = Vec::new();
    let mut luns = BTreeMap::new();
    for (i, pool) in pools.iter().enumerate() {
        let name = pool.name.to_owned();
        let spec = match shape.drives {
            DriveKind::Memory => DriveSpec::Memory { name: name.clone(), len_bytes: pool.drive_bytes },
            DriveKind::File => {
                let path = dir.join(format!("drive-{name}.img"));
                files.push(path.clone());
                DriveSpec::File { path, create_len_bytes: Some(pool.drive_bytes) }
            }
        };
        config.drives.push(DriveConfig { name: name.clone(), spec });
        config.groups.push(GroupConfig {
            stripe_unit_bytes: STRIPE_UNIT_BYTES,
            ..GroupConfig::new(name.clone(), Level::Raid0, vec![name.clone()])
        });
        config.pools.push(PoolConfig {
            page_bytes: shape.page.0,
            soft_threshold_percent: pool.threshold_percent,
            critical_threshold_percent: 100,
            ..PoolConfig::new(name.clone(), vec![name.clone()])
        });
        config.volumes.push(VolumeConfig::new(name.clone(), name.clone(), pool.volume_bytes));
        luns.insert(i as u16, name);
    }
    config.hosts = vec![HostConfig::new("hosts".into(), "*".into(), luns)];
    (config, files)
}

impl Embedded {
    /// Starts an array with these pools; their volumes are LUN 0, 1, …
    pub fn start(shape: &ArrayShape, pools: &[PoolShape], seed: u64, dir: &Path) -> Result<Embedded> {
        let (config, files) = config(shape, pools, seed, dir);
        if let Some(file) = files.iter().find(|f| f.exists()) {
            return Err(anyhow!(
                "{}: is there already, perhaps of a run that was killed: remove it",
                file.display()
            ));
        }
        let running = ArrayThread::start(&[config], seed, |world| (world, thread_cpu))?;
        Ok(Embedded { running, files })
    }

    /// Where it listens.
    pub fn listen(&self) -> SocketAddr {
        self.running.listen
    }

    /// What it has done so far.
    pub fn read(&self) -> Result<ArrayReading> {
        let cpu = block_on(self.running.meter.read())?;
        Ok(ArrayReading::of(cpu, self.running.status()?))
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // The data goes with the array, which still stops after this.
        for file in &self.files {
            let _ = std::fs::remove_file(file);
        }
    }
}

impl ArrayReading {
    /// From what its controllers say, and the time that they have worked.
    pub fn of(cpu: Duration, status: Vec<ControllerStatus>) -> ArrayReading {
        let mut reading = ArrayReading { cpu, ..ArrayReading::default() };
        for part in status {
            reading.drives.extend(part.drives.into_iter().map(|d| (d.name.clone(), d)));
            reading.volumes.extend(part.volumes.into_iter().map(|v| (v.name, v.counters)));
            reading.pools.extend(part.pools.into_iter().map(|p| (p.name, (p.used_bytes, p.size_bytes))));
        }
        reading
    }

    /// Bytes that drives read and wrote since `before`, those of all pools.
    pub fn drive_bytes_since(&self, before: &ArrayReading) -> u64 {
        let total = |reading: &ArrayReading| {
            reading.drives.values().map(|c| c.read_bytes + c.write_bytes).sum::<u64>()
        };
        total(self).saturating_sub(total(before))
    }

    /// A counter of all LUs since `before`.
    pub fn counted_since(&self, before: &ArrayReading, of: impl Fn(&Counters) -> u64) -> u64 {
        let total = |reading: &ArrayReading| reading.volumes.values().map(&of).sum::<u64>();
        total(self).saturating_sub(total(before))
    }

    /// CPU time since `before`.
    pub fn cpu_since(&self, before: &ArrayReading) -> Duration {
        self.cpu.saturating_sub(before.cpu)
    }
}
