//! The verification as the laboratory runs it, and what it shows.

use anyhow::{Result, ensure};
use lab_core::claim::{Claims, JudgedClaim, Measure};
use lab_core::interrupt::Stop;
use lab_core::presentation::{HowItWasDone, Presentation};
use lab_core::record::{Metric, World};
use lab_core::report::{Doubt, Version};
use lab_core::scenario::ScenarioFile;
use lab_core::verification::{Course, Request, RequestError, Setup, Verification};

use super::measures::measures;
use super::recording::{Judgement, Recording};
use super::samples::write_samples;
use super::scenario::Vaai as Scenario;
use super::{Options, Vaai, figures, model, run, tables, words};

impl Verification for Vaai {
    const NAME: &'static str = "vaai";
    const QUESTION: &'static str = "What do the storage offloads save?";
    type Options = Options;
    type Scenario = Scenario;
    type Recording = Recording;

    fn load(request: &Request, own: &Options) -> Result<(Scenario, String)> {
        let (mut scenario, text) = Scenario::load(request.scenario.as_deref())?;
        ensure!(own.world == World::Real || request.targets.is_empty(), RequestError::Modelled);
        if let Some(scale) = request.checked_scale()? {
            ensure!(own.world == World::Real, "--scale requires --world real: the model runs at full size");
            scenario.run.scale = scale;
        }
        match (1..=1000).contains(&request.repeats) {
            true => Ok((scenario, text)),
            false => Err(RequestError::Repeats(request.repeats).into()),
        }
    }

    fn play(setup: &Setup<'_, Self>, stop: &Stop) -> Result<Recording> {
        let (vaai, request, own) = (setup.scenario, setup.request, setup.own);
        match own.world {
            World::Model => model::run(vaai, request, own, stop),
            World::Real => run::run(vaai, request, own, stop),
        }
    }

    fn course(setup: &Setup<'_, Self>, recording: &Recording) -> Course {
        Course {
            world: setup.own.world,
            quick: setup.own.quick,
            scale: (setup.own.world == World::Real).then_some(setup.scenario.run.scale),
            repeats: recording.record.repeats,
            stopped: recording.stopped,
            doubts: own_doubts(recording, setup.request.repeats),
        }
    }

    fn stated(scenario: &Scenario) -> &Claims {
        &scenario.claims
    }

    fn claims(setup: &Setup<'_, Self>, recording: &Recording) -> Vec<Measure> {
        measures(setup.scenario, &recording.record, &recording.faults)
    }

    fn metrics(_: &Setup<'_, Self>, recording: &Recording) -> Vec<Metric> {
        recording.record.metrics()
    }

    fn present(
        setup: &Setup<'_, Self>,
        recording: &Recording,
        claims: &[JudgedClaim],
    ) -> Result<Presentation> {
        let judgement = Judgement { vaai: setup.scenario, run: recording, claims };
        Ok(Presentation {
            title: setup.scenario.question.clone(),
            answer: words::answer(&judgement),
            figures: figures::figures(&judgement),
            findings: words::findings(&judgement),
            tables: tables::tables(&judgement),
            sections: words::sections(&judgement),
            method: HowItWasDone {
                scenario_text: setup.text.into(),
                versions: vec![Version { name: "under test".into(), version: recording.product.clone() }],
                modelled: words::modelled(&judgement),
                real: words::real(&judgement),
                calibrated: words::calibrated(&judgement),
                scale: words::scale(&judgement),
            },
            files: write_samples((&setup.request.out, &recording.record))?,
        })
    }
}

fn own_doubts(recording: &Recording, wanted: usize) -> Vec<Doubt> {
    let mut out = Vec::new();
    let repeats = recording.record.repeats;
    if recording.stopped {
        let effect = match recording.is_model {
            true => "Only the operations that had ended are shown.".to_owned(),
            false => format!("Only the {repeats} whole repeats before are shown, of {wanted}."),
        };
        out.push(Doubt::stopped(effect));
    }
    if !recording.is_model && (1..3).contains(&repeats) {
        let text = match repeats {
            1 => "One repeat has no interval: its value alone decided.".to_owned(),
            n => format!("{n} repeats are too few for a meaningful interval (3 or more)."),
        };
        out.push(Doubt::new(text, Some("Verdicts may change from run to run.".into())));
    }
    out.extend(
        recording
            .faults
            .owners
            .iter()
            .chain(&recording.faults.daily)
            .take(3)
            .map(|owner| Doubt::new(format!("Wrong: {owner}."), None)),
    );
    out
}
