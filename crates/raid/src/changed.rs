//! The ranges that changed while a drive was away. When it returns, only these are rebuilt.
//!
//! ```text
//!   a write ends ──> since the last flush ──(a flush)──> forgotten: every drive has it
//!                          │ a drive is dropped
//!                          v
//!                    what it missed  <── every write that ends from then on
//! ```
//!
//! Writes that were not flushed count as missed, too: the drive may have lost them with its cache. Regions of
//! 1 MiB, in memory only: after a restart, a drive that was left out is rebuilt completely.

use std::ops::Range;

use crate::inner::Inner;
use crate::regions::Unflushed;

/// Records, when dropped, that a range may have changed, however the operation ended. Must be dropped before
/// the hold of the range.
pub(crate) struct Changing<'a> {
    inner: &'a Inner,
    /// In addresses of the drives' data.
    range: Range<u64>,
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        let Some(unflushed) = &self.inner.unflushed else { return };
        unflushed.now.borrow_mut().add(&self.range);
        for member in &self.inner.members {
            if let Some(missed) = &mut *member.missed.borrow_mut() {
                missed.add(&self.range);
            }
        }
    }
}

/// A flush of all drives in progress.
pub(crate) struct Flushing<'a> {
    inner: &'a Inner,
    /// `None` if another flush is in progress that will clear the record.
    unflushed: Option<&'a Unflushed>,
    epoch: u64,
    succeeded: bool,
}

impl Flushing<'_> {
    /// The flush succeeded on all drives, unless one was dropped meanwhile.
    pub(crate) fn succeeded(mut self) {
        self.succeeded = self.inner.epoch.get() == self.epoch;
    }
}

impl Drop for Flushing<'_> {
    fn drop(&mut self) {
        let Some(unflushed) = self.unflushed else { return };
        if !self.succeeded {
            unflushed.now.borrow_mut().add_all(&unflushed.flushing.borrow());
        }
        unflushed.flushing.borrow_mut().clear();
        unflushed.flushes.set(false);
    }
}

impl Inner {
    /// A range of the drives' data is about to change.
    pub(crate) fn changing(&self, range: Range<u64>) -> Changing<'_> {
        Changing { inner: self, range }
    }

    /// The smallest range that contains all of `ranges`: the ranges of one operation are adjacent.
    pub(crate) fn changing_all(&self, ranges: impl Iterator<Item = Range<u64>>) -> Changing<'_> {
        let hull = ranges.reduce(|all, range| all.start.min(range.start)..all.end.max(range.end));
        self.changing(hull.unwrap_or(0..0))
    }

    /// Starts a flush of all drives. Only one flush at a time clears the record.
    pub(crate) fn begin_flush(&self) -> Flushing<'_> {
        let unflushed = self.unflushed.as_ref().filter(|u| !u.flushes.replace(true));
        if let Some(unflushed) = unflushed {
            std::mem::swap(&mut *unflushed.now.borrow_mut(), &mut *unflushed.flushing.borrow_mut());
        }
        Flushing { inner: self, unflushed, epoch: self.epoch.get(), succeeded: false }
    }

    /// Drops a drive: from now on its missed ranges are recorded, unless mirrors may differ anyway.
    pub(crate) fn begin_to_miss(&self, m: usize, was_active: bool) {
        let mut missed = self.members[m].missed.borrow_mut();
        let (Some(unflushed), false) = (&self.unflushed, self.pinned.get()) else {
            *missed = None;
            return;
        };
        match &mut *missed {
            Some(missed) => missed.add_all(&unflushed.all()),
            None if was_active => *missed = Some(unflushed.all()),
            None => {}
        }
    }

    /// The content was repaired in another way than by writes: drives that are away need a complete rebuild.
    pub(crate) fn forget_missed(&self) {
        self.members.iter().for_each(|m| *m.missed.borrow_mut() = None);
    }

    /// The length from `from` on, at most `max`, in which the drive at a position has the same data as the
    /// others. The caller must ask again once it holds the range.
    pub(crate) fn unchanged(&self, position: usize, from: u64, max: u64) -> u64 {
        let missed = self.members[position].missed.borrow();
        missed.as_ref().map_or(0, |missed| missed.clean_from(from, max))
    }
}
