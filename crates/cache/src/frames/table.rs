//! The table of frames: look-up by key, hits, insertions and writes.

use std::collections::{BTreeMap, VecDeque};

use world::{Buf, Data};

use super::dirty::Book;
use super::ghost::Ghosts;
use super::index::{Chains, hash};
use super::partition::{PARTITIONS_MAX, Partition, PartitionCounts, giver};
use super::policy::{Home, USES_MAX};
use super::queue::Links;
use super::state::{ALL_SECTORS, FRAME_BYTES, FrameState, Key, NoFrame, PartitionId, SECTOR_BYTES, UnitId};

/// Content of a present frame.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct FrameRef<'a> {
    /// [`FRAME_BYTES`] bytes, of which the sectors in `valid` have content. Clone it to keep it: no write
    /// changes it.
    pub data: &'a Data,
    /// The sectors that have content.
    pub valid: u8,
    /// The sectors that are newer than the device, including those being destaged.
    pub dirty: u8,
    pub state: FrameState,
}

/// Counters over all frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCounts {
    /// Frames there can be.
    pub capacity: u32,
    /// Frames in state Clean.
    pub clean: u32,
    /// Frames in state Dirty.
    pub dirty: u32,
    /// Frames in state Destaging.
    pub destaging: u32,
    /// Frames in state Rewritten.
    pub rewritten: u32,
    /// Evicted frames.
    pub evictions: u64,
    /// Blocks that returned while they were ghosts.
    pub ghost_hits: u64,
}

/// One frame. One line of the processor's cache, so that a hit waits for memory once.
#[repr(align(64))]
pub(super) struct Frame {
    /// Empty: the slot is free.
    pub(super) data: Data,
    pub(super) key: Key,
    /// The oldest journal number that this frame prevents from being retired; 0: none.
    pub(super) oldest: u64,
    /// The newest journal number of the content; 0: none.
    pub(super) newest: u64,
    pub(super) partition: u16,
    pub(super) state: FrameState,
    pub(super) home: Home,
    pub(super) uses: u8,
    pub(super) valid: u8,
    /// Sectors written and not picked for a destage yet.
    pub(super) dirty: u8,
    /// Sectors being destaged.
    pub(super) in_flight: u8,
}

const _: () = assert!(size_of::<Frame>() == 64);

impl Frame {
    fn used(&mut self) {
        self.uses = (self.uses + 1).min(USES_MAX);
    }

    fn view(&self) -> FrameRef<'_> {
        FrameRef {
            data: &self.data,
            valid: self.valid,
            dirty: self.dirty | self.in_flight,
            state: self.state,
        }
    }

    /// Replaces the given sectors. Readers and destages keep their content: the new content has new memory.
    fn take_over(&mut self, data: Data, sectors: u8) {
        if self.valid & !sectors == 0 {
            self.data = data;
        } else {
            let mut joined = Buf::copy_of(&self.data);
            for sector in (0..u8::BITS as usize).filter(|sector| sectors & 1 << sector != 0) {
                let bytes = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
                joined[bytes.clone()].copy_from_slice(&data[bytes]);
            }
            self.data = joined.freeze();
        }
        self.valid |= sectors;
    }
}

/// The frames of a controller.
///
/// Pass it data whose memory is not much larger than the frame: a slice keeps the whole buffer that it was
/// cut from.
pub struct Frames {
    pub(super) capacity: u32,
    pub(super) list: Vec<Frame>,
    pub(super) free: Vec<u32>,
    /// What free slots hold.
    nothing: Data,
    pub(super) chains: Chains,
    /// Of the queues of the partitions.
    pub(super) links: Links,
    pub(super) partitions: Vec<Partition>,
    pub(super) ghosts: Ghosts,
    pub(super) books: BTreeMap<UnitId, Book>,
    pub(super) by_state: [u32; FrameState::COUNT],
    /// Frames evicted from the main queues, oldest first.
    pub(super) evicted: VecDeque<(Key, Data)>,
    pub(super) evicted_max: usize,
}

impl Frames {
    /// At most `capacity` frames, all in partition 0 until others are created. Memory is allocated as frames
    /// are filled.
    pub fn new(capacity: u32) -> Frames {
        assert!(capacity > 0, "a cache has a frame");
        let mut frames = Frames {
            capacity,
            list: Vec::with_capacity(capacity as usize),
            free: Vec::new(),
            nothing: Buf::new(0).freeze(),
            chains: Chains::new(capacity),
            links: Links::new(capacity),
            partitions: Vec::new(),
            ghosts: Ghosts::new(capacity),
            books: BTreeMap::new(),
            by_state: [0; FrameState::COUNT],
            evicted: VecDeque::new(),
            evicted_max: 0,
        };
        frames.partition(PartitionId(0), 0);
        frames
    }

    /// Creates a partition or changes its minimum of frames, which takes effect as frames are needed. The
    /// caller ensures that the minimums add up to at most all frames, and that the number is below
    /// [`PARTITIONS_MAX`].
    pub fn partition(&mut self, id: PartitionId, frames_min: u32) {
        assert!(id.0 < PARTITIONS_MAX, "partition {} is over the limit of {PARTITIONS_MAX}", id.0);
        while self.partitions.len() <= usize::from(id.0) {
            self.partitions.push(Partition::default());
        }
        let partition = &mut self.partitions[usize::from(id.0)];
        partition.exists = true;
        partition.frames_min = frames_min;
        let claimed: u64 = self.partitions.iter().map(|p| u64::from(p.frames_min)).sum();
        assert!(claimed <= self.capacity.into(), "partitions claim {claimed} of {} frames", self.capacity);
    }

    /// The index of a partition; that of partition 0 for one that was removed.
    fn partition_index(&self, id: PartitionId) -> usize {
        let index = usize::from(id.0);
        if self.partitions.get(index).is_some_and(|p| p.exists) { index } else { 0 }
    }

    #[inline]
    pub(super) fn find(&self, key: Key) -> Option<u32> {
        self.chains.find(hash(key), |slot| self.list[slot as usize].key == key)
    }

    /// Looks up a block for `partition`: a use of its frame, or a miss.
    #[inline]
    pub fn get(&mut self, partition: PartitionId, key: Key) -> Option<FrameRef<'_>> {
        let slot = self.find(key);
        let partition = self.partition_index(partition);
        let counts = &mut self.partitions[partition].counts;
        let Some(slot) = slot else {
            counts.misses += 1;
            return None;
        };
        counts.hits += 1;
        self.adopt(partition, slot);
        let frame = &mut self.list[slot as usize];
        frame.used();
        Some(frame.view())
    }

    /// Looks up a block without counting a use.
    pub fn peek(&self, key: Key) -> Option<FrameRef<'_>> {
        self.find(key).map(|slot| self.list[slot as usize].view())
    }

    /// Stores content of the device. Present sectors stay: they are as new or newer. Returns `false` if there
    /// was no frame for it.
    pub fn insert_clean(&mut self, partition: PartitionId, key: Key, data: Data, valid: u8) -> bool {
        assert_eq!(data.len(), FRAME_BYTES, "a frame's data has its length");
        let Some(slot) = self.find(key) else {
            return self.claim(partition, key, data, valid).is_ok();
        };
        let frame = &mut self.list[slot as usize];
        let missing = valid & !frame.valid;
        if missing != 0 {
            frame.take_over(data, missing);
        }
        true
    }

    /// Stores content that is newer than the device: `sectors` of `data` (always [`FRAME_BYTES`] long).
    /// `sequence` is the journal number that must be durable before the destage; 0: none.
    pub fn write(
        &mut self,
        partition: PartitionId,
        key: Key,
        data: Data,
        sectors: u8,
        sequence: u64,
    ) -> Result<(), NoFrame> {
        assert_eq!(data.len(), FRAME_BYTES, "a frame's data has its length");
        assert!(sectors != 0, "a write has a sector");
        let slot = match self.find(key) {
            Some(slot) => {
                self.adopt(self.partition_index(partition), slot);
                let frame = &mut self.list[slot as usize];
                frame.take_over(data, sectors);
                frame.used();
                slot
            }
            None => self.claim(partition, key, data, sectors)?,
        };
        let frame = &mut self.list[slot as usize];
        frame.dirty |= sectors;
        let state = frame.state.written();
        self.note_sequence(slot, sequence);
        self.set_state(slot, state);
        Ok(())
    }

    /// Updates a present frame with content that was written to the device directly, and keeps its state.
    /// Returns `false` if there is none. Panics while the block is being destaged: the older content could
    /// arrive after the newer.
    pub fn overwrite_clean(&mut self, key: Key, data: Data, sectors: u8) -> bool {
        assert_eq!(data.len(), FRAME_BYTES, "a frame's data has its length");
        let Some(slot) = self.find(key) else {
            self.forget_evicted(key.unit, key.block..key.block + 1);
            return false;
        };
        let frame = &mut self.list[slot as usize];
        assert!(!frame.state.is_in_flight(), "a block is destaged and written directly at once");
        frame.take_over(data, sectors);
        true
    }

    /// Allocates a frame for a block without one, in state Clean.
    fn claim(&mut self, partition: PartitionId, key: Key, data: Data, valid: u8) -> Result<u32, NoFrame> {
        self.forget_evicted(key.unit, key.block..key.block + 1);
        let partition = self.partition_index(partition);
        if self.free.is_empty() && self.list.len() as u32 == self.capacity {
            let giver = giver(&self.partitions, partition, self.capacity).ok_or(NoFrame)?;
            self.evict(giver);
        }
        let hash = hash(key);
        let home = self.home_of_new(partition, hash);
        let frame = Frame {
            data,
            key,
            oldest: 0,
            newest: 0,
            partition: partition as u16,
            state: FrameState::Clean,
            home,
            uses: 0,
            valid,
            dirty: 0,
            in_flight: 0,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.list[slot as usize] = frame;
                slot
            }
            None => {
                self.list.push(frame);
                self.list.len() as u32 - 1
            }
        };
        self.chains.insert(hash, slot);
        self.books.entry(key.unit).or_default().present.insert(key.block);
        let partition = &mut self.partitions[partition];
        partition.enter(&mut self.links, slot, home);
        partition.counts.frames += 1;
        self.by_state[FrameState::Clean as usize] += 1;
        Ok(slot)
    }

    /// The main queue for a block that was evicted recently, the small one for others.
    fn home_of_new(&mut self, partition: usize, hash: u64) -> Home {
        let Some(remembered) = self.ghosts.partition_of(hash) else {
            return Home::Small;
        };
        self.ghosts.forget(&mut self.partitions[usize::from(remembered)].ghosts, hash);
        self.partitions[partition].counts.ghost_hits += 1;
        Home::Main
    }

    fn evict(&mut self, giver: usize) {
        let partition = &mut self.partitions[giver];
        let slot = partition.victim(&mut self.links, &mut self.list).expect("who gives has a clean frame");
        partition.counts.evictions += 1;
        let frame = &self.list[slot as usize];
        let (key, home, whole) = (frame.key, frame.home, frame.valid == ALL_SECTORS);
        if home == Home::Small {
            partition.remember(&mut self.ghosts, giver as u16, hash(key));
        }
        let data = self.release(slot);
        if home == Home::Main && whole && self.evicted_max > 0 {
            if self.evicted.len() == self.evicted_max {
                self.evicted.pop_front();
            }
            self.evicted.push_back((key, data));
        }
    }

    /// Frees a slot, whose frame must be clean.
    pub(super) fn release(&mut self, slot: u32) -> Data {
        let frame = &mut self.list[slot as usize];
        assert!(frame.state == FrameState::Clean, "a frame is {} and is freed", frame.state);
        let data = std::mem::replace(&mut frame.data, self.nothing.clone());
        self.chains.remove(hash(frame.key), slot);
        let book = self.books.get_mut(&frame.key.unit).expect("a unit with a frame has books");
        book.present.remove(frame.key.block);
        let partition = &mut self.partitions[usize::from(frame.partition)];
        partition.leave(&mut self.links, slot, frame.home);
        partition.counts.frames -= 1;
        self.by_state[FrameState::Clean as usize] -= 1;
        self.free.push(slot);
        data
    }

    /// Counters over all frames.
    pub fn counts(&self) -> FrameCounts {
        let [clean, dirty, destaging, rewritten] = self.by_state;
        let all = |of: fn(&PartitionCounts) -> u64| self.partitions.iter().map(|p| of(&p.counts)).sum();
        FrameCounts {
            capacity: self.capacity,
            clean,
            dirty,
            destaging,
            rewritten,
            evictions: all(|counts| counts.evictions),
            ghost_hits: all(|counts| counts.ghost_hits),
        }
    }

    /// Counters of one partition; `None` if it does not exist.
    pub fn partition_counts(&self, id: PartitionId) -> Option<PartitionCounts> {
        let partition = self.partitions.get(usize::from(id.0)).filter(|p| p.exists)?;
        Some(PartitionCounts { frames_min: partition.frames_min, ..partition.counts })
    }
}
