//! The cache of a controller: reads that are ready, writes that are safe before they are in place.
//!
//! docs/decisions/0003-cache-and-journal.md has the plan and the allowed outcomes of a crash.

#![forbid(unsafe_code)]

mod destage;
mod frames;
mod journal;
mod plan;
mod segments;
mod streams;
mod unit;

pub use frames::{
    ALL_SECTORS, FRAME_BYTES, FrameCounts, FrameRef, FrameState, Frames, Key, NoFrame, PARTITIONS_MAX,
    PartitionCounts, PartitionId, Picked, SECTOR_BYTES, UnitFrames, UnitId,
};
pub use plan::{RUN_BLOCKS_MAX, Run, next_run, run_at};
pub use segments::{Part, SegmentCounts, Segments, Ticket};
pub use streams::{Ahead, AheadLimits, Streams};
