//! Many more servers: which resource ends it, and at how many.

use super::super::claims::{controller, level, of_groups, tool};
use super::super::figures::axis;
use super::super::findings::{busiest, resources, value};
use super::super::model::course::{Course, RampStep};
use super::super::scenario::Fileserver;
use lab_core::claim::Measure;
use lab_core::record::World;
use lab_core::report::{Cost, CostOf, Figure, Finding, Mark, Panel, Series};
use lab_core::stats::{Estimate, mean_of_windows, quotient_of_means};
use lab_core::words::plain;

/// Servers with the throughput of one of the four, that what was copied would be.
fn carried(step: &RampStep, four: &Course) -> Option<Estimate> {
    let all: Vec<f64> = tool(&step.course).iter().map(|mb| mb * f64::from(step.servers)).collect();
    quotient_of_means(&all, &tool(four), mean_of_windows)
}

fn of_owners(ramp: &[RampStep], owners: impl Fn(usize) -> bool) -> Vec<&RampStep> {
    ramp.iter().filter(|step| owners(step.owners)).collect()
}

/// The step that copied the most.
fn most<'a>(steps: &[&'a RampStep], four: &Course) -> Option<(&'a RampStep, Estimate)> {
    let all = steps.iter().filter_map(|step| Some((*step, carried(step, four)?)));
    all.max_by(|(_, a), (_, b)| a.mean.total_cmp(&b.mean))
}

/// How many servers there can be when `four` servers use so much of a controller.
fn predicted(four: &Course) -> Option<f64> {
    let servers = four.arrays.first()?.lus.len() as f64;
    let used = level(&four.of_array(controller(0)))?.mean;
    (used > 0.0).then(|| servers * 100.0 / used)
}

/// What was measured for its claims.
pub(in super::super) fn measures(four: &Course, ramp: &[RampStep]) -> Vec<Measure> {
    let (one, all) = (of_owners(ramp, |n| n == 1), of_owners(ramp, |n| n > 1));
    let Some((top, servers)) = most(&one, four) else { return vec![] };
    let end = format!("the throughput of {} servers, in servers as fast as one of four", top.servers);
    let against = predicted(four).map(|n| Estimate {
        mean: 100.0 * (servers.mean / n - 1.0),
        low: 100.0 * (servers.low / n - 1.0),
        high: 100.0 * (servers.high / n - 1.0),
    });
    let spread = all.last().and_then(|spread| {
        let same = one.iter().find(|step| step.servers == spread.servers)?;
        let more = quotient_of_means(&tool(&spread.course), &tool(&same.course), mean_of_windows);
        Some(Measure::new("ramp.spread", more).note(format!("{} servers", spread.servers)))
    });
    let all = [
        Measure::new("ramp.end", servers).note(end),
        Measure::new("ramp.law", against),
        Measure::new("ramp.busy", level(&top.course.of_array(controller(0)))),
    ];
    all.into_iter().chain(spread).collect()
}

/// Throughput and what is busy, over the number of servers.
pub(in super::super) fn figure(four: &Course, ramp: &[RampStep]) -> Figure {
    let (one, all) = (of_owners(ramp, |n| n == 1), of_owners(ramp, |n| n > 1));
    let servers = four.arrays.first().map_or(0, |w| w.lus.len());
    let point = |n: f64, e: Option<Estimate>, times: f64| {
        let e = e.map_or(Estimate::exact(0.0), |e| e.scaled(times));
        match e.low.is_finite() {
            true => vec![n, e.mean, e.low, e.high],
            false => vec![n, e.mean],
        }
    };
    type Of = fn(&Course) -> Vec<f64>;
    let panel_of: [(&str, &str, &str, &str, Of); 4] = [
        ("total", "All servers together", "throughput", "MB/s", tool),
        ("controller", "Controller 0", "utilisation", "%", |c| c.of_array(controller(0))),
        ("drives", "Drives of a group", "utilisation", "%", |c| c.of_array(|w| of_groups(&w.drive_percent))),
        ("read", "Time of a read", "a read", "ms", |c| c.of_servers(|w| w.read_ms)),
    ];
    let mut series = Vec::new();
    for (id, .., of) in &panel_of {
        let times = |n: f64| if *id == "total" { n } else { 1.0 };
        for (name, color, steps) in [("one controller", "blue", &one), ("both controllers", "green", &all)] {
            let first = (name == "one controller")
                .then(|| point(servers as f64, level(&of(four)), times(servers as f64)));
            let others = steps.iter().map(|step| {
                let n = f64::from(step.servers);
                point(n, level(&of(&step.course)), times(n))
            });
            let points: Vec<Vec<f64>> = first.into_iter().chain(others).collect();
            if !points.is_empty() {
                series.push(Series { name: name.into(), color, points, panel: Some((*id).into()) });
            }
        }
    }
    let alone = level(&tool(four)).map_or(0.0, |e| e.mean);
    let bound = predicted(four).map(|n| Mark {
        label: format!("predicted from {servers}"),
        value: n * alone,
        category: None,
        series: None,
        panel: Some("total".into()),
    });
    let title = match most(&one, four) {
        Some((_, servers)) => format!(
            "One controller carries {} servers, also when more are added",
            plain((servers.mean * 10.0).round() / 10.0)
        ),
        None => "More servers".into(),
    };
    Figure {
        id: "ramp".into(),
        title,
        subtitle: Some(
            "Fixed disks, each server with its LU on its own group, four on a host; 95 % intervals".into(),
        ),
        kind: "lines",
        x: axis("servers", ""),
        y: axis("", ""),
        series,
        marks: bound.into_iter().collect(),
        panels: panel_of
            .iter()
            .map(|(id, title, label, unit, _)| Panel {
                id: (*id).into(),
                title: (*title).into(),
                y: Some(axis(label, unit)),
            })
            .collect(),
        ..Figure::default()
    }
}

/// The resource that ends it.
pub(in super::super) fn finding(scenario: &Fileserver, four: &Course, ramp: &[RampStep]) -> Option<Finding> {
    let (one, all) = (of_owners(ramp, |n| n == 1), of_owners(ramp, |n| n > 1));
    let (top, servers) = most(&one, four)?;
    let last = one.last()?;
    let (name, used) = busiest(scenario, &last.course);
    let next = resources(scenario, &last.course)
        .into_iter()
        .filter(|(other, _)| *other != name)
        .max_by(|a, b| a.1.total_cmp(&b.1));
    let each = |course: &Course| value(tool(course));
    let with_all = all.last().map(|step| {
        format!(
            " With data LUs at both controllers {} servers copy {} MB/s each, and {} works {:.0} %.",
            step.servers,
            plain(each(&step.course)),
            busiest(scenario, &step.course).0,
            busiest(scenario, &step.course).1
        )
    });
    let full =
        scenario.claims.bound("ramp.busy", World::Model).and_then(|bound| bound.lower).map(|end| end.value);
    Some(Finding {
        resource: name.into(),
        evidence: format!(
            "{} servers: works {used:.0} % of the time, a server copies {} instead of {} MB/s, and a read takes {} ms. The next one, {}, works {:.0} %",
            last.servers,
            plain(each(&last.course)),
            plain(each(four)),
            plain(value(last.course.of_servers(|w| w.read_ms))),
            next.map_or("nothing", |(name, _)| name),
            next.map_or(0.0, |(_, used)| used)
        ),
        threshold: full.map(|full| format!("a resource that works {full:.0} % of the time can do no more")),
        source: Some("a run with so many servers".into()),
        consequence: format!(
            "It ends at {} servers: {} of them copy no more together. The law of utilisation says {} from four.{}",
            plain((servers.mean * 10.0).round() / 10.0),
            top.servers,
            predicted(four).map_or("–".into(), |n| plain((n * 10.0).round() / 10.0)),
            with_all.unwrap_or_default()
        ),
        r#try: Some("Data LUs at all controllers in turn, or a pool for each controller.".into()),
        cost: Cost::share(1.0 - each(&last.course) / each(four), CostOf::Throughput),
    })
}
