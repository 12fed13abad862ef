//! Copies inside the array, requested by a host: EXTENDED COPY, RECEIVE COPY RESULTS and RECEIVE COPY STATUS
//! (SPC-4 6.4, 6.18, 6.24), with list identifiers of one byte (LID1, which hypervisors send) and of four.
//!
//! ```text
//!   parameter list ──> list: targets and segments ──> each target looked up in the asking host's view, nowhere else
//!                                                 ──> each segment: LogicalDisk::copy_from, piece by piece,
//!                                                     or across: with one end at another controller
//!                                                 ──> operations: what a host is told of them, per nexus
//! ```
//!
//! A copy manager that looked up targets in the whole array would let any host read any volume
//! (CVE-2020-28374). `execute` can find a target only in the view of the nexus, here or at another
//! controller.

mod across;
mod background;
mod copy;
mod end;
mod execute;
mod limits;
mod list;
mod operations;
mod pieces;
mod results;
#[cfg(test)]
pub(crate) mod rig;
mod segment;
mod target;
#[cfg(test)]
mod tests;
mod vpd;

pub(crate) use across::{ask, move_across};
pub(crate) use background::in_background;
pub(crate) use copy::{read_piece, write_piece};
pub(crate) use execute::{
    COPY_TARGET_NOT_REACHABLE, aborted, check_access, extended_copy, receive_copy_results,
    receive_copy_status, sense_of,
};
pub(crate) use limits::{PIECE_BYTES_MAX, PIECES_IN_FLIGHT};
pub(crate) use operations::{Operation, Operations, Running, Stage};
pub(crate) use pieces::Pieced;
pub(crate) use results::{copy_status_lid4, with_available_len};
pub(crate) use vpd::third_party_copy_descriptors;
