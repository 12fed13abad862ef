//! The array: the only crate that knows every layer of the data path, and puts them together.
//!
//! ```text
//!  control plane (any thread)                 controller 0 (one thread)            controller 1
//!  Array ──Control──> Mailbox ──────────────> Controller ── ports, pools, LUs      …
//!                                                 ^  └────── Execute ─────────────────┘
//!                                          hosts at its ports, and commands that crossed
//! ```
//!
//! * [`Array`] is what the administration holds: the declaration, and handles to the controllers.
//! * A controller ([`run_controller`]) is one thread with a `World`: it owns ports, drives, groups, pools and
//!   the LUs on them.
//! * The disk of a LU is a [`stack::Disk`]; `front_ends` are how hosts reach it: iSCSI, and a port on the
//!   controller's own thread.

mod array;
mod cached;
pub mod check;
mod control;
mod controller;
mod event;
mod front_ends;
mod groups;
mod hosts;
mod images;
mod journal_groups;
mod keeper;
mod mailbox;
mod move_request;
mod nexus;
mod nodes;
mod place;
mod policies;
mod pools;
mod remote;
mod service_loop;
pub mod status;
mod terms;
mod trace;
mod vacancies;
mod why;
mod withheld;

#[cfg(test)]
mod tests;

pub use ::config::{self, Config};
pub use array::{
    Array, Began, ClosedControllers, Openers, Refuses, Unfinished, at_next_start, refusals, status_of,
};
pub use control::{Control, ControlError, Imported, PlaceDemand, PlaceParts, Reply, Steer};
pub use event::{Event, EventReceiver, EventSender, Severity, event_channel};
pub use front_ends::{LocalPort, LocalSession};
pub use hosts::SessionRefusal;
pub use iscsi::{RelayKey, Relayed};
pub use keeper::Keeper;
pub use mailbox::{ControllerHandle, Mailbox};
pub use move_request::{MoveReceiver, MoveRequest, MoveSender, move_channel};
pub use nodes::{Nodes, OtherPortal};
pub use place::Place;
pub use raid::{Ownership, TO_ERASE};
pub use remote::{Exchange, FRAME_MAX, PENDING_MAX, PROTOCOL, RemoteError, Told};
pub use scsi::{CommandTrace, Lun, OpClass, Status as ScsiStatus};
pub use service_loop::{answer_for_absent, run_controller, run_with_local_port};
pub use trace::{TraceReceiver, TraceSender, Traced, trace_channel};
pub use vacancies::{cannot_leave, lacks_drives};
pub use why::Why;
pub use withheld::{Unclaimed, Withheld};
pub use world::{DriveSpec, ImageAccess, Instant, LatencyCounts, Patience, RbdImage, Recorded, SpanRecord};

/// Size of a cache frame.
pub const FRAME_BYTES: u64 = cache::FRAME_BYTES as u64;
