//! Thin pools: RAID groups whose space is allocated to volumes in pages. A pool knows nothing of RAID levels
//! or SCSI.
//!
//! ```text
//!   Volume ── map ── page ──────────────> group          (data: read, write, zero)
//!      │
//!      └── every change of a map ── pending ── commit ── journal ── checkpoint
//!                                  (memory)    (flush)   (metadata region of two groups)
//! ```
//!
//! # Life cycle
//!
//! * [`Pool::create`] marks every group and then writes an empty checkpoint. The pool exists when a
//!   superblock names that checkpoint; an interrupted creation can be repeated.
//! * [`Pool::open`] takes all groups of the pool in any order, reads checkpoint and journal from the most
//!   recent of the two copies of the metadata, and writes a new checkpoint unless the pool was closed
//!   cleanly.
//! * Volumes: [`Pool::create_volume`], [`Pool::clone_volume`], [`Pool::grow_volume`],
//!   [`Pool::delete_volume`]. A volume never shrinks.
//! * Groups: [`Pool::add_group`]; [`Pool::evacuate`], then [`Pool::remove_group`]. [`Pool::rebalance`] and
//!   [`Pool::place`] move pages between groups, [`Pool::reclaim`] releases pages of zeros. All of them work
//!   online.
//! * [`erase_superblocks`] ends a closed pool: its groups are in no pool then.
//! * [`Pool::close`] flushes and closes the groups. [`check()`] inspects a closed pool and writes nothing.
//!
//! # What is durable when
//!
//! * Administrative operations are durable when they return.
//! * Data are durable after a flush that begins when the write has returned. Until then a power failure
//!   leaves, per sector, the old or the new content. If a write changed the map, the same flush also commits
//!   that change.
//! * A commit flushes the groups first and then appends one frame to the journal: a map never refers to a
//!   page whose data are not durable. Without a flush, a change of the map is committed within a second.
//! * Metadata are on two groups (or on the only one). Each has two superblock slots, two checkpoint areas and
//!   two journal halves, so that a torn write never damages the state in force.
//!
//! docs/on_disk_format.md describes every byte, and what a power failure leaves.
//!
//! # Invariants
//!
//! * A page is written in place only by its single owner, and only once that ownership is durable
//!   (`settles_at`).
//! * A page is allocated again only when its release is durable and nothing reads it any more.
//! * A map changes only with its entries locked, while no write to their pages is in flight.
//! * A page moves to another group only with all references to it locked, and all of them follow it.
//!
//! # Errors
//!
//! Administrative operations return [`PoolError`]: one line with pool, group or volume, and cause. I/O
//! returns [`block::BlockError`]:
//!
//! * `NoSpace`: no free page for this write. Writes in place, reads and unmaps still succeed.
//! * An error of a group is passed on. While metadata cannot be written for lack of space below, or because a
//!   drive is unresponsive, the pool repeats the write and commits fail with that error.
//! * `Poisoned`: a metadata write failed for good. It is then unknown what is durable, so the pool accepts
//!   nothing until it is opened again.
//! * `Corrupt`: the metadata contradict themselves, with place and cause.
//!
//! Futures that write, zero or copy must be driven to their end. If one is dropped, its page stays out of use
//! until the next start, because the drive may still be writing to it.

#![forbid(unsafe_code)]

mod area;
mod audit;
mod catalog;
mod check;
mod checkpoint;
mod checkpoint_task;
mod closed;
mod codec;
mod commit;
mod commit_task;
mod compose;
mod contents;
mod copy;
mod create;
mod erase;
mod error;
mod evacuate;
mod events;
mod groups;
mod grow;
mod inner;
mod journal;
mod layout;
mod lifecycle;
mod map;
mod open;
mod pace;
mod page_io;
mod place;
mod placed;
mod placement;
mod pool;
mod read;
mod rebalance;
mod reclaim;
mod record;
mod records;
mod recover;
mod release;
mod relocate;
mod restructure;
mod rod;
mod rods;
mod space;
mod span;
mod spec;
mod structure;
mod superblock;
mod table;
mod totals;
mod volume;
mod volume_state;
mod write;

#[cfg(test)]
mod tests;

pub use check::{Finding, check};
pub use closed::Closed;
pub use copy::Copied;
pub use erase::erase_superblocks;
pub use error::PoolError;
pub use events::{PoolEvent, Threshold};
pub use groups::GroupSpace;
pub use layout::{PAGE_BYTES_DEFAULT, PAGE_BYTES_MAX, PAGE_BYTES_MIN, RECORD_BYTES_MAX};
pub use open::pool_on;
pub use placed::{ClassHeat, Decision, HeatReport, Placed};
pub use placement::{Class, Reason};
pub use pool::Pool;
pub use reclaim::Reclaimed;
pub use relocate::Moved;
pub use rod::Rod;
pub use spec::{PoolCounts, PoolId, PoolSpace, PoolSpec};
pub use volume::{Extent, Volume, VolumeId, VolumeSpace};
pub use volume_state::Provisioning;
