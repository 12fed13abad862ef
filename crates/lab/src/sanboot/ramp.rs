//! A run's points as ramps that can be predicted from.

use super::results::{Layout, Pattern, Point, Resource, ResourceKind, Results, Window};
use crate::predict::{self, Forecast, Place, Ramp, Refusal, Sample};

/// What was measured of a pattern on a layout, with up to so many servers. None where the layout shares nothing or was not run.
pub fn ramp(results: &Results, pattern: Pattern, layout: Layout, upto: u32) -> Option<Ramp> {
    let points: Vec<&Point> = results
        .points
        .iter()
        .filter(|p| {
            p.pattern == pattern && p.layout == layout && p.servers <= upto && layout != Layout::Internal
        })
        .collect();
    let first = points.first()?;
    let of = |kind: ResourceKind| first.resources.iter().filter(move |r| r.kind == kind);
    let resource = |name: &str, units, place| predict::Resource { name: name.into(), units, place };
    let mut resources = Vec::new();
    for kind in [ResourceKind::Controller, ResourceKind::Port] {
        resources.extend(of(kind).map(|r| resource(&r.name, r.units, Place::Shared)));
    }
    if let Some(group) = of(ResourceKind::Group).next() {
        resources.push(resource("drives of a group", group.units, Place::Group));
    }
    if of(ResourceKind::Host).next().is_some() {
        resources.push(resource("a server itself", 1, Place::Server));
    }
    let samples = points.iter().flat_map(|p| p.windows.iter().map(|w| sample(p, w)));
    Some(Ramp {
        outstanding: outstanding(results, &points),
        resources,
        groups: of(ResourceKind::Group).count() as u32,
        sorting: None,
        samples: samples.collect(),
    })
}

/// Both layouts have the same drives: how those sort a queue is learnt where the queues differ, and holds for the other, too.
pub fn predicted(
    results: &Results,
    pattern: Pattern,
    layout: Layout,
    upto: u32,
    to: u32,
) -> Option<Result<Forecast, Refusal>> {
    let mut ramp = ramp(results, pattern, layout, upto)?;
    let forecast = predict::predict(&ramp, to, results.seed);
    let is_unsorted = matches!(&forecast, Ok(Forecast { sorting: None, refused: Some(_), .. }));
    let other = if layout == Layout::Raid5x4 { Layout::Raid1x8 } else { Layout::Raid5x4 };
    if is_unsorted && let Some(learnt) = self::ramp(results, pattern, other, upto) {
        ramp.sorting =
            predict::predict(&learnt, upto, results.seed).ok().and_then(|forecast| forecast.sorting);
        return Some(predict::predict(&ramp, to, results.seed));
    }
    Some(forecast)
}

/// As the scenario says; else by Little's law, from what each server got and how long it waited.
fn outstanding(results: &Results, points: &[&Point]) -> u32 {
    let stated = results.conditions.iter().find(|c| c.name == "run.outstanding");
    let stated = stated.and_then(|c| c.value.split_whitespace().next()?.parse().ok());
    let servers = || points.iter().flat_map(|p| &p.per_server);
    let sum: f64 = servers().map(|s| s.iops * s.response_ms_mean / 1e3).sum();
    stated.unwrap_or_else(|| (sum / servers().count().max(1) as f64).round().max(1.0) as u32)
}

fn sample(point: &Point, window: &Window) -> Sample {
    let mut utilisation = window.controller_busy.clone();
    utilisation.extend(&window.port_busy);
    let drives: Vec<&Resource> = point.resources.iter().filter(|r| r.kind == ResourceKind::Drive).collect();
    let used = || drives.iter().zip(&window.drive_busy).filter(|(drive, _)| !drive.used_by.is_empty());
    let in_use = (used().count() as f64).max(1.0);
    if point.resources.iter().any(|r| r.kind == ResourceKind::Group) {
        utilisation.push(used().map(|(_, busy)| busy).sum::<f64>() / in_use);
    }
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
        queue: window.drive_queue_mean * drives.len() as f64 / in_use,
    }
}
