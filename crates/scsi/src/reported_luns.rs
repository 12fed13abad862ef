//! REPORTED LUNS DATA HAS CHANGED: a condition of the nexus, not of one logical unit. The host hears of it
//! once, from whichever logical unit it asks next, as REPORT LUNS clears it on all (LUICLR, SPC-5 7.7.7).

use std::cell::Cell;

use crate::attention::Attention;

/// Whether a host has to learn that the list of its LUNs has changed.
#[derive(Default)]
pub(crate) struct ReportedLuns {
    /// The host has sent a command. Before its first one it reads the list anyway.
    has_asked: Cell<bool>,
    is_changed: Cell<bool>,
}

impl ReportedLuns {
    /// A command has arrived.
    pub(crate) fn asked(&self) {
        self.has_asked.set(true);
    }

    /// LUNs were added or removed.
    pub(crate) fn changed(&self) {
        self.is_changed.set(self.has_asked.get());
    }

    /// The host has read the list.
    pub(crate) fn reported(&self) {
        self.is_changed.set(false);
    }

    /// Whether the host has to be told.
    pub(crate) fn is_pending(&self) -> bool {
        self.is_changed.get()
    }

    /// The condition, if it is pending; then it is no more.
    pub(crate) fn take(&self) -> Option<Attention> {
        self.is_changed.take().then_some(Attention::ReportedLunsChanged)
    }
}
