//! A maximum: when the next request may start, so that no five seconds end more than five times the maximum
//! and one request, however much later or sooner one response comes than another.
//!
//! Two rules. Starts are paced (a tag); and what ended in the last five seconds, with what has started and
//! not ended yet, is at most five times the maximum when another request starts. Of the requests that end in
//! any five seconds, take the one that started last: the others had ended by then, in the five seconds before
//! it started, or were still under way. So all but that one are within what was counted.

use crate::health::WINDOW_NS;
use crate::part::{Slice, in_window};
use crate::tag::Tag;

/// Starts are paced at so much less than the maximum, one part in a hundred, so that a late start may be
/// caught up and the second rule seldom holds one back.
const PACED_PARTS: u64 = 100;
/// A client that waits for each response before it sends its next request starts late after each that took
/// longer than the pace allows, by more than one request where these are few. What it may not catch up it
/// loses: with 25 ms a client that a maximum of 45 requests per second allowed just what its response time
/// did had 93 % of that.
const LATE_NS: u64 = 100_000_000;
/// More is no limit for any array: 2^50 bytes per second.
const RATE_MAX_BYTES: u64 = 1 << 50;
/// Work that ended is counted in slots of this time. A slot counts until all of it is five seconds old.
const SLOT_NS: u64 = 20_000_000;
const SLOTS: u64 = WINDOW_NS / SLOT_NS + 1;

/// A rate that is never exceeded.
#[derive(Clone, Debug, Default)]
pub struct Ceiling {
    /// Bytes per second; 0: no limit.
    bytes_per_s: u64,
    /// What may be counted when a request starts.
    window_bytes: u64,
    /// When the next request is allowed by pace.
    next: Tag,
    /// Bytes of requests that have started and not ended.
    under_way: u64,
    /// None as long as there is no limit.
    ended: Option<Box<Ended>>,
}

/// What ended in the last slots.
#[derive(Clone, Debug)]
struct Ended {
    slots: [u64; SLOTS as usize],
    /// The slot of now, counted from time 0.
    latest: u64,
    sum: u64,
}

impl Ceiling {
    /// Without a limit, from now on.
    pub fn new(now: u64) -> Ceiling {
        Ceiling { next: Tag::at(now), ..Ceiling::default() }
    }

    /// Another rate in bytes per second, from now on; 0: no limit. Another rate forgets what ended under the
    /// old one.
    pub fn set(&mut self, now: u64, bytes_per_s: u64) {
        let bytes_per_s = bytes_per_s.min(RATE_MAX_BYTES);
        if bytes_per_s == self.bytes_per_s {
            return;
        }
        (self.bytes_per_s, self.window_bytes) = (bytes_per_s, in_window(bytes_per_s));
        self.next = Tag::at(self.next.at.min(now));
        self.ended = (bytes_per_s > 0).then(|| Box::new(Ended::none(now)));
    }

    /// Another part of a rate that is shared, from now on. What ended under the old one counts: the sum of
    /// all parts stays the same.
    pub(crate) fn set_part(&mut self, now: u64, part: Option<Slice>) {
        let Some(part) = part else { return self.set(now, 0) };
        let bytes_per_s = part.bytes_per_s.clamp(1, RATE_MAX_BYTES);
        let ahead = u128::from(self.next.at.saturating_sub(now)) * u128::from(self.bytes_per_s);
        if ahead > 0 {
            let ahead_ns = u64::try_from(ahead / u128::from(bytes_per_s)).unwrap_or(u64::MAX);
            self.next = Tag::at(now.saturating_add(ahead_ns));
        }
        (self.bytes_per_s, self.window_bytes) = (bytes_per_s, part.window_bytes);
        self.ended.get_or_insert_with(|| Box::new(Ended::none(now)));
    }

    /// What counts now.
    pub(crate) fn counted(&mut self, now: u64) -> u64 {
        let ended = self.ended.as_mut().map_or(0, |ended| {
            ended.elapse(now);
            ended.sum
        });
        ended.saturating_add(self.under_way)
    }

    /// The earliest time that is known to allow the next request; it may have to be asked for again then.
    pub fn free_at(&mut self, now: u64) -> u64 {
        let Some(ended) = &mut self.ended else { return 0 };
        ended.elapse(now);
        let most = u128::from(self.window_bytes);
        let counted = u128::from(ended.sum) + u128::from(self.under_way);
        let by_window = match counted.checked_sub(most) {
            None | Some(0) => 0,
            Some(excess) => ended.less_by(excess),
        };
        self.next.at.max(by_window)
    }

    /// A request starts.
    pub fn start(&mut self, now: u64, bytes: u64) {
        self.under_way = self.under_way.saturating_add(bytes);
        self.pace(now, bytes);
    }

    /// A request that has started ends.
    pub fn end(&mut self, now: u64, bytes: u64) {
        self.under_way = self.under_way.saturating_sub(bytes);
        self.count(now, bytes);
    }

    /// Work was done that nobody asked for here.
    pub fn spend(&mut self, now: u64, bytes: u64) {
        self.pace(now, bytes);
        self.count(now, bytes);
    }

    /// Requests under way come from another flow, or leave for one.
    pub(crate) fn moved(&mut self, comes: u64, leaves: u64) {
        self.under_way = self.under_way.saturating_add(comes).saturating_sub(leaves);
    }

    fn pace(&mut self, now: u64, bytes: u64) {
        if self.bytes_per_s > 0 {
            self.next.raise_to(now.saturating_sub(LATE_NS));
            self.next.spend(bytes, self.bytes_per_s - self.bytes_per_s / PACED_PARTS);
        }
    }

    fn count(&mut self, now: u64, bytes: u64) {
        if let Some(ended) = &mut self.ended {
            ended.elapse(now);
            let slot = &mut ended.slots[(ended.latest % SLOTS) as usize];
            let counted = bytes.min(u64::MAX - ended.sum);
            (*slot, ended.sum) = (*slot + counted, ended.sum + counted);
        }
    }
}

impl Ended {
    fn none(now: u64) -> Ended {
        Ended { slots: [0; SLOTS as usize], latest: now / SLOT_NS, sum: 0 }
    }

    /// Forgets slots that are too old.
    fn elapse(&mut self, now: u64) {
        let latest = (now / SLOT_NS).max(self.latest);
        for slot in self.latest + 1..=latest.min(self.latest + SLOTS) {
            let old = std::mem::take(&mut self.slots[(slot % SLOTS) as usize]);
            self.sum -= old;
        }
        self.latest = latest;
    }

    /// When so much less is counted; what is still under way counts for five seconds from now at least.
    fn less_by(&self, excess: u128) -> u64 {
        let mut gone = 0;
        for age in (0..SLOTS).rev() {
            let Some(slot) = self.latest.checked_sub(age) else { continue };
            gone += u128::from(self.slots[(slot % SLOTS) as usize]);
            if gone >= excess {
                return (slot + SLOTS).saturating_mul(SLOT_NS);
            }
        }
        (self.latest + SLOTS).saturating_mul(SLOT_NS)
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;
    use crate::tag::SECOND_NS;

    const RATE: u64 = 1_469 * 8192;
    const REQUEST: u64 = 512 << 10;
    const MS: u64 = 1_000_000;

    /// When requests ended of a client that keeps so many outstanding, each below for the time drawn.
    fn ends(outstanding: usize, time_ns: u64, below_ns: impl FnMut(u64) -> u64) -> Vec<u64> {
        ends_at(RATE, outstanding, time_ns, below_ns)
    }

    /// The same, with another maximum.
    fn ends_at(
        rate: u64,
        outstanding: usize,
        time_ns: u64,
        mut below_ns: impl FnMut(u64) -> u64,
    ) -> Vec<u64> {
        let mut ceiling = Ceiling::new(0);
        ceiling.set(0, rate);
        let (mut now, mut ends, mut below) = (0, vec![], BinaryHeap::new());
        while now < time_ns {
            let free_at = ceiling.free_at(now);
            if below.len() < outstanding && free_at <= now {
                ceiling.start(now, REQUEST);
                below.push(Reverse(now + below_ns(now)));
                continue;
            }
            let next = below.peek().map_or(u64::MAX, |Reverse(at)| *at);
            now = if below.len() < outstanding { next.min(free_at) } else { next };
            if now == next {
                below.pop();
                ceiling.end(now, REQUEST);
                ends.push(now);
            }
        }
        ends
    }

    /// Requests in the fullest five seconds.
    fn fullest(ends: &[u64]) -> u64 {
        let in_window = |(at, end): (usize, &u64)| ends[at..].partition_point(|e| *e < end + WINDOW_NS);
        ends.iter().enumerate().map(in_window).max().unwrap_or_default() as u64
    }

    /// It was exceeded by 1.23 requests of hosts whose array was busy: one response came late, those after it
    /// soon.
    #[test]
    fn no_five_seconds_have_more_than_the_maximum_and_one_request_whatever_responses_take() {
        let most = 5 * RATE / REQUEST + 1;
        for seed in 1..=40 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let outstanding = [1, 1, 2, 3, 8, 32][rng.usize(..6)];
            let (usual, late, one_in) = (rng.u64(1..80), rng.u64(1..3_000), rng.u64(2..60));
            let ends = ends(outstanding, 60 * SECOND_NS, |_| {
                MS * if rng.u64(..one_in) == 0 { rng.u64(..=late) } else { rng.u64(..=usual) }
            });
            assert!(fullest(&ends) <= most, "seed {seed}: {} in a window, {most} may be", fullest(&ends));
        }
    }

    #[test]
    fn one_late_response_is_counted_with_those_that_come_soon_after_it() {
        for late in [50, 80, 200, 1_000] {
            let ends = ends(1, 30 * SECOND_NS, |now| {
                MS * if (10 * SECOND_NS..10 * SECOND_NS + 100 * MS).contains(&now) { late } else { 1 }
            });
            assert!(fullest(&ends) <= 5 * RATE / REQUEST + 1, "{late} ms: {}", fullest(&ends));
        }
    }

    #[test]
    fn nearly_all_of_the_maximum_is_given_where_responses_take_the_same_time() {
        for (outstanding, below_ms) in [(1, 1), (1, 35), (2, 80), (8, 100), (32, 300)] {
            let ends = ends(outstanding, 60 * SECOND_NS, |_| below_ms * MS);
            let given = ends.len() as u64 * REQUEST * 1000 / (60 * RATE);
            // What is under way may all end at once: it is a part of the five seconds.
            let least = 985 * 5_000 / (5_000 + below_ms);
            assert!((least..=1000).contains(&given), "{outstanding} of {below_ms} ms: {given}");
        }
    }

    /// Response times of 5 to 39 ms, 22 on average, and a maximum that allows a request each 22 ms.
    #[test]
    fn one_request_at_a_time_has_nearly_all_of_a_maximum_that_its_response_time_just_allows() {
        const RATE: u64 = REQUEST * 1000 / 22;
        for seed in 1..=5 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let ends = ends_at(RATE, 1, 600 * SECOND_NS, |_| rng.u64(5 * MS..39 * MS));
            let given = ends.len() as u64 * REQUEST * 1000 / (600 * RATE);
            assert!((960..=1000).contains(&given), "seed {seed}: {given}");
            assert!(fullest(&ends) <= 5 * RATE / REQUEST + 1);
        }
    }

    #[test]
    fn another_rate_is_in_force_at_once_and_any_numbers_are_no_panic() {
        let mut ceiling = Ceiling::new(0);
        ceiling.set(0, 1 << 40);
        (0..100).for_each(|_| ceiling.spend(0, 1 << 38));
        assert!(ceiling.free_at(0) >= WINDOW_NS);
        ceiling.set(MS, 8192);
        assert!(ceiling.free_at(MS) <= MS);
        ceiling.start(MS, 8192);
        let free_at = ceiling.free_at(MS);
        assert!(free_at > 900 * MS && free_at < 1_100 * MS, "{free_at}");
        ceiling.set(2 * MS, 0);
        assert_eq!(ceiling.free_at(2 * MS), 0);
        for bytes_per_s in [1, u64::MAX] {
            ceiling.set(3 * MS, bytes_per_s);
            ceiling.start(3 * MS, 1 << 40);
            ceiling.end(u64::MAX, u64::MAX);
            ceiling.end(u64::MAX, u64::MAX);
            ceiling.spend(u64::MAX, 1 << 40);
            let _ = ceiling.free_at(u64::MAX);
        }
    }
}
