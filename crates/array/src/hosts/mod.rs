//! Hosts at a controller: ports, sessions, and commands that cross to the owner of the LU.

mod crossing;
mod ports;
mod sessions;

pub(crate) use ports::{close_ports, end_sessions, open_port};
pub(crate) use sessions::{close_nexus, open_nexus, remote_nexus, update_views};
