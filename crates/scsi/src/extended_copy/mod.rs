//! Copies inside the array, requested by a host: EXTENDED COPY and RECEIVE COPY RESULTS with one-byte list
//! identifiers (SPC-4 6.4, 6.18; obsolete in SPC-5, and what hypervisors send).
//!
//! ```text
//!   parameter list ──> list: targets and segments ──> each target looked up in the asking host's view, nowhere else
//!                                                 ──> each segment: LogicalDisk::copy_from, piece by piece,
//!                                                     or across: with one end at another controller
//!                                                 ──> operations: what RECEIVE COPY RESULTS tells, per nexus
//! ```
//!
//! A copy manager that looked up targets in the whole array would let any host read any volume
//! (CVE-2020-28374). `execute` can find a target only in the view of the nexus, here or at another
//! controller.

mod across;
mod copy;
mod end;
mod execute;
mod limits;
mod list;
mod operations;
mod results;
#[cfg(test)]
pub(crate) mod rig;
mod segment;
mod target;
#[cfg(test)]
mod tests;
mod vpd;

pub(crate) use across::{ask, move_across};
pub(crate) use copy::{flush_if_write_through, read_piece, write_piece};
pub(crate) use execute::{
    COPY_TARGET_NOT_REACHABLE, aborted, check_access, extended_copy, receive_copy_results, sense_of,
};
pub(crate) use operations::{Operation, Operations, Operations as CopyLists, Running, Stage};
pub(crate) use vpd::third_party_copy_descriptors;
