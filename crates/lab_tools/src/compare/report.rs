//! The comparison as a page, a file for a machine, and a sentence.

use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use super::Comparison;
use super::judge::{Compared, Verdict};
use super::metrics::Run;
use lab_core::machine::{Watch, now_rfc3339};
use lab_core::report::{
    self, Axis, Claim, Column, DataFile, Doubt, Figure, Method, Report, Section, Series, Table, Value,
    Version,
};
use lab_core::stats::Estimate;
use lab_core::words::{command, plain};

/// On the first screen.
const CLAIMS_MAX: usize = 12;
/// Inputs that a doubt names.
const INPUTS_MAX: usize = 12;
/// Bars of the figure.
const BARS_MAX: usize = 24;

/// "1.24 (1.20 to 1.28)".
fn words(ratio: &Estimate) -> String {
    let digits = |v: f64| format!("{v:.3}");
    match ratio.low.is_finite() && ratio.low < ratio.high {
        true => format!("{} ({} to {})", digits(ratio.mean), digits(ratio.low), digits(ratio.high)),
        false => digits(ratio.mean),
    }
}

fn metrics_words(n: usize) -> String {
    if n == 1 { "1 metric".into() } else { format!("{n} metrics") }
}

/// The word of the table, so that nobody reads "no difference" beside an interval that is wide.
fn undecided_words(n: usize) -> String {
    format!("{} {}", if n == 1 { "is" } else { "are" }, Verdict::Undecided.words())
}

/// One sentence.
pub(super) fn answer(comparison: &Comparison) -> String {
    let all = comparison.both.len();
    let [differs, single, none, same] =
        [Verdict::Differs, Verdict::Single, Verdict::Undecided, Verdict::Same]
            .map(|verdict| comparison.count(verdict));
    let mut parts = Vec::new();
    match (differs, comparison.both.first()) {
        (0, _) if none > 0 => parts.push(format!("{} {}", metrics_words(none), undecided_words(none))),
        (0, _) => {}
        (_, Some(Compared { name, ratio: Some(ratio), .. })) => {
            let most = format!("most of all {name}: in B {} times as much as in A", words(ratio));
            parts.push(format!("{differs} of {} differ, {most}", metrics_words(all)));
        }
        _ => parts.push(format!("{differs} of {} differ", metrics_words(all))),
    }
    if differs > 0 && none > 0 {
        parts.push(format!("{none} {}", undecided_words(none)));
    }
    if same > 0 {
        parts.push(if same == all {
            format!("all {} are the same", metrics_words(all))
        } else {
            format!("{same} are the same")
        });
    }
    if single > 0 {
        parts.push(format!("{single} have one value each, so their random variation is unknown"));
    }
    let mut text = parts.join("; ") + ".";
    if let Some(first) = text.get(..1).map(str::to_uppercase) {
        text.replace_range(..1, &first);
    }
    text
}

/// What makes it doubtful.
pub(super) fn doubts(comparison: &Comparison) -> Vec<Doubt> {
    let mut out: Vec<Doubt> = comparison
        .apart
        .iter()
        .map(|text| {
            let effect = "What differs may come from that.".to_owned();
            Doubt::new(format!("The runs have different conditions: {text}."), Some(effect))
        })
        .collect();
    if !comparison.inputs.is_empty() {
        let shown = &comparison.inputs[..comparison.inputs.len().min(INPUTS_MAX)];
        let more = match comparison.inputs.len() - shown.len() {
            0 => String::new(),
            n => format!("; and {n} more"),
        };
        out.push(Doubt::new(
            format!("The runs have different inputs: {}{more}.", shown.join("; ")),
            Some("What differs may come from that.".into()),
        ));
    }
    for (name, run) in [("A", &comparison.a), ("B", &comparison.b)] {
        out.extend(run.stopped.then(|| {
            let effect = "Only what it had measured is compared.".to_owned();
            Doubt::new(format!("{name} was stopped before its end."), Some(effect))
        }));
        let own = run.doubts.iter();
        out.extend(own.map(|doubt| Doubt::new(format!("{name}: {}", doubt.text), doubt.effect.clone())));
    }
    let judged = comparison.count(Verdict::Differs) + comparison.count(Verdict::Undecided);
    // Of so many intervals of 95 % one at least is expected to leave 1 out by chance.
    if judged >= 20 {
        out.push(Doubt::new(
            format!(
                "Of {judged} intervals of 95 % about {} leave 1 out by chance alone.",
                (judged as f64 / 20.0).round()
            ),
            Some("A small difference in a single metric is not a finding.".into()),
        ));
    }
    out
}

/// Writes the folder.
pub(super) fn write(comparison: &Comparison, out: &Path, typed: &str) -> Result<()> {
    report::write_results(out, &Results::of(comparison))?;
    let rows = comparison.both.iter().map(|c| {
        let ratio = |of: fn(Estimate) -> f64| {
            c.ratio.map(of).filter(|v| v.is_finite()).map_or(String::new(), |v| v.to_string())
        };
        let cells = [
            c.name.clone(),
            c.a.to_string(),
            c.b.to_string(),
            ratio(|r| r.mean),
            ratio(|r| r.low),
            ratio(|r| r.high),
            c.verdict.words().into(),
        ];
        cells.to_vec()
    });
    let header = ["metric", "a", "b", "ratio", "low", "high", "verdict"];
    let count = report::write_csv(&out.join("ratios.csv"), &header, rows)?;
    report::write_report(out, &whole(comparison, typed, count))?;
    Ok(())
}

#[derive(Serialize)]
struct Results<'a> {
    scenario: &'static str,
    a: String,
    b: String,
    apart: &'a [String],
    inputs: &'a [String],
    doubts: Vec<String>,
    metrics: Vec<Row<'a>>,
    only_a: &'a [String],
    only_b: &'a [String],
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    a: f64,
    b: f64,
    ratio: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    verdict: &'static str,
}

impl<'a> Results<'a> {
    fn of(comparison: &'a Comparison) -> Results<'a> {
        let row = |c: &'a Compared| Row {
            name: &c.name,
            a: c.a,
            b: c.b,
            ratio: c.ratio.map(|r| r.mean),
            low: c.ratio.map(|r| r.low).filter(|v| v.is_finite()),
            high: c.ratio.map(|r| r.high).filter(|v| v.is_finite()),
            verdict: c.verdict.words(),
        };
        Results {
            scenario: "compare",
            a: comparison.a.name(),
            b: comparison.b.name(),
            apart: &comparison.apart,
            inputs: &comparison.inputs,
            doubts: comparison.doubts(),
            metrics: comparison.both.iter().map(row).collect(),
            only_a: &comparison.only_a,
            only_b: &comparison.only_b,
        }
    }
}

fn whole(comparison: &Comparison, typed: &str, rows: usize) -> Report {
    let (machine, _) = Watch::start().end();
    let of = |run: &Run| {
        let fact = |name: &str| run.fact(name).map(|value| format!("{name} {value}"));
        let facts: Vec<String> = ["scenario", "world", "seed"].iter().filter_map(|n| fact(n)).collect();
        format!("{} ({})", run.name(), facts.join(", "))
    };
    let is_model = [&comparison.a, &comparison.b].iter().all(|run| run.fact("world") == Some("model"));
    Report {
        version: report::VERSION,
        title: format!("How does {} differ from {}?", comparison.b.name(), comparison.a.name()),
        scenario: "compare".into(),
        world: if is_model { "model" } else { "real" },
        generated: now_rfc3339(),
        answer: answer(comparison),
        verdict: "compared",
        claims: comparison.both.iter().take(CLAIMS_MAX).map(claim).collect(),
        figures: figure(comparison).into_iter().collect(),
        findings: vec![],
        tables: tables(comparison),
        sections: vec![Section {
            id: "all".into(),
            title: "Every metric".into(),
            text: Some(format!(
                "A is {}.\n\nB is {}.\n\nThe ratio is B over A. Its interval of 95 % is that of a ratio of two independent means \
                 (logarithms, degrees of freedom after Welch); where it contains 1, the metric is undecided. What differs most stands first.",
                of(&comparison.a),
                of(&comparison.b)
            )),
            figures: vec![],
            tables: vec!["ratios".into(), "only".into()],
        }],
        doubts: doubts(comparison),
        method: Method {
            command: command(typed),
            versions: vec![Version::of_masu()],
            machine,
            real: vec!["nothing was run; masu read the results of two runs".into()],
            ..Method::default()
        },
        files: vec![
            DataFile { name: "results.json".into(), about: "every metric, for a machine".into(), rows },
            DataFile { name: "ratios.csv".into(), about: "every metric with its ratio".into(), rows },
        ],
    }
}

fn claim(c: &Compared) -> Claim {
    let ends = c.ratio.filter(|r| r.low.is_finite() && r.low < r.high);
    Claim {
        name: c.name.clone(),
        unit: "×".into(),
        published: None,
        expected: None,
        measured: c.ratio.map(|r| r.mean),
        low: ends.map(|r| r.low),
        high: ends.map(|r| r.high),
        verdict: match c.verdict {
            Verdict::Differs => "differs",
            Verdict::Undecided => "undecided",
            Verdict::Same => "the same",
            Verdict::Single => "not judged",
        },
        figure: Some("ratios".into()),
        note: Some(format!("A {}, B {}", plain(c.a), plain(c.b))),
    }
}

/// How much more or less B has, in percent, with the intervals: those that differ most. A ratio near 1 would
/// be drawn as long a bar as another.
fn figure(comparison: &Comparison) -> Option<Figure> {
    let shown: Vec<(&Compared, Estimate)> =
        comparison.both.iter().filter_map(|c| Some((c, c.ratio?))).take(BARS_MAX).collect();
    let differs = comparison.count(Verdict::Differs);
    let title = match differs {
        0 => "No interval excludes 1".to_owned(),
        n => format!("{n} of {} differ", metrics_words(comparison.both.len())),
    };
    let percent = |ratio: f64| 100.0 * (ratio - 1.0);
    let point = |(i, (_, r)): (usize, &(&Compared, Estimate))| match r.low.is_finite() {
        true => vec![i as f64, percent(r.mean), percent(r.low), percent(r.high)],
        false => vec![i as f64, percent(r.mean)],
    };
    let left_out = comparison.both.len() - shown.len();
    (!shown.is_empty()).then(|| Figure {
        id: "ratios".into(),
        title,
        subtitle: Some(
            "what B has more than A, or less, with the 95 % interval; what differs most stands first".into(),
        ),
        kind: "bars",
        x: Axis { label: "metric".into(), ..Axis::default() },
        y: Axis { label: "B against A".into(), unit: "%".into(), log: false },
        categories: shown.iter().map(|(c, _)| c.name.clone()).collect(),
        series: vec![Series {
            name: "B against A".into(),
            color: "blue",
            points: shown.iter().enumerate().map(point).collect(),
            panel: None,
        }],
        note: (left_out > 0).then(|| format!("{} more are in the table.", metrics_words(left_out))),
        ..Figure::default()
    })
}

fn tables(comparison: &Comparison) -> Vec<Table> {
    let (text, number) = (Column::text, |name| Column::number(name, ""));
    // Six digits: more is noise for a reader, and the CSV has all.
    let rounded = |v: f64| match v.is_finite() {
        true => Value::Number(format!("{v:.5e}").parse().unwrap_or(v)),
        false => Value::Text("–".into()),
    };
    let row = |c: &Compared| {
        let ratio = |of: fn(&Estimate) -> f64| {
            let value = c.ratio.as_ref().map_or(f64::NAN, of);
            if value.is_finite() { Value::Text(format!("{value:.3}")) } else { Value::Text("–".into()) }
        };
        vec![
            Value::Text(c.name.clone()),
            rounded(c.a),
            rounded(c.b),
            ratio(|r| r.mean),
            ratio(|r| r.low),
            ratio(|r| r.high),
            Value::Text(format!("{}, {}", c.samples.0, c.samples.1)),
            Value::Text(c.verdict.words().into()),
        ]
    };
    let columns = vec![
        text("metric"),
        number("A"),
        number("B"),
        number("B over A"),
        number("from"),
        number("to"),
        text("samples A, B"),
        text("verdict"),
    ];
    let rows = comparison.both.iter().map(row).collect();
    let mut out = vec![Table { id: "ratios".into(), title: String::new(), columns, rows }];
    let only = [("A", &comparison.only_a), ("B", &comparison.only_b)];
    let rows: Vec<Vec<Value>> = only
        .into_iter()
        .flat_map(|(run, names)| {
            names.iter().map(move |n| vec![Value::Text(n.clone()), Value::Text(run.into())])
        })
        .collect();
    if !rows.is_empty() {
        let columns = vec![text("metric"), text("only in")];
        out.push(Table { id: "only".into(), title: "In one run only".into(), columns, rows });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer about these samples of A and B, and the text of the page.
    fn check(a: &str, b: &str) -> (String, String) {
        let dir = tempfile::tempdir().expect("a folder");
        let run = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).expect("a file");
            path
        };
        let comparison = Comparison::of(&run("a.json", a), &run("b.json", b)).expect("comparable");
        let page = serde_json::to_string(&whole(&comparison, "masu compare", 1)).expect("JSON");
        (comparison.answer(), page)
    }

    #[test]
    fn a_metric_whose_interval_holds_1_is_undecided_in_sentence_and_page() {
        let series =
            |wide: &str, narrow: &str| format!(r#"{{"series":{{"wide":{wide},"narrow":{narrow}}}}}"#);
        let (a, wide) = (series("[10, 12, 8]", "[10, 10.1, 9.9]"), "[11, 13, 9]");
        let cases = [
            (series(wide, "[11, 9, 10]"), "2 metrics are undecided."),
            (series(wide, "[10, 10.1, 9.8]"), "2 metrics are undecided."),
            (series("[10, 12, 9]", "[20, 20.1, 19.9]"), "; 1 is undecided."),
        ];
        for (b, expected) in cases {
            let (answer, page) = check(&a, &b);
            assert!(answer.ends_with(expected), "{answer}");
            assert!(page.contains("undecided") && !page.contains("o difference"), "{page}");
        }
    }

    /// A record of a run with these inputs, stopped or not.
    fn record(inputs: &[(&str, &str)], stopped: bool, doubt: &str) -> String {
        let inputs = inputs.iter().map(
            |(name, value)| serde_json::json!({"name": name, "value": value, "kind": "chosen", "source": ""}),
        );
        let standing = if stopped { "in doubt" } else { "not judged" };
        let none =
            serde_json::json!({"held": 0, "not_held": 0, "undecided": 0, "in_doubt": 0, "not_judged": 0});
        serde_json::json!({
            "schema": 1, "verification": "run", "version": "0", "commit": null, "world": "model", "seed": 1,
            "scale": null,
            "environment": {
                "generated": "2026-11-20T14:05:00Z", "command": "masu run", "quick": false, "stopped": stopped,
                "repeats": 1, "machine": lab_core::report::Machine::default(),
                "doubts": [{"text": doubt, "effect": null}],
            },
            "inputs": inputs.collect::<Vec<_>>(), "claims": [],
            "metrics": [{"id": "rate", "unit": "IOPS", "dimensions": {}, "samples": [1.0, 2.0, 3.0]}],
            "verdict": {
                "standing": standing, "exit_status": 3, "answer": "",
                "tally": {"promises": none, "published": none, "follows": none, "put_in": none},
            },
        })
        .to_string()
    }

    /// Milliseconds in one run and seconds in the other had a ratio, and nothing told the versions.
    #[test]
    fn metrics_with_other_units_have_no_ratio_and_the_versions_are_told() {
        let a = record(&[], false, "");
        let b = a.replace("\"version\":\"0\"", "\"version\":\"1\"");
        let dir = tempfile::tempdir().expect("a folder");
        let put = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).expect("a file");
            path
        };
        let comparison = Comparison::of(&put("a.json", &a), &put("b.json", &b)).expect("comparable");
        assert_eq!(comparison.runs(), ["run, model, seed 1, version 0", "run, model, seed 1, version 1"]);
        assert!(comparison.both.len() == 1 && comparison.apart.is_empty());
        let more = a.replace(
            "\"metrics\":[",
            "\"metrics\":[{\"id\":\"time\",\"unit\":\"ms\",\"dimensions\":{},\"samples\":[1.0]},",
        );
        let other = more.replace("IOPS", "kIOPS");
        assert!(more != a && other != more);
        let comparison = Comparison::of(&put("a.json", &more), &put("b.json", &other)).expect("comparable");
        assert_eq!(comparison.both.len(), 1, "the time alone");
        assert_eq!(comparison.apart, ["unit of rate: IOPS in A, kIOPS in B"]);
    }

    /// The difference of a run that was stopped and one with another cache stood there without a word.
    #[test]
    fn inputs_that_differ_a_stop_and_the_doubts_of_both_runs_are_said() {
        let a = record(
            &[("drive.model", "x"), ("drive.model", "y"), ("array.cache", "1MiB")],
            false,
            "A busy CPU.",
        );
        let b = record(
            &[("drive.model", "x"), ("drive.model", "z"), ("v.size", "1GiB")],
            true,
            "The run was stopped before its end.",
        );
        let dir = tempfile::tempdir().expect("a folder");
        let [a, b] = [("a.json", a), ("b.json", b)].map(|(name, text)| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).expect("a file");
            path
        });
        let comparison = Comparison::of(&a, &b).expect("comparable");
        assert_eq!(
            comparison.doubts(),
            [
                "The runs have different inputs: array.cache: 1MiB in A, not there in B; \
                 drive.model: x, y in A, x, z in B; v.size: not there in A, 1GiB in B.",
                "A: A busy CPU.",
                "A: The record of this run has no digest.",
                "B was stopped before its end.",
                "B: The record of this run has no digest.",
            ]
        );
        assert_eq!(Comparison::of(&a, &a).expect("comparable").inputs, [""; 0]);
        let text = std::fs::read_to_string(&a).expect("reads").replace("\"not judged\"", "\"held\"");
        std::fs::write(&a, text).expect("written");
        let refused = Comparison::of(&a, &b).err().expect("refused").to_string();
        assert!(refused.contains("a.json contradicts itself: the run is \"held\""), "{refused}");
    }
}
