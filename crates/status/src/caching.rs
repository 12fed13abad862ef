//! Caches and journals.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A controller's cache.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Cache {
    /// The controller whose memory it is.
    pub controller: usize,
    /// Memory for content.
    pub memory_bytes: u64,
    /// Of it, what holds content.
    pub used_bytes: u64,
    /// What is not on the drives yet.
    pub pending_bytes: u64,
    /// The same as a share of all frames.
    pub pending_percent: u8,
    /// Times a write had to wait because too much was pending.
    pub waits: u64,
    /// Frames given up.
    pub evictions: u64,
    /// The SSD behind the memory, if there is one.
    #[serde(default)]
    pub second: Option<SecondLevel>,
    /// Partitions; the first one is that of all volumes which are in no other.
    #[serde(default)]
    pub partitions: Vec<CachePartition>,
    /// Cached volumes.
    pub volumes: Vec<CachedVolume>,
    /// Journals of pools.
    pub journals: Vec<Journal>,
}

/// A partition of a cache.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CachePartition {
    /// As declared; `default` for volumes of no other.
    pub name: String,
    /// What others leave to its volumes when they need it.
    pub minimum_bytes: u64,
    /// Bytes in its frames.
    pub used_bytes: u64,
    /// Of these, bytes that are not on the drives yet.
    pub pending_bytes: u64,
    /// Frames it gave up.
    pub evictions: u64,
    /// What volumes did while they were in it.
    #[serde(flatten)]
    pub traffic: CacheTraffic,
}

/// What one volume, or the volumes of a partition, did with a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CacheTraffic {
    /// Bytes read by hosts.
    pub read_bytes: u64,
    /// Of these, bytes that were in memory.
    pub read_hit_bytes: u64,
    /// Bytes written by hosts.
    pub write_bytes: u64,
    /// Of these, bytes that found room at once: the write waited neither for a destage nor for the journal's
    /// room, and nothing of it was written to the pool before it was acknowledged.
    pub write_hit_bytes: u64,
    /// Bytes written to the pool by destages.
    pub destaged_bytes: u64,
    /// Bytes read ahead.
    pub ahead_bytes: u64,
    /// Of these, bytes that were asked for.
    pub ahead_used_bytes: u64,
}

/// The SSD behind a cache's memory.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SecondLevel {
    /// Room for content.
    pub size_bytes: u64,
    /// Content.
    pub used_bytes: u64,
    /// Blocks that were found.
    pub hits: u64,
    /// Blocks that were not.
    pub misses: u64,
    /// Bytes written to it.
    pub written_bytes: u64,
    /// It is off, because its drive failed.
    pub failed: bool,
    /// On which it is, as declared.
    #[serde(default)]
    pub drive: Option<String>,
}

/// A volume under a cache.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CachedVolume {
    /// Its name.
    pub volume: String,
    /// `write-back`, `write-through` or `off`.
    #[serde(default)]
    pub policy: String,
    /// The partition whose frames it uses.
    #[serde(default)]
    pub partition: String,
    /// Bytes in frames.
    pub cached_bytes: u64,
    /// Of these, bytes that are not on the drives yet.
    pub pending_bytes: u64,
    /// What hosts did, and what became of it.
    #[serde(flatten)]
    pub traffic: CacheTraffic,
    /// Writes to the pool that destages made.
    pub destages: u64,
    /// Bytes that were read ahead and went away unused.
    pub ahead_unused_bytes: u64,
}

/// The journal of a pool.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Journal {
    /// The pool whose writes it makes durable.
    pub pool: String,
    /// The group that it is on.
    #[serde(default)]
    pub group: String,
    /// Why it takes no writes any more: its drives failed.
    #[serde(default)]
    pub failure: Option<String>,
    /// The medium of the drive that failed, where it is one drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_medium: Option<String>,
    /// Records taken.
    pub records: u64,
    /// Commits: one flush each.
    pub commits: u64,
    /// Bytes written to it.
    pub bytes: u64,
    /// Bytes that a replay would read.
    pub live_bytes: u64,
    /// Length of its ring on the drives.
    pub size_bytes: u64,
}
