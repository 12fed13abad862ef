//! The page over all verifications: each with its question, its answer, what held and what did not, and the way to its report.
//!
//! It is made from the reports that lie there, whatever wrote them: what was not run, or could not be, is shown as that.

mod page;
mod read;

use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use lab_core::report::{WriteError, write_results};

/// A verification and the question that it answers.
pub const VERIFICATIONS: [(&str, &str); 5] = [
    ("vaai", "What do the storage offloads save?"),
    ("qos", "Are minimums and maximums of virtual disks kept?"),
    ("sanboot", "How many servers boot and live from one array?"),
    ("fileserver", "May file servers live on virtual disks that grow, on a pool that grows too?"),
    ("diskstress", "How much does virtualization cost a disk?"),
];

/// Ends the name of a verification that was run on real hardware besides.
pub const REAL: &str = "-real";

/// How one stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Every claim held that was judged.
    Held,
    /// One at least did not.
    NotHeld,
    /// It cannot say.
    InDoubt,
    /// It began and failed.
    Failed,
    /// There is no report of it.
    NotRun,
}

/// A claim that is not simply held.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Open {
    /// Its name.
    pub name: String,
    /// `not held`, `no difference shown`.
    pub verdict: String,
}

/// One verification on the page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// As the command line calls it.
    pub name: String,
    /// The question.
    pub question: String,
    /// How it stands.
    pub standing: Standing,
    /// The answer, or why there is none.
    pub answer: String,
    /// `model` or `real`.
    pub world: String,
    /// When, RFC 3339.
    pub generated: String,
    /// Claims that held.
    pub held: usize,
    /// Claims that were judged: held, not held, or not decided.
    pub judged: usize,
    /// Claims that could not be judged in this run.
    pub not_judged: usize,
    /// Those that did not hold, or were not decided.
    pub open: Vec<Open>,
    /// What makes it doubtful.
    pub doubts: Vec<String>,
    /// The way to the report from the page.
    pub link: Option<String>,
}

/// Reads what lies under `out`, a folder for each verification. `failed`: those that began in this run and could not end, and why; their
/// older reports are not shown.
pub fn read_all(out: &Path, failed: &[(String, String)]) -> Vec<Entry> {
    let one = |name: &str, question| match failed.iter().find(|(failed, _)| failed == name) {
        Some((_, why)) => read::failed(name, question, why),
        None => read::entry(out, name, question),
    };
    let mut entries = Vec::new();
    for (name, question) in VERIFICATIONS {
        entries.push(one(name, question));
        let real = one(&format!("{name}{REAL}"), question);
        entries.extend((real.standing != Standing::NotRun).then_some(real));
    }
    entries
}

/// One sentence over all of them.
pub fn answer(entries: &[Entry]) -> String {
    let of = |standing: Standing| -> Vec<&str> {
        entries.iter().filter(|e| e.standing == standing).map(|e| e.name.as_str()).collect()
    };
    let held = of(Standing::Held);
    let mut text = match held.len() {
        n if n == entries.len() => format!("All {n} verifications hold every claim that was judged"),
        0 => "No verification holds every claim".to_owned(),
        n => format!("{n} of {} verifications hold every claim that was judged", entries.len()),
    };
    for (standing, words) in [
        (Standing::NotHeld, "does not hold every claim"),
        (Standing::InDoubt, "is in doubt"),
        (Standing::Failed, "could not be run"),
        (Standing::NotRun, "was not run"),
    ] {
        let names = of(standing);
        if !names.is_empty() {
            let words = if names.len() > 1 { plural(words) } else { words.to_owned() };
            text += &format!("; {} {words}", joined(&names));
        }
    }
    text + "."
}

fn plural(words: &str) -> String {
    words.replacen("does", "do", 1).replacen("is ", "are ", 1).replacen("was", "were", 1)
}

fn joined(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

#[derive(Serialize)]
struct Results<'a> {
    answer: String,
    verifications: &'a [Entry],
}

/// Writes index.html and index.json's content as results.json into `out`.
pub fn write(out: &Path, entries: &[Entry], command: &str) -> Result<()> {
    let answer = answer(entries);
    let page = page::page(entries, &answer, command);
    let path = out.join("index.html");
    std::fs::write(&path, page)
        .map_err(|e| WriteError::File { path: path.display().to_string(), cause: e.to_string() })?;
    write_results(out, &Results { answer, verifications: entries })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, standing: Standing) -> Entry {
        let question = "Does 1 < 2 hold?".into();
        Entry { standing, question, ..read::failed(name, "", "it <failed>") }
    }

    #[test]
    fn nothing_that_does_not_hold_is_hidden() {
        use Standing::{Failed, Held, InDoubt, NotHeld, NotRun};
        let all = [
            ("vaai", Held),
            ("qos", NotHeld),
            ("sanboot", InDoubt),
            ("fileserver", NotRun),
            ("diskstress", NotRun),
        ];
        let entries = all.map(|(name, standing)| entry(name, standing));
        assert_eq!(
            answer(&entries),
            "1 of 5 verifications hold every claim that was judged; qos does not hold every claim; sanboot is in doubt; fileserver and diskstress were not run."
        );
        assert_eq!(
            answer(&[entry("a", Failed), entry("b", NotHeld), entry("c", NotHeld)]),
            "No verification holds every claim; b and c do not hold every claim; a could not be run."
        );
    }

    #[test]
    fn a_page_shows_texts_as_texts_and_missing_reports_as_not_run() {
        let dir = tempfile::tempdir().expect("a folder");
        let entries = read_all(dir.path(), &[("qos".into(), "no <drive>".into())]);
        assert_eq!(entries.iter().filter(|e| e.standing == Standing::NotRun).count(), 4);
        write(dir.path(), &entries, "masu verify all").expect("writes");
        let page = std::fs::read_to_string(dir.path().join("index.html")).expect("a page");
        assert!(page.contains("no &lt;drive&gt;") && !page.contains("<drive>"));
        assert!(!page.contains("://"), "it needs no network");
    }

    #[test]
    fn reports_are_read_from_their_pages() {
        let dir = tempfile::tempdir().expect("a folder");
        let own = dir.path().join("vaai");
        std::fs::create_dir(&own).expect("a folder");
        let data = r#"{"title":"Q?","answer":"A \u003c B.","verdict":"fail","world":"real","generated":"2026-11-20T14:05:00Z",
            "doubts":[{"text":"Steal."}],"claims":[{"name":"a","verdict":"held"},{"name":"d","verdict":"no difference shown"},{"name":"b","verdict":"not held"},{"name":"c","verdict":"not judged"}]}"#;
        let page = format!("<p><script type=\"application/json\" id=\"masu-report\">{data}</script></p>");
        std::fs::write(own.join("report.html"), page).expect("a page");
        let one = &read_all(dir.path(), &[])[0];
        assert_eq!((one.standing, one.held, one.judged, one.not_judged), (Standing::NotHeld, 1, 3, 1));
        assert_eq!((one.answer.as_str(), one.link.as_deref()), ("A < B.", Some("vaai/report.html")));
        // A page shows a few of them: what did not hold was among "and 4 more" once.
        assert_eq!(one.open.iter().map(|open| open.name.as_str()).collect::<Vec<_>>(), ["b", "d"]);
        std::fs::write(own.join("report.html"), "<script id=\"masu-report\">{oops</script>").expect("a page");
        assert_eq!(read_all(dir.path(), &[])[0].standing, Standing::Failed);
    }
}
