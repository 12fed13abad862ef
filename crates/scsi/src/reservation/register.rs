//! REGISTER, REGISTER AND IGNORE EXISTING KEY, REGISTER AND MOVE (SPC-5 5.14.7, 5.14.8).

use std::sync::Arc;

use super::it_nexus::ItNexus;
use super::out::{Basic, LIST_LEN, Surroundings, Verdict};
use super::state::{Held, REGISTRANTS_MAX, State};
use super::transport_id::{self, Named};
use crate::error::CommandError;

impl State {
    /// REGISTER: the table of SPC-5 5.14.7, row by row.
    pub(super) fn register(
        &mut self,
        nexus: &ItNexus,
        basic: &Basic,
        list: &[u8],
        around: Surroundings<'_>,
    ) -> Result<Verdict, CommandError> {
        let key_now = self.registrants.get(nexus).copied();
        if key_now.unwrap_or(0) != basic.key {
            return Err(CommandError::ReservationConflict);
        }
        if basic.specifies_initiators {
            if key_now.is_some() || basic.action_key == 0 {
                return Err(CommandError::field(1));
            }
            let mut others = specified(nexus, list, around)?;
            others.push(nexus.clone());
            let others = self.at_ports(&others, basic, around);
            return self.add(&others, basic);
        }
        match (key_now, basic.action_key) {
            // Nothing to unregister, and no change of registrations to count.
            (None, 0) => Ok(Verdict::default()),
            (_, 0) => Ok(self.remove(nexus, basic, around)),
            _ => {
                let wanted = self.at_ports(std::slice::from_ref(nexus), basic, around);
                self.add(&wanted, basic)
            }
        }
    }

    /// REGISTER AND IGNORE EXISTING KEY.
    pub(super) fn register_ignoring_key(
        &mut self,
        nexus: &ItNexus,
        basic: &Basic,
        around: Surroundings<'_>,
    ) -> Result<Verdict, CommandError> {
        if basic.action_key == 0 {
            if !self.registrants.contains_key(nexus) {
                return Ok(Verdict::default());
            }
            return Ok(self.remove(nexus, basic, around));
        }
        let wanted = self.at_ports(std::slice::from_ref(nexus), basic, around);
        self.add(&wanted, basic)
    }

    /// REGISTER AND MOVE: moves the reservation to another nexus.
    pub(super) fn register_and_move(
        &mut self,
        nexus: &ItNexus,
        list: &[u8],
        around: Surroundings<'_>,
    ) -> Result<Verdict, CommandError> {
        let head = list.first_chunk::<LIST_LEN>().ok_or(CommandError::ParameterListLength)?;
        let key = u64::from_be_bytes(head[..8].try_into().expect("eight bytes"));
        let action_key = u64::from_be_bytes(head[8..16].try_into().expect("eight bytes"));
        let (unregister, survives_power_loss) = (head[17] & 0x02 != 0, head[17] & 0x01 != 0);
        let port = u16::from_be_bytes([head[18], head[19]]);
        if u64::from(u32::from_be_bytes(head[20..24].try_into().expect("four bytes")))
            != (list.len() - LIST_LEN) as u64
        {
            return Err(CommandError::ParameterListLength);
        }
        self.check_key(nexus, key)?;
        let kind = match &self.held {
            Some(held) if !held.kind.all_registrants() && held.by == *nexus => held.kind,
            _ => return Err(CommandError::ReservationConflict),
        };
        if action_key == 0 {
            return Err(CommandError::parameter(8));
        }
        if !around.ports.contains(&port) {
            return Err(CommandError::parameter(18));
        }
        let to = match transport_id::decode(&list[LIST_LEN..]) {
            // A device has many ports, and a reservation moves to one.
            Some((Named::Port(initiator), len)) if len == list.len() - LIST_LEN => {
                ItNexus { initiator: Arc::new(initiator), port }
            }
            _ => return Err(CommandError::parameter(24)),
        };
        if to == *nexus {
            return Err(CommandError::parameter(24));
        }
        if unregister {
            self.registrants.remove(nexus);
        }
        self.insert(&to, action_key)?;
        self.held = Some(Held { kind, by: to });
        self.survives_power_loss = survives_power_loss;
        self.generation = self.generation.wrapping_add(1);
        Ok(Verdict::default())
    }

    /// Registers the new key for every nexus of `wanted`.
    fn add(&mut self, wanted: &[ItNexus], basic: &Basic) -> Result<Verdict, CommandError> {
        for nexus in wanted {
            if basic.all_target_ports {
                self.everywhere.insert(nexus.initiator.clone(), basic.action_key);
            }
            self.insert(nexus, basic.action_key)?;
        }
        self.survives_power_loss = basic.survives_power_loss;
        self.generation = self.generation.wrapping_add(1);
        Ok(Verdict::default())
    }

    fn insert(&mut self, nexus: &ItNexus, key: u64) -> Result<(), CommandError> {
        if self.registrations() >= REGISTRANTS_MAX && !self.registrants.contains_key(nexus) {
            return Err(CommandError::InsufficientRegistrationResources);
        }
        self.registrants.insert(nexus.clone(), key);
        Ok(())
    }

    /// Unregisters, and releases the reservation of the last holder (SPC-5 5.14.11.3).
    fn remove(&mut self, nexus: &ItNexus, basic: &Basic, around: Surroundings<'_>) -> Verdict {
        let mut verdict = Verdict::default();
        for gone in self.at_ports(std::slice::from_ref(nexus), basic, around) {
            self.registrants.remove(&gone);
        }
        if self.holder_is_gone() {
            self.drop_reservation(nexus, &mut verdict);
        }
        self.survives_power_loss = basic.survives_power_loss;
        self.generation = self.generation.wrapping_add(1);
        verdict
    }

    /// Whether no holder of the reservation is left.
    pub(super) fn holder_is_gone(&self) -> bool {
        match &self.held {
            Some(held) if held.kind.all_registrants() => self.registrants.is_empty(),
            Some(held) => !self.registrants.contains_key(&held.by),
            None => false,
        }
    }

    /// ALL_TG_PT: the nexuses through every target port instead of the one, and those at ports that are gone,
    /// which may come back.
    fn at_ports(&self, nexuses: &[ItNexus], basic: &Basic, around: Surroundings<'_>) -> Vec<ItNexus> {
        if !basic.all_target_ports {
            return nexuses.to_vec();
        }
        let all = nexuses
            .iter()
            .flat_map(|n| around.ports.iter().map(|&port| ItNexus { initiator: n.initiator.clone(), port }));
        let is_named = |known: &&ItNexus| nexuses.iter().any(|n| n.initiator == known.initiator);
        let registered = self.registrants.keys().filter(is_named).cloned();
        all.chain(registered).chain(nexuses.iter().cloned()).collect()
    }
}

/// SPEC_I_PT: the nexuses that the list names besides the sender, through the port that the command came by.
fn specified(nexus: &ItNexus, list: &[u8], around: Surroundings<'_>) -> Result<Vec<ItNexus>, CommandError> {
    let rest = &list[LIST_LEN..];
    let (len, mut ids) = rest.split_first_chunk::<4>().ok_or(CommandError::ParameterListLength)?;
    if u64::from(u32::from_be_bytes(*len)) != ids.len() as u64 {
        return Err(CommandError::ParameterListLength);
    }
    let mut nexuses = Vec::new();
    while !ids.is_empty() {
        let byte = list.len() - ids.len();
        let (named, len) = transport_id::decode(ids).ok_or_else(|| CommandError::parameter(byte))?;
        ids = &ids[len..];
        match named {
            Named::Port(initiator) => {
                nexuses.push(ItNexus { initiator: Arc::new(initiator), port: nexus.port })
            }
            Named::Device(name) => {
                let known = around.initiators.iter().filter(|port| port.name == name);
                nexuses.extend(known.map(|port| ItNexus { initiator: port.clone(), port: nexus.port }));
            }
        }
        if nexuses.len() > REGISTRANTS_MAX {
            return Err(CommandError::InsufficientRegistrationResources);
        }
    }
    Ok(nexuses)
}
