//! The cache of a controller: read cache, read-ahead, write-back, and the journal that makes acknowledged
//! writes durable.
//!
//! ```text
//!   Cache ── memory, partitions, the elevator          one per controller
//!   Unit ─── one store (a volume) with the cache over it: read, write, change, settle, flush
//!   Journal ─ where acknowledged writes are durable before they are destaged: one per pool
//! ```
//!
//! The crate depends on `block` and `world`: a [`block::BackingStore`] is a `block::Device` that also tells
//! which writes it can take in place. The decisions (frames and replacement, streams, runs of the elevator)
//! are pure modules without I/O or clock; the I/O is in `unit`, `destage`, `journal` and `second`.
//!
//! # Life cycle
//!
//! 1. [`Cache::new`] with a [`CacheConfig`], once per controller; [`Cache::set_partition`] and
//!    [`Cache::set_second_level`] as declared.
//! 2. [`Journal::create`] writes an empty journal to its device, once. Every later start calls
//!    [`Journal::open`], which returns the journal and a [`Replay`] of its records.
//! 3. [`Cache::attach`] for each volume returns its [`Unit`], with the journal of its pool or without one.
//! 4. [`Cache::replay`] applies the records to the units, before anything else uses them. Replayed writes
//!    become dirty frames; service can begin at once, and destage continues in the background. A replay can
//!    be interrupted and repeated.
//! 5. Hosts use [`Unit::read`], [`Unit::write`], [`Unit::flush`] and [`Unit::sync`]; operations on the store
//!    itself (zeroing, unmapping, copies) go through [`Unit::change`], [`Unit::change_from`] and
//!    [`Unit::settle`].
//! 6. [`Cache::detach`] destages a unit and flushes its store; afterwards nothing of it is in frames.
//!    [`Journal::close`] follows the last unit of a journal. Omitting it loses nothing: the next start
//!    replays records that are already in place.
//!
//! # What is durable when
//!
//! | | with a journal (WCE = 0) | without a journal (WCE = 1) |
//! |---|---|---|
//! | [`Unit::write`] returns | not yet: the data are in frames, the record is queued | not yet: the data are in frames |
//! | [`Unit::flush`], [`Unit::sync`] return | yes: the records are in a flushed commit of the journal | yes: the dirty frames are destaged, and the store is flushed |
//! | [`Unit::change`] returns | as the store says. If the journal had older records of the range, the store was flushed and a *Forget* was queued | as the store says |
//!
//! With a policy other than [`WritePolicy::Back`], and for writes of `direct_bytes` and more, [`Unit::write`]
//! writes to the store before it returns; the data are durable after a flush. A frame may be destaged before
//! its record is durable: data that are not acknowledged may be on the store. A record is retired when its
//! frames are destaged and their store is flushed.
//!
//! After a power failure each 512-byte sector has its acknowledged content; if a later write or change was
//! not acknowledged, its old or new content. `docs/on_disk_format.md` has the bytes of the journal and the
//! allowed outcomes, `docs/decisions/0003-cache-and-journal.md` the reasons.
//!
//! # Errors
//!
//! * Errors are `block::BlockError` and reach the caller whose data they concern: a read returns the store's
//!   error; a write that the store cannot take in place is written to the store first, so that a full pool
//!   fails this write and not a later destage.
//! * A failed destage keeps its frames dirty. Until a destage of the unit succeeds, [`Unit::failure`] has the
//!   reason, and further write-back writes to the unit fail with it; reads continue. The background task
//!   tries again.
//! * A journal whose device does not respond or has no space is retried; meanwhile its waiters get the error.
//!   After any other failed write or flush of the journal it is poisoned, and all later appends fail until it
//!   is opened again.
//! * A damaged journal is not opened ([`JournalError`]): a batch that is missing before a later commit is
//!   damage, a torn last commit is not.
//! * An error of the SSD disables the second level; its content is expendable.
//! * `assert!` and `panic!` report violations of the crate's own rules (for example two destages of one
//!   frame), never input.

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
pub use journal::{
    FoundJournal, Journal, JournalCounts, JournalError, Replay, ReplayRecord, erase_journal, journal_on,
    journal_with_records,
};
pub use plan::{RUN_BLOCKS_MAX, Run, next_run, run_at};
pub use recover::Replayed;
pub use second::SecondCounts;
pub use segments::{Part, SegmentCounts, Segments, Ticket};
pub use streams::{Ahead, AheadLimits, Streams};
pub use traffic::Traffic;
pub use unit::{Settled, Unit, UnitCounts, UnitSpec, WritePolicy};
