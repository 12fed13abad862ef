//! Group commit of the stripe journal, and which batches are still needed.
//!
//! ```text
//!   change ──> waiting ──> batch: a frame on every drive that it touches, flushed ──> the writers go in place ──> placed
//!                                                                                       │ a flush that began after it
//!                                                    the frames' room is free again <── retired
//! ```

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use block::BlockError;
use smallvec::SmallVec;
use world::sync::Signal;
use world::{Drive, DriveError};

use super::frame::{Batch, Contents, encode};
use super::ring::{Ring, Taken};
use crate::GroupId;
use crate::inner::Inner;
use crate::stripe::Rows;
use crate::stripe::change::{Change, New};
use crate::stripe::rows::Operations;

/// One batch takes at most this part of a ring, so that the next one finds room while the last one goes in place.
const RINGS_PER_BATCH: u64 = 4;

/// Batches of full rows that may be on their way at once. A frame waits in its drive's queue behind what goes in place; writers of full rows
/// that waited for each other's batches would leave the drives idle. (Rows are held, so that no two batches on their way have a row in common, and
/// a recovery takes or leaves each by itself.) Small changes gather instead: for them a flush is what costs.
const BATCHES_IN_FLIGHT_MAX: usize = 16;

/// What the journal did since the group was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JournalCounts {
    /// Batches made durable.
    pub batches: u64,
    /// Frames written: one for each drive that a batch touches.
    pub frames: u64,
    /// Bytes of these frames.
    pub bytes: u64,
    /// Batches that were written in place again when the group was opened.
    pub replayed: u64,
}

/// A change that waits for its batch.
struct Waiting {
    change: Rc<Change>,
    /// The batch, once it is durable.
    batch: Cell<Option<u64>>,
}

/// A batch that may not be durable in place.
struct Live {
    number: u64,
    /// Changes of it that are not in place yet.
    left: usize,
    frames: SmallVec<[(u32, u64); 8]>,
}

/// A change that is durable in the journal. Whoever holds it writes in place, and then says so with [`Journal::placed`].
#[derive(Debug)]
#[must_use]
pub(crate) struct Ticket(u64);

/// The journal of a group.
pub(crate) struct Journal {
    group_id: GroupId,
    offset: u64,
    len: u64,
    epoch: Cell<u64>,
    rings: RefCell<Vec<Ring>>,
    waiting: RefCell<VecDeque<Rc<Waiting>>>,
    /// Batches on their way.
    writing: Cell<usize>,
    progress: Signal,
    number: Cell<u64>,
    live: RefCell<VecDeque<Live>>,
    /// Rows in live batches: the last batch, and whether it has only checksums of them.
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
            rows: RefCell::default(),
            counts: Cell::default(),
        }
    }

    pub(crate) fn group_id(&self) -> GroupId {
        self.group_id
    }

    /// Where the ring begins on every drive.
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

    /// From the labels on that say so, nothing that is in the rings counts any more. Whether there was anything.
    pub(crate) fn begin_epoch(&self) -> bool {
        assert!(self.live.borrow().is_empty(), "a batch is not retired when the journal's epoch ends");
        let used = self.number.get() > 0;
        self.epoch.set(self.epoch.get() + 1);
        used
    }

    /// What a change may have for one drive.
    pub(crate) fn content_max(&self) -> u64 {
        self.len / RINGS_PER_BATCH
    }

    /// Whether a row is in a live batch that has only checksums of it.
    pub(crate) fn has_intent(&self, row: u64) -> bool {
        self.rows.borrow().get(&row).is_some_and(|(_, intent)| *intent)
    }

    /// Whether a row is in a live batch with its content.
    pub(crate) fn has_content(&self, row: u64) -> bool {
        self.rows.borrow().get(&row).is_some_and(|(_, intent)| !intent)
    }

    /// The change of this ticket is in place.
    pub(crate) fn placed(&self, ticket: Ticket) {
        let mut live = self.live.borrow_mut();
        // In the order of their numbers: while much is zeroed there are thousands.
        let at = live.binary_search_by_key(&ticket.0, |l| l.number);
        live[at.expect("a batch lives until it is in place")].left -= 1;
        drop(live);
        self.progress.wake_all();
    }

    /// The last batch of those from the oldest on that are in place.
    fn placed_up_to(&self) -> u64 {
        let live = self.live.borrow();
        live.iter().take_while(|l| l.left == 0).last().map_or(0, |l| l.number)
    }

    /// What was in place up to `number` is durable.
    fn retire(&self, number: u64) {
        let mut live = self.live.borrow_mut();
        let mut rings = self.rings.borrow_mut();
        let mut any = false;
        while live.front().is_some_and(|l| l.number <= number) {
            let batch = live.pop_front().expect("there is a front");
            batch.frames.iter().for_each(|(position, bytes)| rings[*position as usize].give_back(*bytes));
            any = true;
        }
        drop((live, rings));
        if any {
            self.rows.borrow_mut().retain(|_, (batch, _)| *batch > number);
            self.progress.wake_all();
        }
    }

    /// Whether a batch may go on its way now, beginning with the change that waits longest.
    fn may_begin(&self) -> bool {
        let waiting = self.waiting.borrow();
        let full_rows = waiting.front().is_some_and(|w| !w.change.intents.is_empty());
        let most = if full_rows { BATCHES_IN_FLIGHT_MAX } else { 1 };
        !waiting.is_empty() && self.writing.get() < most
    }

    /// Whether this change is the one that waits longest. Its writer writes the batch, so that the batch has it: who wrote one for others
    /// only might wait there for room, which is not free before his own change, in another batch by then, is in place.
    fn is_first(&self, change: &Rc<Waiting>) -> bool {
        self.waiting.borrow().front().is_some_and(|first| Rc::ptr_eq(first, change))
    }

    /// As many of the waiting changes as one batch takes, the oldest first; at least one.
    fn take_waiting(&self) -> SmallVec<[Rc<Waiting>; 8]> {
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

    /// Takes room for the frames of a batch on all rings, or on none.
    fn take_room(&self, lens: &[(u32, u64)]) -> Option<SmallVec<[(u32, Taken); 8]>> {
        let mut rings = self.rings.borrow_mut();
        let places: Option<SmallVec<[(u32, Taken); 8]>> =
            lens.iter().map(|(p, len)| Some((*p, rings[*p as usize].room_for(*len)?))).collect();
        let places = places?;
        places.iter().for_each(|(p, taken)| rings[*p as usize].take(*taken));
        Some(places)
    }

    fn note_rows(&self, number: u64, rows: &Rows, change: &Change) {
        let mut of = self.rows.borrow_mut();
        let mut noted = None;
        for piece in &change.pieces {
            let intent = matches!(piece.new, New::Unlogged(_));
            let (first, end) = (piece.at / rows.unit(), (piece.at + piece.new.len()).div_ceil(rows.unit()));
            // Full rows have the same rows on every drive: noting them once is enough, and a pool is zeroed by millions.
            if noted.replace((first, end, intent)) != Some((first, end, intent)) {
                of.extend((first..end).map(|row| (row, (number, intent))));
            }
        }
    }
}

impl Inner {
    /// Makes a change durable in the journal, together with what others hand in meanwhile.
    pub(crate) async fn journal(&self, rows: &Rows, change: &Rc<Change>) -> Result<Ticket, BlockError> {
        let journal = &rows.journal;
        let mine = Rc::new(Waiting { change: change.clone(), batch: Cell::new(None) });
        journal.waiting.borrow_mut().push_back(mine.clone());
        loop {
            if let Some(number) = mine.batch.get() {
                return Ok(Ticket(number));
            }
            if !self.serves() {
                return Err(self.failure());
            }
            let may_write = || journal.is_first(&mine) && journal.may_begin();
            if !may_write() {
                let ready = || mine.batch.get().is_some() || may_write() || !self.serves();
                journal.progress.wait_for(|| ready().then_some(())).await;
                continue;
            }
            journal.writing.set(journal.writing.get() + 1);
            let outcome = self.write_batch(rows).await;
            journal.writing.set(journal.writing.get() - 1);
            journal.progress.wake_all();
            outcome?;
        }
    }

    async fn write_batch(&self, rows: &Rows) -> Result<(), BlockError> {
        let journal = &rows.journal;
        let taken = journal.take_waiting();
        if journal.may_begin() {
            // Another one waits longest now, and need not wait for this batch.
            journal.progress.wake_all();
        }
        let frames = self.frames_of(rows, &taken);
        let lens: SmallVec<[(u32, u64); 8]> = frames.iter().map(|(p, _, c)| (*p, c.frame_len())).collect();
        let places = self.wait_for_room(rows, &lens).await?;
        let number = journal.number.get() + 1;
        journal.number.set(number);
        let room = places.iter().map(|(p, taken)| (*p, taken.bytes)).collect();
        journal.live.borrow_mut().push_back(Live { number, left: taken.len(), frames: room });
        taken.iter().for_each(|w| journal.note_rows(number, rows, &w.change));
        let batch = Batch {
            group_id: journal.group_id,
            journal_epoch: journal.epoch.get(),
            number,
            oldest: journal.live.borrow().front().map_or(number, |l| l.number),
            participants: frames.iter().fold(0, |set, (p, ..)| set | 1 << p),
        };
        let mut writes: Operations = SmallVec::new();
        for ((position, drive, contents), (_, taken)) in frames.iter().zip(&places) {
            let frame = encode(&batch, *position, taken.place, contents);
            journal.count(|c| {
                c.frames += 1;
                c.bytes += frame.len() as u64;
            });
            writes.push((*position, drive.write(journal.offset + taken.place, frame.freeze())));
        }
        self.drop_failed(writes).await?;
        let cached = frames.iter().filter(|(_, d, _)| d.info().volatile_cache);
        self.drop_failed(cached.map(|(p, d, _)| (*p, d.flush())).collect()).await?;
        journal.count(|c| c.batches += 1);
        taken.iter().for_each(|w| w.batch.set(Some(number)));
        Ok(())
    }

    /// The frames of a batch: of every drive its own content; intents on as many drives as may be lost and one more, in turn.
    fn frames_of<'a>(
        &self,
        rows: &Rows,
        taken: &'a [Rc<Waiting>],
    ) -> SmallVec<[(u32, Drive, Contents<'a>); 8]> {
        let width = self.members.len() as u32;
        let touched = taken.iter().fold(0, |set, w| set | w.change.logged_positions());
        let intents = || taken.iter().flat_map(|w| &w.change.intents);
        let holders_wanted = if intents().next().is_some() { rows.geometry.parities() + 1 } else { 0 };
        let first = rows.journal.number.get() as u32 % width;
        let mut holders = 0;
        let mut frames = SmallVec::new();
        for position in (0..width).map(|i| (first + i) % width) {
            let Some(drive) = self.members[position as usize].taking_part() else { continue };
            let mut contents = Contents::default();
            if touched & 1 << position != 0 {
                let pieces = taken.iter().flat_map(|w| &w.change.pieces);
                let logged = pieces.filter(|p| !matches!(p.new, New::Unlogged(_)));
                contents.pieces = logged.filter(|p| p.position == position).collect();
            }
            if holders < holders_wanted {
                contents.intents = intents().collect();
                holders += 1;
            }
            if !contents.pieces.is_empty() || !contents.intents.is_empty() {
                frames.push((position, drive, contents));
            }
        }
        frames
    }

    /// Takes room on the rings; where there is none, makes what is in place durable, so that older batches are needed no more.
    async fn wait_for_room(
        &self,
        rows: &Rows,
        lens: &[(u32, u64)],
    ) -> Result<SmallVec<[(u32, Taken); 8]>, BlockError> {
        let journal = &rows.journal;
        loop {
            if let Some(places) = journal.take_room(lens) {
                return Ok(places);
            }
            self.settle_older(rows).await?;
        }
    }

    /// Makes older batches durable in place, whose writers may still be on their way.
    pub(crate) async fn settle_older(&self, rows: &Rows) -> Result<(), BlockError> {
        let journal = &rows.journal;
        let ready = || journal.placed_up_to() > 0 || !self.serves();
        journal.progress.wait_for(|| ready().then_some(())).await;
        self.settle(rows).await
    }

    /// Flushes all drives; then the batches that were in place before are needed no more.
    pub(crate) async fn settle(&self, rows: &Rows) -> Result<(), BlockError> {
        let placed = rows.journal.placed_up_to();
        let flushing = self.begin_flush();
        let takers = (0..).zip(&self.members).filter_map(|(p, m)| m.taking_part().map(|d| (p, d.flush())));
        self.drop_failed(takers.collect()).await?;
        flushing.succeeded();
        rows.journal.retire(placed);
        Ok(())
    }

    /// Waits for all operations. Drives on which one failed are dropped; an error when too few are left.
    pub(crate) async fn drop_failed(&self, operations: Operations) -> Result<(), BlockError> {
        let mut failed: SmallVec<[(u32, DriveError); 2]> = SmallVec::new();
        for (position, io) in operations {
            if let Err(error) = io.await {
                failed.push((position, error));
            }
        }
        for (position, error) in failed {
            self.drop_member(position as usize, &error).await?;
        }
        match self.serves() {
            true => Ok(()),
            false => Err(self.failure()),
        }
    }
}
