//! The state of a logical unit's reservations, and the check of every command.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::carried::Carried;
use super::it_nexus::ItNexus;
use super::kind::Kind;
use super::transport_id::ISCSI_NAME_LEN_MAX;
use crate::nexus::InitiatorPort;
use crate::opcode::Access;

/// Most nexuses registered with one logical unit. 256 entries of the largest size fit in the 64 KiB of a
/// saved record; with eight paths per host these are 32 hosts.
pub(crate) const REGISTRANTS_MAX: usize = 256;
const _: () = assert!(
    REGISTRANTS_MAX * (super::record::ENTRY_FIXED_LEN + ISCSI_NAME_LEN_MAX) + super::record::FRAME_LEN
        <= 64 << 10
);

/// A persistent reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Held {
    pub(super) kind: Kind,
    /// Its creator. For the all registrants types this is only history: every registrant holds it.
    pub(super) by: ItNexus,
}

/// Registrations and reservations of one logical unit. Pure: no I/O, no clock.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "Carried", into = "Carried")]
pub(crate) struct State {
    /// Reservation keys by nexus.
    pub(super) registrants: BTreeMap<ItNexus, u64>,
    /// Initiator ports that are registered with this key at all target ports (ALL_TG_PT): also at those that
    /// the array gets later, for example those of a node that joins. All their registrations have the key;
    /// the first one that is changed or removed alone ends the entry.
    pub(super) everywhere: BTreeMap<Arc<InitiatorPort>, u64>,
    pub(super) held: Option<Held>,
    /// PRgeneration (SPC-5 6.15.2): counts changes of registrations since power on. A take-over is none.
    pub(super) generation: u32,
    /// The APTPL value of the last registration: whether the state is to survive a power loss.
    pub(super) survives_power_loss: bool,
    /// The holder of RESERVE(6) or RESERVE(10).
    pub(super) legacy: Option<ItNexus>,
}

impl State {
    /// Whether a command of class `access` from `nexus` ends with RESERVATION CONFLICT.
    pub(crate) fn conflicts(&self, nexus: &ItNexus, access: Access) -> bool {
        if self.legacy.is_none() && self.held.is_none() {
            return false;
        }
        if let Some(holder) = &self.legacy {
            return holder != nexus && !matches!(access, Access::Free | Access::Own);
        }
        let Some(held) = &self.held else { return false };
        let guarded = match access {
            Access::Free | Access::Query | Access::Own => false,
            Access::Read => !held.kind.admits_reads(),
            Access::Write => true,
        };
        guarded && !self.has_access(held, nexus)
    }

    /// Whether a reservation of any kind is in force.
    pub(crate) fn is_reserved(&self) -> bool {
        self.legacy.is_some() || self.held.is_some()
    }

    /// Whether any nexus is registered.
    pub(super) fn has_registrants(&self) -> bool {
        !self.registrants.is_empty()
    }

    /// The registered nexuses with their keys.
    #[cfg(test)]
    pub(crate) fn registrants(&self) -> impl Iterator<Item = (&ItNexus, u64)> {
        self.registrants.iter().map(|(nexus, key)| (nexus, *key))
    }

    /// The type of the persistent reservation, if there is one.
    pub(crate) fn kind(&self) -> Option<Kind> {
        self.held.as_ref().map(|held| held.kind)
    }

    fn has_access(&self, held: &Held, nexus: &ItNexus) -> bool {
        if held.kind.admits_registrants() { self.registrants.contains_key(nexus) } else { held.by == *nexus }
    }

    /// Whether `nexus` is a persistent reservation holder (SPC-5 5.14.10).
    pub(super) fn holds(&self, nexus: &ItNexus) -> bool {
        match &self.held {
            Some(held) if held.kind.all_registrants() => self.registrants.contains_key(nexus),
            Some(held) => held.by == *nexus,
            None => false,
        }
    }
}
