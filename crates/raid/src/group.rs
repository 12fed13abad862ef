//! The handle of a group: its properties, and its block device.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockError, Device, Geometry, Pieces};
use futures::future::{Either, select};
use world::{Drive, DriveError, Kind, LatencyCounts, OpenSpan, Trace};

use crate::contents::KnownContents;
use crate::events::GroupEvent;
use crate::inner::{Inner, Layout};
use crate::status::{GroupStatus, Progress};
use crate::stripe::JournalCounts;
use crate::{GroupId, Level};

/// How long a close waits for what is in flight.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// A RAID group: a handle, cheap to clone.
#[derive(Clone)]
pub struct Group(pub(crate) Rc<Inner>);

impl Group {
    pub(crate) fn of(inner: Inner) -> Group {
        let inner = Rc::new(inner);
        for (m, member) in inner.members.iter().enumerate() {
            if let Some(drive) = &*member.drive.borrow() {
                drive.ask_before_giving_up(asked(&inner, m));
            }
        }
        Group(inner)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its identity.
    pub fn id(&self) -> GroupId {
        self.0.id
    }

    /// Its level.
    pub fn level(&self) -> Level {
        self.0.level
    }

    /// The active drives.
    pub fn drives(&self) -> Vec<Drive> {
        self.0.members.iter().filter_map(|m| m.active()).collect()
    }

    /// Whether zeroing is cheap on all drives.
    pub fn cheap_zero(&self) -> bool {
        self.0.cheap_zero()
    }

    /// Bytes of data in a row (levels 5 and 6): full stripes are written without reads. On other levels the
    /// size of a block, because larger writes gain nothing.
    pub fn row_bytes(&self) -> u64 {
        match &self.0.layout {
            Layout::Rows(rows) => rows.geometry.row_bytes(),
            Layout::Sets(_) => self.0.geometry.block_bytes.into(),
        }
    }

    /// Data drives of a row (levels 5 and 6); 1 on other levels, where no partial write has to read.
    pub fn row_drives(&self) -> u32 {
        match &self.0.layout {
            Layout::Rows(rows) => rows.geometry.data_units(),
            Layout::Sets(_) => 1,
        }
    }

    /// Status snapshot: state, drives and counters.
    pub fn status(&self) -> GroupStatus {
        let inner = &self.0;
        let width = inner.members.len() as u32;
        let rebuild = inner.rebuilding.get().map(|(position, done_bytes)| Progress {
            position: Some(position),
            done_bytes,
            total_bytes: inner.data_len,
        });
        GroupStatus {
            name: inner.name.clone(),
            id: inner.id,
            level: inner.level,
            stripe_unit_bytes: inner.stripe_unit_bytes,
            state: inner.state(),
            tolerates: inner.level.tolerates_beside(inner.active_set(), width),
            len_bytes: inner.geometry.len_bytes,
            epoch: inner.epoch.get(),
            reads_pinned: inner.pinned.get(),
            repairs: inner.repairs.get(),
            lost_ranges: inner.lost.count(),
            differing_blocks: inner.differing.get(),
            journal: match &inner.layout {
                Layout::Rows(rows) => rows.journal.counts(),
                Layout::Sets(_) => JournalCounts::default(),
            },
            rebuild,
            scrub: inner.scrub_progress.get(),
            members: (0..).zip(&inner.members).map(|(position, m)| m.status(position)).collect(),
        }
    }

    /// The latencies of reads and writes since the group was opened, of one operation in sixteen.
    pub fn latencies(&self) -> (LatencyCounts, LatencyCounts) {
        self.0.stage.counts()
    }

    /// Sets the source of knowledge about contents. Without it, everything counts as in use.
    pub fn know_contents(&self, known: KnownContents) {
        *self.0.contents.borrow_mut() = Some(known);
    }

    /// The next event. For one listener.
    pub async fn next_event(&self) -> GroupEvent {
        self.0.events.next().await
    }

    /// Closes the group: flushes, and labels the mirrors as equal and the journal as empty, so that the next
    /// start has nothing to recover. Waits for what is in flight; no write may follow.
    ///
    /// # Errors
    ///
    /// A drive failed, or I/O is still in flight after some seconds; the next start then resynchronises or
    /// replays.
    pub async fn close(&self) -> Result<(), BlockError> {
        let inner = &self.0;
        let held = pin!(inner.locks.exclusive(0..inner.geometry.len_bytes));
        let Either::Left((_held, _)) = select(held, inner.world.sleep(CLOSE_WAIT)).await else {
            let cause = format!("group {}: not closed, because I/O is still in flight", inner.name);
            return Err(BlockError::Failed { cause: cause.into() });
        };
        self.flush().await?;
        let mut changed = false;
        if inner.mirrored() && !inner.pinned.get() && inner.may_differ.replace(false) {
            inner.marked.set(false);
            changed = true;
        }
        if let Layout::Rows(rows) = &inner.layout {
            changed |= rows.journal.begin_epoch();
        }
        if changed {
            inner.label_changed();
        }
        inner.relabel().await
    }

    /// Drops a drive, as if it had been pulled.
    pub async fn fail_drive(&self, position: u32) -> Result<(), BlockError> {
        self.fail(position, "removed from service by an administrator").await
    }

    /// Drops a drive that is gone.
    pub async fn fail(&self, position: u32, cause: &str) -> Result<(), BlockError> {
        let Some(drive) = self.0.members.get(position as usize).and_then(|m| m.taking_part()) else {
            return Ok(());
        };
        let error = DriveError::Gone { drive: drive.info().name.clone(), cause: cause.to_owned() };
        self.drop_drive(position, &error).await
    }

    /// Drops a drive that failed a probe. An unresponsive drive stays if the group cannot do without it.
    pub async fn drop_drive(&self, position: u32, error: &DriveError) -> Result<(), BlockError> {
        match self.0.members.get(position as usize).and_then(|m| m.taking_part()) {
            Some(_) => self.0.drop_member(position as usize, error).await,
            None => Ok(()),
        }
    }
}

/// Asked by the drive at a position before it abandons operations. If the answer is no, the group's callers
/// stop waiting for it instead.
pub(crate) fn asked(inner: &Rc<Inner>, m: usize) -> Rc<dyn Fn() -> bool> {
    let inner = Rc::downgrade(inner);
    Rc::new(move || {
        let Some(inner) = inner.upgrade() else { return true };
        let may = inner.may_give_up(m);
        if !may && let Some(drive) = &*inner.members[m].drive.borrow() {
            inner.overdue.tell(drive.silent());
        }
        may
    })
}

impl Device for Group {
    fn geometry(&self) -> Geometry {
        self.0.geometry
    }

    fn read(&self, at: u64, len: usize, out: &mut Pieces) -> impl Future<Output = Result<(), BlockError>> {
        self.read_traced(None, at, len, out)
    }

    fn write(&self, at: u64, data: &Pieces) -> impl Future<Output = Result<(), BlockError>> {
        self.write_traced(None, at, data)
    }

    async fn read_traced(
        &self,
        trace: Option<&Trace>,
        at: u64,
        len: usize,
        out: &mut Pieces,
    ) -> Result<(), BlockError> {
        let inner = &self.0;
        inner.check(at, len as u64)?;
        if len == 0 {
            return Ok(());
        }
        inner.count_foreground();
        if let Some(lost) = inner.lost.first_in(at, len as u64) {
            return Err(inner.lost_error(lost));
        }
        let span = OpenSpan::begin(trace, "raid", &inner.name);
        let began = inner.stage.begin(|| inner.world.now());
        let result = match &inner.layout {
            Layout::Sets(sets) => inner.sets_read(sets, span.trace(), at, len, out).await,
            Layout::Rows(rows) => inner.rows_read(rows, span.trace(), at, len, out).await,
        };
        inner.stage.end(began, || inner.world.now(), Kind::Read);
        result
    }

    async fn write_traced(&self, trace: Option<&Trace>, at: u64, data: &Pieces) -> Result<(), BlockError> {
        let inner = &self.0;
        inner.check(at, data.len() as u64)?;
        if data.is_empty() {
            return Ok(());
        }
        inner.count_foreground();
        let span = OpenSpan::begin(trace, "raid", &inner.name);
        let began = inner.stage.begin(|| inner.world.now());
        match &inner.layout {
            Layout::Sets(sets) => inner.sets_write(sets, span.trace(), at, data).await?,
            Layout::Rows(rows) => {
                let (own, rows, data, trace) =
                    (inner.clone(), rows.clone(), data.clone(), span.trace().cloned());
                inner
                    .overdue
                    .in_time(
                        &inner.world,
                        async move { own.rows_write(&rows, trace.as_ref(), at, &data).await },
                    )
                    .await?;
            }
        }
        inner.stage.end(began, || inner.world.now(), Kind::Write);
        inner.found_again(at, data.len() as u64);
        Ok(())
    }

    async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        let inner = &self.0;
        inner.check(at, len)?;
        if len == 0 {
            return Ok(());
        }
        inner.count_foreground();
        match &inner.layout {
            Layout::Sets(sets) => inner.sets_zero(sets, at, len).await?,
            Layout::Rows(rows) => {
                let (own, rows) = (inner.clone(), rows.clone());
                inner
                    .overdue
                    .in_time(&inner.world, async move { own.rows_zero(&rows, at, len).await })
                    .await?;
            }
        }
        inner.found_again(at, len);
        Ok(())
    }

    async fn flush(&self) -> Result<(), BlockError> {
        let inner = &self.0;
        match &inner.layout {
            Layout::Sets(_) => inner.sets_flush().await,
            Layout::Rows(rows) => {
                let (own, rows) = (inner.clone(), rows.clone());
                inner.overdue.in_time(&inner.world, async move { own.rows_flush(&rows).await }).await
            }
        }
    }

    fn mirrors(&self) -> usize {
        match &self.0.layout {
            Layout::Sets(sets) => sets.copies,
            Layout::Rows(_) => 1,
        }
    }

    /// `None` if a drive of the mirror is not in sync, or cannot read.
    async fn read_mirror(&self, mirror: usize, at: u64, len: usize) -> Option<Pieces> {
        let Layout::Sets(sets) = &self.0.layout else { return None };
        self.0.check(at, len as u64).ok()?;
        let mut out = Pieces::new();
        for run in sets.runs(at, len as u64) {
            let member = run.set * sets.copies + mirror;
            self.0.members[member].active()?;
            out.push(self.0.read_from(member, run.from, run.len as usize).await.ok()?);
        }
        Some(out)
    }
}
