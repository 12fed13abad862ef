//! The report: what was found, composed for the viewer.

use std::path::Path;

use anyhow::Result;

use super::claims::{self, Judged};
use super::results::{Layout, Pattern, Results, Source};
use super::summary::{self, SHARED};
use super::survey::{FITTED_TO, PUBLISHED_SERVERS, Survey, layout_words, pattern_words};
use super::sweep::{self, Row};
use super::{figures, tables};
use crate::findings::{self, Limits};
use crate::predict::SAMPLES;
use crate::vaai::Verdict;
use crate::verify::Options;
use lab_core::machine::now_rfc3339;
use lab_core::report::{self, DataFile, Doubt, Finding, Machine, Method, Report, Section, Table, Version};
use lab_core::words::command;

/// Share of the cache that may be pending before writes wait: what a cache is made with unless it is declared otherwise.
const HIGH_WATERMARK: f64 = 0.70;

/// A run that has ended.
pub(crate) struct Finished<'a> {
    pub(crate) options: &'a Options,
    pub(crate) results: &'a Results,
    /// The question that the scenario asks.
    pub(crate) question: &'a str,
    /// The scenario file, whole.
    pub(crate) scenario_text: &'a str,
    pub(crate) machine: Machine,
    pub(crate) doubts: Vec<Doubt>,
    /// What lies beside the report.
    pub(crate) files: Vec<DataFile>,
    /// What other choices of the inputs gave; empty where they were not tried.
    pub(crate) sweep: &'a [Row],
}

/// Judges, writes `report.html`, prints the answer. Gives whether every claim held that could be judged.
pub(crate) fn write(mut run: Finished<'_>) -> Result<bool> {
    let survey = Survey::new(run.results);
    let judged = claims::judge(&survey);
    run.doubts.extend(own_doubts(&survey));
    report::write_report(&run.options.out, &whole(&run, &survey, &judged))?;
    summary::print(&survey, &judged, &run.doubts, Path::new(&run.options.out));
    Ok(verdict(&judged, run.results.stopped) == "pass")
}

/// What was seen against a claim fails; what only does not show is in doubt.
fn verdict(judged: &[Judged], stopped: bool) -> &'static str {
    let has = |verdict: Verdict| judged.iter().any(|j| j.verdict == verdict);
    if has(Verdict::NotHeld) {
        "fail"
    } else if stopped || has(Verdict::Undecided) || !has(Verdict::Held) {
        "doubt"
    } else {
        "pass"
    }
}

fn own_doubts(survey: &Survey<'_>) -> Vec<Doubt> {
    let results = survey.results;
    let mut out = Vec::new();
    let mut doubt = |text: String, effect: &str| out.push(Doubt { text, effect: Some(effect.into()) });
    if results.stopped {
        doubt("The run was stopped before its end.".into(), "Only the points that were done are shown.");
    }
    let unsettled = results.points.iter().filter(|p| !p.settled).count();
    if unsettled > 0 {
        doubt(
            format!(
                "{unsettled} of {} points were measured although their warm-up had not settled.",
                results.points.len()
            ),
            "Their windows count like the others; see points.csv.",
        );
    }
    if results.quick {
        doubt(
            "The quick form: one repeat, short windows.".into(),
            "Intervals are those of the windows, which follow one another; predictions are shown and not judged, for they have fewer points to be fitted on.",
        );
    }
    out
}

fn whole(run: &Finished<'_>, survey: &Survey<'_>, judged: &[Judged]) -> Report {
    let results = run.results;
    let repeats = results.points.iter().map(|p| p.repeat + 1).max().unwrap_or(0) as usize;
    Report {
        version: report::VERSION,
        title: run.question.into(),
        scenario: results.scenario.clone(),
        world: if survey.is_real() { "real" } else { "model" },
        generated: now_rfc3339(),
        answer: summary::answer(survey),
        verdict: verdict(judged, results.stopped),
        claims: claims::claims(judged),
        figures: figures::figures(survey),
        findings: findings_of(survey),
        tables: tables::tables(survey).into_iter().chain(swept(run)).collect(),
        sections: sections(survey, !run.sweep.is_empty()),
        doubts: run.doubts.clone(),
        method: Method {
            command: command(&run.options.command),
            seed: run.options.seed.to_string(),
            scenario_text: run.scenario_text.into(),
            versions: vec![Version { name: "masu".into(), version: results.version.clone() }],
            machine: run.machine.clone(),
            modelled: modelled(survey),
            real: real(survey),
            calibrated: tables::inputs(survey, Source::Calibrated),
            repeats,
            scale: Some(scale(survey)),
        },
        files: run.files.clone(),
    }
}

fn modelled(survey: &Survey<'_>) -> Vec<String> {
    let is_given = survey.results.points.iter().any(|point| point.layout == Layout::Given);
    match (survey.is_real(), is_given) {
        (false, _) => vec![
            "drives, port, controllers' processors and servers, in virtual time: docs/model.md says how, and how far off".into(),
            "content: blocks are zeros, so that terabytes cost no memory".into(),
        ],
        (true, false) => vec!["drives: each request takes as long by the clock as the model says; that is done by the controller's thread, and counts as its time".into()],
        (true, true) => vec![],
    }
}

fn real(survey: &Survey<'_>) -> Vec<String> {
    match survey.is_real() {
        false => vec!["cache, pools, RAID groups: the array's own code, as it serves real hosts".into()],
        true => vec![
            "servers: initiators, each with a session of its own over TCP".into(),
            "the array: its own code behind its iSCSI port, or the LUs given".into(),
        ],
    }
}

fn scale(survey: &Survey<'_>) -> String {
    match survey.is_real() {
        false => format!("full size: {}", tables::inputs(survey, Source::Published).join(", ")),
        true => "files and cache are scaled alike; drives and the places of LUs on them are not".into(),
    }
}

/// What is found with the published eight servers: the same finding in several patterns is one.
fn findings_of(survey: &Survey<'_>) -> Vec<Finding> {
    let limits = Limits { high_watermark: Some(HIGH_WATERMARK) };
    let mut out: Vec<Finding> = Vec::new();
    for layout in SHARED {
        for pattern in Pattern::ALL {
            let Some(point) = survey.points(pattern, layout, PUBLISHED_SERVERS).into_iter().next() else {
                continue;
            };
            for mut finding in findings::findings(point, &limits) {
                let place = format!("{}, {}", layout_words(layout), pattern_words(pattern));
                let same =
                    |f: &&mut Finding| f.resource == finding.resource && f.consequence == finding.consequence;
                match out.iter_mut().find(same) {
                    Some(first) => {
                        first.evidence = format!("{}; {place}: {}", first.evidence, finding.evidence)
                    }
                    None => {
                        finding.evidence = format!("{place}: {}", finding.evidence);
                        out.push(finding);
                    }
                }
            }
        }
    }
    out
}

fn section(id: &str, title: &str, text: String, figures: &[&str], tables: &[&str]) -> Section {
    Section {
        id: id.into(),
        title: title.into(),
        text: Some(text),
        figures: figures.iter().map(|id| (*id).into()).collect(),
        tables: tables.iter().map(|id| (*id).into()).collect(),
    }
}

/// The table of the sweep, if there was one.
fn swept(run: &Finished<'_>) -> Option<Table> {
    (!run.sweep.is_empty()).then(|| sweep::table(run.sweep))
}

fn sections(survey: &Survey<'_>, is_swept: bool) -> Vec<Section> {
    let layouts: Vec<&str> = tables::layouts(survey).into_iter().map(layout_words).collect();
    let patterns: Vec<&str> = Pattern::ALL.iter().map(|p| p.name()).collect();
    vec![
        section(
            "rates",
            "What each server gets",
            format!(
                "Servers are added one by one; each has a file of its own on its system disk and keeps the same number of I/Os outstanding. Layouts: {}.\n\n{}",
                layouts.join(", "),
                summary::details(survey)
            ),
            &patterns,
            &["cost"],
        ),
        section(
            "resources",
            "What works how much",
            "One controller and one port carry all system disks; the other pair is for data disks, of which there are none here.".into(),
            &["controller", "port", "spread"],
            &[],
        ),
        section("prediction", "The server that is not bought yet", prediction(survey), &["predicted_raid1x8", "predicted_raid5x4"], &["ends", "demands"]),
        section("inputs", "Inputs", "Drive, outstanding I/Os and internal disk are not published: the orderings have to come out for all sensible choices.".into(), &[], if is_swept { &["conditions", "sweep"] } else { &["conditions"] }),
    ]
}

fn prediction(survey: &Survey<'_>) -> String {
    let mut text = format!(
        "Fitted on 1 to {FITTED_TO} servers and held against the runs with more. The demand of each resource is the slope of its utilisation over the \
         throughput; it is rejected where that is no line. Servers keep their groups: with 5 servers on 4 groups two share one. The network \
         is solved exactly; the band is that of {SAMPLES} bootstrap samples over repeats and windows, widened by how far the model is off the points it was \
         fitted on.\n\nThe table says what ends each pattern, predicted from all points up to {PUBLISHED_SERVERS} servers: used now is what the resource \
         gives of all it can with {PUBLISHED_SERVERS} servers; headroom is how much more it could."
    );
    for one in &survey.tried {
        if let Err(refusal) = &one.forecast {
            text += &format!(
                "\n\n{}, {}: refused. {refusal}",
                layout_words(one.layout),
                pattern_words(one.pattern)
            );
        }
    }
    text
}
