//! The division of the array among all disks, every interval. Pure; `now` is an argument.

use std::collections::{BTreeMap, BTreeSet};

use qos::{Claim, Expected, Policy, expected};
use registry::{Key, Version};
use world::Instant;

use crate::curve::Point;
use crate::deficit::{Deficits, Service};
use crate::grant::{Grants, Part};
use crate::limiter::claim;
use crate::room::Room;
use crate::{DiskReport, Estimate, Grant, Report, Seen, Shares};

/// Of the capacity, so much must be claimed for it to be what limits the disks.
const BOUND_PERMILLE: u64 = 990;

/// Requests in flight that no disk is to suffer from, whatever its share.
const DEPTH: f64 = qos::DEPTH_MAX_DEFAULT as f64;
/// Disks would have taken more than the array served.
const PRESSED: f64 = 1.002;
/// A disk that needs this part of its requests at the array for its share is not held back by its rate, which
/// would keep some of them away; one that needs all of them has a rate so much above its share.
const FREE: f64 = 0.7;
const FREE_RATE: f64 = 1.25;

/// What a leader remembers from one division to the next.
pub(crate) struct Divider {
    estimate: Estimate,
    deficits: Deficits,
    room: Room,
    /// Requests in flight at most, as long as nobody lacks its share by them.
    depth: f64,
    /// Whether minimums are scaled down.
    is_scaled: bool,
    /// By the last division.
    shares: BTreeMap<String, u64>,
    at: Instant,
    /// Who claims what, to see a change.
    claimed: BTreeMap<String, (u64, Option<u64>, u64)>,
    /// Whether the capacity limited the disks in the last division; if not, serving all of it says nothing.
    is_bound: bool,
    /// Versions of the reports: one that has not changed is that of a node that hangs.
    reported: BTreeMap<Key, Version>,
    /// Who had shares when it began.
    disks: BTreeSet<String>,
}

/// The disks of all reports, with what they claim and got; none: their node did not report.
#[derive(Default)]
struct Disks {
    names: Vec<String>,
    claims: Vec<Claim>,
    services: BTreeMap<String, Option<Service>>,
}

impl Divider {
    /// Goes on where the last leader stopped.
    pub(crate) fn new(now: Instant, last: Option<&Shares>) -> Divider {
        Divider {
            estimate: last.map_or_else(Estimate::default, |last| Estimate::resumed(last.sum)),
            deficits: Deficits::default(),
            room: Room::resumed(last.map_or(&[][..], |last| &last.curve)),
            depth: f64::INFINITY,
            is_scaled: false,
            shares: BTreeMap::new(),
            at: now,
            claimed: BTreeMap::new(),
            is_bound: false,
            reported: BTreeMap::new(),
            disks: last.map_or_else(BTreeSet::new, |last| last.disks.keys().cloned().collect()),
        }
    }

    /// Whether all who had shares report. After the store was away nodes come back one after the other: to
    /// divide among the first ones would give them what the others still use.
    pub(crate) fn knows_all(&self, reports: &BTreeMap<Key, (Version, Report)>) -> bool {
        self.disks.iter().all(|disk| reports.values().any(|(_, report)| report.disks.contains_key(disk)))
    }

    /// The shares of all disks; none while nothing is known of the array.
    pub(crate) fn divide(
        &mut self,
        now: Instant,
        leader: &str,
        reports: &BTreeMap<Key, (Version, Report)>,
        policies: &BTreeMap<String, Policy>,
    ) -> Option<Shares> {
        let mut disks = self.read(reports, policies);
        self.learn(now, &disks);
        let capacity = self.estimate.capacity()?;
        for (name, claim) in disks.names.iter().zip(&mut disks.claims) {
            // Minimums that do not fit take what they can: the others have the floor, whatever these get.
            let least = if self.is_scaled { claim.minimum } else { 0 };
            let usable = self.deficits.demand(name, claim.minimum).map(|usable| usable.max(least));
            claim.demand = [claim.demand, usable].into_iter().flatten().min();
        }
        let (without, reaches) = self.reaches(capacity, &disks);
        for (claim, reach) in disks.claims.iter_mut().zip(&reaches) {
            let usable = reach.map(|reach| reach.max(claim.minimum));
            claim.demand = [claim.demand, usable].into_iter().flatten().min();
        }
        let Expected { rates, feasible } = expected(capacity, &disks.claims);
        self.is_scaled = !feasible;
        self.is_bound = rates.iter().sum::<u64>() >= capacity / 1000 * BOUND_PERMILLE;
        let scale_permille = scale_permille(&disks.claims, &rates);
        let part = |((name, share), claim): ((&String, &u64), &Claim)| Part {
            share: *share,
            is_promised: is_promised(*share, claim),
            held_up: self.deficits.held_up(name),
        };
        let parts: Vec<Part> = disks.names.iter().zip(&rates).zip(&disks.claims).map(part).collect();
        let terms = Grants::new(self.estimate.headroom(), &parts);
        let steady = expected((capacity as f64 * self.estimate.steady()) as u64, &disks.claims).rates;
        let is_left = self.room.is_left(self.depth);
        let mut grants = BTreeMap::new();
        for (place, (part, steady)) in parts.iter().zip(steady).enumerate() {
            let name = &disks.names[place];
            // Minimums need the others to keep to their rates.
            let reach = reaches[place].filter(|_| !self.room.has_minimums());
            let free = free(part.share, &disks.claims[place], reach);
            let rate = self.deficits.rate(name, terms.target(part), is_left && free > 0.0);
            let grant = terms.grant(part, steady, rate);
            let most = (part.share as f64 * FREE_RATE).max(without[place] as f64);
            let more = ((most - part.share as f64).max(0.0) * free) as u64;
            let [rate, steady] = [grant.rate, grant.steady].map(|rate| rate.saturating_add(more));
            grants.insert(name.clone(), Grant { rate, steady });
        }
        self.shares = disks.names.into_iter().zip(rates).collect();
        let curve = self.room.points();
        Some(Shares { leader: leader.into(), sum: capacity, scale_permille, disks: grants, curve })
    }

    /// The shares if requests brought whatever a disk is to get, and what they bring each disk at most.
    fn reaches(&mut self, capacity: u64, disks: &Disks) -> (Vec<u64>, Vec<Option<u64>>) {
        let without = expected(capacity, &disks.claims).rates;
        let of = |((name, share), claim): ((&String, &u64), &Claim)| {
            let is_limited = claim.demand.is_none() && claim.maximum.is_none_or(|most| *share < most);
            let part = *share as f64 / capacity as f64;
            let suffers = is_limited && !is_minimum(*share, claim) && part > 0.0;
            if suffers { self.deficits.depth(name, part) } else { f64::INFINITY }
        };
        let depths = disks.names.iter().zip(&without).zip(&disks.claims).map(of);
        self.depth = depths.fold(f64::INFINITY, f64::min).max(DEPTH);
        let slowness = self.room.slowness(self.depth);
        let reaches = disks.names.iter().map(|name| self.deficits.reach(name, slowness?)).collect();
        (without, reaches)
    }

    fn read(
        &mut self,
        reports: &BTreeMap<Key, (Version, Report)>,
        policies: &BTreeMap<String, Policy>,
    ) -> Disks {
        let mut disks = Disks::default();
        for (node, (version, report)) in reports {
            let is_news = self.reported.insert(node.clone(), *version) != Some(*version);
            for (name, seen) in &report.disks {
                let policy = policies.get(name).copied().unwrap_or_else(Policy::none);
                let claim = claim(&policy, report.unit, seen.demand);
                let service = service(seen, &claim, self.shares.get(name).copied());
                disks.names.push(name.clone());
                disks.claims.push(claim);
                disks.services.insert(name.clone(), is_news.then_some(service));
            }
        }
        self.reported.retain(|node, _| reports.contains_key(node));
        disks
    }

    /// Looks at how many requests were in flight in the interval, and at what the array did with them.
    fn look(&mut self, disks: &Disks) {
        let all = || disks.services.values().flatten();
        let in_flight = all().map(|service| service.below).sum();
        let rate = all().map(|service| service.served as f64).sum();
        let limited = || all().filter(|service| service.is_limited);
        let [granted, served]: [f64; 2] = [
            limited().map(|service| service.granted as f64).sum(),
            limited().map(|service| service.served as f64).sum(),
        ];
        // Before the first shares nothing limits them.
        let is_pressed = self.shares.is_empty() || granted > served * PRESSED;
        let minimums = (all().any(|service| service.is_minimum), self.deficits.lacks(&disks.services));
        self.room.observe(Point { in_flight, rate }, is_pressed, minimums);
    }

    /// Learns from the interval that has passed.
    fn learn(&mut self, now: Instant, disks: &Disks) {
        let seconds = now.since(self.at).as_secs_f64();
        self.at = now;
        // What a node that hangs does not report is not what the array does not serve.
        if disks.services.values().all(Option::is_some) {
            self.look(disks);
            let wanted = self.room.wanted(self.depth);
            let seen = self.deficits.seen(&disks.services, self.is_bound);
            self.estimate.observe(Seen { wanted: wanted.map(|wanted| wanted as u64), ..seen });
        }
        self.deficits.observe(seconds, &disks.services);
        let claimed = disks.names.iter().zip(&disks.claims);
        let claimed = claimed
            .map(|(name, claim)| (name.clone(), (claim.minimum, claim.maximum, claim.weight)))
            .collect();
        if claimed != self.claimed {
            self.estimate.changed();
            if !self.shares.is_empty() {
                self.room.changed();
            }
            self.deficits.forget();
            self.claimed = claimed;
        }
    }
}

/// How nearly a disk needs all that it has outstanding for its share, from 0 to 1.
fn free(share: u64, claim: &Claim, reach: Option<u64>) -> f64 {
    let reach = match reach {
        Some(reach) if !is_minimum(share, claim) => reach,
        _ => return 0.0,
    };
    let used = (share as f64 + 1.0) / (reach as f64).max(1.0);
    ((used - FREE) / (1.0 - FREE)).clamp(0.0, 1.0)
}

/// Whether a share is what a disk has of its minimum, and no more.
fn is_minimum(share: u64, claim: &Claim) -> bool {
    claim.minimum > 0 && share <= claim.minimum
}

/// What a disk got, with this claim and share.
fn service(seen: &DiskReport, claim: &Claim, share: Option<u64>) -> Service {
    let is_below_maximum = share.is_some_and(|share| claim.maximum.is_none_or(|most| share < most));
    Service {
        total: seen.total,
        served: seen.served,
        granted: seen.granted.unwrap_or_default(),
        share: share.unwrap_or_default(),
        largest: seen.largest,
        is_limited: seen.hungry && seen.granted.is_some() && is_below_maximum,
        is_promised: share.is_some_and(|share| is_promised(share, claim)),
        is_minimum: share.is_some_and(|share| is_minimum(share, claim)),
        is_held_up: seen.held_up,
        outstanding: seen.outstanding as f64 / 1000.0,
        below: seen.below as f64 / 1000.0,
    }
}

/// Whether a share is the minimum, no more and no less; shares are rounded down.
fn is_promised(share: u64, claim: &Claim) -> bool {
    claim.minimum > 0 && (share..=share.saturating_add(1)).contains(&claim.minimum)
}

/// Of 1000: what is given of the minimums, of the disk that gets least of what it asks for.
fn scale_permille(claims: &[Claim], rates: &[u64]) -> u64 {
    let given = |(claim, rate): (&Claim, &u64)| {
        let asked = claim.minimum.min(claim.demand.unwrap_or(u64::MAX));
        // Rates are rounded down.
        (asked > 0).then(|| ((u128::from(*rate) + 1) * 1000 / u128::from(asked)).min(1000) as u64)
    };
    claims.iter().zip(rates).filter_map(given).min().unwrap_or(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(minimum: u64) -> Claim {
        Claim { minimum, maximum: None, weight: 1, demand: None }
    }

    /// The floor is that of the array's own scheduler: one formula for both.
    #[test]
    fn shares_are_those_of_the_formula_and_say_what_of_the_minimums_is_given() {
        let claims = [claim(500), claim(1500), claim(0), claim(0)];
        let rates = expected(1000, &claims).rates;
        assert_eq!((rates.as_slice(), scale_permille(&claims, &rates)), (&[245, 735, 10, 10][..], 490));
        let claims = [claim(400), claim(0)];
        assert_eq!(scale_permille(&claims, &expected(1000, &claims).rates), 1000);
        let idle = Claim { demand: Some(10), ..claim(400) };
        assert_eq!(scale_permille(&[idle], &[10]), 1000);
        assert_eq!(scale_permille(&[claim(0)], &[0]), 1000);
    }

    /// A node that hangs goes on with its rates: nothing is known of it, and nobody owes it anything.
    #[test]
    fn a_report_that_has_not_changed_is_not_counted_twice() {
        let key = Key::new("qos/nodes/a").expect("a key");
        let report = |total| {
            let disk = DiskReport {
                served: 1000,
                granted: Some(1000),
                hungry: true,
                total,
                ..DiskReport::default()
            };
            Report { unit: 1, lease: 1, disks: [("d".into(), disk)].into() }
        };
        let mut divider = Divider::new(Instant(0), Some(&Shares { sum: 1000, ..Shares::default() }));
        let mut divide = |second: u64, version: u64, total: u64| {
            let reports = [(key.clone(), (Version(version), report(total)))].into();
            let shares = divider.divide(Instant(second * 1_000_000_000), "a", &reports, &BTreeMap::new());
            shares.expect("known")
        };
        let first = divide(1, 1, 1000);
        assert_eq!(first, divide(2, 1, 1000));
        assert_eq!(first, divide(9, 1, 1000));
        assert_eq!(first, divide(10, 2, 10_000));
    }

    #[test]
    fn a_node_that_hangs_does_not_lower_the_capacity() {
        let mut divider = Divider::new(Instant(0), Some(&Shares { sum: 2000, ..Shares::default() }));
        let mut sums = vec![];
        for interval in 1..20 {
            let report = |name: &str, node: &str, version: u64| {
                let total = 500 * version;
                let disk = DiskReport {
                    served: 1000,
                    granted: Some(1010),
                    hungry: true,
                    held_up: true,
                    total,
                    ..DiskReport::default()
                };
                let report = Report { unit: 1, lease: 1, disks: [(name.to_owned(), disk)].into() };
                (Key::new(&format!("qos/nodes/{node}")).expect("a key"), (Version(version), report))
            };
            // The second one hangs from the tenth interval on.
            let reports = [report("d", "a", interval), report("e", "b", interval.min(10))].into();
            let shares = divider.divide(Instant(interval * 500_000_000), "a", &reports, &BTreeMap::new());
            sums.push(shares.expect("known").sum);
        }
        assert!(sums[10..].iter().all(|sum| sum.abs_diff(sums[8]) <= sums[8] / 100), "{sums:?}");
    }

    #[test]
    fn reports_of_any_numbers_are_divided_without_a_panic() {
        let numbers = [0, 1, 8192, u64::MAX / 2, u64::MAX];
        let mut divider = Divider::new(Instant(0), Some(&Shares { sum: u64::MAX, ..Shares::default() }));
        for (round, number) in (1..).zip(numbers.into_iter().cycle().take(40)) {
            let disk = |hungry, demand| DiskReport {
                served: number,
                granted: Some(number),
                largest: number,
                hungry,
                held_up: hungry,
                demand,
                total: number,
                outstanding: number,
                below: number,
            };
            let disks =
                [("a", disk(true, None)), ("b", disk(true, Some(number))), ("c", disk(false, Some(number)))];
            let disks = disks.into_iter().map(|(name, disk)| (name.to_owned(), disk)).collect();
            let key = Key::new("qos/nodes/n").expect("a key");
            let reports = [(key, (Version(round), Report { unit: number, lease: number, disks }))].into();
            let policy = Policy { minimum_iops: number, ..Policy::none() };
            let policies = [("a".to_owned(), policy)].into();
            let shares = divider.divide(Instant(round.saturating_mul(number)), "n", &reports, &policies);
            assert!(shares.is_some_and(|shares| shares.disks.len() == 3), "{number}");
        }
    }
}
