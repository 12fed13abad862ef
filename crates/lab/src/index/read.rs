//! What a report says of itself.

use std::io::{ErrorKind, Read};
use std::path::Path;

use serde::Deserialize;

use super::{Entry, Open, Standing};

#[derive(Deserialize)]
struct Report {
    title: String,
    answer: String,
    verdict: String,
    #[serde(default)]
    world: String,
    #[serde(default)]
    generated: String,
    #[serde(default)]
    claims: Vec<Claim>,
    #[serde(default)]
    doubts: Vec<Doubt>,
}

#[derive(Deserialize)]
struct Claim {
    name: String,
    verdict: String,
}

#[derive(Deserialize)]
struct Doubt {
    text: String,
}

/// The longest page: viewer, and a run of 100,000 samples.
const PAGE_BYTES_MAX: u64 = 128 << 20;
/// Before the data, as the viewer's build has it.
const BEFORE: &str = r#"id="masu-report">"#;

/// Why a page tells nothing.
enum Silent {
    NotThere,
    Unreadable(String),
}

fn report(path: &Path) -> Result<Report, Silent> {
    let text = text(path)?;
    let data = text.split_once(BEFORE).and_then(|(_, rest)| rest.split_once("</script>"));
    let (data, _) = data.ok_or_else(|| Silent::Unreadable("it is no report".into()))?;
    serde_json::from_str(data).map_err(|e| Silent::Unreadable(e.to_string()))
}

#[expect(clippy::disallowed_types, reason = "a page, of which no more is read than it may have")]
fn text(path: &Path) -> Result<String, Silent> {
    let file = match std::fs::File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(Silent::NotThere),
        Err(error) => return Err(Silent::Unreadable(error.to_string())),
        Ok(file) => file,
    };
    let mut text = String::new();
    file.take(PAGE_BYTES_MAX).read_to_string(&mut text).map_err(|e| Silent::Unreadable(e.to_string()))?;
    Ok(text)
}

fn silent(name: &str, question: &str, standing: Standing, answer: String) -> Entry {
    Entry {
        name: name.into(),
        question: question.into(),
        standing,
        answer,
        world: String::new(),
        generated: String::new(),
        held: 0,
        judged: 0,
        not_judged: 0,
        open: vec![],
        doubts: vec![],
        link: None,
    }
}

/// One that could not be run.
pub(super) fn failed(name: &str, question: &str, why: &str) -> Entry {
    silent(name, question, Standing::Failed, format!("It could not be run: {why}."))
}

/// One from its folder.
pub(super) fn entry(out: &Path, name: &str, question: &str) -> Entry {
    let link = format!("{name}/report.html");
    let report = match report(&out.join(&link)) {
        Ok(report) => report,
        Err(Silent::NotThere) => {
            let answer = format!("No answer yet: masu verify {name} gives one.");
            return silent(name, question, Standing::NotRun, answer);
        }
        Err(Silent::Unreadable(why)) => {
            return silent(name, question, Standing::Failed, format!("Its report cannot be read: {why}."));
        }
    };
    let count = |verdict: &str| report.claims.iter().filter(|c| c.verdict == verdict).count();
    let not_judged = count("not judged");
    let open = report.claims.iter().filter(|c| c.verdict != "held" && c.verdict != "not judged");
    let mut open: Vec<Open> =
        open.map(|c| Open { name: c.name.clone(), verdict: c.verdict.clone() }).collect();
    // The page shows a few of them: what did not hold comes first.
    open.sort_by_key(|claim| claim.verdict != "not held");
    Entry {
        name: name.into(),
        question: report.title,
        standing: match report.verdict.as_str() {
            "pass" => Standing::Held,
            "fail" => Standing::NotHeld,
            _ => Standing::InDoubt,
        },
        answer: report.answer,
        world: report.world,
        generated: report.generated,
        held: count("held"),
        judged: report.claims.len() - not_judged,
        not_judged,
        open,
        doubts: report.doubts.into_iter().map(|doubt| doubt.text).collect(),
        link: Some(link),
    }
}
