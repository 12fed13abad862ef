//! The state of a unit.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;

use block::{BackingStore, BlockError, Device, Geometry, Pieces, RangeLocks};
use world::Trace;
use world::sync::Signal;

use crate::cache::{CacheConfig, Inner};
use crate::frames::{FRAME_BYTES, PartitionId, UnitFrames, UnitId};
use crate::generations::Generations;
use crate::journal::Journal;
use crate::segments::{SegmentCounts, Segments};
use crate::streams::Streams;
use crate::traffic::Traffic;

/// Limit of distinct sequential streams of one unit.
const STREAMS_MAX: usize = 256;

/// The write policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WritePolicy {
    /// Write-back: acknowledged from the cache, destaged later.
    Back,
    /// Write-through: written to the store before it is acknowledged, and cached for reads.
    Through,
    /// Reads and writes bypass the cache.
    Off,
}

/// Properties of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct UnitSpec {
    /// The persistent number of the store in the journal, as long as it has a record.
    pub stable_id: u64,
    /// The write policy.
    pub policy: WritePolicy,
    pub partition: PartitionId,
}

/// Counters of a unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct UnitCounts {
    pub reads: u64,
    pub read_bytes: u64,
    /// Of these, bytes that were in memory.
    pub read_hit_bytes: u64,
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Of these, bytes that found room at once: the write waited neither for a destage nor for the journal's
    /// room, and nothing of it was written to the store before it was acknowledged.
    pub write_hit_bytes: u64,
    /// Writes to the store that destages made.
    pub destages: u64,
    /// Bytes of these.
    pub destaged_bytes: u64,
    pub destages_failed: u64,
    /// What was read ahead.
    pub ahead: SegmentCounts,
    /// Frames of the unit.
    pub frames: UnitFrames,
}

pub(crate) struct State<D: BackingStore, J: Device + Clone + 'static> {
    pub(crate) id: UnitId,
    pub(crate) stable_id: u64,
    pub(crate) store: D,
    pub(crate) policy: Cell<WritePolicy>,
    pub(crate) partition: Cell<PartitionId>,
    /// Its traffic when it entered its partition.
    pub(crate) joined: Cell<Traffic>,
    pub(crate) journal: Option<Journal<J>>,
    pub(crate) locks: RangeLocks,
    pub(crate) generations: Generations,
    pub(crate) streams: RefCell<Streams>,
    pub(crate) segments: RefCell<Segments>,
    /// Wakes when read-ahead has arrived or failed.
    pub(crate) arrived: Signal,
    /// Number of changes of the store, directly or by destages.
    pub(crate) changes: Cell<u64>,
    /// The last of these that bypassed the frames: the journal has no record of its content.
    pub(crate) bypassed: Cell<u64>,
    /// Number of these changes that are certainly durable.
    pub(crate) flushed: Cell<u64>,
    /// The error of the last destage, until one succeeds.
    pub(crate) failure: RefCell<Option<BlockError>>,
    counts: Cell<UnitCounts>,
}

/// A cached store: a handle, cheap to clone.
pub struct Unit<D: BackingStore, J: Device + Clone + 'static> {
    pub(crate) cache: Rc<Inner<D, J>>,
    pub(crate) state: Rc<State<D, J>>,
}

impl<D: BackingStore, J: Device + Clone + 'static> Clone for Unit<D, J> {
    fn clone(&self) -> Self {
        Unit { cache: self.cache.clone(), state: self.state.clone() }
    }
}

/// The blocks that a range of bytes touches.
pub(crate) fn blocks_of(range: &Range<u64>) -> Range<u64> {
    range.start / FRAME_BYTES as u64..range.end.div_ceil(FRAME_BYTES as u64)
}

/// The bytes of blocks.
pub(crate) fn bytes_of(blocks: &Range<u64>) -> Range<u64> {
    blocks.start * FRAME_BYTES as u64..blocks.end * FRAME_BYTES as u64
}

impl<D: BackingStore, J: Device + Clone + 'static> State<D, J> {
    /// A write to the store. Boxed: a unit names it in many places, and the future of each command would be
    /// as many times as large.
    pub(crate) fn write_below<'a>(
        &'a self,
        trace: Option<&'a Trace>,
        at: u64,
        data: &'a Pieces,
    ) -> Pin<Box<impl Future<Output = Result<(), BlockError>>>> {
        Box::pin(self.store.write_traced(trace, at, data))
    }

    pub(crate) fn new(
        id: UnitId,
        store: D,
        spec: UnitSpec,
        journal: Option<Journal<J>>,
        config: &CacheConfig,
    ) -> State<D, J> {
        State {
            id,
            stable_id: spec.stable_id,
            store,
            policy: Cell::new(spec.policy),
            partition: Cell::new(spec.partition),
            joined: Cell::default(),
            journal,
            locks: RangeLocks::default(),
            generations: Generations::new(),
            streams: RefCell::new(Streams::new(STREAMS_MAX)),
            segments: RefCell::new(Segments::new(config.read_ahead_bytes())),
            arrived: Signal::default(),
            changes: Cell::new(0),
            bypassed: Cell::new(0),
            flushed: Cell::new(0),
            failure: RefCell::default(),
            counts: Cell::default(),
        }
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut UnitCounts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    fn counts(&self) -> UnitCounts {
        UnitCounts { ahead: self.segments.borrow().counts(), ..self.counts.get() }
    }

    pub(crate) fn traffic(&self) -> Traffic {
        self.counts().into()
    }

    /// Traffic since it entered its partition.
    pub(crate) fn traffic_in_partition(&self) -> Traffic {
        self.traffic().since(self.joined.get())
    }

    /// Records a change of the store by a destage.
    pub(crate) fn note_destage(&self) {
        self.changes.set(self.changes.get() + 1);
    }

    /// Records a change of the store that bypassed the frames.
    pub(crate) fn note_bypass(&self) {
        self.changes.set(self.changes.get() + 1);
        self.bypassed.set(self.changes.get());
    }

    /// Invalidates read-ahead and reads in progress of a changed range.
    fn changed(&self, range: &Range<u64>) {
        self.generations.touch(range);
        self.segments.borrow_mut().drop_range(range.start, range.end - range.start);
    }
}

impl<D: BackingStore, J: Device + Clone + 'static> Unit<D, J> {
    /// Invalidates a changed range in all caches.
    pub(crate) fn changed(&self, range: &Range<u64>) {
        self.state.changed(range);
        if let Some(second) = &*self.cache.second.borrow() {
            second.drop_range(self.state.id, blocks_of(range));
        }
    }

    /// The store.
    pub fn store(&self) -> &D {
        &self.state.store
    }

    /// Size and block length, the store's.
    pub fn geometry(&self) -> Geometry {
        self.state.store.geometry()
    }

    /// The write policy.
    pub fn policy(&self) -> WritePolicy {
        self.state.policy.get()
    }

    /// Changes the policy for further writes. Dirty frames are destaged as usual.
    pub fn set_policy(&self, policy: WritePolicy) {
        self.state.policy.set(policy);
    }

    /// Its partition.
    pub fn partition(&self) -> PartitionId {
        self.state.partition.get()
    }

    /// Moves it to another partition. Its frames move as they are used.
    pub fn set_partition(&self, partition: PartitionId) {
        self.cache.move_unit(&self.state, partition);
    }

    /// Whether acknowledged writes become durable only by a flush that destages: without a journal.
    pub fn has_journal(&self) -> bool {
        self.state.journal.is_some()
    }

    /// The current reason why destages fail.
    pub fn failure(&self) -> Option<BlockError> {
        self.state.failure.borrow().clone()
    }

    /// Counters.
    pub fn counts(&self) -> UnitCounts {
        UnitCounts { frames: self.cache.frames.borrow().unit_frames(self.state.id), ..self.state.counts() }
    }
}

impl<D: BackingStore, J: Device + Clone + 'static> Device for Unit<D, J> {
    fn geometry(&self) -> Geometry {
        Unit::geometry(self)
    }

    async fn read(&self, at: u64, len: usize, out: &mut block::Pieces) -> Result<(), BlockError> {
        Unit::read(self, at, len, out).await
    }

    async fn write(&self, at: u64, data: &block::Pieces) -> Result<(), BlockError> {
        Unit::write(self, at, data).await
    }

    async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.geometry().check(at, len)?;
        self.change(at..at + len, Box::pin(self.state.store.zero(at, len))).await
    }

    async fn flush(&self) -> Result<(), BlockError> {
        Unit::flush(self).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_bytes() {
        assert_eq!(blocks_of(&(1..4097)), 0..2);
        assert_eq!(bytes_of(&(1..2)), 4096..8192);
    }
}
