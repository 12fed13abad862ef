//! Holds the disks of a node to their shares and maximums, and measures what they asked for and got. Pure.

use qos::{Ceiling, Claim, Policy};

use crate::crowding::{Crowding, Usual, Yields};

const SECOND_NS: u64 = 1_000_000_000;
/// By so much service that was late may be caught up: of a share, and of one with a minimum. When the array
/// is slow, disks without a minimum yield at once.
const SHARE_LATE_NS: u64 = 50_000_000;
const MINIMUM_LATE_NS: u64 = 500_000_000;
/// A disk that had requests for this part of an interval wants more.
const HUNGRY_PERCENT: u64 = 90;
/// Whoever had less demand than its share may have so much more in the next interval.
const GROWTH_PERCENT: u64 = 125;

/// An interval that is longer was not that of a node at work.
const INTERVAL_NS_MAX: u64 = 2_000_000_000;

/// A rate: when the next request may go (a leaky bucket as a virtual scheduling algorithm, ITU-T I.371).
#[derive(Clone, Copy, Debug)]
struct Bucket {
    bytes_per_s: Option<u64>,
    free_ns: u64,
    late_ns: u64,
}

impl Bucket {
    fn new(late_ns: u64) -> Bucket {
        Bucket { bytes_per_s: None, free_ns: 0, late_ns }
    }

    fn set(&mut self, now: u64, bytes_per_s: Option<u64>) {
        let before = std::mem::replace(&mut self.bytes_per_s, bytes_per_s.map(|rate| rate.max(1)));
        // A wait by a low rate is not served out when the rate rises.
        if let (Some(old), Some(new)) = (before, self.bytes_per_s) {
            let at_new = |ns: u64| {
                u64::try_from(u128::from(ns) * u128::from(old) / u128::from(new)).unwrap_or(u64::MAX)
            };
            self.free_ns = match self.free_ns > now {
                true => self.free_ns.min(now.saturating_add(at_new(self.free_ns - now))),
                false => now.saturating_sub(at_new(now.saturating_sub(self.free_ns)).min(self.late_ns)),
            };
        }
    }

    fn spend(&mut self, now: u64, bytes: u64) {
        let Some(rate) = self.bytes_per_s else { return };
        let took = u128::from(bytes) * u128::from(SECOND_NS) / u128::from(rate);
        let from = self.free_ns.max(now.saturating_sub(self.late_ns));
        self.free_ns = from.saturating_add(u64::try_from(took).unwrap_or(u64::MAX));
    }

    fn free_ns(&self) -> u64 {
        if self.bytes_per_s.is_some() { self.free_ns } else { 0 }
    }
}

/// What a disk asked for and got in an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes per second, each request with at least a unit.
    pub served: u64,
    /// The share in force, on average; none: it had none for some of the time.
    pub granted: Option<u64>,
    /// Its largest request so far.
    pub largest_bytes: u64,
    /// Whether it had requests nearly all the time.
    pub is_hungry: bool,
    /// Whether it had, and neither its share nor its maximum made one wait.
    pub is_held_up: bool,
    /// What it would take; none: all that it can get.
    pub demand: Option<u64>,
    /// Bytes served since the limiter began.
    pub total: u64,
    /// Requests that it had on average, and of these the ones at the array, in thousandths.
    pub outstanding_milli: u64,
    #[expect(missing_docs, reason = "see above")]
    pub below_milli: u64,
}

struct Disk {
    policy: Policy,
    share: Bucket,
    maximum: Ceiling,
    outstanding: u32,
    /// Of these, the ones at the array.
    below: u32,
    /// Both, added up over the time of the interval.
    outstanding_ns: u128,
    below_ns: u128,
    /// Of the interval that runs.
    since_ns: u64,
    busy_ns: u64,
    changed_ns: u64,
    served: u64,
    /// Bytes served since the limiter began.
    total: u64,
    /// The share in force, added up over time; none: there was none for a while.
    granted: Option<u128>,
    granted_ns: u64,
    largest: u64,
    was_held: bool,
    usual: Usual,
}

/// The disks of a node, by number.
pub struct Limiter {
    unit_bytes: u64,
    crowding: Crowding,
    yields: Yields,
    disks: Vec<Disk>,
}

impl Limiter {
    /// Disks without policies and shares; `unit_bytes` is the unit of rates in policies.
    pub fn new(now: u64, unit_bytes: u64, disks: usize) -> Limiter {
        let disk = |_| Disk {
            policy: Policy::none(),
            share: Bucket::new(SHARE_LATE_NS),
            maximum: Ceiling::new(now),
            outstanding: 0,
            below: 0,
            outstanding_ns: 0,
            below_ns: 0,
            since_ns: now,
            busy_ns: 0,
            changed_ns: now,
            served: 0,
            total: 0,
            granted: None,
            granted_ns: now,
            largest: unit_bytes,
            was_held: false,
            usual: Usual::new(now),
        };
        Limiter {
            unit_bytes,
            crowding: Crowding::usual(),
            yields: Yields::Never,
            disks: (0..disks).map(disk).collect(),
        }
    }

    /// Another policy for a disk, from now on.
    pub fn set_policy(&mut self, now: u64, disk: usize, policy: Policy) {
        let most = maximum(&policy, self.unit_bytes);
        let disk = &mut self.disks[disk];
        disk.policy = policy;
        disk.share.late_ns = if policy.minimum_iops > 0 { MINIMUM_LATE_NS } else { SHARE_LATE_NS };
        disk.maximum.set(now, most.map_or(0, |most| most.max(1)));
    }

    /// The policy of a disk.
    pub fn policy(&self, disk: usize) -> Policy {
        self.disks[disk].policy
    }

    /// Another share for a disk, in bytes per second; none: no limit.
    pub fn set_share(&mut self, now: u64, disk: usize, share: Option<u64>) {
        let disk = &mut self.disks[disk];
        disk.grant_until(now);
        disk.share.set(now, share);
    }

    /// The share in force.
    pub fn share(&self, disk: usize) -> Option<u64> {
        self.disks[disk].share.bytes_per_s
    }

    /// A request comes.
    pub fn begin(&mut self, now: u64, disk: usize) {
        self.disks[disk].count(now, 1);
    }

    /// A request ends, however; with its bytes and the time when it went, if it did.
    pub fn end(&mut self, now: u64, disk: usize, gone: Option<(u64, u64)>) {
        let disk = &mut self.disks[disk];
        disk.count(now, -1);
        if let Some((bytes, at)) = gone {
            disk.below = disk.below.saturating_sub(1);
            disk.maximum.end(now, bytes.max(self.unit_bytes));
            self.crowding.observe(now, &mut disk.usual, now.saturating_sub(at));
        }
    }

    /// Whether disks without a minimum yield to others while the array is slow.
    pub fn set_yields(&mut self, yields: Yields) {
        self.yields = yields;
    }

    /// When the next request of a disk may go; it must be asked for again after a change.
    pub fn free_ns(&mut self, now: u64, disk: usize) -> u64 {
        let disk = &mut self.disks[disk];
        let free = disk.share.free_ns().max(disk.maximum.free_at(now));
        disk.was_held |= free > now;
        free
    }

    /// A request goes.
    pub fn go(&mut self, now: u64, disk: usize, bytes: u64) {
        let cost = bytes.max(self.unit_bytes);
        let disk = &mut self.disks[disk];
        disk.elapse(now);
        disk.below = disk.below.saturating_add(1);
        let yields = if disk.policy.minimum_iops > 0 { Yields::Never } else { self.yields };
        disk.share.spend(now, self.crowding.cost(cost, yields));
        disk.maximum.start(now, cost);
        disk.largest = disk.largest.max(cost);
    }

    /// A request was served.
    pub fn served(&mut self, disk: usize, bytes: u64) {
        let (disk, bytes) = (&mut self.disks[disk], bytes.max(self.unit_bytes));
        disk.served += bytes;
        disk.total = disk.total.saturating_add(bytes);
    }

    /// Ends the interval of all disks.
    pub fn close(&mut self, now: u64) -> Vec<Usage> {
        self.disks.iter_mut().map(|disk| disk.close(now)).collect()
    }
}

fn maximum(policy: &Policy, unit_bytes: u64) -> Option<u64> {
    let by_units = policy.maximum_iops.map(|units| units.saturating_mul(unit_bytes));
    [by_units, policy.bandwidth_bytes_per_s].into_iter().flatten().min()
}

/// The claim of a policy with a demand.
pub(crate) fn claim(policy: &Policy, unit_bytes: u64, demand: Option<u64>) -> Claim {
    let maximum = maximum(policy, unit_bytes);
    Claim {
        minimum: policy.minimum_iops.saturating_mul(unit_bytes).min(maximum.unwrap_or(u64::MAX)),
        maximum,
        weight: u64::from(policy.weight),
        demand,
    }
}

impl Disk {
    fn count(&mut self, now: u64, change: i32) {
        self.elapse(now);
        self.outstanding = self.outstanding.saturating_add_signed(change);
    }

    fn elapse(&mut self, now: u64) {
        let passed = now.saturating_sub(self.changed_ns);
        if self.outstanding > 0 {
            self.busy_ns += passed;
        }
        self.outstanding_ns += u128::from(self.outstanding) * u128::from(passed);
        self.below_ns += u128::from(self.below) * u128::from(passed);
        self.changed_ns = now;
    }

    fn close(&mut self, now: u64) -> Usage {
        self.elapse(now);
        let passed = now.saturating_sub(self.since_ns).max(1);
        let per_s =
            |bytes: u64| u64::try_from(u128::from(bytes) * u128::from(SECOND_NS) / u128::from(passed));
        let served = per_s(self.served).unwrap_or(u64::MAX);
        let milli = |sum: u128| u64::try_from(sum * 1000 / u128::from(passed)).unwrap_or(u64::MAX);
        let is_hungry = self.busy_ns >= passed / 100 * HUNGRY_PERCENT;
        self.grant_until(now);
        let granted = self.granted.map(|sum| u64::try_from(sum / u128::from(passed)).unwrap_or(u64::MAX));
        let granted = granted.filter(|_| passed <= INTERVAL_NS_MAX);
        // Who is hungry wants all; of a node that stood still nothing is known. A request more than now is
        // always possible: who begins is not held back by having been idle.
        let demand = (!is_hungry && passed <= INTERVAL_NS_MAX)
            .then(|| (served / 100 * GROWTH_PERCENT).saturating_add(self.largest));
        let usage = Usage {
            served,
            granted,
            largest_bytes: self.largest,
            is_hungry,
            is_held_up: is_hungry && !self.was_held && passed <= INTERVAL_NS_MAX,
            demand,
            total: self.total,
            outstanding_milli: milli(self.outstanding_ns),
            below_milli: milli(self.below_ns),
        };
        (self.outstanding_ns, self.below_ns) = (0, 0);
        (self.since_ns, self.busy_ns, self.served, self.was_held) = (now, 0, 0, false);
        (self.granted, self.granted_ns) = (Some(0), now);
        usage
    }

    fn grant_until(&mut self, now: u64) {
        let passed = u128::from(now.saturating_sub(self.granted_ns));
        self.granted_ns = now;
        self.granted = match (self.granted, self.share.bytes_per_s) {
            _ if passed == 0 => self.granted,
            (Some(sum), Some(share)) => Some(sum + u128::from(share) * passed),
            _ => None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Bytes served of requests of 512 KiB, one at a time, each of which takes `array_ns` below.
    fn served(limiter: &mut Limiter, (from, to): (u64, u64), array_ns: u64) -> u64 {
        let (mut now, mut bytes) = (from, 0);
        while now < to {
            limiter.begin(now, 0);
            now = now.max(limiter.free_ns(now, 0));
            limiter.go(now, 0, 512 << 10);
            now += array_ns;
            limiter.served(0, 512 << 10);
            limiter.end(now, 0, Some((512 << 10, now - array_ns)));
            // One that waits for its turn beyond the end is none of this time.
            bytes += if now <= to { 512 << 10 } else { 0 };
        }
        bytes
    }

    #[test]
    fn a_share_is_reached_and_what_the_array_held_up_is_caught_up() {
        let mut limiter = Limiter::new(0, 8192, 1);
        limiter.set_policy(0, 0, Policy { minimum_iops: 1, ..Policy::none() });
        limiter.set_share(0, 0, Some(10 << 20));
        let even = served(&mut limiter, (0, 5_000 * MS), 10 * MS);
        assert!(even.abs_diff(50 << 20) <= 1 << 20, "{even}");
        // 200 ms late, and then on time.
        let late = served(&mut limiter, (5_200 * MS, 10_000 * MS), 10 * MS);
        assert!(late.abs_diff(50 << 20) <= 1 << 20, "{late}");
        // Two seconds late: half a second is caught up.
        let lost = served(&mut limiter, (12_000 * MS, 17_000 * MS), 10 * MS);
        assert!(lost.abs_diff((50 << 20) + (5 << 20)) <= 1 << 20, "{lost}");
    }

    #[test]
    fn a_maximum_is_not_exceeded_by_more_than_a_request() {
        let mut limiter = Limiter::new(0, 8192, 1);
        limiter.set_policy(0, 0, Policy { maximum_iops: Some(1000), ..Policy::none() });
        limiter.set_share(0, 0, Some(100 << 20));
        for start in [0, 7_000, 20_000] {
            let got = served(&mut limiter, (start * MS, (start + 5_000) * MS), MS);
            assert!(got <= 5 * 8_192_000 + (512 << 10), "{got}");
            assert!(got >= 5 * 8_192_000 / 100 * 97, "{got}");
        }
    }

    /// What the array lacks in a bad moment is for those to go without who have no minimum, at once.
    #[test]
    fn a_disk_without_a_minimum_yields_while_responses_are_slow() {
        let got = |yields: Yields, minimum_iops: u64| {
            let mut limiter = Limiter::new(0, 8192, 1);
            limiter.set_policy(0, 0, Policy { minimum_iops, ..Policy::none() });
            limiter.set_share(0, 0, Some(6 << 20));
            limiter.set_yields(yields);
            served(&mut limiter, (0, 5_000 * MS), 20 * MS);
            served(&mut limiter, (5_000 * MS, 7_000 * MS), 40 * MS)
        };
        let kept = got(Yields::Never, 0);
        assert_eq!((got(Yields::Evenly, 1), got(Yields::Only, 1), got(Yields::Never, 1)), (kept, kept, kept));
        for yields in [Yields::Evenly, Yields::Only] {
            assert!(got(yields, 0) < kept / 100 * 90, "{yields:?}: {} of {kept}", got(yields, 0));
        }
    }

    #[test]
    fn a_rate_that_rises_is_in_force_at_once() {
        let mut limiter = Limiter::new(0, 8192, 1);
        limiter.set_share(0, 0, Some(8192));
        limiter.go(0, 0, 512 << 10);
        assert_eq!(limiter.free_ns(0, 0), 64_000 * MS);
        limiter.set_share(0, 0, Some(10 << 20));
        assert_eq!(limiter.free_ns(0, 0), 50 * MS);
    }

    #[test]
    fn an_interval_says_what_was_wanted() {
        let mut limiter = Limiter::new(0, 8192, 1);
        limiter.close(0);
        limiter.set_share(0, 0, Some(10 << 20));
        served(&mut limiter, (0, 500 * MS), 10 * MS);
        let held = limiter.close(500 * MS)[0];
        assert!(held.is_hungry && held.demand.is_none(), "{held:?}");
        assert_eq!(held.granted, Some(10 << 20));
        limiter.set_share(500 * MS, 0, Some(100 << 20));
        served(&mut limiter, (550 * MS, 1000 * MS), 50 * MS);
        let bound = limiter.close(1000 * MS)[0];
        assert!(bound.is_held_up && !held.is_held_up, "{bound:?}");
        limiter.begin(1000 * MS, 0);
        limiter.end(1010 * MS, 0, None);
        let idle = limiter.close(1500 * MS)[0];
        assert_eq!((idle.is_hungry, idle.demand), (false, Some(512 << 10)));
    }
}
