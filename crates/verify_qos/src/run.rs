//! The whole run: capacity, every experiment in every form, and what is beside them.

use anyhow::Result;
use lab_core::interrupt::{Stop, unless_abandoned};
use lab_core::parallel;
use lab_core::progress::Progress;

use super::bed::{self, Shape};
use super::capacity::{self, Capacity};
use super::claims;
use super::extra::{Extras, Found, Stand};
use super::phases::{Experiment, Form};
use super::play::{Course, Script};
use super::scenario::{Extra, Qos};

/// Everything that was measured.
pub(super) struct Run {
    pub(super) capacity: Capacity,
    pub(super) courses: Vec<Course>,
    pub(super) extras: Option<Extras>,
    pub(super) stopped: bool,
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
        qos.experiments
            .iter()
            .flat_map(forms)
            .chain(qos.run.beside.iter().copied().map(Piece::Extra))
            .collect()
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
pub(super) fn model(qos: &Qos, seed: u64, stop: &Stop) -> Result<Run> {
    let pieces = Piece::all(qos);
    let progress = Progress::new(pieces.len() as u64 + 1);
    progress.step("what the array can do");
    let bed = bed::make(qos, Shape::published(qos), seed)?;
    let capacity = capacity::measure(qos, &bed, seed, stop)?;
    let stand = Stand { qos, bed: &bed, capacity: &capacity, seed, stop };
    let work = |index: usize, begins: &dyn Fn(String)| {
        begins(pieces[index].words());
        unless_abandoned(match pieces[index] {
            Piece::Published(experiment, form) => {
                stand.play(&bed, &Script::of(qos, experiment, capacity.all()), form).map(Done::Published)
            }
            Piece::Extra(extra) => extra.run(&stand).map(Done::Extra),
        })
    };
    let done = parallel::run((pieces.len(), parallel::cores()), stop, work, |text| progress.step(&text))?;
    progress.end();
    let (mut courses, mut extras) = (Vec::new(), Extras::default());
    for done in done.into_iter().filter_map(|(_, done)| done) {
        match done {
            Done::Published(course) => courses.push(course),
            Done::Extra(found) => extras.add(found),
        }
    }
    Ok(Run { capacity, courses, extras: Some(extras), stopped: stop.is_asked() })
}
