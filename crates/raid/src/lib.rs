//! RAID groups: labelled drives that act as one device. Levels 0, 1, 10 (stripes over mirrors), 5 and 6 (rows with parity).
//!
//! ```text
//!   Group::create ──> label on every drive        Group::open ──> labels checked against each other, the journal replayed
//!                          │                                            │
//!   read/write ──> sets/ (0, 1, 10) ─────────────> drives   a drive fails: dropped, epoch + 1 on the survivors' labels
//!              └─> stripe/ (5, 6) ──> journal ──┘           Group::replace, rebuild, scrub, resync: upkeep/
//! ```
//!
//! A group knows nothing of pages, volumes or SCSI. Futures of a group are driven to their end: dropping one in the
//! middle abandons its outcome but not the drive operations it has begun.

#![forbid(unsafe_code)]

mod await_all;
mod changed;
mod contents;
mod create;
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
mod regions;
mod relabel;
mod replace;
mod segments;
mod sets;
mod spare;
mod spec;
mod status;
mod stripe;
mod upkeep;

#[cfg(test)]
mod tests;

pub use contents::{Contents, KnownContents};
pub use create::Overwrite;
pub use erase::erase_label;
pub use error::{GroupError, MissingCause};
pub use events::GroupEvent;
pub use examine::{OnDrive, examine, inspect, label_copies};
pub use group::Group;
pub use label::{Label, LabelCopy};
pub use member::{MemberState, MemberStatus};
pub use replace::{Found, identify};
pub use spare::{erase_spare_label, label_spare};
pub use spec::{ArrayId, DRIVES_MAX, GroupId, GroupSpec, Level, NAME_LEN_MAX, STRIPE_UNIT_BYTES_DEFAULT};
pub use status::{GroupState, GroupStatus, Progress};
pub use stripe::JournalCounts;
pub use upkeep::{Go, Scrubbed, Throttle, Turns};

/// What is compared, repaired, lost at once: the largest block of a drive.
pub(crate) const BLOCK_LEN: u64 = 4096;
