//! The record of reservations that survives a power loss (APTPL, SPC-5 5.14.5), byte by byte.
//!
//! | bytes | content |
//! |---|---|
//! | 0..8 | `masu-pr` and the version, 1 |
//! | 8 | type of the reservation, 0 for none |
//! | 9 | 0 |
//! | 10..12 | which entry made the reservation, little endian |
//! | 12..14 | number of entries, little endian |
//! | then per entry | key (8), ISID (6), relative target port (2), length of the name (1), name |
//! | last 8 | checksum over everything before: FNV-1a, 64 bits, little endian |
//!
//! The record of a state that does not survive a power failure has no entries. It does not contain the
//! generation, which starts at zero at power on (SPC-5 6.16.2). The checksum detects damage, not forgery:
//! whoever can write the record can write the volume. The record goes through the disk, whose own metadata
//! are checksummed as well.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::it_nexus::ItNexus;
use super::kind::Kind;
use super::state::{Held, REGISTRANTS_MAX, State};
use super::transport_id::{self, ISCSI_NAME_LEN_MAX};
use crate::nexus::InitiatorPort;

/// The name of the record on the disk.
pub(crate) const RECORD_NAME: &str = "reservations";

const MAGIC: [u8; 8] = *b"masu-pr\x01";
const HEAD_LEN: usize = 14;
const SUM_LEN: usize = 8;
/// The length without entries.
pub(super) const FRAME_LEN: usize = HEAD_LEN + SUM_LEN;
/// An entry without its name.
pub(super) const ENTRY_FIXED_LEN: usize = 8 + 6 + 2 + 1;

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
    /// The record of this state: without entries unless the state survives a power failure.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let held = self.held.as_ref().filter(|_| self.survives_power_loss);
        let by =
            held.and_then(|held| self.registrants.keys().position(|nexus| *nexus == held.by)).unwrap_or(0);
        let count = if self.survives_power_loss { self.registrants.len() } else { 0 };
        out.push(held.map_or(0, |held| held.kind.code()));
        out.push(0);
        out.extend(u16::try_from(by).expect("registrants have a limit").to_le_bytes());
        out.extend(u16::try_from(count).expect("registrants have a limit").to_le_bytes());
        for (nexus, key) in self.registrants.iter().take(count) {
            let name = transport_id::name_of(&nexus.initiator).as_bytes();
            out.extend(key.to_le_bytes());
            out.extend(nexus.initiator.isid);
            out.extend(nexus.port.to_le_bytes());
            out.push(u8::try_from(name.len()).expect("names have a limit"));
            out.extend(name);
        }
        let sum = checksum(&out);
        out.extend(sum.to_le_bytes());
        out
    }

    /// The state in a record, as after power on.
    pub(crate) fn restore(record: &[u8]) -> Result<State, RecordError> {
        if record.len() < FRAME_LEN || record[..8] != MAGIC {
            return Err(RecordError::Foreign);
        }
        let (body, sum) = record.split_at(record.len() - SUM_LEN);
        if checksum(body).to_le_bytes() != sum {
            return Err(RecordError::Damaged);
        }
        let by = usize::from(u16::from_le_bytes([body[10], body[11]]));
        let count = usize::from(u16::from_le_bytes([body[12], body[13]]));
        let entries = entries(body, count)?;
        let held = match body[8] {
            0 => None,
            code => {
                let kind = Kind::of_code(code).ok_or(RecordError::Malformed { at: 8 })?;
                let (by, _) = entries.get(by).ok_or(RecordError::Malformed { at: 10 })?;
                Some(Held { kind, by: by.clone() })
            }
        };
        let registrants: BTreeMap<ItNexus, u64> = entries.into_iter().collect();
        if registrants.len() != count {
            return Err(RecordError::Malformed { at: 12 });
        }
        Ok(State { survives_power_loss: count > 0, registrants, held, generation: 0, legacy: None })
    }
}

fn entries(body: &[u8], count: usize) -> Result<Vec<(ItNexus, u64)>, RecordError> {
    if count > REGISTRANTS_MAX {
        return Err(RecordError::Malformed { at: 12 });
    }
    let mut entries = Vec::with_capacity(count);
    let mut at = HEAD_LEN;
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
