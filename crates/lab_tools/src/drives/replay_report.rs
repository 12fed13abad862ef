//! The report of a replay: the demerit figure and the curves of both distributions.

use std::path::PathBuf;

use anyhow::Result;
use lab_core::machine::{Watch, now_rfc3339};
use lab_core::outputs::Folder;
use lab_core::report::{self, Axis, DataFile, Figure, Method, Report, Section, Series, Version};
use lab_core::words::command;
use serde::Serialize;

use super::replay::Replay;

/// Fewer response times do not tell a distribution: one slow request moves the demerit.
const REQUESTS_FEW: usize = 100;
/// Points of a curve: more are not seen.
const CURVE_POINTS: usize = 200;

/// What was replayed on what.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Replayed<'a> {
    pub replay: &'a Replay,
    /// The drive's name.
    pub drive: &'a str,
    pub trace: &'a str,
    /// The command as typed.
    pub typed: &'a str,
}

/// Response time in ms at so many shares of the requests, measured and modelled.
pub fn curve(replay: &Replay, points: usize) -> Vec<[f64; 3]> {
    let sorted = |times: &[u64]| {
        let mut times = times.to_vec();
        times.sort_unstable();
        times
    };
    let (measured, modelled) = (sorted(&replay.measured_ns), sorted(&replay.response_ns));
    let last = measured.len().saturating_sub(1);
    let at = |i: usize| {
        let share = i as f64 / points.max(1) as f64;
        let rank = (share * last as f64).round() as usize;
        let ms = |times: &[u64]| times.get(rank).map_or(0.0, |ns| *ns as f64 / 1e6);
        [100.0 * share, ms(&measured), ms(&modelled)]
    };
    (0..=points).map(at).collect()
}

impl Replayed<'_> {
    /// "2.51 %: ...", one sentence.
    pub fn answer(&self) -> String {
        let replay = self.replay;
        let requests = match replay.response_ns.len() {
            1 => "1 request; too few for a distribution".to_owned(),
            count @ ..REQUESTS_FEW => format!("{count} requests; too few for a distribution"),
            count => format!("{count} requests"),
        };
        format!(
            "The demerit of {} against {} ({requests}) is {:.3} ms, {:.2} % of the measured mean ({:.3} ms; modelled {:.3} ms).",
            self.drive,
            self.trace,
            replay.demerit_ns / 1e6,
            replay.demerit_percent(),
            replay.measured_mean_ns / 1e6,
            replay.mean_ns / 1e6
        )
    }

    /// Writes report.html, results.json and responses.csv. Gives the page.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written.
    pub fn write(&self, out: &Folder) -> Result<PathBuf> {
        let out = out.path();
        let replay = self.replay;
        let results = Results {
            scenario: "drive replay",
            drive: self.drive,
            trace: self.trace,
            requests: replay.response_ns.len(),
            measured_mean_ms: replay.measured_mean_ns / 1e6,
            modelled_mean_ms: replay.mean_ns / 1e6,
            demerit_ms: replay.demerit_ns / 1e6,
            demerit_percent: replay.demerit_percent(),
        };
        report::write_results(out, &results)?;
        let rows = replay.measured_ns.iter().zip(&replay.response_ns);
        let rows =
            rows.map(|(a, b)| vec![format!("{:.3}", *a as f64 / 1e3), format!("{:.3}", *b as f64 / 1e3)]);
        let rows = report::write_csv(&out.join("responses.csv"), &["measured_us", "modelled_us"], rows)?;
        report::write_report(out, &self.page(rows))?;
        Ok(out.join("report.html"))
    }

    fn page(&self, rows: usize) -> Report {
        let (machine, _) = Watch::start().end();
        Report {
            version: report::VERSION,
            title: format!("How near does {} come to {}?", self.drive, self.trace),
            scenario: "drive replay".into(),
            world: "model",
            generated: now_rfc3339(),
            answer: self.answer(),
            verdict: "compared",
            claims: vec![],
            figures: vec![self.figure()],
            findings: vec![],
            tables: vec![],
            sections: vec![Section {
                id: "demerit".into(),
                title: "Response times, measured and modelled".into(),
                text: Some(
                    "The demerit is the root mean square of the horizontal distance between the two curves \
                     (Ruemmler and Wilkes, 1994). It compares distributions, not requests one by one."
                        .into(),
                ),
                figures: vec!["responses".into()],
                tables: vec![],
            }],
            doubts: vec![],
            method: Method {
                command: command(self.typed),
                versions: vec![Version::of_masu()],
                machine,
                modelled: vec![format!("the drive {}, in virtual time", self.drive)],
                real: vec![format!("the response times of {}", self.trace)],
                ..Method::default()
            },
            files: vec![
                DataFile { name: "results.json".into(), about: "the figures, for a machine".into(), rows: 1 },
                DataFile {
                    name: "responses.csv".into(),
                    about: "each request, in the order of the trace".into(),
                    rows,
                },
            ],
        }
    }

    fn figure(&self) -> Figure {
        let curve = curve(self.replay, CURVE_POINTS);
        let series = |name: &str, color, column: usize| Series {
            name: name.into(),
            color,
            points: curve.iter().map(|point| vec![point[column], point[0]]).collect(),
            panel: None,
        };
        Figure {
            id: "responses".into(),
            title: format!(
                "{:.2} % of the mean lie between measured and modelled response times",
                self.replay.demerit_percent()
            ),
            subtitle: Some(format!(
                "{} requests; share of requests that are done",
                self.replay.response_ns.len()
            )),
            kind: "cdf",
            x: Axis { label: "response time".into(), unit: "ms".into(), log: false },
            y: Axis { label: "requests".into(), unit: "%".into(), log: false },
            series: vec![series("measured", "blue", 1), series("modelled", "orange", 2)],
            ..Figure::default()
        }
    }
}

#[derive(Serialize)]
struct Results<'a> {
    scenario: &'static str,
    drive: &'a str,
    trace: &'a str,
    requests: usize,
    measured_mean_ms: f64,
    modelled_mean_ms: f64,
    demerit_ms: f64,
    demerit_percent: f64,
}
