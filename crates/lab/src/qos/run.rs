//! The whole verification: capacity, every experiment in every form, what is beside them, and what is written.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::bed::{Bed, Shape};
use super::claims::{self, Judged};
use super::extra::{Extra, Extras, Found, Stand};
use super::judge::{self, Capacity, View};
use super::play::{self, Course, Script};
use super::results::{self, Results};
use super::scenario::{Experiment, Form, Qos};
use super::{figures, real, report};
use crate::vaai::Verdict;
use crate::verify::{Options, QosOptions, World};
use lab_core::interrupt::Stop;
use lab_core::machine::Watch;
use lab_core::parallel;
use lab_core::progress::Progress;
use lab_core::report::{Doubt, write_report, write_results};

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

/// A piece of the run that needs none of the others.
#[derive(Clone, Copy)]
enum Piece<'a> {
    Published(&'a Experiment, Form),
    Extra(Extra),
}

enum Done {
    Published(Course),
    Extra(Found),
}

impl<'a> Piece<'a> {
    fn all(qos: &'a Qos) -> Vec<Piece<'a>> {
        let forms = |experiment: &'a Experiment| {
            experiment.forms.iter().map(move |form| Piece::Published(experiment, *form))
        };
        qos.experiments.iter().flat_map(forms).chain(Extra::ALL.map(Piece::Extra)).collect()
    }

    fn words(self) -> String {
        match self {
            Piece::Published(experiment, form) => {
                format!("{}, {}", experiment.title, claims::form_words(form))
            }
            Piece::Extra(extra) => extra.words().into(),
        }
    }
}

/// Every piece on the next free core.
fn model(qos: &Qos, seed: u64, stop: &Stop) -> Result<Run> {
    let pieces = Piece::all(qos);
    let progress = Progress::new(pieces.len() as u64 + 1);
    progress.step("what the array can do");
    let bed = Bed::make(qos, Shape::published(qos), seed)?;
    let capacity = play::capacity(qos, &bed, CAPACITY_TIME, seed)?;
    let stand = Stand { qos, bed: &bed, capacity: &capacity, seed };
    let work = |index: usize, begins: &dyn Fn(String)| {
        begins(pieces[index].words());
        match pieces[index] {
            Piece::Published(experiment, form) => {
                stand.play(&bed, &Script::of(qos, experiment), form).map(Done::Published)
            }
            Piece::Extra(extra) => extra.run(&stand).map(Done::Extra),
        }
    };
    let done = parallel::run((pieces.len(), parallel::cores()), stop, work, |text| progress.step(&text))?;
    progress.end();
    let (mut courses, mut extras) = (Vec::new(), Extras::default());
    for (_, done) in done {
        match done {
            Done::Published(course) => courses.push(course),
            Done::Extra(found) => extras.add(found),
        }
    }
    Ok(Run { capacity, courses, extras: Some(extras), stopped: stop.is_asked() })
}

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
