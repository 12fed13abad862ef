//! What was measured for the claims about several nodes.

use lab_core::claim::{Measure, Outcome};
use lab_core::stats::Estimate;

use super::figures::figure_id;
use super::judge::{Minimum, PhaseView, View};
use super::play::Course;

/// A run with so many nodes, and a phase of it.
#[derive(Clone, Copy)]
struct Seen<'a> {
    course: &'a Course,
    phase: &'a PhaseView,
}

impl Seen<'_> {
    fn place(&self) -> String {
        format!("{}, {}", title(self.course), self.phase.name)
    }

    fn measure(&self, id: &str, outcome: impl Into<Outcome>) -> Measure {
        Measure::new(id, outcome).at(self.place()).figure(figure_id(self.course))
    }
}

/// How a run with so many nodes is called.
pub(super) fn title(course: &Course) -> String {
    match course.is_real {
        true => format!("{} processes over iSCSI", course.nodes),
        false => format!("{} nodes", course.nodes),
    }
}

fn exact(value: f64) -> Outcome {
    Estimate::exact(value).into()
}

fn percent(share: f64) -> Outcome {
    exact(100.0 * share)
}

/// Everything that the runs tell.
pub(crate) fn measures(courses: &[(&Course, &View)]) -> Vec<Measure> {
    let mut out = Vec::new();
    for (course, view) in courses {
        let all = || view.phases.iter().map(|phase| Seen { course, phase });
        out.extend(all().filter(|seen| seen.phase.fits).flat_map(minimums));
        out.extend(settled(course, view));
        out.extend(view.over_ios.map(|over| {
            let measure = Measure::new("spread.maximum", exact(over)).at(title(course));
            measure.figure(figure_id(course))
        }));
        out.extend(formula(course, view));
        out.extend(all().filter(|seen| !seen.phase.fits).flat_map(infeasible));
        out.extend(floor(course, view));
        out.extend(sum(course, view));
    }
    out
}

fn said(minimum: &Minimum) -> String {
    format!("promised {:.2} MB/s, on average {:.2} came", minimum.promised / 1e6, minimum.mean / 1e6)
}

/// The minimums of a phase: of all nodes, while one is lost, and after it is taken over.
fn minimums(seen: Seen<'_>) -> Vec<Measure> {
    let PhaseView { gold, silver, is_lost, taken_over_s, .. } = seen.phase;
    let id = match (is_lost, taken_over_s) {
        (true, _) => "spread.lost",
        (false, Some(_)) => "spread.taken_over",
        (false, None) => "spread.minimum",
    };
    let both = [(gold, ""), (silver, " (dedicated)")];
    let all = both.into_iter().filter_map(|(minimum, kind)| Some((minimum.as_ref()?, kind)));
    all.map(|(minimum, kind)| {
        let place = format!("{}{kind}", seen.place());
        seen.measure(id, percent(minimum.share())).at(place).note(said(minimum))
    })
    .collect()
}

/// The longest that the aggregated minimum took after a change.
fn settled(course: &Course, view: &View) -> Option<Measure> {
    let own = view.phases.iter().filter(|phase| phase.fits);
    let all = own.filter_map(|phase| Some((phase, phase.gold.as_ref()?.settled_s)));
    let (phase, seconds) = all.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let outcome = match seconds.is_finite() {
        true => exact(seconds),
        false => Outcome::Never("the aggregated minimum is not kept to the end of its phase".into()),
    };
    let measure = Measure::new("spread.settle", outcome).at(title(course)).figure(figure_id(course));
    Some(measure.note(format!("the slowest of all: {}", phase.name)))
}

/// The VM with least of the closed formula, in phases whose minimums fit.
fn formula(course: &Course, view: &View) -> Option<Measure> {
    let own = view.phases.iter().filter(|phase| phase.fits && phase.has_policy());
    let phase = own.min_by(|a, b| a.least.total_cmp(&b.least))?;
    let measure = Measure::new("spread.formula", percent(phase.least)).at(title(course));
    Some(measure.figure(figure_id(course)).note(format!("the least of all: {}", phase.name)))
}

/// Minimums that do not fit: all scaled alike, and said.
fn infeasible(seen: Seen<'_>) -> Vec<Measure> {
    let Some(gold) = &seen.phase.gold else { return vec![] };
    let told = match seen.phase.said_s {
        Some(seconds) => exact(seconds),
        None => Outcome::Never("not all pools said that the minimum is violated".into()),
    };
    vec![
        seen.measure("spread.infeasible", percent(seen.phase.farthest)).note(said(gold)),
        seen.measure("spread.said", told),
    ]
}

/// The VM without a minimum with least of its part of the floor, in all phases with policies.
fn floor(course: &Course, view: &View) -> Option<Measure> {
    let own = view.phases.iter().filter(|phase| phase.has_policy());
    let phase = own.min_by(|a, b| a.floor.total_cmp(&b.floor))?;
    let measure = Measure::new("spread.floor", percent(phase.floor)).at(title(course));
    Some(measure.figure(figure_id(course)).note(format!("the least of all: {}", phase.name)))
}

/// What all VMs had together, at its least, of the phases in which all work and minimums fit.
fn sum(course: &Course, view: &View) -> Option<Measure> {
    let own = view.phases.iter().filter(|phase| phase.has_policy() && phase.fits);
    let all: Vec<(&PhaseView, Estimate)> = own.filter_map(|phase| Some((phase, phase.of_can_do?))).collect();
    let (phase, least) = all.iter().min_by(|a, b| a.1.mean.total_cmp(&b.1.mean))?;
    // A phase that is surely short is not hidden by one that may be shorter.
    let of =
        |end: fn(&Estimate) -> f64| all.iter().map(|(_, share)| end(share)).fold(f64::INFINITY, f64::min);
    let share = Estimate { low: of(|e| e.low), mean: least.mean, high: of(|e| e.high) };
    let measure = Measure::new("spread.sum", share.scaled(100.0)).at(title(course));
    let note = format!(
        "{}; a node does {:.1} MB/s without policies, with the VMs of the maximum idle",
        phase.name,
        course.node_can_do / 1e6
    );
    Some(measure.figure(figure_id(course)).note(note))
}
