//! From dirty to clean: picking frames for a destage, its result, dropping and evicting.

use std::ops::Range;

use world::Data;

use super::dirty::Book;
use super::state::{ALL_SECTORS, FrameState, Key, PartitionId, UnitId};
use super::table::Frames;

/// What a destage takes of one frame.
#[derive(Clone, Debug)]
pub struct Picked {
    /// The content of the frame.
    pub data: Data,
    /// The sectors to write: all if all are valid, since whole blocks are cheaper to write; otherwise the
    /// dirty ones.
    pub sectors: u8,
    /// The journal number that must be durable first; 0: none.
    pub sequence: u64,
}

/// Numbers of frames of a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct UnitFrames {
    pub frames: u32,
    /// In state Dirty.
    pub dirty: u32,
    /// In state Destaging or Rewritten.
    pub in_flight: u32,
}

impl Frames {
    fn book(&mut self, unit: UnitId) -> &mut Book {
        self.books.get_mut(&unit).expect("a unit with a frame has books")
    }

    /// Changes the state and all metadata that depends on it.
    pub(super) fn set_state(&mut self, slot: u32, to: FrameState) {
        let frame = &mut self.list[slot as usize];
        let from = std::mem::replace(&mut frame.state, to);
        if from == to {
            return;
        }
        let (key, home) = (frame.key, frame.home);
        let partition = &mut self.partitions[usize::from(frame.partition)];
        partition.count_state(from, to);
        if from == FrameState::Clean {
            partition.leave(&mut self.links, slot, home);
        }
        if to == FrameState::Clean {
            partition.enter(&mut self.links, slot, home);
        }
        self.by_state[from as usize] -= 1;
        self.by_state[to as usize] += 1;
        let book = self.book(key.unit);
        if from == FrameState::Dirty {
            book.dirty.remove(key.block);
        }
        if to == FrameState::Dirty {
            book.dirty.insert(key.block);
        }
        match (from.is_in_flight(), to.is_in_flight()) {
            (true, false) => book.in_flight.remove(key.block),
            (false, true) => book.in_flight.insert(key.block),
            _ => {}
        }
    }

    /// Records the journal number of a write, before its state changes.
    pub(super) fn note_sequence(&mut self, slot: u32, sequence: u64) {
        if sequence == 0 {
            return;
        }
        let frame = &mut self.list[slot as usize];
        frame.newest = frame.newest.max(sequence);
        let (key, is_first) = (frame.key, frame.oldest == 0);
        if frame.state.is_in_flight() {
            self.book(key.unit).since.entry(key.block).or_insert(sequence);
        }
        if is_first {
            self.set_oldest(slot, sequence);
        }
    }

    fn set_oldest(&mut self, slot: u32, sequence: u64) {
        let frame = &mut self.list[slot as usize];
        let (key, before) = (frame.key, std::mem::replace(&mut frame.oldest, sequence));
        if before == sequence {
            return;
        }
        let book = self.book(key.unit);
        if before != 0 {
            book.ages.remove(&(before, key.block));
        }
        if sequence != 0 {
            book.ages.insert((sequence, key.block));
        }
    }

    /// A destage takes the frame: a dirty one, or a clean one with all sectors valid, to close a gap. Panics
    /// for any other: a bug of the caller.
    pub fn begin_destage(&mut self, key: Key) -> Picked {
        let slot = self.find(key).expect("a frame that is destaged is present");
        let frame = &mut self.list[slot as usize];
        let state = frame.state.picked();
        let sectors = if frame.valid == ALL_SECTORS { ALL_SECTORS } else { frame.dirty };
        assert!(sectors != 0, "a clean frame with missing sectors closes no gap");
        frame.dirty = 0;
        // If the write fails, the device's content of a clean sector is unknown, too.
        frame.in_flight = sectors;
        let data = frame.data.clone();
        let picked = Picked { data, sectors, sequence: frame.newest };
        self.set_state(slot, state);
        picked
    }

    /// The destage of the frame ended: with `ok` the data have reached at least the device's cache; otherwise
    /// everything that it took is dirty again.
    pub fn end_destage(&mut self, key: Key, ok: bool) {
        let slot = self.find(key).expect("a frame that is destaged stays");
        let frame = &mut self.list[slot as usize];
        let state = frame.state.destaged(ok);
        let in_flight = std::mem::take(&mut frame.in_flight);
        if !ok {
            frame.dirty |= in_flight;
        }
        if state == FrameState::Clean {
            frame.newest = 0;
        }
        let since = self.book(key.unit).since.remove(&key.block).unwrap_or(0);
        if ok {
            self.set_oldest(slot, since);
        }
        self.set_state(slot, state);
    }

    /// Drops all frames of the blocks, clean or dirty. Panics if one of them is being destaged: the caller
    /// waits for that. The cost is proportional to the frames that are dropped.
    pub fn drop_range(&mut self, unit: UnitId, blocks: Range<u64>) {
        self.forget_evicted(unit, blocks.clone());
        for block in self.present(unit, blocks) {
            let slot = self.find(Key { unit, block }).expect("a block that is present has a frame");
            let state = self.list[slot as usize].state;
            assert!(!state.is_in_flight(), "block {block} is {state} and is dropped");
            self.set_oldest(slot, 0);
            self.set_state(slot, FrameState::Clean);
            self.release(slot);
        }
        if self.books.get(&unit).is_some_and(|book| book.present.len() == 0) {
            self.books.remove(&unit);
        }
    }

    /// The blocks of the range that have frames, in order.
    pub fn present(&self, unit: UnitId, blocks: Range<u64>) -> Vec<u64> {
        let Some(book) = self.books.get(&unit) else {
            return Vec::new();
        };
        book.present.from(blocks.start).take_while(|&block| block < blocks.end).collect()
    }

    /// The blocks of the unit in state Dirty from `block` on, in order.
    pub fn dirty_after(&self, unit: UnitId, block: u64) -> impl Iterator<Item = u64> + '_ {
        self.books.get(&unit).into_iter().flat_map(move |book| book.dirty.from(block))
    }

    /// Whether a frame of the blocks is in state Dirty.
    pub fn any_dirty(&self, unit: UnitId, blocks: Range<u64>) -> bool {
        self.books.get(&unit).is_some_and(|book| book.dirty.any(blocks))
    }

    /// Whether a destage has a frame of the blocks.
    pub fn any_destaging(&self, unit: UnitId, blocks: Range<u64>) -> bool {
        self.books.get(&unit).is_some_and(|book| book.in_flight.any(blocks))
    }

    /// The first unit from `unit` on (in order of numbers) that has a frame in state Dirty.
    pub fn dirty_unit_from(&self, unit: UnitId) -> Option<UnitId> {
        self.books.range(unit..).find(|(_, book)| book.dirty.len() > 0).map(|(&unit, _)| unit)
    }

    /// Dirty frames: write pending.
    pub fn dirty_frames(&self) -> u32 {
        let [_, dirty, destaging, rewritten] = self.by_state;
        dirty + destaging + rewritten
    }

    /// Frames of one unit in state Dirty.
    pub fn dirty_blocks(&self, unit: UnitId) -> u32 {
        self.unit_frames(unit).dirty
    }

    /// How many frames a unit has.
    pub fn unit_frames(&self, unit: UnitId) -> UnitFrames {
        self.books.get(&unit).map_or_else(UnitFrames::default, |book| UnitFrames {
            frames: book.present.len(),
            dirty: book.dirty.len(),
            in_flight: book.in_flight.len(),
        })
    }

    /// The oldest journal number with content of the unit that is not on its device. All numbers below may be
    /// retired once the device is flushed.
    pub fn oldest_sequence(&self, unit: UnitId) -> Option<u64> {
        self.books.get(&unit)?.ages.first().map(|&(sequence, _)| sequence)
    }

    /// The dirty blocks of the unit with journal numbers up to `sequence`, oldest first: they hold the tail
    /// of a full journal.
    pub fn dirty_up_to(&self, unit: UnitId, sequence: u64) -> impl Iterator<Item = u64> + '_ {
        let book = self.books.get(&unit);
        book.into_iter().flat_map(move |book| {
            let old = book.ages.range(..=(sequence, u64::MAX)).map(|&(_, block)| block);
            old.filter(|&block| book.dirty.any(block..block + 1))
        })
    }

    /// Keeps up to `frames` evicted from the main queues, until [`Frames::evicted`] takes them; 0 (the
    /// default): none.
    pub fn keep_evicted(&mut self, frames: usize) {
        self.evicted_max = frames;
        while self.evicted.len() > frames {
            self.evicted.pop_front();
        }
    }

    /// The oldest frame evicted from the main queues, for the second level. Frames that were written, taken
    /// or dropped meanwhile are skipped.
    pub fn evicted(&mut self) -> Option<(Key, Data)> {
        self.evicted.pop_front()
    }

    pub(super) fn forget_evicted(&mut self, unit: UnitId, blocks: Range<u64>) {
        if !self.evicted.is_empty() {
            self.evicted.retain(|(key, _)| key.unit != unit || !blocks.contains(&key.block));
        }
    }

    /// A used frame moves to the current partition of its unit.
    #[inline]
    pub(super) fn adopt(&mut self, partition: usize, slot: u32) {
        if usize::from(self.list[slot as usize].partition) != partition {
            self.move_frame(partition, slot);
        }
    }

    fn move_frame(&mut self, to: usize, slot: u32) {
        let frame = &mut self.list[slot as usize];
        let from = usize::from(std::mem::replace(&mut frame.partition, to as u16));
        let (home, is_clean) = (frame.home, frame.state == FrameState::Clean);
        let giver = &mut self.partitions[from];
        giver.counts.frames -= 1;
        giver.counts.dirty -= u32::from(!is_clean);
        if is_clean {
            giver.leave(&mut self.links, slot, home);
        }
        let taker = &mut self.partitions[to];
        taker.counts.frames += 1;
        taker.counts.dirty += u32::from(!is_clean);
        if is_clean {
            taker.enter(&mut self.links, slot, home);
        }
    }

    /// Removes a partition (not partition 0); its frames move to partition 0. Visits all frames.
    pub fn remove_partition(&mut self, id: PartitionId) {
        assert!(id != PartitionId(0), "partition 0 stays");
        if self.partition_counts(id).is_none() {
            return;
        }
        let mut gone = std::mem::take(&mut self.partitions[usize::from(id.0)]);
        while gone.ghosts.len() > 0 {
            self.ghosts.forget_oldest(&mut gone.ghosts);
        }
        let heir = &mut self.partitions[0];
        heir.counts.frames += gone.counts.frames;
        heir.counts.dirty += gone.counts.dirty;
        for slot in 0..self.list.len() as u32 {
            let frame = &mut self.list[slot as usize];
            if frame.data.is_empty() || frame.partition != id.0 {
                continue;
            }
            frame.partition = 0;
            if frame.state == FrameState::Clean {
                gone.leave(&mut self.links, slot, frame.home);
                heir.enter(&mut self.links, slot, frame.home);
            }
        }
    }
}
