//! PERSISTENT RESERVE OUT (SPC-5 6.17): the parameter list, the service actions, and their effects.

use std::sync::Arc;

use super::it_nexus::ItNexus;
use super::kind::Kind;
use super::record::Persistence;
use super::state::{Held, State};
use crate::attention::Attention;
use crate::error::CommandError;
use crate::nexus::InitiatorPort;

/// Length of the parameter list of every service action but REGISTER AND MOVE, without TransportIDs.
pub(super) const LIST_LEN: usize = 24;

/// The effects of a successful PERSISTENT RESERVE OUT.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Unit attentions to raise; each nexus occurs once, and never the sender.
    pub(crate) attentions: Vec<(ItNexus, Attention)>,
    /// PREEMPT AND ABORT: the nexuses whose tasks are aborted; never the sender.
    pub(crate) abort: Vec<ItNexus>,
    /// The record to save before the new state takes effect.
    pub(crate) save: Option<Vec<u8>>,
}

/// The properties of the target that a registration needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings<'a> {
    /// The relative identifiers of all target ports of the target (ALL_TG_PT).
    pub(crate) ports: &'a [u16],
    /// The initiator ports that are logged in (a TransportID may name a whole initiator device).
    pub(crate) initiators: &'a [Arc<InitiatorPort>],
    /// What has to be saved.
    pub(crate) persistence: Persistence,
}

/// The fields of the basic parameter list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Basic {
    pub(super) key: u64,
    pub(super) action_key: u64,
    pub(super) specifies_initiators: bool,
    pub(super) all_target_ports: bool,
    pub(super) survives_power_loss: bool,
}

impl Basic {
    fn parse(list: &[u8; LIST_LEN]) -> Basic {
        Basic {
            key: u64::from_be_bytes(list[..8].try_into().expect("eight bytes")),
            action_key: u64::from_be_bytes(list[8..16].try_into().expect("eight bytes")),
            specifies_initiators: list[20] & 0x08 != 0,
            all_target_ports: list[20] & 0x04 != 0,
            survives_power_loss: list[20] & 0x01 != 0,
        }
    }
}

impl State {
    /// Executes PERSISTENT RESERVE OUT from `nexus`; a refused command changes nothing. `list` is the
    /// data-out, truncated to the PARAMETER LIST LENGTH of the CDB.
    pub(crate) fn persistent_out(
        &mut self,
        nexus: &ItNexus,
        cdb: &[u8; 16],
        list: &[u8],
        around: Surroundings<'_>,
    ) -> Result<Verdict, CommandError> {
        let action = cdb[1] & 0x1F;
        // 08h, REPLACE LOST RESERVATION, is for devices that can lose their reservations (SPC-5 5.14.11.6).
        if action > 0x07 {
            return Err(CommandError::field(1));
        }
        if self.legacy.is_some() {
            return Err(CommandError::ReservationConflict);
        }
        // Who is registered everywhere is so at ports that have appeared since.
        for port in around.ports.iter().chain([&nexus.port]) {
            self.appears(*port);
        }
        let mut next = self.clone();
        let mut verdict = if action == 0x07 {
            next.register_and_move(nexus, list, around)?
        } else {
            let basic = basic_list(action, list)?;
            match action {
                0x00 => next.register(nexus, &basic, list, around)?,
                0x01 => next.reserve_persistently(nexus, cdb, &basic)?,
                0x02 => next.release_persistently(nexus, cdb, &basic)?,
                0x03 => next.clear(nexus, &basic)?,
                0x04 => next.preempt(nexus, cdb, &basic)?.without_abort(),
                0x05 => next.preempt(nexus, cdb, &basic)?,
                _ => next.register_ignoring_key(nexus, &basic, around)?,
            }
        };
        next.end_everywhere(self);
        let persistence = around.persistence;
        if persistence == Persistence::Always || next.survives_power_loss || self.survives_power_loss {
            let record = next.encode(persistence);
            if record != self.encode(persistence) {
                verdict.save = Some(record);
            }
        }
        *self = next;
        Ok(verdict)
    }

    /// Refuses the command unless it comes from a registered nexus with its own key (SPC-5 5.14.6).
    pub(super) fn check_key(&self, nexus: &ItNexus, key: u64) -> Result<(), CommandError> {
        if self.registrants.get(nexus) == Some(&key) {
            Ok(())
        } else {
            Err(CommandError::ReservationConflict)
        }
    }

    /// SPC-5 5.14.9.
    fn reserve_persistently(
        &mut self,
        nexus: &ItNexus,
        cdb: &[u8; 16],
        basic: &Basic,
    ) -> Result<Verdict, CommandError> {
        self.check_key(nexus, basic.key)?;
        let kind = scope_and_type(cdb)?;
        match &self.held {
            None => self.held = Some(Held { kind, by: nexus.clone() }),
            Some(held) if held.kind == kind && self.holds(nexus) => {}
            Some(_) => return Err(CommandError::ReservationConflict),
        }
        Ok(Verdict::default())
    }

    /// SPC-5 5.14.11.2.
    fn release_persistently(
        &mut self,
        nexus: &ItNexus,
        cdb: &[u8; 16],
        basic: &Basic,
    ) -> Result<Verdict, CommandError> {
        self.check_key(nexus, basic.key)?;
        let mut verdict = Verdict::default();
        let Some(held) = self.held.as_ref().filter(|_| self.holds(nexus)) else {
            return Ok(verdict);
        };
        if cdb[2] != held.kind.code() {
            return Err(CommandError::InvalidRelease);
        }
        self.drop_reservation(nexus, &mut verdict);
        Ok(verdict)
    }

    /// SPC-5 5.14.11.5.
    fn clear(&mut self, nexus: &ItNexus, basic: &Basic) -> Result<Verdict, CommandError> {
        self.check_key(nexus, basic.key)?;
        let mut verdict = Verdict::default();
        self.held = None;
        for other in std::mem::take(&mut self.registrants).into_keys() {
            if other != *nexus {
                verdict.attentions.push((other, Attention::ReservationsPreempted));
            }
        }
        self.generation = self.generation.wrapping_add(1);
        Ok(verdict)
    }

    /// Ends the reservation. Registrants that had access by it get a unit attention (SPC-5 5.14.11.2.2).
    pub(super) fn drop_reservation(&mut self, by: &ItNexus, verdict: &mut Verdict) {
        let Some(held) = self.held.take() else { return };
        if held.kind.admits_registrants() {
            self.tell_others(by, Attention::ReservationsReleased, verdict);
        }
    }

    /// A unit attention for every registrant but `by`, unless the nexus gets one already.
    pub(super) fn tell_others(&self, by: &ItNexus, attention: Attention, verdict: &mut Verdict) {
        for other in self.registrants.keys().filter(|other| *other != by) {
            if !verdict.attentions.iter().any(|(told, _)| told == other) {
                verdict.attentions.push((other.clone(), attention));
            }
        }
    }
}

impl Verdict {
    fn without_abort(mut self) -> Verdict {
        self.abort.clear();
        self
    }
}

/// The type in byte 2 of the CDB; the only scope is the logical unit (SPC-5 6.16.3.3).
pub(super) fn scope_and_type(cdb: &[u8; 16]) -> Result<Kind, CommandError> {
    if cdb[2] >> 4 != 0 {
        return Err(CommandError::field(2));
    }
    Kind::of_code(cdb[2] & 0x0F).ok_or(CommandError::field(2))
}

/// The fixed part of the list. Only REGISTER takes TransportIDs behind it (SPC-5 6.17.3).
fn basic_list(action: u8, list: &[u8]) -> Result<Basic, CommandError> {
    let head = list.first_chunk::<LIST_LEN>().ok_or(CommandError::ParameterListLength)?;
    let basic = Basic::parse(head);
    if basic.specifies_initiators && action != 0x00 {
        return Err(CommandError::parameter(20));
    }
    if !basic.specifies_initiators && list.len() != LIST_LEN {
        return Err(CommandError::ParameterListLength);
    }
    Ok(basic)
}
