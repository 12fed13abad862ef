//! The journal at work: records are gathered, committed together, and retired.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use block::{BlockError, Device, Pieces};
use futures::future::join_all;
use world::World;
use world::sync::Signal;

use super::batch::{Entry, Gathering, Kind, Place, Stamp};
use super::header::Header;
use super::regions::Regions;
use super::{RING_START, batch};

/// Limit of batches of one commit: they are written at once, and one flush makes all of them durable.
pub(crate) const COMMIT_BATCHES: usize = 4;
/// Bytes of uncommitted records at which writers wait.
const GATHERED_BYTES_MAX: u64 = 16 << 20;

/// Counters of a journal since it was opened, and its fill level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct JournalCounts {
    /// Appended records.
    pub records: u64,
    /// Batches written.
    pub batches: u64,
    /// Commits: one flush each.
    pub commits: u64,
    /// Bytes of the batches.
    pub bytes: u64,
    /// Bytes of the ring that a replay would read.
    pub live_bytes: u64,
    pub ring_bytes: u64,
}

/// A batch that a replay would read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Live {
    pub(crate) place: Place,
    pub(crate) first_sequence: u64,
    pub(crate) last_sequence: u64,
}

/// A journal: a handle, cheap to clone.
pub struct Journal<J: Device + Clone + 'static>(pub(crate) Rc<Inner<J>>);

pub(crate) struct Inner<J> {
    pub(crate) world: World,
    pub(crate) device: J,
    /// As it was last written.
    pub(crate) header: Cell<Header>,
    gathering: RefCell<VecDeque<Gathering>>,
    gathered_bytes: Cell<u64>,
    pub(crate) next_sequence: Cell<u64>,
    pub(crate) durable: Cell<u64>,
    pub(crate) live: RefCell<VecDeque<Live>>,
    /// The place of the next batch, unless it would pass the end of the ring.
    pub(crate) head: Cell<Place>,
    /// The last retired record.
    retired: Cell<u64>,
    /// The last record that no replay reads any more, according to the header on the device.
    pub(crate) passed: Cell<u64>,
    pub(crate) regions: RefCell<Regions>,
    committing: Cell<bool>,
    progress: Signal,
    failure: RefCell<Option<BlockError>>,
    /// The current reason why the device accepts no commit, or there is no room for one.
    stalled: RefCell<Option<BlockError>>,
    /// Whether a commit waits for room.
    is_full: Cell<bool>,
    counts: Cell<JournalCounts>,
}

impl<J: Device + Clone + 'static> Clone for Journal<J> {
    fn clone(&self) -> Self {
        Journal(self.0.clone())
    }
}

impl<J: Device + Clone + 'static> Inner<J> {
    pub(crate) fn new(world: World, device: J, header: Header) -> Inner<J> {
        Inner {
            world,
            device,
            header: Cell::new(header),
            gathering: RefCell::default(),
            gathered_bytes: Cell::new(0),
            next_sequence: Cell::new(header.sequence),
            durable: Cell::new(header.sequence - 1),
            live: RefCell::default(),
            head: Cell::new(header.tail),
            retired: Cell::new(header.sequence - 1),
            passed: Cell::new(header.sequence - 1),
            regions: RefCell::default(),
            committing: Cell::new(false),
            progress: Signal::default(),
            failure: RefCell::default(),
            stalled: RefCell::default(),
            is_full: Cell::new(false),
            counts: Cell::default(),
        }
    }
}

impl<J: Device + Clone + 'static> Journal<J> {
    /// Whether both are the same journal.
    pub fn is_same(&self, other: &Journal<J>) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// What it lies on.
    pub fn device(&self) -> &J {
        &self.0.device
    }

    /// The identity given at its creation.
    pub fn id(&self) -> [u8; 16] {
        self.0.header.get().id
    }

    /// How often it was opened, its creation included.
    pub fn epoch(&self) -> u64 {
        self.0.header.get().epoch
    }

    /// The number that the next record gets; the first one of a journal is 1.
    pub fn next_sequence(&self) -> u64 {
        self.0.next_sequence.get()
    }

    /// Waits while too many records are uncommitted. (A failed journal has room: its records get the error.)
    /// Returns whether it waited, or an error while the device accepts no commit.
    pub async fn room(&self) -> Result<bool, BlockError> {
        let inner = &self.0;
        let ready = || {
            if inner.gathered_bytes.get() < GATHERED_BYTES_MAX || inner.failure.borrow().is_some() {
                return Some(Ok(()));
            }
            inner.stalled.borrow().clone().map(Err)
        };
        match ready() {
            Some(ready) => ready.map(|()| false),
            None => inner.progress.wait_for(ready).await.map(|()| true),
        }
    }

    /// Queues a record with new content of a range, shorter than 1 MiB. Returns its number; see
    /// [`Journal::durable`].
    pub fn append_write(&self, unit: u64, at: u64, data: &Pieces) -> u64 {
        let len = data.len() as u64;
        let sequence = self.append(Entry { unit, at, len, kind: Kind::Write }, data);
        self.0.regions.borrow_mut().note(unit, at..at + len, sequence);
        sequence
    }

    /// Queues a *Forget* record: earlier records of the range are void.
    pub fn append_forget(&self, unit: u64, at: u64, len: u64) -> u64 {
        self.0.regions.borrow_mut().forget(unit, at..at + len);
        self.append(Entry { unit, at, len, kind: Kind::Forget }, &Pieces::new())
    }

    fn append(&self, entry: Entry, data: &Pieces) -> u64 {
        let inner = &self.0;
        let sequence = inner.next_sequence.get();
        inner.next_sequence.set(sequence + 1);
        if inner.failure.borrow().is_some() {
            return sequence;
        }
        let mut gathering = inner.gathering.borrow_mut();
        if gathering.back().is_none_or(|b| !b.takes(&entry)) {
            gathering.push_back(Gathering::new(sequence));
        }
        gathering.back_mut().expect("there is one now").push(entry, data);
        drop(gathering);
        inner.gathered_bytes.set(inner.gathered_bytes.get() + data.len() as u64);
        inner.count(|c| c.records += 1);
        if !inner.committing.replace(true) {
            inner.world.spawn(commit_task(inner.clone()));
        }
        sequence
    }

    /// Waits until all records up to this one are durable.
    ///
    /// # Errors
    ///
    /// The journal's device failed; records up to here may or may not survive a crash.
    pub async fn durable(&self, sequence: u64) -> Result<(), BlockError> {
        let inner = &self.0;
        let ended = || {
            if inner.durable.get() >= sequence {
                return Some(Ok(()));
            }
            let failed = inner.failure.borrow().clone();
            failed.or_else(|| inner.stalled.borrow().clone()).map(Err)
        };
        inner.progress.wait_for(ended).await
    }

    /// Whether a replay could read a record of the range; may return true without one.
    pub fn holds(&self, unit: u64, range: Range<u64>) -> bool {
        self.0.regions.borrow().hold(unit, &range, self.0.passed.get())
    }

    /// Whether the ring fills up, so that its records should be destaged.
    pub fn presses(&self) -> bool {
        let inner = &self.0;
        let used = inner.head.get().position - inner.tail().position + inner.gathered_bytes.get();
        used > inner.header.get().ring_len / 4 * 3
    }

    /// Retires all records up to this one: their content is destaged and durable.
    pub fn retire(&self, up_to: u64) {
        let inner = &self.0;
        inner.retired.set(inner.retired.get().max(up_to));
        inner.drop_retired();
        inner.progress.wake_all();
    }

    /// Records cannot be destaged, for this reason. If the ring is full, waiters get it until there is room.
    pub fn gets_no_room(&self, cause: BlockError) {
        let inner = &self.0;
        if inner.is_full.get() {
            *inner.stalled.borrow_mut() = Some(cause);
            inner.progress.wake_all();
        }
    }

    /// Records in the header that nothing is needed before the oldest record that is not retired. Call it
    /// after the last use of the journal, when everything is retired; omitting it loses nothing.
    pub async fn close(&self) -> Result<(), BlockError> {
        let inner = &self.0;
        let idle = || (!inner.committing.get()).then_some(());
        inner.progress.wait_for(idle).await;
        if let Some(failure) = inner.failure.borrow().clone() {
            return Err(failure);
        }
        inner.drop_retired();
        inner.write_header(inner.tail()).await
    }

    /// Why it takes no records any more: its device failed.
    pub fn failure(&self) -> Option<BlockError> {
        self.0.failure.borrow().clone()
    }

    /// Counters.
    pub fn counts(&self) -> JournalCounts {
        let inner = &self.0;
        JournalCounts {
            live_bytes: inner.head.get().position - inner.tail().position,
            ring_bytes: inner.header.get().ring_len,
            ..inner.counts.get()
        }
    }
}

async fn commit_task<J: Device + Clone + 'static>(inner: Rc<Inner<J>>) {
    while !inner.gathering.borrow().is_empty() {
        if let Err(error) = inner.commit().await {
            let failure =
                BlockError::Poisoned { component: "the journal".to_owned(), cause: (&error).into() };
            *inner.failure.borrow_mut() = Some(failure);
            inner.gathering.borrow_mut().clear();
        }
        inner.progress.wake_all();
    }
    inner.committing.set(false);
    inner.progress.wake_all();
}

impl<J: Device + Clone + 'static> Inner<J> {
    fn count(&self, change: impl FnOnce(&mut JournalCounts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    /// The oldest batch that is needed.
    fn tail(&self) -> Place {
        self.live.borrow().front().map_or(self.head.get(), |l| l.place)
    }

    /// The number of the first record that is needed.
    fn tail_sequence(&self, otherwise: u64) -> u64 {
        self.live.borrow().front().map_or(otherwise, |l| l.first_sequence)
    }

    fn drop_retired(&self) {
        let up_to = self.retired.get().min(self.durable.get());
        let mut live = self.live.borrow_mut();
        while live.front().is_some_and(|l| l.last_sequence <= up_to) {
            live.pop_front();
        }
    }

    /// The place of a batch of this length; `None` while the ring is full.
    fn room_for(&self, len: u64) -> Option<u64> {
        let (head, ring) = (self.head.get().position, self.header.get().ring_len);
        let position = if head % ring + len > ring { head.next_multiple_of(ring) } else { head };
        let tail = self.live.borrow().front().map_or(position, |l| l.place.position);
        (position + len - tail <= ring).then_some(position)
    }

    /// Writes the oldest gathered batches and flushes the device.
    async fn commit(&self) -> Result<(), BlockError> {
        let mut writes = Vec::new();
        let mut last = Live { place: Place::default(), first_sequence: 0, last_sequence: 0 };
        let mut tail_sequence = 0;
        let commit = self.head.get().number;
        while writes.len() < COMMIT_BATCHES {
            let Some(len) = self.gathering.borrow().front().map(Gathering::len) else { break };
            let Some(position) = self.room_for(len) else {
                if writes.is_empty() {
                    self.is_full.set(true);
                    self.progress.wait_for(|| self.room_for(len).map(drop)).await;
                    self.is_full.set(false);
                    *self.stalled.borrow_mut() = None;
                    continue;
                }
                break;
            };
            let batch = self.gathering.borrow_mut().pop_front().expect("there is a front");
            // The batch may have grown while the ring was full.
            if batch.len() != len && self.room_for(batch.len()) != Some(position) {
                self.gathering.borrow_mut().push_front(batch);
                continue;
            }
            let place = Place { number: self.head.get().number, position };
            let (end, first) = (position + batch.len(), batch.first_sequence);
            last = Live { place, first_sequence: first, last_sequence: batch.last_sequence() };
            self.live.borrow_mut().push_back(last);
            self.head.set(Place { number: place.number + 1, position: end });
            self.gathered_bytes.set(self.gathered_bytes.get() - batch.payload_bytes());
            self.keep_header_within(end).await?;
            tail_sequence = self.tail_sequence(first);
            let header = self.header.get();
            let (id, epoch, tail) = (header.id, header.epoch, self.tail());
            let stamp = Stamp { id, epoch, place, tail, first_sequence: first, commit };
            let data = Pieces::from(batch.encode(&stamp).freeze());
            self.count(|c| {
                c.batches += 1;
                c.bytes += data.len() as u64;
            });
            let at = RING_START + position % header.ring_len;
            writes.push((at, data));
        }
        self.persistently(async || {
            let writes = writes.iter().map(|(at, data)| self.device.write(*at, data));
            join_all(writes).await.into_iter().collect::<Result<(), _>>()?;
            self.device.flush().await
        })
        .await?;
        self.count(|c| c.commits += 1);
        self.durable.set(last.last_sequence);
        self.pass(tail_sequence - 1);
        self.drop_retired();
        Ok(())
    }

    /// Retries I/O of the journal until it succeeds, or fails permanently. Meanwhile waiters get the error.
    async fn persistently(
        &self,
        attempt: impl AsyncFn() -> Result<(), BlockError>,
    ) -> Result<(), BlockError> {
        block::persistently(&self.world, attempt, |stalled| {
            let is_stalled = stalled.is_some();
            *self.stalled.borrow_mut() = stalled;
            if is_stalled {
                self.progress.wake_all();
            }
        })
        .await
    }

    /// No replay reads records up to this one any more.
    fn pass(&self, sequence: u64) {
        if sequence > self.passed.get() {
            self.passed.set(sequence);
            self.regions.borrow_mut().retire(sequence);
        }
    }

    /// A replay begins where the header says: that place must not be overwritten.
    async fn keep_header_within(&self, end: u64) -> Result<(), BlockError> {
        let header = self.header.get();
        let (behind, tail) = (end - header.tail.position, self.tail());
        if behind > header.ring_len / 2 && tail.number > header.tail.number {
            self.write_header(tail).await?;
        }
        Ok(())
    }

    async fn write_header(&self, tail: Place) -> Result<(), BlockError> {
        let sequence = self.tail_sequence(self.next_sequence.get());
        let header = Header { turn: self.header.get().turn + 1, tail, sequence, ..self.header.get() };
        let bytes = Pieces::from(header.encode().freeze());
        self.persistently(async || {
            self.device.write(header.at(), &bytes).await?;
            self.device.flush().await
        })
        .await?;
        // Until both copies agree, a replay may begin at the place in the older one.
        let sequence = self.header.get().sequence;
        self.header.set(header);
        self.pass(sequence - 1);
        Ok(())
    }
}

const _: () = assert!(batch::BATCH_LEN_MAX as u64 * COMMIT_BATCHES as u64 <= GATHERED_BYTES_MAX);
