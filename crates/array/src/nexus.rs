//! A nexus as all controllers know it: enough to build a view for it.

use scsi::{InitiatorPort, NexusId, TargetPort};

/// A nexus between a host and a port of any controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemoteNexus {
    /// Unique in the array.
    pub(crate) id: NexusId,
    /// The host's port.
    pub(crate) initiator: InitiatorPort,
    /// The target port.
    pub(crate) port: TargetPort,
}

/// A SCSI target port; each portal is a group of its own.
pub(crate) fn target_port(target: &str, portal_group: u16) -> TargetPort {
    TargetPort { target: target.into(), portal_group, relative_id: portal_group, group: portal_group }
}

pub(crate) fn initiator_port(name: &str, isid: [u8; 6]) -> InitiatorPort {
    InitiatorPort { name: name.into(), isid }
}
