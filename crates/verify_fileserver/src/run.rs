//! The verification as the laboratory runs it: modelled, or on this machine.

use anyhow::Result;
use lab_core::claim::{Claims, JudgedClaim, Measure};
use lab_core::interrupt::Stop;
use lab_core::parallel;
use lab_core::presentation::Presentation;
use lab_core::progress::Progress;
use lab_core::record::{Metric, World};
use lab_core::scenario::ScenarioFile;
use lab_core::verification::{Course, Request, RequestError, Setup, Verification};

use super::model::{self, Ran, Said};
use super::scenario::Fileserver as Scenario;
use super::{Fileserver, Options, beyond, claims, real, report, results, write_cache};

/// What was measured.
pub struct Recording(Where);

enum Where {
    /// In virtual time.
    Model(Modelled),
    /// On this machine.
    Real(real::Recording),
}

/// What was run in virtual time.
struct Modelled {
    ran: Ran,
    caches: Vec<write_cache::Outcome>,
}

impl Verification for Fileserver {
    const NAME: &'static str = "fileserver";
    const QUESTION: &'static str =
        "May file servers live on virtual disks that grow, on a pool that grows too?";
    type Options = Options;
    type Scenario = Scenario;
    type Recording = Recording;

    fn load(request: &Request, own: &Options) -> Result<(Scenario, String)> {
        if own.world == World::Model && own.directory.is_some() {
            return Err(RequestError::ModelledDirectory.into());
        }
        request.checked_scale()?;
        let (mut scenario, text) = Scenario::load(request.scenario.as_deref())?;
        if own.directory.is_some() {
            // Nothing is held against one directory.
            scenario.claims = Claims::default();
        }
        let is_quick = own.quick && own.world == World::Model;
        Ok((if is_quick { scenario.quick() } else { scenario }, text))
    }

    fn play(setup: &Setup<'_, Self>, stop: &Stop) -> Result<Recording> {
        if setup.own.world == World::Real {
            return Ok(Recording(Where::Real(real::play(setup, stop)?)));
        }
        let progress = Progress::new(model::runs(setup.scenario) as u64);
        let how = (setup.request.seed, parallel::cores());
        let ran = model::run(setup.scenario, how, stop, |said| match said {
            Said::Begins(text) => progress.step(&text),
            Said::Passed(text) => progress.note(&text),
        })?;
        let caches = write_cache::run(
            (&setup.scenario.write_cache, &setup.scenario.array.drive),
            how,
            stop,
            |begins| progress.note(&begins),
        )?;
        progress.end();
        Ok(Recording(Where::Model(Modelled { ran, caches })))
    }

    fn course(setup: &Setup<'_, Self>, recording: &Recording) -> Course {
        let quick = setup.own.quick;
        match &recording.0 {
            Where::Model(modelled) => Course {
                world: World::Model,
                quick,
                scale: None,
                repeats: 1,
                stopped: modelled.ran.stopped,
                doubts: report::doubts(&modelled.ran, quick),
            },
            Where::Real(recording) => recording.course(quick),
        }
    }

    fn stated(scenario: &Scenario) -> &Claims {
        &scenario.claims
    }

    fn claims(_: &Setup<'_, Self>, recording: &Recording) -> Vec<Measure> {
        match &recording.0 {
            Where::Model(modelled) => {
                let (ran, caches) = (&modelled.ran, &modelled.caches);
                let own = [claims::measures(ran), beyond::measures(ran)].concat();
                [own, write_cache::measures(caches)].concat()
            }
            Where::Real(recording) => recording.measures(),
        }
    }

    fn metrics(_: &Setup<'_, Self>, recording: &Recording) -> Vec<Metric> {
        match &recording.0 {
            Where::Model(modelled) => results::metrics(&modelled.ran),
            Where::Real(recording) => recording.metrics(),
        }
    }

    fn present(setup: &Setup<'_, Self>, recording: &Recording, _: &[JudgedClaim]) -> Result<Presentation> {
        match &recording.0 {
            Where::Model(modelled) => report::present(setup, &modelled.ran, &modelled.caches),
            Where::Real(recording) => real::present(setup, recording),
        }
    }
}
