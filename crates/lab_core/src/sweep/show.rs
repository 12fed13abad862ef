//! A sweep for a person: in the report, on the terminal, and as CSV.

use std::path::Path;

use super::record::{ClaimRecord, DeciderRecord, ShareRecord, SweepRecord};
use super::summary::Judged;
use crate::report::{Axis, Column, Figure, Section, Series, Table, Value, WriteError, write_csv as write};
use crate::scenario::frame::Frame;
use crate::words::{counted, plain};

/// Claims on the terminal: with the sentence and the file it is ten lines.
const LINES_MAX: usize = 8;

/// Writes a row for each claim of each point.
pub(super) fn write_csv(path: &Path, frame: &Frame, all: &[Judged]) -> Result<usize, WriteError> {
    let inputs = frame.ranges.iter().map(|range| range.input.as_str());
    let header: Vec<&str> = ["point", "design"]
        .into_iter()
        .chain(inputs)
        .chain(["claim", "kind", "verdict", "estimate", "low", "high"])
        .collect();
    let number = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value}"));
    let rows = all.iter().enumerate().flat_map(|(index, judged)| {
        let point = [index.to_string(), judged.point.design.name().to_owned()].into_iter();
        let point: Vec<String> = point.chain(judged.point.values.iter().map(|v| v.shown.clone())).collect();
        judged.claims.iter().map(move |claim| {
            let own = [claim.id.clone(), claim.kind.words().into(), claim.verdict.words().into()];
            let numbers = [claim.estimate, claim.low, claim.high].map(number);
            point.iter().cloned().chain(own).chain(numbers).collect()
        })
    });
    write(path, &header, rows)
}

/// The claims by share: the one that holds in the fewest points first.
fn by_share(record: &SweepRecord) -> Vec<&ClaimRecord> {
    let mut all: Vec<&ClaimRecord> =
        record.claims.iter().filter(|claim| claim.together.held_percent.is_some()).collect();
    all.sort_by(|a, b| {
        a.together.held_percent.unwrap_or(0.0).total_cmp(&b.together.held_percent.unwrap_or(0.0))
    });
    all
}

/// One sentence: how many claims hold at every point.
pub fn sentence(record: &SweepRecord) -> String {
    let judged = by_share(record);
    let all = judged.iter().filter(|claim| claim.together.held_percent == Some(100.0)).count();
    let beyond = match record.beyond {
        0 => String::new(),
        n => format!(", and {n} with values that the published text contradicts"),
    };
    let stopped = if record.stopped { "Stopped before its end: " } else { "" };
    format!(
        "{stopped}{all} of {} claims that could have failed hold at all {} over {}{beyond}",
        judged.len(),
        counted(record.together, "point"),
        counted(record.ranges.len(), "input")
    )
}

/// "62.5 % of 64".
fn share_words(share: &ShareRecord) -> String {
    match share.held_percent {
        Some(percent) => format!("{percent:.0} % of {}", share.counts.judged()),
        None => "not judged".into(),
    }
}

fn estimates(share: &ShareRecord) -> String {
    match (share.least, share.most) {
        (Some(least), Some(most)) => format!("{} to {}", plain(least), plain(most)),
        _ => "–".into(),
    }
}

fn decider_words(decider: &DeciderRecord) -> String {
    let better = match decider.better.as_deref() {
        Some("more") => ", better with more".to_owned(),
        Some("less") => ", better with less".to_owned(),
        Some(value) => format!(", best with {value}"),
        None => String::new(),
    };
    format!("{} ({:.0} %{better})", decider.input, decider.share_percent)
}

fn decided(claim: &ClaimRecord) -> String {
    let counts = &claim.together.counts;
    match () {
        () if !claim.decided_by.is_empty() => {
            claim.decided_by.iter().map(decider_words).collect::<Vec<_>>().join("; ")
        }
        () if counts.judged() == 0 => "–".into(),
        () if [counts.held, counts.not_held, counts.undecided].contains(&counts.judged()) => {
            "nothing: the same at every point".into()
        }
        () => "none stands out".into(),
    }
}

/// The ten lines of the terminal.
pub fn terminal(record: &SweepRecord, out: &Path) -> String {
    let all = by_share(record);
    let line = |claim: &&ClaimRecord| {
        let share = share_words(&claim.together);
        format!("  held in {share:<11}  {}: decided by {}", claim.name, decided(claim))
    };
    let mut lines = vec![format!("sweep: {}", sentence(record))];
    lines.extend(all.iter().take(LINES_MAX).map(line));
    let more = match all.len().saturating_sub(LINES_MAX) {
        0 => String::new(),
        n => format!("{n} more claims and "),
    };
    lines.push(format!("sweep: {more}every point: {}", out.join("sweep.csv").display()));
    lines.join("\n")
}

/// What the report shows: a section, its figure, and its tables.
pub fn page(record: &SweepRecord) -> (Section, Vec<Figure>, Vec<Table>) {
    let tables = vec![claims_table(record), alone_table(record), ranges_table(record)];
    let text = "Every input that the published text leaves open has a range. The points fill all ranges together (a Sobol' sequence), and each \
                input takes its ends alone. Every point is a whole run, judged by the bounds of the scenario, which do not change.\n\n\
                An input decides a claim when it alone explains a tenth or more of how far the claim's estimates lie from the bound (ranks; F test at 1 % over all inputs).";
    let refused = match (record.refused, &record.refusal) {
        (n, Some(why)) if n > 0 => format!(
            "\n\n{} left out, because the scenario's own checks refuse them; the next of the sequence took their place. The first: {why}.",
            counted(n, "combination")
        ),
        _ => String::new(),
    };
    let section = Section {
        id: "sweep".into(),
        title: "Which inputs the claims depend on".into(),
        text: Some(format!("{}.\n\n{text}{refused}", sentence(record))),
        figures: vec!["sweep".into()],
        tables: tables.iter().map(|table| table.id.clone()).collect(),
    };
    (section, vec![figure(record)], tables)
}

fn figure(record: &SweepRecord) -> Figure {
    let all = by_share(record);
    let points = |of: &dyn Fn(&ClaimRecord) -> Option<f64>| -> Vec<Vec<f64>> {
        let each = all.iter().enumerate().filter_map(|(place, claim)| Some(vec![place as f64, of(claim)?]));
        each.collect()
    };
    let open = points(&|claim| claim.together.held_percent);
    let beyond = points(&|claim| claim.beyond.as_ref()?.held_percent);
    let series =
        |name: &str, color, points: Vec<Vec<f64>>| Series { name: name.into(), color, points, panel: None };
    let mut both = vec![series("values that the published text leaves open", "blue", open)];
    if !beyond.is_empty() {
        both.push(series("all values, contradicted ones included", "orange", beyond));
    }
    Figure {
        id: "sweep".into(),
        title: format!("{}.", sentence(record)),
        subtitle: Some("share of the points at which a claim holds".into()),
        kind: "bars",
        x: Axis { label: "claim".into(), ..Axis::default() },
        y: Axis { label: "held".into(), unit: "% of points".into(), log: false },
        categories: all.iter().map(|claim| claim.name.clone()).collect(),
        series: both,
        ..Figure::default()
    }
}

fn texts(columns: &[&str]) -> Vec<Column> {
    columns.iter().map(|name| Column::text(name)).collect()
}

fn claims_table(record: &SweepRecord) -> Table {
    let row = |claim: &&ClaimRecord| {
        let beyond = claim.beyond.as_ref().map_or("–".into(), share_words);
        let with_unit = |text: String| format!("{text} {}", claim.unit).trim_end().to_owned();
        let bound = claim.bound.map_or("–".into(), |bound| bound.words(&claim.unit));
        let own = claim.verdict.map_or("–", crate::verdict::Verdict::words);
        [
            claim.name.clone(),
            bound,
            own.into(),
            share_words(&claim.together),
            with_unit(estimates(&claim.together)),
            beyond,
            decided(claim),
        ]
        .map(Value::Text)
        .to_vec()
    };
    Table {
        id: "sweep_claims".into(),
        title: "Claims that could have failed, over all ranges together".into(),
        columns: texts(&[
            "claim",
            "bound",
            "as the scenario has it",
            "held",
            "estimates",
            "held with contradicted values",
            "decided by",
        ]),
        rows: by_share(record).iter().map(row).collect(),
    }
}

fn alone_table(record: &SweepRecord) -> Table {
    let rows = record.claims.iter().flat_map(|claim| {
        claim.alone.iter().map(|alone| {
            let estimate = alone.estimate.map_or("–".into(), plain);
            [
                alone.input.clone(),
                alone.value.clone(),
                claim.name.clone(),
                alone.verdict.words().to_owned(),
                format!("{estimate} {}", claim.unit),
                alone.against.clone().unwrap_or_else(|| "–".into()),
            ]
            .map(Value::Text)
            .to_vec()
        })
    });
    Table {
        id: "sweep_alone".into(),
        title: "One input alone: where a claim gets another verdict".into(),
        columns: texts(&["input", "value", "claim", "verdict", "estimate", "published against it"]),
        rows: rows.collect(),
    }
}

fn ranges_table(record: &SweepRecord) -> Table {
    let row = |range: &super::record::RangeRecord| {
        let against = range.against.clone().unwrap_or_else(|| "–".into());
        [range.input.clone(), range.own.clone(), range.values.clone(), range.why.clone(), against]
            .map(Value::Text)
            .to_vec()
    };
    Table {
        id: "sweep_ranges".into(),
        title: "Inputs that were varied".into(),
        columns: texts(&["input", "scenario", "values", "why", "published against it"]),
        rows: record.ranges.iter().map(row).collect(),
    }
}
