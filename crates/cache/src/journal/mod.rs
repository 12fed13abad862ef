//! The journal: where acknowledged writes are durable before they are destaged.
//!
//! ```text
//!   append ──> gathering batches ──commit──> the ring: batch, batch, batch … ──> durable
//!                                                 ^ tail ──retire── what is in place and flushed
//!   open: header ──> from the tail on, batch by batch, until one does not fit ──> Replay
//! ```
//!
//! docs/on_disk_format.md has the bytes, and why replay is correct.

mod batch;
mod commit;
mod header;
mod open;
mod regions;
mod replay;

#[cfg(test)]
mod mirror_tests;
#[cfg(test)]
mod tests;

pub use commit::{Journal, JournalCounts};
pub use open::{FoundJournal, JournalError, erase_journal, journal_on, journal_with_records};
pub use replay::{Replay, ReplayRecord};

/// Alignment of all structures of a journal.
pub(crate) const BLOCK: u64 = 4096;
/// Offset of the ring, behind the two copies of the header.
pub(crate) const RING_START: u64 = 2 * BLOCK;
/// Limit of positions and numbers, 4 EiB: values read from a device are checked against it, so that nothing
/// overflows.
pub(crate) const COUNTER_END: u64 = 1 << 62;
/// Limit of the counters at the start of an epoch: the rest up to the limit above cannot be used up by one
/// epoch, so that the next start can read the journal.
pub(crate) const COUNTER_FULL: u64 = COUNTER_END - (1 << 60);
