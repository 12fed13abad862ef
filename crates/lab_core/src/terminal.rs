//! The answer on the terminal: the record, and the findings that cost most.

use std::fmt::Write as _;
use std::path::Path;

use crate::claim::{JudgedClaim, Kind};
use crate::presentation::published_words;
use crate::record::RunRecord;
use crate::report::Finding;
use crate::verdict::Verdict;
use crate::words::{shown, value};

/// The report has the others.
const FINDINGS_MAX: usize = 3;

/// What is printed of a run; `findings` are in their order by cost, `page` is the report, if it was written.
pub fn answer(record: &RunRecord, findings: &[Finding], page: Option<&Path>) -> String {
    let mut text = format!("{}\n\n{}\n", record.verdict.answer, record.verdict.tally.words());
    for claim in &record.claims {
        let _ = writeln!(text, "  {}", line(claim));
    }
    for doubt in &record.environment.doubts {
        let _ = writeln!(text, "doubt: {}", doubt.text);
    }
    let costly = findings.iter().filter_map(|finding| Some((finding, finding.cost?)));
    for (finding, cost) in costly.take(FINDINGS_MAX) {
        let _ = writeln!(text, "finding: {}: {} ({})", finding.resource, finding.consequence, cost.words());
    }
    let _ = write!(text, "\nverdict: {}", record.verdict.standing.words());
    if let Some(page) = page {
        let _ = write!(text, "\nreport: {}", shown(page));
    }
    text
}

/// "held        Reads: virtual against physical: 98.1 ± 0.2 % (90 to 110 %; published: no material
/// difference)".
fn line(claim: &JudgedClaim) -> String {
    let measured = claim.interval().map_or("–".into(), |estimate| value(&estimate));
    let unit = if claim.unit.is_empty() { String::new() } else { format!(" {}", claim.unit) };
    let bound = claim.bound.map(|bound| bound.words(&claim.unit));
    let published = published_words(claim).map(|words| format!("published: {words}"));
    let apart = (claim.kind != Kind::Emerges).then(|| claim.kind.words().to_owned());
    let beside: Vec<String> = [bound, published, apart].into_iter().flatten().collect();
    let beside = if beside.is_empty() { String::new() } else { format!(" ({})", beside.join("; ")) };
    let why = match (claim.verdict, &claim.reason) {
        (Verdict::NotJudged | Verdict::InDoubt | Verdict::NotHeld, Some(reason)) => format!(": {reason}"),
        // Without a number nothing else says why.
        (Verdict::Undecided, Some(reason)) if claim.estimate.is_none() => format!(": {reason}"),
        _ => String::new(),
    };
    format!("{:<10}  {}: {measured}{unit}{beside}{why}", claim.verdict.words(), claim.name)
}
