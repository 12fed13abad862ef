//! A batch: its header block, and the payload behind it.

use block::{Buf, Pieces};
use crc_fast::{CrcAlgorithm, checksum};

use super::{BLOCK, COUNTER_END};

const MAGIC: [u8; 8] = *b"MASUJBAT";
/// Length limit of header and payload: a transfer that every lower layer accepts as one.
pub(crate) const BATCH_LEN_MAX: usize = 1 << 20;
const FIXED_LEN: usize = 96;
const ENTRY_LEN: usize = 32;
/// Limit of records of one batch: the space of its header before its checksum.
const ENTRIES_MAX: usize = (BLOCK as usize - FIXED_LEN - 4) / ENTRY_LEN;
/// Where the header's own checksum lies.
const SUM_AT: usize = BLOCK as usize - 4;

/// Kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The range has this content.
    Write,
    /// Earlier records of the range are void.
    Forget,
}

/// A record without its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) unit: u64,
    pub(crate) at: u64,
    pub(crate) len: u64,
    pub(crate) kind: Kind,
}

impl Entry {
    pub(crate) fn payload_len(&self) -> usize {
        match self.kind {
            Kind::Write => self.len as usize,
            Kind::Forget => 0,
        }
    }
}

/// A place in the ring: a batch and where it begins, counted from the creation of the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) number: u64,
    pub(crate) position: u64,
}

/// What identifies a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) id: [u8; 16],
    pub(crate) epoch: u64,
    pub(crate) place: Place,
    /// The oldest batch that was still needed when this one was written.
    pub(crate) tail: Place,
    /// The number of its first record.
    pub(crate) first_sequence: u64,
    /// The number of the first batch of its commit: all earlier ones were durable when this one was written.
    pub(crate) commit: u64,
}

/// A batch being gathered.
pub(crate) struct Gathering {
    buf: Buf,
    pub(crate) entries: Vec<Entry>,
    payload_len: usize,
    pub(crate) first_sequence: u64,
}

impl Gathering {
    pub(crate) fn new(first_sequence: u64) -> Gathering {
        Gathering { buf: Buf::new(BATCH_LEN_MAX), entries: Vec::new(), payload_len: 0, first_sequence }
    }

    pub(crate) fn takes(&self, entry: &Entry) -> bool {
        let len = BLOCK as usize + self.payload_len + entry.payload_len();
        self.entries.len() < ENTRIES_MAX && len <= BATCH_LEN_MAX
    }

    pub(crate) fn push(&mut self, entry: Entry, data: &Pieces) {
        let from = BLOCK as usize + self.payload_len;
        data.copy_to(&mut self.buf[from..from + entry.payload_len()]);
        self.payload_len += entry.payload_len();
        self.entries.push(entry);
    }

    pub(crate) fn last_sequence(&self) -> u64 {
        self.first_sequence + self.entries.len() as u64 - 1
    }

    pub(crate) fn payload_bytes(&self) -> u64 {
        self.payload_len as u64
    }

    /// Bytes in the ring.
    pub(crate) fn len(&self) -> u64 {
        BLOCK + (self.payload_len as u64).next_multiple_of(BLOCK)
    }

    /// The bytes of the batch.
    pub(crate) fn encode(mut self, stamp: &Stamp) -> Buf {
        let end = self.len() as usize;
        self.buf.truncate(end);
        let (header, payload) = self.buf.split_at_mut(BLOCK as usize);
        payload[self.payload_len..].fill(0);
        header.fill(0);
        let sum = crc(&payload[..self.payload_len]);
        let fields: [&[u8]; 13] = [
            &MAGIC,
            &stamp.id,
            &stamp.epoch.to_le_bytes(),
            &stamp.place.number.to_le_bytes(),
            &stamp.place.position.to_le_bytes(),
            &stamp.tail.number.to_le_bytes(),
            &stamp.tail.position.to_le_bytes(),
            &stamp.first_sequence.to_le_bytes(),
            &(self.entries.len() as u32).to_le_bytes(),
            &(self.payload_len as u32).to_le_bytes(),
            &sum.to_le_bytes(),
            &[0; 4],
            &stamp.commit.to_le_bytes(),
        ];
        let mut at = 0;
        for field in fields {
            header[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        }
        for (i, entry) in self.entries.iter().enumerate() {
            let to = &mut header[FIXED_LEN + i * ENTRY_LEN..][..ENTRY_LEN];
            to[..8].copy_from_slice(&entry.unit.to_le_bytes());
            to[8..16].copy_from_slice(&entry.at.to_le_bytes());
            to[16..24].copy_from_slice(&entry.len.to_le_bytes());
            to[24] = u8::from(entry.kind == Kind::Forget);
        }
        let sum = crc(&header[..SUM_AT]);
        header[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
        self.buf
    }
}

/// A batch found in a ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) stamp: Stamp,
    pub(crate) entries: Vec<Entry>,
    pub(crate) payload_len: usize,
    payload_sum: u32,
}

impl Found {
    /// Bytes in the ring.
    pub(crate) fn len(&self) -> u64 {
        BLOCK + (self.payload_len as u64).next_multiple_of(BLOCK)
    }

    /// The number of the record after the last one.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.stamp.first_sequence + self.entries.len() as u64
    }

    /// Whether this is the payload that was written with the header.
    pub(crate) fn fits(&self, payload: &[u8]) -> bool {
        payload.len() == self.payload_len && crc(payload) == self.payload_sum
    }
}

/// A valid batch and its place.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) place: Place,
    pub(crate) found: Found,
    /// The mirror that has it, where what the device reads is not valid.
    pub(crate) mirror: Option<usize>,
}

/// Parses a header block, if it belongs to this journal.
pub(crate) fn decode(header: &[u8], id: &[u8; 16]) -> Option<Found> {
    let header = header.get(..BLOCK as usize)?;
    let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("8 bytes"));
    let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("4 bytes"));
    if header[..8] != MAGIC || header[8..24] != id[..] || crc(&header[..SUM_AT]) != word(SUM_AT) {
        return None;
    }
    let (count, payload_len) = (word(72) as usize, word(76) as usize);
    if count == 0 || count > ENTRIES_MAX || payload_len > BATCH_LEN_MAX - BLOCK as usize {
        return None;
    }
    let mut entries = Vec::with_capacity(count);
    for i in 0..count {
        let at = FIXED_LEN + i * ENTRY_LEN;
        let kind = match header[at + 24] {
            0 => Kind::Write,
            1 => Kind::Forget,
            _ => return None,
        };
        let entry = Entry { unit: number(at), at: number(at + 8), len: number(at + 16), kind };
        let passes = entry.at.checked_add(entry.len).is_none();
        if passes || (kind == Kind::Write && entry.len > payload_len as u64) {
            return None;
        }
        entries.push(entry);
    }
    if entries.iter().map(Entry::payload_len).sum::<usize>() != payload_len {
        return None;
    }
    let stamp = Stamp {
        id: *id,
        epoch: number(24),
        place: Place { number: number(32), position: number(40) },
        tail: Place { number: number(48), position: number(56) },
        first_sequence: number(64),
        commit: number(88),
    };
    let (place, tail) = (stamp.place, stamp.tail);
    let ordered =
        tail.number <= place.number && tail.position <= place.position && stamp.commit <= place.number;
    let counters = place.number.max(place.position).max(stamp.first_sequence).max(stamp.epoch);
    // Records are counted from 1 on.
    if !ordered || counters >= COUNTER_END || stamp.first_sequence == 0 {
        return None;
    }
    Some(Found { stamp, entries, payload_len, payload_sum: word(80) })
}

pub(crate) fn crc(bytes: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_comes_back_and_every_changed_byte_is_noticed() {
        let id = [3; 16];
        let place = Place { number: 9, position: 40960 };
        let tail = Place { number: 7, position: 8192 };
        let stamp = Stamp { id, epoch: 4, place, tail, first_sequence: 100, commit: 8 };
        let mut batch = Gathering::new(100);
        let write = Entry { unit: 5, at: 1024, len: 1536, kind: Kind::Write };
        let forget = Entry { unit: 6, at: 0, len: 1 << 40, kind: Kind::Forget };
        assert!(batch.takes(&write));
        batch.push(write, &Pieces::copy_of(&[7; 1536]));
        batch.push(forget, &Pieces::new());
        assert_eq!((batch.last_sequence(), batch.len()), (101, 8192));
        let bytes = batch.encode(&stamp);
        let found = decode(&bytes, &id).expect("it is one");
        assert_eq!((found.stamp, &found.entries[..], found.len()), (stamp, &[write, forget][..], 8192));
        assert!(found.fits(&bytes[4096..4096 + 1536]));
        assert!(decode(&bytes, &[4; 16]).is_none(), "of another journal");
        assert!(decode(&bytes[..100], &id).is_none());
        for at in 0..4096 + 1536 {
            let mut changed = Buf::copy_of(&bytes);
            changed[at] ^= 0x10;
            let found = decode(&changed, &id);
            assert!(!found.is_some_and(|f| f.fits(&changed[4096..4096 + 1536])), "byte {at}");
        }
    }

    #[test]
    fn a_batch_is_full_by_records_or_by_bytes() {
        let mut batch = Gathering::new(1);
        let forget = Entry { unit: 1, at: 0, len: 512, kind: Kind::Forget };
        while batch.takes(&forget) {
            batch.push(forget, &Pieces::new());
        }
        assert_eq!(batch.entries.len(), ENTRIES_MAX);
        let batch = Gathering::new(1);
        let large = |len| Entry { unit: 1, at: 0, len, kind: Kind::Write };
        assert!(batch.takes(&large(BATCH_LEN_MAX as u64 - BLOCK)));
        assert!(!batch.takes(&large(BATCH_LEN_MAX as u64 - BLOCK + 512)));
    }
}
