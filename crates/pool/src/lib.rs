//! Thin pools: RAID groups whose space is handed out to volumes in pages.
//!
//! ```text
//!   Volume ── map ── page ──────────────> group          (data: read, write, zero)
//!      │
//!      └── every change of a map ── pending ── commit ── journal ── checkpoint
//!                                  (memory)    (flush)   (metadata region of two groups)
//! ```
//!
//! What a power cut leaves, and why, is written in docs/on_disk_format.md; in short: everything that a flush
//! acknowledged, and of the rest, per sector, the old or the new content.
//!
//! The rules that hold it together:
//!
//! * a page is written in place only by its single owner, and only once that ownership is durable (`settles_at`);
//! * a page is handed out again only when its release is durable and nothing reads it any more;
//! * a map is changed only with its entries locked, when no write to the pages in question is in flight;
//! * a page moves to another group with everything that refers to it locked, and all of that follows it.
//!
//! Futures that write, zero or copy are driven to their end. One that is dropped in the middle keeps its page out of
//! further use until the next start, because the drive may still be writing to it.

#![forbid(unsafe_code)]

mod area;
mod audit;
mod catalog;
mod check;
mod checkpoint;
mod checkpoint_task;
mod codec;
mod commit;
mod commit_task;
mod compose;
mod contents;
mod copy;
mod create;
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
pub use copy::Copied;
pub use error::PoolError;
pub use events::{PoolEvent, Threshold};
pub use groups::GroupSpace;
pub use layout::{PAGE_BYTES_DEFAULT, PAGE_BYTES_MAX, PAGE_BYTES_MIN, RECORD_BYTES_MAX};
pub use placed::{ClassHeat, Decision, HeatReport, Placed};
pub use placement::{Class, Reason};
pub use pool::Pool;
pub use reclaim::Reclaimed;
pub use relocate::Moved;
pub use rod::Rod;
pub use spec::{PoolCounts, PoolId, PoolSpace, PoolSpec};
pub use volume::{Extent, Volume, VolumeId, VolumeSpace};
pub use volume_state::Provisioning;
