//! The whole verification: capacity, every experiment in every form, what is beside them, and what is written.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::bed::{Bed, Shape};
use super::claims::{self, Judged};
use super::extra::{self, Extras};
use super::judge::{self, Capacity, View};
use super::play::{self, Course, Script};
use super::results::{self, Results};
use super::scenario::Qos;
use super::{figures, real, report};
use crate::interrupt::Stop;
use crate::machine::Watch;
use crate::progress::Progress;
use crate::report::{Doubt, write_report, write_results};
use crate::vaai::Verdict;
use crate::verify::{Options, QosOptions, World};

/// Everything that was measured.
pub(super) struct Run {
    pub(super) capacity: Capacity,
    pub(super) courses: Vec<Course>,
    pub(super) extras: Option<Extras>,
    pub(super) stopped: bool,
}

/// Of each number of VMs.
pub(super) const CAPACITY_TIME: Duration = Duration::from_secs(60);

/// Runs the verification and writes what it found. Gives whether every check held.
pub(crate) fn verify(options: &Options, own: &QosOptions) -> Result<bool> {
    let (qos, text) = Qos::load(options.scenario.as_deref())?;
    let qos = match (own.world, own.quick) {
        (World::Real, _) => qos.real(),
        (World::Model, true) => qos.quick(),
        (World::Model, false) => qos,
    };
    let stop = Stop::on_signals()?;
    let (watch, from) = (Watch::start(), Instant::now());
    let run = match own.world {
        World::Model => model(&qos, options.seed, &stop)?,
        World::Real => real::run(&qos, options.seed, &stop)?,
    };
    let (machine, contaminated) = watch.end();
    let all = run.courses.iter().chain(run.extras.iter().flat_map(|extras| &extras.courses));
    let views: Vec<View<'_>> = all.map(|course| judge::view(&qos, &run.capacity, course)).collect();
    let published = &views[..run.courses.len()];
    let io_bytes_per_s = qos.published.transfer.0 as f64 / qos.run.window.0.as_secs_f64();
    let judged = claims::judge(published, run.extras.as_ref(), io_bytes_per_s);
    let doubts = doubts(&run, own, contaminated);
    write_results(&options.out, &Results::of(&qos, own, options.seed, &run.capacity, &views, &judged))?;
    let rows = write_series(&options.out, &views)?;
    let finished = report::Finished {
        options,
        own,
        qos: &qos,
        text: &text,
        machine,
        doubts: &doubts,
        capacity: &run.capacity,
        views: &views,
        judged: &judged,
        figures: figures::figures(&views, &run.capacity),
        rows,
    };
    write_report(&options.out, &report::compose(&finished))?;
    report::print(&finished);
    println!("took {:.0} s", from.elapsed().as_secs_f64());
    Ok(verdict(&judged, run.stopped) == "pass")
}

/// One claim that does not hold fails; a run that was cut short is in doubt.
pub(super) fn verdict(judged: &[Judged], stopped: bool) -> &'static str {
    let has = |verdict: Verdict| judged.iter().any(|j| j.verdict == verdict);
    if has(Verdict::NotHeld) {
        "fail"
    } else if stopped || !has(Verdict::Held) {
        "doubt"
    } else {
        "pass"
    }
}

fn model(qos: &Qos, seed: u64, stop: &Stop) -> Result<Run> {
    let forms: usize = qos.experiments.iter().map(|experiment| experiment.forms.len()).sum();
    let progress = Progress::new(forms as u64 + EXTRAS + 1);
    progress.step("what the array can do");
    let bed = Bed::make(qos, Shape::published(qos), seed)?;
    let capacity = play::capacity(qos, &bed, CAPACITY_TIME, seed)?;
    let mut courses = Vec::new();
    for experiment in &qos.experiments {
        let script = Script::of(qos, experiment);
        for form in &experiment.forms {
            if stop.is_asked() {
                continue;
            }
            progress.step(&format!("{}, {}", experiment.title, claims::form_words(*form)));
            courses.push(play::model(qos, &bed, &script, *form, &capacity, seed)?);
        }
    }
    let extras = match stop.is_asked() {
        true => None,
        false => Some(extra::run(qos, &bed, &capacity, seed, &|text| progress.step(text))?),
    };
    progress.end();
    Ok(Run { capacity, courses, extras, stopped: stop.is_asked() })
}

/// Runs of [`extra::run`].
const EXTRAS: u64 = 5;

fn doubts(run: &Run, own: &QosOptions, contaminated: Vec<Doubt>) -> Vec<Doubt> {
    // Virtual time does not see what others did with the machine.
    let mut out = if own.world == World::Real { contaminated } else { vec![] };
    if run.stopped {
        out.push(Doubt {
            text: "The run was stopped before its end.".into(),
            effect: Some("Only what was done is shown.".into()),
        });
    }
    if own.quick && own.world == World::Model {
        out.push(Doubt {
            text: "The quick form: phases of half a minute.".into(),
            effect: Some("The worst of a hundred windows is that of fewer windows.".into()),
        });
    }
    out
}

/// The throughput of every VM, second by second; gives the rows.
fn write_series(out: &Path, views: &[View<'_>]) -> Result<usize> {
    let path = out.join("throughput.csv");
    std::fs::write(&path, results::series_csv(views)).with_context(|| path.display().to_string())?;
    Ok(views.iter().map(|view| results::seconds(view) * view.course.done.len()).sum())
}
