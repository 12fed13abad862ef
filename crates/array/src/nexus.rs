//! A nexus as all controllers know it: the name of a session, enough to build a view for it.

use scsi::{InitiatorPort, NexusId, TargetPort};

/// A nexus of a host and the port of some controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemoteNexus {
    /// Unique in the array.
    pub(crate) id: NexusId,
    /// The host's end.
    pub(crate) initiator: InitiatorPort,
    /// The array's end.
    pub(crate) port: TargetPort,
}

/// A target port as SCSI names it: each portal is a group of its own.
pub(crate) fn target_port(target: &str, portal_group: u16) -> TargetPort {
    TargetPort { target: target.into(), portal_group, relative_id: portal_group, group: portal_group }
}

/// The host's end of a nexus.
pub(crate) fn initiator_port(name: &str, isid: [u8; 6]) -> InitiatorPort {
    InitiatorPort { name: name.into(), isid }
}
