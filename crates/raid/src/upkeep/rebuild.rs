//! Rebuild of a drive that took a position: in address order, with a mark up to which it is in sync, recorded
//! on the labels at intervals.
//!
//! Data below the recorded mark are durable on the drive, so that a rebuild continues there after a restart.
//! User writes go to the drive, too, below the mark (levels 5 and 6) or everywhere (mirrors).

use std::ops::{ControlFlow, Range};

use block::BlockError;
use world::Drive;

use super::{STEP_LEN, Steps, Throttle};
use crate::contents::Contents;
use crate::events::GroupEvent;
use crate::group::Group;
use crate::inner::{Inner, Layout};
use crate::member::MemberState;

/// Interval of the recorded mark: a restart repeats at most this much, and labels are written rarely.
const MARK_STEP: u64 = 64 << 20;

/// Known zeros are zeroed in ranges of this size, if zeroing is cheap.
const SKIP_LEN: u64 = 1 << 30;

/// Pieces of a mirror copied at once: a single one queues behind the other I/O of its two drives, whatever
/// its share. Ten drives under random writes of 512 KiB, in the model: one piece 12 MB/s, four 31, eight 43.
/// A row has as many pieces as drives.
const COPIES: u64 = 8;

impl Group {
    /// Rebuilds the drives that took a position ([`Group::replace`]), one after the other, until none is
    /// left. I/O continues meanwhile. Returns whether there was something to do. Ranges that are known to
    /// hold zeros ([`Group::know_contents`]) are zeroed and not copied. May be dropped between its steps, and
    /// called again, also after a restart.
    ///
    /// # Errors
    ///
    /// A drive failed that the rebuild needs. Positions that are filled stay filled.
    pub async fn rebuild(&self, throttle: &Throttle) -> Result<bool, BlockError> {
        let inner = &self.0;
        if inner.rebuild_runs.replace(true) {
            return Ok(false);
        }
        let running = Running(inner);
        let mut any = false;
        while let Some((position, from)) = inner.rebuilding.get() {
            any = true;
            if inner.rebuild_member(position, from, throttle).await?.is_break() {
                break;
            }
        }
        drop(running);
        Ok(any)
    }
}

/// Returned also when the rebuild is dropped.
struct Running<'a>(&'a Inner);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.rebuild_runs.set(false);
    }
}

impl Inner {
    async fn rebuild_member(
        &self,
        position: u32,
        from: u64,
        throttle: &Throttle,
    ) -> Result<ControlFlow<()>, BlockError> {
        // A rebuilt drive becomes a mirror, so the mirrors must be equal first.
        self.resync(throttle).await?;
        let mut steps = Steps::begin(self, throttle);
        if !steps.may_go_on().await {
            return Ok(ControlFlow::Break(()));
        }
        let mut at = from;
        while at < self.data_len {
            let skipped = self.skip_unchanged(position as usize, at).await;
            if skipped > 0 {
                at += skipped;
                continue;
            }
            let len = match &self.layout {
                Layout::Sets(sets) => self.sets_rebuild_step(sets, position as usize, at).await?,
                Layout::Rows(rows) => self.rows_rebuild_step(rows, position as usize, at).await?,
            };
            at += len;
            // The drive was dropped meanwhile, and another one may have its position: rebuild that, if any.
            if self.rebuilding.get() != Some((position, at)) {
                return Ok(ControlFlow::Continue(()));
            }
            if at - self.rebuilt_durably.get() >= MARK_STEP && at < self.data_len {
                self.move_mark(position, at).await?;
            }
            // One mirror is read and one is written; of a row all members are read or written.
            let involved = if let Layout::Sets(_) = &self.layout { 2 } else { self.members.len() as u64 };
            if !steps.step_done(len.min(self.rebuild_step()) * involved).await && at < self.data_len {
                self.move_mark(position, at).await?;
                return Ok(ControlFlow::Break(()));
            }
        }
        self.resync(throttle).await?;
        self.finish_rebuild(position).await?;
        Ok(ControlFlow::Continue(()))
    }

    /// Advances the mark of a returned drive over what it has. Returns the length.
    async fn skip_unchanged(&self, position: usize, from: u64) -> u64 {
        let max = SKIP_LEN.next_multiple_of(self.stripe_unit_bytes.into()).min(self.data_len - from);
        let len = self.unchanged(position, from, max);
        if len == 0 {
            return 0;
        }
        let range = match &self.layout {
            Layout::Sets(sets) => sets.around(from, len),
            Layout::Rows(rows) => rows.range(from / rows.unit(), (from + len) / rows.unit()),
        };
        // A write in progress records its change at its end.
        let _held = self.locks.exclusive(range).await;
        let len = self.unchanged(position, from, len);
        self.rebuilt(position, from..from + len);
        len
    }

    /// The length of a rebuild step on one drive.
    pub(crate) fn rebuild_step(&self) -> u64 {
        match self.layout {
            Layout::Sets(_) => COPIES * STEP_LEN,
            // Whole units, so that the mark never splits a row.
            Layout::Rows(_) => STEP_LEN.next_multiple_of(self.stripe_unit_bytes.into()),
        }
    }

    /// The length of the step from `at` on, and whether all of it is known to hold zeros; `range` returns the
    /// group addresses of a part. The caller must ask again once it holds the range.
    pub(crate) fn plan_step(
        &self,
        drive: Option<&Drive>,
        at: u64,
        range: impl Fn(u64) -> Range<u64>,
    ) -> (u64, bool) {
        let left = self.data_len - at;
        let cheap = drive.is_some_and(|d| d.info().cheap_zero);
        let skip = SKIP_LEN.next_multiple_of(self.stripe_unit_bytes.into()).min(left);
        let step = self.rebuild_step().min(left);
        let zeros = |len: u64| self.contents_of(range(len)) == Contents::Zeros;
        match cheap && zeros(skip) {
            true => (skip, true),
            false => (step, zeros(step)),
        }
    }

    /// Records that the drive is rebuilt in a range, which must be a step that is still held. Not if another
    /// drive took the position since the last step: its rebuild begins at 0.
    pub(crate) fn rebuilt(&self, position: usize, range: Range<u64>) {
        if self.rebuilding.get() == Some((position as u32, range.start)) {
            self.rebuilding.set(Some((position as u32, range.end)));
        }
    }

    async fn move_mark(&self, position: u32, to: u64) -> Result<(), BlockError> {
        if self.flush_rebuilt(position, to).await? {
            self.rebuilt_durably.set(to);
            self.label_changed();
            self.relabel().await?;
        }
        Ok(())
    }

    /// Makes what is rebuilt durable. Whether the drive is still the one that is rebuilt up to `to`.
    async fn flush_rebuilt(&self, position: u32, to: u64) -> Result<bool, BlockError> {
        if self.rebuilding.get() != Some((position, to)) {
            return Ok(false);
        }
        let Some(drive) = self.members[position as usize].rebuilding() else { return Ok(false) };
        if let Err(error) = drive.flush().await {
            self.drop_member(position as usize, &error).await?;
            return Ok(false);
        }
        Ok(self.rebuilding.get() == Some((position, to)))
    }

    /// Marks the drive as in sync, once a label records it.
    async fn finish_rebuild(&self, position: u32) -> Result<(), BlockError> {
        // No write may be between reading the members and its end.
        let _held = self.locks.exclusive(0..self.geometry.len_bytes).await;
        // It would be read where it is preferred. A write that failed on all mirrors since the resync, or a
        // resync that was told to end: the caller comes again.
        if self.pinned.get() || !self.flush_rebuilt(position, self.data_len).await? {
            return Ok(());
        }
        let member = &self.members[position as usize];
        member.state.set(MemberState::Active);
        *member.cause.borrow_mut() = None;
        *member.missed.borrow_mut() = None;
        self.rebuilding.set(None);
        self.rebuilt_durably.set(0);
        self.in_sync.set(self.in_sync.get() | 1 << position);
        self.epoch.set(self.epoch.get() + 1);
        self.next_to_rebuild();
        self.relabel().await?;
        self.events.tell(GroupEvent::Rebuilt { position });
        Ok(())
    }

    /// The next drive that waits for its rebuild, if none is being rebuilt.
    pub(crate) fn next_to_rebuild(&self) {
        if self.rebuilding.get().is_some() {
            return;
        }
        let waits = |m: &&crate::member::Member| m.state.get() == MemberState::Rebuilding;
        if let Some(position) = self.members.iter().position(|m| waits(&m)) {
            self.rebuilding.set(Some((position as u32, 0)));
            self.rebuilt_durably.set(0);
        }
    }
}
