//! Levels 5 and 6: rows of data units with parity, and the journal that closes their write hole.
//!
//! ```text
//!   write ──> hold rows ──> plan (parity::Plan) ──> read what it wants ──> compute parity
//!                                                                              │
//!             in place <── batch durable on all drives that it touches <── journal/
//! ```
//!
//! docs/decisions/0002-raid-and-pools.md has the reasons, docs/on_disk_format.md the bytes. The rules:
//!
//! * nothing is written in place before its batch is durable in the journal;
//! * only the holder of a row changes it, or computes from its parity;
//! * the live batches of a row have either content or intents, never both: the second kind waits for a flush.

mod change;
mod journal;
mod missing;
mod read;
mod recover;
mod rows;
mod scrub;
mod write;

pub use journal::JournalCounts;
pub(crate) use rows::Rows;

#[cfg(test)]
mod tests;
