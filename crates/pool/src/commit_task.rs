//! Group commit: makes changes durable, for everybody who waits.
//!
//! ```text
//!   log ──> pending        commit task:  take pending and releases
//!   flush ─┐                             flush the groups              data before the map that shows it
//!   flush ─┼─> asked for ──────────────> append a frame, flush         the commit point
//!   timer ─┘                             releases become free pages    only now may they be written
//!                                        wake those who wait
//! ```
//!
//! Commits are numbered; a change belongs to the next commit that starts. While one runs, new requests share
//! the next. When the journal half is half full, the commit is the last one in it, and a checkpoint of that
//! state is written in the background. A change of the set of groups is a checkpoint, too: the next commit is
//! then the last one in its half.

use std::rc::Rc;
use std::time::Duration;

use block::{BlockError, Device, Pieces};
use futures::future::join_all;

use crate::area::Area;
use crate::inner::Inner;
use crate::journal::{Frame, encode, frame_len};

/// A change becomes durable after this time without a request, so that little is pending and released space
/// becomes free.
const PENDING_TIME_MAX: Duration = Duration::from_secs(1);

/// Commits on request, until the pool is dropped.
pub(crate) fn spawn_commit_task(inner: &Rc<Inner>) {
    let (weak, commit) = (Rc::downgrade(inner), inner.commit.clone());
    inner.world.spawn(async move {
        loop {
            let go = || match (commit.closed.get(), commit.wanted.get() > commit.started.get()) {
                (true, _) => Some(false),
                (false, wanted) => wanted.then_some(true),
            };
            let wanted = commit.request.wait_for(go).await;
            let Some(inner) = wanted.then(|| weak.upgrade()).flatten() else { return };
            if let Err(error) = inner.run_commit().await {
                inner.poison(&error);
                return;
            }
        }
    });
}

impl Inner {
    /// Makes all earlier changes durable.
    pub(crate) async fn commit(&self) -> Result<(), BlockError> {
        self.alive()?;
        let number = self.commit.next();
        self.commit.ask_for(number);
        self.commit
            .progress
            .wait_for(|| (self.commit.done() >= number || self.goes_on().is_err()).then_some(()))
            .await;
        if self.commit.done() >= number { Ok(()) } else { self.goes_on() }
    }

    /// Makes everything durable that completed earlier: data, and changes if there are any.
    pub(crate) async fn flush(&self) -> Result<(), BlockError> {
        self.alive()?;
        if self.pending.borrow().len() > 0 || self.commit.is_running() {
            return self.commit().await;
        }
        let outcome = self.flush_areas().await;
        if let Err(error) = &outcome
            && !error.may_pass()
        {
            self.poison(error);
        }
        outcome
    }

    /// Waits until a change may be logged. The caller logs it without an await in between.
    pub(crate) async fn room(&self) -> Result<(), BlockError> {
        let full = || self.pending.borrow().len() >= self.layout.pending_max();
        self.alive()?;
        if full() {
            self.commit.ask_for(self.commit.next());
            self.commit.progress.wait_for(|| (!full() || self.goes_on().is_err()).then_some(())).await;
            if full() {
                self.goes_on()?;
            }
        }
        self.alive()
    }

    /// Repeats metadata I/O until it succeeds, or fails permanently. Meanwhile those who wait for it get the
    /// error.
    pub(crate) async fn persistently<T>(
        &self,
        attempt: impl AsyncFn() -> Result<T, BlockError>,
    ) -> Result<T, BlockError> {
        block::persistently(&self.world, attempt, |stalled| {
            let is_stalled = stalled.is_some();
            *self.stalled.borrow_mut() = stalled;
            if is_stalled {
                self.commit.wake_everybody();
                self.freed.wake_all();
            }
        })
        .await
    }

    /// Requests a commit within a second.
    pub(crate) fn commit_before_long(self: &Rc<Self>) {
        if self.commit.timer_runs.replace(true) {
            return;
        }
        let weak = Rc::downgrade(self);
        let sleep = self.world.sleep(PENDING_TIME_MAX);
        self.world.spawn(async move {
            sleep.await;
            let Some(inner) = weak.upgrade() else { return };
            inner.commit.timer_runs.set(false);
            if inner.pending.borrow().len() > 0 {
                inner.commit.ask_for(inner.commit.next());
            }
        });
    }

    async fn flush_areas(&self) -> Result<(), BlockError> {
        let areas = self.areas();
        match areas.as_slice() {
            [one] => one.flush().await,
            areas => join_all(areas.iter().map(|a| a.flush())).await.into_iter().collect(),
        }
    }

    async fn run_commit(self: &Rc<Self>) -> Result<(), BlockError> {
        let journal = &self.journal;
        let left = || self.layout.journal_half - journal.offset.get();
        let enough = || !journal.checkpoint_runs.get() || left() >= 2 * self.layout.frame_max();
        self.commit.progress.wait_for(|| (enough() || self.alive().is_err()).then_some(())).await;
        self.alive()?;
        let number = self.commit.next();
        self.commit.started.set(number);
        let records = self.pending.borrow_mut().take();
        let released = self.space.borrow_mut().take_releasing();
        // Writers that waited for room continue.
        self.commit.progress.wake_all();
        let len = frame_len(records.len());
        // Also without records: the snapshot belongs to this commit.
        let change = if journal.checkpoint_runs.get() { None } else { self.structure.take() };
        let full = !records.is_empty() && left().saturating_sub(len) < self.layout.journal_half / 2;
        let ends = journal.ends.get() && (journal.offset.get() > 0 || !records.is_empty());
        let last = !journal.checkpoint_runs.get() && (full || ends || change.is_some());
        let snapshot = last.then(|| self.catalog());
        self.persistently(async || self.flush_areas().await).await?;
        if !records.is_empty() || last {
            assert!(len <= left(), "a frame of {len} bytes for {} that are left", left());
            self.append(&records, last).await?;
        }
        self.commit.done.set(number);
        self.space.borrow_mut().released(&released);
        self.freed.wake_all();
        self.count(|c| c.commits += 1);
        if let Some(catalog) = snapshot {
            self.spawn_checkpoint_task(catalog, change);
        }
        self.commit.progress.wake_all();
        Ok(())
    }

    async fn append(&self, records: &[u8], last: bool) -> Result<(), BlockError> {
        let journal = &self.journal;
        let (generation, sequence) = (journal.generation.get(), journal.sequence.get() + 1);
        let buf = encode(self.id, Frame { generation, sequence, last }, records);
        let len = buf.len() as u64;
        let at = self.layout.journal_at(generation) + journal.offset.get();
        let holders = self.journal_areas();
        let frame = Pieces::from(buf.freeze());
        // A partly written frame is written again, identical and in the same position.
        self.persistently(async || {
            write_all(&holders, at, &frame).await?;
            flush_all(&holders).await
        })
        .await?;
        self.count(|c| c.journal_bytes += len);
        journal.sequence.set(sequence);
        journal.offset.set(journal.offset.get() + len);
        if last {
            journal.generation.set(generation + 1);
            journal.offset.set(0);
            journal.checkpoint_runs.set(true);
        }
        Ok(())
    }
}

/// Writes the same bytes to several groups.
pub(crate) async fn write_all(areas: &[Rc<Area>], at: u64, data: &Pieces) -> Result<(), BlockError> {
    join_all(areas.iter().map(|a| a.group.write(at, data))).await.into_iter().collect()
}

/// Flushes groups to which metadata was written.
pub(crate) async fn flush_all(areas: &[Rc<Area>]) -> Result<(), BlockError> {
    join_all(areas.iter().map(|a| a.group.flush())).await.into_iter().collect()
}
