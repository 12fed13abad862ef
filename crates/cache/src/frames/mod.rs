//! The frames: 4 KiB blocks in memory, what is valid and what is dirty in them, whose they are and which go first.
//!
//! ```text
//!  key ──index──> slot ──┬─ data, masks of sectors, state              state, table, transit
//!                        ├─ a queue of its partition, while clean      policy, partition, queue, ghost
//!                        └─ the books of its unit                      dirty
//! ```
//!
//! Everything here is arithmetic on memory: no I/O, no clock, no chance. The same calls give the same frames.

mod dirty;
mod ghost;
mod index;
mod partition;
mod policy;
pub(crate) mod queue;
mod state;
mod table;
mod transit;

#[cfg(test)]
mod tests;

pub(crate) use index::NONE;
pub use partition::{PARTITIONS_MAX, PartitionCounts};
pub use state::{ALL_SECTORS, FRAME_BYTES, FrameState, Key, NoFrame, PartitionId, SECTOR_BYTES, UnitId};
pub use table::{FrameCounts, FrameRef, Frames};
pub use transit::{Picked, UnitFrames};
