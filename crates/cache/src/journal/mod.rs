//! The journal: where acknowledged writes are durable before they are destaged.
//!
//! ```text
//!   append ──> gathering batches ──commit──> the ring: batch, batch, batch … ──> durable
//!                                                 ^ tail ──retire── what is in place and flushed
//!   open: header ──> from the tail on, batch by batch, until one does not fit ──> Replay
//! ```
//!
//! docs/on_disk_format.md has the bytes, and why a replay is right.

mod batch;
mod commit;
mod header;
mod open;
mod regions;
mod replay;

#[cfg(test)]
mod tests;

pub use commit::{Journal, JournalCounts};
pub use open::JournalError;
pub use replay::{Replay, ReplayRecord};

/// Everything in a journal begins at a multiple of this.
pub(crate) const BLOCK: u64 = 4096;
/// The ring begins behind the two copies of the header.
pub(crate) const RING_START: u64 = 2 * BLOCK;
/// Positions and numbers stay below this, 4 EiB: what is read from a device is held to it, so that nothing overflows.
pub(crate) const COUNTER_END: u64 = 1 << 62;
/// A life of a journal begins below this: it writes less than what is left before the end, so that the next life can read it.
pub(crate) const COUNTER_FULL: u64 = COUNTER_END - (1 << 60);
