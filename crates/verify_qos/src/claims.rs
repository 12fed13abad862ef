//! What was measured for the claims of the scenario.

use super::extra::Extras;
use super::judge::{PhaseView, View};
use super::scenario::{Form, Qos};
use lab_core::bound::Bound;
use lab_core::claim::{Measure, Outcome, Published};
use lab_core::stats::Estimate;

pub(super) fn figure_id(view: &View<'_>) -> String {
    format!("{}_{}_{}", view.course.id, view.course.form.name(), view.course.world)
}

/// "Cluster, minimums; the array schedules; VM01-05 min 2000".
fn place(view: &View<'_>, phase: &PhaseView) -> String {
    let world = if view.course.world == "real" { ", over iSCSI" } else { "" };
    format!("{}, {}{world}, {}", view.course.title, form_words(view.course.form), phase.name)
}

/// Who schedules, in words.
pub(super) fn form_words(form: Form) -> &'static str {
    match form {
        Form::Uncoordinated => "each host by itself",
        Form::Array => "the array schedules",
        Form::Coordinated => "nodes with shares",
    }
}

/// Everything that the run tells.
pub(super) fn measures(qos: &Qos, views: &[View<'_>], extras: Option<&Extras>) -> Vec<Measure> {
    let io_bytes_per_s = qos.published.transfer.0 as f64 / qos.run.window.0.as_secs_f64();
    let mut out = Vec::new();
    for form in [Form::Array, Form::Coordinated] {
        out.extend(minimums(qos, views, form));
    }
    out.extend(uncoordinated(views));
    out.extend(maximums(views));
    out.extend(sums(views, io_bytes_per_s));
    out.extend(infeasible(views));
    out.extend(events(views, qos.run.missed_percent));
    out.extend(extras.into_iter().flat_map(others));
    out
}

fn exact(value: f64) -> Outcome {
    Estimate::exact(value).into()
}

/// The measure of a phase.
fn of_phase(id: &str, outcome: Outcome, view: &View<'_>, phase: &PhaseView) -> Measure {
    Measure::new(id, outcome).at(place(view, phase)).figure(figure_id(view))
}

fn published(qos: &Qos, view: &View<'_>, phase: &PhaseView) -> Option<Published> {
    let experiment = qos.experiments.iter().find(|e| e.id == view.course.id)?;
    let said = experiment.phases.iter().find(|p| p.name == phase.name)?.published.clone();
    said.map(Published::Words)
}

/// Each phase with minimums that fit.
fn minimums(qos: &Qos, views: &[View<'_>], form: Form) -> Vec<Measure> {
    let mut out = Vec::new();
    // What failed in the published experiment first: its figure is the one on the first screen.
    let of_form = |view: &&View<'_>| view.course.form == form;
    let (cluster, others): (Vec<_>, Vec<_>) =
        views.iter().filter(of_form).partition(|view| view.course.id == "minimums");
    for view in cluster.into_iter().chain(others) {
        for phase in &view.phases {
            let Some(worst) = phase.worst_of_minimum() else { continue };
            let with: Vec<f64> =
                phase.vms.iter().filter(|vm| vm.rates.minimum > 0.0).map(|vm| vm.mean / 1e6).collect();
            let promised = phase.vms.iter().map(|vm| vm.rates.minimum).fold(0.0, f64::max) / 1e6;
            let note = format!(
                "{} VMs promised {promised:.2} MB/s each get {:.2} on average, {:.1} together",
                with.len(),
                with.iter().sum::<f64>() / with.len() as f64,
                with.iter().sum::<f64>()
            );
            let measure = of_phase("minimum", exact(100.0 * worst), view, phase);
            out.push(measure.note(note).published(published(qos, view, phase)));
        }
    }
    out
}

/// The failure of the published experiment.
fn uncoordinated(views: &[View<'_>]) -> Vec<Measure> {
    let mut out = Vec::new();
    let own = views.iter().filter(|v| v.course.form == Form::Uncoordinated);
    for (view, phase) in own.flat_map(|v| v.phases.iter().map(move |p| (v, p))) {
        if !phase.has_minimum() || !phase.feasible {
            continue;
        }
        let promised = phase.vms.iter().map(|vm| vm.rates.minimum).sum::<f64>() / 1e6;
        let got = phase.vms.iter().filter(|vm| vm.rates.minimum > 0.0).map(|vm| vm.mean).sum::<f64>() / 1e6;
        let measure = of_phase("uncoordinated", exact(100.0 * phase.off_even()), view, phase);
        out.push(measure.note(format!("{promised:.1} MB/s were promised together, {got:.1} came")));
    }
    out
}

/// All phases with maximums, of a form.
fn maximums(views: &[View<'_>]) -> Vec<Measure> {
    let mut out = Vec::new();
    for form in [Form::Array, Form::Uncoordinated, Form::Coordinated] {
        let own = views.iter().filter(|v| v.course.form == form);
        let all = own.flat_map(|v| v.phases.iter().filter_map(move |p| Some((v, p, p.over_maximum()?))));
        let Some((view, phase, over)) = all.max_by(|a, b| a.2.total_cmp(&b.2)) else { continue };
        let measure = Measure::new("maximum", exact(over)).at(form_words(form)).figure(figure_id(view));
        out.push(measure.note(format!("the fullest of all: {}", place(view, phase))));
    }
    out
}

/// Of the array's own scheduler: nothing is wasted, and rates are those of the formula.
fn sums(views: &[View<'_>], io_bytes_per_s: f64) -> Vec<Measure> {
    let own = || {
        let array = views.iter().filter(|v| v.course.form == Form::Array);
        array.flat_map(|v| v.phases.iter().map(move |p| (v, p)))
    };
    let mut out = Vec::new();
    let share = |(v, p): (&'_ View<'_>, &'_ PhaseView)| (figure_id(v), place(v, p), 100.0 * p.sum / p.can_do);
    let least = own().map(share).min_by(|a, b| a.2.total_cmp(&b.2));
    if let Some((figure, place, least)) = least {
        let note = format!(
            "{place}; its capacity is measured without scheduler, with as many concurrent writes as the load \
             offers and the minimums allow"
        );
        out.push(Measure::new("sum", exact(least)).figure(figure).note(note));
    }
    let judged_by_formula = own().filter(|(_, p)| {
        p.feasible && p.vms.iter().any(|vm| vm.rates.minimum > 0.0 || vm.rates.maximum.is_finite())
    });
    let off =
        judged_by_formula.map(|(v, p)| (figure_id(v), place(v, p), 100.0 * p.off_expected(io_bytes_per_s)));
    if let Some((figure, place, off)) = off.max_by(|a, b| a.2.total_cmp(&b.2)) {
        let note = format!("{place}; beyond one I/O per window");
        out.push(Measure::new("formula", exact(off)).figure(figure).note(note));
    }
    out
}

fn infeasible(views: &[View<'_>]) -> Vec<Measure> {
    let mut out = Vec::new();
    let own = views.iter().filter(|v| v.course.form == Form::Array);
    for (view, phase) in own.flat_map(|v| v.phases.iter().map(move |p| (v, p))) {
        if phase.feasible || !phase.has_minimum() {
            continue;
        }
        let promised = phase.vms.iter().map(|vm| vm.rates.minimum).sum::<f64>() / 1e6;
        let note = format!(
            "{promised:.1} MB/s are promised, {:.1} are there; the array says that it gives {:.0} % of the minimums",
            phase.sum / 1e6,
            f64::from(phase.scale_permille) / 10.0
        );
        out.push(of_phase("infeasible", exact(100.0 * phase.off_even()), view, phase).note(note));
    }
    out
}

/// An event reports every violated minimum.
fn events(views: &[View<'_>], missed_percent: f64) -> Vec<Measure> {
    let mut out = Vec::new();
    for form in [Form::Uncoordinated, Form::Array] {
        let own = views.iter().filter(|v| v.course.form == form && v.course.id == "minimums");
        let missed = own.flat_map(|v| v.phases.iter().map(move |p| (v, p))).filter(|(_, p)| {
            p.vms
                .iter()
                .any(|vm| vm.rates.minimum > 0.0 && 100.0 * vm.mean < missed_percent * vm.rates.minimum)
        });
        // A VM that misses two phases in a row is told of once.
        let Some((view, phase)) = missed.into_iter().next() else { continue };
        let last = phase.told.map_or_else(
            || Outcome::Never("no event came, though a minimum was missed".into()),
            |(_, last)| exact(last),
        );
        out.push(of_phase("event", last, view, phase));
    }
    out
}

/// What the published experiment does not have.
fn others(extras: &Extras) -> Vec<Measure> {
    let mut out = Vec::new();
    if let Some(n) = extras.neighbour {
        let ms = |ns: u64| ns as f64 / 1e6;
        let note = format!(
            "alone at its share {:.1} ms, beside the neighbour {:.1} ms, an I/O of an idle array {:.1} ms; the neighbour has {:.0} I/Os per second",
            ms(n.alone_p99_ns),
            ms(n.beside_p99_ns),
            ms(n.service_ns),
            n.neighbour_iops
        );
        let above = Measure::new("neighbour", exact(ms(n.beside_p99_ns) - ms(n.alone_p99_ns)));
        out.push(above.bound(Bound::at_most(ms(n.service_ns))).note(note));
    }
    let held =
        |id: &str, value: Option<f64>| Measure::new(id, value.map(|worst| Estimate::exact(100.0 * worst)));
    out.push(held("mixed", extras.mixed));
    let rebuild = extras
        .rebuild
        .map(|r| {
            let [before, after, rebuilt] = [r.before, r.after, r.rebuilt].map(|rate| rate / 1e6);
            format!("all together {before:.1} MB/s before and {after:.1} after; the rebuild reads and writes {rebuilt:.1} MB/s")
        });
    out.push(held("rebuild", extras.rebuild.map(|r| r.worst)).note(rebuild));
    out.push(held("rebuild.load", extras.rebuild.map(|r| r.after / r.before)));
    let changes =
        extras.changes.map(|(_, changes)| format!("{changes} changes, each judged from 5 s after it on"));
    out.push(held("changes", extras.changes.map(|(worst, _)| worst)).note(changes));
    let thousand = extras.thousand.map(|t| {
        format!(
            "100 of them with one; with one I/O more, for a window has 30; the others between {:.0} and {:.0} % of an even part; {:.0} I/Os per second in all",
            100.0 * t.spread.0,
            100.0 * t.spread.1,
            t.iops
        )
    });
    out.push(held("thousand", extras.thousand.map(|t| t.worst)).note(thousand));
    out
}
