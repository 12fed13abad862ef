//! How crowded the array is of late, as its responses tell. Pure.
//!
//! A disk that waits for the array and not for its rate loses in each bad moment of the array: the others go
//! on at their rates, and the leader learns of it half a second later. So disks without a minimum yield at
//! once: each of their requests spends more time of their rate while responses take longer than usual, and
//! less while they come sooner. On average they lose nothing by it.

/// How long responses usually take is averaged over this time.
const USUAL_NS: f64 = 2e9;
/// Weight of a response; of one that comes after a pause, at most.
const WEIGHT: f64 = 0.125;
/// One response that takes longer than so many usual ones (a drive was silent) says no more.
const LONGEST: f64 = 4.0;
/// By so much of what responses take longer, requests cost more.
const GAIN: f64 = 1.5;
/// Nobody yields more, or takes more, than this part: if responses take longer for good, because there is
/// more to do, rates must not follow them down.
const LEAST: f64 = 0.7;
const MOST: f64 = 1.5;

/// What disks without a minimum do while responses are slow or soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yields {
    /// They keep to their rates.
    Never,
    /// They take less while responses are slow, and never more than their rates: nobody corrects these.
    Only,
    /// They take back in good moments what they yielded in bad ones; somebody must correct their rates
    /// meanwhile.
    Evenly,
}

/// Of all disks of a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowding {
    /// What responses of late took, as a part of what they usually take.
    now: f64,
}

/// How long the responses of a disk usually take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Usual {
    /// 0: not known yet.
    ns: f64,
    at_ns: u64,
}

impl Crowding {
    /// As usual.
    pub(crate) fn usual() -> Crowding {
        Crowding { now: 1.0 }
    }

    /// A response that took so long, of a disk.
    pub(crate) fn observe(&mut self, now_ns: u64, usual: &mut Usual, took_ns: u64) {
        self.now += WEIGHT * (usual.observe(now_ns, took_ns) - self.now);
    }

    /// What a request of so many bytes spends of a rate that yields.
    pub(crate) fn cost(&self, bytes: u64, yields: Yields) -> u64 {
        let least = match yields {
            Yields::Never => return bytes,
            Yields::Only => 1.0,
            Yields::Evenly => LEAST,
        };
        (bytes as f64 * (1.0 + GAIN * (self.now - 1.0)).clamp(least, MOST)) as u64
    }
}

impl Usual {
    pub(crate) fn new(now_ns: u64) -> Usual {
        Usual { ns: 0.0, at_ns: now_ns }
    }

    /// What a response took, as a part of what is usual.
    fn observe(&mut self, now_ns: u64, took_ns: u64) -> f64 {
        let took_ns = (took_ns as f64).max(1.0);
        if self.ns == 0.0 {
            self.ns = took_ns;
        }
        let part = (took_ns / self.ns).min(LONGEST);
        let weight = (now_ns.saturating_sub(self.at_ns) as f64 / USUAL_NS).min(WEIGHT);
        self.ns *= 1.0 + weight * (part - 1.0);
        self.at_ns = now_ns;
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn requests_cost_more_while_responses_are_slow_and_no_more_than_others_in_the_end() {
        let (mut crowding, mut usual) = (Crowding::usual(), Usual::new(0));
        let mut now = 0;
        let mut after = |count: u64, took_ms: u64| {
            for _ in 0..count {
                now += took_ms * MS;
                crowding.observe(now, &mut usual, took_ms * MS);
            }
            crowding.cost(1000, Yields::Evenly)
        };
        assert_eq!(after(100, 20), 1000);
        let slow = after(8, 30);
        assert!((1100..1500).contains(&slow), "{slow}");
        let soon = after(20, 15);
        assert!((700..950).contains(&soon), "{soon}");
        let silent = after(1, 10_000);
        assert!(silent > soon, "{silent}");
        let for_good = after(500, 30);
        assert!((990..=1010).contains(&for_good), "{for_good}");
    }

    /// Nobody would correct what they take back.
    #[test]
    fn whoever_only_yields_takes_nothing_back_while_responses_come_soon() {
        let (mut crowding, mut usual) = (Crowding::usual(), Usual::new(0));
        let mut now = 0;
        for took_ms in [20; 100].into_iter().chain([15; 20]) {
            now += took_ms * MS;
            crowding.observe(now, &mut usual, took_ms * MS);
        }
        assert!(crowding.cost(1000, Yields::Evenly) < 950);
        assert_eq!(crowding.cost(1000, Yields::Only), 1000);
    }

    #[test]
    fn responses_that_take_no_time_or_for_ever_are_no_panic() {
        let (mut crowding, mut usual) = (Crowding::usual(), Usual::new(7));
        for (now, took) in [(0, 0), (u64::MAX, u64::MAX), (0, 0), (u64::MAX, 0)] {
            crowding.observe(now, &mut usual, took);
            assert!(crowding.cost(u64::MAX, Yields::Evenly) >= u64::MAX / 2);
        }
    }
}
