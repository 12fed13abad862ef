//! The figures and the table of runs with two controllers.

use lab_core::report::{Axis, Column, Figure, Panel, Series, Span, Table, Value};

use super::play::BIN_NS;
use super::survey::{CARRIED, carried, of_before, place};
use crate::results::{Disks, Pattern, Results, Takeover, Way};
use crate::survey::{PUBLISHED_SERVERS, pattern_words};

fn axis(label: &str, unit: &str) -> Axis {
    Axis { label: label.into(), unit: unit.into(), log: false }
}

/// Those that have something to show.
pub(crate) fn figures(results: &Results) -> Vec<Figure> {
    [timeline(results), alone(results)].into_iter().flatten().collect()
}

/// What system disks and data disks got before and after a controller went, with the published servers.
fn timeline(results: &Results) -> Option<Figure> {
    let own = || {
        let published = results.takeovers.iter().filter(|one| one.servers == PUBLISHED_SERVERS);
        // The controller of the data disks differs in name only.
        published.filter(|one| one.goes == Disks::System || one.way == Way::Silent)
    };
    let panel_of = |one: &Takeover| format!("{}_{}_{}", one.pattern.name(), one.goes as u8, one.way as u8);
    let bin_s = BIN_NS as f64 / 1e9;
    let (mut series, mut panels) = (Vec::new(), Vec::new());
    for one in own() {
        let panel = panel_of(one);
        panels.push(Panel { id: panel.clone(), title: place(one), y: Some(axis("all servers", "1/s")) });
        for (disks, color) in Disks::ALL.into_iter().zip(["orange", "blue"]) {
            let point =
                |(n, iops): (usize, &f64)| vec![(n as f64 + 0.5 - f64::from(one.lost_at)) * bin_s, *iops];
            series.push(Series {
                name: disks.words().into(),
                color,
                points: one.bins[disks as usize].iter().enumerate().map(point).collect(),
                panel: Some(panel.clone()),
            });
        }
    }
    let worst = own().filter(|one| one.way != Way::Moved).map(|one| one.gap_s).reduce(f64::max)?;
    let changed = own().map(|one| one.changed_s).fold(0.0, f64::max);
    Some(Figure {
        id: "takeover".into(),
        title: format!("A controller is lost: its disks give no answer for {worst:.1} s at the longest"),
        subtitle: Some("I/Os per second of all servers, over time; the controller goes at 0".into()),
        kind: "timeline",
        x: axis("time", "s"),
        y: axis("all servers", "1/s"),
        series,
        phases: vec![Span { name: "taken over".into(), from: 0.0, to: changed }],
        panels,
        note: Some("Killed: hosts' connections are reset at once. Without power: hosts hear nothing, and give the path up. Planned: two pools move, one after the other.".into()),
        ..Figure::default()
    })
}

/// What one controller alone gives of what two did, over the number of servers.
fn alone(results: &Results) -> Option<Figure> {
    let of = |pattern: Pattern| {
        let is_of =
            move |one: &&Takeover| (one.pattern, one.goes, one.way) == (pattern, Disks::System, Way::Killed);
        results.takeovers.iter().filter(is_of)
    };
    let patterns = || Pattern::ALL.into_iter().filter(|pattern| of(*pattern).next().is_some());
    let line = |(pattern, color): (Pattern, &'static str)| Series {
        name: pattern_words(pattern).into(),
        color,
        points: of(pattern).map(|one| vec![f64::from(one.servers), 100.0 * of_before(one)]).collect(),
        panel: None,
    };
    let series: Vec<Series> = patterns().zip(["blue", "orange", "green", "purple"]).map(line).collect();
    let most = |pattern: Pattern| match carried(of(pattern)) {
        Some(servers) => format!("{}: {servers} servers", pattern_words(pattern)),
        None => format!("{}: no server", pattern_words(pattern)),
    };
    let words: Vec<String> = patterns().map(most).collect();
    (!series.is_empty()).then(|| Figure {
        id: "takeover_alone".into(),
        title: format!("One controller alone carries, of those that were run, {}", words.join("; ")),
        subtitle: Some("What all servers get after the controller of the system disks was killed, of what they got before".into()),
        kind: "lines",
        x: axis("servers", ""),
        y: axis("of two controllers", "%"),
        series,
        note: Some(format!("It carries servers that get at least {:.0} % of what they got from two.", 100.0 * CARRIED)),
        ..Figure::default()
    })
}

/// Each run.
pub(crate) fn table(results: &Results) -> Table {
    let (text, number) = (Column::text, Column::number);
    let row = |one: &Takeover| {
        let rounded = |value: f64, by: f64| Value::Number((value * by).round() / by);
        let percent = |share: f64| rounded(100.0 * share, 1.0);
        let most = |shares: [f64; 2]| shares.into_iter().fold(0.0, f64::max);
        vec![
            Value::Text(pattern_words(one.pattern).into()),
            Value::Number(f64::from(one.servers)),
            Value::Text(one.goes.words().into()),
            Value::Text(one.way.words().into()),
            rounded(one.gap_s, 1000.0),
            rounded(one.gap_other_s, 1000.0),
            rounded(one.before.all_iops(), 1.0),
            rounded(one.after.all_iops(), 1.0),
            percent(most(one.before.controller_busy)),
            percent(one.after.controller_busy[0]),
            percent(most(one.before.port_busy)),
            percent(one.after.port_busy[0]),
            percent(most(one.before.drive_busy)),
            percent(most(one.after.drive_busy)),
        ]
    };
    Table {
        id: "takeover".into(),
        title: "A controller goes".into(),
        columns: vec![
            text("pattern"),
            number("servers", ""),
            text("its disks"),
            text("how it goes"),
            number("longest gap", "s"),
            number("of the other disks", "s"),
            number("all servers before", "1/s"),
            number("all servers after", "1/s"),
            number("controller before", "%"),
            number("controller after", "%"),
            number("port before", "%"),
            number("port after", "%"),
            number("drives before", "%"),
            number("drives after", "%"),
        ],
        rows: results.takeovers.iter().map(row).collect(),
    }
}
