//! Latency histograms. They are for metrics only: JSON has percentiles.

/// Buckets of a histogram: bucket `i` holds what took at most 2^(14 + i) ns, from 16 µs to 17 s; the last one
/// holds the rest.
pub const LATENCY_BUCKETS: usize = 22;

/// A latency histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// Operations in each bucket; not cumulative.
    pub counts: [u64; LATENCY_BUCKETS],
    /// The sum of all latencies, in nanoseconds.
    pub sum_ns: u64,
}

impl Latency {
    /// Adds the operations of another histogram.
    pub fn add(&mut self, other: &Latency) {
        self.counts.iter_mut().zip(other.counts).for_each(|(count, more)| *count += more);
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
    }

    /// All operations.
    pub fn operations(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Latencies by the kind of the operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Latencies {
    /// Of commands or operations that read.
    pub reads: Latency,
    /// Of those that write.
    pub writes: Latency,
    /// All other commands of a LU or a host; nothing for layers below a LU.
    pub others: Latency,
}

impl Latencies {
    /// Adds those of another object.
    pub fn add(&mut self, other: &Latencies) {
        self.reads.add(&other.reads);
        self.writes.add(&other.writes);
        self.others.add(&other.others);
    }
}

/// The latencies of one object of a layer; of the layers below a LU, one operation in sixteen is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageLatency {
    /// `port`, `qos`, `cache`, `image`, `pool`, `raid` or `drive`.
    pub stage: &'static str,
    /// The port, pool, group or drive.
    pub object: String,
    /// How long they took.
    pub latency: Latencies,
}

/// What a host was served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostServed {
    /// The declared host.
    pub host: String,
    /// Commands at the ports.
    pub commands: u64,
    /// Bytes from the host.
    pub bytes_in: u64,
    /// Bytes to the host.
    pub bytes_out: u64,
    /// Latencies of its commands on LUs.
    pub latency: Latencies,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_add_up() {
        let mut one = Latencies::default();
        one.reads.counts[3] = 2;
        one.reads.sum_ns = 10;
        let mut sum = one;
        sum.add(&one);
        assert_eq!((sum.reads.operations(), sum.reads.sum_ns, sum.writes.operations()), (4, 20, 0));
    }
}
