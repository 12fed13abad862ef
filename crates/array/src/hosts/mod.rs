//! Hosts at a controller: ports are opened, sessions begin and end, commands reach the controller that owns the LU.

mod crossing;
mod ports;
mod sessions;

pub(crate) use ports::{close_ports, end_sessions, open_port};
pub(crate) use sessions::{close_nexus, open_nexus, remote_nexus, update_views};
