//! Waiting within one thread: a signal, and permits that limit what is in flight.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// A condition that tasks wait for. Waiters check their condition again after every wake.
#[derive(Default)]
pub struct Signal {
    waiters: RefCell<VecDeque<Waker>>,
}

impl Signal {
    /// Waits until `ready` returns a value; it is called at once and after every wake.
    pub async fn wait_for<T>(&self, mut ready: impl FnMut() -> Option<T>) -> T {
        poll_fn(|cx| match ready() {
            Some(value) => Poll::Ready(value),
            None => {
                let mut waiters = self.waiters.borrow_mut();
                if !waiters.iter().any(|w| w.will_wake(cx.waker())) {
                    waiters.push_back(cx.waker().clone());
                }
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
        self.waiters.borrow_mut().pop_front()
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
