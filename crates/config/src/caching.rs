//! `[cache]`, `[[cache.partition]]`, and what becomes of the writes of a volume.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::size;

/// Less is no cache.
pub const CACHE_BYTES_MIN: u64 = 8 << 20;
/// What the partition of volumes that are in no other is called.
pub const PARTITION_DEFAULT: &str = "default";
/// What is said instead of a partition to have a volume in the default one.
pub const PARTITION_NONE: &str = "none";
/// Partitions of a cache at most, with the default one.
pub const PARTITIONS_MAX: u16 = 64;
/// Bytes of a frame of a cache.
pub const FRAME_BYTES: u64 = 4096;
/// Share of the memory for read-ahead, in percent: no partition has it.
pub const READ_AHEAD_PERCENT: u8 = 25;
/// What is read ahead of one sequential reader.
pub const READ_AHEAD_BYTES_DEFAULT: u64 = 8 << 20;
/// From this size on a read or write passes by the cache: 256 KiB are several stripe units or milliseconds of
/// a drive's transfer.
pub const DIRECT_BYTES_DEFAULT: u64 = 256 << 10;

/// The cache of a controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSettings {
    /// Memory for content.
    #[serde(rename = "memory", deserialize_with = "size::bytes")]
    pub memory_bytes: u64,
    /// What is read ahead of one sequential reader at most; 0: nothing.
    #[serde(default = "read_ahead", rename = "read_ahead", deserialize_with = "size::bytes")]
    pub read_ahead_bytes: u64,
    /// Reads and writes of this size and more pass by the memory: drives are good at them, and they would
    /// displace what is read again. A larger one lets writes of many hosts wait for the drives together,
    /// sorted, instead of each at the drives by itself.
    #[serde(default = "direct", rename = "direct", deserialize_with = "size::bytes")]
    pub direct_bytes: u64,
    /// Drives in no group that keep what the memory gives up: the first one that of controller 0, and so on.
    /// Their content is lost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ssds: Vec<String>,
    /// Parts of the memory that belong to some volumes. What is not claimed by a minimum is shared.
    #[serde(default, rename = "partition", skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<PartitionConfig>,
}

/// A partition of the cache of each controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartitionConfig {
    /// Its name; [`PARTITION_DEFAULT`] and [`PARTITION_NONE`] are taken.
    pub name: String,
    /// Memory that others leave to it when its volumes need it.
    #[serde(rename = "minimum", deserialize_with = "size::bytes")]
    pub minimum_bytes: u64,
}

/// What becomes of the writes of a volume, where there is a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CachePolicy {
    /// They are acknowledged from the cache.
    #[default]
    WriteBack,
    /// They are on the drives before they are acknowledged; reads are cached.
    WriteThrough,
    /// Nothing is cached.
    Off,
}

impl CachePolicy {
    pub(crate) fn is_default(&self) -> bool {
        *self == CachePolicy::default()
    }
}

impl fmt::Display for CachePolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CachePolicy::WriteBack => "write-back",
            CachePolicy::WriteThrough => "write-through",
            CachePolicy::Off => "off",
        })
    }
}

fn read_ahead() -> u64 {
    READ_AHEAD_BYTES_DEFAULT
}
fn direct() -> u64 {
    DIRECT_BYTES_DEFAULT
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

    /// Memory for frames, without that for read-ahead: the minimums of all partitions are no more than this.
    pub fn frames_bytes(&self) -> u64 {
        let bytes = self.memory_bytes - self.memory_bytes / 100 * u64::from(READ_AHEAD_PERCENT);
        bytes / FRAME_BYTES * FRAME_BYTES
    }
}
