//! SCSI as a disk speaks it: commands, sense, VPD and mode pages, reservations, offloads (SAM-5, SPC-5,
//! SBC-4).
//!
//! ```text
//!   transport (iscsi) ── Request ──> View (what one host sees) ──> LogicalUnit ── lu::LogicalDisk ──> the array's volume
//!                     <── Response ──
//! ```
//!
//! This crate knows nothing of pools, RAID or iSCSI PDUs. What it needs from below is [`lu::LogicalDisk`];
//! what it gives to a transport is a [`HostView`]: [`View`]. A command goes through `dispatch`, which looks
//! it up in the one table ([`opcode`]), checks what stands before every command, and calls its handler; an
//! error becomes sense data in one place ([`sense::failure_of`]).

#![forbid(unsafe_code)]

mod arrival;
mod atomic;
mod atomics;
pub mod attention;
mod capacity;
pub mod cdb;
mod compare_and_write;
mod condition;
mod context;
pub mod counters;
mod designator;
mod dispatch;
pub mod error;
mod extended_copy;
mod formats;
mod history;
mod holding;
mod host_view;
mod inquiry;
pub mod limits;
mod log;
mod mode;
mod mover;
mod nexus;
mod odx;
pub mod opcode;
mod places;
mod read_write;
mod report;
mod reported_luns;
mod request;
mod reservation;
mod sanitize;
mod sanitizing;
pub mod sense;
mod sense_codes;
mod serve;
mod target_port_groups;
mod third_party;
mod trace;
mod turns;
mod unavailable;
mod unit;
mod unmap;
mod verify;
mod view;
mod volatile_state;
mod vpd;
mod write_same;

pub use arrival::{Arrival, EventWatch, Events};
pub use counters::{Counters, OpClass};
pub use error::CommandError;
pub use host_view::{
    CopyAnswer, CopyEnd, CopyRequest, Elsewhere, HostTraffic, HostView, Owner, PortTraffic, Remote, Traffic,
};
pub use lu::NexusId;
pub use mover::Mover;
pub use nexus::{AccessState, InitiatorPort, ListedPort, Ports, TargetPort};
pub use odx::Tokens;
pub use request::{Lun, Request, Response, Status, TaskAttribute, TaskFunction, TaskOutcome};
pub use reservation::Persistence;
pub use sense_codes::sense_codes;
pub use trace::{CommandTrace, TraceSink, Tracer, WHOLE_MILLIONTHS};
pub use unit::{Identity, LogicalUnit, Origin, Unavailable};
pub use view::{View, ViewSpec};
pub use volatile_state::VolatileState;

#[cfg(test)]
mod tests;
