//! The block allocation table: places of the blocks, changed sectors, and validation.

use std::collections::BTreeSet;

use super::{FOOTER_BYTES, HEADER_BYTES, LEN_BYTES_MAX, SECTOR_BYTES};
use crate::VdiskError;

/// The entry of a block that is not in the file.
pub(super) const UNUSED: u32 = u32::MAX;
/// Entries of one sector.
const ENTRIES: u64 = SECTOR_BYTES / 4;

/// Layout of a dynamic VHD; all in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Size of the disk.
    pub len_bytes: u64,
    /// Payload of a block.
    pub block_bytes: u64,
    /// Offset of the table.
    pub table_at: u64,
    /// Before this byte there are no blocks, but headers, table and locators.
    pub blocks_from: u64,
    /// Alignment of the payload of new blocks. Back to back, blocks are 512 bytes off by the bitmap of each,
    /// and layers below with units of 4 KiB read before they write; the specification allows any sector.
    pub payload_unit: u64,
}

/// A larger table is refused, because it is kept in memory. The largest disk needs this with blocks of 512
/// KiB.
pub(super) const TABLE_BYTES_MAX: u64 = 16 << 20;
/// Limit of reported faults of one table: the rest is counted.
const FAULTS_MAX: usize = 100;

/// The unit of drives, file systems and caches.
const PAYLOAD_UNIT: u64 = 4096;

impl Layout {
    /// The layout of a new image whose locators need this many bytes.
    pub fn new(len_bytes: u64, block_bytes: u32, locators_bytes: u64) -> Result<Layout, VdiskError> {
        if len_bytes == 0 || !len_bytes.is_multiple_of(SECTOR_BYTES) || len_bytes > LEN_BYTES_MAX {
            return Err(VdiskError::refused(format!(
                "invalid size of {len_bytes} bytes for a dynamic VHD: must be a multiple of 512, at most {LEN_BYTES_MAX}"
            )));
        }
        if !block_bytes.is_power_of_two() || !(512 << 10..=64 << 20).contains(&block_bytes) {
            return Err(VdiskError::refused(format!(
                "invalid block size of {block_bytes} bytes: must be a power of two from 512 KiB to 64 MiB"
            )));
        }
        let table_at = (FOOTER_BYTES + HEADER_BYTES) as u64;
        let mut layout = Layout {
            len_bytes,
            block_bytes: block_bytes.into(),
            table_at,
            blocks_from: 0,
            payload_unit: PAYLOAD_UNIT,
        };
        layout.check()?;
        layout.blocks_from = table_at + layout.table_bytes() + locators_bytes.next_multiple_of(SECTOR_BYTES);
        Ok(layout)
    }

    /// Whether the table can be kept in memory.
    pub(super) fn check(&self) -> Result<(), VdiskError> {
        if self.table_bytes() > TABLE_BYTES_MAX {
            let what = format!("a table of {} bytes; the limit is {TABLE_BYTES_MAX}", self.table_bytes());
            return Err(VdiskError::unsupported(what));
        }
        Ok(())
    }

    /// Blocks of the disk.
    pub fn blocks(&self) -> u64 {
        self.len_bytes.div_ceil(self.block_bytes)
    }

    /// Bytes of the table, in whole sectors.
    pub fn table_bytes(&self) -> u64 {
        self.blocks().div_ceil(ENTRIES) * SECTOR_BYTES
    }

    /// Bytes of a block's bitmap, in whole sectors.
    pub fn bitmap_bytes(&self) -> u64 {
        Layout::bitmap_bytes_of(self.block_bytes)
    }

    /// The same for blocks of this length.
    pub(super) fn bitmap_bytes_of(block_bytes: u64) -> u64 {
        (block_bytes / SECTOR_BYTES).div_ceil(8).next_multiple_of(SECTOR_BYTES)
    }

    /// The first possible place of a new block at or behind a byte.
    pub fn place(&self, at: u64) -> u64 {
        (at + self.bitmap_bytes()).next_multiple_of(self.payload_unit) - self.bitmap_bytes()
    }

    /// Bytes of a block with its bitmap.
    pub fn stride(&self) -> u64 {
        self.bitmap_bytes() + self.block_bytes
    }
}

/// The table of one image, in memory.
#[derive(Clone, Debug)]
pub(super) struct Table {
    entries: Vec<u32>,
    dirty: BTreeSet<u64>,
}

impl Table {
    pub(super) fn empty(layout: &Layout) -> Table {
        Table { entries: vec![UNUSED; layout.blocks() as usize], dirty: BTreeSet::new() }
    }

    /// Parses the bytes of the file; there must be enough.
    pub(super) fn parse(layout: &Layout, bytes: &[u8]) -> Table {
        let (words, _) = bytes.as_chunks::<4>();
        let entries = words.iter().take(layout.blocks() as usize).map(|word| u32::from_be_bytes(*word));
        Table { entries: entries.collect(), dirty: BTreeSet::new() }
    }

    /// Offset of a block with its bitmap in the file.
    pub(super) fn get(&self, block: u64) -> Option<u64> {
        let entry = self.entries[block as usize];
        (entry != UNUSED).then(|| u64::from(entry) * SECTOR_BYTES)
    }

    pub(super) fn set(&mut self, block: u64, at: Option<u64>) {
        self.entries[block as usize] = at.map_or(UNUSED, |at| (at / SECTOR_BYTES) as u32);
        self.dirty.insert(block / ENTRIES);
    }

    pub(super) fn dirty_sectors(&self) -> usize {
        self.dirty.len()
    }

    /// The sectors that changed since the last call: their numbers and bytes.
    pub(super) fn take_dirty(&mut self) -> Vec<(u64, Vec<u8>)> {
        let dirty = std::mem::take(&mut self.dirty);
        dirty.into_iter().map(|sector| (sector, self.sector(sector))).collect()
    }

    fn sector(&self, sector: u64) -> Vec<u8> {
        let from = (sector * ENTRIES) as usize;
        let end = (from + ENTRIES as usize).min(self.entries.len());
        let mut bytes: Vec<u8> =
            self.entries[from..end].iter().flat_map(|entry| entry.to_be_bytes()).collect();
        bytes.resize(SECTOR_BYTES as usize, 0xff);
        bytes
    }

    /// Gaps between blocks, and behind the headers, that fit others, the first one last; and the end of the
    /// last block. Only for tables without faults.
    pub(super) fn gaps(&self, layout: &Layout, reserved: &[(u64, u64)]) -> (Vec<u64>, u64) {
        let blocks = self.placed().into_iter().map(|(at, _)| (at, at + layout.stride()));
        let mut taken: Vec<_> = blocks.chain(reserved.iter().copied()).collect();
        taken.sort_unstable();
        let mut gaps = Vec::new();
        let mut end = layout.blocks_from;
        for (from, to) in taken {
            let mut place = layout.place(end);
            // More gaps than the disk has blocks are of no use, and a damaged table may leave any number.
            while place + layout.stride() <= from && gaps.len() < self.entries.len() {
                gaps.push(place);
                place = layout.place(place + layout.stride());
            }
            end = end.max(to);
        }
        gaps.reverse();
        (gaps, end.next_multiple_of(SECTOR_BYTES))
    }

    /// The alignment of the payload of all blocks. Blocks of another program's image fill the gaps between
    /// its own, which are no larger.
    pub(super) fn payload_unit(&self, layout: &Layout) -> u64 {
        let mut payloads = self.placed().into_iter().map(|(at, _)| at + layout.bitmap_bytes());
        if payloads.all(|at| at.is_multiple_of(PAYLOAD_UNIT)) { PAYLOAD_UNIT } else { SECTOR_BYTES }
    }

    /// The allocated blocks and their places, in the order of places.
    pub(super) fn placed(&self) -> Vec<(u64, u64)> {
        let blocks = (0..self.entries.len() as u64).filter_map(|block| Some((self.get(block)?, block)));
        let mut placed: Vec<_> = blocks.collect();
        placed.sort_unstable();
        placed
    }

    /// Faults: blocks that are not behind the headers, exceed the file, or overlap each other or a reserved
    /// range (first byte, and the one behind the last).
    pub(super) fn faults(&self, layout: &Layout, reserved: &[(u64, u64)], file_len: u64) -> Vec<String> {
        let mut faults = Vec::new();
        let mut end = layout.blocks_from;
        let mut last = None;
        for (at, block) in self.placed() {
            if faults.len() >= FAULTS_MAX {
                faults.push("further blocks were not examined".into());
                break;
            }
            if at < end {
                let other = last.map_or_else(|| "the headers".to_owned(), |block| format!("block {block}"));
                faults.push(format!("block {block} at byte {at} overlaps {other}"));
            }
            if reserved.iter().any(|(from, to)| at < *to && at + layout.stride() > *from) {
                faults.push(format!("block {block} at byte {at} overlaps the table or a parent's path"));
            }
            // The last block of a file may be truncated at the end of the disk.
            let here = layout.block_bytes.min(layout.len_bytes - block * layout.block_bytes);
            if at + layout.bitmap_bytes() + here > file_len {
                faults.push(format!("block {block} at byte {at} is past the end of the file at {file_len}"));
            }
            end = end.max(at + layout.stride());
            last = Some(block);
        }
        faults
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_reads_back_and_only_changed_sectors_are_written() {
        let layout = Layout::new(1 << 30, 2 << 20, 0).expect("a layout");
        assert_eq!((layout.blocks(), layout.table_bytes(), layout.stride()), (512, 2048, (2 << 20) + 512));
        let mut table = Table::empty(&layout);
        table.set(130, Some(layout.blocks_from));
        let dirty = table.take_dirty();
        assert_eq!(dirty.len(), 1);
        assert_eq!(dirty[0].0, 1);
        assert_eq!(dirty[0].1[8..12], (layout.blocks_from as u32 / 512).to_be_bytes());
        let bytes: Vec<u8> = (0..4).flat_map(|sector| table.sector(sector)).collect();
        let again = Table::parse(&layout, &bytes);
        assert_eq!(again.get(130), Some(layout.blocks_from));
        assert_eq!(again.get(129), None);
    }

    #[test]
    fn blocks_that_cannot_lie_there_are_found() {
        let layout = Layout::new(1 << 30, 2 << 20, 0).expect("a layout");
        let (from, stride) = (layout.blocks_from, layout.stride());
        let faults = |places: &[u64], file_len: u64| {
            let mut table = Table::empty(&layout);
            places.iter().enumerate().for_each(|(block, at)| table.set(block as u64, Some(*at)));
            table.faults(&layout, &[(1536, 2048)], file_len).len()
        };
        assert_eq!(faults(&[from, from + stride], from + 2 * stride), 0);
        assert_eq!(faults(&[from, from + stride], from + 2 * stride - 512), 1);
        assert_eq!(faults(&[from, from + 512], from + 2 * stride), 1);
        assert_eq!(faults(&[512], from + stride), 2, "on the headers, and on the table");
    }
}
