//! The verification as the laboratory runs it, and what it shows.

use std::path::Path;

use anyhow::{Context, Result};
use lab_core::claim::{Claims, JudgedClaim, Measure};
use lab_core::inputs::{Input, InputKind, inputs};
use lab_core::interrupt::Stop;
use lab_core::presentation::Presentation;
use lab_core::quantity::Size;
use lab_core::record::{Metric, World};
use lab_core::report::{Column, DataFile, Doubt, Section, Table, Value, write_csv};
use lab_core::scenario::text_of;
use lab_core::verification::{Course, Request, Setup, Verification};

use super::asked::At;
use super::claims::{level, measures, samples};
use super::figures::figures;
use super::plan::Plan;
use super::read::read;
use super::recording::{Ran, Recording};
use super::scenario::{EXAMPLE, EXAMPLE_PATH, Quantity};
use super::{Run, runs, testbed, words};

/// What is written of each load in each phase.
const MEASURED: [Quantity; 6] = [
    Quantity::Rate,
    Quantity::Throughput,
    Quantity::ResponseMean,
    Quantity::ResponseP99,
    Quantity::ResponseMax,
    Quantity::Failed,
];

/// The scenario of a request, checked, with its text.
///
/// # Errors
///
/// What is wrong with it, with its line.
pub(super) fn load(request: &Request) -> Result<(Plan, String)> {
    let file = request.scenario.as_deref();
    let (text, path) = text_of(file, (EXAMPLE, EXAMPLE_PATH))?;
    let own = file.and_then(Path::parent).unwrap_or(Path::new(""));
    let plan = read(&text, &path, request.beside.as_deref().unwrap_or(own))?;
    for array in &plan.arrays {
        let config = testbed::declaration(&plan, array);
        config.check().with_context(|| format!("{path}: array {:?}", array.name))?;
    }
    Ok((plan, text))
}

impl Verification for Run {
    const NAME: &'static str = "run";
    const QUESTION: &'static str = "What does a scenario of your own claim, and does it hold?";
    type Options = World;
    type Scenario = Plan;
    type Recording = Recording;

    fn load(request: &Request, _: &World) -> Result<(Plan, String)> {
        load(request)
    }

    fn play(setup: &Setup<'_, Self>, stop: &Stop) -> Result<Recording> {
        runs::run(setup.scenario, *setup.own, setup.request, stop)
    }

    fn course(setup: &Setup<'_, Self>, recording: &Recording) -> Course {
        let failure =
            recording.ran.iter().flat_map(|ran| &ran.courses).find_map(|course| course.failure.clone());
        let effect = "Only what was done is shown.";
        let ended = match failure {
            Some(failure) => {
                let text = format!("The run was stopped before its end by a failure: {failure}.");
                Some(Doubt::new(text, Some(effect.into())))
            }
            None => recording.stopped.then(|| Doubt::stopped(effect)),
        };
        let mut doubts: Vec<Doubt> = ended.into_iter().collect();
        let unended = recording.ran.iter().flat_map(|ran| &ran.courses).find_map(|of| of.unended.as_ref());
        doubts.extend(unended.map(|unended| {
            let text = format!("I/Os in flight at the end were never answered: {}.", unended.why);
            Doubt::new(text, Some("They count with their age until the end, and as no I/O in a rate.".into()))
        }));
        let repeats = recording.ran.iter().map(|ran| ran.courses.len()).min().unwrap_or(0);
        let (world, stopped) = (*setup.own, recording.stopped);
        Course { world, quick: false, scale: None, repeats, stopped, doubts }
    }

    fn stated(scenario: &Plan) -> &Claims {
        &scenario.claims
    }

    fn claims(setup: &Setup<'_, Self>, recording: &Recording) -> Vec<Measure> {
        measures(setup.scenario, *setup.own, recording)
    }

    fn inputs(setup: &Setup<'_, Self>, recording: &Recording) -> Vec<Input> {
        let scenario = inputs(setup.text);
        if recording.is_target() { of_lus(scenario, setup.scenario, recording) } else { scenario }
    }

    fn metrics(setup: &Setup<'_, Self>, recording: &Recording) -> Vec<Metric> {
        let mut out = Vec::new();
        for ran in &recording.ran {
            for (phase, load) in places(setup.scenario) {
                let plan = setup.scenario;
                let dimensions = [
                    ("array", ran.array.as_str()),
                    ("phase", plan.phases[phase].name.as_str()),
                    ("load", plan.loads[load].name.as_str()),
                ];
                let at = At { load: Some(load), phase, array: None };
                out.extend(MEASURED.iter().map(|quantity| {
                    Metric::new(quantity.name(), quantity.unit(), &dimensions, samples(ran, *quantity, at))
                }));
            }
            out.extend(asked_besides(setup.scenario, recording, ran));
            if let Some(found) = &ran.found {
                let largest = Quantity::LargestCount;
                let dimensions = [("array", ran.array.as_str())];
                out.push(Metric::new(
                    largest.name(),
                    largest.unit(),
                    &dimensions,
                    vec![found.largest as f64],
                ));
            }
        }
        out.retain(|metric| !metric.samples.is_empty());
        out
    }

    fn present(
        setup: &Setup<'_, Self>,
        recording: &Recording,
        claims: &[JudgedClaim],
    ) -> Result<Presentation> {
        let plan = setup.scenario;
        let figures = figures(plan, recording);
        Ok(Presentation {
            title: plan.question.clone(),
            answer: words::answer(plan, recording, claims),
            findings: vec![],
            tables: vec![table(plan, recording)],
            sections: sections(plan, figures.iter().map(|figure| figure.id.clone())),
            method: words::method(setup, recording),
            files: vec![write_windows(&setup.request.out, plan, recording)?],
            figures,
        })
    }
}

/// What claims ask for and not every load has: other quantities, and those of an array or of all its loads.
fn asked_besides(plan: &Plan, recording: &Recording, ran: &Ran) -> Vec<Metric> {
    let mut out: Vec<Metric> = Vec::new();
    for asked in &plan.asked {
        for at in std::iter::once(asked.at).chain(asked.compared_with) {
            let quantity = asked.quantity;
            // `--target` stands for whichever array a claim names.
            let is_here = |array: usize| recording.is_target() || plan.arrays[array].name == ran.array;
            let is_here = at.array.is_none_or(is_here);
            let is_written = at.load.is_some() && MEASURED.contains(&quantity);
            if !is_here || is_written || quantity == Quantity::LargestCount {
                continue;
            }
            let mut dimensions = vec![("array", ran.array.as_str())];
            let samples = match quantity {
                Quantity::RebuildTime => ran.courses.iter().filter_map(|course| course.rebuild_s).collect(),
                _ => {
                    dimensions.push(("phase", plan.phases[at.phase].name.as_str()));
                    dimensions.extend(at.load.map(|load| ("load", plan.loads[load].name.as_str())));
                    samples(ran, quantity, at)
                }
            };
            let metric = Metric::new(quantity.name(), quantity.unit(), &dimensions, samples);
            out.extend((!out.contains(&metric)).then_some(metric));
        }
    }
    out
}

/// Of a run on LUs of `--target` the scenario's arrays, and what an array does with volumes, are no inputs:
/// there is the size of each LU instead, as it was found.
fn of_lus(mut inputs: Vec<Input>, plan: &Plan, recording: &Recording) -> Vec<Input> {
    let is_in = |name: &str, table: &str| {
        name.strip_prefix(table).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let unused = ["array", "volume.size", "volume.pool", "volume.thin", "volume.cache", "volume.policy"];
    inputs.retain(|input| !unused.iter().any(|table| is_in(&input.name, table)));
    inputs.extend(plan.volumes.iter().zip(&recording.lus).map(|(volume, lu)| Input {
        name: format!("lu.{}.size", volume.name),
        value: Size(lu.len_bytes).to_string(),
        kind: InputKind::Measured,
        source: format!("measured: {}", lu.url),
    }));
    inputs
}

/// Every phase with each load that runs in it.
fn places(plan: &Plan) -> impl Iterator<Item = (usize, usize)> {
    plan.phases.iter().enumerate().flat_map(|(phase, of)| of.loads.iter().map(move |load| (phase, *load)))
}

fn sections(plan: &Plan, figures: impl Iterator<Item = String> + Clone) -> Vec<Section> {
    let named = |start: &'static str| figures.clone().filter(move |id| id.starts_with(start)).collect();
    let section = |id: &str, title: &str, text: String, figures: Vec<String>, tables: Vec<String>| Section {
        id: id.into(),
        title: title.into(),
        text: Some(text),
        figures,
        tables,
    };
    let mut out = vec![
        section("phases", "Phase by phase", words::phases(plan), named("phases_"), vec!["measured".into()]),
        section("time", "Over time", words::windows(plan), named("time_"), vec![]),
    ];
    if let Some(text) = words::search(plan) {
        out.insert(0, section("search", "How many", text, named("search"), vec![]));
    }
    out
}

fn number(value: Option<f64>) -> Value {
    match value.filter(|value| value.is_finite()) {
        Some(value) => Value::Number((value * 1000.0).round() / 1000.0),
        None => Value::Text("–".into()),
    }
}

/// What each load did in each phase.
fn table(plan: &Plan, recording: &Recording) -> Table {
    let mut rows = Vec::new();
    for ran in &recording.ran {
        for (phase, load) in places(plan) {
            let at = At { load: Some(load), phase, array: None };
            let mut row: Vec<Value> = [&ran.array, &plan.phases[phase].name, &plan.loads[load].name]
                .map(|text| Value::Text(text.clone()))
                .into();
            row.extend(MEASURED.map(|quantity| number(level(ran, quantity, at).map(|e| e.mean))));
            rows.push(row);
        }
    }
    let text = Column::text;
    let measured = MEASURED.map(|quantity| Column::number(quantity.words(), quantity.unit()));
    Table {
        id: "measured".into(),
        title: "What each load did in each phase".into(),
        columns: [text("array"), text("phase"), text("load")].into_iter().chain(measured).collect(),
        rows,
    }
}

/// `windows.csv`: every window of every run.
fn write_windows(out: &Path, plan: &Plan, recording: &Recording) -> Result<DataFile> {
    let name = "windows.csv";
    let lines = recording.ran.iter().flat_map(|ran| of_array(plan, ran));
    let header = [
        "array",
        "run",
        "phase",
        "load",
        "second",
        "counts",
        "iops",
        "mb_per_s",
        "response_mean_ms",
        "response_p99_ms",
        "failed",
    ];
    let rows = write_csv(&out.join(name), &header, lines).context("the samples")?;
    Ok(DataFile { name: name.into(), about: "every window of every load, in every run".into(), rows })
}

fn of_array(plan: &Plan, ran: &Ran) -> Vec<Vec<String>> {
    let mut out = Vec::new();
    for (run, course) in ran.courses.iter().enumerate() {
        for (phase, load) in places(plan).filter(|(phase, _)| *phase < course.phases.len()) {
            let played = &course.phases[phase];
            for (n, window) in played.windows(Some(load)).iter().enumerate() {
                let value = |quantity| window.value(quantity, course.window_s);
                let text = |quantity| value(quantity).map_or(String::new(), |value| format!("{value:.4}"));
                out.push(vec![
                    ran.array.clone(),
                    (run + 1).to_string(),
                    plan.phases[phase].name.clone(),
                    plan.loads[load].name.clone(),
                    format!("{:.3}", played.from_s + n as f64 * course.window_s),
                    u8::from(n >= played.first).to_string(),
                    text(Quantity::Rate),
                    text(Quantity::Throughput),
                    text(Quantity::ResponseMean),
                    text(Quantity::ResponseP99),
                    window.failed.to_string(),
                ]);
            }
        }
    }
    out
}
