//! The figure of a run with several nodes: what each policy has in sum, and each node, over time.

use lab_core::report::{Axis, Figure, Panel, Series, Span};

use super::bed::{Class, VMS, place_of};
use super::claims::title;
use super::judge::{Minimum, PhaseView, View};
use super::play::Course;
use crate::vm::Done;

/// Throughput is drawn over this time.
const BIN_NS: u64 = 2_000_000_000;
const SECOND_NS: f64 = 1e9;
/// Lines of the panel of nodes, told apart.
const COLORS: [&str; 5] = ["blue", "orange", "green", "purple", "sky"];

pub(super) fn figure_id(course: &Course) -> String {
    let world = if course.is_real { "_real" } else { "" };
    format!("array_nodes_{}{world}", course.nodes)
}

/// One of each run.
pub(crate) fn figures(courses: &[(&Course, &View)]) -> Vec<Figure> {
    courses.iter().map(|(course, view)| timeline(course, view)).collect()
}

fn timeline(course: &Course, view: &View) -> Figure {
    let end_ns = course.phases.last().map_or(0, |phase| phase.to_ns);
    let of = |which: &dyn Fn(usize) -> bool| {
        let own = course.done.iter().enumerate().filter(|(vm, _)| which(*vm)).map(|(_, done)| done);
        line(own, end_ns)
    };
    let mut series = Vec::new();
    let mut add = |name: String, color, points: Vec<Vec<f64>>, panel: &str| {
        series.push(Series { name, color, points, panel: Some(panel.into()) });
    };
    let gold: Vec<Option<f64>> =
        view.phases.iter().map(|phase| phase.gold.map(|gold| gold.promised)).collect();
    let bronze: Vec<Option<f64>> = view.phases.iter().map(|phase| phase.bronze).collect();
    for (class, panel, limit, limits) in
        [(Class::Gold, "gold", "minimum", &gold), (Class::Bronze, "bronze", "maximum", &bronze)]
    {
        add("throughput".into(), "blue", of(&|vm| place_of(vm).0 == class), panel);
        add(
            limit.into(),
            if limit == "minimum" { "vermillion" } else { "grey" },
            levels(view, limits),
            panel,
        );
    }
    for node in 0..course.nodes {
        let name = format!("n{}", node + 1);
        add(name, COLORS[node % COLORS.len()], of(&|vm| vm / VMS.len() == node), "nodes");
    }
    let axis = |label: &str| Axis { label: label.into(), unit: "MB/s".into(), log: false };
    let panel =
        |id: &str, title: &str| Panel { id: id.into(), title: title.into(), y: Some(axis("throughput")) };
    Figure {
        id: figure_id(course),
        title: headline(course, view),
        subtitle: Some(format!(
            "{}: throughput over 2 s each, of the VMs of each aggregated policy in sum and of the VMs of each node",
            title(course)
        )),
        kind: "timeline",
        x: Axis { label: "time".into(), unit: "s".into(), log: false },
        y: axis("throughput"),
        series,
        phases: view.phases.iter().flat_map(spans).collect(),
        panels: vec![
            panel("gold", "Aggregated minimum"),
            panel("bronze", "Aggregated maximum"),
            panel("nodes", "Nodes"),
        ],
        note: Some("Judged is each phase from 5 s after its beginning, or after the take-over, on.".into()),
        ..Figure::default()
    }
}

/// A phase, or the two parts of one: while a node is lost, and from when its controller runs again.
fn spans(phase: &PhaseView) -> Vec<Span> {
    let span = |name: &str, from: f64, to: f64| Span { name: name.into(), from, to };
    match phase.taken_over_s {
        Some(after) if after > 1.0 => {
            let again = phase.from_s + after;
            vec![span(&phase.name, phase.from_s, again), span("taken over", again, phase.to_s)]
        }
        _ => vec![span(&phase.name, phase.from_s, phase.to_s)],
    }
}

/// What each run found, in one line.
pub(crate) fn headlines(courses: &[(&Course, &View)]) -> Vec<String> {
    courses.iter().map(|(course, view)| headline(course, view)).collect()
}

/// What was found, in one line.
fn headline(course: &Course, view: &View) -> String {
    let own = view.phases.iter().filter(|phase| phase.fits).filter_map(|phase| phase.gold.as_ref());
    let worst = own.map(Minimum::share).min_by(f64::total_cmp);
    match worst {
        None => format!("{}: no minimum", title(course)),
        Some(share) => format!(
            "{}: the aggregated minimum has {:.1} % of it in the worst 5 s, a lost node included",
            title(course),
            100.0 * share
        ),
    }
}

/// Bytes that ended in each bin, in MB/s.
fn line<'a>(all: impl Iterator<Item = &'a Vec<Done>>, end_ns: u64) -> Vec<Vec<f64>> {
    let mut bins = vec![0u64; (end_ns / BIN_NS) as usize];
    for done in all.flatten() {
        if let Some(bin) = bins.get_mut((done.at_ns / BIN_NS) as usize) {
            *bin += done.bytes;
        }
    }
    let point = |(bin, bytes): (usize, &u64)| {
        let middle = (bin as f64 + 0.5) * BIN_NS as f64 / SECOND_NS;
        vec![middle, *bytes as f64 * SECOND_NS / BIN_NS as f64 / 1e6]
    };
    bins.iter().enumerate().map(point).collect()
}

/// A limit: level in a phase, a gap where there is none.
fn levels(view: &View, limits: &[Option<f64>]) -> Vec<Vec<f64>> {
    let mut points = Vec::new();
    for (phase, limit) in view.phases.iter().zip(limits) {
        let level = limit.map_or(f64::NAN, |limit| limit / 1e6);
        points.extend([vec![phase.from_s, level], vec![phase.to_s - 0.001, level]]);
        points.push(vec![phase.to_s, f64::NAN]);
    }
    points
}
