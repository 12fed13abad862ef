//! The whole run: capacity, every experiment in every form, and what is beside them.

use anyhow::Result;
use lab_core::interrupt::{Stop, unless_abandoned};
use lab_core::parallel;
use lab_core::progress::Progress;

use super::array_nodes;
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
    /// With several nodes.
    pub(super) nodes: Vec<array_nodes::Course>,
    pub(super) extras: Option<Extras>,
    pub(super) stopped: bool,
}

/// A piece of the run that needs none of the others.
#[derive(Clone, Copy)]
enum Piece<'a> {
    Published(&'a Experiment, Form),
    Extra(Extra),
    /// One array at so many nodes.
    Nodes(&'a array_nodes::ArrayNodes, usize),
}

enum Done {
    Published(Course),
    Extra(Found),
    Nodes(array_nodes::Course),
}

impl<'a> Piece<'a> {
    fn all(qos: &'a Qos) -> Vec<Piece<'a>> {
        let forms = |experiment: &'a Experiment| {
            experiment.forms.iter().map(move |form| Piece::Published(experiment, *form))
        };
        let nodes = qos
            .array_nodes
            .iter()
            .flat_map(|shape| shape.nodes.iter().map(move |nodes| Piece::Nodes(shape, *nodes)));
        qos.experiments
            .iter()
            .flat_map(forms)
            .chain(qos.run.beside.iter().copied().map(Piece::Extra))
            .chain(nodes)
            .collect()
    }

    fn words(self) -> String {
        match self {
            Piece::Published(experiment, form) => {
                format!("{}, {}", experiment.title, claims::form_words(form))
            }
            Piece::Extra(extra) => extra.words().into(),
            Piece::Nodes(_, nodes) => format!("one array at {nodes} nodes"),
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
            Piece::Published(experiment, form) => stand
                .play(&bed, &Script::of(qos, experiment, form, capacity.all()), form)
                .map(Done::Published),
            Piece::Extra(extra) => extra.run(&stand).map(Done::Extra),
            Piece::Nodes(shape, nodes) => array_nodes::play(qos, shape, nodes, (seed, stop)).map(Done::Nodes),
        })
    };
    let done = parallel::run((pieces.len(), parallel::cores()), stop, work, |text| progress.step(&text))?;
    progress.end();
    let (mut courses, mut nodes, mut extras) = (Vec::new(), Vec::new(), Extras::default());
    for done in done.into_iter().filter_map(|(_, done)| done) {
        match done {
            Done::Published(course) => courses.push(course),
            Done::Extra(found) => extras.add(found),
            Done::Nodes(course) => nodes.push(course),
        }
    }
    Ok(Run { capacity, courses, nodes, extras: Some(extras), stopped: stop.is_asked() })
}
