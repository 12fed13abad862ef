//! Locks on ranges of blocks: shared by reads and writes, exclusive for COMPARE AND WRITE and its kin.
//!
//! Fair: a lock waits for every older lock, held or waiting, that it conflicts with, so nobody starves and the wait is
//! bounded by what was there before. A range that is contended does not hold up the others. The common case, a shared
//! lock while nobody holds or wants an exclusive one, looks at no other lock and allocates nothing.

use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// What a lock allows others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Other shared locks.
    Shared,
    /// Nothing.
    Exclusive,
}

#[derive(Debug)]
struct Entry {
    /// The order of arrival.
    ticket: u64,
    from: u64,
    to: u64,
    mode: Mode,
    granted: bool,
    waker: Option<Waker>,
}

impl Entry {
    fn conflicts(&self, other: &Entry) -> bool {
        let either = self.mode == Mode::Exclusive || other.mode == Mode::Exclusive;
        either && self.from < other.to && other.from < self.to
    }
}

#[derive(Debug, Default)]
struct Locks {
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
    tickets: u64,
    /// Exclusive locks, held or waiting.
    exclusive: usize,
    /// Locks that wait.
    waiting: usize,
}

/// The locks of one logical unit.
#[derive(Debug, Default)]
pub struct Ranges(RefCell<Locks>);

/// A lock held, or wanted. Dropping it releases it.
#[derive(Debug)]
pub struct Guard<'a> {
    ranges: &'a Ranges,
    slot: usize,
}

impl Locks {
    fn is_blocked(&self, entry: &Entry) -> bool {
        if self.exclusive == 0 && entry.mode == Mode::Shared {
            return false;
        }
        self.entries.iter().flatten().any(|older| older.ticket < entry.ticket && older.conflicts(entry))
    }

    fn insert(&mut self, mut entry: Entry) -> usize {
        entry.granted = !self.is_blocked(&entry);
        self.waiting += usize::from(!entry.granted);
        self.exclusive += usize::from(entry.mode == Mode::Exclusive);
        match self.free.pop() {
            Some(slot) => {
                self.entries[slot] = Some(entry);
                slot
            }
            None => {
                self.entries.push(Some(entry));
                // Room for every slot at once, so that releasing allocates nothing.
                self.free.reserve(self.entries.len());
                self.entries.len() - 1
            }
        }
    }

    fn remove(&mut self, slot: usize) {
        let Some(entry) = self.entries[slot].take() else { return };
        self.exclusive -= usize::from(entry.mode == Mode::Exclusive);
        self.waiting -= usize::from(!entry.granted);
        self.free.push(slot);
        if self.waiting > 0 {
            self.grant();
        }
    }

    /// Grants what nothing older stands against any more.
    fn grant(&mut self) {
        for slot in 0..self.entries.len() {
            let free = match &self.entries[slot] {
                Some(entry) if !entry.granted => !self.is_blocked(entry),
                _ => false,
            };
            if let (true, Some(entry)) = (free, &mut self.entries[slot]) {
                entry.granted = true;
                self.waiting -= 1;
                if let Some(waker) = entry.waker.take() {
                    waker.wake();
                }
            }
        }
    }
}

impl Ranges {
    /// Locks `len` units from `at` on. The place in the queue is taken at the call, not when the future is first polled.
    pub fn lock(&self, at: u64, len: u64, mode: Mode) -> Lock<'_> {
        let mut locks = self.0.borrow_mut();
        locks.tickets += 1;
        let entry = Entry {
            ticket: locks.tickets,
            from: at,
            to: at.saturating_add(len),
            mode,
            granted: false,
            waker: None,
        };
        let slot = locks.insert(entry);
        Lock(Some(Guard { ranges: self, slot }))
    }

    /// How many locks are held or wanted.
    pub fn in_use(&self) -> usize {
        let locks = self.0.borrow();
        locks.entries.len() - locks.free.len()
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.ranges.0.borrow_mut().remove(self.slot);
    }
}

/// Waits for a lock. Dropping it gives up the place in the queue.
#[derive(Debug)]
#[must_use = "the range is locked once this was awaited"]
pub struct Lock<'a>(Option<Guard<'a>>);

impl<'a> Future for Lock<'a> {
    type Output = Guard<'a>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Guard<'a>> {
        let granted = {
            let guard = self.0.as_ref().expect("not polled after it was granted");
            let mut locks = guard.ranges.0.borrow_mut();
            let entry = locks.entries[guard.slot].as_mut().expect("an entry lives as long as its guard");
            if !entry.granted {
                entry.waker = Some(cx.waker().clone());
            }
            entry.granted
        };
        if granted { Poll::Ready(self.0.take().expect("checked above")) } else { Poll::Pending }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn granted(lock: &mut Lock<'_>) -> bool {
        let guard = lock.0.as_ref().expect("not taken");
        guard.ranges.0.borrow().entries[guard.slot].as_ref().is_some_and(|e| e.granted)
    }

    #[test]
    fn locks_are_shared_exclusive_and_fair() {
        let ranges = Ranges::default();
        let mut a = ranges.lock(0, 10, Mode::Shared);
        let mut b = ranges.lock(5, 10, Mode::Shared);
        assert!(granted(&mut a) && granted(&mut b), "shared locks overlap");
        let mut c = ranges.lock(8, 1, Mode::Exclusive);
        let mut d = ranges.lock(8, 1, Mode::Shared);
        let mut e = ranges.lock(100, 1, Mode::Exclusive);
        assert!(!granted(&mut c), "exclusive waits for both");
        assert!(!granted(&mut d), "a younger shared lock does not overtake");
        assert!(granted(&mut e), "another range is free");
        drop(a);
        assert!(!granted(&mut c));
        drop(b);
        assert!(granted(&mut c) && !granted(&mut d));
        drop(c);
        assert!(granted(&mut d));
        drop((d, e));
        assert_eq!(ranges.in_use(), 0);
    }

    #[test]
    fn a_waiter_that_gives_up_lets_the_next_one_through() {
        let ranges = Ranges::default();
        let held = ranges.lock(0, 4, Mode::Shared);
        let tired = ranges.lock(0, 4, Mode::Exclusive);
        let mut next = ranges.lock(0, 4, Mode::Shared);
        assert!(!granted(&mut next));
        drop(tired);
        assert!(granted(&mut next));
        drop(held);
    }
}
