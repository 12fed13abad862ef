//! When a command arrived, against what has happened since to its logical unit.
//!
//! A transport has a command long before it can execute it: it collects the data of a write, waits for memory
//! or for an older command. Meanwhile another volume may be mapped to the LUN, or another host may have reset
//! the logical unit, at whichever controller. So such an event has a number in one order with the arrivals,
//! over all controllers, and a command from before it is told apart when it is executed.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts events, so that reading it is all that a command costs. One for the process: only the order of its
/// values matters.
static EVENTS: AtomicU64 = AtomicU64::new(0);

/// When a command arrived, and for which logical unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    after: u64,
    /// The logical unit that the port's controller found at the LUN, for the controller that owns it.
    pub(crate) unit: Option<u64>,
    /// The host has yet to hear that its LUNs have changed: the owner says so, in the format of the logical
    /// unit.
    pub(crate) luns_changed: bool,
}

impl Arrival {
    /// A command that arrives now.
    pub fn now() -> Arrival {
        Arrival { after: EVENTS.load(Ordering::Acquire), unit: None, luns_changed: false }
    }

    /// The number of an event that happens now.
    pub fn event() -> u64 {
        EVENTS.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Whether the command arrived before the event of this number.
    pub fn is_before(self, event: u64) -> bool {
        self.after < event
    }

    /// The same command, for this logical unit of another controller.
    pub(crate) fn for_unit(self, key: u64, luns_changed: bool) -> Arrival {
        Arrival { unit: Some(key), luns_changed, ..self }
    }
}
