//! The two ends of a nexus, and the per-nexus state of a logical unit.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use lu::NexusId;
use serde::{Deserialize, Serialize};

use crate::attention::{Attention, Attentions};

/// How a [`NexusId`] is written on its way to another process.
#[derive(Serialize, Deserialize)]
#[serde(remote = "NexusId")]
pub(crate) struct Id(u64);

/// An iSCSI initiator port: its name and the ISID (RFC 7143 4.4.3).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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

/// How a target port reaches a controller's logical units: the asymmetric access states of SPC-5 5.16.2.4
/// that an array has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessState {
    /// It is at the controller that owns them.
    Optimized,
    /// Commands cross to their owner, from another controller or through another node.
    NonOptimized,
    /// It is at a node that is down.
    Unavailable,
}

/// A target port as REPORT TARGET PORT GROUPS lists it to the hosts of a controller's logical units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedPort {
    /// Its name, identifier and group.
    pub port: TargetPort,
    /// The same for all ports of a group.
    pub access: AccessState,
}

/// All target ports to a controller's logical units. They change while hosts are served.
#[derive(Debug, Default)]
pub struct Ports(RefCell<Rc<[ListedPort]>>);

impl Ports {
    /// These ports.
    pub fn new(ports: impl IntoIterator<Item = ListedPort>) -> Ports {
        Ports(RefCell::new(ports.into_iter().collect()))
    }

    /// These from now on. Returns whether hosts have to learn of it
    /// ([`View::access_state_changed`](crate::View::access_state_changed)).
    pub fn set(&self, ports: impl IntoIterator<Item = ListedPort>) -> bool {
        let ports: Rc<[ListedPort]> = ports.into_iter().collect();
        *self.0.replace(ports.clone()) != *ports
    }

    pub(crate) fn get(&self) -> Rc<[ListedPort]> {
        self.0.borrow().clone()
    }
}

/// A nexus, as a logical unit knows it.
#[derive(Debug)]
pub(crate) struct Nexus {
    pub id: NexusId,
    /// The initiator port.
    pub initiator: Arc<InitiatorPort>,
    /// The target port.
    pub port: Rc<TargetPort>,
    /// Its pending unit attentions.
    pub attentions: Attentions,
    /// The nexus has ended; commands that still run belong to no one.
    pub(crate) ended: Cell<bool>,
    /// The last CLEAR TASK SET that it has been told of.
    pub(crate) cleared: Cell<u64>,
}

impl Nexus {
    /// It has lost commands to the CLEAR TASK SET of this number: it is told once.
    pub(crate) fn lost_commands(&self, event: u64) {
        if self.cleared.replace(event) != event {
            self.attentions.raise(Attention::CommandsCleared);
        }
    }
}
