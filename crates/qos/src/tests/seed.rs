//! Ten virtual machines, each with one random write of 512 KiB out: the phases of one host and of a cluster.

use super::*;
use crate::{expected, shares};

const MB: u64 = 1_000_000;

/// The policies of VM01-05 and of VM06-10 in each phase.
type Phases = &'static [(Policy, Policy)];

const NONE: Policy = Policy {
    minimum_iops: 0,
    maximum_iops: None,
    bandwidth_bytes_per_s: None,
    weight: crate::WEIGHT_DEFAULT,
    burst_units: 0,
};
const fn min(minimum_iops: u64) -> Policy {
    Policy { minimum_iops, ..NONE }
}
const fn max(maximum_iops: u64) -> Policy {
    Policy { maximum_iops: Some(maximum_iops), ..NONE }
}

const SINGLE: Phases = &[(NONE, NONE), (max(1000), NONE), (max(1000), min(3000)), (NONE, NONE)];
const CLUSTER: Phases =
    &[(NONE, NONE), (min(2000), NONE), (min(3000), NONE), (min(3000), min(3000)), (NONE, NONE)];
const MAXIMUMS: Phases =
    &[(NONE, NONE), (max(500), NONE), (max(1000), NONE), (max(1000), max(1000)), (NONE, NONE)];
const PHASE_NS: u64 = 60 * SECOND_NS;
/// From when on a phase is judged.
const SETTLED_NS: u64 = 5 * SECOND_NS;

fn enter(array: &mut Array, phase: (Policy, Policy)) {
    for load in 0..10 {
        array.set_policy(load, if load < 5 { phase.0 } else { phase.1 });
    }
}

/// Minimums hold in the worst 1 % of 5 s windows, maximums in all.
fn check_held(array: &Array, load: usize, wanted: u64, feasible: bool, (from, to): (u64, u64)) {
    let policy = array.loads[load].policy;
    let mut windows = array.windows(load, from, to);
    windows.sort_unstable();
    if policy.minimum_iops > 0 && feasible {
        let worst = windows[windows.len() / 100];
        assert!(worst * 100 >= policy.minimum_iops * 5 * 98, "load {load}: {worst} units in 5 s");
    }
    if let Some(most) = policy.maximum_iops {
        let best = *windows.last().expect("windows");
        assert!(best <= most * 5 + 64, "load {load}: {best} units in 5 s, {most} a second are allowed");
        assert!(wanted <= most);
    }
}

fn check_phases(name: &str, phases: Phases, capacity_mb: u64) {
    let mut array = Array::new(capacity_mb * MB, 1, 1, &[Load::of(NONE); 10]);
    for (number, phase) in phases.iter().enumerate() {
        enter(&mut array, *phase);
        let begin = array.now;
        array.run(PHASE_NS);
        let (from, to) = (begin + SETTLED_NS, array.now);
        let wanted = expected(capacity_mb * MB / UNIT, &array.claims());
        let got: Vec<u64> = (0..10).map(|load| array.rate(load, from, to)).collect();
        let scheduler = &array.schedulers[0];
        println!("{name} ({}) C = {capacity_mb}: {got:?}, depth {}", number + 1, scheduler.depth());
        // Without a policy 10 requests are out, and the array serves them in turn.
        for (load, (got, wanted)) in got.iter().zip(&wanted.rates).enumerate() {
            check_near(&format!("{name} ({}), load {load}", number + 1), *got, *wanted, 20);
            check_held(&array, load, *wanted, wanted_is_feasible(&array, capacity_mb), (from, to));
        }
        let (sum, all): (u64, u64) = (got.iter().sum(), wanted.rates.iter().sum());
        assert!(sum * 100 >= all * 97, "{name} ({}): {sum} of {all}", number + 1);
    }
}

fn wanted_is_feasible(array: &Array, capacity_mb: u64) -> bool {
    expected(capacity_mb * MB / UNIT, &array.claims()).feasible
}

#[test]
fn the_phases_of_one_host_come_out() {
    [130, 140, 150, 160].iter().for_each(|c| check_phases("single", SINGLE, *c));
}

#[test]
fn the_phases_of_a_cluster_come_out_where_all_hosts_meet() {
    [130, 140, 150, 160].iter().for_each(|c| check_phases("cluster", CLUSTER, *c));
}

#[test]
fn maximums_hold_in_a_cluster() {
    [130, 160].iter().for_each(|c| check_phases("maximums", MAXIMUMS, *c));
}

/// Two hosts with a scheduler each, before one array.
fn two_hosts() -> Array {
    let load = |i: usize| Load { scheduler: i / 5, ..Load::of(if i < 5 { min(2000) } else { NONE }) };
    let loads: Vec<Load> = (0..10).map(load).collect();
    // A host does not know what the array takes: it lets everything through.
    let settings = Settings { depth_adapts: false, ..Settings::default() };
    Array::with(settings, 140 * MB, 1, 2, &loads)
}

#[test]
fn without_coordination_a_host_cannot_slow_the_other_down() {
    for minimum in [2000, 3000] {
        let mut array = two_hosts();
        (0..5).for_each(|load| array.set_policy(load, min(minimum)));
        array.run(60 * SECOND_NS);
        for load in 0..10 {
            let got = array.rate(load, 5 * SECOND_NS, 60 * SECOND_NS);
            check_near(&format!("load {load}"), got, 14 * MB / UNIT, 50);
        }
    }
}

#[test]
fn with_shares_of_the_array_a_minimum_holds_across_hosts() {
    let mut array = two_hosts();
    let mut changed = Vec::new();
    for _ in 0..60 {
        array.run(SECOND_NS);
        let now = array.now;
        let claims = |s: &mut Scheduler| {
            s.close_window(now, &mut changed);
            s.claims().map(|(_, claim)| claim).collect()
        };
        let nodes: Vec<Vec<Claim>> = array.schedulers.iter_mut().map(claims).collect();
        // What the array can do is measured; a part is left, so that it has no queue of its own.
        let parts = shares(140 * MB / UNIT * 97 / 100, &nodes);
        array.schedulers.iter_mut().zip(parts).for_each(|(s, part)| s.set_share(now, Some(part)));
    }
    for load in 0..10 {
        let got = array.rate(load, 10 * SECOND_NS, 60 * SECOND_NS);
        println!("load {load}: {got}");
        match load {
            0..5 => assert!(got >= 2000 * 98 / 100, "load {load}: {got}"),
            _ => check_near(&format!("load {load}"), got, (140 * MB / UNIT * 97 / 100 - 10_000) / 5, 20),
        }
    }
}

#[test]
fn minimums_that_do_not_fit_are_scaled_alike_and_reported() {
    let policy = |i: usize| min([1000, 2000, 3000, 4000, 6000][i % 5]);
    let loads: Vec<Load> = (0..10).map(|i| Load::of(policy(i))).collect();
    let mut array = Array::new(140 * MB, 1, 1, &loads);
    let mut changed = Vec::new();
    for _ in 0..60 {
        array.run(SECOND_NS);
        array.schedulers[0].close_window(array.now, &mut changed);
    }
    let wanted = expected(140 * MB / UNIT, &array.claims());
    assert!(!wanted.feasible);
    let got: Vec<u64> = (0..10).map(|i| array.rate(i, 5 * SECOND_NS, 60 * SECOND_NS)).collect();
    let scale = array.schedulers[0].scale_permille();
    println!(
        "{got:?}, {:?} are expected, scale {scale}, depth {}",
        wanted.rates,
        array.schedulers[0].depth()
    );
    for (load, (got, wanted)) in got.iter().zip(&wanted.rates).enumerate() {
        check_near(&format!("load {load}"), *got, *wanted, 20);
    }
    check_near("scale", u64::from(scale), 17_090 * 1000 / 32_000, 20);
    assert_eq!(changed.len(), 10, "each is below its minimum, and told once: {changed:?}");
    check_near("capacity", array.schedulers[0].capacity().units_per_s, 17_090, 20);
    assert!(array.schedulers[0].capacity().saturated);
}
