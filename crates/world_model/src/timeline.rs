//! What will happen: events in the order (deadline, order of arming).

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::rc::Rc;

use world::io::Completer;

use crate::core::Core;

/// Something of the model that is told when its time has come: a disk, a pipe.
pub(crate) trait Fire {
    fn fire(self: Rc<Self>, core: &Core, token: u64);
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
pub(crate) struct Timers {
    heap: BinaryHeap<Armed>,
    seq: u64,
}

impl Timers {
    pub(crate) fn arm(&mut self, at_ns: u64, event: Event) {
        self.seq += 1;
        self.heap.push(Armed { at_ns, seq: self.seq, event });
    }

    /// The next event and its time. A sleep that nobody waits for any more does not move the clock.
    pub(crate) fn pop(&mut self) -> Option<(u64, Event)> {
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
