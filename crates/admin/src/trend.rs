//! When pools will be full: from how they filled while this process watched them.
//!
//! The rate is the median of the slopes between all pairs of samples (Theil and Sen): one volume that is
//! created or deleted at once does not make a trend.

use std::collections::{BTreeMap, VecDeque};

use status::Pool;

/// From one sample to the next, in seconds.
const EVERY_S: u64 = 600;
/// A week of them.
const KEPT: usize = 7 * 24 * 6;
/// Six hours of them make a trend.
const NEEDED: usize = 36;
/// The rate comes from so many of them at most, evenly spaced: 2,016 pairs.
const OF_RATE_MAX: usize = 64;
/// Further away is not said: ten years.
const FAR_S: f64 = 10.0 * 365.0 * 86_400.0;

/// How each pool fills.
#[derive(Debug, Default)]
pub(crate) struct Trends(BTreeMap<String, Trend>);

#[derive(Debug, Default)]
struct Trend {
    /// Seconds, and bytes that were used then.
    samples: VecDeque<(u64, u64)>,
    bytes_per_s: Option<f64>,
}

impl Trends {
    /// Looks at the pools at a time by a clock that is never set. Pools that are gone are forgotten.
    pub(crate) fn look(&mut self, now_s: u64, pools: &[Pool]) {
        self.0.retain(|name, _| pools.iter().any(|pool| pool.name == *name));
        for pool in pools {
            let trend = self.0.entry(pool.name.clone()).or_default();
            if trend.samples.back().is_none_or(|(last, _)| last + EVERY_S <= now_s) {
                trend.add((now_s, pool.used_bytes));
            }
        }
    }

    /// Says of each pool when it is full.
    pub(crate) fn tell(&self, pools: &mut [Pool]) {
        for pool in pools {
            let rate = self.0.get(&pool.name).and_then(|trend| trend.bytes_per_s);
            pool.full_in_s = rate.and_then(|rate| full_in_s(pool, rate));
        }
    }
}

impl Trend {
    fn add(&mut self, sample: (u64, u64)) {
        self.samples.push_back(sample);
        if self.samples.len() > KEPT {
            self.samples.pop_front();
        }
        self.bytes_per_s = (self.samples.len() > NEEDED).then(|| self.rate()).flatten();
    }

    fn rate(&self) -> Option<f64> {
        let step = self.samples.len().div_ceil(OF_RATE_MAX);
        // From the newest one back, so that it always counts.
        let some: Vec<(u64, u64)> = self.samples.iter().rev().step_by(step).copied().collect();
        let mut slopes = Vec::with_capacity(some.len() * some.len() / 2);
        for (at, later) in some.iter().enumerate() {
            let slope = |earlier: &(u64, u64)| {
                (later.1 as f64 - earlier.1 as f64) / later.0.saturating_sub(earlier.0).max(1) as f64
            };
            slopes.extend(some[at + 1..].iter().map(slope));
        }
        slopes.sort_by(f64::total_cmp);
        slopes.get(slopes.len() / 2).copied()
    }
}

fn full_in_s(pool: &Pool, bytes_per_s: f64) -> Option<u64> {
    let seconds = pool.size_bytes.saturating_sub(pool.used_bytes) as f64 / bytes_per_s;
    (bytes_per_s > 0.0 && seconds <= FAR_S).then_some(seconds as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const HOUR_S: u64 = 3600;

    fn pool(used_bytes: u64) -> Pool {
        Pool { name: "p0".into(), size_bytes: 1000 * GIB, used_bytes, ..Pool::default() }
    }

    /// After so many hours of looks, one a minute.
    fn after(hours: u64, used: impl Fn(u64) -> u64) -> Option<u64> {
        let mut trends = Trends::default();
        for now_s in (0..=hours * HOUR_S).step_by(60) {
            trends.look(now_s, &[pool(used(now_s))]);
        }
        let mut pools = [pool(used(hours * HOUR_S))];
        trends.tell(&mut pools);
        pools[0].full_in_s
    }

    #[test]
    fn a_pool_that_fills_evenly_is_full_when_a_straight_line_says() {
        let used = |now_s| 100 * GIB + now_s * GIB / HOUR_S;
        let full_in = after(10, used).expect("a trend");
        assert!(full_in.abs_diff(890 * HOUR_S) < 60, "{full_in}");
        assert_eq!(after(5, used), None, "it was not watched for long enough");
        // A week is kept: what was before does not count.
        let full_in = after(400, |now_s| now_s.saturating_sub(200 * HOUR_S) * GIB / HOUR_S).expect("a trend");
        assert!(full_in.abs_diff(800 * HOUR_S) < 60, "{full_in}");
    }

    #[test]
    fn a_step_makes_no_trend_and_a_pool_that_shrinks_or_stands_is_never_full() {
        let step = |now_s| if now_s < 12 * HOUR_S { 100 * GIB } else { 500 * GIB };
        assert_eq!(after(48, step), None);
        let with_step = |now_s| step(now_s) + now_s * GIB / HOUR_S;
        let full_in = after(48, with_step).expect("a trend");
        assert!(full_in.abs_diff(452 * HOUR_S) < 30 * HOUR_S, "{full_in}");
        assert_eq!(after(48, |now_s| 900 * GIB - now_s * GIB / HOUR_S), None);
        assert_eq!(after(48, |_| 900 * GIB), None);
        assert_eq!(after(48, |now_s| now_s), None, "a byte a second: beyond ten years");
    }

    #[test]
    fn pools_that_are_gone_are_forgotten_and_samples_are_bounded() {
        let mut trends = Trends::default();
        (0..10_000).for_each(|n| trends.look(n * EVERY_S, &[pool(n)]));
        assert_eq!(trends.0["p0"].samples.len(), KEPT);
        trends.look(u64::MAX, &[]);
        assert!(trends.0.is_empty());
    }
}
