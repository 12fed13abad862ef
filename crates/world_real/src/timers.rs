//! Timers: a heap of deadlines; the earliest bounds the wait of the ring, so that no timer is a system call.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use world::Instant;
use world::io::{Completer, Completions, Io};

/// Abandoned timers are swept when the heap has at least this many entries and has doubled since the last
/// sweep.
const SWEEP_LEN_MIN: usize = 1024;

struct Timer {
    /// Deadline, then the order of the calls: timers of one deadline fire in the order in which they were
    /// set.
    key: Reverse<(Instant, u64)>,
    end: Completer<()>,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Timer) -> bool {
        self.key == other.key
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Timer) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Timer) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

/// The timers of one world.
pub(crate) struct Timers {
    heap: BinaryHeap<Timer>,
    cells: Completions<()>,
    set: u64,
    sweep_at_len: usize,
}

impl Default for Timers {
    fn default() -> Timers {
        Timers { heap: BinaryHeap::new(), cells: Completions::default(), set: 0, sweep_at_len: SWEEP_LEN_MIN }
    }
}

impl Timers {
    /// A timer that ends at `deadline`.
    pub(crate) fn set(&mut self, deadline: Instant) -> Io<()> {
        if self.heap.len() >= self.sweep_at_len {
            // A timeout that lost its race stays here until its deadline: without the sweep, a long timeout
            // per command would accumulate.
            self.heap.retain(|timer| timer.end.is_awaited());
            self.sweep_at_len = (self.heap.len() * 2).max(SWEEP_LEN_MIN);
        }
        let (io, end) = self.cells.start();
        self.heap.push(Timer { key: Reverse((deadline, self.set)), end });
        self.set += 1;
        io
    }

    /// The time from `now` to the next deadline with a waiter.
    pub(crate) fn next_in(&mut self, now: Instant) -> Option<Duration> {
        while let Some(first) = self.heap.peek() {
            if first.end.is_awaited() {
                return Some(first.key.0.0.since(now));
            }
            self.heap.pop();
        }
        None
    }

    /// Whether any timer is set.
    pub(crate) fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// Ends every timer whose deadline has come, in order.
    pub(crate) fn fire(&mut self, now: Instant) {
        while self.heap.peek().is_some_and(|first| first.key.0.0 <= now) {
            if let Some(timer) = self.heap.pop() {
                timer.end.complete(());
            }
        }
    }

    /// Forgets all timers.
    pub(crate) fn clear(&mut self) {
        self.heap.clear();
    }
}
