//! A seventh verification, which the tests add: a type and a row are enough for command line, terminal, page
//! and index.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use lab_core::claim::{Claims, JudgedClaim, Measure};
use lab_core::interrupt::Stop;
use lab_core::presentation::{self, Presentation};
use lab_core::record::{Metric, RunRecord};
use lab_core::report::{Cost, CostOf, Finding};
use lab_core::stats::Estimate;
use lab_core::verification::{self, Course, Request, Setup, Verification};
use lab_core::{index, parallel, scenario, terminal};
use serde::Deserialize;

use super::{Asked, Row};

/// How long a coin of the scenario falls: nothing is measured that could disturb a test.
struct Seventh;

const SCENARIO: &str = r#"
height_m = 5.0
gravity = 10.0

[[range]]
input = "height_m"
low = 1.25
high = 11.25
why = "from a table, or from a house"

[[range]]
input = "gravity"
low = 9.9
high = 10.1
why = "measured twice"

[[claim]]
id = "time"
name = "Time to the ground"
about = "promise"
kind = "emerges"
unit = "s"
at_most = 1
source = "a test"

[[claim]]
id = "speed"
name = "Speed at the ground"
about = "published"
kind = "emerges"
unit = "m/s"
at_least = 20
source = "a test"
"#;

#[derive(Deserialize)]
struct Coin {
    height_m: f64,
    gravity: f64,
    claim: Claims,
}

impl Verification for Seventh {
    const NAME: &'static str = "seventh";
    const QUESTION: &'static str = "How long does a coin fall?";
    type Options = ();
    type Scenario = Coin;
    type Recording = f64;

    fn load(request: &Request, (): &()) -> Result<(Coin, String)> {
        let (text, path) = scenario::text_of(request.scenario.as_deref(), (SCENARIO, "seventh.toml"))?;
        Ok((scenario::parse(&text, &path)?, text))
    }

    fn play(setup: &Setup<'_, Self>, stop: &Stop) -> Result<f64> {
        let Coin { height_m, gravity, .. } = *setup.scenario;
        let fall = |_: usize, _: &dyn Fn(())| {
            ensure!(height_m < 11.2, "the coin is lost");
            Ok((2.0 * height_m / gravity).sqrt())
        };
        let times = parallel::run((1, parallel::cores()), stop, fall, |()| ())?;
        times.first().map(|(_, time_s)| *time_s).context("stopped")
    }

    fn course(_: &Setup<'_, Self>, _: &f64) -> Course {
        Course { repeats: 1, ..Course::default() }
    }

    fn stated(coin: &Coin) -> &Claims {
        &coin.claim
    }

    fn claims(setup: &Setup<'_, Self>, time_s: &f64) -> Vec<Measure> {
        vec![
            Measure::new("time", Estimate::exact(*time_s)),
            Measure::new("speed", Estimate::exact(time_s * setup.scenario.gravity)),
        ]
    }

    fn metrics(_: &Setup<'_, Self>, time_s: &f64) -> Vec<Metric> {
        vec![Metric::new("time", "s", &[], vec![*time_s])]
    }

    fn present(_: &Setup<'_, Self>, time_s: &f64, _: &[JudgedClaim]) -> Result<Presentation> {
        let findings = vec![finding("air", None), finding("stone", Some(0.1)), finding("tower", Some(0.4))];
        Ok(Presentation { answer: format!("{time_s} s."), findings, ..Presentation::default() })
    }
}

fn finding(resource: &str, lost: Option<f64>) -> Finding {
    Finding {
        resource: resource.into(),
        evidence: "it is there".into(),
        threshold: None,
        source: None,
        consequence: "It slows the fall.".into(),
        r#try: None,
        cost: lost.and_then(|lost| Cost::share(lost, CostOf::Throughput)),
    }
}

pub(super) const ROW: Row = Row::of::<Seventh>(&[], |_, _| ());

#[test]
fn one_row_is_enough_for_terminal_page_and_index() {
    let dir = tempfile::tempdir().expect("a folder");
    let request =
        Request { out: dir.path().to_owned(), command: "masu verify all".into(), ..Request::default() };
    let (request, asked) = ROW.in_all(&request, &Asked::default());
    // A build without the viewer writes everything but the page.
    let ran = (ROW.run)(&request, &asked);
    assert!(ran.as_ref().err().is_none_or(|error| error.to_string().contains("no report viewer")), "{ran:?}");
    let record = RunRecord::read(&dir.path().join(ROW.name).join("results.json")).expect("a record");

    let counts = "promises: 1 of 1 held; published: 0 reproduced, 1 not";
    assert_eq!(record.verdict.tally.words(), counts);
    assert!(terminal::answer(&record, &[], None).contains(counts));
    assert_eq!(presentation::page(&record, &serde_json::Value::Null)["counts"], counts);
    let entries = index::read_all(dir.path(), &[(ROW.name, ROW.question)], &[], &[]);
    assert_eq!(index::tally(&entries).words(), counts);
    assert_eq!((entries[0].words(), index::exit_status(&entries)), ("not reproduced", 0));
    assert!((ROW.claims)(None).is_ok(), "its scenario is built in");
}

#[test]
fn findings_are_shown_by_what_they_cost() {
    let dir = tempfile::tempdir().expect("a folder");
    let request = Request { out: dir.path().to_owned(), ..Request::default() };
    // A build without the viewer writes everything but the page.
    let _ = verification::run::<Seventh>(&request, &());
    let shown = std::fs::read_to_string(dir.path().join(presentation::PRESENTATION)).expect("written");
    let shown: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    let order = [0, 1, 2].map(|n| shown["findings"][n]["resource"].as_str().expect("a finding"));
    assert_eq!(order, ["tower", "stone", "air"]);

    let record = RunRecord::read(&dir.path().join("results.json")).expect("a record");
    let all = [0.9, 0.8, 0.7, 0.6].map(|lost| finding(&format!("{lost}"), Some(lost)));
    let text = terminal::answer(&record, &all, Some(Path::new("out/report.html")));
    assert!(text.contains("finding: 0.7: It slows the fall. (70 % of throughput)"), "{text}");
    assert_eq!(text.matches("finding: ").count(), 3, "{text}");
    assert!(!terminal::answer(&record, &[finding("air", None)], None).contains("finding: "));
}

/// Nothing of a sweep is the verification's own: its ranges are enough. Half a second at 1.25 m, a second and
/// a half at 11.25 m: the height decides, and two thirds of it or so are too much.
#[test]
fn ranges_are_enough_for_a_sweep() {
    let dir = tempfile::tempdir().expect("a folder");
    let request = Request { out: dir.path().to_owned(), seed: 1, ..Request::default() };
    let ran = (ROW.run)(&request, &Asked { sweep: Some(64), ..Asked::default() });
    assert!(ran.as_ref().err().is_none_or(|error| error.to_string().contains("no report viewer")), "{ran:?}");
    let text = std::fs::read_to_string(dir.path().join("results.json")).expect("a record");
    let written: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(lab_core::schema::faults(&written), Vec::<String>::new());
    let record = RunRecord::read(&dir.path().join("results.json")).expect("a record");
    let sweep = record.sweep.as_ref().expect("a sweep");
    // A point that fails, the highest, takes no other with it.
    assert_eq!((sweep.together, sweep.beyond, sweep.alone, sweep.refused), (64, 0, 3, 1));
    assert_eq!((sweep.refusal.as_deref(), sweep.stopped), (Some("the coin is lost"), false));
    let time = sweep.claims.iter().find(|claim| claim.id == "time").expect("it emerges");
    let held = time.together.held_percent.expect("judged");
    assert!((35.0..40.0).contains(&held), "{held}");
    assert_eq!(time.decided_by.iter().map(|d| d.input.as_str()).collect::<Vec<_>>(), ["height_m"]);
    assert_eq!(time.alone.iter().map(|alone| alone.value.as_str()).collect::<Vec<_>>(), ["9.9"]);
    // Each row of the file is a claim of a point, and each point can be run again.
    let rows = std::fs::read_to_string(dir.path().join("sweep.csv")).expect("every point").lines().count();
    assert_eq!(rows, 1 + 2 * (1 + 64 + 3));
    let again = Request { scenario: Some(dir.path().join("sweep/001.toml")), ..request };
    assert!((ROW.claims)(again.scenario.as_deref()).is_ok());
    // The page is the record's: it shows the sweep when it is made again.
    let page = presentation::page(&record, &serde_json::Value::Null);
    assert_eq!(
        (&page["figures"][0]["id"], page["tables"].as_array().map(Vec::len)),
        (&"sweep".into(), Some(3))
    );
    assert!(lab_core::sweep::terminal(sweep, Path::new("out")).lines().count() <= 10);
}
