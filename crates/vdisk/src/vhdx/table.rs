//! The block allocation table: states and places of blocks and of bitmap blocks.

use std::collections::BTreeSet;

use super::{MIB, PAGE_BYTES};
use crate::VdiskError;

/// Entries of one page.
const ENTRIES: u64 = PAGE_BYTES / 8;
/// A larger table is refused, because it is kept in memory.
const TABLE_BYTES_MAX: u64 = 128 << 20;
/// Limit of reported faults of one table: the rest is counted as one.
const FAULTS_MAX: usize = 100;
/// Sectors per bitmap block of 1 MiB.
const CHUNK_SECTORS: u64 = 1 << 23;

/// The state of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Not present: zeros, or the parent's data.
    NotPresent,
    /// Zeros, whatever the parent has.
    Zero,
    /// Fully present at this byte.
    Full(u64),
    /// Partially present at this byte, according to the bitmap; the rest is the parent's.
    Partial(u64),
    /// A state that the format does not have: its data are unknown.
    Invalid(u8),
}

/// The parameters of a disk that determine the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Size of the disk.
    pub len_bytes: u64,
    /// The block size.
    pub block_bytes: u64,
    /// The logical sector size.
    pub sector_bytes: u64,
    /// Whether it is a differencing image.
    pub has_parent: bool,
}

impl Shape {
    /// Blocks of the disk.
    pub fn blocks(&self) -> u64 {
        self.len_bytes.div_ceil(self.block_bytes)
    }

    /// Blocks of one chunk.
    pub fn chunk_blocks(&self) -> u64 {
        CHUNK_SECTORS * self.sector_bytes / self.block_bytes
    }

    /// Entries of the table.
    pub(super) fn entries(&self) -> u64 {
        match self.has_parent {
            true => self.blocks().div_ceil(self.chunk_blocks()) * (self.chunk_blocks() + 1),
            false => self.blocks() + (self.blocks() - 1) / self.chunk_blocks(),
        }
    }

    /// Bytes of the table, in whole pages.
    pub(super) fn table_bytes(&self) -> u64 {
        (self.entries() * 8).next_multiple_of(PAGE_BYTES)
    }

    /// Whether the table can be kept in memory.
    pub(super) fn check(&self) -> Result<(), VdiskError> {
        if self.table_bytes() > TABLE_BYTES_MAX {
            let what = format!("a table of {} bytes; the limit is {TABLE_BYTES_MAX}", self.table_bytes());
            return Err(VdiskError::unsupported(what));
        }
        Ok(())
    }

    fn index(&self, block: u64) -> usize {
        (block + block / self.chunk_blocks()) as usize
    }

    fn bitmap_index(&self, chunk: u64) -> usize {
        (chunk * (self.chunk_blocks() + 1) + self.chunk_blocks()) as usize
    }

    /// Bytes of a bitmap block that belong to one block.
    pub(super) fn bitmap_share(&self) -> u64 {
        self.block_bytes / self.sector_bytes / 8
    }
}

/// The table of one image, in memory.
#[derive(Clone, Debug)]
pub(super) struct Table {
    shape: Shape,
    entries: Vec<u64>,
    dirty: BTreeSet<u64>,
}

impl Table {
    pub(super) fn empty(shape: Shape) -> Table {
        Table { entries: vec![0; shape.entries() as usize], shape, dirty: BTreeSet::new() }
    }

    /// Parses the bytes of the file; there must be enough.
    pub(super) fn parse(shape: Shape, bytes: &[u8]) -> Table {
        let (words, _) = bytes.as_chunks::<8>();
        let entries = words.iter().take(shape.entries() as usize).map(|word| u64::from_le_bytes(*word));
        Table { shape, entries: entries.collect(), dirty: BTreeSet::new() }
    }

    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    pub(super) fn get(&self, block: u64) -> State {
        let entry = self.entries[self.shape.index(block)];
        match (entry & 7, place(entry)) {
            (0, _) => State::NotPresent,
            (6, at) => State::Full(at),
            (7, at) => State::Partial(at),
            // Zero, unmapped and undefined read as zeros.
            (1..=3, _) => State::Zero,
            (state, _) => State::Invalid(state as u8),
        }
    }

    pub(super) fn set(&mut self, block: u64, state: State) {
        let entry = match state {
            State::NotPresent => 0,
            State::Zero => 2,
            State::Full(at) => at | 6,
            State::Partial(at) => at | 7,
            State::Invalid(state) => state.into(),
        };
        self.put(self.shape.index(block), entry);
    }

    /// Offset of the bitmap block of a chunk. Without a parent the last chunk has no entry for one, whatever
    /// a damaged table says of its blocks.
    pub(super) fn bitmap(&self, chunk: u64) -> Option<u64> {
        let entry = self.entries.get(self.shape.bitmap_index(chunk))?;
        (entry & 7 == 6).then(|| place(*entry))
    }

    pub(super) fn set_bitmap(&mut self, chunk: u64, at: u64) {
        self.put(self.shape.bitmap_index(chunk), at | 6);
    }

    fn put(&mut self, index: usize, entry: u64) {
        self.entries[index] = entry;
        self.dirty.insert(index as u64 / ENTRIES);
    }

    pub(super) fn dirty_pages(&self) -> usize {
        self.dirty.len()
    }

    /// The pages that changed since the last call: their numbers and bytes.
    pub(super) fn take_dirty(&mut self) -> Vec<(u64, Vec<u8>)> {
        let dirty = std::mem::take(&mut self.dirty);
        dirty.into_iter().map(|page| (page, self.page(page))).collect()
    }

    pub(super) fn page(&self, page: u64) -> Vec<u8> {
        let from = ((page * ENTRIES) as usize).min(self.entries.len());
        let end = (from + ENTRIES as usize).min(self.entries.len());
        let mut bytes: Vec<u8> =
            self.entries[from..end].iter().flat_map(|entry| entry.to_le_bytes()).collect();
        bytes.resize(PAGE_BYTES as usize, 0);
        bytes
    }

    /// The allocated ranges in the order of places: first byte, the one behind the last, and the block; none:
    /// a bitmap block.
    pub(super) fn placed(&self) -> Vec<(u64, u64, Option<u64>)> {
        let blocks = (0..self.shape.blocks()).filter_map(|block| match self.get(block) {
            State::Full(at) | State::Partial(at) => Some((at, at + self.shape.block_bytes, Some(block))),
            State::NotPresent | State::Zero | State::Invalid(_) => None,
        });
        let chunks = match self.shape.has_parent {
            true => self.shape.blocks().div_ceil(self.shape.chunk_blocks()),
            false => 0,
        };
        let bitmaps = (0..chunks).filter_map(|chunk| Some((self.bitmap(chunk)?, None)));
        let mut placed: Vec<_> = blocks.chain(bitmaps.map(|(at, block)| (at, at + MIB, block))).collect();
        placed.sort_unstable();
        placed
    }

    /// The faults of the table, given reserved ranges and the length of the file.
    pub(super) fn faults(&self, reserved: &[(u64, u64)], file_len: u64) -> Vec<String> {
        let mut faults = self.states();
        if faults.len() >= FAULTS_MAX {
            return faults;
        }
        let mut end = super::HEAD_BYTES;
        for (at, to, block) in self.placed() {
            if faults.len() >= FAULTS_MAX {
                faults.push("further ones were not examined".into());
                break;
            }
            let name = block.map_or_else(|| "a bitmap block".to_owned(), |block| format!("block {block}"));
            if at < end {
                faults.push(format!("{name} at byte {at} overlaps another block or the headers"));
            }
            if reserved.iter().any(|(from, behind)| at < *behind && to > *from) {
                faults.push(format!("{name} at byte {at} overlaps the log, the metadata or the table"));
            }
            // The last block of a file may be truncated at the end of the disk.
            let disk_to = block.map_or(to, |block| {
                at + self.shape.block_bytes.min(self.shape.len_bytes - block * self.shape.block_bytes)
            });
            if disk_to > file_len {
                faults.push(format!("{name} at byte {at} is past the end of the file at {file_len}"));
            }
            end = end.max(to);
        }
        faults
    }

    /// Invalid states of blocks, and partially present blocks without a bitmap.
    fn states(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for block in 0..self.shape.blocks() {
            if faults.len() >= FAULTS_MAX {
                faults.push("further ones were not examined".into());
                break;
            }
            let entry = self.entries[self.shape.index(block)];
            let partial = entry & 7 == 7;
            if matches!(entry & 7, 4 | 5) || (partial && !self.shape.has_parent) {
                faults.push(format!("block {block} has the invalid state {}", entry & 7));
            } else if partial && self.bitmap(block / self.shape.chunk_blocks()).is_none() {
                faults.push(format!("block {block} is partially present without a bitmap"));
            }
        }
        faults
    }

    /// Gaps that fit blocks, the first one last; and the end of the used space.
    pub(super) fn gaps(&self, reserved: &[(u64, u64)]) -> (Vec<u64>, u64) {
        let placed = self.placed().into_iter().map(|(at, to, _)| (at, to));
        let mut taken: Vec<_> = placed.chain(reserved.iter().copied()).collect();
        taken.sort_unstable();
        let (mut gaps, mut end) = (Vec::new(), super::HEAD_BYTES);
        for (from, to) in taken {
            let mut place = end;
            // More gaps than the disk has entries are of no use, and a damaged table may leave any number.
            while place + self.shape.block_bytes <= from && gaps.len() < self.entries.len() {
                gaps.push(place);
                place += self.shape.block_bytes;
            }
            end = end.max(to.next_multiple_of(MIB));
        }
        gaps.reverse();
        (gaps, end)
    }
}

/// Beyond any file: an entry with a larger offset is past the end in any case, and the limit keeps
/// computations from overflowing.
const PLACE_MAX: u64 = 1 << 62;

/// The offset in an entry.
fn place(entry: u64) -> u64 {
    // Bits 20 and up count MiB, so the value is the offset in bytes.
    (entry & !(MIB - 1)).min(PLACE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(has_parent: bool) -> Shape {
        Shape { len_bytes: 10 << 30, block_bytes: 2 << 20, sector_bytes: 512, has_parent }
    }

    #[test]
    fn a_block_that_lies_beyond_all_files_makes_no_more_gaps_than_there_are_blocks() {
        let mut table = Table::empty(shape(false));
        table.set(0, State::Full(!(MIB - 1)));
        let (gaps, end) = table.gaps(&[]);
        assert_eq!((gaps.len(), end > 1 << 62), (5122, true));
        assert_eq!(table.faults(&[], 16 << 20).len(), 1);
    }

    #[test]
    fn a_partial_block_of_a_disk_without_a_parent_has_no_bitmap() {
        let mut table = Table::empty(Shape { len_bytes: 4 << 20, block_bytes: 1 << 20, ..shape(false) });
        table.set(0, State::Partial(4 << 20));
        assert_eq!(table.bitmap(0), None);
        assert_eq!(table.faults(&[], 16 << 20), ["block 0 has the invalid state 7"]);
    }

    #[test]
    fn entries_are_interleaved_with_those_of_bitmap_blocks() {
        let shape = shape(false);
        assert_eq!((shape.blocks(), shape.chunk_blocks(), shape.entries()), (5120, 2048, 5122));
        assert_eq!((shape.index(2047), shape.index(2048), shape.bitmap_index(0)), (2047, 2049, 2048));
        assert_eq!(self::shape(true).entries(), 3 * 2049);
        assert_eq!(shape.bitmap_share(), 512);
    }

    #[test]
    fn what_cannot_be_is_found_and_gaps_are_used() {
        let mut table = Table::empty(shape(true));
        table.set(0, State::Full(8 * MIB));
        table.set(1, State::Full(4 * MIB));
        assert_eq!(table.faults(&[(MIB, 4 * MIB)], 10 * MIB), Vec::<String>::new());
        assert_eq!(table.gaps(&[(MIB, 4 * MIB)]), (vec![6 * MIB], 10 * MIB));
        assert_eq!(table.faults(&[(MIB, 5 * MIB)], 9 * MIB).len(), 2);
        table.set(2, State::Partial(6 * MIB));
        assert_eq!(table.faults(&[], 10 * MIB).len(), 1, "its bitmap is missing");
        table.set_bitmap(0, 7 * MIB);
        assert_eq!(table.faults(&[], 10 * MIB).len(), 1, "it lies on the block's second half");
    }
}
