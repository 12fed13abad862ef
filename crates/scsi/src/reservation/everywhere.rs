//! Registrations at all target ports (ALL_TG_PT of SPC-5 6.17.3), also at those that appear later.
//!
//! SPC-5 registers at the ports that are known when the command comes. The ports of an array of several nodes
//! become more while it serves: a node joins. A host that has registered everywhere would be refused there,
//! with a path that it takes for as good as the others.

use std::sync::Arc;

use super::it_nexus::ItNexus;
use super::state::{REGISTRANTS_MAX, State};
use crate::nexus::InitiatorPort;

impl State {
    /// A port that may be new: who is registered everywhere is registered there, too. Whether one was added.
    /// It is no change of registrations that PRgeneration counts, and nothing to save: what it follows from
    /// is saved.
    pub(super) fn appears(&mut self, port: u16) -> bool {
        let at = |initiator: &Arc<InitiatorPort>| ItNexus { initiator: initiator.clone(), port };
        let missing = self.everywhere.iter().map(|(initiator, key)| (at(initiator), *key));
        let missing: Vec<_> = missing.filter(|(nexus, _)| !self.registrants.contains_key(nexus)).collect();
        let room = REGISTRANTS_MAX.saturating_sub(self.registrations());
        let is_new = !missing.is_empty() && room > 0;
        self.registrants.extend(missing.into_iter().take(room));
        is_new
    }

    /// How many entries a record of this state has.
    pub(super) fn registrations(&self) -> usize {
        self.registrants.len() + self.everywhere.len()
    }

    /// After a command: an initiator port of which one registration was changed or removed alone is not
    /// registered everywhere any more.
    pub(super) fn end_everywhere(&mut self, before: &State) {
        let State { registrants, everywhere, .. } = self;
        everywhere.retain(|initiator, key| {
            let is_own = |nexus: &&ItNexus| nexus.initiator == *initiator;
            let mut own = registrants.keys().chain(before.registrants.keys()).filter(is_own).peekable();
            own.peek().is_some() && own.all(|nexus| registrants.get(nexus) == Some(key))
        });
    }
}
