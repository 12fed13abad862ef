//! Group commit of the stripe journal: batches are written, and retired.
//!
//! ```text
//!   change ──> waiting ──> batch: a frame on every drive that it touches, flushed ──> the writers go in place ──> placed
//!                                                                                       │ a flush that began after it
//!   the frames' room is free again <── a durable frame of a later batch says so <── retired
//! ```
//!
//! Room is not free before that: if the frame that is written there were torn, a recovery would replay the
//! batches before it, without the one whose frame it replaced. If the rings are full and no later batch can
//! be written, a new epoch of the journal begins: its number on the labels says the same of all batches.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use block::BlockError;
use smallvec::SmallVec;
use world::{Data, Drive, DriveError, Io};

use super::batches::{Live, Ticket, Waiting};
use super::frame::{Batch, Contents, encode};
use super::ring::Taken;
use crate::inner::Inner;
use crate::stripe::Rows;
use crate::stripe::change::{Change, New};
use crate::stripe::rows::Operations;

/// Pause before a write that found no room below its drive is tried again.
const ROOM_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// A write in flight: its index, and the position of its drive.
type Begun = (usize, u32, Io<Result<(), DriveError>>);

/// Operations that failed, with the position of their drives.
type Failed = SmallVec<[(u32, DriveError); 2]>;

impl Inner {
    /// Makes a change durable in the journal, together with the changes of other writers.
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
            // A batch that leaves a dropped drive out must not be found together with labels that count it
            // in.
            if self.labelled.get().0 != self.epoch.get() {
                self.relabel().await?;
                continue;
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
            // Another change is the oldest now, and need not wait for this batch.
            journal.progress.wake_all();
        }
        let frames = self.frames_of(rows, &taken);
        let lens: SmallVec<[(u32, u64); 8]> = frames.iter().map(|(p, _, c)| (*p, c.frame_len())).collect();
        let places = self.wait_for_room(rows, &lens).await?;
        let number = journal.number.get() + 1;
        journal.number.set(number);
        let room = places.iter().map(|(p, taken)| (*p, taken.bytes)).collect();
        journal.live.borrow_mut().push_back(Live { number, left: taken.len(), frames: room });
        taken.iter().for_each(|w| journal.note_rows(number, rows.unit(), &w.change));
        let batch = Batch {
            group_id: journal.group_id,
            journal_epoch: journal.epoch.get(),
            number,
            oldest: journal.live.borrow().front().map_or(number, |l| l.number),
            participants: frames.iter().fold(0, |set, (p, ..)| set | 1 << p),
        };
        let mut writes: SmallVec<[(u32, u64, Data); 8]> = SmallVec::new();
        for ((position, _, contents), (_, taken)) in frames.iter().zip(&places) {
            let frame = encode(&batch, *position, taken.place, contents);
            journal.count(|c| {
                c.frames += 1;
                c.bytes += frame.len() as u64;
            });
            writes.push((*position, journal.offset + taken.place, frame.freeze()));
        }
        self.carry_out(&writes, |(position, at, frame)| {
            let drive = self.members[*position as usize].taking_part()?;
            Some((*position, drive.write(*at, frame.clone())))
        })
        .await?;
        let cached = frames.iter().filter(|(_, d, _)| d.info().volatile_cache);
        self.drop_failed(cached.map(|(p, d, _)| (*p, d.flush())).collect()).await?;
        journal.count(|c| c.batches += 1);
        journal.said(batch.oldest);
        taken.iter().for_each(|w| w.batch.set(Some(number)));
        Ok(())
    }

    /// The frames of a batch: on every drive its own content; intents on as many drives as may be lost plus
    /// one, in turn.
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

    /// Reserves room on the rings. If there is none, makes data in place durable, so that older batches are
    /// no longer needed, and begins a new epoch.
    async fn wait_for_room(
        &self,
        rows: &Rows,
        lens: &[(u32, u64)],
    ) -> Result<SmallVec<[(u32, Taken); 8]>, BlockError> {
        let journal = &rows.journal;
        loop {
            if journal.renewing.get() {
                if !self.serves() {
                    return Err(self.failure());
                }
                let ready = || !journal.renewing.get() || !self.serves();
                journal.progress.wait_for(|| ready().then_some(())).await;
            } else if let Some(places) = journal.take_room(lens) {
                return Ok(places);
            } else if journal.has_retired() {
                self.renew(rows).await?;
            } else {
                self.settle_older(rows).await?;
            }
        }
    }

    /// Begins a new epoch of the journal, in which all rings are empty. Until the labels have it, no batch is
    /// written: after an error the group does not serve, and none is.
    async fn renew(&self, rows: &Rows) -> Result<(), BlockError> {
        let journal = &rows.journal;
        journal.renewing.set(true);
        while !journal.live.borrow().is_empty() {
            self.settle_older(rows).await?;
        }
        journal.begin_epoch();
        self.label_changed();
        self.relabel().await?;
        journal.renewing.set(false);
        journal.progress.wake_all();
        Ok(())
    }

    /// Makes older batches durable in place, while their writers may still be writing.
    pub(crate) async fn settle_older(&self, rows: &Rows) -> Result<(), BlockError> {
        let journal = &rows.journal;
        let ready = || journal.placed_up_to() > 0 || !self.serves();
        journal.progress.wait_for(|| ready().then_some(())).await;
        self.settle(rows).await
    }

    /// Flushes all drives and then retires the batches that were in place before.
    pub(crate) async fn settle(&self, rows: &Rows) -> Result<(), BlockError> {
        let placed = rows.journal.placed_up_to();
        let flushing = self.begin_flush();
        let takers = (0..).zip(&self.members).filter_map(|(p, m)| m.taking_part().map(|d| (p, d.flush())));
        self.drop_failed(takers.collect()).await?;
        flushing.succeeded();
        rows.journal.retire(placed);
        Ok(())
    }

    /// Carries out the writes of a change that must not stay half done. Those that find no room below their
    /// drives are tried again until they do: if drives were dropped for that, all on the same full file
    /// system would be. Callers get the error meanwhile, and the group accepts no other change. Drives that
    /// fail otherwise are dropped; an error if too few are left.
    pub(crate) async fn carry_out<T>(
        &self,
        writes: &[T],
        submit: impl Fn(&T) -> Option<(u32, Io<Result<(), DriveError>>)>,
    ) -> Result<(), BlockError> {
        let begin = |(i, write)| submit(write).map(|(position, io)| (i, position, io));
        let mut begun: SmallVec<[Begun; 8]> = writes.iter().enumerate().filter_map(begin).collect();
        loop {
            let mut without_room: SmallVec<[usize; 8]> = SmallVec::new();
            let (mut failed, mut full): (Failed, Option<DriveError>) = (SmallVec::new(), None);
            for (i, position, io) in begun {
                match io.await {
                    Ok(()) => {}
                    Err(error @ DriveError::NoRoom { .. }) => {
                        without_room.push(i);
                        full = Some(error);
                    }
                    Err(error) => failed.push((position, error)),
                }
            }
            self.drop_all(failed).await?;
            let Some(error) = full else { return Ok(()) };
            self.overdue.tell(error);
            self.world.sleep(ROOM_AGAIN_AFTER).await;
            begun = without_room.iter().map(|i| (*i, &writes[*i])).filter_map(begin).collect();
        }
    }

    /// Waits for all operations. Drives that failed are dropped; an error if too few are left.
    pub(crate) async fn drop_failed(&self, operations: Operations) -> Result<(), BlockError> {
        self.drop_all(await_failed(operations).await).await
    }

    /// Drops drives that failed; an error if too few are left.
    pub(crate) async fn drop_all(&self, failed: Failed) -> Result<(), BlockError> {
        for (position, error) in failed {
            self.drop_member(position as usize, &error).await?;
        }
        match self.serves() {
            true => Ok(()),
            false => Err(self.failure()),
        }
    }
}

/// Waits for all operations; those that failed.
pub(crate) async fn await_failed(operations: Operations) -> Failed {
    let mut failed = Failed::new();
    for (position, io) in operations {
        if let Err(error) = io.await {
            failed.push((position, error));
        }
    }
    failed
}
