//! What holds when nobody says otherwise, and objects that are declared with no more than they must have.

use std::collections::BTreeMap;

use scsi::Lun;

use super::{
    CachePolicy, CacheSettings, Class, GroupConfig, HostConfig, PoolConfig, Provisioning, VolumeConfig,
};
use super::{Level, PAGE_BYTES_DEFAULT, stripe_unit_bytes_default};

/// What hosts keep of the drives' time during a rebuild.
pub const FOREGROUND_SHARE_PERCENT_DEFAULT: u8 = 70;
/// What is read ahead of one sequential reader.
pub const READ_AHEAD_BYTES_DEFAULT: u64 = 8 << 20;
/// Used share of a pool at which a warning is raised.
pub const SOFT_THRESHOLD_PERCENT_DEFAULT: u8 = 80;
/// Used share at which somebody should act at once: a twentieth of the space is left.
pub const CRITICAL_THRESHOLD_PERCENT_DEFAULT: u8 = 95;
/// From this size on a read or write passes by the cache: 256 KiB are several stripe units or milliseconds of a drive's transfer.
pub const DIRECT_BYTES_DEFAULT: u64 = 256 << 10;
/// The logical block length that every host takes.
pub const BLOCK_BYTES_DEFAULT: u32 = 512;
/// Hosts align to it.
pub const PHYSICAL_BLOCK_BYTES_DEFAULT: u32 = 4096;

impl GroupConfig {
    /// A group of these drives, with the stripe unit that suits their number.
    pub fn new(name: String, level: Level, drives: Vec<String>) -> GroupConfig {
        GroupConfig {
            name,
            level,
            stripe_unit_bytes: stripe_unit_bytes_default(level, drives.len()),
            drives,
            foreground_share_percent: FOREGROUND_SHARE_PERCENT_DEFAULT,
            start_degraded: false,
            class: Class::default(),
        }
    }
}

impl CacheSettings {
    /// So much memory for everything that is cached.
    pub fn new(memory_bytes: u64) -> CacheSettings {
        CacheSettings {
            memory_bytes,
            read_ahead_bytes: READ_AHEAD_BYTES_DEFAULT,
            direct_bytes: DIRECT_BYTES_DEFAULT,
            ssds: Vec::new(),
            partitions: Vec::new(),
        }
    }
}

impl PoolConfig {
    /// A pool on these groups, of controller 0.
    pub fn new(name: String, groups: Vec<String>) -> PoolConfig {
        PoolConfig {
            name,
            groups,
            page_bytes: PAGE_BYTES_DEFAULT,
            leaving: Vec::new(),
            placement: true,
            soft_threshold_percent: SOFT_THRESHOLD_PERCENT_DEFAULT,
            critical_threshold_percent: CRITICAL_THRESHOLD_PERCENT_DEFAULT,
            journal: None,
            controller: 0,
        }
    }
}

impl VolumeConfig {
    /// A thin volume that is cached and was promised nothing.
    pub fn new(name: String, pool: String, len_bytes: u64) -> VolumeConfig {
        VolumeConfig {
            name,
            pool,
            len_bytes,
            provisioning: Provisioning::Thin,
            block_bytes: BLOCK_BYTES_DEFAULT,
            physical_block_bytes: PHYSICAL_BLOCK_BYTES_DEFAULT,
            cache: CachePolicy::default(),
            partition: None,
            policy: None,
            read_only: false,
            snapshot_of: None,
        }
    }
}

impl HostConfig {
    /// A host that need not prove who it is.
    pub fn new(name: String, initiator: String, luns: BTreeMap<Lun, String>) -> HostConfig {
        HostConfig { name, initiator, chap: None, mutual_chap: None, luns }
    }
}
