//! RESERVE and RELEASE of SPC-2, with the exceptions of SPC-4 5.13.3 (CRH), for clusters and old hypervisors.

use super::it_nexus::ItNexus;
use super::state::State;
use crate::error::CommandError;

impl State {
    /// RESERVE(6), RESERVE(10). A persistent reservation is unaffected: for a nexus with access RESERVE is a
    /// GOOD without effect, for any other one a conflict.
    pub(crate) fn reserve(&mut self, nexus: &ItNexus) -> Result<(), CommandError> {
        if self.is_exempt(nexus)? {
            return Ok(());
        }
        match &self.legacy {
            Some(holder) if holder != nexus => Err(CommandError::ReservationConflict),
            _ => {
                self.legacy = Some(nexus.clone());
                Ok(())
            }
        }
    }

    /// RELEASE(6), RELEASE(10). Releasing the reservation of another nexus is a GOOD without effect (SPC-2
    /// 7.16).
    pub(crate) fn release(&mut self, nexus: &ItNexus) -> Result<(), CommandError> {
        if self.is_exempt(nexus)? {
            return Ok(());
        }
        if self.legacy.as_ref() == Some(nexus) {
            self.legacy = None;
        }
        Ok(())
    }

    /// A nexus ended (logout, connection lost): its RESERVE is released; persistent state remains (SPC-5
    /// 5.14.1).
    pub(crate) fn nexus_lost(&mut self, nexus: &ItNexus) {
        if self.legacy.as_ref() == Some(nexus) {
            self.legacy = None;
        }
    }

    /// Logical unit reset, target reset: RESERVE is released, persistent state remains.
    pub(crate) fn reset(&mut self) {
        self.legacy = None;
    }

    /// `Ok(true)`: return GOOD and do nothing. A conflict if any persistent state exists that does not exempt
    /// `nexus`.
    fn is_exempt(&self, nexus: &ItNexus) -> Result<bool, CommandError> {
        if self.registrants.is_empty() {
            return Ok(false);
        }
        let registrant_admitted = self.held.as_ref().is_some_and(|h| h.kind.admits_registrants())
            && self.registrants.contains_key(nexus);
        if self.holds(nexus) || registrant_admitted {
            Ok(true)
        } else {
            Err(CommandError::ReservationConflict)
        }
    }
}
