//! The verification as the laboratory runs it, and what it shows.

use anyhow::{Result, bail};
use iscsi::initiator::Url;
use lab_core::claim::{Claims, JudgedClaim, Measure};
use lab_core::console;
use lab_core::interrupt::Stop;
use lab_core::parallel;
use lab_core::presentation::{HowItWasDone, Presentation};
use lab_core::record::{Metric, World};
use lab_core::report::{Cost, Doubt, Finding, Section};
use lab_core::scenario::ScenarioFile;
use lab_core::verification::{Course, Request, RequestError, Setup, Verification};

use super::findings::{self, Limits};
use super::results::{Layout, Pattern, Results, Source};
use super::run::{Pace, Plan, run};
use super::scenario::{Bottleneck, Sanboot as Scenario};
use super::summary::{self, SHARED};
use super::survey::{FITTED_ON, PUBLISHED_SERVERS, Survey, layout_words, numbers_words, pattern_words};
use super::{Options, Sanboot, claims, figures, real, tables, write};
use lab_tools::predict::SAMPLES;

/// Share of the cache that may be pending before writes wait: what a cache is made with unless it is declared
/// otherwise.
const HIGH_WATERMARK: f64 = 0.70;

/// What was measured.
pub struct Recording {
    results: Results,
}

impl Verification for Sanboot {
    const NAME: &'static str = "sanboot";
    const QUESTION: &'static str = "How many servers boot and live from one array?";
    type Options = Options;
    type Scenario = Scenario;
    type Recording = Recording;

    fn load(request: &Request, own: &Options) -> Result<(Scenario, String)> {
        if own.world == World::Model && !request.targets.is_empty() {
            return Err(RequestError::Modelled.into());
        }
        if !request.targets.is_empty() && !own.layouts.is_empty() {
            bail!("--layouts are those of the laboratory's own array: leave out --layouts, or --target");
        }
        let scale = request.checked_scale()?;
        request.agreed_targets()?;
        let (scenario, text) = Scenario::load(request.scenario.as_deref())?;
        let scenario = match (own.world, own.quick) {
            (World::Real, quick) => scenario.real(quick, scale)?,
            (World::Model, true) => scenario.quick(),
            (World::Model, false) => scenario,
        };
        Ok((scenario, text))
    }

    fn play(setup: &Setup<'_, Self>, stop: &Stop) -> Result<Recording> {
        let (request, own, scenario) = (setup.request, setup.own, setup.scenario);
        let given = request.targets.iter().map(|text| Url::parse(text)).collect::<Result<Vec<Url>, _>>()?;
        let layouts = match (given.is_empty(), own.layouts.is_empty()) {
            (false, _) => vec![Layout::Given],
            (true, true) => Layout::MODELLED.to_vec(),
            (true, false) => own.layouts.clone(),
        };
        let plan = Plan { seed: request.seed, quick: own.quick, layouts, threads: parallel::cores() };
        let ran = match own.world {
            World::Model => run(scenario, &plan, stop)?,
            World::Real => real::run(scenario, &plan, &given, stop)?,
        };
        match own.world {
            // Of a point of a sweep nobody asks how fast it was.
            World::Model if parallel::is_within() => {}
            World::Model => console::note(&words(&ran.pace).to_string()),
            World::Real => {
                console::note(&format!("{} I/Os took {:.0} s", ran.pace.ios, ran.pace.wall.as_secs_f64()))
            }
        }
        Ok(Recording { results: ran.results })
    }

    fn course(setup: &Setup<'_, Self>, recording: &Recording) -> Course {
        let (own, results) = (setup.own, &recording.results);
        let scale = (own.world == World::Real).then_some(setup.request.scale).flatten();
        Course {
            world: own.world,
            quick: own.quick,
            scale,
            repeats: results.points.iter().map(|p| p.repeat + 1).max().unwrap_or(0) as usize,
            stopped: results.stopped,
            doubts: own_doubts(results),
        }
    }

    fn stated(scenario: &Scenario) -> &Claims {
        &scenario.claims
    }

    fn claims(_: &Setup<'_, Self>, recording: &Recording) -> Vec<Measure> {
        claims::measures(&Survey::new(&recording.results))
    }

    fn metrics(_: &Setup<'_, Self>, recording: &Recording) -> Vec<Metric> {
        recording.results.metrics()
    }

    fn present(setup: &Setup<'_, Self>, recording: &Recording, _: &[JudgedClaim]) -> Result<Presentation> {
        let survey = Survey::new(&recording.results);
        Ok(Presentation {
            title: setup.scenario.question.clone(),
            answer: summary::answer(&survey),
            figures: figures::figures(&survey),
            findings: findings_of(&survey, setup.scenario.bottleneck),
            sections: sections(&survey),
            tables: tables::tables(&survey),
            method: HowItWasDone {
                scenario_text: setup.text.into(),
                versions: vec![],
                modelled: modelled(&survey),
                real: what_was_real(&survey),
                calibrated: tables::inputs(&survey, Source::Calibrated),
                scale: Some(scale(&survey)),
            },
            files: write::files(&setup.request.out, &recording.results)?,
        })
    }
}

fn words(pace: &Pace) -> String {
    format!(
        "{} I/Os in {:.0} virtual seconds took {:.1} s: {:.0} I/Os per second of one core",
        pace.ios,
        pace.virtual_s,
        pace.wall.as_secs_f64(),
        pace.ios_per_s()
    )
}

fn own_doubts(results: &Results) -> Vec<Doubt> {
    let mut out = Vec::new();
    if results.stopped {
        out.push(Doubt::stopped("Only the points that were done are shown."));
    }
    let mut doubt = |text: String, effect: &str| out.push(Doubt::new(text, Some(effect.into())));
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
            "Intervals are those of the windows, which follow one another; predictions are fitted on points that were run once.",
        );
    }
    out
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

fn what_was_real(survey: &Survey<'_>) -> Vec<String> {
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
fn findings_of(survey: &Survey<'_>, bottleneck: Bottleneck) -> Vec<Finding> {
    let limits = Limits { high_watermark: Some(HIGH_WATERMARK), bottleneck };
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
                        first.evidence = format!("{}; {place}: {}", first.evidence, finding.evidence);
                        // Where it costs most.
                        let percent = |f: &Finding| f.cost.map_or(-1.0, Cost::percent);
                        if percent(&finding) > percent(first) {
                            first.cost = finding.cost;
                        }
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

fn sections(survey: &Survey<'_>) -> Vec<Section> {
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
        section("prediction", "Forecast for additional servers", prediction(survey), &["predicted_raid1x8", "predicted_raid5x4", "held_out_raid1x8", "held_out_raid5x4"], &["ends", "demands"]),
        section("boot", "Boot storms", boot_text(survey), &["boot"], &["boot"]),
        section(
            "takeover",
            "A controller is lost",
            takeover_text(survey),
            &["takeover", "takeover_alone"],
            &["takeover"],
        ),
        section("inputs", "Inputs", "Drive, outstanding I/Os and internal disk are not published: the orderings have to come out for all sensible choices.".into(), &[], &["conditions"]),
    ]
}

fn boot_text(survey: &Survey<'_>) -> String {
    match survey.results.storms.is_empty() {
        true => "Not run: boot storms need the model world and an array of the laboratory's own.".into(),
        false => "Servers are switched on at once. Each replays the boot of a recorded guest: every command follows the answer that it followed \
            there, after the time that the guest took. Servers go to the groups in turn. The cache is empty at first."
            .into(),
    }
}

fn takeover_text(survey: &Survey<'_>) -> String {
    match survey.results.takeovers.is_empty() {
        true => "Not run: it needs the model world and RAID1 × 8 of the laboratory's own array.".into(),
        false => "Each server has a system disk and a data disk, each kind on eight groups RAID1 at a controller of its own, and uses the path that \
            this reports as optimized. Then the controller of the one kind is lost under load, or two of its pools are moved. The other controller takes \
            over; its processor and its port have to carry all from then on. Every block is written with a content of its own, or one in eight \
            where servers write one after the other, and read again at the end."
            .into(),
    }
}

fn prediction(survey: &Survey<'_>) -> String {
    let mut text = format!(
        "Fitted on {} servers and held against all other numbers that were run. The demand of each resource is the slope of its utilisation over the \
         throughput; it is rejected where that is not linear. Servers keep their groups: with 5 servers on 4 groups two share one. The network \
         is solved exactly; the band is that of {SAMPLES} bootstrap samples over repeats and windows, widened by how far the model is off the points it was \
         fitted on.\n\nThe table says what ends each pattern, predicted from all points up to {PUBLISHED_SERVERS} servers: used now is what the resource \
         gives of all it can with {PUBLISHED_SERVERS} servers; headroom is how much more it could.",
        numbers_words(FITTED_ON)
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
