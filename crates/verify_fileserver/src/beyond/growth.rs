//! Virtual disks that grow fast on a pool that promises more than it has: expanded in time, and too late.

use super::super::claims::level;
use super::super::figures::{PanelOf, axis, panels};
use super::super::model::course::{Growth, GrowthWindow};
use lab_core::claim::{Measure, Outcome};
use lab_core::report::{Figure, Finding, Series, Span};
use lab_core::stats::Estimate;

/// What a read took while writes were refused, against before: in percent.
fn reads_while_full(growth: &Growth) -> Option<Estimate> {
    let (first, _) = growth.refused_s?;
    let time = |from: f64, to: f64| -> Vec<f64> {
        let inside = growth.windows.iter().filter(|w| w.at_s > from && w.at_s <= to && w.read_ms > 0.0);
        inside.map(|w| w.read_ms).collect()
    };
    let (before, while_full) = (time(5.0, first), time(first, growth.expanded_s));
    let (before, while_full) = (level(&before)?, level(&while_full)?);
    Some(Estimate::exact(100.0 * while_full.mean / before.mean))
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
    let silent = growth.windows.iter().filter(|w| w.refused > 0 && w.read_mb_per_s <= 0.0).count();
    let note = format!(
        "none failed; but for {silent} s no client asked: a quarter of the server's memory was full of what could not be written, and all workers waited to write"
    );
    let after = growth.windows.iter().filter(|w| w.at_s > growth.expanded_s + 2.0);
    let after = growth.refused_s.map(|_| exact(after.map(|w| w.refused).sum::<u64>() as f64));
    vec![
        Measure::new("full.warned", warned(growth)),
        Measure::new("full.reads", reads_while_full(growth)).note(note),
        Measure::new("full.after", after),
    ]
}

/// Seconds from the warning to the first write that was refused.
fn warned(growth: &Growth) -> Outcome {
    match (growth.refused_s, growth.warned_s) {
        (Some((first, _)), Some(warned)) => Estimate::exact(first - warned).into(),
        (Some(_), None) => Outcome::Never("the pool refused writes and never warned".into()),
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
    let of: [PanelOf<'_, GrowthWindow>; 4] = [
        ("read", "Read by clients", ("reads", "MB/s"), |w| w.read_mb_per_s),
        ("write", "Written by clients", ("writes", "MB/s"), |w| w.write_mb_per_s),
        ("used", "The pool", ("used", "%"), |w| w.used_percent),
        ("refused", "Writes refused", ("refused per second", ""), |w| w.refused as f64),
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
        threshold: Some("a write that needs a page of a full pool fails: SPACE ALLOCATION FAILED, WRITE PROTECT".into()),
        source: Some("SBC-4, thin provisioning".into()),
        consequence: "What the servers had acknowledged to their clients waits in their memory, and is lost if they stop; when that is full, clients wait, readers among them.".into(),
        r#try: Some("Add a group when the pool warns, not when it is full.".into()),
    })
}
