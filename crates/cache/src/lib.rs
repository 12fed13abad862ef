//! The cache of a controller: reads that are ready, writes that are safe before they are in place.
//!
//! ```text
//!   Cache ── memory, partitions, the elevator          one per controller
//!   Unit ─── one store (a volume) with the cache over it: read, write, change, settle, flush
//!   Journal ─ where acknowledged writes are durable before they are destaged: one per pool
//! ```
//!
//! docs/decisions/0003-cache-and-journal.md has the plan and the allowed outcomes of a crash.

#![forbid(unsafe_code)]

mod cache;
mod destage;
mod frames;
mod generations;
mod journal;
mod plan;
mod recover;
mod rows;
mod second;
mod segments;
mod store;
mod streams;
mod traffic;
mod unit;

#[cfg(test)]
mod tests;

pub use cache::{Cache, CacheConfig, CacheCounts, PartitionStatus};
pub use frames::{
    ALL_SECTORS, FRAME_BYTES, FrameCounts, FrameRef, FrameState, Frames, Key, NoFrame, PARTITIONS_MAX,
    PartitionCounts, PartitionId, Picked, SECTOR_BYTES, UnitFrames, UnitId,
};
pub use journal::{Journal, JournalCounts, JournalError, Replay, ReplayRecord};
pub use plan::{RUN_BLOCKS_MAX, Run, next_run, run_at};
pub use recover::Replayed;
pub use second::SecondCounts;
pub use segments::{Part, SegmentCounts, Segments, Ticket};
pub use store::Store;
pub use streams::{Ahead, AheadLimits, Streams};
pub use traffic::Traffic;
pub use unit::{Settled, Unit, UnitCounts, UnitSpec, WritePolicy};
