//! What any scheduler could do for the VMs of a phase on this array: the closed formula, and what bounds it.
//! Pure.

use ::qos::{Claim, Policy, expected};

use super::capacity::Capacity;
use super::play::Load;
use super::scenario::Qos;
use lab_core::stats::Estimate;

/// Of a minimum, so much is to come in the worst window.
pub(super) const KEPT: f64 = 0.98;
/// A shallower queue may cost this part of the throughput: the least depth that leaves it is deep enough.
const DEPTH_LOSS: f64 = 0.02;
/// A VM has too few in flight if it would get so many times as much else.
const SHORT: f64 = 1.01;

/// What a VM is promised and may have in a phase, in bytes per second, and how it asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rates {
    pub(super) minimum: f64,
    /// Infinite: none.
    pub(super) maximum: f64,
    pub(super) weight: u32,
    /// I/Os that it keeps in flight; 0: it does nothing.
    pub(super) outstanding: f64,
    /// Bytes that a byte counts as: a small I/O counts as a unit, too.
    pub(super) charge: f64,
}

impl Rates {
    /// For a load; `is_still`: it does nothing.
    pub(super) fn of(qos: &Qos, policy: &Policy, load: &Load, is_still: bool) -> Rates {
        let unit_bytes = qos.unit_bytes(load.access.size);
        let bytes = |units: u64| (units * unit_bytes) as f64;
        Rates {
            minimum: if is_still { 0.0 } else { bytes(policy.minimum_iops) },
            maximum: policy.maximum_iops.map_or(f64::INFINITY, bytes),
            weight: policy.weight,
            outstanding: if is_still { 0.0 } else { f64::from(load.outstanding) },
            charge: qos.published.unit.0 as f64 / unit_bytes as f64,
        }
    }

    fn claim(&self, demand: f64) -> Claim {
        let charged = |bytes: f64| (bytes * self.charge) as u64;
        Claim {
            minimum: charged(self.minimum),
            maximum: self.maximum.is_finite().then(|| charged(self.maximum)),
            weight: u64::from(self.weight),
            demand: Some(charged(demand)),
        }
    }
}

/// What any scheduler could do for these VMs on this array.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach<'a> {
    capacity: &'a Capacity,
    rates: &'a [Rates],
    /// The most that the scheduler may pass on.
    depth_max: u32,
}

/// So many VMs have too few in flight for what their weights and minimums would give them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Short {
    pub(super) vms: usize,
    /// At this load: more in flight bring next to no throughput.
    pub(super) in_flight: f64,
    /// What an I/O in flight brings there, bytes per second.
    pub(super) each: f64,
}

/// Whether the minimums of a phase can be kept.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fit {
    Fits,
    /// They are more than the array can do: all are scaled alike.
    Over,
    /// Each has too little in flight for it, whatever the scheduler does: why.
    OutOfReach(String),
}

impl<'a> Reach<'a> {
    pub(super) fn new(capacity: &'a Capacity, rates: &'a [Rates], depth_max: u32) -> Reach<'a> {
        Reach { capacity, rates, depth_max }
    }

    fn minimums(&self) -> f64 {
        self.rates.iter().map(|rates| rates.minimum).sum()
    }

    /// What an I/O in flight must bring, where it must bring most.
    fn minimum_each(&self) -> f64 {
        let each = self.rates.iter().filter(|rates| rates.minimum > 0.0);
        each.map(|rates| rates.minimum / rates.outstanding).fold(0.0, f64::max)
    }

    /// VMs below their maximum keep all that they can in flight, those at it less.
    fn offered(&self) -> f64 {
        let all: f64 = self.rates.iter().map(|rates| rates.outstanding).sum();
        let mut in_flight = all;
        for _ in 0..100 {
            let each = self.capacity.at(in_flight) / in_flight.max(1e-9);
            let wanted: f64 = self.rates.iter().map(|r| (r.maximum / each).min(r.outstanding)).sum();
            in_flight = (in_flight + wanted) / 2.0;
        }
        in_flight.min(all)
    }

    /// So many at once leave each its minimum on average and in a bad window (science.md, queue depth), with
    /// minimums that do not fit scaled down; none: not even one does.
    fn depth_for_minimums(&self) -> Option<usize> {
        let (each, all) = (self.minimum_each(), self.minimums());
        let fits = |k: &usize| {
            let k = *k as f64;
            let capacity = self.capacity.at(k);
            let scale = if all > capacity { capacity / all } else { 1.0 };
            // Rounding of the measured curve is no reason to go one lower.
            let on_average = capacity / k * 1.005 >= each * scale;
            on_average && self.capacity.worst_each(k) * 1.005 >= KEPT * each * scale
        };
        (1..=self.capacity.most()).rev().find(fits)
    }

    /// How many a scheduler can have in flight that keeps what it can.
    fn at_once(&self) -> f64 {
        self.at_most_at_once(self.offered())
    }

    /// So many, or less if minimums need it.
    fn at_most_at_once(&self, offered: f64) -> f64 {
        let all: f64 = self.rates.iter().map(|rates| rates.outstanding).sum();
        let for_minimums = self.depth_for_minimums().unwrap_or(1) as f64;
        offered.min(all).min(for_minimums).min(f64::from(self.depth_max))
    }

    /// What the array can do for them.
    pub(super) fn can_do(&self) -> f64 {
        self.capacity.at(self.at_once()).min(self.maximums())
    }

    /// The interval of that in another period of so many seconds.
    pub(super) fn can_do_between(&self, seconds: f64) -> Estimate {
        let most = self.maximums();
        // Where all have a maximum, they keep more in flight in a bad time.
        let in_flight = if most.is_finite() { self.at_most_at_once(f64::INFINITY) } else { self.at_once() };
        let between = self.capacity.between(in_flight, seconds);
        Estimate { low: between.low.min(most), mean: self.can_do(), high: between.high.min(most) }
    }

    /// Of those at work; infinite: one has none.
    fn maximums(&self) -> f64 {
        let at_work = self.rates.iter().filter(|rates| rates.outstanding > 0.0);
        at_work.map(|rates| rates.maximum).sum()
    }

    /// The least number in flight that costs next to no throughput: requests beyond it wait where weights are
    /// in force.
    fn depth_for_weights(&self) -> f64 {
        let at_once = self.at_once().max(1.0);
        let enough = (1.0 - DEPTH_LOSS) * self.capacity.at(at_once);
        let depth = (1..at_once.ceil() as usize).map(|k| k as f64);
        depth.into_iter().find(|k| self.capacity.at(*k) >= enough).unwrap_or(at_once)
    }

    /// What an I/O in flight brings there: what a VM keeps in flight brings no more than its part of that.
    fn each(&self) -> f64 {
        let depth = self.depth_for_weights();
        self.capacity.at(depth) / depth
    }

    /// Which VMs have too few in flight for what they would get else, at which load.
    pub(super) fn short(&self) -> Option<Short> {
        let sum = self.can_do();
        let charged = self.rates.iter().map(|rates| rates.charge).fold(1.0, f64::max) * sum;
        let unlimited: Vec<Claim> =
            self.rates.iter().map(|r| r.claim(f64::from(u32::MAX) * r.outstanding)).collect();
        let wanted = expected(charged as u64, &unlimited).rates;
        let both = wanted.iter().zip(self.rates).zip(self.expected(sum));
        let is_short = |((wanted, rates), due): &((&u64, &Rates), f64)| {
            rates.outstanding > 0.0 && **wanted as f64 / rates.charge > SHORT * due
        };
        let vms = both.filter(is_short).count();
        let (in_flight, each) = (self.depth_for_weights(), self.each());
        (vms > 0).then_some(Short { vms, in_flight, each })
    }

    fn claims(&self) -> Vec<Claim> {
        let each = self.each();
        self.rates.iter().map(|rates| rates.claim(each * rates.outstanding)).collect()
    }

    /// What each is to get by water-filling of so much together, bytes per second.
    pub(super) fn expected(&self, sum: f64) -> Vec<f64> {
        let charged = self.rates.iter().map(|rates| rates.charge).fold(1.0, f64::max) * sum;
        let filled = expected(charged as u64, &self.claims());
        filled.rates.iter().zip(self.rates).map(|(rate, rates)| *rate as f64 / rates.charge).collect()
    }

    /// Whether the minimums can be kept.
    pub(super) fn fit(&self) -> Fit {
        let unlimited: Vec<Claim> =
            self.rates.iter().map(|r| r.claim(f64::from(u32::MAX) * r.outstanding)).collect();
        let is_feasible = |bytes_per_s: f64| {
            let charged = self.rates.iter().map(|rates| rates.charge).fold(1.0, f64::max) * bytes_per_s;
            expected(charged as u64, &unlimited).feasible
        };
        if self.minimum_each() == 0.0 {
            return Fit::Fits;
        }
        if !is_feasible(self.capacity.at(self.offered().min(f64::from(self.depth_max)))) {
            return Fit::Over;
        }
        let mb = |bytes_per_s: f64| bytes_per_s / 1e6;
        let each = mb(self.minimum_each());
        match self.depth_for_minimums() {
            None => Fit::OutOfReach(format!(
                "no scheduler can: an I/O in flight must bring {each:.1} MB/s, and one alone brings {:.1} in a \
                 bad window",
                mb(self.capacity.worst_each(1.0))
            )),
            Some(depth) if !is_feasible(self.can_do()) => Fit::OutOfReach(format!(
                "no scheduler can: an I/O in flight must bring {each:.1} MB/s, in a bad window, too; that \
                 allows {depth} in flight, with which the array does {:.1} MB/s, and {:.1} are promised",
                mb(self.can_do()),
                mb(self.minimums())
            )),
            Some(_) => Fit::Fits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::capacity::Point;
    use super::*;

    fn rates(minimum: f64, maximum: f64) -> Rates {
        Rates { minimum, maximum, weight: 100, outstanding: 1.0, charge: 1.0 }
    }

    fn capacity(rates: &[f64]) -> Capacity {
        let point = |(n, rate): (usize, &f64)| Point {
            in_flight: n + 1,
            rate: *rate,
            error: rate / 100.0,
            seconds: 60.0,
            worst_each: rate / (n + 1) as f64,
        };
        Capacity(rates.iter().enumerate().map(point).collect())
    }

    const FREE: Rates =
        Rates { minimum: 0.0, maximum: f64::INFINITY, weight: 100, outstanding: 1.0, charge: 1.0 };

    #[test]
    fn what_the_array_can_do_follows_the_load() {
        let capacity = capacity(&[50.0, 80.0, 100.0, 110.0]);
        let reach = |rates: &[Rates]| {
            let reach = Reach::new(&capacity, rates, 64);
            (reach.can_do(), reach.depth_for_minimums(), reach.fit())
        };
        assert_eq!(reach(&[FREE; 4]), (110.0, Some(4), Fit::Fits));
        assert_eq!(reach(&[rates(0.0, 5.0); 4]).0, 20.0);
        // C(3)/3 = 33.3 and C(4)/4 = 27.5: three at once leave 30 to each.
        let one = reach(&[rates(30.0, f64::INFINITY), FREE, FREE, FREE]);
        assert_eq!(one, (100.0, Some(3), Fit::Fits));
        // 160 do not fit into 110: all are scaled alike, and four at once give that.
        let four = reach(&[rates(40.0, f64::INFINITY); 4]);
        assert_eq!(four, (110.0, Some(4), Fit::Over));
        // 102 would fit into 110, but each of three at once brings 33, and these do 100.
        let out = reach(&[rates(34.0, f64::INFINITY), rates(34.0, 34.0), rates(34.0, 34.0), FREE]);
        assert!(matches!(&out.2, Fit::OutOfReach(why) if why.contains("allows 3")), "{out:?}");
        // One alone does 50.
        assert!(matches!(reach(&[rates(60.0, f64::INFINITY), FREE]).2, Fit::OutOfReach(_)));
        // Two that are limited to little leave about two in flight.
        let two = reach(&[FREE, FREE, rates(0.0, 1.0), rates(0.0, 1.0)]).0;
        assert!((80.0..82.0).contains(&two), "{two}");
        // One that does nothing has nothing in flight.
        assert_eq!(reach(&[FREE, Rates { outstanding: 0.0, ..FREE }]).0, 50.0);
    }

    /// A twentieth of the array that is known to 1 % is known to a fifth.
    #[test]
    fn what_high_minimums_leave_is_less_certain_than_what_the_array_can_do() {
        let capacity = capacity(&[60e6, 100e6]);
        let rates = [rates(47.5e6, f64::INFINITY); 2];
        let between = Reach::new(&capacity, &rates, 64).can_do_between(f64::INFINITY);
        assert_eq!((between.low, between.mean, between.high), (99e6, 100e6, 101e6));
        let most = Rates { maximum: 40e6, ..rates[0] };
        let between = Reach::new(&capacity, &[most; 2], 64).can_do_between(f64::INFINITY);
        assert_eq!((between.low, between.high), (80e6, 80e6), "maximums are certain");
    }

    #[test]
    fn a_weight_brings_no_more_than_what_is_in_flight() {
        // The array does as much with one in flight: eight ninths go by weight.
        let heavy = Rates { weight: 800, ..FREE };
        let flat = capacity(&[90.0; 4]);
        let filled = Reach::new(&flat, &[heavy, FREE], 64).expected(90.0);
        assert!((filled[0] - 80.0).abs() <= 1.0, "{filled:?}");
        assert_eq!(Reach::new(&flat, &[heavy, FREE], 64).short(), None);
        // It needs both in flight: each brings half.
        let steep = capacity(&[45.0, 90.0]);
        let filled = Reach::new(&steep, &[heavy, FREE], 64).expected(90.0);
        assert_eq!(filled, [45.0, 45.0]);
        let short = Reach::new(&steep, &[heavy, FREE], 64).short();
        assert_eq!(short, Some(Short { vms: 1, in_flight: 2.0, each: 45.0 }));
    }
}
