//! Against networks whose truth is known: measured with 1 to 6 servers and noise, predicted for 7 to 16.

use world::Rng;

use super::*;
use crate::mva::{Chain, Network, Rate, Station, solve_chains};

/// Measurements of each network: with ten predictions each, forty against the band.
const SEEDS: u64 = 4;

/// A network that servers use, and its noise.
struct Truth {
    outstanding: u32,
    groups: u32,
    drives: u32,
    think_s: f64,
    /// Name, demand in all, units.
    shared: Vec<(&'static str, f64, u32)>,
    /// Demand of a drive with n servers.
    drive_s: fn(f64) -> f64,
    sorting: f64,
    noise: f64,
}

impl Truth {
    fn ramp(&self) -> Ramp {
        let mut resources: Vec<Resource> = self
            .shared
            .iter()
            .map(|(name, _, units)| Resource { name: (*name).into(), units: *units, place: Place::Shared })
            .collect();
        if self.groups > 0 {
            resources.push(Resource { name: "drives".into(), units: self.drives, place: Place::Group });
        }
        Ramp { outstanding: self.outstanding, resources, groups: self.groups, sorting: None, samples: vec![] }
    }

    fn chain(&self, servers: u32, count: u32, each: u32) -> Chain {
        let customers = (each * self.outstanding) as usize;
        let rates = (1..=customers).map(|queue| (queue as f64).powf(self.sorting)).collect();
        let drive = Station {
            name: "drive".into(),
            demand_s: (self.drive_s)(f64::from(servers)),
            rate: if self.sorting > 0.0 { Rate::Dependent(rates) } else { Rate::Single },
        };
        let drives = if drive.demand_s > 0.0 { self.drives as usize } else { 0 };
        let own = Network { think_s: self.think_s, stations: vec![drive; drives] };
        Chain { count: count as usize, customers, own }
    }

    fn iops(&self, servers: u32) -> f64 {
        let shares = self.ramp().shares(servers);
        let chains: Vec<Chain> =
            shares.iter().map(|(count, each)| self.chain(servers, *count, *each)).collect();
        let station = |(name, demand_s, units): &(&str, f64, u32)| Station {
            name: (*name).into(),
            demand_s: *demand_s,
            rate: Rate::Servers(*units),
        };
        let shared: Vec<Station> = self.shared.iter().map(station).collect();
        let rates = solve_chains(&shared, &chains).expect("a network");
        rates.iter().zip(&shares).map(|(rate, (count, _))| rate * f64::from(*count)).sum()
    }

    /// The queue and the utilisation of a drive, where nothing is shared.
    fn drive(&self, servers: u32) -> (f64, f64) {
        let shares = self.ramp().shares(servers);
        let (mut queue, mut busy, mut groups) = (0.0, 0.0, 0.0);
        for (count, each) in shares {
            let chain = self.chain(servers, count, each);
            let point =
                crate::mva::solve(&chain.own, chain.customers).expect("a network").pop().expect("a point");
            queue += f64::from(count) * point.stations[0].queue;
            busy += f64::from(count) * point.stations[0].utilisation;
            groups += f64::from(count);
        }
        (queue / groups, busy / groups)
    }

    /// Four windows in each of three repeats.
    fn measured(&self, upto: u32, seed: u64) -> Ramp {
        let mut rng = Rng::with_seed(seed);
        let mut ramp = self.ramp();
        for servers in 1..=upto {
            let iops = self.iops(servers);
            let in_use = f64::from(servers.min(self.groups.max(1)));
            for window in 0..12 {
                let mut noisy = |value: f64| value * (1.0 + self.noise * (2.0 * rng.f64() - 1.0));
                let mut utilisation: Vec<f64> = self
                    .shared
                    .iter()
                    .map(|(_, demand_s, units)| noisy(iops * demand_s / f64::from(*units)))
                    .collect();
                let mut queue = 0.0;
                if self.sorting > 0.0 {
                    let (mean_queue, busy) = self.drive(servers);
                    queue = noisy(mean_queue);
                    utilisation.push(noisy(busy).min(1.0));
                } else if self.groups > 0 {
                    utilisation.push(noisy(iops * (self.drive_s)(f64::from(servers)) / in_use).min(1.0));
                }
                let iops = noisy(iops);
                ramp.samples.push(Sample { servers, repeat: window / 4, iops, utilisation, queue });
            }
        }
        ramp
    }
}

/// Fits on 1 to 6 and holds 7 to 16 against the truth, for several seeds.
fn check(truth: &Truth, sorting: Option<f64>) {
    let (mut within, mut all) = (0, 0);
    for seed in 0..SEEDS {
        let ramp = Ramp { sorting, ..truth.measured(6, seed) };
        let forecast = predict(&ramp, 16, seed).expect("a prediction");
        assert_eq!(forecast.refused, None);
        for point in forecast.points.iter().filter(|point| point.servers > 6) {
            let should = truth.iops(point.servers);
            let bar = if point.servers <= 8 { 0.05 } else { 0.10 };
            let off = point.iops.median / should - 1.0;
            assert!(off.abs() <= bar, "seed {seed}, {} servers: {off:+.3}, {point:?}", point.servers);
            within += u32::from((point.iops.low..=point.iops.high).contains(&should));
            all += 1;
        }
    }
    assert!(within * 10 >= all * 9, "the band holds {within} of {all}");
}

fn port_and_controller() -> Truth {
    Truth {
        outstanding: 4,
        groups: 0,
        drives: 0,
        think_s: 0.001,
        shared: vec![("CTRL0", 60e-6, 2), ("port", 20e-6, 1)],
        drive_s: |_| 0.0,
        sorting: 0.0,
        noise: 0.04,
    }
}

#[test]
fn a_port_that_nobody_filled_yet_is_found() {
    let truth = port_and_controller();
    check(&truth, None);
    let forecast = predict(&truth.measured(6, 1), 16, 1).expect("a prediction");
    let end = forecast.ends.expect("something ends it");
    assert_eq!(end.resource, "CTRL0");
    assert!((8..=14).contains(&end.servers), "{end:?}");
    let validation = forecast.validation.expect("a validation");
    assert_eq!((validation.fitted_to, validation.points.len()), (4, 2));
    assert!(validation.points.iter().all(|point| point.error().abs() < 0.05), "{validation:?}");
}

#[test]
fn servers_that_share_groups_unequally_are_told_apart() {
    check(&Truth { groups: 4, drives: 3, drive_s: |_| 0.0018, ..port_and_controller() }, Some(0.0));
    check(
        &Truth { groups: 8, drives: 2, outstanding: 1, drive_s: |_| 0.003, ..port_and_controller() },
        Some(0.0),
    );
}

#[test]
fn drives_that_sort_their_queue_give_more_with_more_servers() {
    let truth = Truth {
        groups: 4,
        drives: 2,
        outstanding: 8,
        shared: vec![],
        drive_s: |_| 0.0055,
        sorting: 0.28,
        ..port_and_controller()
    };
    check(&truth, Some(0.28));
    // Two servers on a group, or one: that is enough to tell.
    let found = predict(&truth.measured(6, 3), 16, 3).expect("a prediction").sorting.expect("told");
    assert!((found - 0.28).abs() < 0.1, "{found}");
}

#[test]
fn a_hit_ratio_that_falls_with_the_servers_is_followed() {
    let truth = Truth {
        groups: 8,
        drives: 2,
        outstanding: 2,
        drive_s: |n| 0.003 * (1.0 - 4.0 / 3.0 / n).max(0.0),
        noise: 0.02,
        ..port_and_controller()
    };
    check(&truth, Some(0.0));
    let forecast =
        predict(&Ramp { sorting: Some(0.0), ..truth.measured(6, 3) }, 16, 3).expect("a prediction");
    let drives = forecast.demands.iter().find(|demand| demand.resource == "drives").expect("drives");
    assert!(drives.with_share && drives.rejected.is_none());
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let ramp = port_and_controller().measured(6, 9);
    let text = |seed| serde_json::to_string(&predict(&ramp, 12, seed).expect("a prediction")).expect("text");
    assert_eq!(text(5), text(5));
    assert_ne!(text(5), text(6));
}

#[test]
fn a_resource_that_nobody_measured_is_missed() {
    let mut ramp = Truth { think_s: 0.0002, ..port_and_controller() }.measured(6, 1);
    ramp.resources.remove(0);
    for sample in &mut ramp.samples {
        sample.utilisation.remove(0);
    }
    assert!(matches!(predict(&ramp, 16, 1), Err(Refusal::Unmeasured { .. })), "{:?}", predict(&ramp, 16, 1));
}

#[test]
fn a_demand_that_is_no_line_is_refused_where_it_matters() {
    let mut ramp = port_and_controller().measured(6, 1);
    for sample in &mut ramp.samples {
        let n = f64::from(sample.servers);
        sample.utilisation[0] = (0.02 * n * n * n).min(1.0);
    }
    assert!(matches!(predict(&ramp, 16, 1), Err(Refusal::NotALine { .. })));
    // As long as it is little, the others are predicted, until it may matter.
    for sample in &mut ramp.samples {
        sample.utilisation[0] /= 4.0;
    }
    let (from, why) = predict(&ramp, 40, 1).expect("a prediction").refused.expect("not for ever");
    assert!((7..40).contains(&from) && why.contains("CTRL0"), "{from}: {why}");
}

#[test]
fn deeper_queues_than_were_measured_are_refused() {
    let truth = Truth {
        groups: 8,
        drives: 2,
        outstanding: 8,
        shared: vec![],
        drive_s: |_| 0.005,
        ..port_and_controller()
    };
    let (from, why) = predict(&truth.measured(6, 1), 16, 1).expect("a prediction").refused.expect("refused");
    assert_eq!(from, 9, "{why}");
}

#[test]
fn too_little_is_refused() {
    let truth = port_and_controller();
    assert!(matches!(predict(&truth.measured(2, 1), 16, 1), Err(Refusal::TooFew { servers: 2, .. })));
    let mut ramp = truth.measured(6, 1);
    ramp.samples[3].iops = f64::NAN;
    assert!(matches!(predict(&ramp, 16, 1), Err(Refusal::NoValue { .. })));
}

#[test]
fn drives_behind_the_cache_bound_a_group_and_delay_nobody() {
    // One server asks for less than its group can; two ask for more.
    let truth = port_and_controller();
    let mut ramp = truth.measured(6, 2);
    ramp.groups = 4;
    ramp.resources.push(Resource { name: "drives".into(), units: 3, place: Place::Group });
    let bound = 5000.0;
    let iops = |servers: u32| -> f64 {
        let one = truth.iops(servers) / f64::from(servers);
        ramp.shares(servers)
            .iter()
            .map(|(groups, each)| f64::from(*groups) * (f64::from(*each) * one).min(bound))
            .sum()
    };
    let mut bounded = ramp.clone();
    for sample in &mut bounded.samples {
        let by = iops(sample.servers) / truth.iops(sample.servers);
        sample.iops *= by;
        sample.utilisation.iter_mut().for_each(|u| *u *= by);
        sample.utilisation.push(sample.iops / f64::from(sample.servers.min(4)) / bound);
    }
    let forecast = predict(&bounded, 12, 1).expect("a prediction");
    assert!(forecast.notes.iter().any(|note| note.contains("behind")), "{forecast:?}");
    for point in &forecast.points[6..12] {
        // Others have more of what is shared while these wait: a little more than the bound alone says.
        let off = point.iops.median / iops(point.servers) - 1.0;
        assert!(off.abs() < 0.06, "{}: {off:+.3}", point.servers);
    }
}
