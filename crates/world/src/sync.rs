//! Waiting within one thread: a signal, and permits that limit what is in flight.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// A condition that tasks wait for. Waiters check their condition again after every wake.
///
/// Waiting, a wake and leaving cost the same however many wait: hosts choose how many do.
#[derive(Default)]
pub struct Signal {
    /// The oldest first: numbers rise, so whether a waiter is still in the queue is seen at its front.
    waiters: RefCell<VecDeque<(u64, Waker)>>,
    next: Cell<u64>,
}

/// The place of one waiter; leaves the queue when dropped.
struct Place<'a> {
    signal: &'a Signal,
    number: Option<u64>,
}

impl Signal {
    /// Waits until `ready` returns a value; it is called at once and after every wake.
    pub async fn wait_for<T>(&self, mut ready: impl FnMut() -> Option<T>) -> T {
        let mut place = Place { signal: self, number: None };
        poll_fn(|cx| match ready() {
            Some(value) => Poll::Ready(value),
            None => {
                place.keep(cx.waker());
                Poll::Pending
            }
        })
        .await
    }

    /// Wakes all waiters.
    pub fn wake_all(&self) {
        // A woken task runs later, never inside wake(), so the list does not change during the loop; taking
        // one at a time keeps the storage for the next waiters.
        while let Some(waker) = self.pop() {
            waker.wake();
        }
    }

    /// Wakes the waiter that has waited longest.
    pub fn wake_one(&self) {
        if let Some(waker) = self.pop() {
            waker.wake();
        }
    }

    fn pop(&self) -> Option<Waker> {
        self.waiters.borrow_mut().pop_front().map(|(_, waker)| waker)
    }
}

impl Place<'_> {
    /// The index in the queue; `None` once it was woken.
    fn index(&self, waiters: &VecDeque<(u64, Waker)>) -> Option<usize> {
        let number = self.number.filter(|&number| waiters.front().is_some_and(|first| first.0 <= number))?;
        waiters.binary_search_by_key(&number, |waiter| waiter.0).ok()
    }

    /// Takes a place at the end of the queue, or keeps the one that it has.
    fn keep(&mut self, waker: &Waker) {
        let mut waiters = self.signal.waiters.borrow_mut();
        if let Some(index) = self.index(&waiters) {
            waiters[index].1.clone_from(waker);
            return;
        }
        let number = self.signal.next.get();
        self.signal.next.set(number + 1);
        waiters.push_back((number, waker.clone()));
        self.number = Some(number);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut waiters = self.signal.waiters.borrow_mut();
        if let Some(index) = self.index(&waiters) {
            waiters.remove(index);
        }
    }
}

/// A number of permits; operations in flight hold some and return them when dropped.
#[derive(Clone)]
pub struct Permits(Rc<Counted>);

struct Counted {
    free: Cell<u64>,
    freed: Signal,
}

/// Permits held; returned when dropped.
pub struct Permit {
    from: Rc<Counted>,
    count: u64,
}

impl Permits {
    /// `count` permits.
    pub fn new(count: u64) -> Permits {
        Permits(Rc::new(Counted { free: Cell::new(count), freed: Signal::default() }))
    }

    /// Waits for `count` permits. A count over the total never succeeds: a bug of the caller.
    pub async fn take(&self, count: u64) -> Permit {
        self.0.freed.wait_for(|| self.try_take(count)).await
    }

    /// `count` permits if they are free now.
    pub fn try_take(&self, count: u64) -> Option<Permit> {
        let free = self.0.free.get().checked_sub(count)?;
        self.0.free.set(free);
        Some(Permit { from: self.0.clone(), count })
    }

    /// The number of free permits.
    pub fn free(&self) -> u64 {
        self.0.free.get()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.from.free.set(self.from.free.get() + self.count);
        self.from.freed.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    #[test]
    fn a_waiter_has_one_place_and_leaves_with_it() {
        let signal = Signal::default();
        let waiting = || signal.waiters.borrow().len();
        let mut cx = Context::from_waker(Waker::noop());
        let go = Cell::new(false);
        let mut first = pin!(signal.wait_for(|| go.get().then_some(())));
        for _ in 0..3 {
            assert!(first.as_mut().poll(&mut cx).is_pending());
        }
        assert_eq!(waiting(), 1, "polled without a wake");
        for _ in 0..3 {
            let mut other = Box::pin(signal.wait_for(|| None::<()>));
            assert!(other.as_mut().poll(&mut cx).is_pending());
            assert_eq!(waiting(), 2);
        }
        assert_eq!(waiting(), 1, "the others were dropped");
        signal.wake_one();
        assert_eq!(waiting(), 0);
        assert!(first.as_mut().poll(&mut cx).is_pending());
        assert_eq!(waiting(), 1, "woken, and not ready");
        go.set(true);
        assert!(first.as_mut().poll(&mut cx).is_ready());
    }

    struct Woken(std::sync::atomic::AtomicBool);

    impl std::task::Wake for Woken {
        fn wake(self: std::sync::Arc<Self>) {
            self.0.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }

    #[test]
    fn one_that_gave_up_is_not_woken_in_place_of_one_that_waits() {
        let signal = Signal::default();
        let mut gone = Box::pin(signal.wait_for(|| None::<()>));
        assert!(gone.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let woken = std::sync::Arc::new(Woken(false.into()));
        let waker = Waker::from(woken.clone());
        let mut waits = pin!(signal.wait_for(|| None::<()>));
        assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(gone);
        signal.wake_one();
        assert!(woken.0.load(std::sync::atomic::Ordering::Relaxed));
    }
}
