//! Who works on which bytes of a device: some share a range, others have it alone.
//!
//! Tickets are served in order: one that conflicts with an earlier one waits for it, also when the earlier one itself still waits,
//! so that who wants a long range alone is not passed by an endless row of short ones. Who holds a range does not wait for another one.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use world::sync::Signal;

/// A range of bytes, held or waited for.
struct Ticket {
    number: u64,
    range: Range<u64>,
    alone: bool,
    /// It is held, and waits no more.
    held: bool,
}

impl Ticket {
    fn conflicts(&self, range: &Range<u64>, alone: bool) -> bool {
        (self.alone || alone) && self.range.start < range.end && range.start < self.range.end
    }
}

/// The ranges of one device that are worked on. A list: at the depth of a drive's queue a linear look costs less than a tree.
#[derive(Default)]
pub struct Ranges {
    /// By number.
    tickets: RefCell<Vec<Ticket>>,
    next: Cell<u64>,
    freed: Signal,
}

/// A range that is held; free again when dropped.
pub struct HeldRange<'a> {
    of: &'a Ranges,
    number: u64,
}

impl Ranges {
    /// Holds a range together with others that share it.
    pub async fn share(&self, range: Range<u64>) -> HeldRange<'_> {
        self.hold(range, false).await
    }

    /// Holds a range alone: waits for who has any of it, and whoever comes later waits.
    pub async fn alone(&self, range: Range<u64>) -> HeldRange<'_> {
        self.hold(range, true).await
    }

    /// Whether an operation has any of the range alone. (One that waits for it yet does not count: a writer that is in its way
    /// may wait for a destage.)
    pub fn is_held_alone(&self, range: &Range<u64>) -> bool {
        self.tickets.borrow().iter().any(|t| t.alone && t.held && t.conflicts(range, true))
    }

    /// Whether nobody has any of the range, or waits for it.
    pub fn is_free(&self, range: &Range<u64>) -> bool {
        !self.tickets.borrow().iter().any(|t| t.conflicts(range, true))
    }

    /// Holds a range alone if it is free.
    pub fn try_alone(&self, range: Range<u64>) -> Option<HeldRange<'_>> {
        if !self.is_free(&range) {
            return None;
        }
        let number = self.next.get();
        self.next.set(number + 1);
        self.tickets.borrow_mut().push(Ticket { number, range, alone: true, held: true });
        Some(HeldRange { of: self, number })
    }

    async fn hold(&self, range: Range<u64>, alone: bool) -> HeldRange<'_> {
        let number = self.next.get();
        self.next.set(number + 1);
        self.tickets.borrow_mut().push(Ticket { number, range: range.clone(), alone, held: false });
        // Dropped while it waits, it gives its ticket back.
        let held = HeldRange { of: self, number };
        let blocked = || {
            let tickets = self.tickets.borrow();
            tickets.iter().take_while(|t| t.number < number).any(|t| t.conflicts(&range, alone))
        };
        if blocked() {
            self.freed.wait_for(|| (!blocked()).then_some(())).await;
        }
        let mut tickets = self.tickets.borrow_mut();
        let mine = tickets.iter_mut().find(|t| t.number == number);
        mine.expect("a ticket stays until it is dropped").held = true;
        drop(tickets);
        held
    }
}

impl Drop for HeldRange<'_> {
    fn drop(&mut self) {
        self.of.tickets.borrow_mut().retain(|t| t.number != self.number);
        self.of.freed.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn writers_share_and_a_direct_operation_is_not_passed() {
        let ranges = Ranges::default();
        let mut one = std::pin::pin!(ranges.share(0..10));
        let Poll::Ready(one) = poll(one.as_mut()) else { panic!("free") };
        assert!(poll(std::pin::pin!(ranges.share(5..15)).as_mut()).is_ready(), "writers share");
        let mut alone = std::pin::pin!(ranges.alone(8..9));
        assert!(poll(alone.as_mut()).is_pending(), "a writer has it");
        assert!(!ranges.is_held_alone(&(0..100)), "it waits");
        let mut late = std::pin::pin!(ranges.share(8..20));
        assert!(poll(late.as_mut()).is_pending(), "later than the direct operation");
        assert!(poll(std::pin::pin!(ranges.share(20..30)).as_mut()).is_ready(), "elsewhere");
        drop(one);
        let Poll::Ready(held) = poll(alone.as_mut()) else { panic!("its turn") };
        assert!(ranges.is_held_alone(&(0..100)) && !ranges.is_held_alone(&(9..100)));
        assert!(poll(late.as_mut()).is_pending());
        drop(held);
        assert!(poll(late.as_mut()).is_ready());
        assert!(!ranges.is_held_alone(&(0..100)));
    }

    #[test]
    fn who_only_tries_gets_what_is_free_and_does_not_wait() {
        let ranges = Ranges::default();
        let held = ranges.try_alone(0..10).expect("free");
        assert!(ranges.is_held_alone(&(5..6)));
        assert!(ranges.try_alone(9..20).is_none() && ranges.try_alone(10..20).is_some());
        let mut writer = std::pin::pin!(ranges.share(5..15));
        assert!(poll(writer.as_mut()).is_pending());
        assert!(ranges.try_alone(12..13).is_none(), "somebody waits for it");
        drop(held);
        assert!(poll(writer.as_mut()).is_ready());
    }
}
