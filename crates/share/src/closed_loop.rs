//! The leader in front of an array that is a formula: where its division comes to rest.

use std::collections::BTreeMap;

use qos::{Claim, Policy, expected};
use registry::{Key, Version};
use world::Instant;

use crate::divide::Divider;
use crate::{DiskReport, Report};

const INTERVALS: u64 = 240;
/// At the end, which are judged.
const JUDGED: u64 = 40;

/// Disks with requests outstanding all the time, at an array.
struct Loop {
    /// Bytes.
    size: f64,
    /// Of each disk.
    outstanding: f64,
    weights: Vec<u32>,
    /// Seconds that a request takes with so many in flight, in an interval.
    takes: fn(u64, f64) -> f64,
    /// The part of a rate that a disk misses because responses come late.
    lost: f64,
}

impl Loop {
    /// What is served with so many in flight, bytes per second.
    fn capacity(&self, in_flight: f64) -> f64 {
        in_flight * self.size / (self.takes)(INTERVALS, in_flight)
    }

    fn all(&self) -> f64 {
        self.outstanding * self.weights.len() as f64
    }

    /// Served to each with these rates, and how long a request takes.
    fn served(&self, interval: u64, rates: &[f64]) -> (Vec<f64>, f64) {
        let at = |takes: f64| -> Vec<f64> {
            let of = |rate: &f64| (rate * (1.0 - self.lost)).min(self.outstanding * self.size / takes);
            rates.iter().map(of).collect()
        };
        let (mut least, mut most) = (1e-6, 10.0);
        for _ in 0..60 {
            let takes = (least + most) / 2.0;
            let in_flight = at(takes).iter().sum::<f64>() * takes / self.size;
            if (self.takes)(interval, in_flight) > takes { least = takes } else { most = takes }
        }
        (at(most), most)
    }

    /// What each has at the end.
    fn play(&self) -> Vec<f64> {
        let count = self.weights.len();
        let name = |disk: usize| format!("d{disk:02}");
        let policy = |weight: &u32| Policy { weight: *weight, ..Policy::none() };
        let policies: BTreeMap<String, Policy> =
            self.weights.iter().enumerate().map(|(disk, weight)| (name(disk), policy(weight))).collect();
        let mut divider = Divider::new(Instant(0), None);
        let (mut rates, mut granted) = (vec![1e12; count], None);
        let (mut totals, mut got) = (vec![0.0; count], vec![0.0; count]);
        for interval in 1..=INTERVALS {
            let (served, takes) = self.served(interval, &rates);
            let report = |disk: usize| DiskReport {
                served: served[disk] as u64,
                granted: granted.map(|()| rates[disk] as u64),
                largest: self.size as u64,
                hungry: true,
                held_up: self.outstanding * self.size / takes <= rates[disk],
                demand: None,
                total: totals[disk] as u64,
                outstanding: (self.outstanding * 1000.0) as u64,
                below: (served[disk] * takes / self.size * 1000.0) as u64,
            };
            if interval + JUDGED > INTERVALS {
                got.iter_mut().zip(&served).for_each(|(got, served)| *got += served / JUDGED as f64);
            }
            let report =
                Report { unit: 4096, lease: 1, disks: (0..count).map(|d| (name(d), report(d))).collect() };
            let reports = [(Key::new("qos/nodes/a").expect("a key"), (Version(interval), report))].into();
            let now = Instant(interval * 500_000_000);
            totals.iter_mut().zip(&served).for_each(|(total, served)| *total += served / 2.0);
            if let Some(shares) = divider.divide(now, "a", &reports, &policies) {
                rates = (0..count).map(|disk| shares.disks[&name(disk)].rate as f64).collect();
                granted = Some(());
            }
        }
        got
    }

    /// The least part of what water-filling gives a disk, of what the array does with so many in flight; its
    /// requests bring no more than theirs of that.
    fn least(&self, in_flight: f64) -> f64 {
        let capacity = self.capacity(in_flight);
        let claim = |weight: &u32| Claim {
            minimum: 0,
            maximum: None,
            weight: u64::from(*weight),
            demand: Some((self.outstanding * capacity / in_flight) as u64),
        };
        let claims: Vec<Claim> = self.weights.iter().map(claim).collect();
        let due = expected(capacity as u64, &claims).rates;
        self.play().iter().zip(due).map(|(got, due)| got / due as f64).fold(f64::INFINITY, f64::min)
    }
}

fn weights(disks: usize) -> Vec<u32> {
    let own = |disk: usize| [100, 100, 100, 200, 200, 200, 400, 400, 800, 800].get(disk).copied();
    (0..disks).map(|disk| own(disk).unwrap_or(100)).collect()
}

/// It came to rest where two disks that cannot use their shares slowed all others to a sixth.
#[test]
fn disks_that_cannot_use_their_shares_slow_nobody() {
    let alone: fn(u64, f64) -> f64 = |_, n| 0.0065 + 0.0003 * n;
    let own = Loop { size: 4096.0, outstanding: 1.0, weights: weights(10), takes: alone, lost: 0.0 };
    assert!(own.least(own.all()) > 0.95, "{:?}", own.play());
}

/// What is missed because responses come late is not what the array lacks.
#[test]
fn an_array_with_room_is_granted_more_until_it_is_busy() {
    let drives: fn(u64, f64) -> f64 = |_, n| 0.006 + 0.0004 * n;
    let own = Loop { size: 16384.0, outstanding: 2.0, weights: vec![100; 16], takes: drives, lost: 0.03 };
    assert!(own.least(own.all()) > 0.95, "{:?}", own.play());
}

/// With all 192 requests in flight the disks of weight 8 would have a third of their shares.
#[test]
fn no_more_is_in_flight_than_shares_allow() {
    let drives: fn(u64, f64) -> f64 = |_, n| 0.006 + 0.0003 * n;
    let own = Loop { size: 16384.0, outstanding: 8.0, weights: weights(24), takes: drives, lost: 0.0 };
    assert!(own.least(62.0) > 0.92, "{:?}", own.play());
}

/// The queue is at the array: all disks wait for it, and nobody lacks requests.
#[test]
fn a_busy_array_is_divided_by_weight() {
    by_weight(|_, n| n * 0.0005);
}

#[test]
fn an_array_that_becomes_slower_is_divided_by_weight() {
    by_weight(|interval, n| n * if interval > 40 { 0.0005 } else { 0.00025 });
}

fn by_weight(takes: fn(u64, f64) -> f64) {
    let own = Loop { size: 65536.0, outstanding: 4.0, weights: weights(10), takes, lost: 0.0 };
    let got = own.play();
    let sum: f64 = got.iter().sum();
    assert!((sum / own.capacity(40.0) - 1.0).abs() < 0.03, "{got:?}");
    let all: u32 = own.weights.iter().sum();
    for (got, weight) in got.iter().zip(&own.weights) {
        let part = got / sum * f64::from(all) / f64::from(*weight);
        assert!((part - 1.0).abs() < 0.05, "{part}");
    }
}
