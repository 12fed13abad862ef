//! The latency of a drive's operations: a sample, by the minute.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use crate::{Instant, Kind, Stage, TaskBackend};

/// The fewest measurements in a minute for a percentile.
const SAMPLES_MIN: u32 = 20;
/// Buckets per factor of two: a percentile is accurate to within 19 %.
const PARTS: u32 = 4;
/// From 1 us to 2^24 us, 17 s.
const BUCKETS: usize = 24 * PARTS as usize;

/// The current minute and the one before.
pub(crate) struct Latencies {
    tasks: Rc<dyn TaskBackend>,
    minute: Cell<u64>,
    now: RefCell<[u32; BUCKETS]>,
    last: RefCell<[u32; BUCKETS]>,
    /// Since the drive was opened.
    pub(crate) stage: Stage,
}

/// A measurement in progress.
pub(crate) struct Stopwatch {
    began: Instant,
    kind: Kind,
    of: Rc<Latencies>,
}

impl Stopwatch {
    pub(crate) fn start(of: &Rc<Latencies>, kind: Kind) -> Stopwatch {
        Stopwatch { began: of.tasks.now(), kind, of: of.clone() }
    }

    pub(crate) fn stop(self) {
        let now = self.of.tasks.now();
        self.of.turn(now);
        self.of.now.borrow_mut()[bucket(now - self.began)] += 1;
        self.of.stage.record(now - self.began, self.kind);
    }
}

impl Latencies {
    pub(crate) fn new(tasks: Rc<dyn TaskBackend>) -> Latencies {
        let none = || RefCell::new([0; BUCKETS]);
        Latencies { tasks, minute: Cell::new(0), now: none(), last: none(), stage: Stage::default() }
    }

    fn turn(&self, now: Instant) {
        let minute = now.0 / 60_000_000_000;
        let passed = minute - self.minute.replace(minute).min(minute);
        if passed > 0 {
            let ended = self.now.replace([0; BUCKETS]);
            *self.last.borrow_mut() = if passed == 1 { ended } else { [0; BUCKETS] };
        }
    }

    /// The 99th percentile of the last whole minute; `None` with too few measurements.
    pub(crate) fn p99(&self) -> Option<Duration> {
        self.turn(self.tasks.now());
        let last = self.last.borrow();
        let total: u32 = last.iter().sum();
        if total < SAMPLES_MIN {
            return None;
        }
        let mut left = total - total.div_ceil(100);
        let at = last.iter().position(|count| match left.checked_sub(*count) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        });
        Some(upper_end(at.unwrap_or(BUCKETS - 1)))
    }
}

fn bucket(time: Duration) -> usize {
    let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX).max(1);
    let octave = us.ilog2();
    // The two bits below the highest one.
    let part = (us << PARTS.ilog2() >> octave) & u64::from(PARTS - 1);
    ((octave * PARTS) as usize + part as usize).min(BUCKETS - 1)
}

fn upper_end(bucket: usize) -> Duration {
    let (octave, part) = (bucket as u32 / PARTS, bucket as u32 % PARTS);
    Duration::from_nanos(((u64::from(PARTS + part + 1) * 1000) << octave) / u64::from(PARTS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_is_below_its_end_and_not_below_the_one_before() {
        for us in (1..5000).chain([70_000, 1_000_000, 10_000_000]) {
            let time = Duration::from_micros(us);
            let bucket = bucket(time);
            assert!(time <= upper_end(bucket), "{us} us in {bucket}");
            assert!(bucket == 0 || us < 4 || time >= upper_end(bucket - 1), "{us} us in {bucket}");
            assert!(upper_end(bucket) <= time.mul_f64(1.26) + Duration::from_micros(1), "{us} us");
        }
    }
}
