//! The capacity of the array, found while the nodes work.
//!
//! The sum of all shares is raised until the array no longer serves what was granted; what it served then
//! is its capacity, and the sum stays a little below. A sum above the capacity costs the minimums: requests
//! then wait in the array, which knows no policies, instead of at the nodes. So it is raised quickly only
//! after claims have changed, and otherwise after a while, in small steps.

/// Of what was granted, so much must be served; less: the array cannot serve the sum.
const SERVED_PERMILLE: u64 = 975;
/// Of what the array served when it could not serve all, so much is granted; and first, for a moment, so
/// much, so that what waits in the array is served.
const BELOW_PERMILLE: u64 = 985;
const DRAIN_PERMILLE: u64 = 950;
/// Growth per interval: back to what is known, and when it is tried whether the array can do more: at
/// first, and so much more with each interval that it can.
const RETURN_PERMILLE: u64 = 1040;
const TRY_PERMILLE: u64 = 1010;
const TRY_MORE_PERMILLE: u64 = 2;
const TRY_PERMILLE_MAX: u64 = 1040;
/// Intervals that the array serves all before more is tried; doubles up to the second value while it cannot
/// do more. After a change of claims it is tried soon.
const QUIET_MIN: u32 = 12;
const QUIET_MAX: u32 = 192;
const QUIET_AFTER_CHANGE: u32 = 2;
/// Intervals that are not judged after a change of shares: they show the old ones, too.
const BLIND: u32 = 2;
/// Intervals over which service is averaged, and how many are judged at least: one of few large requests says
/// little.
const AVERAGED: usize = 3;
const JUDGED_MIN: usize = 2;
/// So much more than the known capacity is what a cache takes.
const CACHE_PERMILLE: u64 = 1020;

/// What all nodes together report of an interval, bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Shares of all disks.
    pub shares: u64,
    /// Whether the sum limited them, and not what they claim.
    pub is_bound: bool,
    /// Granted to disks that had demand for it.
    pub granted: u64,
    /// Served to these.
    pub served: u64,
    /// What a single interval may be off because requests are whole.
    pub grain: u64,
}

/// The estimate.
#[derive(Clone, Debug, Default)]
pub struct Estimate {
    /// 0: nothing is known.
    sum: u64,
    /// What the array served when it could not serve all.
    ceiling: Option<u64>,
    recent: Vec<Seen>,
    /// Intervals that are not judged.
    blind: u32,
    /// Whether less is granted meanwhile.
    drains: bool,
    quiet: u32,
    patience: u32,
}

impl Estimate {
    /// Goes on with the sum that another leader had found.
    pub fn resumed(sum: u64) -> Estimate {
        Estimate { sum, patience: QUIET_MIN, ..Estimate::default() }
    }

    /// The sum to grant, bytes per second; none: nothing was served yet.
    pub fn sum(&self) -> Option<u64> {
        let drain = if self.drains && self.blind > 0 { DRAIN_PERMILLE } else { 1000 };
        Some(self.sum * drain / 1000).filter(|sum| *sum > 0)
    }

    /// Claims have changed: the array may be able to do more or less with them.
    pub fn changed(&mut self) {
        (self.quiet, self.patience) = (0, QUIET_AFTER_CHANGE);
        self.look_away(false);
    }

    fn look_away(&mut self, drains: bool) {
        self.recent.clear();
        (self.blind, self.drains) = (BLIND, drains);
    }

    /// Takes an interval into account.
    pub fn observe(&mut self, seen: Seen) {
        if self.sum == 0 {
            self.first(seen);
            return;
        }
        if self.blind > 0 {
            self.blind -= 1;
            return;
        }
        self.remember(seen);
        let count = self.recent.len() as u64;
        let mean = |of: fn(&Seen) -> u64| self.recent.iter().map(of).sum::<u64>() / count;
        let granted = mean(|seen| seen.granted);
        let (served, grain) = (mean(|seen| seen.served), mean(|seen| seen.grain));
        // Nobody wants more than it has: nothing is learnt.
        if granted == 0 || self.recent.len() < JUDGED_MIN {
            return;
        }
        // A request that is late now is early in the next interval: over several the error does not grow.
        if served + grain / count < granted / 1000 * SERVED_PERMILLE {
            self.fall(self.could());
        } else if self.recent.iter().all(|seen| seen.is_bound) {
            self.rise();
        }
    }

    fn remember(&mut self, seen: Seen) {
        self.recent.push(seen);
        if self.recent.len() > AVERAGED {
            self.recent.remove(0);
        }
    }

    /// Nobody has a share yet: the array serves what it can. First a cache fills.
    fn first(&mut self, seen: Seen) {
        if seen.served == 0 {
            return;
        }
        self.remember(seen);
        if self.recent.len() == AVERAGED {
            let last = self.recent[AVERAGED - JUDGED_MIN..].iter().map(|seen| seen.served);
            self.sum = (last.sum::<u64>() / JUDGED_MIN as u64 * BELOW_PERMILLE / 1000).max(1);
            self.patience = QUIET_AFTER_CHANGE;
            self.look_away(true);
        }
    }

    /// What sum the array could serve in the recent intervals. More than it was known to do is what a cache
    /// took until it was full: then the last interval tells.
    fn could(&self) -> u64 {
        let all = could_serve(&self.recent);
        match self.ceiling {
            Some(ceiling) if all > ceiling / 1000 * CACHE_PERMILLE => {
                could_serve(&self.recent[self.recent.len() - 1..]).min(all)
            }
            _ => all,
        }
    }

    fn fall(&mut self, served: u64) {
        // More was tried and was not there: the next attempt can wait longer.
        let was_tried = self.ceiling.is_some_and(|ceiling| served.abs_diff(ceiling) < ceiling / 20);
        self.patience = if was_tried { (self.patience * 2).clamp(QUIET_MIN, QUIET_MAX) } else { QUIET_MIN };
        (self.ceiling, self.quiet) = (Some(served), 0);
        self.sum = (served * BELOW_PERMILLE / 1000).max(1);
        self.look_away(true);
    }

    fn rise(&mut self) {
        let by = |permille: u64, sum: u64| sum + (sum / 1000 * (permille - 1000)).max(1);
        let known = self.ceiling.map_or(0, |ceiling| ceiling * BELOW_PERMILLE / 1000);
        if self.sum < known {
            self.sum = by(RETURN_PERMILLE, self.sum).min(known);
            return;
        }
        self.quiet += 1;
        if let Some(tried) = self.quiet.checked_sub(self.patience) {
            let permille = TRY_PERMILLE + TRY_MORE_PERMILLE * u64::from(tried);
            self.sum = by(permille.min(TRY_PERMILLE_MAX), self.sum);
        }
    }
}

/// The disks that want no more have what they asked for: all of the sum is too much by as much as the
/// others lack of theirs.
fn could_serve(seen: &[Seen]) -> u64 {
    let sum = |of: fn(&Seen) -> u64| seen.iter().map(|one| u128::from(of(one))).sum::<u128>();
    let shares = sum(|one| one.shares) / seen.len().max(1) as u128;
    let part = shares * sum(|one| one.served) / sum(|one| one.granted).max(1);
    u64::try_from(part).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An array that serves at most `capacity` and keeps up to `room` in a cache; how often in 1000
    /// intervals it served less than 97 % of the grant, and the mean grant after the first 20.
    fn play(estimate: &mut Estimate, capacity: u64, room: u64, intervals: u64) -> (u64, u64) {
        let (mut free, mut short, mut sum) = (0, 0, 0);
        for interval in 0..intervals {
            let granted = estimate.sum().unwrap_or(2 * capacity);
            // Half of a second.
            let served = granted.min(capacity + 2 * free);
            free = (free + capacity / 2).saturating_sub(served / 2).min(room);
            if interval >= 20 {
                short += u64::from(served < granted * 97 / 100);
                sum += granted;
            }
            estimate.observe(Seen { shares: granted, is_bound: true, granted, served, grain: 0 });
        }
        (short, sum / intervals.saturating_sub(20).max(1))
    }

    #[test]
    fn the_capacity_is_found_and_rarely_exceeded() {
        for room in [0, 12 << 20, 1 << 30] {
            let mut estimate = Estimate::default();
            let (short, mean) = play(&mut estimate, 140_000_000, room, 1000);
            assert!((134_000_000..=142_000_000).contains(&mean), "{room}: {mean}");
            assert!(short <= 60, "{room}: {short}");
        }
    }

    #[test]
    fn more_and_less_capacity_are_found_in_seconds() {
        let mut estimate = Estimate::default();
        play(&mut estimate, 140_000_000, 0, 100);
        play(&mut estimate, 90_000_000, 0, 8);
        assert!(estimate.sum().is_some_and(|sum| sum <= 90_000_000), "{estimate:?}");
        // After a change of claims it is sought again.
        estimate.changed();
        play(&mut estimate, 140_000_000, 0, 24);
        assert!(estimate.sum().is_some_and(|sum| sum >= 134_000_000), "{estimate:?}");
    }

    #[test]
    fn nothing_is_learnt_of_disks_that_want_nothing() {
        let mut estimate = Estimate::resumed(1000);
        (0..100).for_each(|_| estimate.observe(Seen::default()));
        assert_eq!(estimate.sum(), Some(1000));
    }
}
