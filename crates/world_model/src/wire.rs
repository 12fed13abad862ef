//! A port that connections share: one wire for each direction, on which their flights take turns.
//!
//! ```text
//!   pipe a ──┐ in turns, a flight each
//!   pipe b ──┼──────────> wire ──latency──> the pipe's other end
//!   pipe c ──┘
//! ```

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::links::Link;
use crate::pipe::Pipe;
use crate::timeline::{Fire, Timeline};

/// The traffic of one direction of a port, in all runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// What the connections sent.
    pub payload_bytes: u64,
    /// With the frames around it.
    pub wire_bytes: u64,
    /// For how long the wire was occupied.
    pub busy_ns: u64,
}

/// One direction of a shared port.
pub(crate) struct Wire {
    link: Cell<Link>,
    /// Pipes with flights to carry, each once.
    waiting: RefCell<VecDeque<Rc<Pipe>>>,
    occupied: Cell<bool>,
    carried: Cell<Carried>,
}

impl Wire {
    pub(crate) fn new(link: Link) -> Wire {
        Wire {
            link: Cell::new(link),
            waiting: RefCell::default(),
            occupied: Cell::new(false),
            carried: Cell::default(),
        }
    }

    pub(crate) fn set_link(&self, link: Link) {
        self.link.set(link);
    }

    pub(crate) fn carried(&self) -> Carried {
        self.carried.get()
    }

    /// The run is over.
    pub(crate) fn end(&self) {
        self.occupied.set(false);
        drop(self.waiting.take());
    }

    /// Whether nothing is on it. Then nobody waits either.
    pub(crate) fn is_free(&self) -> bool {
        !self.occupied.get()
    }

    /// Registers a pipe whose flights now wait.
    pub(crate) fn queue(&self, pipe: Rc<Pipe>) {
        self.waiting.borrow_mut().push_back(pipe);
    }

    /// Carries a flight of this pipe now.
    pub(crate) fn carry(self: &Rc<Wire>, timeline: &Timeline, pipe: Rc<Pipe>, bytes: u64) {
        let link = self.link.get();
        let wire_ns = link.wire_ns(bytes);
        let carried = self.carried.get();
        self.carried.set(Carried {
            payload_bytes: carried.payload_bytes + bytes,
            wire_bytes: carried.wire_bytes.saturating_add(link.wire_bytes(bytes)),
            busy_ns: carried.busy_ns.saturating_add(wire_ns),
        });
        self.occupied.set(true);
        let done_ns = timeline.now_ns().saturating_add(wire_ns);
        timeline.arm(done_ns.saturating_add(link.latency_ns()), pipe, 0);
        timeline.arm(done_ns, self.clone(), 0);
    }
}

impl Fire for Wire {
    fn fire(self: Rc<Self>, timeline: &Timeline, _: u64) {
        loop {
            let pipe = self.waiting.borrow_mut().pop_front();
            let Some(pipe) = pipe else {
                self.occupied.set(false);
                return;
            };
            // None: the connection was broken off while it waited.
            if let Some(turn) = pipe.take_turn() {
                if turn.more {
                    self.waiting.borrow_mut().push_back(pipe.clone());
                }
                return self.carry(timeline, pipe, turn.bytes);
            }
        }
    }
}
