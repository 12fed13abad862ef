//! What a verification is, and the one way to run it: play, judge, write, print.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;

use crate::claim::{Claims, Disturbed, JudgedClaim, Measure};
use crate::command_line::without_secret;
use crate::console;
use crate::inputs::{Input, inputs};
use crate::interrupt::Stop;
use crate::machine::{Disturbances, Watch, now_rfc3339};
use crate::outputs;
use crate::presentation::{self, HowItWasDone, Presentation};
use crate::record::{Environment, Metric, RunRecord, RunVerdict, SCHEMA, World};
use crate::report::{Doubt, order_by_cost};
use crate::scenario::frame::Frame;
use crate::scope::Scope;
use crate::sweep::{self, sweep};
use crate::terminal;
use crate::verdict::{Standing, standing};

/// What the command line asks of any verification.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Another vendor's LUs; none for an array of the laboratory's own.
    pub targets: Vec<String>,
    /// Whether their content may be lost.
    pub destroy_data: bool,
    /// Share of the published sizes, instead of the scenario's.
    pub scale: Option<f64>,
    /// How often each measurement is repeated.
    pub repeats: usize,
    /// Random seed.
    pub seed: u64,
    /// Output folder.
    pub out: PathBuf,
    /// A scenario file instead of the built-in one.
    pub scenario: Option<PathBuf>,
    /// The folder of the files that the scenario names; `None`: its own.
    pub beside: Option<PathBuf>,
    /// The command as it was typed.
    pub command: String,
    /// The commit that this program was built from, where the build knows it.
    pub commit: Option<String>,
}

/// What a request cannot be.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// Data would be lost.
    #[error("refusing to overwrite {0}; pass --destroy-data to confirm")]
    WouldDestroy(String),
    /// It can be pointed at nothing there.
    #[error("--target requires --world real")]
    Modelled,
    /// So is a directory.
    #[error("--directory requires --world real")]
    ModelledDirectory,
    /// Invalid scale.
    #[error("invalid --scale {0}: must be in (0, 1] (0.02 is 2 GiB of the published 100)")]
    Scale(f64),
    /// Too few or too many.
    #[error("invalid --repeats {0}: must be in 1 to 1000")]
    Repeats(usize),
}

impl Request {
    /// The scale that was asked for.
    ///
    /// # Errors
    ///
    /// If it is not in (0, 1].
    pub fn checked_scale(&self) -> Result<Option<f64>, RequestError> {
        match self.scale {
            Some(scale) if !(scale > 0.0 && scale <= 1.0) => Err(RequestError::Scale(scale)),
            scale => Ok(scale),
        }
    }

    /// Another vendor's LUs.
    ///
    /// # Errors
    ///
    /// When nobody agreed that their content may be lost.
    pub fn agreed_targets(&self) -> Result<&[String], RequestError> {
        match self.destroy_data || self.targets.is_empty() {
            true => Ok(&self.targets),
            false => Err({
                let targets: Vec<String> = self.targets.iter().map(|url| without_secret(url)).collect();
                RequestError::WouldDestroy(targets.join(" and "))
            }),
        }
    }
}

/// A verification with its request.
pub struct Setup<'a, V: Verification + ?Sized> {
    /// What the command line asks of any verification.
    pub request: &'a Request,
    /// What it asks of this one.
    pub own: &'a V::Options,
    /// What is done, at which size, and the claims.
    pub scenario: &'a V::Scenario,
    /// The scenario file, whole.
    pub text: &'a str,
}

/// How a run went.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// Where. Virtual time does not see what others do with the machine.
    pub world: World,
    /// Whether it was the quick form.
    pub quick: bool,
    /// Share of the published sizes; none: at full size.
    pub scale: Option<f64>,
    /// Repeats that ended.
    pub repeats: usize,
    /// Whether the run was stopped before its end.
    pub stopped: bool,
    /// What makes it doubtful, besides others' use of the machine.
    pub doubts: Vec<Doubt>,
}

/// A verification: a question, and what answers it.
pub trait Verification {
    /// As the command line calls it; its scenario is `scenarios/NAME.toml`, its page `docs/verify_NAME.md`.
    const NAME: &'static str;
    /// The question.
    const QUESTION: &'static str;
    /// What the command line says of it besides; the points of a sweep share it.
    type Options: Sync;
    /// What is done.
    type Scenario;
    /// What was measured.
    type Recording;

    /// The scenario with its text, as the request and the options make it.
    ///
    /// # Errors
    ///
    /// When the scenario does not read, or asks for what cannot be.
    fn load(request: &Request, own: &Self::Options) -> Result<(Self::Scenario, String)>;

    /// Runs it. After a stop request, the measurements so far are kept.
    ///
    /// # Errors
    ///
    /// When it cannot be done at all.
    fn play(setup: &Setup<'_, Self>, stop: &Stop) -> Result<Self::Recording>;

    /// How it went.
    fn course(setup: &Setup<'_, Self>, recording: &Self::Recording) -> Course;

    /// The claims of a scenario.
    fn stated(scenario: &Self::Scenario) -> &Claims;

    /// What was measured for the claims.
    fn claims(setup: &Setup<'_, Self>, recording: &Self::Recording) -> Vec<Measure>;

    /// The inputs of the run: the values of its scenario, unless the run found others.
    fn inputs(setup: &Setup<'_, Self>, _recording: &Self::Recording) -> Vec<Input> {
        inputs(setup.text)
    }

    /// What was measured, for a machine.
    fn metrics(setup: &Setup<'_, Self>, recording: &Self::Recording) -> Vec<Metric>;

    /// What is shown besides. Writes the samples into the output folder.
    ///
    /// # Errors
    ///
    /// When the samples cannot be written.
    fn present(
        setup: &Setup<'_, Self>,
        recording: &Self::Recording,
        claims: &[JudgedClaim],
    ) -> Result<Presentation>;
}

/// The claims of a run, judged by what was measured; of one that was stopped before its end by what it has
/// so far.
fn judged(
    stated: &Claims,
    course: &Course,
    measures: Vec<Measure>,
    disturbed: impl Into<Disturbed>,
) -> Vec<JudgedClaim> {
    if !course.stopped {
        return stated.judge(course.world, &measures, disturbed);
    }
    let measures: Vec<Measure> = measures.into_iter().map(Measure::so_far).collect();
    stated.judge(course.world, &measures, disturbed).into_iter().map(JudgedClaim::so_far).collect()
}

/// What an answer begins with that says itself that it is one of a part.
const OF_A_PART: [&str; 2] = ["Nothing was measured", "The run was stopped"];

/// The answer of a run: of one that was stopped before its end it says so first, for the page, the index and
/// who quotes it have nothing else beside it.
fn answer(answer: &str, is_stopped: bool, claims: &[JudgedClaim]) -> String {
    if !is_stopped || OF_A_PART.iter().any(|begin| answer.starts_with(begin)) {
        return answer.to_owned();
    }
    match standing(claims, true) {
        Standing::InDoubt => {
            let rest = answer.strip_prefix("In doubt. ").unwrap_or(answer);
            format!("In doubt: the run was stopped before its end. {rest}")
        }
        _ => format!("The run was stopped before its end. {answer}"),
    }
}

/// A sweep besides a run.
#[derive(Clone, Copy, Debug)]
pub struct Sweep<'a, O> {
    /// Points over all ranges together.
    pub points: u32,
    /// The form of the verification that each point is run in.
    pub form: &'a O,
}

/// What a run can show: as its scenario says, and how it was done.
fn scope(text: &str, method: HowItWasDone) -> Result<Scope> {
    let Frame { source, published_figures, cannot_say, .. } = Frame::read(text, "the scenario")?;
    let HowItWasDone { modelled, real, scale, .. } = method;
    Ok(Scope { source, published_figures, modelled, real, scale, cannot_say })
}

/// Runs a verification, writes its folder and prints the answer.
///
/// # Errors
///
/// When it could not be done: exit status 2.
pub fn run<V: Verification>(request: &Request, own: &V::Options) -> Result<RunRecord> {
    run_and_sweep::<V>(request, own, None)
}

/// The same, and a sweep where one is asked for.
///
/// # Errors
///
/// When it could not be done: exit status 2.
pub fn run_and_sweep<V: Verification>(
    request: &Request,
    own: &V::Options,
    swept: Option<Sweep<'_, V::Options>>,
) -> Result<RunRecord> {
    let (scenario, text) = V::load(request, own)?;
    let setup = Setup::<V> { request, own, scenario: &scenario, text: &text };
    if let Some(Sweep { points, form }) = swept {
        sweep::check::<V>(request, form, points)?;
    }
    let _folder = outputs::folder(&request.out)?;
    let stop = Stop::on_signals()?;
    let (watch, from) = (Watch::start(), Instant::now());
    let recording = V::play(&setup, &stop)?;
    let (machine, disturbances) = watch.end();
    let course = V::course(&setup, &recording);
    let others = if course.world == World::Real { disturbances } else { Disturbances::default() };
    let measures = V::claims(&setup, &recording);
    let claims = judged(V::stated(&scenario), &course, measures, others.disturbed);
    let mut presentation = V::present(&setup, &recording, &claims)?;
    order_by_cost(&mut presentation.findings);
    let swept = match swept {
        Some(Sweep { points, form }) if !stop.is_asked() => {
            sweep::<V>(request, form, points, &stop).map(Some)
        }
        _ => Ok(None),
    };
    // What was measured is written, whatever became of the sweep.
    let (sweep, failed) = swept.map_or_else(|error| (None, Some(error)), |sweep| (sweep, None));
    let record = RunRecord {
        schema: SCHEMA,
        verification: V::NAME.into(),
        version: env!("CARGO_PKG_VERSION").into(),
        commit: request.commit.clone(),
        world: course.world,
        seed: request.seed,
        scale: course.scale,
        environment: Environment {
            generated: now_rfc3339(),
            command: request.command.clone(),
            quick: course.quick,
            stopped: course.stopped,
            repeats: course.repeats,
            machine,
            doubts: others.doubts.into_iter().chain(course.doubts).collect(),
        },
        inputs: V::inputs(&setup, &recording),
        metrics: V::metrics(&setup, &recording),
        verdict: RunVerdict::of(
            &claims,
            course.stopped,
            answer(&presentation.answer, course.stopped, &claims),
        ),
        claims,
        scope: Some(scope(&text, presentation.method.clone())?),
        sweep,
        digest: None,
    }
    .sealed();
    debug_assert_eq!(record.contradiction(), None, "a record that no command reads again");
    let written = presentation::write(&request.out, &record, &presentation);
    // What a full disk does not take is on the terminal at least.
    let answer = terminal::answer(&record, &presentation.findings, written.as_deref().ok());
    console::print(&format!("{answer}\ntook {:.0} s", from.elapsed().as_secs_f64()));
    if let Some(sweep) = &record.sweep {
        console::print(&format!("\n{}", sweep::terminal(sweep, &request.out)));
    }
    written?;
    failed.map_or(Ok(record), |error| Err(error.context("the sweep")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{ClaimSpec, Outcome};
    use crate::stats::Estimate;
    use crate::verdict::Verdict;

    /// One of ten repeats, stopped: "promises: 31 of 31 held" stood on its page and in the sum of the index.
    /// A rebuild that was under way when the run was stopped was not held: it might have ended in time.
    #[test]
    fn what_a_stopped_run_has_so_far_is_neither_held_nor_missed() {
        use Verdict::{Held, InDoubt, NotHeld, NotJudged, Undecided};
        let between = |low: f64, high: f64| Outcome::Estimate(Estimate { mean: low, low, high });
        let outcomes = [
            ("kept", between(1.0, 2.0), Held, InDoubt),
            ("missed", between(8.0, 9.0), NotHeld, NotHeld),
            ("across", between(4.0, 9.0), Undecided, Undecided),
            ("never", Outcome::Never("a group is not optimal".into()), NotHeld, NotJudged),
            ("refuted", Outcome::Refuted("3 I/Os failed".into()), NotHeld, NotHeld),
            ("none", None.into(), NotJudged, NotJudged),
        ];
        let spec = |id: &str| -> ClaimSpec {
            let rest = "about = \"promise\"\nkind = \"emerges\"\nsource = \"a test\"\nat_most = 5";
            toml::from_str(&format!("id = {id:?}\nname = {id:?}\n{rest}")).expect("a claim")
        };
        let stated: Claims = outcomes.iter().map(|(id, ..)| spec(id)).collect();
        let of = |stopped: bool| {
            let measures = outcomes.iter().map(|(id, outcome, ..)| Measure::new(id, outcome.clone()));
            judged(&stated, &Course { stopped, ..Course::default() }, measures.collect(), false)
        };
        let (whole, stopped) = (of(false), of(true));
        for (n, (id, _, at_the_end, so_far)) in outcomes.iter().enumerate() {
            assert_eq!((whole[n].verdict, stopped[n].verdict), (*at_the_end, *so_far), "{id}");
        }
        assert_eq!(stopped[0].reason.as_deref(), Some("the run was stopped before its end"));
        assert_eq!(
            stopped[3].reason.as_deref(),
            Some("the run was stopped before its end: a group is not optimal")
        );
        assert_eq!(stopped[4..], whole[4..], "what else became of a claim stays");
        let so_far = |of: &[JudgedClaim], said: &str| answer(said, true, of);
        assert_eq!(answer("5 % less.", false, &whole), "5 % less.");
        let doubtful = &stopped[..1];
        // `masu verify vaai` said of a stopped run what it says of a whole one.
        for said in ["5 % less.", "In doubt. 5 % less."] {
            assert_eq!(so_far(doubtful, said), "In doubt: the run was stopped before its end. 5 % less.");
        }
        assert_eq!(so_far(&stopped, "No. 9 s."), "The run was stopped before its end. No. 9 s.");
        assert_eq!(so_far(doubtful, "Nothing was measured."), "Nothing was measured.");
        let verdict = RunVerdict::of(&stopped, true, String::new());
        assert_eq!(verdict.tally.promises.held, 0);
        assert_eq!(
            verdict.tally.words(),
            "promises: 0 of 4 held, 2 not held, 1 undecided, 1 in doubt; 2 not judged"
        );
    }
}
