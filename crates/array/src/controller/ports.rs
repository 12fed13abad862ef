//! The ports that a controller has open.

use std::cell::Cell;
use std::net::SocketAddr;

use iscsi::target::Portal;

use crate::config::PortalConfig;

/// One port of a controller.
pub(crate) struct OpenPort {
    pub(crate) config: PortalConfig,
    /// Portal group tag: one group for each portal, from 1 in the order of the declaration.
    pub(crate) portal_group: u16,
    /// Where it really listens.
    pub(crate) listen: SocketAddr,
    /// iSCSI's handle on it.
    pub(crate) portal: Portal,
    pub(crate) counts: PortCounts,
}

/// What went through a port.
#[derive(Default)]
pub(crate) struct PortCounts {
    pub(crate) commands: Cell<u64>,
    pub(crate) bytes_in: Cell<u64>,
    pub(crate) bytes_out: Cell<u64>,
}
