//! The figures: each title is what was found.

use super::results::{Layout, Pattern};
use super::survey::{
    Batches, FITTED_ON, PUBLISHED_SERVERS, Predicted, Survey, layout_color, layout_words, numbers_words,
    pattern_words,
};
use super::{bar, boot, takeover};
use lab_core::report::{Axis, Figure, Mark, Panel, Series};
use lab_core::stats::Estimate;
use lab_core::words::capital;
use lab_core::words::plain;

/// What a port of 2 Gb/s carries in reads of 4 KiB (frames of 2112 bytes, 8b/10b), 10^6 bytes per second.
const PORT_MB_PER_S: f64 = 200.0;

/// All figures that have something to show.
pub(crate) fn figures(survey: &Survey<'_>) -> Vec<Figure> {
    let mut out: Vec<Option<Figure>> =
        Pattern::ALL.into_iter().map(|pattern| rates(survey, pattern)).collect();
    out.extend([controller(survey), port(survey)]);
    let layouts = [Layout::Raid5x4, Layout::Raid1x8];
    out.extend(layouts.map(|layout| predicted(survey, layout, "predicted")));
    let results = survey.results.of_patterns_held_out();
    out.extend(layouts.map(|layout| predicted(&Survey::new(&results), layout, "held_out")));
    out.extend([spread(survey), boot::figure(survey.results)]);
    out.into_iter().flatten().chain(takeover::figures(survey.results)).collect()
}

fn servers_axis() -> Axis {
    Axis { label: "servers".into(), unit: String::new(), log: false }
}

fn value_axis(label: &str, unit: &str) -> Axis {
    Axis { label: label.into(), unit: unit.into(), log: false }
}

fn point(x: u32, e: &Estimate) -> Vec<f64> {
    let x = f64::from(x);
    if e.low.is_finite() { vec![x, e.mean, e.low.max(0.0), e.high] } else { vec![x, e.mean] }
}

fn how_often(survey: &Survey<'_>) -> &'static str {
    let repeats = survey.results.points.iter().map(|p| p.repeat).max().unwrap_or(0);
    if repeats > 0 { "mean of repeats, 95 % interval" } else { "mean of the windows, 95 % interval" }
}

/// The numbers of servers of a figure: those of the layouts that have several.
fn numbers(survey: &Survey<'_>, pattern: Pattern, layout: Layout) -> Vec<u32> {
    let own = survey.servers(pattern, layout);
    if layout != Layout::Internal || own.is_empty() {
        return own;
    }
    let shared = [Layout::Raid5x4, Layout::Raid1x8].map(|l| survey.servers(pattern, l));
    let mut all: Vec<u32> = shared.into_iter().flatten().chain(own).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// I/Os per second of a server against the number of servers.
fn rates(survey: &Survey<'_>, pattern: Pattern) -> Option<Figure> {
    let line = |layout: Layout| Series {
        name: layout_words(layout).into(),
        color: layout_color(layout),
        points: numbers(survey, pattern, layout)
            .into_iter()
            .filter_map(|n| Some(point(n, &survey.estimate(pattern, layout, n)?)))
            .collect(),
        panel: None,
    };
    let series: Vec<Series> = Layout::ALL.map(line).into_iter().filter(|s| !s.points.is_empty()).collect();
    (!series.is_empty()).then(|| Figure {
        id: pattern.name().into(),
        title: rates_title(survey, pattern),
        subtitle: Some(format!("What each server gets on average; {}", how_often(survey))),
        kind: "lines",
        x: servers_axis(),
        y: value_axis("I/O per second and server", ""),
        series,
        note: (!survey.servers(pattern, Layout::Internal).is_empty()).then(|| {
            "The internal disk is each server's own: it was measured once and is drawn for all.".into()
        }),
        ..Figure::default()
    })
}

fn rates_title(survey: &Survey<'_>, pattern: Pattern) -> String {
    let own = (Layout::Internal, 1);
    let part = |layout: Layout| {
        let servers = survey.servers(pattern, layout);
        let ratio = |n: u32| survey.over(pattern, (layout, n), own).map(|e| e.mean);
        let below = servers.iter().copied().find(|n| ratio(*n).is_some_and(|over| over < 1.0));
        let (last, name) = (servers.last()?, layout_words(layout));
        Some(match below {
            Some(1) => format!("{name} is below the internal disk from the first server on"),
            Some(n) => format!("{name} falls below the internal disk with {n} servers"),
            None => format!("{name} still gives {} × the internal disk with {last}", digits(ratio(*last)?)),
        })
    };
    if let Some(last) = survey.servers(pattern, Layout::Given).last() {
        let each = survey.estimate(pattern, Layout::Given, *last).map_or(0.0, |e| e.mean);
        return format!("{}: each of {last} gets {each:.0}", capital(pattern_words(pattern)));
    }
    let parts: Vec<String> = [Layout::Raid5x4, Layout::Raid1x8].into_iter().filter_map(part).collect();
    format!("{}: {}", capital(pattern_words(pattern)), parts.join("; "))
}

fn digits(value: f64) -> String {
    format!("{value:.1}")
}

fn per_layout(
    survey: &Survey<'_>,
    pattern: Pattern,
    of: impl Fn(Layout, u32) -> Batches,
    by: f64,
) -> Vec<Series> {
    let line = |layout: Layout| {
        let points = survey.servers(pattern, layout).into_iter().filter_map(|n| {
            let values = of(layout, n);
            Some(point(n, &values.mean()?.scaled(by)))
        });
        Series {
            name: layout_words(layout).into(),
            color: layout_color(layout),
            points: points.collect(),
            panel: None,
        }
    };
    let all = [Layout::Raid5x4, Layout::Raid1x8].map(line);
    all.into_iter().filter(|series| !series.points.is_empty()).collect()
}

fn controller(survey: &Survey<'_>) -> Option<Figure> {
    let pattern = Pattern::SequentialMix;
    let series = per_layout(survey, pattern, |layout, n| survey.controller_busy(pattern, layout, n), 100.0);
    let at = survey.controller_busy(pattern, Layout::Raid1x8, PUBLISHED_SERVERS);
    let title = match at.mean() {
        None => "Sequential 75/25: how busy the controller is".to_owned(),
        Some(at) => format!(
            "Sequential 75/25 with {PUBLISHED_SERVERS} servers keep the controller busy for {:.0} % of the time",
            100.0 * at.mean
        ),
    };
    (!series.is_empty()).then(|| Figure {
        id: "controller".into(),
        title,
        subtitle: Some(format!(
            "Share of the time in which the controller of the system disks works; {}",
            how_often(survey)
        )),
        kind: "lines",
        x: servers_axis(),
        y: value_axis("controller utilisation", "%"),
        series,
        marks: vec![mark("all it can", 100.0)],
        ..Figure::default()
    })
}

fn mark(label: &str, value: f64) -> Mark {
    Mark { label: label.into(), value, category: None, series: None, panel: None }
}

fn port(survey: &Survey<'_>) -> Option<Figure> {
    let pattern = Pattern::SequentialRead;
    let series = per_layout(survey, pattern, |layout, n| survey.port_mb_per_s(pattern, layout, n), 1.0);
    let at = survey.port_mb_per_s(pattern, Layout::Raid1x8, PUBLISHED_SERVERS);
    let title = match at.mean() {
        None => "Sequential reads: what the port carries".to_owned(),
        Some(at) if survey.is_real() => {
            format!("{PUBLISHED_SERVERS} servers read {:.0} MB/s over iSCSI", at.mean)
        }
        Some(at) => {
            let mb_per_s = at.mean;
            format!(
                "{PUBLISHED_SERVERS} servers read {mb_per_s:.0} MB/s: {:.0} % of what the port carries",
                100.0 * mb_per_s / PORT_MB_PER_S
            )
        }
    };
    (!series.is_empty()).then(|| Figure {
        id: "port".into(),
        title,
        subtitle: Some(format!("Sequential reads of 4 KiB, all servers together; {}", how_often(survey))),
        kind: "lines",
        x: servers_axis(),
        y: value_axis("through the port", "MB/s"),
        series,
        marks: match survey.is_real() {
            true => vec![],
            false => vec![mark("published, 8 servers", 120.0), mark("the port", PORT_MB_PER_S)],
        },
        ..Figure::default()
    })
}

/// The prediction with its band against what the model then gave.
fn predicted(survey: &Survey<'_>, layout: Layout, id: &str) -> Option<Figure> {
    let of = |p: &&Predicted| p.layout == layout;
    let mut series = Vec::new();
    let mut panels = Vec::new();
    for one in survey.tried.iter().filter(of) {
        let panel = Some(one.pattern.name().to_owned());
        let measured = survey
            .servers(one.pattern, layout)
            .into_iter()
            .filter_map(|n| Some(vec![f64::from(n), survey.estimate(one.pattern, layout, n)?.mean]));
        let words = pattern_words(one.pattern);
        let title = match &one.forecast {
            Err(_) => format!("{words}: refused"),
            Ok(forecast) => match &forecast.refused {
                Some((from, _)) => format!("{words}: refused from {from} on"),
                None => words.to_owned(),
            },
        };
        panels.push(Panel {
            id: one.pattern.name().into(),
            title: capital(&title),
            y: Some(value_axis("I/O per second and server", "")),
        });
        let points = one.forecast.iter().flat_map(|forecast| &forecast.points).map(|p| {
            let each = |value: f64| value / f64::from(p.servers);
            vec![f64::from(p.servers), each(p.iops.median), each(p.iops.low), each(p.iops.high)]
        });
        series.push(Series {
            name: "predicted".into(),
            color: "purple",
            points: points.collect(),
            panel: panel.clone(),
        });
        series.push(Series {
            name: "then run".into(),
            color: layout_color(layout),
            points: measured.collect(),
            panel,
        });
    }
    (!panels.is_empty()).then(|| Figure {
        id: format!("{id}_{}", layout.name()),
        title: predicted_title(survey, layout),
        subtitle: Some(format!("Fitted on {} servers; median with the band from 5 % to 95 %; dots: the model with that many servers", numbers_words(FITTED_ON))),
        kind: "lines",
        x: servers_axis(),
        y: value_axis("I/O per second and server", ""),
        series,
        panels,
        ..Figure::default()
    })
}

fn predicted_title(survey: &Survey<'_>, layout: Layout) -> String {
    let rows: Vec<_> = bar::rows_of(survey).into_iter().filter(|row| row.layout == layout).collect();
    let held: Vec<_> = rows.iter().filter_map(|row| row.forecast).collect();
    let within = held.iter().filter(|h| h.is_within).count();
    let worst = held.iter().map(|h| 100.0 * h.error.abs()).fold(0.0, f64::max);
    let name = layout_words(layout);
    let refused = match rows.len() - held.len() {
        0 => String::new(),
        n => format!("; {n} were refused"),
    };
    match rows.len() {
        0 => format!("{name}: no number of servers was run that was not fitted on"),
        all => format!(
            "{name}: of {all} points that were not fitted on the band holds {within}; the worst median is {} % off{refused}",
            plain((worst * 10.0).round() / 10.0)
        ),
    }
}

/// What each of five servers gets: two share a group, three do not.
fn spread(survey: &Survey<'_>) -> Option<Figure> {
    let (pattern, servers) = (Pattern::RandomRead, 5);
    let line = |layout: Layout| {
        let points = (0..servers).filter_map(|n| {
            let values = survey.batches((pattern, layout, servers), |_, w| {
                w.server_iops.get(n as usize).copied().unwrap_or(0.0)
            });
            Some(point(n, &values.mean()?))
        });
        Series {
            name: layout_words(layout).into(),
            color: layout_color(layout),
            points: points.collect(),
            panel: None,
        }
    };
    let series: Vec<Series> =
        [Layout::Raid5x4, Layout::Raid1x8].map(line).into_iter().filter(|s| !s.points.is_empty()).collect();
    let rates: Vec<f64> = series.first()?.points.iter().map(|p| p[1]).collect();
    let (least, most) = rates.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), v| (a.min(*v), b.max(*v)));
    Some(Figure {
        id: "spread".into(),
        title: format!(
            "Five servers on {}: the worst served has {:.0} % of the best, because two share a group",
            series[0].name,
            100.0 * least / most
        ),
        subtitle: Some(format!("Random reads, each server by itself; {}", how_often(survey))),
        kind: "bars",
        x: servers_axis(),
        y: value_axis("I/O per second", ""),
        categories: (1..=servers).map(|n| format!("server {n}")).collect(),
        series,
        ..Figure::default()
    })
}
