//! Virtual disks that grow fast on a pool that promises more than it has: expanded in time, and too late.

use super::super::figures::{PanelOf, axis, panels};
use super::super::model::course::{Growth, GrowthWindow};
use lab_core::claim::{Measure, Outcome};
use lab_core::report::{Figure, Finding, Series, Span};
use lab_core::stats::Estimate;

/// Before that the clients have only begun.
const WARM_UP_S: f64 = 5.0;

/// What clients got while the pool was full: of the seconds in percent, and of their rate before.
struct WhileFull {
    read_percent: f64,
    write_percent: f64,
    /// Reads and writes together, in percent of the rate before.
    rate_percent: f64,
    /// What servers discarded, and how many files lack something.
    lost_mb: f64,
    lost_files: f64,
    seconds: usize,
}

/// From the first write that was refused to the expansion.
fn while_full(growth: &Growth) -> Option<WhileFull> {
    let (first, _) = growth.refused_s?;
    let between = |from: f64, to: f64| -> Vec<&GrowthWindow> {
        growth.windows.iter().filter(|w| w.at_s > from && w.at_s <= to).collect()
    };
    let (before, full) = (between(WARM_UP_S, first), between(first, growth.expanded_s));
    let seconds = full.len();
    if before.is_empty() || seconds == 0 {
        return None;
    }
    let share = |of: fn(&GrowthWindow) -> f64| {
        100.0 * full.iter().filter(|w| of(w) > 0.0).count() as f64 / seconds as f64
    };
    let rate = |windows: &[&GrowthWindow]| {
        windows.iter().map(|w| w.read_mb_per_s + w.write_mb_per_s).sum::<f64>() / windows.len() as f64
    };
    Some(WhileFull {
        read_percent: share(|w| w.read_mb_per_s),
        write_percent: share(|w| w.write_mb_per_s),
        rate_percent: 100.0 * rate(&full) / rate(&before).max(1e-9),
        lost_mb: growth.windows.iter().map(|w| w.lost_mb).sum(),
        lost_files: growth.windows.iter().map(|w| w.lost_files).sum::<u64>() as f64,
        seconds,
    })
}

/// What was measured for its claims.
pub(in super::super) fn measures(growth: &Growth) -> Vec<Measure> {
    let refused: u64 = growth.windows.iter().map(|w| w.refused).sum();
    let exact = |value: f64| Estimate::exact(value);
    if growth.name == "in_time" {
        let over = growth.promised_bytes as f64 / growth.pool_bytes.max(1) as f64;
        let grown = growth.grown_blocks as f64 * 2.0 / growth.windows.len().max(1) as f64;
        let note =
            format!("LUs promise {over:.2} times what the pool has; the virtual disk grows {grown:.0} MiB/s");
        let stalls = growth.windows.iter().filter(|w| w.read_mb_per_s + w.write_mb_per_s <= 0.0).count();
        return vec![
            Measure::new("growth.refused", exact(refused as f64)).note(note),
            Measure::new("growth.stalls", exact(stalls as f64)),
        ];
    }
    let after = growth.windows.iter().filter(|w| w.at_s > growth.expanded_s + 2.0);
    let after = growth.refused_s.map(|_| exact(after.map(|w| w.refused).sum::<u64>() as f64));
    let full = while_full(growth);
    let of = |id: &str, value: fn(&WhileFull) -> f64| {
        let note = full.as_ref().map(|full| format!("of {} s", full.seconds));
        Measure::new(id, full.as_ref().map(|full| exact(value(full)))).note(note)
    };
    vec![
        Measure::new("full.warned", warned(growth)),
        of("full.served.reads", |full| full.read_percent),
        of("full.served.writes", |full| full.write_percent),
        of("full.rate", |full| full.rate_percent),
        of("full.lost", |full| full.lost_mb),
        of("full.damaged", |full| full.lost_files),
        Measure::new("full.after", after),
    ]
}

/// Seconds from the warning to the first write that was refused.
fn warned(growth: &Growth) -> Outcome {
    match (growth.refused_s, growth.warned_s) {
        (Some((first, _)), Some(warned)) => Estimate::exact(first - warned).into(),
        (Some(_), None) => Outcome::Refuted("the pool refused writes and never warned".into()),
        (None, _) => Outcome::NotMeasured("the pool was not full before the end".into()),
    }
}

/// The run, second by second.
pub(in super::super) fn figure(growth: &Growth) -> Figure {
    let refused: u64 = growth.windows.iter().map(|w| w.refused).sum();
    let title = match (growth.name, refused) {
        ("in_time", 0) => {
            "A pool that is expanded while its disks grow: no interruption and no failed write".into()
        }
        (_, 0) => "The pool was not full before the end".into(),
        (_, count) => {
            format!("A full pool fails {count} writes and nothing else; after the expansion they succeed")
        }
    };
    let of: [PanelOf<'_, GrowthWindow>; 6] = [
        ("read", "Read by clients", ("reads", "MB/s"), |w| w.read_mb_per_s),
        ("write", "Written by clients", ("writes", "MB/s"), |w| w.write_mb_per_s),
        ("used", "The pool", ("used", "%"), |w| w.used_percent),
        ("refused", "Writes refused", ("refused per second", ""), |w| w.refused as f64),
        ("lost", "Acknowledged to clients and lost", ("lost", "MB/s"), |w| w.lost_mb),
        ("held", "Requests to write that the server holds back", ("held back", ""), |w| w.held_back.into()),
    ];
    let line = |(id, _, _, value): &PanelOf<'_, GrowthWindow>| Series {
        name: "one server".into(),
        color: "orange",
        points: growth.windows.iter().map(|w| vec![w.at_s, value(w)]).collect(),
        panel: Some((*id).into()),
    };
    let end = growth.windows.last().map_or(0.0, |w| w.at_s);
    let mut phases = vec![];
    let full_from = growth.refused_s.map_or(growth.expanded_s, |(first, _)| first);
    if growth.expanded_s.is_finite() {
        phases.push(Span { name: "one group".into(), from: 0.0, to: full_from });
        if full_from < growth.expanded_s {
            phases.push(Span { name: "full".into(), from: full_from, to: growth.expanded_s });
        }
        phases.push(Span { name: "two groups".into(), from: growth.expanded_s, to: end });
    }
    Figure {
        id: format!("growth_{}", growth.name),
        title,
        subtitle: Some("One server, all writes to unallocated space".into()),
        kind: "timeline",
        x: axis("time", "s"),
        y: axis("", ""),
        series: of.iter().map(line).collect(),
        phases,
        panels: panels(&of),
        ..Figure::default()
    }
}

/// What a pool that was full did.
pub(in super::super) fn finding(growth: &Growth) -> Option<Finding> {
    let (first, last) = growth.refused_s?;
    let count: u64 = growth.windows.iter().map(|w| w.refused).sum();
    Some(Finding {
        resource: "pool".into(),
        evidence: format!(
            "full at {first:.0} s: {count} writes refused until {last:.0} s; a second group came at {:.0} s",
            growth.expanded_s
        ),
        threshold: Some(
            "a write that needs a page of a full pool fails: SPACE ALLOCATION FAILED, WRITE PROTECT".into(),
        ),
        source: Some("SBC-4, thin provisioning".into()),
        consequence: consequence(growth),
        r#try: Some("Add a group when the pool warns, not when it is full.".into()),
        cost: None,
    })
}

/// What became of what the servers had acknowledged to their clients.
fn consequence(growth: &Growth) -> String {
    let files: u64 = growth.windows.iter().map(|w| w.lost_files).sum();
    match files {
        0 => "What the servers had acknowledged to their clients waits in their memory, and is lost if they stop; when that is full, clients wait, readers among them.".into(),
        _ => {
            let mb: f64 = growth.windows.iter().map(|w| w.lost_mb).sum();
            format!(
                "The servers had acknowledged {mb:.0} MB to their clients, discarded them, and logged it: {files} files lack something, and no copy ended with an error."
            )
        }
    }
}
