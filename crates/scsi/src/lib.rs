//! SCSI as a disk speaks it: commands, sense, VPD and mode pages, reservations, offloads (SAM-5, SPC-5, SBC-4).
//!
//! ```text
//!   transport (iscsi) ── Request ──> View (what one host sees) ──> LogicalUnit ── Medium ──> the array's volume
//!                     <── Response ──
//! ```
//!
//! This crate knows nothing of pools, RAID or iSCSI PDUs. What it needs from below is [`Medium`]; what it gives to a
//! transport is [`View::execute`] and [`View::manage`].

mod medium;
mod request;

pub use medium::{Copied, Extent, Medium, Space};
pub use request::{Lun, NexusId, Request, Response, Status, TaskAttribute, TaskFunction, TaskOutcome};
