//! What was measured for the claims of the scenario.

mod hosts;
#[cfg(test)]
mod tests;

use super::extra::Extras;
use super::judge::{PhaseView, View, VmView};
use super::phases::{Form, host_of};
use super::reach::{Fit, Rates};
use super::scenario::Qos;
use lab_core::bound::Bound;
use lab_core::claim::{Measure, Outcome, Published};
use lab_core::stats::{self, Estimate};

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
        Form::Coordinated => "hosts with shares",
    }
}

/// Everything that the run tells.
pub(super) fn measures(qos: &Qos, views: &[View<'_>], extras: Option<&Extras>) -> Vec<Measure> {
    let io_bytes_per_s = qos.published.transfer.0 as f64 / qos.run.window.0.as_secs_f64();
    let mut out = Vec::new();
    for form in [Form::Array, Form::Coordinated] {
        out.extend(minimums(qos, views, form));
        out.extend(settled(views, form));
    }
    out.extend(uncoordinated(qos, views));
    out.extend(came_last(qos, views));
    out.extend(maximums(views));
    out.extend(sums(views, io_bytes_per_s));
    out.extend(infeasible(views, io_bytes_per_s));
    out.extend(events(views, qos.run.missed_percent));
    out.extend(hosts::measures(views, io_bytes_per_s));
    out.extend(extras.into_iter().flat_map(|extras| others(qos, extras)));
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
            if let Fit::OutOfReach(why) = &phase.fit {
                let least = phase.vms.iter().filter(|vm| vm.rates.minimum > 0.0);
                let least = least.map(|vm| vm.worst / vm.rates.minimum).fold(f64::INFINITY, f64::min);
                let measure = of_phase("minimum", exact(100.0 * least), view, phase).not_judged(why);
                out.push(measure.published(published(qos, view, phase)));
            }
            let Some(worst) = phase.worst_of_minimum() else { continue };
            let measure = of_phase("minimum", exact(100.0 * worst), view, phase);
            out.push(measure.note(promised(phase)).published(published(qos, view, phase)));
        }
    }
    out
}

/// What was promised to VMs with a minimum, and what they get.
fn promised(phase: &PhaseView) -> String {
    let with = || phase.vms.iter().filter(|vm| vm.rates.minimum > 0.0);
    let got: Vec<f64> = with().map(|vm| vm.mean / 1e6).collect();
    let ends = |minimums: (f64, f64), vm: &VmView| {
        (minimums.0.min(vm.rates.minimum / 1e6), minimums.1.max(vm.rates.minimum / 1e6))
    };
    let (least, most) = with().fold((f64::INFINITY, 0.0), ends);
    let (count, together) = (got.len(), got.iter().sum::<f64>());
    let each = together / count as f64;
    match got[..] {
        [own] => format!("promised {most:.2} MB/s, it gets {own:.2} on average"),
        _ if least < most => {
            format!("{count} VMs promised {least:.2} to {most:.2} MB/s get {together:.1} together")
        }
        _ => format!(
            "{count} VMs promised {most:.2} MB/s each get {each:.2} on average, {together:.1} together"
        ),
    }
}

/// The longest that minimums took after a change.
fn settled(views: &[View<'_>], form: Form) -> Option<Measure> {
    let own = phases(views, form).filter(|(_, p)| !p.has_fault);
    let all = own.filter_map(|(view, phase)| Some((view, phase, phase.settled_s()?)));
    let (view, phase, seconds) = all.max_by(|a, b| a.2.total_cmp(&b.2))?;
    let outcome = match seconds.is_finite() {
        true => exact(seconds),
        false => Outcome::Never("a minimum is not kept to the end of its phase".into()),
    };
    let measure = Measure::new("settle", outcome).at(form_words(form)).figure(figure_id(view));
    Some(measure.note(format!("the slowest of all: {}", place(view, phase))))
}

/// The failure of the published experiment.
fn uncoordinated(qos: &Qos, views: &[View<'_>]) -> Vec<Measure> {
    let mut out = Vec::new();
    for (view, phase) in phases(views, Form::Uncoordinated) {
        if !phase.has_minimum() || !phase.fits() {
            continue;
        }
        let promised = phase.vms.iter().map(|vm| vm.rates.minimum).sum::<f64>() / 1e6;
        let got = phase.vms.iter().filter(|vm| vm.rates.minimum > 0.0).map(|vm| vm.mean).sum::<f64>() / 1e6;
        let together = phase.together(|vm| phase.vms[vm].rates.minimum > 0.0).scaled(1e-4 / promised);
        let came = of_phase("uncoordinated", together.into(), view, phase);
        let note = format!("{promised:.1} MB/s were promised together, {got:.1} came");
        out.push(came.note(note).published(published(qos, view, phase)));
        let off = phase.off_even().map(|off| off.scaled(100.0));
        let even = of_phase("uncoordinated.even", off.into(), view, phase);
        out.push(match is_even_without_hosts(qos, view, phase) {
            true => even,
            false => even.not_judged(
                "an even part is left only where the VMs of a host have one policy, without a maximum, and a \
                 host's scheduler passes on all that they keep in flight",
            ),
        });
    }
    out
}

/// VMs that get minimums after others, where each host schedules by itself: what they have of theirs.
fn came_last(qos: &Qos, views: &[View<'_>]) -> Vec<Measure> {
    let mut out = Vec::new();
    for view in views.iter().filter(|view| view.course.form == Form::Uncoordinated) {
        let pairs = view.phases.iter().zip(view.phases.iter().skip(1));
        for (before, phase) in pairs.filter(|(before, _)| before.has_minimum()) {
            let both = before.vms.iter().zip(&phase.vms);
            let is_new = |before: &VmView, vm: &VmView| before.rates.minimum == 0.0 && vm.rates.minimum > 0.0;
            let own: Vec<usize> =
                both.enumerate().filter(|(_, (b, vm))| is_new(b, vm)).map(|(number, _)| number).collect();
            if own.is_empty() {
                continue;
            }
            let together = phase.together(|vm| own.contains(&vm));
            let promised: f64 = own.iter().map(|vm| phase.vms[*vm].rates.minimum).sum();
            let got = together.mean / own.len() as f64;
            let rest = (phase.sum - got * own.len() as f64) / (phase.vms.len() - own.len()).max(1) as f64;
            let note = format!(
                "{} VMs get {:.1} MB/s each on average and the others {:.1}: equal hosts that schedule by \
                 themselves give no reason for more",
                own.len(),
                got / 1e6,
                rest / 1e6
            );
            let share = together.scaled(100.0 / promised);
            let measure = of_phase("uncoordinated.last", share.into(), view, phase);
            out.push(measure.note(note).published(published(qos, view, phase)));
        }
    }
    out
}

/// Whether schedulers of the hosts have nothing to decide, so that an even part is what is left.
fn is_even_without_hosts(qos: &Qos, view: &View<'_>, phase: &PhaseView) -> bool {
    let hosts = qos.experiments.iter().find(|e| e.id == view.course.id).map_or(1, |e| e.hosts);
    let vms = phase.vms.len();
    let alike = |host: usize| {
        let own = (0..vms).filter(|vm| host_of(*vm, vms, hosts) == host).map(|vm| &phase.vms[vm].rates);
        let own: Vec<&Rates> = own.collect();
        let all: f64 = own.iter().map(|rates| rates.outstanding).sum();
        let same = |rates: &&Rates| {
            (rates.minimum, rates.weight, rates.outstanding)
                == (own[0].minimum, own[0].weight, own[0].outstanding)
        };
        own.iter().all(same) && all <= f64::from(qos.array.depth)
    };
    let unlimited = phase.vms.iter().all(|vm| vm.rates.maximum.is_infinite() && vm.rates.outstanding > 0.0);
    unlimited && (0..hosts).all(alike)
}

/// The phases of a form, with where they were seen.
fn phases<'a>(views: &'a [View<'a>], form: Form) -> impl Iterator<Item = (&'a View<'a>, &'a PhaseView)> {
    let own = views.iter().filter(move |view| view.course.form == form);
    own.flat_map(|view| view.phases.iter().map(move |phase| (view, phase)))
}

/// All phases with maximums, of a form.
fn maximums(views: &[View<'_>]) -> Vec<Measure> {
    let mut out = Vec::new();
    for form in [Form::Array, Form::Uncoordinated, Form::Coordinated] {
        let all = phases(views, form).filter_map(|(v, p)| Some((v, p, p.over_maximum()?)));
        let Some((view, phase, over)) = all.max_by(|a, b| a.2.total_cmp(&b.2)) else { continue };
        let measure = Measure::new("maximum", exact(over)).at(form_words(form)).figure(figure_id(view));
        let in_force = phases(views, form).any(|(_, phase)| phase.has_maximum_in_force());
        out.push(if in_force || over > 0.0 {
            measure.note(format!("the fullest of all: {}", place(view, phase)))
        } else {
            measure.not_judged("no VM has as much as its maximum by the formula: none is in force")
        });
    }
    out
}

/// Of the array's own scheduler: nothing is wasted, and rates are those of the formula.
fn sums(views: &[View<'_>], io_bytes_per_s: f64) -> Vec<Measure> {
    let mut out = Vec::new();
    let own = || phases(views, Form::Array);
    let least = own().min_by(|(_, a), (_, b)| a.of_can_do().mean.total_cmp(&b.of_can_do().mean));
    if let Some((view, phase)) = least {
        let (figure, place) = (figure_id(view), place(view, phase));
        // A phase that is surely short is not hidden by one that may be shorter.
        let of = |end: fn(&Estimate) -> f64| {
            own().map(|(_, phase)| end(&phase.of_can_do())).fold(f64::INFINITY, f64::min)
        };
        let least = Estimate { low: of(|e| e.low), mean: of(|e| e.mean), high: of(|e| e.high) };
        let note = format!(
            "{place}; its capacity is measured without scheduler, with as many concurrent I/Os as the load \
             offers and the minimums allow"
        );
        out.push(Measure::new("sum", least.scaled(100.0)).figure(figure).note(note));
    }
    let off = |(v, p): (&'_ View<'_>, &'_ PhaseView)| {
        Some(((figure_id(v), place(v, p)), p.off_expected(io_bytes_per_s)?))
    };
    let beyond = own().filter(|(_, p)| matches!(p.fit, Fit::OutOfReach(_))).count();
    let (mut places, off): (Vec<_>, Vec<Estimate>) = own().filter(|(_, p)| p.fits()).filter_map(off).unzip();
    if let Some((which, off)) = stats::farthest(&off, 0.0) {
        let (figure, place) = places.swap_remove(which);
        let beyond = match beyond {
            0 => String::new(),
            n => format!("; not in {n} phases with minimums that no scheduler can keep"),
        };
        let note = format!("every VM of every phase; {place}; beyond one I/O per window{beyond}");
        out.push(Measure::new("formula", off.scaled(100.0)).figure(figure).note(note));
    }
    out
}

fn infeasible(views: &[View<'_>], io_bytes_per_s: f64) -> Vec<Measure> {
    let mut out = Vec::new();
    for (view, phase) in phases(views, Form::Array).filter(|(_, phase)| phase.fit == Fit::Over) {
        let promised = phase.vms.iter().map(|vm| vm.rates.minimum).sum::<f64>() / 1e6;
        let note = format!(
            "{promised:.1} MB/s are promised, {:.1} are there; the array says that it gives {:.0} % of the minimums",
            phase.sum / 1e6,
            f64::from(phase.scale_permille) / 10.0
        );
        let off = phase.off_expected(io_bytes_per_s).map(|off| off.scaled(100.0));
        out.push(of_phase("infeasible", off.into(), view, phase).note(note));
    }
    out
}

/// An event reports every violated minimum.
fn events(views: &[View<'_>], missed_percent: f64) -> Vec<Measure> {
    let mut out = Vec::new();
    for form in [Form::Uncoordinated, Form::Array] {
        let own = views.iter().filter(|v| v.course.form == form && v.course.id == "minimums");
        let all = own.flat_map(|v| v.phases.iter().map(move |p| (v, p)));
        // A VM that misses two phases in a row is told of once.
        let first = all.into_iter().find(|(_, phase)| phase.missed(missed_percent).next().is_some());
        let Some((view, phase)) = first else { continue };
        let told: Vec<Option<f64>> = phase.missed(missed_percent).map(|vm| vm.told_s).collect();
        let untold = told.iter().filter(|told| told.is_none()).count();
        let last = match untold {
            0 => exact(told.iter().flatten().copied().fold(0.0, f64::max)),
            n if n == told.len() => Outcome::Never("no event came, though a minimum was missed".into()),
            n => Outcome::Never(format!(
                "no event came of {n} of {} VMs that missed their minimum",
                told.len()
            )),
        };
        out.push(of_phase("event", last, view, phase));
    }
    out
}

/// What the published experiment does not have.
fn others(qos: &Qos, extras: &Extras) -> Vec<Measure> {
    let mut out = Vec::new();
    if let Some(n) = extras.neighbour {
        let ms = |ns: f64| ns / 1e6;
        let note = format!(
            "alone at its share {:.1} ms, where it waits for its turn, too, and {:.1} ms at any rate; beside the neighbour {:.1} ms, an I/O of an idle array {:.1} ms; the neighbour has {:.0} I/Os per second",
            ms(n.alone_p99_ns.mean),
            ms(n.free_p99_ns),
            ms(n.beside_p99_ns.mean),
            ms(n.service_ns as f64),
            n.neighbour_iops
        );
        let above = Measure::new("neighbour", n.more_ns().scaled(1e-6));
        out.push(above.bound(Bound::at_most(ms(n.service_ns as f64))).note(note));
    }
    let held = |id: &str, value: Option<f64>| match value {
        Some(worst) => Measure::new(id, exact(100.0 * worst)),
        None => Measure::new(id, Outcome::NotMeasured(NO_MINIMUM.into())),
    };
    out.extend(extras.mixed.map(|worst| held("mixed", Some(worst))));
    if let Some(r) = extras.rebuild {
        let [before, after, rebuilt] = [r.before, r.after, r.rebuilt].map(|rate| rate / 1e6);
        let note = format!(
            "all together {before:.1} MB/s before and {after:.1} after; the rebuild reads and writes {rebuilt:.1} MB/s"
        );
        out.push(held("rebuild", r.worst).note(note));
        let load = Measure::new("rebuild.load", r.left.map(|left| left.scaled(100.0)));
        // Half of it, as large sequential I/Os.
        let is_small = qos.published.transfer.0 < SMALL_TRANSFER;
        out.push(if is_small { load.not_judged("a rebuild costs little where the VMs' I/Os are small: it moves as many bytes as half of them") } else { load });
    }
    if let Some((worst, changes)) = extras.changes {
        let note = format!("{changes} changes, each judged from 5 s after it on");
        out.push(held("changes", worst).note(note));
    }
    if let Some(t) = extras.thousand {
        let note = format!(
            "100 of them with one; with one I/O more, for a window has 30; the others between {:.0} and {:.0} % of an even part; {:.0} I/Os per second in all",
            100.0 * t.spread.0,
            100.0 * t.spread.1,
            t.iops
        );
        out.push(held("thousand", Some(t.worst)).note(note));
    }
    out
}

/// Of a run whose minimums turned out to be none that a scheduler can keep.
const NO_MINIMUM: &str = "no phase has minimums that a scheduler can keep with what the VMs have in flight";
/// Below this a rebuild that moves as many bytes as the VMs takes much less of the drives' time.
const SMALL_TRANSFER: u64 = 64 << 10;
