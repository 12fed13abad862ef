//! Locks on ranges of addresses: shared with others, or exclusive. The one implementation for all layers.
//!
//! ```text
//!   scsi: the LU        reads and writes share; COMPARE AND WRITE and its kin are exclusive
//!   cache: a unit       writes share; what changes the store below is exclusive
//!   pool: a volume      what changes the map is exclusive (of page indices); a write in place waits for it
//!   raid: a group       writes to mirrors and to rows of a parity group are exclusive
//!   attach: a disk      writes of whole sectors share; a change of a part of one is exclusive
//! ```
//!
//! Fair: a lock waits for every older lock, held or waiting, that it conflicts with. So nobody starves, the wait is bounded by what
//! was there before, and a range that is contended does not hold up the others. Who needs several ranges of one
//! table takes its places for all of them before it waits ([`RangeLocks::exclusive_of`] takes one for all); of several tables, everybody
//! takes them in the same order. So nobody waits in a ring.
//!
//! The common case, a shared lock while nobody holds or wants an exclusive one, looks at no other lock. Once the table has grown to
//! the number of locks that are in use at once, a lock of one range allocates nothing.

use std::cell::RefCell;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// What a lock allows others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockMode {
    /// Other shared locks.
    Shared,
    /// Nothing.
    Exclusive,
}

/// No slot.
const NONE: usize = usize::MAX;

/// What is locked, and how.
#[derive(Clone, Debug)]
struct Claim {
    range: Range<u64>,
    /// What of the range, in order and apart; empty: all of it.
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
        let is_either_exclusive = self.mode == LockMode::Exclusive || other.mode == LockMode::Exclusive;
        is_either_exclusive
            && overlap(&self.range, &other.range)
            && other.parts().iter().any(|part| self.covers_any_of(part))
    }
}

/// A lock that is held or waited for.
#[derive(Debug)]
struct Entry {
    claim: Claim,
    is_held: bool,
    waker: Option<Waker>,
    /// The slots of the next older and the next younger lock; of a free slot, `younger` is the next free one.
    older: usize,
    younger: usize,
}

/// The entries, linked from the oldest to the youngest: a slot is taken and given back without a look at the others.
#[derive(Debug)]
struct Table {
    slots: Vec<Entry>,
    oldest: usize,
    youngest: usize,
    free: usize,
    /// Locks held or waited for; exclusive ones among them; those that wait.
    in_use: usize,
    exclusive: usize,
    waiting: usize,
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
            waiting: 0,
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

    /// Whether a lock older than `slot` stands against `claim`.
    fn is_blocked(&self, claim: &Claim, slot: usize) -> bool {
        if self.exclusive == 0 && claim.mode == LockMode::Shared {
            return false;
        }
        self.entries().take_while(|(older, _)| *older != slot).any(|(_, entry)| entry.claim.conflicts(claim))
    }

    fn insert(&mut self, claim: Claim) -> usize {
        let is_held = !self.is_blocked(&claim, NONE);
        self.in_use += 1;
        self.waiting += usize::from(!is_held);
        self.exclusive += usize::from(claim.mode == LockMode::Exclusive);
        let entry = Entry { claim, is_held, waker: None, older: self.youngest, younger: NONE };
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
        slot
    }

    fn remove(&mut self, slot: usize) {
        let entry = &mut self.slots[slot];
        let claim = std::mem::replace(&mut entry.claim, Claim::of(0..0, LockMode::Shared));
        let (older, younger, was_held) = (entry.older, entry.younger, entry.is_held);
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
        self.waiting -= usize::from(!was_held);
        if self.waiting > 0 {
            self.grant_after(&claim, younger);
        }
    }

    /// Grants what only `gone` stood against, which was just older than `from`.
    fn grant_after(&mut self, gone: &Claim, from: usize) {
        let mut slot = from;
        while slot != NONE {
            let entry = &self.slots[slot];
            let younger = entry.younger;
            let is_free =
                !entry.is_held && entry.claim.conflicts(gone) && !self.is_blocked(&entry.claim, slot);
            if is_free {
                let entry = &mut self.slots[slot];
                entry.is_held = true;
                self.waiting -= 1;
                if let Some(waker) = entry.waker.take() {
                    waker.wake();
                }
            }
            slot = younger;
        }
    }
}

/// The locks on one thing: a logical unit, a unit of the cache, a volume, a group. What an address counts (bytes, pages) is its owner's
/// choice.
#[derive(Debug, Default)]
pub struct RangeLocks(RefCell<Table>);

/// A lock that is held; released when dropped.
#[derive(Debug)]
pub struct RangeGuard<'a> {
    locks: &'a RangeLocks,
    slot: usize,
}

impl RangeLocks {
    /// Locks a range. The place in the queue is taken at the call, not when the future is first polled.
    pub fn lock(&self, range: Range<u64>, mode: LockMode) -> Acquire<'_> {
        self.acquire(Claim::of(range, mode))
    }

    /// Locks a range together with others that share it.
    pub fn shared(&self, range: Range<u64>) -> Acquire<'_> {
        self.lock(range, LockMode::Shared)
    }

    /// Locks a range against all others.
    pub fn exclusive(&self, range: Range<u64>) -> Acquire<'_> {
        self.lock(range, LockMode::Exclusive)
    }

    /// Locks several ranges against all others, at once. (Of more than one range it allocates a list.)
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

    /// Locks a range against all others if nobody has any of it, or waits for it.
    pub fn try_exclusive(&self, range: Range<u64>) -> Option<RangeGuard<'_>> {
        if !self.is_free(&range) {
            return None;
        }
        let slot = self.0.borrow_mut().insert(Claim::of(range, LockMode::Exclusive));
        Some(RangeGuard { locks: self, slot })
    }

    /// Whether nobody has any of the range, or waits for it.
    pub fn is_free(&self, range: &Range<u64>) -> bool {
        self.0.borrow().entries().all(|(_, entry)| !entry.claim.covers_any_of(range))
    }

    /// Whether an exclusive lock on any of the range is held or waited for: whether a shared one would wait.
    pub fn has_exclusive(&self, range: &Range<u64>) -> bool {
        let table = self.0.borrow();
        table.exclusive > 0
            && table
                .entries()
                .any(|(_, entry)| entry.claim.mode == LockMode::Exclusive && entry.claim.covers_any_of(range))
    }

    /// Whether an exclusive lock on any of the range is held. (One that is waited for does not count: what stands in its way may wait
    /// for whoever asks.)
    pub fn is_held_exclusively(&self, range: &Range<u64>) -> bool {
        let table = self.0.borrow();
        let is_in_the_way = |entry: &Entry| {
            entry.is_held && entry.claim.mode == LockMode::Exclusive && entry.claim.covers_any_of(range)
        };
        table.exclusive > 0 && table.entries().any(|(_, entry)| is_in_the_way(entry))
    }

    /// How many locks are held or waited for.
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

/// Waits for a lock. Dropping it gives up the place in the queue.
#[derive(Debug)]
#[must_use = "the range is locked once this was awaited"]
pub struct Acquire<'a>(Option<RangeGuard<'a>>);

impl<'a> Future for Acquire<'a> {
    type Output = RangeGuard<'a>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<RangeGuard<'a>> {
        let is_held = {
            let guard = self.0.as_ref().expect("not polled after it was granted");
            let entry = &mut guard.locks.0.borrow_mut().slots[guard.slot];
            if !entry.is_held {
                entry.waker = Some(cx.waker().clone());
            }
            entry.is_held
        };
        if is_held { Poll::Ready(self.0.take().expect("checked above")) } else { Poll::Pending }
    }
}

#[cfg(test)]
mod tests;
