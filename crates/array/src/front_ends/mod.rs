//! Front ends: how hosts reach a controller. Each opens a nexus for a session and passes its commands to the
//! view of that nexus; what a command does is the same behind all of them.
//!
//! ```text
//!   iscsi: portals, over TCP ──┐
//!   local: on this thread ─────┴──> hosts::open_nexus ──> View ──> LUs, here or at their owner
//! ```
//!
//! Only `iscsi` names the protocol. A new one is a file here that implements [`FrontEnd`] for its open port,
//! and a kind of portal in the declaration.
//!
//! [`FrontEnd`]: crate::controller::FrontEnd

mod iscsi;
mod local;
mod ports;

pub use local::{LocalPort, LocalSession};
pub(crate) use ports::{close_ports, end_sessions, open_port};
