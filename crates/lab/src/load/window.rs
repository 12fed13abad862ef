//! Where a load goes next, and what counts: completions between the end of the warm-up and the end of the load.

use std::time::Duration;

use hdrhistogram::Histogram;
use world::{Instant, Rng};

use super::{Outcome, Plan};

/// The places of a load, one after the other.
pub(crate) struct Places {
    random: bool,
    size: u64,
    slots: u64,
    next: u64,
    rng: Rng,
}

impl Places {
    /// Over `len` bytes. Of several connections that go in sequence, each begins at its own part.
    pub(crate) fn new(
        random: bool,
        size: u64,
        len: u64,
        (index, connections): (usize, usize),
        rng: Rng,
    ) -> Places {
        let slots = len / size;
        Places { random, size, slots, next: slots * index as u64 / connections as u64, rng }
    }

    /// The next place, in bytes.
    pub(crate) fn next(&mut self) -> u64 {
        if self.random {
            return self.rng.u64(0..self.slots) * self.size;
        }
        let at = self.next;
        self.next = (at + 1) % self.slots;
        at * self.size
    }

    /// Bytes of one command.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }
}

/// The longest latency that is told apart: a minute.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// Completions are counted here.
pub(crate) struct Window {
    from: Instant,
    to: Instant,
    now: Instant,
    latency: Histogram<u64>,
    ios: u64,
    failed: u64,
    mismatches: u64,
}

impl Window {
    pub(crate) fn new(start: Instant, warm_up_s: f64, seconds: f64) -> Window {
        let from = start + Duration::from_secs_f64(warm_up_s);
        let latency =
            Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("bounds that the histogram takes");
        Window {
            from,
            to: from + Duration::from_secs_f64(seconds),
            now: start,
            latency,
            ios: 0,
            failed: 0,
            mismatches: 0,
        }
    }

    /// Whether more is to be sent.
    pub(crate) fn is_open(&self) -> bool {
        self.now < self.to
    }

    /// A command ended.
    pub(crate) fn completed(&mut self, submitted: Instant, completed: Instant, good: bool) {
        self.now = completed;
        if completed < self.from || completed >= self.to {
            return;
        }
        self.ios += 1;
        self.failed += u64::from(!good);
        let ns = u64::try_from(completed.since(submitted).as_nanos()).unwrap_or(LATENCY_NS_MAX);
        self.latency.saturating_record(ns.max(1));
    }

    /// Blocks that were not as written.
    pub(crate) fn mismatched(&mut self, blocks: u64) {
        self.mismatches += blocks;
    }

    /// What it came to.
    pub(crate) fn outcome(self, plan: &Plan, cpu: Duration) -> Outcome {
        Outcome::new(plan, self.ios, self.failed, self.mismatches, self.latency, cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_wrap_and_connections_begin_apart() {
        let rng = || Rng::with_seed(1);
        let mut places = Places::new(false, 10, 45, (1, 2), rng());
        assert_eq!([places.next(), places.next(), places.next()], [20, 30, 0]);
        let mut random = Places::new(true, 10, 45, (0, 1), rng());
        assert!((0..100).all(|_| random.next() <= 30));
    }

    #[test]
    fn only_what_ends_within_the_window_counts() {
        let mut window = Window::new(Instant(0), 1.0, 1.0);
        let s = 1_000_000_000;
        for (completed, good) in [(s / 2, true), (s, true), (s + 1, false), (2 * s, true)] {
            window.completed(Instant(completed - 1000), Instant(completed), good);
        }
        assert_eq!((window.ios, window.failed, window.is_open()), (2, 1, false));
        assert_eq!(window.latency.max(), 1000);
    }
}
