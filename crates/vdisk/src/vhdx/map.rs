//! The map of a VHDX.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::header::{FILE_BYTES_MAX, Headers};
use super::log::{PAGES_MAX, Replay, Writer};
use super::table::{Shape, State, Table};
use super::{Guid, MIB, PAGE_BYTES};
use crate::extent::push;
use crate::map::{Move, plan_moves};
use crate::{Extents, Grant, Map, Part, Source, Step, VdiskError, Wait};

/// Limit of clean bitmap pages in memory: 16 MiB.
const BITMAP_PAGES_MAX: usize = 4096;

/// The map of a VHDX.
#[derive(Clone, Debug)]
pub struct VhdxMap {
    pub(super) shape: Shape,
    pub(super) table: Table,
    pub(super) table_at: u64,
    /// Reserved ranges: first byte, and the one behind the last.
    reserved: Vec<(u64, u64)>,
    pub(super) headers: Headers,
    /// The GUIDs for headers: drawn when the image was opened.
    pub(super) fresh_guids: [Guid; 3],
    pub(super) writer: Option<Writer>,
    /// Patches of the log that are not in place yet.
    pub(super) replay: Replay,
    /// Fixed: zeroing releases no blocks.
    pub(super) stays_allocated: bool,
    /// The place of the next block.
    pub(super) end: u64,
    pub(super) free: Vec<u64>,
    let_go: Vec<u64>,
    leaving: Vec<u64>,
    left: Vec<u64>,
    /// Loaded pages of bitmap blocks, by their places, and the changed ones.
    bitmaps: BTreeMap<u64, Vec<u8>>,
    dirty_bitmaps: BTreeSet<u64>,
    /// The end before the last reservation; none: it used a free place.
    reserved_from: Option<u64>,
}

/// A part of a range within one block.
#[derive(Clone, Copy)]
struct Piece {
    block: u64,
    at: u64,
    from: u64,
    len: u64,
}

fn invalid(block: u64, state: u8) -> Wait {
    VdiskError::damaged("the table", format!("block {block} has the invalid state {state}")).into()
}

impl VhdxMap {
    pub(super) fn new(
        shape: Shape,
        table: Table,
        table_at: u64,
        headers: Headers,
        reserved: Vec<(u64, u64)>,
    ) -> VhdxMap {
        let (free, end) = table.gaps(&reserved);
        VhdxMap {
            shape,
            table,
            table_at,
            reserved,
            headers,
            fresh_guids: [Guid::ZERO; 3],
            writer: None,
            replay: Replay::default(),
            stays_allocated: false,
            end,
            free,
            let_go: Vec::new(),
            leaving: Vec::new(),
            left: Vec::new(),
            bitmaps: BTreeMap::new(),
            dirty_bitmaps: BTreeSet::new(),
            reserved_from: None,
        }
    }

    fn pieces(&self, at: u64, len: u64) -> impl Iterator<Item = Piece> + use<> {
        let (block_bytes, end) = (self.shape.block_bytes, at + len);
        let mut here = at;
        std::iter::from_fn(move || {
            let (block, from) = (here / block_bytes, here % block_bytes);
            let len = (block_bytes - from).min(end - here);
            let piece = Piece { block, at: here, from, len };
            here += len;
            (len > 0).then_some(piece)
        })
    }

    /// The location of the bits of some sectors of a block: bytes of the file, and the index of the first bit
    /// in them.
    fn bits(&self, block: u64, sectors: &Range<u64>) -> Option<(Range<u64>, u64)> {
        let chunk_blocks = self.shape.chunk_blocks();
        let share_at =
            self.table.bitmap(block / chunk_blocks)? + block % chunk_blocks * self.shape.bitmap_share();
        let (from, to) = (share_at + sectors.start / 8, share_at + sectors.end.div_ceil(8));
        let pages = from / PAGE_BYTES * PAGE_BYTES..to.next_multiple_of(PAGE_BYTES);
        // The first page may be behind the beginning of the share, which is longer than a page for large
        // blocks.
        let first = share_at * 8 + sectors.start - pages.start * 8;
        Some((pages, first))
    }

    /// The bytes to load before the bits of some sectors are known.
    fn need_bits(&self, block: u64, sectors: &Range<u64>) -> Result<(), Wait> {
        let Some((pages, _)) = self.bits(block, sectors) else { return Ok(()) };
        let missing = pages.step_by(PAGE_BYTES as usize).find(|page| !self.bitmaps.contains_key(page));
        missing.map_or(Ok(()), |at| Err(Wait::Load { at, len: PAGE_BYTES }))
    }

    fn bit(&self, pages: &Range<u64>, number: u64) -> bool {
        let page = pages.start + number / 8 / PAGE_BYTES * PAGE_BYTES;
        let byte = (number / 8 % PAGE_BYTES) as usize;
        self.bitmaps.get(&page).is_some_and(|bytes| bytes[byte] & (1 << (number % 8)) != 0)
    }

    /// Sets or clears the bits of some sectors, whose pages are in memory.
    fn set_bits(&mut self, block: u64, sectors: Range<u64>, set: bool) {
        let Some((pages, first)) = self.bits(block, &sectors) else { return };
        for number in first..first + (sectors.end - sectors.start) {
            let place = pages.start + number / 8 / PAGE_BYTES * PAGE_BYTES;
            let Some(bytes) = self.bitmaps.get_mut(&place) else { continue };
            let (byte, bit) = (&mut bytes[(number / 8 % PAGE_BYTES) as usize], 1 << (number % 8));
            if (*byte & bit != 0) != set {
                *byte ^= bit;
                self.dirty_bitmaps.insert(place);
            }
        }
    }

    fn sectors(&self, piece: Piece) -> Range<u64> {
        piece.from / self.shape.sector_bytes..(piece.from + piece.len) / self.shape.sector_bytes
    }

    fn read_partial(&self, piece: Piece, place: u64, out: &mut Extents) -> Result<(), Wait> {
        let sectors = self.sectors(piece);
        self.need_bits(piece.block, &sectors)?;
        let Some((pages, first)) = self.bits(piece.block, &sectors) else {
            return Err(
                VdiskError::damaged("the table", format!("block {} has no bitmap", piece.block)).into()
            );
        };
        let (count, sector) = (sectors.end - sectors.start, self.shape.sector_bytes);
        let mut done = 0;
        while done < count {
            let here = self.bit(&pages, first + done);
            let end = (done + 1..count).find(|i| self.bit(&pages, first + i) != here).unwrap_or(count);
            let before = done * sector;
            let source = if here { Source::File(place + piece.from + before) } else { Source::Parent };
            push(out, piece.at + before, (end - done) * sector, source);
            done = end;
        }
        Ok(())
    }

    /// What is missing before a piece can be written: bytes to load, or a block to allocate.
    fn ready_to_write(&self, piece: Piece) -> Result<u64, Wait> {
        match self.table.get(piece.block) {
            State::Full(at) => Ok(at),
            State::Partial(at) => {
                self.need_bits(piece.block, &self.sectors(piece))?;
                Ok(at)
            }
            State::NotPresent if self.shape.has_parent => {
                // All of its bits are cleared when it is placed, whatever another program left there.
                self.need_bits(piece.block, &(0..self.shape.block_bytes / self.shape.sector_bytes))?;
                Err(Wait::Block(piece.block))
            }
            State::NotPresent | State::Zero => Err(Wait::Block(piece.block)),
            State::Invalid(state) => Err(invalid(piece.block, state)),
        }
    }

    /// Whether a piece covers its block, as far as it is in the disk.
    fn is_whole(&self, piece: Piece) -> bool {
        let here = self.shape.block_bytes.min(self.shape.len_bytes - piece.block * self.shape.block_bytes);
        piece.from == 0 && piece.len == here
    }

    /// Whether zeroing a piece requires writing zeros to hide the parent's data.
    fn hides_parent(&self, piece: Piece) -> bool {
        let state = self.table.get(piece.block);
        self.shape.has_parent
            && !self.is_whole(piece)
            && matches!(state, State::NotPresent | State::Partial(_))
    }

    fn log_steps(&mut self, pages: &[(u64, Vec<u8>)], steps: &mut Vec<Step>) {
        let guid = self.fresh_guids[2];
        let writer = self.writer.get_or_insert_with(|| Writer::new(&self.headers.current, guid));
        for group in pages.chunks(PAGES_MAX) {
            // The pages of the last entry are in place, and durable with this flush; then the entry is no
            // longer needed.
            steps.push(Step::Flush);
            let entry = writer.entry(group, self.end);
            steps.extend(entry.into_iter().map(|(at, bytes)| Step::Write { part: Part::Log, at, bytes }));
            steps.push(Step::Flush);
            if self.headers.current.log == Guid::ZERO {
                let (at, bytes) = self.headers.change(|header| header.log = guid);
                steps.push(Step::Write { part: Part::Header, at, bytes });
                steps.push(Step::Flush);
            }
            let in_place = |(at, bytes): &(u64, Vec<u8>)| Step::Write {
                part: Part::Table,
                at: *at,
                bytes: bytes.clone(),
            };
            steps.extend(group.iter().map(in_place));
        }
    }
}

impl Map for VhdxMap {
    fn len_bytes(&self) -> u64 {
        self.shape.len_bytes
    }

    fn sector_bytes(&self) -> u32 {
        self.shape.sector_bytes as u32
    }

    fn block_bytes(&self) -> Option<u64> {
        (!self.stays_allocated).then_some(self.shape.block_bytes)
    }

    fn begin_len(&self) -> u64 {
        self.replay.last_len.next_multiple_of(PAGE_BYTES)
    }

    /// Writes the patches of the log in place, then a header that marks the file as changing, with an empty
    /// log.
    fn begin(&mut self) -> Result<Vec<Step>, VdiskError> {
        let mut steps = Vec::new();
        let mut since_flush = Vec::new();
        for patch in std::mem::take(&mut self.replay).patches.0 {
            let (part, at, len) = (Part::Table, patch.at, patch.len);
            // A later entry may contain the same page: it follows.
            if since_flush.iter().any(|(from, to)| at < *to && at + len > *from) {
                steps.push(Step::Flush);
                since_flush.clear();
            }
            since_flush.push((at, at + len));
            steps.push(match patch.bytes {
                Some(bytes) => Step::Write { part, at, bytes },
                None => Step::Zero { part, at, len },
            });
        }
        if !steps.is_empty() {
            steps.push(Step::Flush);
        }
        let [file_write, data_write, _] = self.fresh_guids;
        let (at, bytes) = self.headers.change(|header| {
            header.file_write = file_write;
            header.data_write = data_write;
            header.log = Guid::ZERO;
        });
        steps.extend([Step::Write { part: Part::Header, at, bytes }, Step::Flush]);
        Ok(steps)
    }

    /// DataWriteGuid, which children know, is for changes of the data (MS-VHDX 2.2.2); FileWriteGuid for any.
    fn keep_data(&mut self) {
        self.fresh_guids[1] = self.headers.current.data_write;
    }

    fn close(&mut self) -> Result<Vec<Step>, VdiskError> {
        self.writer = None;
        if self.headers.current.log == Guid::ZERO {
            return Ok(Vec::new());
        }
        let (at, bytes) = self.headers.change(|header| header.log = Guid::ZERO);
        Ok(vec![Step::Flush, Step::Write { part: Part::Header, at, bytes }, Step::Flush])
    }

    fn read(&mut self, at: u64, len: u64, out: &mut Extents) -> Result<(), Wait> {
        for piece in self.pieces(at, len) {
            match self.table.get(piece.block) {
                State::Full(place) => push(out, piece.at, piece.len, Source::File(place + piece.from)),
                State::Zero => push(out, piece.at, piece.len, Source::Zeros),
                State::NotPresent if self.shape.has_parent => push(out, piece.at, piece.len, Source::Parent),
                State::NotPresent => push(out, piece.at, piece.len, Source::Zeros),
                State::Partial(place) => self.read_partial(piece, place, out)?,
                State::Invalid(state) => return Err(invalid(piece.block, state)),
            }
        }
        Ok(())
    }

    fn write(&mut self, at: u64, len: u64, out: &mut Extents) -> Result<(), Wait> {
        for piece in self.pieces(at, len) {
            let place = self.ready_to_write(piece)?;
            push(out, piece.at, piece.len, Source::File(place + piece.from));
        }
        Ok(())
    }

    fn written(&mut self, at: u64, len: u64) {
        if !self.shape.has_parent {
            return;
        }
        for piece in self.pieces(at, len) {
            if matches!(self.table.get(piece.block), State::Partial(_)) {
                let sectors = self.sectors(piece);
                self.set_bits(piece.block, sectors, true);
            }
        }
    }

    fn zero(&mut self, at: u64, len: u64, out: &mut Extents) -> Result<(), Wait> {
        // First everything that it waits for, so that it is done once.
        for piece in self.pieces(at, len).filter(|piece| self.hides_parent(*piece)) {
            self.ready_to_write(piece)?;
        }
        for piece in self.pieces(at, len) {
            let state = self.table.get(piece.block);
            match state {
                State::Zero => {}
                State::NotPresent if self.shape.has_parent => self.table.set(piece.block, State::Zero),
                State::NotPresent => {}
                State::Invalid(state) => return Err(invalid(piece.block, state)),
                State::Full(place) | State::Partial(place)
                    if self.is_whole(piece) && !self.stays_allocated =>
                {
                    self.table.set(piece.block, State::Zero);
                    self.let_go.push(place);
                }
                State::Full(place) | State::Partial(place) => {
                    push(out, piece.at, piece.len, Source::File(place + piece.from));
                }
            }
        }
        Ok(())
    }

    fn load(&mut self, at: u64, bytes: &[u8]) -> Result<(), VdiskError> {
        while self.bitmaps.len() >= BITMAP_PAGES_MAX {
            let clean = self.bitmaps.keys().find(|page| !self.dirty_bitmaps.contains(page)).copied();
            let Some(page) = clean else { break };
            self.bitmaps.remove(&page);
        }
        let mut bytes = bytes.to_vec();
        self.replay.patches.apply(at, &mut bytes);
        self.bitmaps.entry(at).or_insert(bytes);
        Ok(())
    }

    fn reserve(&mut self, block: u64) -> Result<Grant, VdiskError> {
        let chunk = block / self.shape.chunk_blocks();
        let is_partial = self.shape.has_parent && self.table.get(block) == State::NotPresent;
        // The first partially present block of a chunk adds the bitmap block.
        let bitmap = if is_partial && self.table.bitmap(chunk).is_none() { MIB } else { 0 };
        let len = bitmap + self.shape.block_bytes;
        // A free place fits one block only.
        let at = match bitmap {
            0 => self.free.pop(),
            _ => None,
        };
        let at = match at {
            Some(at) => {
                self.reserved_from = None;
                at
            }
            None => {
                let at = self.end;
                if at.checked_add(len).is_none_or(|end| end > FILE_BYTES_MAX) {
                    let cause = format!("byte {at} is beyond the address range of a VHDX");
                    return Err(VdiskError::NoRoom { cause });
                }
                self.reserved_from = Some(at);
                self.end += len;
                at
            }
        };
        Ok(Grant { block, at, len, file_len: self.end })
    }

    fn give_back(&mut self, grant: Grant) {
        match self.reserved_from.take() {
            Some(end) => self.end = end,
            None => self.free.push(grant.at),
        }
    }

    fn place(&mut self, grant: Grant) {
        let Grant { block, at, len, .. } = grant;
        if len > self.shape.block_bytes {
            self.table.set_bitmap(block / self.shape.chunk_blocks(), at);
            for page in (at..at + MIB).step_by(PAGE_BYTES as usize) {
                self.bitmaps.insert(page, vec![0; PAGE_BYTES as usize]);
            }
        }
        let at = at + len - self.shape.block_bytes;
        match self.table.get(block) {
            State::NotPresent if self.shape.has_parent => {
                self.set_bits(block, 0..self.shape.block_bytes / self.shape.sector_bytes, false);
                self.table.set(block, State::Partial(at));
            }
            _ => self.table.set(block, State::Full(at)),
        }
    }

    fn uncommitted(&self) -> usize {
        self.table.dirty_pages() + self.dirty_bitmaps.len()
    }

    fn commit(&mut self) -> Result<Vec<Step>, VdiskError> {
        // Bits before the table entries that refer to them: with many pages, they are logged in groups.
        let dirty = std::mem::take(&mut self.dirty_bitmaps);
        let mut pages: Vec<_> =
            dirty.iter().filter_map(|at| Some((*at, self.bitmaps.get(at)?.clone()))).collect();
        let table_at = self.table_at;
        let changed = self.table.take_dirty().into_iter();
        pages.extend(changed.map(|(page, bytes)| (table_at + page * PAGE_BYTES, bytes)));
        let mut steps = Vec::new();
        self.log_steps(&pages, &mut steps);
        if pages.is_empty() {
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

    /// Blocks only: bitmap blocks are not moved.
    fn moves(&self) -> Vec<Move> {
        let (mut gaps, _) = self.table.gaps(&self.reserved);
        gaps.reverse();
        let blocks = self.table.placed().into_iter().filter_map(|(at, _, block)| Some((at, block?)));
        plan_moves(&blocks.collect::<Vec<_>>(), &gaps, self.shape.block_bytes)
    }

    fn moved(&mut self, block: Move) {
        match self.table.get(block.block) {
            State::Full(_) => self.table.set(block.block, State::Full(block.to)),
            State::Partial(_) => self.table.set(block.block, State::Partial(block.to)),
            State::NotPresent | State::Zero | State::Invalid(_) => {}
        }
    }

    fn recount(&mut self) {
        (self.free, self.end) = self.table.gaps(&self.reserved);
    }

    fn used_len(&self) -> u64 {
        self.end
    }

    fn extent(&self, at: u64, len: u64) -> (u64, bool) {
        let first = at / self.shape.block_bytes;
        let is_here = |block: u64| match self.table.get(block) {
            // Of an invalid one it is unknown: to read it is an error.
            State::Full(_) | State::Partial(_) | State::Invalid(_) => true,
            State::NotPresent => self.shape.has_parent,
            State::Zero => false,
        };
        let mapped = is_here(first);
        let last = (at + len).div_ceil(self.shape.block_bytes);
        let end = (first + 1..last).find(|block| is_here(*block) != mapped);
        (end.map_or(len, |block| block * self.shape.block_bytes - at), mapped)
    }
}
