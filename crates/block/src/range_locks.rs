//! Locks on ranges of addresses, shared or exclusive. The one implementation for all layers.
//!
//! ```text
//!   scsi: the LU        reads share, and with writes; writes exclude writes; COMPARE AND WRITE and its kin are exclusive
//!   cache: a unit       writes share; what changes the store below is exclusive
//!   pool: a volume      what changes the map is exclusive (of page indices); a write in place waits for it
//!   raid: a group       writes to mirrors and to rows of a parity group are exclusive
//!   attach: a disk      writes of whole sectors share; a change of a part of one is exclusive
//! ```
//!
//! Fair: a lock waits for every older conflicting lock, held or waiting. So nobody starves, the wait is
//! bounded by the locks that were there before, and a contended range does not delay others. A task that
//! needs several ranges of one table queues for all of them before it waits ([`RangeLocks::exclusive_of`]);
//! locks of several tables are taken in the same order everywhere. So there is no deadlock.
//!
//! The common case, a shared lock without any exclusive lock held or waiting, reads no other lock; a write
//! reads the locks of the other writes. From [`INDEXED_FROM`] locks on they are found by an index: hosts with
//! ten thousand outstanding commands do not hold up others. Once the table has grown to the number of
//! concurrent locks, a lock of one range allocates nothing.

mod index;

use std::cell::RefCell;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use index::Index;

/// Which other locks may be held with a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// All but exclusive ones.
    Shared,
    /// Shared ones.
    Write,
    /// No other one.
    Exclusive,
}

impl LockMode {
    fn excludes(self, other: LockMode) -> bool {
        match (self, other) {
            (LockMode::Exclusive, _) | (_, LockMode::Exclusive) => true,
            (one, other) => one == LockMode::Write && other == LockMode::Write,
        }
    }
}

/// From so many locks on there is an index, until there are a quarter as many: fewer are read as fast as it
/// is kept.
const INDEXED_FROM: usize = 256;

/// No slot.
const NONE: usize = usize::MAX;

/// The range and mode of a lock.
#[derive(Clone, Debug)]
struct Claim {
    range: Range<u64>,
    /// The parts of the range, sorted and disjoint; empty: all of it.
    parts: Vec<Range<u64>>,
    mode: LockMode,
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

impl Claim {
    fn of(range: Range<u64>, mode: LockMode) -> Claim {
        Claim { range, parts: Vec::new(), mode }
    }

    fn parts(&self) -> &[Range<u64>] {
        if self.parts.is_empty() { std::slice::from_ref(&self.range) } else { &self.parts }
    }

    fn covers_any_of(&self, range: &Range<u64>) -> bool {
        let parts = self.parts();
        let next = parts.partition_point(|part| part.end <= range.start);
        parts.get(next).is_some_and(|part| overlap(part, range))
    }

    fn conflicts(&self, other: &Claim) -> bool {
        self.mode.excludes(other.mode)
            && overlap(&self.range, &other.range)
            && other.parts().iter().any(|part| self.covers_any_of(part))
    }
}

/// A lock that is held or waited for.
#[derive(Debug)]
struct Entry {
    claim: Claim,
    /// The older locks that conflict with it: it is held when there is none.
    blockers: usize,
    waker: Option<Waker>,
    /// The number of locks before it.
    number: u64,
    /// The slots of the next older and the next younger lock; in a free slot, `younger` is the next free one.
    older: usize,
    younger: usize,
}

/// The entries, linked from the oldest to the youngest: taking and freeing a slot touches no others.
#[derive(Debug)]
struct Table {
    slots: Vec<Entry>,
    oldest: usize,
    youngest: usize,
    free: usize,
    /// Locks held or waiting; those of these modes among them; waiting ones.
    in_use: usize,
    exclusive: usize,
    writes: usize,
    waiting: usize,
    /// All locks so far.
    numbered: u64,
    index: Index,
    is_indexed: bool,
    indexed_from: usize,
    /// Memory for locks to be granted, with their numbers.
    granted: Vec<(u64, usize)>,
}

impl Default for Table {
    fn default() -> Table {
        Table {
            slots: Vec::new(),
            oldest: NONE,
            youngest: NONE,
            free: NONE,
            in_use: 0,
            exclusive: 0,
            writes: 0,
            waiting: 0,
            numbered: 0,
            index: Index::default(),
            is_indexed: false,
            indexed_from: INDEXED_FROM,
            granted: Vec::new(),
        }
    }
}

impl Table {
    /// The entries, the oldest first.
    fn entries(&self) -> impl Iterator<Item = (usize, &Entry)> {
        let mut next = self.oldest;
        std::iter::from_fn(move || {
            let slot = next;
            let entry = self.slots.get(slot)?;
            next = entry.younger;
            Some((slot, entry))
        })
    }

    /// Gives at least the entries that overlap a range.
    fn around(&self, range: &Range<u64>, mut found: impl FnMut(usize, &Entry)) {
        match self.is_indexed {
            true => {
                self.index.overlapping(range, &mut |slot| found(slot, &self.slots[slot]));
            }
            false => self.entries().for_each(|(slot, entry)| found(slot, entry)),
        }
    }

    /// Whether it holds of an entry that overlaps a range.
    fn any(&self, range: &Range<u64>, holds: impl Fn(&Entry) -> bool) -> bool {
        let mut any = false;
        self.around(range, |_, entry| any = any || entry.claim.covers_any_of(range) && holds(entry));
        any
    }

    /// The locks that conflict with `claim`.
    fn conflicting(&self, claim: &Claim) -> usize {
        let others = match claim.mode {
            LockMode::Shared => self.exclusive,
            LockMode::Write => self.exclusive + self.writes,
            LockMode::Exclusive => self.in_use,
        };
        if others == 0 {
            return 0;
        }
        let mut count = 0;
        self.around(&claim.range, |_, entry| count += usize::from(entry.claim.conflicts(claim)));
        count
    }

    /// Begins or ends the index, as the number of locks says.
    fn keep_index(&mut self) {
        if !self.is_indexed && self.in_use >= self.indexed_from {
            let mut index = std::mem::take(&mut self.index);
            self.entries().for_each(|(slot, entry)| index.insert(slot, entry.claim.range.clone()));
            (self.index, self.is_indexed) = (index, true);
        } else if self.is_indexed && self.in_use < self.indexed_from / 4 {
            self.index.clear();
            self.is_indexed = false;
        }
    }

    fn insert(&mut self, claim: Claim) -> usize {
        let blockers = self.conflicting(&claim);
        self.in_use += 1;
        self.waiting += usize::from(blockers > 0);
        self.exclusive += usize::from(claim.mode == LockMode::Exclusive);
        self.writes += usize::from(claim.mode == LockMode::Write);
        let (number, range) = (self.numbered, claim.range.clone());
        self.numbered += 1;
        let entry = Entry { claim, blockers, waker: None, number, older: self.youngest, younger: NONE };
        let slot = match self.free {
            NONE => {
                self.slots.push(entry);
                self.slots.len() - 1
            }
            slot => {
                self.free = self.slots[slot].younger;
                self.slots[slot] = entry;
                slot
            }
        };
        match self.youngest {
            NONE => self.oldest = slot,
            youngest => self.slots[youngest].younger = slot,
        }
        self.youngest = slot;
        match self.is_indexed {
            true => self.index.insert(slot, range),
            false => self.keep_index(),
        }
        slot
    }

    fn remove(&mut self, slot: usize) {
        if self.is_indexed {
            self.index.remove(slot);
        }
        let entry = &mut self.slots[slot];
        let number = entry.number;
        let claim = std::mem::replace(&mut entry.claim, Claim::of(0..0, LockMode::Shared));
        let (older, younger, was_held) = (entry.older, entry.younger, entry.blockers == 0);
        (entry.younger, entry.waker) = (self.free, None);
        self.free = slot;
        match older {
            NONE => self.oldest = younger,
            older => self.slots[older].younger = younger,
        }
        match younger {
            NONE => self.youngest = older,
            younger => self.slots[younger].older = older,
        }
        self.in_use -= 1;
        self.exclusive -= usize::from(claim.mode == LockMode::Exclusive);
        self.writes -= usize::from(claim.mode == LockMode::Write);
        self.waiting -= usize::from(!was_held);
        self.keep_index();
        match (self.waiting > 0, self.is_indexed) {
            (false, _) => {}
            (true, true) => self.grant_found(&claim, number),
            (true, false) => self.grant_after(&claim, younger),
        }
    }

    /// Grants the locks that waited only for `gone`, the oldest first, by the index. What waits for it is
    /// younger.
    fn grant_found(&mut self, gone: &Claim, number: u64) {
        let mut granted = std::mem::take(&mut self.granted);
        self.around(&gone.range, |slot, entry| {
            if entry.number > number && entry.blockers > 0 && entry.claim.conflicts(gone) {
                granted.push((entry.number, slot));
            }
        });
        granted.sort_unstable();
        granted.drain(..).for_each(|(_, slot)| self.unblock(slot));
        self.granted = granted;
    }

    /// One of the locks that a lock waits for is gone.
    fn unblock(&mut self, slot: usize) {
        let entry = &mut self.slots[slot];
        entry.blockers -= 1;
        if entry.blockers == 0 {
            self.waiting -= 1;
            if let Some(waker) = entry.waker.take() {
                waker.wake();
            }
        }
    }

    /// Grants the locks that waited only for `gone`, which was just older than `from`. Each counts what it
    /// waits for: looking for it again would take the square of the locks.
    fn grant_after(&mut self, gone: &Claim, from: usize) {
        let mut slot = from;
        while let Some(entry) = self.slots.get(slot) {
            if entry.blockers == 0 || !entry.claim.conflicts(gone) {
                slot = entry.younger;
                continue;
            }
            let granted = std::mem::replace(&mut slot, entry.younger);
            self.unblock(granted);
        }
    }
}

/// The locks of one object: a logical unit, a unit of the cache, a volume, a group. Its owner chooses the
/// unit of addresses (bytes, pages).
#[derive(Debug, Default)]
pub struct RangeLocks(RefCell<Table>);

/// A lock that is held; released when dropped.
#[derive(Debug)]
pub struct RangeGuard<'a> {
    locks: &'a RangeLocks,
    slot: usize,
}

impl RangeLocks {
    /// Locks a range. The call takes the place in the queue, not the first poll of the future.
    pub fn lock(&self, range: Range<u64>, mode: LockMode) -> Acquire<'_> {
        self.acquire(Claim::of(range, mode))
    }

    /// Locks a range against other writes.
    pub fn write(&self, range: Range<u64>) -> Acquire<'_> {
        self.lock(range, LockMode::Write)
    }

    /// Locks a range in shared mode.
    pub fn shared(&self, range: Range<u64>) -> Acquire<'_> {
        self.lock(range, LockMode::Shared)
    }

    /// Locks a range exclusively.
    pub fn exclusive(&self, range: Range<u64>) -> Acquire<'_> {
        self.lock(range, LockMode::Exclusive)
    }

    /// Locks several ranges exclusively, at once. (With more than one range it allocates a list.)
    pub fn exclusive_of(&self, ranges: impl IntoIterator<Item = Range<u64>>) -> Acquire<'_> {
        let mut parts: Vec<Range<u64>> = ranges.into_iter().collect();
        parts.sort_unstable_by_key(|part| part.start);
        parts.dedup_by(|next, part| {
            let touches = next.start <= part.end;
            if touches {
                part.end = part.end.max(next.end);
            }
            touches
        });
        let range = match &parts[..] {
            [first, .., last] => first.start..last.end,
            [only] => return self.exclusive(only.clone()),
            [] => return self.exclusive(0..0),
        };
        self.acquire(Claim { range, parts, mode: LockMode::Exclusive })
    }

    /// Locks a range exclusively if nobody holds, or waits for, any of it.
    pub fn try_exclusive(&self, range: Range<u64>) -> Option<RangeGuard<'_>> {
        if !self.is_free(&range) {
            return None;
        }
        let slot = self.0.borrow_mut().insert(Claim::of(range, LockMode::Exclusive));
        Some(RangeGuard { locks: self, slot })
    }

    /// Whether nobody holds, or waits for, any of the range.
    pub fn is_free(&self, range: &Range<u64>) -> bool {
        !self.0.borrow().any(range, |_| true)
    }

    /// Whether an exclusive lock on any of the range is held or waiting: a shared lock would wait.
    pub fn has_exclusive(&self, range: &Range<u64>) -> bool {
        let table = self.0.borrow();
        table.exclusive > 0 && table.any(range, |entry| entry.claim.mode == LockMode::Exclusive)
    }

    /// Whether an exclusive lock on any of the range is held. (A waiting one does not count: it may wait for
    /// the caller.)
    pub fn is_held_exclusively(&self, range: &Range<u64>) -> bool {
        let table = self.0.borrow();
        let is_held = |entry: &Entry| entry.blockers == 0 && entry.claim.mode == LockMode::Exclusive;
        table.exclusive > 0 && table.any(range, is_held)
    }

    /// The number of locks held or waiting.
    pub fn in_use(&self) -> usize {
        self.0.borrow().in_use
    }

    fn acquire(&self, claim: Claim) -> Acquire<'_> {
        let slot = self.0.borrow_mut().insert(claim);
        Acquire(Some(RangeGuard { locks: self, slot }))
    }
}

impl Drop for RangeGuard<'_> {
    fn drop(&mut self) {
        self.locks.0.borrow_mut().remove(self.slot);
    }
}

/// Waits for a lock. Dropping it leaves the queue.
#[derive(Debug)]
#[must_use = "the range is locked once this was awaited"]
pub struct Acquire<'a>(Option<RangeGuard<'a>>);

impl<'a> Future for Acquire<'a> {
    type Output = RangeGuard<'a>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<RangeGuard<'a>> {
        let is_held = {
            let guard = self.0.as_ref().expect("not polled after it was granted");
            let entry = &mut guard.locks.0.borrow_mut().slots[guard.slot];
            if entry.blockers > 0 {
                entry.waker = Some(cx.waker().clone());
            }
            entry.blockers == 0
        };
        if is_held { Poll::Ready(self.0.take().expect("checked above")) } else { Poll::Pending }
    }
}

#[cfg(test)]
mod tests;
