//! Nothing that is not held is hidden, and what is counted is what the runs count.

use super::*;
use crate::claim::{About, JudgedClaim, Kind, judged_claim};
use crate::record::{World, record_of};
use crate::verdict::Verdict;

const FIVE: [(&str, &str); 5] =
    [("vaai", "?"), ("qos", "?"), ("sanboot", "?"), ("fileserver", "?"), ("diskstress", "?")];

fn record(claims: Vec<JudgedClaim>) -> RunRecord {
    record_of("vaai", World::Real, claims, "A < B.")
}

fn run(name: &str, about: About, verdict: Verdict) -> Entry {
    let record = record(vec![judged_claim("a", about, Kind::Emerges, verdict)]);
    Entry { name: name.into(), question: "Does 1 < 2 hold?".into(), state: State::Run(Box::new(record)) }
}

#[test]
fn nothing_that_is_not_held_is_hidden() {
    let not_run = |name: &str| Entry { name: name.into(), question: String::new(), state: State::NotRun };
    let entries = [
        run("vaai", About::Promise, Verdict::Held),
        run("qos", About::Promise, Verdict::NotHeld),
        run("sanboot", About::Published, Verdict::Undecided),
        not_run("fileserver"),
        not_run("diskstress"),
    ];
    assert_eq!(
        answer(&entries),
        "1 of 5 verifications hold every claim that was judged; qos does not hold every promise; sanboot is undecided; fileserver and diskstress were not run."
    );
    assert_eq!(
        tally(&entries).words(),
        "promises: 1 of 2 held, 1 not held; published: 0 reproduced, 1 undecided"
    );
    assert_eq!(exit_status(&entries), 1);
    assert_eq!(exit_status(&entries[2..3]), 0, "a published statement decides nothing");
    assert_eq!(exit_status(&entries[3..]), 3);
    let failed = [read::failed("a", "", "x"), run("b", About::Published, Verdict::NotHeld)];
    assert_eq!(
        answer(&failed),
        "No verification holds every claim; b does not reproduce every published statement; a could not be run."
    );
    assert_eq!(exit_status(&failed), 2);
}

/// Eight published statements were not reproduced, and the index said "fileserver is undecided".
#[test]
fn a_statement_that_is_not_reproduced_is_said_whatever_else_its_run_is() {
    let both = |promise| {
        let claims = [(About::Promise, promise), (About::Published, Verdict::NotHeld)];
        let claims = claims.map(|(about, verdict)| judged_claim("a", about, Kind::Emerges, verdict));
        let state = State::Run(Box::new(record(claims.to_vec())));
        Entry { name: "fileserver".into(), question: String::new(), state }
    };
    assert_eq!(
        answer(&[both(Verdict::Undecided)]),
        "No verification holds every claim; fileserver does not reproduce every published statement; fileserver is undecided."
    );
    assert!(answer(&[both(Verdict::NotHeld)]).contains("fileserver does not reproduce"));
}

#[test]
fn a_page_shows_texts_as_texts_and_missing_runs_as_not_run() {
    let dir = tempfile::tempdir().expect("a folder");
    let entries = read_all(dir.path(), &FIVE, &[], &[("qos".into(), "no <drive>".into())]);
    assert_eq!(entries.iter().filter(|e| e.state == State::NotRun).count(), 4);
    write(dir.path(), &entries, ("masu verify all", 0)).expect("writes");
    let page = std::fs::read_to_string(dir.path().join("index.html")).expect("a page");
    assert!(page.contains("no &lt;drive&gt;") && !page.contains("<drive>"));
    assert!(!page.contains("://"), "it needs no network");
}

/// The index once counted a claim as held whose bound lay in its interval, for it read another page than the
/// run.
#[test]
fn the_index_counts_as_the_run_does() {
    let dir = tempfile::tempdir().expect("a folder");
    let own = dir.path().join("vaai");
    std::fs::create_dir(&own).expect("a folder");
    let all = [Verdict::Held, Verdict::Undecided, Verdict::NotHeld, Verdict::NotJudged, Verdict::InDoubt];
    let claims =
        all.map(|verdict| judged_claim(verdict.words(), About::Promise, Kind::Emerges, verdict)).to_vec();
    let record = record(claims);
    write_json(&own.join("results.json"), &record).expect("writes");
    let entries = read_all(dir.path(), &FIVE, &[], &[]);
    assert_eq!(entries[0].state, State::Run(Box::new(record.clone())), "nothing is lost on the way");
    assert_eq!(entries[0].tally(), Some(&record.verdict.tally));
    let words = "promises: 1 of 4 held, 1 not held, 1 undecided, 1 in doubt; 1 not judged";
    assert_eq!(record.verdict.tally.words(), words);
    write(dir.path(), &entries, ("masu verify all", 0)).expect("writes");
    let page = std::fs::read_to_string(dir.path().join("index.html")).expect("a page");
    assert!(page.contains(words) && page.contains("A &lt; B."), "{page}");
    assert_eq!(page.matches("Real run").count(), 1, "beside the one verdict");
    // A page shows a few of them: what is not held was among "and 4 more" once.
    assert_eq!(read::open(&record)[0].0, "not held");
    std::fs::write(own.join("results.json"), "{oops").expect("a file");
    assert!(matches!(read_all(dir.path(), &FIVE, &[], &[])[0].state, State::Failed(_)));
}
