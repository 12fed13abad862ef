//! The claims of the report and the checks of `results.json`: the same outcomes, for a person and for a machine.

use super::judge::{Judged, Verdict};
use super::write::Judgement;
use crate::results::Check;
use lab_core::report::Claim;
use lab_core::stats::Estimate;
use lab_core::words::plain;

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// Ends of an interval, when there is one.
fn interval(estimate: &Estimate) -> (Option<f64>, Option<f64>) {
    match (finite(estimate.low), finite(estimate.high)) {
        (Some(low), Some(high)) => (Some(low), Some(high)),
        _ => (None, None),
    }
}

/// For a machine.
pub(crate) fn check(judged: &Judged) -> Check {
    let bound = &judged.bound;
    let (low, high) = judged.estimate.as_ref().map_or((None, None), interval);
    Check {
        name: bound.name.clone(),
        unit: bound.unit.clone(),
        published: bound.published,
        expected: bound.at_least.or(bound.at_most),
        measured: judged.estimate.map(|e| e.mean),
        low,
        high,
        pass: judged.verdict == Verdict::Held,
    }
}

/// For a person.
pub(crate) fn claims(judgement: &Judgement<'_>) -> Vec<Claim> {
    judgement.checks.iter().map(|judged| claim(judged, judgement)).collect()
}

fn claim(judged: &Judged, judgement: &Judgement<'_>) -> Claim {
    let bound = &judged.bound;
    let (low, high) = judged.estimate.as_ref().map_or((None, None), interval);
    Claim {
        name: bound.name.clone(),
        unit: bound.unit.clone(),
        published: bound.published.map(|p| with_unit(p, &bound.unit)),
        expected: Some(expected(judged)),
        measured: judged.estimate.map(|e| e.mean),
        low,
        high,
        verdict: judged.verdict.words(),
        figure: figure(&bound.id).map(Into::into),
        note: judged.reason.clone().or_else(|| undecided(judged)).or_else(|| note(&bound.id, judgement)),
    }
}

fn undecided(judged: &Judged) -> Option<String> {
    (judged.verdict == Verdict::Undecided).then(|| "the bound lies within the interval".into())
}

fn with_unit(value: f64, unit: &str) -> String {
    if unit.is_empty() { plain(value) } else { format!("{} {unit}", plain(value)) }
}

/// The bound in words.
fn expected(judged: &Judged) -> String {
    let bound = &judged.bound;
    match (bound.at_least, bound.at_most) {
        (Some(least), Some(most)) => format!("{} to {}", plain(least), with_unit(most, &bound.unit)),
        (Some(least), None) => format!("≥ {}", with_unit(least, &bound.unit)),
        (None, Some(0.0)) => "none".into(),
        (None, most) => format!("≤ {}", with_unit(most.unwrap_or(f64::INFINITY), &bound.unit)),
    }
}

/// Which figure shows a check.
fn figure(id: &str) -> Option<&'static str> {
    match id.rsplit('.').next() {
        Some("time") => Some("share"),
        Some("cpu") => Some("cpu"),
        Some("packets") => Some("packets"),
        Some("drive_io") => Some("drive-io"),
        Some("saving" | "uncontended") => Some("locking"),
        Some("threshold" | "resumed" | "reclaimed") => Some("thin"),
        _ => None,
    }
}

fn note(id: &str, judgement: &Judgement<'_>) -> Option<String> {
    let vaai = &judgement.run.scenario.vaai;
    Some(match id {
        "locking.saving" => format!(
            "{} hosts × {} VMs, mean over all VMs; COMPARE AND WRITE against RESERVE(6)",
            vaai.published.hosts, vaai.published.vms_per_host
        ),
        "locking.uncontended" => format!(
            "the same power-on of {} VMs by one host with nobody to wait for",
            vaai.published.vms_per_host
        ),
        "thin.threshold" => format!("38h/07h; the threshold is {} %", vaai.thin.threshold_percent),
        "thin.resumed" => "27h/07h, then 16 MiB given back with UNMAP, then the same write again".into(),
        "content" => {
            format!("{} blocks after each operation, all blocks after the first", vaai.run.samples * 2)
        }
        "offload.zeroed" | "offload.copied" => "the array's own counters, least of all repeats".into(),
        _ => return None,
    })
}
