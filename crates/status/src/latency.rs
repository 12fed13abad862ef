//! Latency histograms. The status has percentiles; histograms are in the metrics, and in `GET /v1/latencies`.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{Status, VolumeCounters};

/// Buckets of a histogram: bucket `i` holds what took at most 2^(14 + i) ns, from 16 µs to 17 s; the last one
/// holds the rest.
pub const LATENCY_BUCKETS: usize = 22;

/// A latency histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Latency {
    /// Operations in each bucket; not cumulative. Bucket `i` holds what took at most 2^(14 + i) ns; the last
    /// one holds the rest.
    #[schema(value_type = Vec<u64>)]
    pub counts: [u64; LATENCY_BUCKETS],
    /// The sum of all latencies, in nanoseconds.
    pub sum_ns: u64,
}

/// What a bucket holds took longer than the first and at most the second, in nanoseconds.
fn bounds_ns(bucket: usize) -> (f64, f64) {
    let bound = |i: usize| (1u64 << (14 + i)) as f64;
    match bucket {
        0 => (0.0, bound(0)),
        last if last + 1 == LATENCY_BUCKETS => (bound(last - 1), bound(last - 1)),
        i => (bound(i - 1), bound(i)),
    }
}

impl Latency {
    /// Adds the operations of another histogram.
    pub fn add(&mut self, other: &Latency) {
        self.counts.iter_mut().zip(other.counts).for_each(|(count, more)| *count += more);
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
    }

    /// What came since an earlier state of the same histogram. One that has fewer now was opened anew: all
    /// that it has is new.
    pub fn since(&self, earlier: &Latency) -> Latency {
        if self.counts.iter().zip(earlier.counts).any(|(now, then)| *now < then) {
            return *self;
        }
        let mut new = *self;
        new.counts.iter_mut().zip(earlier.counts).for_each(|(now, then)| *now -= then);
        new.sum_ns = new.sum_ns.wrapping_sub(earlier.sum_ns);
        new
    }

    /// The mean, in nanoseconds; none without operations.
    pub fn mean_ns(&self) -> Option<f64> {
        let operations = self.operations();
        (operations > 0).then(|| self.sum_ns as f64 / operations as f64)
    }

    /// What this share of the operations did not exceed, in nanoseconds, as if they were spread evenly in a
    /// bucket; none without operations. What is longer than all buckets counts as the last bound.
    pub fn quantile_ns(&self, share: f64) -> Option<f64> {
        let wanted = share.clamp(0.0, 1.0) * self.operations() as f64;
        let mut below = 0.0;
        for (i, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = *count as f64;
            if below + count >= wanted {
                let (from, to) = bounds_ns(i);
                return Some(from + (to - from) * ((wanted - below) / count).clamp(0.0, 1.0));
            }
            below += count;
        }
        None
    }

    /// All operations.
    pub fn operations(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Latencies by the kind of the operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Latencies {
    /// Of commands or operations that read.
    pub reads: Latency,
    /// Of those that write.
    pub writes: Latency,
    /// All other commands of a LU or a host; nothing for layers below a LU.
    pub others: Latency,
}

impl Latencies {
    /// All kinds together.
    pub fn all(&self) -> Latency {
        let mut all = self.reads;
        all.add(&self.writes);
        all.add(&self.others);
        all
    }

    /// Adds those of another object.
    pub fn add(&mut self, other: &Latencies) {
        self.reads.add(&other.reads);
        self.writes.add(&other.writes);
        self.others.add(&other.others);
    }
}

/// The latencies of one object of a layer; of the layers below a LU, one operation in sixteen is measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StageLatency {
    /// `port`, `qos`, `cache`, `image`, `pool`, `raid` or `drive`.
    #[schema(value_type = String)]
    pub stage: Cow<'static, str>,
    /// The port, pool, group or drive.
    pub object: String,
    /// How long they took.
    pub latency: Latencies,
}

/// What a host was served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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

impl HostServed {
    /// Adds what another controller served.
    pub fn add(&mut self, other: &HostServed) {
        self.commands += other.commands;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.latency.add(&other.latency);
    }
}

/// The latencies of a LU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LuLatency {
    /// A volume, a snapshot or an image.
    pub name: String,
    /// From the arrival of its commands to their end.
    pub latency: Latencies,
}

/// `GET /v1/latencies`: histograms since the start, or since a drive, group or pool was opened. Two answers
/// tell what was between them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Histograms {
    /// LUs that have done anything.
    pub lus: Vec<LuLatency>,
    /// What hosts were served; a host of several controllers more than once.
    pub hosts: Vec<HostServed>,
    /// Ports, schedulers, caches, pools, groups and drives; one operation in sixteen.
    pub stages: Vec<StageLatency>,
}

impl Histograms {
    /// Those of a status.
    pub fn of(status: Status) -> Histograms {
        let lu = |(name, c): (String, VolumeCounters)| {
            (c.commands > 0).then_some(LuLatency { name, latency: c.latency })
        };
        let volumes = status.volumes.into_iter().map(|v| (v.name, v.counters));
        let images = status.images.into_iter().map(|i| (i.name, i.counters));
        let lus = volumes.chain(images).filter_map(lu).collect();
        Histograms { lus, hosts: status.served, stages: status.stages }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(counts: &[(usize, u64)], sum_ns: u64) -> Latency {
        let mut made = Latency { sum_ns, ..Latency::default() };
        counts.iter().for_each(|(bucket, count)| made.counts[*bucket] = *count);
        made
    }

    #[test]
    fn quantiles_lie_in_the_bucket_that_holds_them() {
        let of = histogram(&[(0, 50), (4, 49), (LATENCY_BUCKETS - 1, 1)], 0);
        let near = |share: f64, ns: f64| {
            let found = of.quantile_ns(share).expect("there are operations");
            assert!((found - ns).abs() < 1.0, "{share}: {found}, not {ns}");
        };
        near(0.25, 8192.0);
        near(0.5, 16384.0);
        near(0.99, 262_144.0);
        near(1.0, (1u64 << 34) as f64);
        assert_eq!((Latency::default().quantile_ns(0.5), Latency::default().mean_ns()), (None, None));
    }

    #[test]
    fn what_came_since_is_the_difference_or_everything_of_one_that_was_opened_anew() {
        let (then, now) = (histogram(&[(2, 3)], 10), histogram(&[(2, 5), (3, 1)], 70));
        assert_eq!(now.since(&then), histogram(&[(2, 2), (3, 1)], 60));
        assert_eq!(then.since(&now), then);
        assert_eq!(now.since(&then).mean_ns(), Some(20.0));
    }

    #[test]
    fn what_several_controllers_served_of_a_host_adds_up() {
        let reads = histogram(&[(1, 2)], 5);
        let one = |bytes_in| HostServed {
            host: "h".into(),
            commands: 2,
            bytes_in,
            bytes_out: 3,
            latency: Latencies { reads, ..Latencies::default() },
        };
        let mut all = one(10);
        all.add(&one(7));
        assert_eq!((all.commands, all.bytes_in, all.bytes_out), (4, 17, 6));
        assert_eq!(all.latency.all(), histogram(&[(1, 4)], 10));
    }

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
