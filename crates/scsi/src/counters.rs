//! Counters of a logical unit: they prove that an offload was used. Plain counts and latency histograms.

use std::cell::Cell;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The class under which a command is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum OpClass {
    Read,
    Write,
    /// WRITE SAME.
    Zero,
    /// EXTENDED COPY and tokens.
    Copy,
    /// COMPARE AND WRITE.
    Compare,
    Unmap,
    Other,
}

/// The number of classes.
pub const CLASSES: usize = 7;

/// Sub-buckets per power of two: a value is known to within 1/8.
const SUB_BITS: u32 = 3;
/// Powers of two above the linear part: up to 2^37 ns, over two minutes.
const POWERS: usize = 35;
/// Buckets of one histogram.
pub const BUCKETS: usize = (POWERS + 1) << SUB_BITS;

/// A latency histogram: linear below 8 ns, then eight buckets per power of two.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "Used", into = "Used")]
pub struct Histogram {
    counts: [Cell<u64>; BUCKETS],
    sum_ns: Cell<u64>,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: [const { Cell::new(0) }; BUCKETS], sum_ns: Cell::new(0) }
    }
}

impl Histogram {
    fn bucket_of(nanoseconds: u64) -> usize {
        let power = nanoseconds.checked_ilog2().unwrap_or(0);
        if power < SUB_BITS {
            return nanoseconds as usize;
        }
        let sub = (nanoseconds >> (power - SUB_BITS)) as usize & ((1 << SUB_BITS) - 1);
        ((((power - SUB_BITS + 1) as usize) << SUB_BITS) + sub).min(BUCKETS - 1)
    }

    /// Counts one value.
    pub fn record(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let cell = &self.counts[Histogram::bucket_of(ns)];
        cell.set(cell.get() + 1);
        self.sum_ns.set(self.sum_ns.get().wrapping_add(ns));
    }

    /// The largest value, in nanoseconds, in bucket `index`.
    pub fn bucket_top_ns(index: usize) -> u64 {
        let (power, sub) = ((index >> SUB_BITS) as u32, (index & ((1 << SUB_BITS) - 1)) as u64);
        if power == 0 {
            return sub;
        }
        (((1 << SUB_BITS | sub) + 1) << (power - 1)) - 1
    }

    /// The buckets with counts: largest value in nanoseconds, and count.
    pub fn counts(&self) -> Vec<(u64, u64)> {
        let used = self.counts.iter().enumerate().filter(|(_, c)| c.get() > 0);
        used.map(|(i, c)| (Histogram::bucket_top_ns(i), c.get())).collect()
    }
}

/// The buckets of a histogram that are used.
#[derive(Serialize, Deserialize)]
struct Used {
    /// Index and count.
    buckets: Vec<(usize, u64)>,
    sum_ns: u64,
}

impl From<Histogram> for Used {
    fn from(histogram: Histogram) -> Used {
        let used = histogram.counts.iter().map(Cell::get).enumerate().filter(|(_, count)| *count > 0);
        Used { buckets: used.collect(), sum_ns: histogram.sum_ns.get() }
    }
}

impl TryFrom<Used> for Histogram {
    type Error = &'static str;

    fn try_from(used: Used) -> Result<Histogram, &'static str> {
        let histogram = Histogram::default();
        for (index, count) in used.buckets {
            histogram.counts.get(index).ok_or("a latency histogram has no such bucket")?.set(count);
        }
        histogram.sum_ns.set(used.sum_ns);
        Ok(histogram)
    }
}

/// A cell that counts up.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Count(Cell<u64>);

impl Count {
    /// Adds.
    pub fn add(&self, n: u64) {
        self.0.set(self.0.get().wrapping_add(n));
    }

    /// The count.
    pub fn get(&self) -> u64 {
        self.0.get()
    }

    /// Back to zero.
    pub fn clear(&self) {
        self.0.set(0);
    }
}

/// The live counters of a logical unit.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Counting {
    /// Commands that ended with GOOD, per class.
    pub commands: [Count; CLASSES],
    /// Commands that ended with any other status.
    pub failed: Count,
    /// Bytes read for hosts.
    pub read_bytes: Count,
    /// Bytes written by hosts.
    pub written_bytes: Count,
    /// Bytes zeroed by offload, without a data transfer.
    pub zeroed_bytes: Count,
    /// Bytes written by WRITE SAME with a nonzero pattern.
    pub patterned_bytes: Count,
    /// Bytes copied inside the array by reading and writing.
    pub moved_bytes: Count,
    /// Bytes copied by sharing pages.
    pub shared_bytes: Count,
    /// Bytes that UNMAP released to the pool.
    pub reclaimed_bytes: Count,
    /// COMPARE AND WRITE commands that found a difference.
    pub compare_misses: Count,
    /// Commands that ended with RESERVATION CONFLICT.
    pub reservation_conflicts: Count,
    /// Reads that failed permanently (log page 03h).
    pub read_errors: Count,
    /// Writes that failed permanently (log page 02h).
    pub write_errors: Count,
    /// Latency per class, from the command's arrival at the LU to its end.
    pub latency: [Histogram; CLASSES],
}

/// A snapshot of the counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are those of Counting")]
pub struct Counters {
    pub commands: [u64; CLASSES],
    pub failed: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub zeroed_bytes: u64,
    pub patterned_bytes: u64,
    pub moved_bytes: u64,
    pub shared_bytes: u64,
    pub reclaimed_bytes: u64,
    pub compare_misses: u64,
    pub reservation_conflicts: u64,
    /// Per class: buckets with counts, as largest value in nanoseconds and count.
    pub latency: [Vec<(u64, u64)>; CLASSES],
    /// Per class: the sum of all latencies, in nanoseconds.
    pub latency_sum_ns: [u64; CLASSES],
}

impl Counting {
    /// Takes a snapshot.
    pub fn read(&self) -> Counters {
        Counters {
            commands: std::array::from_fn(|i| self.commands[i].get()),
            failed: self.failed.get(),
            read_bytes: self.read_bytes.get(),
            written_bytes: self.written_bytes.get(),
            zeroed_bytes: self.zeroed_bytes.get(),
            patterned_bytes: self.patterned_bytes.get(),
            moved_bytes: self.moved_bytes.get(),
            shared_bytes: self.shared_bytes.get(),
            reclaimed_bytes: self.reclaimed_bytes.get(),
            compare_misses: self.compare_misses.get(),
            reservation_conflicts: self.reservation_conflicts.get(),
            latency: std::array::from_fn(|i| self.latency[i].counts()),
            latency_sum_ns: std::array::from_fn(|i| self.latency[i].sum_ns.get()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_its_top_says() {
        for n in (0..2000).chain([4_095, 4_096, 1_000_000, 999_999_999, 60_000_000_000]) {
            let bucket = Histogram::bucket_of(n);
            let top = Histogram::bucket_top_ns(bucket);
            assert!(n <= top && top - n <= n / 8, "{n} in bucket {bucket} with top {top}");
            assert_eq!(Histogram::bucket_of(top), bucket);
        }
        assert_eq!(Histogram::bucket_of(u64::MAX), BUCKETS - 1);
    }
}
