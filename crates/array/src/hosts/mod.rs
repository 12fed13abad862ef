//! Hosts at a controller: their sessions, and commands that cross to the owner of the LU.

mod crossing;
mod holding;
mod paths;
mod sessions;

pub(crate) use holding::{announce, hold};
pub(crate) use paths::list_ports;
pub use sessions::SessionRefusal;
pub(crate) use sessions::{close_nexus, open_nexus, remote_nexus, update_views};
