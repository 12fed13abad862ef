//! The two ends of a nexus, and the per-nexus state of a logical unit.

use std::cell::Cell;
use std::rc::Rc;

use lu::NexusId;

use crate::attention::Attentions;

/// An iSCSI initiator port: its name and the ISID (RFC 7143 4.4.3).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InitiatorPort {
    /// The initiator's iSCSI name.
    pub name: String,
    /// The initiator's part of the session identifier.
    pub isid: [u8; 6],
}

/// Protocol identifier of iSCSI (SPC-5 7.6.1).
pub(crate) const PROTOCOL_ISCSI: u8 = 5;

/// The longest iSCSI name (RFC 7143 4.2.7.2).
const ISCSI_NAME_BYTES_MAX: usize = 223;

impl InitiatorPort {
    /// The TransportID (SPC-5 7.6.4.6): format 01b, name, ",i,0x", ISID in hexadecimal, padded with zeros to
    /// four bytes.
    pub fn transport_id(&self) -> Vec<u8> {
        let name = &self.name.as_bytes()[..self.name.len().min(ISCSI_NAME_BYTES_MAX)];
        let mut out = vec![0x40 | PROTOCOL_ISCSI, 0, 0, 0];
        out.extend(name);
        out.extend(b",i,0x");
        for byte in self.isid {
            out.extend(format!("{byte:02x}").bytes());
        }
        out.push(0);
        out.resize(out.len().next_multiple_of(4).max(24), 0);
        let len = (out.len() - 4) as u16;
        out[2..4].copy_from_slice(&len.to_be_bytes());
        out
    }
}

/// A target port: a portal group of the target (RFC 7143 4.4.3).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TargetPort {
    /// The iSCSI name of the target.
    pub target: String,
    /// Portal group tag.
    pub portal_group: u16,
    /// Relative target port identifier, from 1, unique in the array.
    pub relative_id: u16,
    /// Target port group (ALUA), from 1.
    pub group: u16,
}

impl TargetPort {
    /// The SCSI name string of the port (SPC-5 7.7.6.11): "name,t,0x" and the portal group tag.
    pub fn name(&self) -> String {
        format!("{},t,0x{:04x}", self.target, self.portal_group)
    }
}

/// A target port as REPORT TARGET PORT GROUPS lists it to the hosts of a controller's logical units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedPort {
    /// Its name, identifier and group.
    pub port: TargetPort,
    /// Whether it is at the controller that owns the logical units. The ports of one group are all at one
    /// controller.
    pub at_owner: bool,
}

/// A nexus, as a logical unit knows it.
#[derive(Debug)]
pub(crate) struct Nexus {
    pub id: NexusId,
    /// The initiator port.
    pub initiator: Rc<InitiatorPort>,
    /// The target port.
    pub port: Rc<TargetPort>,
    /// Its pending unit attentions.
    pub attentions: Attentions,
    /// The nexus has ended; commands that still run belong to no one.
    pub(crate) ended: Cell<bool>,
}
