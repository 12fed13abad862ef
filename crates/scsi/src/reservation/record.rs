//! The record of reservations that outlives the process which serves the logical unit, byte by byte.
//!
//! | bytes | content |
//! |---|---|
//! | 0..8 | `masu-pr` and the version, 1 or 2 |
//! | 8 | type of the reservation, 0 for none |
//! | 9 | version 2: 1 if the last registration had APTPL = 1; otherwise 0 |
//! | 10..12 | which entry made the reservation, little endian |
//! | 12..14 | number of entries, little endian |
//! | 14..18 | version 2 only: PRgeneration, little endian |
//! | then per entry | key (8), ISID (6), relative target port (2), length of the name (1), name |
//! |  | an entry with port 0, which no target port has: the initiator port is registered at all of them, also at those that appear later (ALL_TG_PT). These come last |
//! | last 8 | checksum over everything before: FNV-1a, 64 bits, little endian |
//!
//! Version 1 is written by an array of one process ([`Persistence::AsAsked`], SPC-5 5.14.5). Without APTPL it
//! has no entries. It does not contain the generation, which starts at zero at power on (SPC-5 6.16.2).
//! Version 2 is written by an array of several nodes ([`Persistence::Always`]): a take-over is no power on. A
//! masu that does not know entries of port 0 takes each for one more registration: READ KEYS has its key
//! twice. The checksum detects damage, not forgery: whoever can write the record can write the volume. The
//! record goes through the disk, whose own metadata are checksummed as well.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::it_nexus::ItNexus;
use super::kind::Kind;
use super::state::{Held, REGISTRANTS_MAX, State};
use super::transport_id::{self, ISCSI_NAME_LEN_MAX};
use crate::nexus::InitiatorPort;

/// The port of an entry that stands for all target ports.
const EVERYWHERE: u16 = 0;

/// The name of the record on the disk.
pub(crate) const RECORD_NAME: &str = "reservations";

const MAGIC: [u8; 7] = *b"masu-pr";
const VERSION_AT: usize = 7;
const AS_ASKED: u8 = 1;
const ALWAYS: u8 = 2;
/// The part before the entries that both versions have.
const HEAD_LEN: usize = 14;
const GENERATION_LEN: usize = 4;
const SUM_LEN: usize = 8;
/// The most without entries.
pub(super) const FRAME_LEN: usize = HEAD_LEN + GENERATION_LEN + SUM_LEN;
/// The least: version 1.
const FRAME_LEN_MIN: usize = HEAD_LEN + SUM_LEN;
/// An entry without its name.
pub(super) const ENTRY_FIXED_LEN: usize = 8 + 6 + 2 + 1;

/// Which registrations and persistent reservations outlive the process that serves the logical unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Persistence {
    /// Those with APTPL = 1: the end of the process is a loss of power.
    #[default]
    AsAsked,
    /// All, and PRgeneration with them: another node of the array goes on, and no host may lose its fence by
    /// that.
    Always,
}

/// Why a record could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RecordError {
    /// Too short, or another magic or version.
    #[error("not a reservation record of this version")]
    Foreign,
    /// The checksum does not match.
    #[error("reservation record is damaged")]
    Damaged,
    /// The checksum matches, but the content is invalid.
    #[error("reservation record is malformed at byte {at}")]
    Malformed { at: usize },
}

impl State {
    /// The record of this state: without entries if none of it is to be kept.
    pub(super) fn encode(&self, persistence: Persistence) -> Vec<u8> {
        let always = persistence == Persistence::Always;
        let is_kept = always || self.survives_power_loss;
        let held = self.held.as_ref().filter(|_| is_kept);
        let by =
            held.and_then(|held| self.registrants.keys().position(|nexus| *nexus == held.by)).unwrap_or(0);
        let count = if is_kept { self.registrations() } else { 0 };
        let mut out = MAGIC.to_vec();
        out.push(if always { ALWAYS } else { AS_ASKED });
        out.push(held.map_or(0, |held| held.kind.code()));
        out.push(u8::from(always && self.survives_power_loss));
        out.extend(u16::try_from(by).expect("registrants have a limit").to_le_bytes());
        out.extend(u16::try_from(count).expect("registrants have a limit").to_le_bytes());
        if always {
            out.extend(self.generation.to_le_bytes());
        }
        let ports = self.registrants.iter().map(|(nexus, key)| (&nexus.initiator, nexus.port, key));
        let everywhere = self.everywhere.iter().map(|(initiator, key)| (initiator, EVERYWHERE, key));
        for (initiator, port, key) in ports.chain(everywhere).take(count) {
            let name = transport_id::name_of(initiator).as_bytes();
            out.extend(key.to_le_bytes());
            out.extend(initiator.isid);
            out.extend(port.to_le_bytes());
            out.push(u8::try_from(name.len()).expect("names have a limit"));
            out.extend(name);
        }
        let sum = checksum(&out);
        out.extend(sum.to_le_bytes());
        out
    }

    /// The state in a record, as it was saved.
    pub(crate) fn restore(record: &[u8]) -> Result<State, RecordError> {
        if record.len() < FRAME_LEN_MIN || !record.starts_with(&MAGIC) {
            return Err(RecordError::Foreign);
        }
        let head_len = match record[VERSION_AT] {
            AS_ASKED => HEAD_LEN,
            ALWAYS if record.len() >= FRAME_LEN => HEAD_LEN + GENERATION_LEN,
            _ => return Err(RecordError::Foreign),
        };
        let (body, sum) = record.split_at(record.len() - SUM_LEN);
        if checksum(body).to_le_bytes() != sum {
            return Err(RecordError::Damaged);
        }
        let by = usize::from(u16::from_le_bytes([body[10], body[11]]));
        let count = usize::from(u16::from_le_bytes([body[12], body[13]]));
        let entries = entries(body, head_len, count)?;
        let held = match body[8] {
            0 => None,
            code => {
                let kind = Kind::of_code(code).ok_or(RecordError::Malformed { at: 8 })?;
                let by = entries.get(by).filter(|(by, _)| by.port != EVERYWHERE);
                let (by, _) = by.ok_or(RecordError::Malformed { at: 10 })?;
                Some(Held { kind, by: by.clone() })
            }
        };
        let all: BTreeMap<ItNexus, u64> = entries.into_iter().collect();
        if all.len() != count {
            return Err(RecordError::Malformed { at: 12 });
        }
        let (everywhere, registrants): (BTreeMap<_, _>, _) =
            all.into_iter().partition(|(nexus, _)| nexus.port == EVERYWHERE);
        let everywhere = everywhere.into_iter().map(|(nexus, key)| (nexus.initiator, key)).collect();
        let (generation, survives_power_loss) = match body[HEAD_LEN..head_len].first_chunk() {
            Some(generation) => (u32::from_le_bytes(*generation), body[9] & 1 != 0),
            None => (0, count > 0),
        };
        let mut state =
            State { survives_power_loss, registrants, everywhere, held, generation, legacy: None };
        // An older masu may have changed one registration without this entry.
        state.end_everywhere(&State::default());
        Ok(state)
    }

    /// What is left of a saved state when a process begins to serve the logical unit.
    pub(super) fn begun(self, persistence: Persistence) -> State {
        match persistence {
            Persistence::Always => self,
            Persistence::AsAsked if self.survives_power_loss => State { generation: 0, ..self },
            Persistence::AsAsked => State::default(),
        }
    }
}

fn entries(body: &[u8], head_len: usize, count: usize) -> Result<Vec<(ItNexus, u64)>, RecordError> {
    if count > REGISTRANTS_MAX {
        return Err(RecordError::Malformed { at: 12 });
    }
    let mut entries = Vec::with_capacity(count);
    let mut at = head_len;
    for _ in 0..count {
        let entry = entry(&body[at..]).ok_or(RecordError::Malformed { at })?;
        at += ENTRY_FIXED_LEN + entry.0.initiator.name.len();
        entries.push(entry);
    }
    if at == body.len() { Ok(entries) } else { Err(RecordError::Malformed { at }) }
}

fn entry(bytes: &[u8]) -> Option<(ItNexus, u64)> {
    let fixed = bytes.first_chunk::<ENTRY_FIXED_LEN>()?;
    let len = usize::from(fixed[16]);
    if len == 0 || len > ISCSI_NAME_LEN_MAX {
        return None;
    }
    let name = std::str::from_utf8(bytes.get(ENTRY_FIXED_LEN..ENTRY_FIXED_LEN + len)?).ok()?.to_owned();
    let key = u64::from_le_bytes(fixed[..8].try_into().expect("eight bytes"));
    let isid = fixed[8..14].try_into().expect("six bytes");
    let port = u16::from_le_bytes([fixed[14], fixed[15]]);
    Some((ItNexus { initiator: Arc::new(InitiatorPort { name, isid }), port }, key))
}

fn checksum(bytes: &[u8]) -> u64 {
    world::fnv1a(bytes.iter().copied())
}

/// Corrects the checksum of a changed record.
#[cfg(test)]
pub(super) fn seal(record: &mut [u8]) {
    let at = record.len() - SUM_LEN;
    let sum = checksum(&record[..at]);
    record[at..].copy_from_slice(&sum.to_le_bytes());
}
