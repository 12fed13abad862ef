//! The answer on the terminal: ten lines.

use super::judge::{Judged, Verdict};
use super::words::answer;
use super::write::Judgement;
use lab_core::words::{plain, value};

/// A line of the summary: several checks of one subject.
const LINES: [(&str, &[&str]); 10] = [
    (
        "zeroing, small steps: time, CPU, packets",
        &["zeroing.paper.time", "zeroing.paper.cpu", "zeroing.paper.packets"],
    ),
    (
        "zeroing, large steps",
        &["zeroing.advertised.time", "zeroing.advertised.cpu", "zeroing.advertised.packets"],
    ),
    ("copy in one pool, small steps", &["copy.paper.time", "copy.paper.cpu", "copy.paper.packets"]),
    (
        "copy in one pool, large steps",
        &["copy.advertised.time", "copy.advertised.cpu", "copy.advertised.packets"],
    ),
    ("copy between pools", &["between.paper.time", "between.paper.cpu", "between.paper.packets"]),
    ("drive I/O: zeroing, copy in one pool", &["zeroing.drive_io", "copy.drive_io"]),
    ("locking: time per VM saved", &["locking.saving"]),
    ("locking: against a host alone", &["locking.uncontended"]),
    ("thin: warned at, resumed, given back", &["thin.threshold", "thin.resumed", "thin.reclaimed"]),
    ("wrong blocks, locks with two owners", &["content", "locking.owners"]),
];

/// Prints the answer.
pub(crate) fn print(judgement: &Judgement<'_>) {
    println!("{}\n", answer(judgement));
    if judgement.run.record.repeats > 0 {
        print_checks(judgement);
    }
    for doubt in &judgement.run.doubts {
        println!("doubt: {}", doubt.text);
    }
    for owner in judgement.run.faults.owners.iter().take(3) {
        println!("wrong: {owner}");
    }
    println!("\nreport: {}", judgement.run.options.out.join("report.html").display());
}

fn print_checks(judgement: &Judgement<'_>) {
    println!("{:<45} {:<15} {:<37} verdict", "saved by offload", "published", "measured");
    for (name, ids) in LINES {
        let checks: Vec<&Judged> = ids.iter().filter_map(|id| judgement.check(id)).collect();
        if !checks.is_empty() {
            println!("{}", line(name, &checks));
        }
    }
}

fn line(name: &str, checks: &[&Judged]) -> String {
    let unit = &checks[0].bound.unit;
    let unit = if checks.iter().all(|c| c.bound.unit == *unit) { unit.as_str() } else { "" };
    let published: Vec<String> = checks.iter().filter_map(|c| c.bound.published).map(plain).collect();
    let published =
        if published.is_empty() { "–".into() } else { format!("{} {unit}", published.join(", ")) };
    let measured = if checks.iter().all(|c| c.estimate.is_none()) {
        "–".to_owned()
    } else {
        let all: Vec<String> = checks.iter().map(|c| c.estimate.map_or("–".into(), |e| value(&e))).collect();
        format!("{} {unit}", all.join(", "))
    };
    format!("{name:<45} {published:<15} {measured:<37} {}", verdict(checks))
}

/// One verdict for several checks: the worst.
fn verdict(checks: &[&Judged]) -> String {
    let worst = |wanted: Verdict| checks.iter().find(|c| c.verdict == wanted);
    for verdict in [Verdict::NotHeld, Verdict::Undecided, Verdict::NotJudged] {
        if let Some(check) = worst(verdict) {
            let bound = check
                .bound
                .at_least
                .map(|b| format!(" (≥ {})", plain(b)))
                .or_else(|| check.bound.at_most.map(|b| format!(" (≤ {})", plain(b))));
            return match verdict {
                Verdict::NotJudged => {
                    format!("{}: {}", verdict.words(), check.reason.clone().unwrap_or_default())
                }
                _ => format!("{}{}", verdict.words(), bound.unwrap_or_default()),
            };
        }
    }
    Verdict::Held.words().into()
}
