//! Where the time of requests goes: a latency histogram for each layer that a request passes.
//!
//! The buckets are fixed, so that nothing is allocated per operation, and a scrape adds up those of all
//! threads. Reading the clock has a cost: one operation in sixteen is measured, chosen at random, because
//! hosts and drives have rhythms of their own.

use std::cell::Cell;
use std::time::Duration;

use crate::Instant;

/// Buckets of a histogram: bucket `i` holds what took at most 2^(14 + i) ns, from 16 µs to 17 s; the last one
/// holds the rest.
pub const LATENCY_BUCKETS: usize = 22;
/// The power of two, in nanoseconds, that ends the first bucket.
const FIRST_POWER: u32 = 14;
/// One operation in this many is measured.
pub const MEASURED_ONE_IN: u64 = 16;

/// What kind of operation is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum Kind {
    Read,
    Write,
}

/// A latency histogram with fixed buckets.
#[derive(Default)]
pub struct LatencyHistogram {
    counts: [Cell<u64>; LATENCY_BUCKETS],
    sum_ns: Cell<u64>,
}

/// A snapshot of a histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyCounts {
    /// Operations in each bucket; not cumulative.
    pub counts: [u64; LATENCY_BUCKETS],
    /// The sum of all latencies, in nanoseconds.
    pub sum_ns: u64,
}

impl LatencyHistogram {
    /// Counts one operation.
    pub fn record(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let cell = &self.counts[bucket(ns)];
        cell.set(cell.get() + 1);
        self.sum_ns.set(self.sum_ns.get().wrapping_add(ns));
    }

    /// Takes a snapshot.
    pub fn counts(&self) -> LatencyCounts {
        LatencyCounts { counts: std::array::from_fn(|i| self.counts[i].get()), sum_ns: self.sum_ns.get() }
    }
}

impl LatencyCounts {
    /// The largest value, in nanoseconds, of bucket `index`; none for the last one.
    pub fn bucket_top_ns(index: usize) -> Option<u64> {
        (index + 1 < LATENCY_BUCKETS).then(|| 1 << (FIRST_POWER as usize + index))
    }

    /// Counts `n` operations of at most `ns` nanoseconds, without adding to the sum.
    pub fn add(&mut self, ns: u64, n: u64) {
        self.counts[bucket(ns)] += n;
    }
}

/// The bucket of a latency: the first one whose end is not below it.
fn bucket(ns: u64) -> usize {
    let power = u64::BITS - ns.saturating_sub(1).leading_zeros();
    (power.saturating_sub(FIRST_POWER) as usize).min(LATENCY_BUCKETS - 1)
}

/// The latencies of one layer. Beginning and end of an operation belong together: what was measured is
/// recorded, what was not costs a multiplication.
#[derive(Default)]
pub struct Stage {
    reads: LatencyHistogram,
    writes: LatencyHistogram,
    /// The state of the choice. Its first operation is measured.
    draw: Cell<u64>,
}

impl Stage {
    /// The time, if the operation that begins is one of those that are measured.
    pub fn begin(&self, now: impl FnOnce() -> Instant) -> Option<Instant> {
        self.draws().then(now)
    }

    /// Whether the next operation is measured: to be asked once for each operation.
    pub fn draws(&self) -> bool {
        let draw = self.draw.get();
        // Knuth's MMIX: its upper bits are random enough, and it needs no state but its own.
        self.draw.set(draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407));
        draw >> 32 & (MEASURED_ONE_IN - 1) == 0
    }

    /// Records the operation that began then, if it is measured.
    pub fn end(&self, began: Option<Instant>, now: impl FnOnce() -> Instant, kind: Kind) {
        if let Some(began) = began {
            self.record(now() - began, kind);
        }
    }

    /// Records a measured operation.
    pub fn record(&self, time: Duration, kind: Kind) {
        match kind {
            Kind::Read => self.reads.record(time),
            Kind::Write => self.writes.record(time),
        }
    }

    /// Snapshots of the reads and the writes.
    pub fn counts(&self) -> (LatencyCounts, LatencyCounts) {
        (self.reads.counts(), self.writes.counts())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_is_at_most_its_end() {
        for index in 0..LATENCY_BUCKETS - 1 {
            let top = LatencyCounts::bucket_top_ns(index).expect("it has an end");
            assert_eq!((bucket(top), bucket(top + 1)), (index, index + 1));
        }
        assert_eq!((bucket(0), bucket(1), bucket(u64::MAX)), (0, 0, LATENCY_BUCKETS - 1));
        assert_eq!(LatencyCounts::bucket_top_ns(0), Some(16_384));
    }

    /// A fixed interval would measure only the reads of a load that reads and writes in turn.
    #[test]
    fn one_operation_in_sixteen_is_measured_whatever_their_rhythm() {
        let stage = Stage::default();
        let mut measured = [0; 16];
        for n in 0..160_000 {
            measured[n % 16] += u32::from(stage.draws());
        }
        assert!(measured.iter().all(|count| (500..750).contains(count)), "{measured:?}");
    }

    #[test]
    fn the_sum_is_that_of_what_was_recorded() {
        let stage = Stage::default();
        stage.record(Duration::from_micros(20), Kind::Read);
        stage.record(Duration::from_micros(5), Kind::Read);
        stage.record(Duration::from_secs(60), Kind::Write);
        let (reads, writes) = stage.counts();
        assert_eq!((reads.sum_ns, reads.counts[0], reads.counts[1]), (25_000, 1, 1));
        assert_eq!((writes.sum_ns, writes.counts[LATENCY_BUCKETS - 1]), (60_000_000_000, 1));
    }
}
