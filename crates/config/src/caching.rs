//! `[cache]`, `[[cache.partition]]`, and what becomes of the writes of a volume.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{schema, size};

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

/// The cache of each controller. Without this table nothing is cached, and a pool can have no journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheSettings {
    /// Memory of each controller's cache. A quarter of it is for read-ahead.
    #[serde(rename = "memory", deserialize_with = "size::bytes")]
    #[schemars(with = "schema::Size", range(min = CACHE_BYTES_MIN))]
    pub memory_bytes: u64,
    /// Read-ahead of one sequential reader at most; 0: none.
    #[serde(default = "read_ahead", rename = "read_ahead", deserialize_with = "size::bytes")]
    #[schemars(with = "schema::Size")]
    pub read_ahead_bytes: u64,
    /// Reads and writes of this size and larger bypass the cache, because drives serve them well and they
    /// would evict data that is read again. At most an eighth of the memory without its read-ahead part. A
    /// larger value lets the cache sort large writes of many hosts before it destages them.
    #[serde(default = "direct", rename = "direct", deserialize_with = "size::bytes")]
    #[schemars(with = "schema::Size", range(min = FRAME_BYTES))]
    pub direct_bytes: u64,
    /// Drives in no group as a second level of the cache, for clean data that the memory evicts: the first
    /// for controller 0, the second for controller 1. A drive that holds anything else is used only with
    /// `--overwrite`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<schema::Name>", !skip_serializing_if)]
    pub ssds: Vec<String>,
    /// Parts of the memory that are reserved for some volumes.
    #[serde(default, rename = "partition", skip_serializing_if = "Vec::is_empty")]
    pub partitions: Vec<PartitionConfig>,
}

/// A partition of each controller's cache: memory that is reserved for the volumes in it. Memory that no
/// minimum claims is shared by all. A cache has at most 63 partitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PartitionConfig {
    /// Unique among partitions; `default` and `none` are reserved.
    #[schemars(with = "schema::Name")]
    pub name: String,
    /// Memory that other volumes release when the volumes of this partition need it. All minimums together
    /// fit into three quarters of `memory`.
    #[serde(rename = "minimum", deserialize_with = "size::bytes")]
    #[schemars(with = "schema::Size")]
    pub minimum_bytes: u64,
}

/// Caching of a volume, on an array with a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "kebab-case")]
pub enum CachePolicy {
    /// Writes are acknowledged from the cache.
    #[default]
    WriteBack,
    /// Writes are acknowledged from the drives; reads are cached.
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
