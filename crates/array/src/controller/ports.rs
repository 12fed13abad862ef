//! The ports that a controller has open.

use std::net::SocketAddr;
use std::rc::Rc;

use iscsi::target::Portal;
use scsi::Traffic;

use crate::config::PortalConfig;

/// One port of a controller.
pub(crate) struct OpenPort {
    pub(crate) config: PortalConfig,
    /// Portal group tag: one group for each portal, from 1 in the order of the declaration.
    pub(crate) portal_group: u16,
    /// The address that it listens on.
    pub(crate) listen: SocketAddr,
    /// The iSCSI portal.
    pub(crate) portal: Portal,
    /// Its traffic counters.
    pub(crate) traffic: Rc<Traffic>,
}
