//! What counts: completions between the end of the warm-up and the end of the load.

use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use world::Instant;

use super::access::Op;
use super::live::Live;
use super::workers::Counts;

/// The longest latency that is told apart: a minute.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// Completions of one worker are counted here.
pub(super) struct Window {
    from: Instant,
    to: Instant,
    now: Instant,
    live: Arc<Live>,
    number: usize,
    pub(super) latency: Histogram<u64>,
    pub(super) ios: u64,
    pub(super) bytes: u64,
    pub(super) failed: u64,
    pub(super) mismatches: u64,
    /// Of an open loop: due within the load and never sent.
    pub(super) unsent: u64,
    /// What was under way when the window closed, and is not counted.
    pub(super) late: Late,
}

/// I/Os that ended after the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Late {
    pub(super) ios: u64,
    pub(super) failed: u64,
    pub(super) longest_ns: u64,
}

impl Late {
    /// With those of another worker.
    pub(super) fn and(self, other: Late) -> Late {
        Late {
            ios: self.ios + other.ios,
            failed: self.failed + other.failed,
            longest_ns: self.longest_ns.max(other.longest_ns),
        }
    }
}

impl Window {
    pub(super) fn new(
        start: Instant,
        warm_up_s: f64,
        seconds: f64,
        live: Arc<Live>,
        number: usize,
    ) -> Window {
        let from = start + Duration::from_secs_f64(warm_up_s);
        let latency =
            Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("bounds that the histogram takes");
        Window {
            from,
            to: from + Duration::from_secs_f64(seconds),
            now: start,
            live,
            number,
            latency,
            ios: 0,
            bytes: 0,
            failed: 0,
            mismatches: 0,
            unsent: 0,
            late: Late::default(),
        }
    }

    /// Whether more is to be sent, as of the last completion: for those who do not look at the clock.
    pub(super) fn is_going(&self) -> bool {
        self.is_open(self.now)
    }
}

impl Counts for Window {
    fn is_open(&self, now: Instant) -> bool {
        now < self.to && !self.live.is_stopped()
    }

    fn end(&self) -> Instant {
        self.to
    }

    fn begun(&mut self, _: Instant) {}

    fn completed(&mut self, due: Instant, completed: Instant, op: Op, good: bool) {
        self.now = completed;
        self.live.count(self.number, op.len);
        if completed < self.from {
            return;
        }
        let ns = u64::try_from(completed.since(due).as_nanos()).unwrap_or(LATENCY_NS_MAX);
        if completed >= self.to {
            self.late = self.late.and(Late { ios: 1, failed: u64::from(!good), longest_ns: ns });
            return;
        }
        self.ios += 1;
        self.bytes += if good { op.len } else { 0 };
        self.failed += u64::from(!good);
        self.latency.saturating_record(ns.max(1));
    }

    fn mismatched(&mut self, blocks: u64) {
        self.mismatches += blocks;
    }

    fn left_behind(&mut self, unsent: u64) {
        self.unsent = unsent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OP: Op = Op { at: 0, len: 4096, reads: true, pause: None };

    #[test]
    fn only_what_ends_within_the_window_counts() {
        let mut window = Window::new(Instant(0), 1.0, 1.0, Arc::new(Live::new(1)), 0);
        let s = 1_000_000_000;
        for (completed, good) in [(s / 2, true), (s, true), (s + 1, false), (2 * s, true), (2 * s + 1, false)]
        {
            window.completed(Instant(completed - 1000), Instant(completed), OP, good);
        }
        assert_eq!((window.ios, window.failed, window.bytes, window.is_going()), (2, 1, 4096, false));
        assert_eq!(window.latency.max(), 1000);
        // A load that a target answered after its end lost these without a word.
        assert_eq!(window.late, Late { ios: 2, failed: 1, longest_ns: 1000 });
    }

    #[test]
    fn who_is_stopped_sends_nothing_more() {
        let live = Arc::new(Live::new(1));
        let window = Window::new(Instant(0), 0.0, 1.0, live.clone(), 0);
        assert!(window.is_open(Instant(1)));
        live.stop();
        assert!(!window.is_open(Instant(1)));
    }
}
