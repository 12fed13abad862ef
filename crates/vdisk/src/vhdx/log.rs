//! The log: complete entries, their newest sequence, and its patches of the file.

use super::header::{FILE_BYTES_MAX, Header};
use super::pages::{Patch, Patches};
use super::region::{REGION_TABLES_AT, u32_at, u64_at};
use super::{Guid, PAGE_BYTES, checksum};
use crate::VdiskError;

const ENTRY: &[u8; 4] = b"loge";
const DATA_DESCRIPTOR: &[u8; 4] = b"desc";
const ZERO_DESCRIPTOR: &[u8; 4] = b"zero";
const DATA_SECTOR: &[u8; 4] = b"data";
const HEADER_BYTES: usize = 64;
const DESCRIPTOR_BYTES: usize = 32;
const PAGE: usize = PAGE_BYTES as usize;
/// Limit of data descriptors of masu's own entries: as many as fit in the page of the header, so that an
/// entry takes at most half a MiB.
pub(super) const PAGES_MAX: usize = (PAGE - HEADER_BYTES) / DESCRIPTOR_BYTES;

/// Limit of the bytes of which checksums are computed, in lengths of the log. Entries of an intact log do not
/// overlap, so one is enough for them, and one more for older ones.
const CHECKED_TIMES_MAX: usize = 4;

/// The header of an entry with a correct checksum.
#[derive(Clone, Copy)]
struct Entry {
    /// Its place in the log, and its length.
    at: usize,
    len: usize,
    tail: usize,
    sequence: u64,
    descriptors: usize,
}

/// The content of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Replay {
    pub(super) patches: Patches,
    /// Minimum length of the file, and its length after replay.
    pub(super) flushed_len: u64,
    pub(super) last_len: u64,
}

/// Parses a log, in which entries with the header's GUID are valid. `None`: there is no complete sequence.
fn replay(bytes: &[u8], guid: Guid) -> Result<Option<Replay>, VdiskError> {
    let entries = entries(bytes, guid)?;
    let mut heads: Vec<Entry> = entries.iter().flatten().copied().collect();
    heads.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.sequence));
    for head in heads {
        let Some(members) = sequence(&entries, head, bytes.len()) else { continue };
        let mut list = Vec::new();
        let whole = members.iter().all(|entry| {
            let of_entry = patches(&ring(bytes, entry.at, entry.len), entry.descriptors, entry.sequence);
            list.extend(of_entry.iter().flatten().cloned());
            // Every patch except one of zeros has a page of the log, so there cannot be more.
            of_entry.is_some() && list.len() <= bytes.len() / PAGE
        });
        if whole {
            let page = &bytes[head.at..head.at + PAGE];
            let (flushed_len, last_len) = (u64_at(page, 48), u64_at(page, 56));
            return Ok(Some(Replay { patches: Patches(list), flushed_len, last_len }));
        }
    }
    Ok(None)
}

/// The complete entries, by the page in which they begin.
fn entries(log: &[u8], guid: Guid) -> Result<Vec<Option<Entry>>, VdiskError> {
    let mut checked = 0;
    let pages = log.len() / PAGE;
    let mut entries = vec![None; pages];
    for (page, slot) in entries.iter_mut().enumerate() {
        let Some(entry) = parse(log, page * PAGE, guid) else { continue };
        checked += entry.len;
        if checked > log.len().saturating_mul(CHECKED_TIMES_MAX) {
            return Err(VdiskError::damaged("the log", "its entries overlap each other"));
        }
        let bytes = ring(log, entry.at, entry.len);
        let is_whole = checksum(&bytes, 4) == u32_at(&bytes, 4);
        if is_whole && patches(&bytes, entry.descriptors, entry.sequence).is_some() {
            *slot = Some(entry);
        }
    }
    Ok(entries)
}

/// The entries from the tail of `head` to `head`, if all of them are present, one behind the other.
fn sequence(entries: &[Option<Entry>], head: Entry, log_len: usize) -> Option<Vec<Entry>> {
    let find = |at: usize| entries.get(at / PAGE).copied().flatten();
    let mut last = find(head.tail)?;
    let mut list = vec![last];
    while last.at != head.at {
        let next = find((last.at + last.len) % log_len)?;
        if Some(next.sequence) != last.sequence.checked_add(1) || next.sequence > head.sequence {
            return None;
        }
        list.push(next);
        last = next;
    }
    Some(list)
}

/// Bytes of the log, which is a ring; at most all of it.
fn ring(log: &[u8], at: usize, len: usize) -> Vec<u8> {
    let first = len.min(log.len() - at);
    [&log[at..at + first], &log[..len - first]].concat()
}

/// The header of an entry at a page of the log, without verifying its checksum.
fn parse(log: &[u8], at: usize, guid: Guid) -> Option<Entry> {
    let first = log.get(at..at + PAGE)?;
    if first[..4] != ENTRY[..] || first[32..48] != guid.0 {
        return None;
    }
    let (len, tail) = (u32_at(first, 8) as usize, u32_at(first, 12) as usize);
    let (sequence, descriptors) = (u64_at(first, 16), u32_at(first, 24) as usize);
    let fits = len >= PAGE && len <= log.len() && len.is_multiple_of(PAGE);
    if !fits || tail >= log.len() || !tail.is_multiple_of(PAGE) || sequence == 0 {
        return None;
    }
    Some(Entry { at, len, tail, sequence, descriptors })
}

/// The patches of an entry's descriptors. `None`: they are inconsistent with it.
fn patches(bytes: &[u8], count: usize, sequence: u64) -> Option<Vec<Patch>> {
    let descriptors_end = count.checked_mul(DESCRIPTOR_BYTES)?.checked_add(HEADER_BYTES)?;
    let sectors_at = descriptors_end.checked_next_multiple_of(PAGE)?;
    let mut sectors = bytes.get(sectors_at..)?.chunks_exact(PAGE);
    let mut patches = Vec::new();
    for descriptor in bytes[HEADER_BYTES..descriptors_end].chunks_exact(DESCRIPTOR_BYTES) {
        let at = u64_at(descriptor, 16);
        if u64_at(descriptor, 24) != sequence || !at.is_multiple_of(PAGE_BYTES) || at > FILE_BYTES_MAX {
            return None;
        }
        if descriptor[..4] == ZERO_DESCRIPTOR[..] {
            let len = u64_at(descriptor, 8);
            if len == 0 || !len.is_multiple_of(PAGE_BYTES) || len > FILE_BYTES_MAX {
                return None;
            }
            patches.push(Patch { at, len, bytes: None });
            continue;
        }
        let sector = sectors.next()?;
        let halves = [sector.get(4..8)?, sector.get(PAGE - 4..)?];
        let own = u64::from(u32_at(halves[0], 0)) << 32 | u64::from(u32_at(halves[1], 0));
        if descriptor[..4] != DATA_DESCRIPTOR[..] || sector[..4] != DATA_SECTOR[..] || own != sequence {
            return None;
        }
        // The first eight bytes and the last four are in the descriptor, because the sector has its own
        // signature and sequence there.
        let page = [&descriptor[8..16], &sector[8..PAGE - 4], &descriptor[4..8]].concat();
        patches.push(Patch { at, len: PAGE_BYTES, bytes: Some(page) });
    }
    Some(patches)
}

/// Writes entries, each a sequence by itself.
#[derive(Clone, Debug)]
pub(super) struct Writer {
    at: u64,
    len: u64,
    head: u64,
    sequence: u64,
    pub(super) guid: Guid,
}

impl Writer {
    /// A writer of entries with this GUID, which no entry in the log has yet.
    pub(super) fn new(header: &Header, guid: Guid) -> Writer {
        Writer { at: header.log_at, len: header.log_len.into(), head: 0, sequence: 1, guid }
    }

    /// An entry with these pages (at most [`PAGES_MAX`]): the writes to the file, two if it wraps around the
    /// end of the log.
    pub(super) fn entry(&mut self, pages: &[(u64, Vec<u8>)], file_len: u64) -> Vec<(u64, Vec<u8>)> {
        let bytes = self.encode(pages, file_len);
        let split = bytes.len().min((self.len - self.head) as usize);
        let (first, second) = bytes.split_at(split);
        let mut writes = vec![(self.at + self.head, first.to_vec())];
        if !second.is_empty() {
            writes.push((self.at, second.to_vec()));
        }
        self.head = (self.head + bytes.len() as u64) % self.len;
        self.sequence += 1;
        writes
    }

    fn encode(&self, pages: &[(u64, Vec<u8>)], file_len: u64) -> Vec<u8> {
        assert!(pages.len() <= PAGES_MAX, "an entry has one page of descriptors");
        let sequence = self.sequence.to_le_bytes();
        let mut bytes = vec![0; PAGE * (1 + pages.len())];
        let len = bytes.len() as u32;
        bytes[..4].copy_from_slice(ENTRY);
        bytes[8..12].copy_from_slice(&len.to_le_bytes());
        bytes[12..16].copy_from_slice(&(self.head as u32).to_le_bytes());
        bytes[16..24].copy_from_slice(&sequence);
        bytes[24..28].copy_from_slice(&(pages.len() as u32).to_le_bytes());
        bytes[32..48].copy_from_slice(&self.guid.0);
        bytes[48..56].copy_from_slice(&file_len.to_le_bytes());
        bytes[56..64].copy_from_slice(&file_len.to_le_bytes());
        for (i, (at, page)) in pages.iter().enumerate() {
            let descriptor = &mut bytes[HEADER_BYTES + i * DESCRIPTOR_BYTES..][..DESCRIPTOR_BYTES];
            descriptor[..4].copy_from_slice(DATA_DESCRIPTOR);
            descriptor[4..8].copy_from_slice(&page[PAGE - 4..]);
            descriptor[8..16].copy_from_slice(&page[..8]);
            descriptor[16..24].copy_from_slice(&at.to_le_bytes());
            descriptor[24..32].copy_from_slice(&sequence);
            let sector = &mut bytes[PAGE * (1 + i)..][..PAGE];
            sector.copy_from_slice(page);
            sector[..4].copy_from_slice(DATA_SECTOR);
            sector[4..8].copy_from_slice(&sequence[4..]);
            sector[PAGE - 4..].copy_from_slice(&sequence[..4]);
        }
        let sum = checksum(&bytes, 4);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}

/// The log of a file according to its header; nothing if the header has none.
pub(super) fn find(bytes: &[u8], header: &Header, file_len: u64) -> Result<Replay, VdiskError> {
    if header.log == Guid::ZERO {
        return Ok(Replay::default());
    }
    // A log without a complete entry was begun and never used: nothing was written in place.
    let Some(replay) = replay(bytes, header.log)? else { return Ok(Replay::default()) };
    if file_len < replay.flushed_len {
        let cause =
            format!("it had {} bytes when the log was written, and has {file_len} now", replay.flushed_len);
        return Err(VdiskError::damaged("the file", cause));
    }
    let len = file_len.max(replay.last_len);
    if len > FILE_BYTES_MAX {
        return Err(VdiskError::damaged("the log", format!("it would extend the file to {len} bytes")));
    }
    let own = (header.log_at, header.log_at + u64::from(header.log_len));
    let strays = |patch: &&Patch| {
        let end = patch.at + patch.len;
        // Headers and log are never written through the log.
        end > len || patch.at < REGION_TABLES_AT[0] || (patch.at < own.1 && end > own.0)
    };
    if let Some(patch) = replay.patches.0.iter().find(strays) {
        let cause = format!("it has {} bytes for byte {}, which a log must not write", patch.len, patch.at);
        return Err(VdiskError::damaged("the log", cause));
    }
    Ok(replay)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: usize = 1 << 20;

    fn writer() -> Writer {
        Writer { at: 0, len: LOG as u64, head: 0, sequence: 1, guid: Guid([3; 16]) }
    }

    fn put(log: &mut [u8], writes: Vec<(u64, Vec<u8>)>) {
        for (at, bytes) in writes {
            log[at as usize..][..bytes.len()].copy_from_slice(&bytes);
        }
    }

    #[test]
    fn the_newest_whole_entry_is_replayed_also_around_the_end() {
        let (mut log, mut writer) = (vec![0; LOG], writer());
        for round in 0..20_u8 {
            let pages: Vec<_> = (0..PAGES_MAX as u64).map(|i| (i * 4096, vec![round; PAGE])).collect();
            put(&mut log, writer.entry(&pages, 7));
            let found = replay(&log, writer.guid).expect("no damage").expect("an entry");
            assert_eq!(found.patches.0.len(), PAGES_MAX);
            assert_eq!(found.patches.0[5].bytes.as_deref(), Some(&vec![round; PAGE][..]), "round {round}");
        }
        assert_eq!(replay(&log, Guid([4; 16])), Ok(None));
    }

    #[test]
    fn an_entry_that_is_torn_leaves_the_one_before() {
        let (mut log, mut writer) = (vec![0; LOG], writer());
        put(&mut log, writer.entry(&[(4096, vec![1; PAGE])], 7));
        let (at, bytes) = writer.entry(&[(4096, vec![2; PAGE]), (8192, vec![2; PAGE])], 7).remove(0);
        for sectors in 0..bytes.len() / 512 {
            let mut torn = log.clone();
            torn[at as usize..][..sectors * 512].copy_from_slice(&bytes[..sectors * 512]);
            let found = replay(&torn, writer.guid).expect("no damage").expect("the first");
            assert_eq!(found.patches.0[0].bytes.as_deref(), Some(&vec![1; PAGE][..]), "{sectors} sectors");
        }
    }
}
