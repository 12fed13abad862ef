//! Frames: 4 KiB blocks in memory with their valid and dirty sectors, ownership and eviction order.
//!
//! ```text
//!  key ──index──> slot ──┬─ data, masks of sectors, state              state, table, transit
//!                        ├─ a queue of its partition, while clean      policy, partition, queue, ghost
//!                        └─ the books of its unit                      dirty
//! ```
//!
//! Pure computation on memory: no I/O, no clock, no randomness. The same calls give the same frames.

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
