//! Dynamic and differencing VHDs.

use std::collections::{BTreeMap, BTreeSet};

use super::bitmap::Bitmap;
use super::table::{Layout, Table};
use super::{FOOTER_BYTES, Footer, Kind, LEN_BYTES_MAX, SECTOR_BYTES};
use crate::extent::push;
use crate::map::{Move, plan_moves};
use crate::{Extents, Grant, Map, Part, Source, Step, VdiskError, Wait};

/// Limit of clean bitmaps in memory: for blocks of 2 MiB 16,384 of them.
const BITMAPS_BYTES_MAX: u64 = 8 << 20;
/// Minimum number of bitmaps in memory: those of one operation must fit.
const BITMAPS_MIN: u64 = 1024;

/// The map of a dynamic or differencing VHD.
#[derive(Clone, Debug)]
pub struct DynamicMap {
    layout: Layout,
    footer: Footer,
    table: Table,
    /// Reserved besides the headers: first byte, and the one behind the last.
    reserved: Vec<(u64, u64)>,
    /// Offset of the footer, behind the last block; the next block is placed here or shortly behind.
    end: u64,
    /// Free places of released blocks.
    free: Vec<u64>,
    /// Blocks released since the last commit; by it; and by the one before, while operations may still use
    /// them.
    let_go: Vec<u64>,
    leaving: Vec<u64>,
    left: Vec<u64>,
    /// Loaded bitmaps of a differencing image, and the changed ones, by their places in the file.
    bitmaps: BTreeMap<u64, Bitmap>,
    dirty_bitmaps: BTreeSet<u64>,
    /// The state before the last reservation: the end, and whether the footer was due; none: it used a free
    /// place.
    reserved_from: Option<(u64, bool)>,
    /// Blocks placed since the last commit: their bitmaps are not in the file yet.
    fresh: BTreeSet<u64>,
    footer_is_due: bool,
}

impl DynamicMap {
    /// The map of a new dynamic image without blocks: for models, and as the base of all others.
    pub fn empty(len_bytes: u64, block_bytes: u32) -> Result<DynamicMap, VdiskError> {
        let layout = Layout::new(len_bytes, block_bytes, 0)?;
        let footer = Footer::new(Kind::Dynamic, len_bytes, [0; 16], 0);
        Ok(DynamicMap::new(layout, footer, Table::empty(&layout), Vec::new()))
    }

    /// The same with blocks back to back, as other programs place them: for models of their behaviour.
    pub fn unaligned(mut self) -> DynamicMap {
        self.layout.payload_unit = SECTOR_BYTES;
        self
    }

    /// The map of an image with this table.
    pub(crate) fn parse(layout: Layout, footer: Footer, table: &[u8], reserved: &[(u64, u64)]) -> DynamicMap {
        let table = Table::parse(&layout, table);
        let layout = Layout { payload_unit: table.payload_unit(&layout), ..layout };
        DynamicMap::new(layout, footer, table, reserved.to_vec())
    }

    /// Notes that the footer behind the last block is missing: it is written with the next change.
    pub(crate) fn write_footer(&mut self) {
        self.footer_is_due = true;
    }

    fn new(layout: Layout, footer: Footer, table: Table, reserved: Vec<(u64, u64)>) -> DynamicMap {
        let (free, end) = table.gaps(&layout, &reserved);
        DynamicMap {
            layout,
            footer,
            end,
            free,
            table,
            reserved,
            let_go: Vec::new(),
            leaving: Vec::new(),
            left: Vec::new(),
            bitmaps: BTreeMap::new(),
            dirty_bitmaps: BTreeSet::new(),
            reserved_from: None,
            fresh: BTreeSet::new(),
            footer_is_due: false,
        }
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The footer.
    pub fn footer(&self) -> &Footer {
        &self.footer
    }

    /// The faults of the table in a file of this length.
    pub(crate) fn faults(&self, file_len: u64) -> Vec<String> {
        self.table.faults(&self.layout, &self.reserved, file_len)
    }

    fn is_differencing(&self) -> bool {
        self.footer.kind == Kind::Differencing
    }

    /// Calls `f` for each block of a range with its number, the first byte on the disk, the offset in the
    /// block, and the length.
    fn for_blocks(
        &mut self,
        at: u64,
        len: u64,
        mut f: impl FnMut(&mut DynamicMap, Piece) -> Result<(), Wait>,
    ) -> Result<(), Wait> {
        let (mut here, end) = (at, at + len);
        while here < end {
            let (block, from) = (here / self.layout.block_bytes, here % self.layout.block_bytes);
            let len = (self.layout.block_bytes - from).min(end - here);
            f(self, Piece { block, at: here, from, len })?;
            here += len;
        }
        Ok(())
    }

    /// The bitmap of the block at `place`, or the bytes to load for it.
    fn bitmap(&self, place: u64) -> Result<&Bitmap, Wait> {
        let missing = Wait::Load { at: place, len: self.layout.bitmap_bytes() };
        self.bitmaps.get(&place).ok_or(missing)
    }

    fn read_piece(&self, piece: Piece, out: &mut Extents) -> Result<(), Wait> {
        let Some(place) = self.table.get(piece.block) else {
            let source = if self.is_differencing() { Source::Parent } else { Source::Zeros };
            push(out, piece.at, piece.len, source);
            return Ok(());
        };
        let payload = place + self.layout.bitmap_bytes() + piece.from;
        if !self.is_differencing() {
            push(out, piece.at, piece.len, Source::File(payload));
            return Ok(());
        }
        let bitmap = self.bitmap(place)?;
        let (first, end) = piece.sectors();
        let mut sector = first;
        while sector < end {
            let run = bitmap.run(sector, end);
            let before = (sector - first) * SECTOR_BYTES;
            let source = if bitmap.has(sector) { Source::File(payload + before) } else { Source::Parent };
            push(out, piece.at + before, run * SECTOR_BYTES, source);
            sector += run;
        }
        Ok(())
    }

    fn zero_piece(&mut self, piece: Piece, out: &mut Extents) -> Result<(), Wait> {
        let disk_here = self.layout.len_bytes - piece.block * self.layout.block_bytes;
        let whole = piece.from == 0 && piece.len == self.layout.block_bytes.min(disk_here);
        match self.table.get(piece.block) {
            // An absent sector is zero, or must hide the parent's.
            None if self.is_differencing() => Err(Wait::Block(piece.block)),
            None => Ok(()),
            Some(place) if whole && !self.is_differencing() => {
                self.table.set(piece.block, None);
                self.fresh.remove(&piece.block);
                self.let_go.push(place);
                Ok(())
            }
            Some(place) => {
                if self.is_differencing() {
                    self.bitmap(place)?;
                }
                let payload = place + self.layout.bitmap_bytes() + piece.from;
                push(out, piece.at, piece.len, Source::File(payload));
                Ok(())
            }
        }
    }

    /// Drops clean bitmaps if there are many.
    fn trim_bitmaps(&mut self) {
        let most = (BITMAPS_BYTES_MAX / self.layout.bitmap_bytes()).max(BITMAPS_MIN) as usize;
        while self.bitmaps.len() > most {
            let clean = |place: &&u64| !self.dirty_bitmaps.contains(place);
            let Some(place) = self.bitmaps.keys().find(clean).copied() else { return };
            self.bitmaps.remove(&place);
        }
    }
}

/// A part of a range within one block.
#[derive(Clone, Copy)]
struct Piece {
    block: u64,
    at: u64,
    from: u64,
    len: u64,
}

impl Piece {
    /// The sectors of the block: the first, and the one behind the last.
    fn sectors(&self) -> (u64, u64) {
        (self.from / SECTOR_BYTES, (self.from + self.len) / SECTOR_BYTES)
    }
}

impl Map for DynamicMap {
    fn len_bytes(&self) -> u64 {
        self.layout.len_bytes
    }

    fn sector_bytes(&self) -> u32 {
        SECTOR_BYTES as u32
    }

    fn block_bytes(&self) -> Option<u64> {
        Some(self.layout.block_bytes)
    }

    fn read(&mut self, at: u64, len: u64, out: &mut Extents) -> Result<(), Wait> {
        self.for_blocks(at, len, |map, piece| map.read_piece(piece, out))
    }

    fn write(&mut self, at: u64, len: u64, out: &mut Extents) -> Result<(), Wait> {
        self.for_blocks(at, len, |map, piece| {
            let place = map.table.get(piece.block).ok_or(Wait::Block(piece.block))?;
            if map.is_differencing() {
                map.bitmap(place)?;
            }
            push(out, piece.at, piece.len, Source::File(place + map.layout.bitmap_bytes() + piece.from));
            Ok(())
        })
    }

    fn written(&mut self, at: u64, len: u64) {
        if !self.is_differencing() {
            return;
        }
        let marked = self.for_blocks(at, len, |map, piece| {
            let (first, end) = piece.sectors();
            if let Some(place) = map.table.get(piece.block)
                && let Some(bitmap) = map.bitmaps.get_mut(&place)
                && bitmap.set(first..end)
            {
                map.dirty_bitmaps.insert(place);
            }
            Ok(())
        });
        debug_assert!(marked.is_ok(), "marking asks for nothing");
    }

    fn zero(&mut self, at: u64, len: u64, out: &mut Extents) -> Result<(), Wait> {
        // First everything that it waits for, so that it is done once.
        self.for_blocks(at, len, |map, piece| match map.table.get(piece.block) {
            None if map.is_differencing() => Err(Wait::Block(piece.block)),
            Some(place) if map.is_differencing() => map.bitmap(place).map(|_| ()),
            _ => Ok(()),
        })?;
        self.for_blocks(at, len, |map, piece| map.zero_piece(piece, out))
    }

    fn load(&mut self, at: u64, bytes: &[u8]) -> Result<(), VdiskError> {
        self.trim_bitmaps();
        self.bitmaps.entry(at).or_insert_with(|| Bitmap::from_bytes(bytes));
        Ok(())
    }

    fn reserve(&mut self, block: u64) -> Result<Grant, VdiskError> {
        let len = self.layout.stride();
        let at = match self.free.pop() {
            Some(at) => {
                self.reserved_from = None;
                at
            }
            None => {
                let at = self.layout.place(self.end);
                if at + len + FOOTER_BYTES as u64 > u64::from(u32::MAX) * SECTOR_BYTES {
                    let cause = format!(
                        "byte {at} is beyond the address range of a VHD (the disk has at most {LEN_BYTES_MAX} bytes)"
                    );
                    return Err(VdiskError::NoRoom { cause });
                }
                self.reserved_from = Some((self.end, self.footer_is_due));
                self.end = at + len;
                self.footer_is_due = true;
                at
            }
        };
        Ok(Grant { block, at, len, file_len: self.end + FOOTER_BYTES as u64 })
    }

    fn give_back(&mut self, grant: Grant) {
        match self.reserved_from.take() {
            Some((end, footer_was_due)) => (self.end, self.footer_is_due) = (end, footer_was_due),
            None => self.free.push(grant.at),
        }
    }

    fn place(&mut self, grant: Grant) {
        self.table.set(grant.block, Some(grant.at));
        self.fresh.insert(grant.block);
        if self.is_differencing() {
            let bytes = self.layout.bitmap_bytes() as usize;
            // Dirty until it is in the file, so that it stays in memory.
            self.bitmaps.insert(grant.at, Bitmap::uniform(bytes, false));
            self.dirty_bitmaps.insert(grant.at);
        }
    }

    fn uncommitted(&self) -> usize {
        self.table.dirty_sectors()
            + self.dirty_bitmaps.len()
            + self.fresh.len()
            + usize::from(self.footer_is_due)
    }

    /// Bitmaps of new blocks and the footer behind them may be written early, because nothing refers to them.
    /// Then a flush makes them and the payload durable; then follow the table and the bitmaps that refer to
    /// them.
    fn commit(&mut self) -> Result<Vec<Step>, VdiskError> {
        let mut steps = Vec::new();
        let bitmap_bytes = self.layout.bitmap_bytes() as usize;
        for block in std::mem::take(&mut self.fresh) {
            let Some(at) = self.table.get(block) else { continue };
            let bytes = match self.bitmaps.get(&at) {
                Some(bitmap) => bitmap.bytes().to_vec(),
                None => Bitmap::uniform(bitmap_bytes, true).bytes().to_vec(),
            };
            self.dirty_bitmaps.remove(&at);
            steps.push(Step::Write { part: Part::Bitmap, at, bytes });
        }
        if std::mem::take(&mut self.footer_is_due) {
            let bytes = self.footer.encode().to_vec();
            steps.push(Step::Write { part: Part::Footer, at: self.end, bytes });
        }
        steps.push(Step::Flush);
        for (sector, bytes) in self.table.take_dirty() {
            let at = self.layout.table_at + sector * SECTOR_BYTES;
            steps.push(Step::Write { part: Part::Table, at, bytes });
        }
        for at in std::mem::take(&mut self.dirty_bitmaps) {
            let Some(bitmap) = self.bitmaps.get(&at) else { continue };
            steps.push(Step::Write { part: Part::Bitmap, at, bytes: bitmap.bytes().to_vec() });
        }
        if !matches!(steps.last(), Some(Step::Flush)) {
            steps.push(Step::Flush);
        }
        self.leaving.append(&mut self.let_go);
        Ok(steps)
    }

    fn committed(&mut self) -> bool {
        self.left.append(&mut self.leaving);
        !self.left.is_empty()
    }

    fn reuse(&mut self) {
        self.free.append(&mut self.left);
    }

    fn moves(&self) -> Vec<Move> {
        let (mut gaps, _) = self.table.gaps(&self.layout, &self.reserved);
        gaps.reverse();
        plan_moves(&self.table.placed(), &gaps, self.layout.stride())
    }

    fn moved(&mut self, block: Move) {
        self.table.set(block.block, Some(block.to));
        self.bitmaps.remove(&block.from);
    }

    fn recount(&mut self) {
        let end = self.end;
        (self.free, self.end) = self.table.gaps(&self.layout, &self.reserved);
        self.footer_is_due |= self.end != end;
    }

    fn used_len(&self) -> u64 {
        self.end + FOOTER_BYTES as u64
    }

    fn extent(&self, at: u64, len: u64) -> (u64, bool) {
        let first = at / self.layout.block_bytes;
        let is_here = |block: u64| self.is_differencing() || self.table.get(block).is_some();
        let mapped = is_here(first);
        let last = (at + len).div_ceil(self.layout.block_bytes);
        let end = (first + 1..last).find(|block| is_here(*block) != mapped);
        (end.map_or(len, |block| block * self.layout.block_bytes - at), mapped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: u64 = 100 << 20;

    fn map() -> DynamicMap {
        DynamicMap::empty(DISK, super::super::BLOCK_BYTES).expect("a map")
    }

    fn parts(map: &mut DynamicMap, at: u64, len: u64) -> Vec<(Part, u64)> {
        let mut io = Vec::new();
        crate::write_through(map, at, len, &mut io).expect("room");
        io.iter().map(|io| (io.part, io.len)).collect()
    }

    #[test]
    fn the_first_touch_writes_metadata_and_the_second_does_not() {
        let mut map = map();
        let expected =
            [(Part::Bitmap, 512), (Part::Payload, 65_536), (Part::Footer, 512), (Part::Table, 512)];
        assert_eq!(parts(&mut map, 3 << 20, 65_536), expected);
        assert_eq!(parts(&mut map, 3 << 20, 65_536), [(Part::Payload, 65_536)]);
        // Across the border from an allocated block into an unallocated one.
        let crossing = parts(&mut map, (4 << 20) - 4096, 8192);
        let payloads = crossing.iter().filter(|(part, len)| (*part, *len) == (Part::Payload, 4096)).count();
        assert_eq!((payloads, crossing.len()), (2, 5));
    }

    #[test]
    fn reads_find_what_was_placed_and_zeros_elsewhere() {
        let mut map = map();
        parts(&mut map, 2 << 20, 512);
        let mut out = Extents::new();
        map.read((2 << 20) - 512, 1024, &mut out).expect("no wait");
        let first = map.layout().place(map.layout().blocks_from) + map.layout().bitmap_bytes();
        let wanted = [
            Extent { at: (2 << 20) - 512, len: 512, source: Source::Zeros },
            Extent { at: 2 << 20, len: 512, source: Source::File(first) },
        ];
        assert_eq!(out[..], wanted);
    }

    #[test]
    fn the_space_of_a_zeroed_block_is_used_again_only_when_nobody_uses_it() {
        let mut map = map();
        parts(&mut map, 0, 512);
        let before = map.used_len();
        let mut out = Extents::new();
        map.zero(0, 2 << 20, &mut out).expect("no wait");
        assert!(out.is_empty());
        map.commit().expect("steps");
        let place = map.reserve(1).expect("room").at;
        assert!(place >= before - 512, "its old place is not free before the commit is durable");
        assert!(map.committed());
        map.reuse();
        assert_eq!(map.reserve(2).expect("room").at, map.layout().place(map.layout().blocks_from));
    }

    #[test]
    fn payload_lies_in_units_of_4_kib_where_no_other_hand_placed_blocks() {
        let payloads = |map: &mut DynamicMap| -> Vec<u64> {
            (0..4).for_each(|block| drop(parts(map, block << 21, 4096)));
            map.table.placed().iter().map(|(at, _)| at + 512).collect()
        };
        let mut ours = map();
        let places = payloads(&mut ours);
        assert!(places.iter().all(|at| at.is_multiple_of(4096)) && places[1] - places[0] == (2 << 20) + 4096);
        let mut others = map().unaligned();
        let places = payloads(&mut others);
        assert_eq!((places[0] - 512, places[1] - places[0]), (others.layout.blocks_from, (2 << 20) + 512));

        for (map, unit) in [(ours, 4096), (others, 512)] {
            let mut bytes = vec![0xff; map.layout.table_bytes() as usize];
            for (at, block) in map.table.placed() {
                bytes[4 * block as usize..][..4].copy_from_slice(&((at / 512) as u32).to_be_bytes());
            }
            let layout = Layout { payload_unit: 4096, ..map.layout };
            let mut again = DynamicMap::parse(layout, map.footer.clone(), &bytes, &[]);
            assert_eq!(again.layout.payload_unit, unit);
            // The second block is released: its place fits the next one, wherever the others are.
            let place = again.table.get(1);
            again.zero(2 << 20, 2 << 20, &mut Extents::new()).expect("no wait");
            again.commit().expect("steps");
            assert!(again.committed());
            again.recount();
            assert_eq!(Some(again.reserve(9).expect("room").at), place);
        }
    }

    #[test]
    fn a_differencing_image_has_the_sectors_that_were_written() {
        let mut map = map();
        map.footer.kind = Kind::Differencing;
        parts(&mut map, 4096, 1024);
        let mut out = Extents::new();
        map.read(0, 8192, &mut out).expect("its bitmap is there");
        let kinds: Vec<_> = out.iter().map(|e| (e.at, e.len, e.source == Source::Parent)).collect();
        assert_eq!(kinds, [(0, 4096, true), (4096, 1024, false), (5120, 3072, true)]);
    }

    use crate::Extent;
}
