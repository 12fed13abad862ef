//! Operations in flight: a concrete future, and the recycled cells through which it completes.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use crate::latency::Stopwatch;
use crate::{OpenSpan, Trace};

/// A submitted operation that will complete with a `T`.
///
/// Dropping it abandons the outcome; the operation itself continues.
#[must_use = "an operation is submitted already, but only awaiting it tells how it ended"]
pub struct Io<T>(State<T>);

enum State<T> {
    Ready(Option<T>),
    Waiting(Option<Rc<Slot<T>>>),
}

/// Delivers the outcome of one operation; held by the world.
pub struct Completer<T>(Rc<Slot<T>>);

struct Slot<T> {
    inner: RefCell<Inner<T>>,
    /// The operation that has the cell, as a count.
    serial: Cell<u64>,
    /// The world has not completed it.
    in_flight: Cell<bool>,
    slow: Cell<bool>,
    given_up: Cell<bool>,
    home: Weak<Shelf<T>>,
}

struct Inner<T> {
    outcome: Option<T>,
    waker: Option<Waker>,
    unheard: Option<Rc<dyn Unheard<T>>>,
    stopwatch: Option<Stopwatch>,
    span: Option<OpenSpan>,
}

/// Gets the outcome of an operation that its caller does not take: it was given up, or its future dropped.
pub(crate) trait Unheard<T> {
    fn unheard(&self, outcome: T);
}

/// Observes an operation in flight, beside the caller and the world.
pub(crate) struct Followed<T> {
    slot: Weak<Slot<T>>,
    serial: u64,
}

/// The recycled completion cells of one kind of operation. One per drive or socket back end.
pub struct Completions<T>(Rc<Shelf<T>>);

struct Shelf<T> {
    free: RefCell<Vec<Rc<Slot<T>>>>,
}

/// Free cells that are kept: more than the operations of one device in flight in steady state.
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
                inner: RefCell::new(Inner {
                    outcome: None,
                    waker: None,
                    unheard: None,
                    stopwatch: None,
                    span: None,
                }),
                serial: Cell::new(0),
                in_flight: Cell::new(false),
                slow: Cell::new(false),
                given_up: Cell::new(false),
                home: Rc::downgrade(&self.0),
            })
        });
        slot.serial.set(slot.serial.get() + 1);
        slot.in_flight.set(true);
        slot.slow.set(false);
        slot.given_up.set(false);
        (Io(State::Waiting(Some(slot.clone()))), Completer(slot))
    }
}

impl<T> Completer<T> {
    /// Completes the operation and wakes its waiter. The waiter of an abandoned operation already has its
    /// error.
    pub fn complete(self, outcome: T) {
        let given_up = self.0.given_up.get();
        let unheard = {
            let mut inner = self.0.inner.borrow_mut();
            inner.span = None;
            if let Some(stopwatch) = inner.stopwatch.take() {
                stopwatch.stop();
            }
            if given_up { inner.unheard.take() } else { None }
        };
        if !given_up {
            self.0.put(outcome);
        } else if let Some(unheard) = unheard {
            unheard.unheard(outcome);
        }
    }

    /// Whether the caller still waits: `false` after its future was dropped.
    pub fn is_awaited(&self) -> bool {
        Rc::strong_count(&self.0) > 1
    }
}

impl<T> Slot<T> {
    fn put(&self, outcome: T) {
        let waker = {
            let mut inner = self.inner.borrow_mut();
            inner.outcome = Some(outcome);
            inner.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Drop for Completer<T> {
    fn drop(&mut self) {
        self.0.in_flight.set(false);
        recycle(&self.0);
    }
}

impl<T> Io<T> {
    /// An operation that has already ended.
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

impl<T> Io<T> {
    /// Waits until the operation has ended, or counts as slow (see [`crate::Patience`]): then it is returned
    /// and may be awaited further.
    pub fn unless_slow(self) -> UnlessSlow<T> {
        UnlessSlow(Some(self))
    }

    /// An observer of the operation; `None` if it ended at once.
    pub(crate) fn follow(&self) -> Option<Followed<T>> {
        match &self.0 {
            State::Waiting(Some(slot)) => {
                Some(Followed { slot: Rc::downgrade(slot), serial: slot.serial.get() })
            }
            _ => None,
        }
    }

    /// Records it in the trace of its command, if the command is traced: until the world completes it.
    pub fn traced(self, trace: Option<&Trace>, stage: &'static str, object: &str) -> Io<T> {
        if let Some(trace) = trace {
            let span = trace.begin(stage, object);
            if let State::Waiting(Some(slot)) = &self.0 {
                slot.inner.borrow_mut().span = Some(span);
            }
        }
        self
    }

    /// Who gets the outcome if the caller does not take it.
    pub(crate) fn unless_heard(&self, unheard: Rc<dyn Unheard<T>>) {
        if let State::Waiting(Some(slot)) = &self.0 {
            slot.inner.borrow_mut().unheard = Some(unheard);
        }
    }

    /// Measures how long it takes.
    pub(crate) fn time(&self, stopwatch: Stopwatch) {
        if let State::Waiting(Some(slot)) = &self.0 {
            slot.inner.borrow_mut().stopwatch = Some(stopwatch);
        }
    }
}

impl<T> Followed<T> {
    fn slot(&self) -> Option<Rc<Slot<T>>> {
        self.slot.upgrade().filter(|slot| slot.serial.get() == self.serial && slot.in_flight.get())
    }

    /// Whether the world still works on it.
    pub(crate) fn is_in_flight(&self) -> bool {
        self.slot().is_some()
    }

    /// Tells the waiter that the operation is slow.
    pub(crate) fn tell_slow(&self) {
        let Some(slot) = self.slot() else { return };
        slot.slow.set(true);
        let waker = slot.inner.borrow_mut().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Ends the wait. The world keeps the operation's buffers until it completes.
    pub(crate) fn give_up(&self, outcome: T) {
        let Some(slot) = self.slot() else { return };
        if !slot.given_up.replace(true) {
            slot.put(outcome);
        }
    }
}

/// See [`Io::unless_slow`].
#[must_use = "only awaiting it tells"]
pub struct UnlessSlow<T>(Option<Io<T>>);

impl<T> Future for UnlessSlow<T> {
    type Output = Result<T, Io<T>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut io = self.0.take().expect("polled after completion");
        match Pin::new(&mut io).poll(cx) {
            Poll::Ready(outcome) => Poll::Ready(Ok(outcome)),
            Poll::Pending if matches!(&io.0, State::Waiting(Some(slot)) if slot.slow.get()) => {
                Poll::Ready(Err(io))
            }
            Poll::Pending => {
                self.0 = Some(io);
                Poll::Pending
            }
        }
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

/// The last holder clears the cell and returns it. Called from a `drop`, so that the holder itself still
/// counts.
///
/// The first of the two holders to leave takes an outcome that nobody took; the second clears it.
fn recycle<T>(slot: &Rc<Slot<T>>) {
    if Rc::strong_count(slot) != 1 {
        return;
    }
    let (abandoned, unheard) = {
        let mut inner = slot.inner.borrow_mut();
        inner.waker = None;
        inner.stopwatch = None;
        inner.span = None;
        (inner.outcome.take(), inner.unheard.take())
    };
    if let (Some(outcome), Some(unheard)) = (abandoned, unheard) {
        unheard.unheard(outcome);
    }
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

    #[test]
    fn what_is_followed_ends_once_and_is_never_taken_for_the_next_operation() {
        let ops = Completions::<u32>::default();
        let (io, done) = ops.start();
        let followed = io.follow().expect("in flight");
        followed.give_up(7);
        assert!(followed.is_in_flight(), "the world still has it");
        assert_eq!(io.try_now().ok(), Some(7));
        done.complete(8);
        assert!(!followed.is_in_flight());
        let (io, done) = ops.start();
        assert_eq!(ops.0.free.borrow().len(), 0, "the same cell");
        followed.give_up(9);
        followed.tell_slow();
        done.complete(10);
        assert_eq!(io.try_now().ok(), Some(10));
        assert!(ops.start().0.follow().is_some());
        assert!(Io::ready(1).follow().is_none());
    }

    #[test]
    fn an_outcome_is_heard_once_by_the_caller_or_by_whoever_gets_the_unheard_ones() {
        #[derive(Default)]
        struct Heard(RefCell<Vec<u32>>);
        impl Unheard<u32> for Heard {
            fn unheard(&self, outcome: u32) {
                self.0.borrow_mut().push(outcome);
            }
        }
        let (ops, heard) = (Completions::<u32>::default(), Rc::new(Heard::default()));
        let start = || {
            let (io, done) = ops.start();
            io.unless_heard(heard.clone());
            (io, done)
        };
        let (io, done) = start();
        done.complete(1);
        assert_eq!(io.try_now().ok(), Some(1));
        let (io, done) = start();
        io.follow().expect("in flight").give_up(0);
        assert_eq!(io.try_now().ok(), Some(0));
        done.complete(2);
        assert_eq!(heard.0.take(), [2], "it was given up");
        let (io, done) = start();
        drop(io);
        done.complete(3);
        assert_eq!(heard.0.take(), [3], "its caller went away before");
        let (io, done) = start();
        done.complete(4);
        drop(io);
        assert_eq!(heard.0.take(), [4], "its caller went away after");
        let (io, done) = ops.start();
        drop(io);
        done.complete(5);
        assert!(heard.0.take().is_empty(), "the same cell, of another operation");
    }

    #[test]
    fn an_operation_that_is_told_to_be_slow_comes_back_and_ends_later() {
        let ops = Completions::<u32>::default();
        let (io, done) = ops.start();
        let followed = io.follow().expect("in flight");
        let mut wait = io.unless_slow();
        let mut cx = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut wait).poll(&mut cx).is_pending());
        followed.tell_slow();
        let Poll::Ready(Err(io)) = Pin::new(&mut wait).poll(&mut cx) else { panic!("it is slow") };
        done.complete(3);
        assert_eq!(io.try_now().ok(), Some(3));
    }
}
