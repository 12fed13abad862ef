//! The cache of a controller: its memory, its units, and their shared state.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use block::{BackingStore, BlockError, Device, RangeLocks};
use world::sync::Signal;
use world::{Drive, World};

use crate::frames::{FRAME_BYTES, FrameCounts, Frames, PartitionCounts, PartitionId, UnitId};
use crate::journal::Journal;
use crate::second::{CHUNK_BLOCKS, SecondCounts, SecondLevel};
use crate::traffic::Traffic;
use crate::unit::{State, Unit, UnitSpec};

/// The settings of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// Memory for content, in bytes; the metadata takes about 3 % more.
    pub memory_bytes: u64,
    /// Share of it for read-ahead, in percent.
    pub read_ahead_percent: u8,
    /// Limit of read-ahead for one sequential stream.
    pub read_ahead_bytes_max: u64,
    /// Reads and writes of this size and more bypass the frames.
    pub direct_bytes: u64,
    /// Write pending (dirty frames, as a share of all) at which writes wait.
    pub pending_high_percent: u8,
    /// Write pending at which frames are destaged without delay.
    pub pending_low_percent: u8,
    /// How long a frame may stay dirty without other pressure: it may be written again meanwhile, and its
    /// neighbours may become dirty.
    pub destage_delay: Duration,
    /// Limit of concurrent destages of one unit; all units together have a few times as many, because their
    /// groups work in parallel.
    pub destages_max: usize,
}

impl Default for CacheConfig {
    fn default() -> CacheConfig {
        CacheConfig {
            memory_bytes: 256 << 20,
            read_ahead_percent: 25,
            read_ahead_bytes_max: 8 << 20,
            direct_bytes: 256 << 10,
            pending_high_percent: 70,
            pending_low_percent: 10,
            destage_delay: Duration::from_secs(1),
            destages_max: 32,
        }
    }
}

impl CacheConfig {
    pub(crate) fn read_ahead_bytes(&self) -> u64 {
        self.memory_bytes / 100 * u64::from(self.read_ahead_percent)
    }

    /// Memory for frames, in bytes: the limit for the sum of all partitions' minimums.
    pub fn frames_bytes(&self) -> u64 {
        u64::from(self.frames()) * FRAME_BYTES as u64
    }

    fn frames(&self) -> u32 {
        let bytes = self.memory_bytes - self.read_ahead_bytes();
        u32::try_from(bytes / FRAME_BYTES as u64).unwrap_or(u32::MAX).max(FRAMES_MIN)
    }
}

/// Evicted frames that wait for the second level.
const EVICTED_MAX: usize = 2 * CHUNK_BLOCKS;

/// One write of less than `direct_bytes` may need this many frames.
const FRAMES_MIN: u32 = 256;

/// The single turn for which writers queue.
const FRONT: Range<u64> = 0..1;

/// Counters of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    /// All frames, by state.
    pub frames: FrameCounts,
    /// Dirty frames as a share of all, in percent.
    pub pending_percent: u8,
    /// Number of times that a write waited, because of write pending or because no frame was clean.
    pub waits: u64,
}

/// Status of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct PartitionStatus {
    pub frames: PartitionCounts,
    /// Traffic of units while they were in it.
    pub traffic: Traffic,
}

/// The cache of one controller: a handle, cheap to clone.
pub struct Cache<D: BackingStore, J: Device + Clone + 'static>(pub(crate) Rc<Inner<D, J>>);

pub(crate) struct Inner<D: BackingStore, J: Device + Clone + 'static> {
    pub(crate) world: World,
    pub(crate) config: CacheConfig,
    pub(crate) frames: RefCell<Frames>,
    pub(crate) units: RefCell<BTreeMap<UnitId, Rc<State<D, J>>>>,
    next_unit: Cell<UnitId>,
    /// Traffic of units in partitions that they have left.
    left: RefCell<BTreeMap<PartitionId, Traffic>>,
    /// Wakes when frames became clean, or a destage ended.
    pub(crate) cleaned: Signal,
    /// Wakes when the background destage must not wait.
    pub(crate) pressed: Signal,
    pub(crate) destaging: Cell<bool>,
    /// Turns of the background destage that have ended, and how the last one did.
    pub(crate) turned: RefCell<(u64, Result<(), BlockError>)>,
    /// The second level.
    pub(crate) second: RefCell<Option<Rc<SecondLevel>>>,
    /// Running replays: until they end, their journals must not retire records.
    pub(crate) replaying: Cell<usize>,
    pub(crate) waits: Cell<u64>,
    /// The queue of writers that wait for room.
    turns: RangeLocks,
}

impl<D: BackingStore, J: Device + Clone + 'static> Clone for Cache<D, J> {
    fn clone(&self) -> Self {
        Cache(self.0.clone())
    }
}

impl<D: BackingStore, J: Device + Clone + 'static> Cache<D, J> {
    /// An empty cache.
    pub fn new(world: World, config: CacheConfig) -> Cache<D, J> {
        Cache(Rc::new(Inner {
            frames: RefCell::new(Frames::new(config.frames())),
            world,
            config,
            units: RefCell::default(),
            next_unit: Cell::new(UnitId(0)),
            left: RefCell::default(),
            cleaned: Signal::default(),
            pressed: Signal::default(),
            destaging: Cell::new(false),
            turned: RefCell::new((0, Ok(()))),
            second: RefCell::default(),
            replaying: Cell::new(0),
            waits: Cell::new(0),
            turns: RangeLocks::default(),
        }))
    }

    /// The settings.
    pub fn config(&self) -> CacheConfig {
        self.0.config
    }

    /// Attaches a store: from now on it is cached.
    pub fn attach(&self, store: D, spec: UnitSpec, journal: Option<Journal<J>>) -> Unit<D, J> {
        let id = self.0.next_unit.get();
        self.0.next_unit.set(UnitId(id.0 + 1));
        let state = Rc::new(State::new(id, store, spec, journal, &self.0.config));
        self.0.units.borrow_mut().insert(id, state.clone());
        Unit { cache: self.0.clone(), state }
    }

    /// Uses an SSD as the second level, from this byte on; the content there is lost. Returns `false` if it
    /// is too small.
    pub fn set_second_level(&self, drive: Drive, from: u64) -> bool {
        let second = SecondLevel::new(self.0.world.clone(), drive, from);
        let made = second.is_some();
        self.0.frames.borrow_mut().keep_evicted(if made { EVICTED_MAX } else { 0 });
        *self.0.second.borrow_mut() = second;
        made
    }

    /// Counters of the second level, if there is one.
    pub fn second_counts(&self) -> Option<SecondCounts> {
        self.0.second.borrow().as_ref().map(|second| second.counts())
    }

    /// Creates a partition, or changes its minimum, which is rounded down to whole frames. The caller limits
    /// the sum of the minimums to [`CacheConfig::frames_bytes`].
    pub fn set_partition(&self, id: PartitionId, minimum_bytes: u64) {
        let frames_min = u32::try_from(minimum_bytes / FRAME_BYTES as u64).unwrap_or(u32::MAX);
        self.0.frames.borrow_mut().partition(id, frames_min);
    }

    /// Removes a partition; its frames and units move to partition 0.
    pub fn remove_partition(&self, id: PartitionId) {
        for unit in self.0.units.borrow().values().filter(|u| u.partition.get() == id) {
            self.0.move_unit(unit, PartitionId(0));
        }
        self.0.left.borrow_mut().remove(&id);
        self.0.frames.borrow_mut().remove_partition(id);
    }

    /// Status of a partition; `None` if it does not exist.
    pub fn partition(&self, id: PartitionId) -> Option<PartitionStatus> {
        let frames = self.0.frames.borrow().partition_counts(id)?;
        let left = self.0.left.borrow().get(&id).copied().unwrap_or_default();
        let units = self.0.units.borrow();
        let present = units.values().filter(|u| u.partition.get() == id).map(|u| u.traffic_in_partition());
        Some(PartitionStatus { frames, traffic: present.fold(left, Traffic::plus) })
    }

    /// Counters.
    pub fn counts(&self) -> CacheCounts {
        CacheCounts {
            frames: self.0.frames.borrow().counts(),
            pending_percent: self.0.pending_percent(),
            waits: self.0.waits.get(),
        }
    }
}

impl<D: BackingStore, J: Device + Clone + 'static> Inner<D, J> {
    /// Moves a unit to another partition. Its frames move as they are used.
    pub(crate) fn move_unit(&self, unit: &State<D, J>, to: PartitionId) {
        let from = unit.partition.replace(to);
        if from != to {
            self.note_left(unit, from);
        }
    }

    /// A unit leaves a partition, and its traffic so far stays there.
    pub(crate) fn note_left(&self, unit: &State<D, J>, from: PartitionId) {
        let traffic = unit.traffic_in_partition();
        unit.joined.set(unit.traffic());
        let mut left = self.left.borrow_mut();
        let left = left.entry(from).or_default();
        *left = left.plus(traffic);
    }

    /// Passes evicted frames to the second level.
    pub(crate) fn offer_evicted(&self) {
        let Some(second) = self.second.borrow().clone() else { return };
        while let Some((key, data)) = self.frames.borrow_mut().evicted() {
            second.offer(key, data);
        }
    }

    pub(crate) fn pending_percent(&self) -> u8 {
        let frames = self.frames.borrow();
        (u64::from(frames.dirty_frames()) * 100 / u64::from(frames.counts().capacity)) as u8
    }

    /// Waits while write pending is at its limit. First come, first served, so that destaged memory is shared
    /// evenly by all writers. Returns whether it waited.
    pub(crate) async fn below_high(self: &Rc<Self>) -> bool {
        let has_room = || self.pending_percent() < self.config.pending_high_percent;
        if has_room() && self.turns.is_free(&FRONT) {
            return false;
        }
        self.waits.set(self.waits.get() + 1);
        self.press();
        let _turn = self.turns.exclusive(FRONT).await;
        self.cleaned.wait_for(|| has_room().then_some(())).await;
        true
    }
}
