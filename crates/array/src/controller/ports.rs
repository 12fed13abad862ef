//! The ports that a controller has open.

use std::net::SocketAddr;
use std::rc::Rc;

use scsi::{InitiatorPort, PortTraffic};
use world::World;

use crate::config::PortalConfig;

/// What a controller asks of an open port, whatever protocol hosts speak at it.
///
/// The other way, a front end calls [`open_nexus`](crate::hosts::open_nexus) for each session that it admits,
/// executes commands in the view of that nexus, and ends it with [`close_nexus`](crate::hosts::close_nexus).
pub(crate) trait FrontEnd {
    /// Accepts no further sessions, asks hosts to log out, and closes the port when they have.
    fn stop(&self);
    /// Ends the sessions of the initiator ports that `is_meant` selects. Their commands are aborted.
    fn disconnect(&self, world: &World, is_meant: &dyn Fn(&InitiatorPort) -> bool);
    /// Ends logins in progress, which began under access rights that have changed.
    fn restart_logins(&self);
    /// Sessions that are open.
    fn sessions(&self) -> usize;
}

/// One port of a controller.
pub(crate) struct OpenPort {
    pub(crate) config: PortalConfig,
    /// Its place in the declaration.
    pub(crate) index: usize,
    /// Portal group tag: one group for each portal.
    pub(crate) portal_group: u16,
    /// The address that it listens on.
    pub(crate) listen: SocketAddr,
    /// What hosts speak at it.
    pub(crate) front_end: Box<dyn FrontEnd>,
    /// Its traffic counters.
    pub(crate) traffic: Rc<PortTraffic>,
}
