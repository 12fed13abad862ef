//! PREEMPT and PREEMPT AND ABORT: taking a reservation or a registration from another nexus (SPC-5
//! 5.14.11.4).

use super::it_nexus::ItNexus;
use super::out::{Basic, Verdict, scope_and_type};
use super::state::{Held, State};
use crate::attention::Attention;
use crate::error::CommandError;

impl State {
    /// Either preempts the reservation (the key is its holder's, or zero for the all registrants types) or
    /// removes the registrations of the key. The verdict lists the preempted nexuses for PREEMPT AND ABORT.
    pub(super) fn preempt(
        &mut self,
        nexus: &ItNexus,
        cdb: &[u8; 16],
        basic: &Basic,
    ) -> Result<Verdict, CommandError> {
        self.check_key(nexus, basic.key)?;
        let takes_reservation = match &self.held {
            Some(held) if held.kind.all_registrants() => basic.action_key == 0,
            Some(held) => self.registrants.get(&held.by) == Some(&basic.action_key),
            None => false,
        };
        if takes_reservation {
            return self.preempt_reservation(nexus, cdb, basic);
        }
        if basic.action_key == 0 && self.held.is_some() {
            return Err(CommandError::parameter(8));
        }
        self.preempt_registrations(nexus, basic)
    }

    fn preempt_reservation(
        &mut self,
        nexus: &ItNexus,
        cdb: &[u8; 16],
        basic: &Basic,
    ) -> Result<Verdict, CommandError> {
        let kind = scope_and_type(cdb)?;
        let kind_before = self.kind();
        // Key zero, for the all registrants types, means all other nexuses. The sender keeps its own
        // registration in any case.
        let gone =
            self.select(|other, key| other != nexus && (basic.action_key == 0 || key == basic.action_key));
        let mut verdict = self.expel(nexus, gone);
        self.held = Some(Held { kind, by: nexus.clone() });
        if kind_before != Some(kind) {
            self.tell_others(nexus, Attention::ReservationsReleased, &mut verdict);
        }
        self.generation = self.generation.wrapping_add(1);
        Ok(verdict)
    }

    fn preempt_registrations(&mut self, nexus: &ItNexus, basic: &Basic) -> Result<Verdict, CommandError> {
        let gone = self.select(|_, key| key == basic.action_key);
        if gone.is_empty() {
            return Err(CommandError::ReservationConflict);
        }
        let mut verdict = self.expel(nexus, gone);
        // Only if the sender named its own key as the last registrant of an all registrants reservation.
        if self.holder_is_gone() {
            self.drop_reservation(nexus, &mut verdict);
        }
        self.generation = self.generation.wrapping_add(1);
        Ok(verdict)
    }

    fn select(&self, wanted: impl Fn(&ItNexus, u64) -> bool) -> Vec<ItNexus> {
        self.registrants
            .iter()
            .filter(|(nexus, key)| wanted(nexus, **key))
            .map(|(nexus, _)| nexus.clone())
            .collect()
    }

    /// Removes the registrations; their nexuses get unit attentions, and their tasks are aborted if the
    /// command requires it.
    fn expel(&mut self, by: &ItNexus, gone: Vec<ItNexus>) -> Verdict {
        let mut verdict = Verdict::default();
        for nexus in gone {
            self.registrants.remove(&nexus);
            if nexus != *by {
                verdict.attentions.push((nexus.clone(), Attention::RegistrationsPreempted));
                verdict.abort.push(nexus);
            }
        }
        verdict
    }
}
