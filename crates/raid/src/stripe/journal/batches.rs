//! The batches of a stripe journal: waiting, in flight, and still needed. No I/O.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use smallvec::SmallVec;
use world::sync::Signal;

use super::ring::{Ring, Taken};
use crate::GroupId;
use crate::stripe::change::{Change, New};

/// A batch may take this part of a ring, so that the next one has room while the last one is written in
/// place.
const RINGS_PER_BATCH: u64 = 4;

/// Batches of full stripes in flight. A frame queues in its drive behind writes in place; if writers of full
/// stripes waited for each other's batches, the drives would be idle. (Rows are held, so no two batches in
/// flight share a row, and a recovery takes or leaves each separately.) Small changes are gathered instead,
/// because their cost is the flush.
const BATCHES_IN_FLIGHT_MAX: usize = 16;

/// Counters of the journal since the group was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalCounts {
    /// Batches made durable.
    pub batches: u64,
    /// Frames written: one for each drive that a batch touches.
    pub frames: u64,
    /// Bytes of these frames.
    pub bytes: u64,
    /// Batches that were replayed when the group was opened.
    pub replayed: u64,
}

/// A change that waits for its batch.
pub(super) struct Waiting {
    pub(super) change: Rc<Change>,
    /// The batch, once it is durable.
    pub(super) batch: Cell<Option<u64>>,
}

/// A batch that a recovery would replay.
pub(super) struct Live {
    pub(super) number: u64,
    /// Its changes that are not in place yet.
    pub(super) left: usize,
    pub(super) frames: SmallVec<[(u32, u64); 8]>,
}

/// A change that is durable in the journal. Its writer writes it in place and then calls [`Journal::placed`].
#[derive(Debug)]
#[must_use]
pub(crate) struct Ticket(pub(super) u64);

/// The journal of a group.
pub(crate) struct Journal {
    pub(super) group_id: GroupId,
    pub(super) offset: u64,
    len: u64,
    pub(super) epoch: Cell<u64>,
    rings: RefCell<Vec<Ring>>,
    pub(super) waiting: RefCell<VecDeque<Rc<Waiting>>>,
    /// Batches in flight.
    pub(super) writing: Cell<usize>,
    pub(super) progress: Signal,
    pub(super) number: Cell<u64>,
    /// Batches that may not be durable in place.
    pub(super) live: RefCell<VecDeque<Live>>,
    /// Batches that are durable in place, while no durable frame says so. A recovery would replay them, and
    /// therefore needs them all: without the last one of a row, an older one would undo it.
    retired: RefCell<VecDeque<Live>>,
    /// Whether the rings are full, and a new epoch begins when no batch is live.
    pub(super) renewing: Cell<bool>,
    /// Rows in live batches: the number of the last batch, and whether it has only their checksums.
    rows: RefCell<BTreeMap<u64, (u64, bool)>>,
    counts: Cell<JournalCounts>,
}

impl Journal {
    pub(crate) fn new(group_id: GroupId, offset: u64, len: u64, epoch: u64, width: u32) -> Journal {
        Journal {
            group_id,
            offset,
            len,
            epoch: Cell::new(epoch),
            rings: RefCell::new(vec![Ring::new(len); width as usize]),
            waiting: RefCell::default(),
            writing: Cell::new(0),
            progress: Signal::default(),
            number: Cell::new(0),
            live: RefCell::default(),
            retired: RefCell::default(),
            renewing: Cell::new(false),
            rows: RefCell::default(),
            counts: Cell::default(),
        }
    }

    pub(crate) fn group_id(&self) -> GroupId {
        self.group_id
    }

    /// The offset of the ring on every drive.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    pub(crate) fn counts(&self) -> JournalCounts {
        self.counts.get()
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut JournalCounts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    /// Starts a new epoch: once the labels record it, nothing in the rings is valid. Returns whether the
    /// rings had anything.
    pub(crate) fn begin_epoch(&self) -> bool {
        assert!(self.live.borrow().is_empty(), "a batch is not retired when the journal's epoch ends");
        let used = self.number.get() > 0;
        self.epoch.set(self.epoch.get() + 1);
        self.retired.borrow_mut().clear();
        self.rings.borrow_mut().fill(Ring::new(self.len));
        used
    }

    /// The largest change of one drive.
    pub(crate) fn content_max(&self) -> u64 {
        self.len / RINGS_PER_BATCH
    }

    /// Whether a live batch has only checksums of a row.
    pub(crate) fn has_intent(&self, row: u64) -> bool {
        self.rows.borrow().get(&row).is_some_and(|(_, intent)| *intent)
    }

    /// Whether a live batch has the content of a row.
    pub(crate) fn has_content(&self, row: u64) -> bool {
        self.rows.borrow().get(&row).is_some_and(|(_, intent)| !intent)
    }

    /// The change of this ticket is in place.
    pub(crate) fn placed(&self, ticket: Ticket) {
        let mut live = self.live.borrow_mut();
        // In the order of their numbers: while large ranges are zeroed there are thousands.
        let at = live.binary_search_by_key(&ticket.0, |l| l.number);
        live[at.expect("a batch lives until it is in place")].left -= 1;
        drop(live);
        self.progress.wake_all();
    }

    /// The last of the consecutive batches, from the oldest on, that are in place.
    pub(super) fn placed_up_to(&self) -> u64 {
        let live = self.live.borrow();
        live.iter().take_while(|l| l.left == 0).last().map_or(0, |l| l.number)
    }

    /// Everything in place up to `number` is durable.
    pub(super) fn retire(&self, number: u64) {
        let mut live = self.live.borrow_mut();
        let end = live.partition_point(|l| l.number <= number);
        self.retired.borrow_mut().extend(live.drain(..end));
        drop(live);
        if end > 0 {
            self.rows.borrow_mut().retain(|_, (batch, _)| *batch > number);
            self.progress.wake_all();
        }
    }

    /// A durable frame says that no batch before `oldest` is needed: their room is free.
    pub(super) fn said(&self, oldest: u64) {
        let mut rings = self.rings.borrow_mut();
        let mut retired = self.retired.borrow_mut();
        let end = retired.partition_point(|l| l.number < oldest);
        for batch in retired.drain(..end) {
            batch.frames.iter().for_each(|(position, bytes)| rings[*position as usize].give_back(*bytes));
        }
        drop((rings, retired));
        if end > 0 {
            self.progress.wake_all();
        }
    }

    /// Whether there are batches that are durable in place, and no frame says so.
    pub(super) fn has_retired(&self) -> bool {
        !self.retired.borrow().is_empty()
    }

    /// Whether a batch may be written now, beginning with the oldest waiting change.
    pub(super) fn may_begin(&self) -> bool {
        let waiting = self.waiting.borrow();
        let full_rows = waiting.front().is_some_and(|w| !w.change.intents.is_empty());
        let most = if full_rows { BATCHES_IN_FLIGHT_MAX } else { 1 };
        !waiting.is_empty() && self.writing.get() < most
    }

    /// Whether this change is the oldest waiting one. Its writer writes the batch, so that the batch includes
    /// it. A writer of a batch without its own change might wait there for room that is freed only after its
    /// own change is in place.
    pub(super) fn is_first(&self, change: &Rc<Waiting>) -> bool {
        self.waiting.borrow().front().is_some_and(|first| Rc::ptr_eq(first, change))
    }

    /// The oldest waiting changes that fit in one batch; at least one.
    pub(super) fn take_waiting(&self) -> SmallVec<[Rc<Waiting>; 8]> {
        let mut waiting = self.waiting.borrow_mut();
        let mut taken: SmallVec<[Rc<Waiting>; 8]> = SmallVec::new();
        let mut bytes = [0_u64; crate::DRIVES_MAX];
        while let Some(next) = waiting.front() {
            for piece in &next.change.pieces {
                if let New::Content(data) = &piece.new {
                    bytes[piece.position as usize] += data.len() as u64;
                }
            }
            let sums: usize = next.change.intents.iter().map(|i| i.sums.len()).sum();
            bytes.iter_mut().for_each(|b| *b += 4 * sums as u64);
            if !taken.is_empty() && bytes.iter().any(|b| *b > self.content_max()) {
                break;
            }
            taken.push(waiting.pop_front().expect("there is a front"));
        }
        taken
    }

    /// Reserves room for the frames of a batch on all rings, or on none.
    pub(super) fn take_room(&self, lens: &[(u32, u64)]) -> Option<SmallVec<[(u32, Taken); 8]>> {
        let mut rings = self.rings.borrow_mut();
        let places: Option<SmallVec<[(u32, Taken); 8]>> =
            lens.iter().map(|(p, len)| Some((*p, rings[*p as usize].room_for(*len)?))).collect();
        let places = places?;
        places.iter().for_each(|(p, taken)| rings[*p as usize].take(*taken));
        Some(places)
    }

    /// Records that the rows of a change are in this batch; a unit of a row has `unit` bytes.
    pub(super) fn note_rows(&self, number: u64, unit: u64, change: &Change) {
        let mut of = self.rows.borrow_mut();
        let mut noted = None;
        for piece in &change.pieces {
            let intent = matches!(piece.new, New::Unlogged(_));
            let (first, end) = (piece.at / unit, (piece.at + piece.new.len()).div_ceil(unit));
            // Full stripes have the same rows on every drive: record them once. Zeroing a pool has millions.
            if noted.replace((first, end, intent)) != Some((first, end, intent)) {
                of.extend((first..end).map(|row| (row, (number, intent))));
            }
        }
    }
}
