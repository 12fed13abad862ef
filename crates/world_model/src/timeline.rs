//! The time of one run: its clock, its events (by deadline and order of arming), its trace, and its random
//! streams. Disks and links use it; they know nothing of tasks.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::rc::Rc;

use world::Rng;
use world::io::Completer;

use crate::trace::{Trace, digest_of};

/// The stream of this name: the same for the same seed, whatever is drawn from the others.
pub(crate) fn stream(seed: u64, name: &str) -> Rng {
    Rng::with_seed(seed ^ digest_of(name.as_bytes()))
}

/// Something of the model that is told when its time has come: a disk, a pipe.
pub(crate) trait Fire {
    fn fire(self: Rc<Self>, timeline: &Timeline, token: u64);
}

/// The time of one run. Events hold what they tell, which may hold this: [`Timeline::end`] takes the circle
/// apart.
pub(crate) struct Timeline {
    pub(crate) latency: RefCell<Rng>,
    pub(crate) segments: RefCell<Rng>,
    trace: Rc<Trace>,
    now_ns: Cell<u64>,
    timers: RefCell<Timers>,
}

impl Timeline {
    /// Time begins.
    pub(crate) fn new(seed: u64, trace: Rc<Trace>) -> Rc<Timeline> {
        Rc::new(Timeline {
            latency: RefCell::new(stream(seed, "latency")),
            segments: RefCell::new(stream(seed, "segments")),
            trace,
            now_ns: Cell::new(0),
            timers: RefCell::default(),
        })
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }

    pub(crate) fn record(&self, what: &'static str, who: u64, value: u64) {
        self.trace.record(self.now_ns(), what, who, value);
    }

    /// Tells `target` at `at_ns`.
    pub(crate) fn arm(&self, at_ns: u64, target: Rc<dyn Fire>, token: u64) {
        self.timers.borrow_mut().arm(at_ns, Event::Fire(target, token));
    }

    /// Completes a sleep at `at_ns`.
    pub(crate) fn wake(&self, at_ns: u64, done: Completer<()>) {
        self.timers.borrow_mut().arm(at_ns, Event::Wake(done));
    }

    /// Advances to the next event; `None` if there is none.
    pub(crate) fn advance(&self) -> Option<Event> {
        let (at_ns, event) = self.timers.borrow_mut().pop()?;
        self.now_ns.set(at_ns.max(self.now_ns()));
        Some(event)
    }

    /// Cancels all events.
    pub(crate) fn end(&self) {
        drop(self.timers.take());
    }
}

pub(crate) enum Event {
    /// A task sleeps.
    Wake(Completer<()>),
    /// A model object is told, with the token that it armed.
    Fire(Rc<dyn Fire>, u64),
}

struct Armed {
    at_ns: u64,
    seq: u64,
    event: Event,
}

#[derive(Default)]
struct Timers {
    heap: BinaryHeap<Armed>,
    seq: u64,
}

impl Timers {
    fn arm(&mut self, at_ns: u64, event: Event) {
        self.seq += 1;
        self.heap.push(Armed { at_ns, seq: self.seq, event });
    }

    /// The next event and its time. A sleep that nobody waits for any more does not move the clock.
    fn pop(&mut self) -> Option<(u64, Event)> {
        while let Some(armed) = self.heap.pop() {
            match &armed.event {
                Event::Wake(done) if !done.is_awaited() => continue,
                _ => return Some((armed.at_ns, armed.event)),
            }
        }
        None
    }
}

impl Ord for Armed {
    fn cmp(&self, other: &Armed) -> Ordering {
        // The heap gives its greatest first.
        (other.at_ns, other.seq).cmp(&(self.at_ns, self.seq))
    }
}

impl PartialOrd for Armed {
    fn partial_cmp(&self, other: &Armed) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Armed {
    fn eq(&self, other: &Armed) -> bool {
        self.seq == other.seq
    }
}

impl Eq for Armed {}
