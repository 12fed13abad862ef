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
    /// Where it really listens.
    pub(crate) listen: SocketAddr,
    /// iSCSI's handle on it.
    pub(crate) portal: Portal,
    /// What went through it.
    pub(crate) traffic: Rc<Traffic>,
}
