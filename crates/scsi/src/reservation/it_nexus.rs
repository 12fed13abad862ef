//! The owner of a registration: an initiator port and a target port.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::nexus::{InitiatorPort, Nexus};

/// An I_T nexus for reservations: it remains the same when the host logs in again (SPC-5 5.14.5).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct ItNexus {
    /// The initiator port.
    pub(crate) initiator: Arc<InitiatorPort>,
    /// The relative target port identifier.
    pub(crate) port: u16,
}

impl ItNexus {
    /// The identity of a nexus.
    pub(crate) fn of(nexus: &Nexus) -> ItNexus {
        ItNexus { initiator: nexus.initiator.clone(), port: nexus.port.relative_id }
    }
}

impl fmt::Display for ItNexus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},i,0x", self.initiator.name)?;
        for byte in self.initiator.isid {
            write!(f, "{byte:02x}")?;
        }
        write!(f, " at port {}", self.port)
    }
}
