//! RAID groups: labelled drives that act as one device. Levels 0, 1, 10 (stripes over mirrors), 5 and 6 (rows
//! with parity). A group knows nothing of pages, volumes or SCSI.
//!
//! ```text
//!   Group::create ──> label on every drive        Group::open ──> labels compared, journal replayed
//!                          │                                            │
//!   read/write ──> sets/ (0, 1, 10) ─────────────> drives   a drive fails: dropped, epoch + 1 on the labels
//!              └─> stripe/ (5, 6) ──> journal ──┘           Group::replace, rebuild, scrub, resync: upkeep/
//! ```
//!
//! # Life cycle
//!
//! * [`Group::create`] examines all drives, then writes a label with epoch 0 to each, then one with epoch 1.
//!   A drive with epoch 0 never held data, so an interrupted creation can be repeated. It refuses drives with
//!   any content; [`Group::create_over`] says what may be overwritten.
//! * [`Group::open`] takes the drives in any order. It compares their labels, replays the stripe journal (5,
//!   6) or restricts reads to one mirror until a resync (1, 10), and starts a new life on the labels. It
//!   opens a degraded group only if no other set of its drives can hold newer data; [`Group::open_degraded`]
//!   also opens the others.
//! * A drive that fails is dropped. [`Group::replace`] assigns its position to another drive, and
//!   [`Group::rebuild`] fills that drive while I/O continues. [`Group::take_back`] returns a drive that was
//!   away for a short time; the rebuild then copies only what changed.
//! * [`Group::scrub`] compares everything; [`Group::resync`] makes mirrors equal after a power failure.
//! * [`Group::close`] makes all data durable and leaves nothing to recover.
//!   [`Group::adopt`] changes the owner on the labels, for an export or an import.
//!
//! # What is durable when
//!
//! * A write that returns is complete on all drives that hold its data, but it is durable only after a flush
//!   that begins later. Until then a power failure leaves, per block, the old or the new content.
//! * Levels 5 and 6 write a batch to the stripe journal and flush it before they write in place. Parity and
//!   data therefore agree after a power failure: there is no write hole. The journal of an optimal group has
//!   only checksums of full stripes. If a drive is lost together with the power, blocks of a full stripe that
//!   was being overwritten can become lost ranges.
//! * Mirrors have no journal. The labels say that they may differ while the group is in use. After a power
//!   failure always the same mirror serves the reads of a block until the resync has been there, so that the
//!   block always reads the same; the mirrors share the blocks (`preferred`).
//! * When a drive is dropped, the operation that noticed it returns only after the labels of the survivors
//!   record it. An acknowledged write is therefore never on the dropped drive's side only.
//! * A rebuild records its progress on the labels and continues there after a restart.
//!
//! docs/on_disk_format.md describes the labels and the journal byte by byte.
//!
//! # Errors
//!
//! Creating, opening and replacing return [`GroupError`]: one line with the group, the drive and both
//! identities. I/O returns [`block::BlockError`]:
//!
//! * `Unreadable`: redundancy cannot reconstruct the block. It is a *lost range* from then on: reads fail
//!   until it is written again, also after a restart. A group never returns wrong data in its place.
//! * `Failed`: too few drives are left; data are unavailable.
//! * `Silent`: the group cannot do without an unresponsive drive. On levels 5 and 6 a write in progress
//!   continues in the background, so its outcome is unknown.
//!
//! Errors of a single drive with redundancy behind it do not reach the caller: the drive is dropped, or the
//! block is rewritten from redundancy, and the group raises a [`GroupEvent`].
//!
//! Futures of a group must be driven to their end: dropping one abandons its outcome but not the drive
//! operations that it has started.

#![forbid(unsafe_code)]

mod array_label;
mod await_all;
mod blank;
mod changed;
mod contents;
mod create;
mod differing;
mod erase;
mod error;
mod events;
mod examine;
mod group;
mod inner;
mod label;
mod lost;
mod lost_table;
mod member;
mod open;
mod overdue;
mod preferred;
mod regions;
mod relabel;
mod replace;
mod segments;
mod sets;
mod spec;
mod status;
mod stripe;
mod upkeep;

#[cfg(test)]
mod tests;

pub use array_label::{erase_array_label, label_cache, label_spare};
pub use contents::{Contents, KnownContents};
pub use create::Overwrite;
pub use erase::erase_label;
pub use error::{GroupError, MissingCause, TO_ERASE};
pub use events::GroupEvent;
pub use examine::{OnDrive, examine, inspect, label_copies};
pub use group::Group;
pub use label::{LABEL_REGION_LEN, Label, LabelCopy, Preferred};
pub use member::{MemberState, MemberStatus};
pub use replace::{Found, identify};
pub use spec::{
    ArrayId, DRIVES_MAX, GroupId, GroupSpec, Level, NAME_LEN_MAX, Ownership, STRIPE_UNIT_BYTES_DEFAULT,
};
pub use status::{GroupState, GroupStatus, Progress};
pub use stripe::JournalCounts;
pub use upkeep::{Go, Scrubbed, Throttle, Turns, resync_pause};

/// The unit of compare, repair and loss: the largest block of a drive.
pub(crate) const BLOCK_LEN: u64 = 4096;
