//! RAID groups: labelled drives that act as one device. Levels 0 (stripes) and 1 (mirrors).
//!
//! ```text
//!   Group::create ──> label on every drive        Group::open ──> labels checked against each other
//!                          │                                            │
//!   read/write ──> stripe.rs or mirror.rs ──> drives       a drive fails: dropped, epoch + 1 on the survivors' labels
//! ```
//!
//! A group knows nothing of pages, volumes or SCSI. Futures of a group are driven to their end: dropping one in the
//! middle abandons its outcome but not the drive operations it has begun.

#![forbid(unsafe_code)]

mod create;
mod error;
mod group;
mod label;
mod member;
mod mirror;
mod open;
mod ranges;
mod relabel;
mod resync;
mod segments;
mod spec;
mod stripe;

#[cfg(test)]
mod tests;

pub use error::GroupError;
pub use group::{Group, GroupState, GroupStatus};
pub use label::{Label, inspect};
pub use member::{MemberState, MemberStatus};
pub use spec::{ArrayId, DRIVES_MAX, GroupId, GroupSpec, Level, NAME_LEN_MAX, STRIPE_UNIT_BYTES_DEFAULT};
