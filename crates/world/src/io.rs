//! Operations in flight: a concrete future, and the recycled cells through which it completes.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

/// An operation that was submitted and will complete with a `T`.
///
/// Dropping it abandons the outcome; the operation itself goes on.
#[must_use = "an operation is submitted already, but only awaiting it tells how it ended"]
pub struct Io<T>(State<T>);

enum State<T> {
    Ready(Option<T>),
    Waiting(Option<Rc<Slot<T>>>),
}

/// Where a world puts the outcome of one operation.
pub struct Completer<T>(Rc<Slot<T>>);

struct Slot<T> {
    inner: RefCell<Inner<T>>,
    home: Weak<Shelf<T>>,
}

struct Inner<T> {
    outcome: Option<T>,
    waker: Option<Waker>,
}

/// The recycled completion cells of one kind of operation. One per drive or socket back end.
pub struct Completions<T>(Rc<Shelf<T>>);

struct Shelf<T> {
    free: RefCell<Vec<Rc<Slot<T>>>>,
}

/// How many free cells are kept: more than the operations that one device has in flight in steady state.
const FREE_MAX: usize = 1024;

impl<T> Default for Completions<T> {
    fn default() -> Self {
        Completions(Rc::new(Shelf { free: RefCell::new(Vec::new()) }))
    }
}

impl<T> Completions<T> {
    /// A new operation: the future for the caller, the completer for the world.
    pub fn start(&self) -> (Io<T>, Completer<T>) {
        let slot = self.0.free.borrow_mut().pop().unwrap_or_else(|| {
            Rc::new(Slot {
                inner: RefCell::new(Inner { outcome: None, waker: None }),
                home: Rc::downgrade(&self.0),
            })
        });
        (Io(State::Waiting(Some(slot.clone()))), Completer(slot))
    }
}

impl<T> Completer<T> {
    /// Completes the operation and wakes whoever waits for it.
    pub fn complete(self, outcome: T) {
        let waker = {
            let mut inner = self.0.inner.borrow_mut();
            inner.outcome = Some(outcome);
            inner.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether the caller still waits: `false` once its future was dropped.
    pub fn is_awaited(&self) -> bool {
        Rc::strong_count(&self.0) > 1
    }
}

impl<T> Drop for Completer<T> {
    fn drop(&mut self) {
        recycle(&self.0);
    }
}

impl<T> Io<T> {
    /// An operation that has ended already.
    pub fn ready(outcome: T) -> Io<T> {
        Io(State::Ready(Some(outcome)))
    }

    /// The outcome if the operation has ended; otherwise the operation.
    pub fn try_now(self) -> Result<T, Io<T>> {
        let mut io = self;
        let outcome = match &mut io.0 {
            State::Ready(outcome) => outcome.take(),
            State::Waiting(slot) => slot.as_ref().and_then(|s| s.inner.borrow_mut().outcome.take()),
        };
        outcome.ok_or(io)
    }
}

impl<T> Unpin for Io<T> {}

impl<T> Future for Io<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match &mut self.0 {
            State::Ready(outcome) => Poll::Ready(outcome.take().expect("polled after completion")),
            State::Waiting(slot) => {
                let slot = slot.as_ref().expect("taken only by drop");
                let mut inner = slot.inner.borrow_mut();
                match inner.outcome.take() {
                    Some(outcome) => Poll::Ready(outcome),
                    None => {
                        match &mut inner.waker {
                            Some(waker) => waker.clone_from(cx.waker()),
                            none => *none = Some(cx.waker().clone()),
                        }
                        Poll::Pending
                    }
                }
            }
        }
    }
}

impl<T> Drop for Io<T> {
    fn drop(&mut self) {
        if let State::Waiting(Some(slot)) = &self.0 {
            recycle(slot);
        }
    }
}

/// The last holder of a cell clears it and puts it back. Called from a `drop`, so that the holder itself still counts.
///
/// The first of the two holders to go leaves an outcome that nobody took; the second clears it.
fn recycle<T>(slot: &Rc<Slot<T>>) {
    if Rc::strong_count(slot) != 1 {
        return;
    }
    let abandoned = {
        let mut inner = slot.inner.borrow_mut();
        inner.waker = None;
        inner.outcome.take()
    };
    drop(abandoned);
    if let Some(shelf) = slot.home.upgrade() {
        let mut free = shelf.free.borrow_mut();
        if free.len() < FREE_MAX {
            free.push(slot.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_recycled_and_empty() {
        let ops = Completions::<u32>::default();
        let (io, done) = ops.start();
        done.complete(5);
        assert_eq!(io.try_now().ok(), Some(5));
        assert_eq!(ops.0.free.borrow().len(), 1);
        let (io, done) = ops.start();
        drop(io);
        assert!(!done.is_awaited());
        done.complete(6);
        let (io, _done) = ops.start();
        assert!(io.try_now().is_err(), "an abandoned outcome does not leak into the next operation");
    }
}
