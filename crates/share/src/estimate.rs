//! The capacity of the array, found while the nodes work.
//!
//! Disks are granted a little more than the array is known to do (the headroom), so that it always has work:
//! what it serves then is its capacity. While it serves all that is granted it can do more, and the headroom
//! grows until it cannot.

/// What is granted beyond the capacity: as long as the array cannot serve it, and at most.
const HEADROOM: f64 = 0.01;
const HEADROOM_MAX: f64 = 0.2;
const HEADROOM_GROWTH: f64 = 2.0;
/// The array has reached its capacity when this part of the headroom was not served.
const LACKS: f64 = 0.25;
/// Weight of a new interval in the capacity.
const WEIGHT: f64 = 0.1;
/// Weight of the capacity of an interval in what it is over a longer time.
const STEADY_WEIGHT: f64 = 0.01;
/// Off by more than this, the capacity has changed.
const JUMP: f64 = 0.1;
/// Weight of what is served beyond the capacity at the first try, which may be chance: what is taken for
/// capacity and is none is granted to disks without a minimum, and these take it from the others.
const TRIED_WEIGHT: f64 = 0.25;
/// By this part of what is missing the capacity rises in an interval while the array has room.
const RISE: f64 = 0.3;
/// Intervals that are not judged after a change of claims: they show the old ones, too.
const BLIND: u32 = 2;
/// Intervals that are judged together: the service of one varies, and one of few large requests says little.
/// First whether all is served, then whether it still is with more headroom, and whether far less is.
const JUDGED: usize = 6;
const SERVED_AGAIN: usize = 2;
const JUMPED: usize = 3;
/// Intervals before the first shares. First a cache fills.
const FIRST: usize = 3;

/// What all nodes together report of an interval, bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Served to all disks.
    pub served: u64,
    /// Due to disks that the sum limits: their shares, or less where they give back what they got too much.
    pub due: u64,
    /// Granted to these, with headroom and with what makes up for the past, and served to them.
    pub granted: u64,
    #[expect(missing_docs, reason = "see above")]
    pub served_of_granted: u64,
    /// Whether the sum limited the disks, and not what they claim.
    pub is_bound: bool,
    /// The array has room: what is to be granted until it is busy.
    pub wanted: Option<u64>,
}

/// The estimate.
#[derive(Clone, Debug, Default)]
pub struct Estimate {
    /// Bytes per second; 0: nothing is known.
    capacity: f64,
    /// The same over a longer time.
    steady: f64,
    headroom: f64,
    /// Intervals that are not judged.
    blind: u32,
    /// The last intervals.
    recent: Vec<Seen>,
    first: Vec<u64>,
}

impl Estimate {
    /// Goes on with the capacity that another leader had found.
    pub fn resumed(capacity: u64) -> Estimate {
        Estimate {
            capacity: capacity as f64,
            steady: capacity as f64,
            headroom: HEADROOM,
            ..Estimate::default()
        }
    }

    /// The capacity, bytes per second; none: nothing was served yet.
    pub fn capacity(&self) -> Option<u64> {
        Some(self.capacity as u64).filter(|capacity| *capacity > 0)
    }

    /// What it has been over a longer time, as a part of what it is now.
    pub fn steady(&self) -> f64 {
        if self.capacity > 0.0 { self.steady / self.capacity } else { 1.0 }
    }

    /// The part of the capacity that is granted beyond it.
    pub fn headroom(&self) -> f64 {
        self.headroom
    }

    /// Claims have changed: the next intervals say nothing of the new ones.
    pub fn changed(&mut self) {
        (self.blind, self.headroom) = (BLIND, HEADROOM);
        self.recent.clear();
    }

    /// Takes an interval into account.
    pub fn observe(&mut self, seen: Seen) {
        if self.capacity == 0.0 {
            self.begin(seen);
        } else if self.blind > 0 {
            self.blind -= 1;
        } else if let Some(wanted) = seen.wanted {
            // What was not served is not what the array lacks.
            self.rise(wanted as f64, seen.is_bound);
        } else if seen.granted > 0 {
            self.follow(seen);
        }
    }

    /// Nobody has a share yet: the array serves what it can.
    fn begin(&mut self, seen: Seen) {
        self.first.push(seen.served);
        self.first.retain(|served| *served > 0);
        if self.first.len() == FIRST {
            self.capacity =
                self.first[1..].iter().map(|served| *served as f64).sum::<f64>() / (FIRST - 1) as f64;
            self.steady = self.capacity;
            self.changed();
        }
    }

    fn rise(&mut self, wanted: f64, is_bound: bool) {
        self.recent.clear();
        if is_bound || wanted < self.capacity {
            self.capacity += RISE * (wanted - self.capacity);
            self.steady += RISE * (self.capacity - self.steady);
        }
    }

    fn follow(&mut self, seen: Seen) {
        self.recent.push(seen);
        if self.recent.len() > JUDGED {
            self.recent.remove(0);
        }
        let change = match (self.fallen(), self.is_served()) {
            (Some(by), _) => {
                self.recent.clear();
                by
            }
            // Claims limit the disks: that all is served says nothing.
            (None, _) if !seen.is_bound => return,
            (None, None) => 0.0,
            (None, Some(false)) => {
                self.headroom = HEADROOM;
                WEIGHT * self.off(1)
            }
            (None, Some(true)) => {
                // Once may be chance.
                let by = if self.headroom > HEADROOM { self.tried() } else { WEIGHT * self.off(1) };
                self.headroom = (self.headroom * HEADROOM_GROWTH).min(HEADROOM_MAX);
                self.recent.clear();
                by
            }
        };
        self.capacity = (self.capacity * (1.0 + change)).max(1.0);
        let weight = if change.abs() > JUMP / 2.0 { 1.0 } else { STEADY_WEIGHT };
        self.steady += weight * (self.capacity - self.steady);
    }

    /// By what part the array was off the capacity in the last intervals.
    fn off(&self, intervals: usize) -> f64 {
        let last = &self.recent[self.recent.len().saturating_sub(intervals)..];
        let served: f64 = last.iter().map(|seen| seen.served as f64).sum();
        served / last.len().max(1) as f64 / self.capacity - 1.0
    }

    /// By what part the capacity is more than was known, when all of a larger headroom was served.
    fn tried(&self) -> f64 {
        // More than was granted was late from before.
        let more = self.off(JUDGED).clamp(0.0, self.headroom);
        let is_first = self.headroom <= HEADROOM * HEADROOM_GROWTH;
        if is_first { TRIED_WEIGHT * more } else { more }
    }

    /// Whether the array can do much less than it could, and by what part. The disks that the sum does not
    /// limit have what they want: it is the others that lack.
    fn fallen(&self) -> Option<f64> {
        let last = self.recent.len().checked_sub(JUMPED).map(|from| &self.recent[from..])?;
        let lack = |seen: &Seen| (seen.due as f64 - seen.served_of_granted as f64) / self.capacity;
        let least = last.iter().map(lack).fold(f64::INFINITY, f64::min);
        (least > JUMP).then_some(-least)
    }

    /// Whether the array served all that was granted; none: not yet known.
    fn is_served(&self) -> Option<bool> {
        let sum = |of: fn(&Seen) -> u64| self.recent.iter().map(|seen| of(seen) as f64).sum::<f64>();
        let least = sum(|seen| seen.granted) * (1.0 - LACKS * self.headroom);
        let enough = if self.headroom > HEADROOM { SERVED_AGAIN } else { JUDGED };
        (self.recent.len() >= enough).then(|| sum(|seen| seen.served_of_granted) >= least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An array that serves at most `capacity` and keeps up to `room` in a cache; the capacity found, on
    /// average after the first 20 intervals.
    fn play(estimate: &mut Estimate, capacity: u64, room: u64, intervals: u64) -> u64 {
        let (mut free, mut sum) = (0, 0);
        for interval in 0..intervals {
            let known = estimate.capacity();
            let granted =
                known.map_or(2 * capacity, |known| (known as f64 * (1.0 + estimate.headroom())) as u64);
            // Half of a second.
            let served = granted.min(capacity + 2 * free);
            free = (free + capacity / 2).saturating_sub(served / 2).min(room);
            if interval >= 20 {
                sum += known.unwrap_or_default();
            }
            let due = known.unwrap_or(granted);
            estimate.observe(Seen {
                served,
                due,
                granted,
                served_of_granted: served,
                is_bound: true,
                wanted: None,
            });
        }
        sum / intervals.saturating_sub(20).max(1)
    }

    #[test]
    fn the_capacity_is_found() {
        for room in [0, 12 << 20, 1 << 30] {
            let mut estimate = Estimate::default();
            let mean = play(&mut estimate, 140_000_000, room, 1000);
            assert!(mean.abs_diff(140_000_000) < 500_000, "{room}: {mean}");
        }
    }

    #[test]
    fn more_and_less_capacity_are_found_in_seconds() {
        let mut estimate = Estimate::default();
        play(&mut estimate, 140_000_000, 0, 100);
        play(&mut estimate, 90_000_000, 0, 8);
        assert!(estimate.capacity().is_some_and(|known| known <= 91_000_000), "{estimate:?}");
        play(&mut estimate, 140_000_000, 0, 16);
        assert!(estimate.capacity().is_some_and(|known| known >= 139_000_000), "{estimate:?}");
    }

    /// What is granted while nobody corrects it must not be that of a good moment.
    #[test]
    fn a_good_moment_of_the_array_hardly_changes_what_it_does_over_a_longer_time() {
        let mut estimate = Estimate::resumed(140_000_000);
        assert_eq!(estimate.steady(), 1.0);
        play(&mut estimate, 140_000_000, 0, 100);
        play(&mut estimate, 147_000_000, 0, 10);
        let now = estimate.capacity().expect("known") as f64;
        assert!(now > 143e6 && now * estimate.steady() < 141.5e6, "{estimate:?}");
        // Much less is there to stay.
        play(&mut estimate, 90_000_000, 0, 8);
        let now = estimate.capacity().expect("known") as f64;
        assert!(now * estimate.steady() < 92e6, "{estimate:?}");
    }

    #[test]
    fn what_was_late_and_a_good_second_are_hardly_taken_for_capacity() {
        let mut estimate = Estimate::resumed(1000);
        let seen = |served| Seen {
            served,
            due: 1000,
            granted: 1010,
            served_of_granted: served,
            is_bound: true,
            wanted: None,
        };
        (0..JUDGED).for_each(|_| estimate.observe(seen(1010)));
        let known = estimate.capacity();
        assert!(estimate.headroom() > HEADROOM, "it tries whether more is served: {estimate:?}");
        (0..SERVED_AGAIN).for_each(|_| estimate.observe(seen(1200)));
        assert!(estimate.capacity() > known && estimate.capacity() <= Some(1008), "{estimate:?}");
    }

    /// It was taken for an array of which a tenth is gone.
    #[test]
    fn what_is_granted_to_make_up_for_the_past_is_not_what_the_array_lacks() {
        let mut estimate = Estimate::resumed(1000);
        let seen = Seen {
            served: 990,
            due: 1000,
            granted: 1250,
            served_of_granted: 990,
            is_bound: true,
            wanted: None,
        };
        (0..20).for_each(|_| estimate.observe(seen));
        assert!(estimate.capacity() >= Some(985), "{estimate:?}");
    }

    #[test]
    fn nothing_is_learnt_of_disks_that_want_nothing() {
        let mut estimate = Estimate::resumed(1000);
        (0..100).for_each(|_| estimate.observe(Seen::default()));
        assert_eq!(estimate.capacity(), Some(1000));
    }
}
