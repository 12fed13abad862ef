//! The reactor: holds the operations in flight and submits them to the ring.

use std::cell::{Cell, RefCell};
use std::io;
use std::time::Duration;

use io_uring::squeue::Entry;

use crate::operations::Op;
use crate::ring::{Ended, Ring, Sleep};

/// One thread's ring and what is in flight on it.
pub(crate) struct Reactor {
    ring: RefCell<Ring>,
    /// In flight, by the number that the kernel gives back.
    ops: RefCell<Vec<Option<Op>>>,
    free: RefCell<Vec<u32>>,
    in_flight: Cell<usize>,
    ended: Cell<Vec<Ended>>,
    closing: Cell<bool>,
}

/// How long the end of a world waits for operations that the kernel does not complete (a dead disk) before
/// their memory is leaked.
const DRAIN_TURNS_MAX: u32 = 50;
const DRAIN_TURN: Duration = Duration::from_millis(100);

impl Reactor {
    pub(crate) fn new(ring: Ring) -> Reactor {
        Reactor {
            ring: RefCell::new(ring),
            ops: RefCell::default(),
            free: RefCell::default(),
            in_flight: Cell::new(0),
            ended: Cell::default(),
            closing: Cell::new(false),
        }
    }

    /// Adds an operation: it is submitted at the end of the turn.
    pub(crate) fn submit(&self, mut op: Op) {
        assert!(!self.closing.get(), "the world has ended; its drives and sockets are closed");
        let entry = op.entry();
        self.enter(op, entry);
    }

    fn enter(&self, op: Op, entry: Entry) {
        let mut ops = self.ops.borrow_mut();
        let id = self.free.borrow_mut().pop().unwrap_or_else(|| {
            ops.push(None);
            u32::try_from(ops.len() - 1).expect("fewer than 2^32 operations are in flight")
        });
        ops[id as usize] = Some(op);
        drop(ops);
        self.in_flight.set(self.in_flight.get() + 1);
        let entry = entry.user_data(u64::from(id));
        // SAFETY: the entry points into heap memory that the operation owns; the operation stays in `ops`
        // until its result is reaped, and is leaked rather than freed if that never happens (see `drain`).
        unsafe { self.ring.borrow_mut().push(&entry) };
    }

    /// One turn of the ring: submit, sleep, reap, complete.
    pub(crate) fn turn(&self, sleep: Sleep) -> io::Result<()> {
        let mut ended = self.ended.take();
        {
            let mut ring = self.ring.borrow_mut();
            ring.turn(sleep)?;
            ring.take_ended(&mut ended);
        }
        for end in ended.drain(..) {
            self.complete(end);
        }
        self.ended.set(ended);
        Ok(())
    }

    /// Whether a turn would find a completion. Reads memory only.
    pub(crate) fn has_news(&self) -> bool {
        self.ring.borrow_mut().has_news()
    }

    fn complete(&self, end: Ended) {
        let id = u32::try_from(end.id).expect("numbers are u32");
        let op =
            self.ops.borrow_mut()[id as usize].take().expect("a result belongs to an operation in flight");
        self.free.borrow_mut().push(id);
        self.in_flight.set(self.in_flight.get() - 1);
        // Completing wakes tasks and may drop handles; no borrow is held.
        if let Some(mut again) = op.complete(end.result)
            && !self.closing.get()
        {
            let entry = again.entry();
            self.enter(again, entry);
        }
    }

    /// Cancels everything in flight and waits until the kernel no longer uses the memory.
    pub(crate) fn drain(&self) {
        self.closing.set(true);
        let entry = Op::CancelAll.entry();
        self.enter(Op::CancelAll, entry);
        for _ in 0..DRAIN_TURNS_MAX {
            if self.in_flight.get() == 0 {
                return;
            }
            if self.turn(Sleep::AtMost(DRAIN_TURN)).is_err() {
                break;
            }
        }
        // The kernel may still write into these buffers: their memory is never freed.
        std::mem::forget(self.ops.take());
    }
}
