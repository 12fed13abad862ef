//! A run's points as ramps that can be predicted from.

use std::collections::BTreeMap;

use super::results::{Layout, Pattern, Point, Resource, ResourceKind, Results, Window};
use lab_tools::predict::{self, Forecast, Place, Ramp, Refusal, Sample, Shared, Uneven};

/// The numbers of servers that a prediction is fitted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FittedOn {
    /// All that were run up to this one.
    UpTo(u32),
    /// Only these.
    Only(&'static [u32]),
}

impl FittedOn {
    fn most(self) -> u32 {
        match self {
            FittedOn::UpTo(most) => most,
            FittedOn::Only(numbers) => numbers.iter().copied().max().unwrap_or(0),
        }
    }

    fn has(self, servers: u32) -> bool {
        match self {
            FittedOn::UpTo(most) => servers <= most,
            FittedOn::Only(numbers) => numbers.contains(&servers),
        }
    }
}

/// What was measured of a pattern on a layout. Packed servers are no number of the ramp: all are taken that
/// are no more than the most of it. None where the layout shares nothing or was not run.
pub fn ramp(results: &Results, pattern: Pattern, layout: Layout, on: FittedOn) -> Option<Ramp> {
    let of = |points: &'_ [Point], is_fitted: &dyn Fn(u32) -> bool| -> Vec<Point> {
        let is_of = |p: &&Point| {
            p.pattern == pattern && p.layout == layout && is_fitted(p.servers) && layout != Layout::Internal
        };
        points.iter().filter(is_of).cloned().collect()
    };
    let points = of(&results.points, &|servers| on.has(servers));
    let packed = of(&results.packed, &|servers| servers <= on.most());
    let first = points.first()?;
    let kind = |kind: ResourceKind| first.resources.iter().filter(move |r| r.kind == kind);
    let resource = |name: &str, units, place| predict::Resource { name: name.into(), units, place };
    let mut resources = Vec::new();
    for kind in [ResourceKind::Controller, ResourceKind::Port] {
        resources.extend(
            first
                .resources
                .iter()
                .filter(|r| r.kind == kind)
                .map(|r| resource(&r.name, r.units, Place::Shared)),
        );
    }
    if kind(ResourceKind::Host).next().is_some() {
        resources.push(resource("a server itself", 1, Place::Server));
    }
    let samples =
        |points: &[Point]| points.iter().flat_map(|p| p.windows.iter().map(|w| sample(p, w))).collect();
    Some(Ramp {
        outstanding: outstanding(results, &points),
        resources,
        groups: kind(ResourceKind::Group).count() as u32,
        write_limit: write_limit(results, on),
        uneven: points.iter().filter_map(uneven).min_by(|a, b| a.share.total_cmp(&b.share)),
        samples: samples(&points),
        packed: samples(&packed),
    })
}

/// Predicts from it.
pub fn predicted(
    results: &Results,
    pattern: Pattern,
    layout: Layout,
    on: FittedOn,
    to: u32,
) -> Option<Result<Forecast, Refusal>> {
    predicted_changed(results, (pattern, layout), (on, to), &[])
}

/// The same with other hardware than was measured.
pub fn predicted_changed(
    results: &Results,
    (pattern, layout): (Pattern, Layout),
    (on, to): (FittedOn, u32),
    changes: &[predict::Change],
) -> Option<Result<Forecast, Refusal>> {
    Some(predict::predict_changed(&ramp(results, pattern, layout, on)?, to, results.seed, changes))
}

/// The most of the cache that writes held in any pattern, with the servers that are fitted on: where several
/// points stand at it, it is what they may hold.
fn write_limit(results: &Results, on: FittedOn) -> Option<f64> {
    let points = results.points.iter().filter(|point| on.has(point.servers));
    let packed = results.packed.iter().filter(|point| point.servers <= on.most());
    let windows = points.chain(packed).flat_map(|point| &point.windows);
    let most = windows.map(|window| window.write_pending).fold(0.0, f64::max);
    (most > 0.0).then_some(most)
}

/// As the scenario says; else by Little's law, from what each server got and how long it waited.
fn outstanding(results: &Results, points: &[Point]) -> u32 {
    let stated = results.conditions.iter().find(|c| c.name == "run.outstanding");
    let stated = stated.and_then(|c| c.value.split_whitespace().next()?.parse().ok());
    let servers = || points.iter().flat_map(|p| &p.per_server);
    let sum: f64 = servers().map(|s| s.iops * s.response_ms_mean / 1e3).sum();
    stated.unwrap_or_else(|| (sum / servers().count().max(1) as f64).round().max(1.0) as u32)
}

fn sample(point: &Point, window: &Window) -> Sample {
    let mut utilisation = window.controller_busy.clone();
    utilisation.extend(&window.port_busy);
    let hosts = || point.resources.iter().filter(|r| r.kind == ResourceKind::Host);
    if hosts().next().is_some() {
        // A window does not tell what the servers spent: in proportion to what they did.
        let whole: f64 = point.per_server.iter().map(|s| s.iops).sum();
        let mean = hosts().map(|r| r.utilisation).sum::<f64>() / hosts().count() as f64;
        utilisation.push((mean * window.iops / whole.max(f64::MIN_POSITIVE)).min(1.0));
    }
    Sample {
        servers: point.servers,
        repeat: point.repeat,
        iops: window.iops,
        utilisation,
        groups: groups(point, window),
        share_of: if point.share_of > 0 { point.share_of } else { point.servers },
        pending: window.write_pending,
        hit_share: window.hit_share,
    }
}

/// The least of a point's groups against the best one that as many servers share.
fn uneven(point: &Point) -> Option<Uneven> {
    let mut by_each: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    let in_use = |r: &&Resource| r.kind == ResourceKind::Group && !r.used_by.is_empty();
    for group in point.resources.iter().filter(in_use) {
        let of = group.used_by.iter().filter_map(|server| point.per_server.get(*server as usize));
        let iops: f64 = of.map(|server| server.iops).sum();
        let (least, most) = by_each.entry(group.used_by.len()).or_insert((iops, iops));
        (*least, *most) = (least.min(iops), most.max(iops));
    }
    let shares = by_each.into_values().filter(|(_, most)| *most > 0.0).map(|(least, most)| least / most);
    shares.min_by(f64::total_cmp).map(|share| Uneven { servers: point.servers, share })
}

/// The groups in use by the servers that share them, the fuller ones first.
fn groups(point: &Point, window: &Window) -> Vec<Shared> {
    let mut by_each: BTreeMap<u32, Vec<(f64, f64)>> = BTreeMap::new();
    let mut drives = window.drive_busy.iter();
    for group in point.resources.iter().filter(|r| r.kind == ResourceKind::Group) {
        let busy: Vec<f64> = drives.by_ref().take(group.units as usize).copied().collect();
        let busy = busy.iter().sum::<f64>() / busy.len().max(1) as f64;
        let of = group.used_by.iter().filter_map(|server| window.server_iops.get(*server as usize));
        if !group.used_by.is_empty() {
            by_each.entry(group.used_by.len() as u32).or_default().push((of.sum(), busy));
        }
    }
    let shared = |(each, groups): (u32, Vec<(f64, f64)>)| {
        let count = groups.len() as f64;
        let mean = |of: &dyn Fn(&(f64, f64)) -> f64| groups.iter().map(of).sum::<f64>() / count;
        Shared { each, count: groups.len() as u32, iops: mean(&|g| g.0), utilisation: mean(&|g| g.1) }
    };
    by_each.into_iter().rev().map(shared).collect()
}
