//! What each disk has got more or less than its share, and the rate that makes up for it.
//!
//! The array serves whoever asks. A disk whose rate is low gets all of it, and one whose rate is high gets
//! what is left: so each rate is corrected by what the disk is behind or ahead of its share, until all have
//! theirs on average, whatever the array can do. A disk that stays behind has too few requests at once for
//! its share: it is taken to want what it gets, until it is tried again.

use std::collections::BTreeMap;

use crate::Seen;

/// So long it takes to make up for a difference; and at least as long as these requests at the disk's share.
const CORRECT_S: f64 = 0.5;
const REQUESTS: f64 = 2.0;
/// A difference of more than this time at the disk's share is not made up: the disk cannot use its share.
const LATE_S: f64 = 1.0;
/// What disks with a minimum got beyond it is given back but for this part of what the others are to get: in
/// the array's next bad moment it keeps the minimum.
const KEPT: f64 = 0.015;
/// A rate is corrected down to this part of the share.
const LEAST: f64 = 0.25;
/// Whoever cannot use its share is given so much more than it gets.
const GROWTH: f64 = 1.05;
/// Weight of a new interval in what it gets.
const WEIGHT: f64 = 0.25;
/// With fewer at the array on average, nothing is known of how long they take.
const BELOW_LEAST: f64 = 0.02;
/// A minimum may lack if the disk waits for the array so often, and has no more than so much beyond it.
const HELD_UP: f64 = 0.5;
const NEAR: f64 = 0.05;
/// Intervals for which a minimum is tried, and those after which a share is tried again.
const HOPELESS: u32 = 20;
const RETRY: u32 = 120;

/// What the leader knows of a disk in an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Service {
    /// Bytes served since the node began.
    pub(crate) total: u64,
    /// Bytes per second in the interval.
    pub(crate) served: u64,
    /// The rate in force in it.
    pub(crate) granted: u64,
    /// The share that the rate is made of.
    pub(crate) share: u64,
    /// Bytes of its largest request.
    pub(crate) largest: u64,
    /// Whether its share is what limits it: it has requests all the time, and no lower maximum.
    pub(crate) is_limited: bool,
    /// Whether its share is its minimum: what the array lacks is for others to go without.
    pub(crate) is_promised: bool,
    /// Whether its share is its minimum, or what is left of it.
    pub(crate) is_minimum: bool,
    /// Whether it has, and its rate made none wait.
    pub(crate) is_held_up: bool,
    /// Requests that it had on average, and of these the ones at the array.
    pub(crate) outstanding: f64,
    pub(crate) below: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Disk {
    /// None: no report in the last interval.
    total: Option<u64>,
    /// Bytes per second, averaged.
    served: f64,
    largest: f64,
    /// Bytes per second.
    share: f64,
    /// How often it waits for the array and not for its rate, from 0 to 1, averaged.
    held_up: f64,
    /// Bytes that it is behind its share.
    behind: f64,
    /// Intervals in a row in which it could not use its share.
    short: u32,
    /// Requests that it has, and of these the ones at the array, averaged.
    outstanding: f64,
    below: f64,
    /// Whether its requests limit it, or nearly, and the array has room: what it lacks is not what the array
    /// lacks.
    is_free: bool,
}

impl Disk {
    fn late(&self) -> f64 {
        LATE_S * self.share + self.largest
    }

    fn observe(&mut self, seconds: f64, service: &Service) {
        let got = self.total.map(|total| service.total.saturating_sub(total) as f64);
        self.total = Some(service.total);
        self.largest = service.largest as f64;
        self.served += WEIGHT * (service.served as f64 - self.served);
        self.outstanding += WEIGHT * (service.outstanding - self.outstanding);
        self.below += WEIGHT * (service.below - self.below);
        self.held_up += WEIGHT * (f64::from(u8::from(service.is_held_up)) - self.held_up);
        match got {
            Some(got) if service.is_limited => self.behind += self.share * seconds - got,
            _ => self.behind = 0.0,
        }
    }
}

/// The disks by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deficits {
    disks: BTreeMap<String, Disk>,
}

impl Deficits {
    /// Claims have changed: what was missed under the old ones is not made up.
    pub(crate) fn forget(&mut self) {
        self.disks.values_mut().for_each(|disk| (disk.behind, disk.short) = (0.0, 0));
    }

    /// Takes the service of an interval of `seconds` into account; none: its node did not report. Disks that
    /// are not named are gone.
    pub(crate) fn observe(&mut self, seconds: f64, services: &BTreeMap<String, Option<Service>>) {
        self.disks.retain(|name, _| services.contains_key(name));
        for (name, service) in services {
            let disk = self.disks.entry(name.clone()).or_default();
            match service {
                Some(service) => disk.observe(seconds, service),
                None => (disk.total, disk.behind) = (None, 0.0),
            }
        }
        let is_limited = |name: &String, disk: &Disk| {
            disk.short == 0 && services[name].is_some_and(|service| service.is_limited)
        };
        // The array did more or less than it was known to do: nobody is owed that. Whoever has its minimum
        // keeps it.
        let limited = || self.disks.iter().filter(|(name, disk)| is_limited(name, disk));
        let behind: f64 = limited().map(|(_, disk)| disk.behind).sum();
        let is_promised = |name: &String| services[name].is_some_and(|service| service.is_promised);
        let shares_of = |which: &dyn Fn(&String) -> bool| -> f64 {
            limited().filter(|(name, _)| which(name)).map(|(_, disk)| disk.share).sum()
        };
        let all_promised = limited().all(|(name, _)| is_promised(name));
        let bears = |name: &String| all_promised || !is_promised(name);
        let (shares, promised) = (shares_of(&bears), shares_of(&is_promised));
        let kept = if all_promised { 0.0 } else { KEPT * seconds * shares / promised.max(1.0) };
        for (name, disk) in &mut self.disks {
            let is_held_up = services[name].is_some_and(|service| service.is_limited && service.is_held_up);
            if is_limited(name, disk) {
                if bears(name) {
                    disk.behind -= behind / shares.max(1.0) * disk.share;
                } else if disk.behind < 0.0 {
                    disk.behind = (disk.behind + kept * disk.share).min(0.0);
                }
                let is_short = is_held_up && disk.behind > disk.late();
                disk.short = u32::from(is_short);
                disk.behind = disk.behind.clamp(-disk.late(), disk.late());
            } else if disk.short > 0 {
                disk.behind = 0.0;
                disk.short = if is_held_up && disk.short < RETRY { disk.short + 1 } else { 0 };
            }
        }
    }

    /// What all nodes together report of an interval; before the first shares all service counts.
    pub(crate) fn seen(&self, services: &BTreeMap<String, Option<Service>>, is_bound: bool) -> Seen {
        let mut seen = Seen { is_bound, ..Seen::default() };
        for (name, service) in services.iter().filter_map(|(name, service)| Some((name, (*service)?))) {
            // Reports are input: a damaged one must not end the process.
            seen.served = seen.served.saturating_add(service.served);
            let disk =
                self.disks.get(name).filter(|disk| service.is_limited && disk.short == 0 && !disk.is_free);
            if let Some(disk) = disk {
                seen.due = seen.due.saturating_add(service.granted.min(disk.share as u64));
                seen.granted = seen.granted.saturating_add(service.granted);
                seen.served_of_granted = seen.served_of_granted.saturating_add(service.served);
            }
        }
        seen
    }

    /// What its requests bring a disk at most where the array is just busy; `slowness` is how much longer
    /// requests take now. Bytes per second; none: not known.
    pub(crate) fn reach(&self, name: &str, slowness: f64) -> Option<u64> {
        let disk = self.disks.get(name).filter(|disk| disk.below > BELOW_LEAST && disk.served >= 1.0)?;
        Some((disk.outstanding * disk.served / disk.below * slowness) as u64)
    }

    /// With more in flight than this it cannot have a share, which is this part of all.
    pub(crate) fn depth(&self, name: &str, part: f64) -> f64 {
        self.disks.get(name).map_or(f64::INFINITY, |disk| disk.outstanding / part)
    }

    /// Whether a disk has less than its minimum, or than is left of it, because it waits for the array; or
    /// would have, if requests took a little longer.
    pub(crate) fn lacks(&self, services: &BTreeMap<String, Option<Service>>) -> bool {
        self.disks.iter().any(|(name, disk)| {
            services.get(name).copied().flatten().is_some_and(|service| {
                let least = service.share as f64 * (1.0 + NEAR);
                service.is_minimum && disk.held_up > HELD_UP && disk.served < least
            })
        })
    }

    /// What a disk with this minimum would take, if it cannot use its share; bytes per second.
    pub(crate) fn demand(&self, name: &str, minimum: u64) -> Option<u64> {
        let disk = self.disks.get(name).filter(|disk| disk.short > 0)?;
        let usable = (disk.served * GROWTH) as u64;
        Some(if disk.short < HOPELESS { usable.max(minimum) } else { usable })
    }

    /// How often a disk waits for the array and not for its rate, from 0 to 1.
    pub(crate) fn held_up(&self, name: &str) -> f64 {
        self.disks.get(name).map_or(0.0, |disk| disk.held_up)
    }

    /// The rate in force for a disk with this share from now on, bytes per second, before headroom.
    /// `is_free`: its requests limit it, or nearly, and the array has room.
    pub(crate) fn rate(&mut self, name: &str, share: f64, is_free: bool) -> f64 {
        let Some(disk) = self.disks.get_mut(name) else { return share };
        (disk.share, disk.is_free) = (share, is_free);
        let time = CORRECT_S.max(REQUESTS * disk.largest / share.max(1.0));
        (share + disk.behind / time).max(share * LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(total: u64, served: u64, is_promised: bool) -> Option<Service> {
        Some(Service {
            total,
            served,
            granted: served,
            share: served,
            largest: 10,
            is_limited: true,
            is_promised,
            is_minimum: is_promised,
            is_held_up: true,
            outstanding: 1.0,
            below: 1.0,
        })
    }

    /// Two disks that have got so much in a second, of shares of 1000 each.
    fn after_a_second(a: u64, b: u64, a_is_promised: bool) -> (f64, f64) {
        let mut deficits = Deficits::default();
        let services = |a, b| {
            [("a".to_owned(), service(a, a, a_is_promised)), ("b".to_owned(), service(b, b, false))].into()
        };
        deficits.observe(1.0, &services(0, 0));
        deficits.rate("a", 1000.0, false);
        deficits.rate("b", 1000.0, false);
        deficits.observe(1.0, &services(a, b));
        (deficits.rate("a", 1000.0, false), deficits.rate("b", 1000.0, false))
    }

    #[test]
    fn what_one_got_more_than_its_share_is_made_up_for() {
        let (a, b) = after_a_second(900, 1100, false);
        assert!(a > 1000.0 && b < 1000.0 && (a + b - 2000.0).abs() < 1.0, "{a} {b}");
        // The array did less than it was known to do: neither is owed that.
        assert_eq!(after_a_second(900, 900, false), (1000.0, 1000.0));
    }

    #[test]
    fn a_minimum_is_made_up_for_by_those_who_have_none() {
        let (promised, other) = after_a_second(900, 900, true);
        assert!(promised > 1000.0 && other < 1000.0, "{promised} {other}");
    }

    #[test]
    fn what_a_minimum_got_beyond_it_is_given_back_but_for_a_part_of_what_others_are_to_get() {
        // Of 1000, for a second: 15 of the 100.
        let (promised, other) = after_a_second(1100, 900, true);
        let ahead = (1000.0 - promised) * CORRECT_S;
        assert!((ahead - 85.0).abs() < 1.0 && other > 1000.0, "{ahead} {other}");
        let (promised, _) = after_a_second(1010, 990, true);
        assert_eq!(promised, 1000.0);
    }

    #[test]
    fn a_disk_that_cannot_use_its_share_wants_what_it_gets_until_it_is_tried_again() {
        let mut deficits = Deficits::default();
        let mut totals = (0, 0);
        let mut wants = Vec::new();
        for interval in 0..=RETRY + 20 {
            let services = [
                ("a".to_owned(), service(totals.0, 400, false)),
                ("b".to_owned(), service(totals.1, 1600, false)),
            ];
            deficits.observe(0.5, &services.into());
            wants.push(deficits.demand("a", 0));
            assert_eq!(deficits.demand("b", 0), None, "{interval}");
            let share = deficits.demand("a", 0).map_or(1000.0, |usable| usable as f64);
            deficits.rate("a", share, false);
            deficits.rate("b", 2000.0 - share, false);
            totals = (totals.0 + 200, totals.1 + 800);
        }
        let first = wants.iter().position(Option::is_some).expect("it is noticed");
        assert!(first <= 8, "{first}");
        assert!(wants[first + 10].is_some_and(|usable| (380..=430).contains(&usable)), "{wants:?}");
        assert!(wants[first + 1..].contains(&None), "it is tried again");
    }
}
