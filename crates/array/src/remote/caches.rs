//! The status of a cache and its journals.

use cache::{CacheCounts, FrameCounts, SegmentCounts, UnitFrames};
use serde::{Deserialize, Serialize};

use super::lists::lists;
use crate::config::CachePolicy;
use crate::status::{
    CacheStatus, CachedStatus, JournalCounts, JournalStatus, PartitionCounts, PartitionStatus, SecondCounts,
    Traffic, UnitCounts,
};

#[derive(Serialize, Deserialize)]
#[serde(remote = "CacheStatus")]
pub(super) struct Caching {
    memory_bytes: u64,
    #[serde(with = "Counts")]
    counts: CacheCounts,
    #[serde(with = "seconds")]
    second: Option<SecondCounts>,
    ssd: Option<String>,
    #[serde(with = "partitions")]
    partitions: Vec<PartitionStatus>,
    #[serde(with = "units")]
    units: Vec<CachedStatus>,
    #[serde(with = "journals")]
    journals: Vec<JournalStatus>,
}

lists! {
    seconds: Option<SecondCounts> as "Second";
    partitions: Vec<PartitionStatus> as "Partition";
    units: Vec<CachedStatus> as "Cached";
    journals: Vec<JournalStatus> as "Journal";
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "CacheCounts")]
struct Counts {
    #[serde(with = "InFrames")]
    frames: FrameCounts,
    pending_percent: u8,
    waits: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "FrameCounts")]
struct InFrames {
    capacity: u32,
    clean: u32,
    dirty: u32,
    destaging: u32,
    rewritten: u32,
    evictions: u64,
    ghost_hits: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "SecondCounts")]
struct Second {
    capacity: u64,
    blocks: u64,
    hits: u64,
    misses: u64,
    written: u64,
    failed: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "PartitionStatus")]
struct Partition {
    name: String,
    #[serde(with = "PartitionFrames")]
    frames: PartitionCounts,
    #[serde(with = "Moved")]
    traffic: Traffic,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "PartitionCounts")]
struct PartitionFrames {
    frames: u32,
    frames_min: u32,
    dirty: u32,
    hits: u64,
    misses: u64,
    evictions: u64,
    ghost_hits: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Traffic")]
struct Moved {
    read_bytes: u64,
    read_hit_bytes: u64,
    write_bytes: u64,
    write_hit_bytes: u64,
    destaged_bytes: u64,
    ahead_bytes: u64,
    ahead_used_bytes: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "CachedStatus")]
struct Cached {
    volume: String,
    policy: CachePolicy,
    partition: String,
    #[serde(with = "Unit")]
    counts: UnitCounts,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "UnitCounts")]
struct Unit {
    reads: u64,
    read_bytes: u64,
    read_hit_bytes: u64,
    writes: u64,
    write_bytes: u64,
    write_hit_bytes: u64,
    destages: u64,
    destaged_bytes: u64,
    destages_failed: u64,
    #[serde(with = "Segment")]
    ahead: SegmentCounts,
    #[serde(with = "OfUnit")]
    frames: UnitFrames,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "SegmentCounts")]
struct Segment {
    read_bytes: u64,
    used_bytes: u64,
    unused_bytes: u64,
    held_bytes: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "UnitFrames")]
struct OfUnit {
    frames: u32,
    dirty: u32,
    in_flight: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "JournalStatus")]
struct Journal {
    pool: String,
    group: String,
    failure: Option<String>,
    failed_medium: Option<String>,
    #[serde(with = "Records")]
    counts: JournalCounts,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "JournalCounts")]
struct Records {
    records: u64,
    batches: u64,
    commits: u64,
    bytes: u64,
    live_bytes: u64,
    ring_bytes: u64,
}
