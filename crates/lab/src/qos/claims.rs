//! What was published and what is promised, against what was seen.

use super::extra::Extras;
use super::judge::{PhaseView, View};
use super::scenario::Form;
use crate::sanboot::claims::Bound;
use crate::vaai::Verdict;
use lab_core::report::Claim;
use lab_core::stats::Estimate;

/// A claim that was judged.
pub(super) struct Judged {
    pub(super) name: String,
    pub(super) unit: &'static str,
    pub(super) published: Option<&'static str>,
    pub(super) bound: Bound,
    pub(super) value: Option<f64>,
    pub(super) verdict: Verdict,
    pub(super) figure: String,
    pub(super) note: Option<String>,
}

/// Held, in percent of the minimum: the worst of a hundred windows.
const HELD_PERCENT: f64 = 98.0;
/// Of what the array can do.
const SUM_PERCENT: f64 = 97.0;
/// Off the formula, in percent.
const FORMULA_PERCENT: f64 = 2.0;
/// Off an even part when hosts do not know of each other.
const EVEN_PERCENT: f64 = 5.0;
/// More is not left while a pair of five is read and filled: if it is, nothing is rebuilt, and that minimums are kept says little.
const REBUILDING_PERCENT: f64 = 85.0;
/// From a change to the event.
const EVENT_S: f64 = 60.0;

fn judged(
    name: String,
    unit: &'static str,
    published: Option<&'static str>,
    bound: Bound,
    value: Option<f64>,
    figure: String,
) -> Judged {
    let verdict = bound.judge(value.map(Estimate::exact).as_ref());
    Judged { name, unit, published, bound, value, verdict, figure, note: None }
}

/// Of a figure.
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

/// Everything, most important first.
pub(super) fn judge(views: &[View<'_>], extras: Option<&Extras>, io_bytes_per_s: f64) -> Vec<Judged> {
    let mut out = Vec::new();
    for form in [Form::Array, Form::Coordinated] {
        out.extend(minimums(views, form));
    }
    out.extend(uncoordinated(views));
    out.extend(maximums(views));
    out.extend(sums(views, io_bytes_per_s));
    out.extend(infeasible(views));
    out.extend(events(views));
    out.extend(extras.into_iter().flat_map(others));
    out
}

fn published(view: &View<'_>, phase: &PhaseView) -> Option<&'static str> {
    let most = phase.vms.iter().map(|vm| vm.rates.minimum).fold(0.0, f64::max);
    match view.course.id.as_str() {
        "single" => Some("24 MB/s each"),
        "minimums" if most < 20e6 => Some("80 MB/s expected, not reached"),
        "minimums" => Some("120 MB/s expected, not reached"),
        _ => None,
    }
}

/// Each phase with minimums that fit.
fn minimums(views: &[View<'_>], form: Form) -> Vec<Judged> {
    let mut out = Vec::new();
    // What failed in the published experiment first: its figure is the one on the first screen.
    let of_form = |view: &&View<'_>| view.course.form == form;
    let (cluster, others): (Vec<_>, Vec<_>) =
        views.iter().filter(of_form).partition(|view| view.course.id == "minimums");
    for view in cluster.into_iter().chain(others) {
        for phase in &view.phases {
            let Some(worst) = phase.worst_of_minimum() else { continue };
            let mut claim = judged(
                format!("Minimum, worst 5 s: {}", place(view, phase)),
                "% of it",
                published(view, phase),
                Bound::AtLeast(HELD_PERCENT),
                Some(100.0 * worst),
                figure_id(view),
            );
            let with: Vec<f64> =
                phase.vms.iter().filter(|vm| vm.rates.minimum > 0.0).map(|vm| vm.mean / 1e6).collect();
            let promised = phase.vms.iter().map(|vm| vm.rates.minimum).fold(0.0, f64::max) / 1e6;
            claim.note = Some(format!(
                "{} VMs promised {promised:.2} MB/s each get {:.2} on average, {:.1} together",
                with.len(),
                with.iter().sum::<f64>() / with.len() as f64,
                with.iter().sum::<f64>()
            ));
            out.push(claim);
        }
    }
    out
}

/// The failure of the published experiment.
fn uncoordinated(views: &[View<'_>]) -> Vec<Judged> {
    let mut out = Vec::new();
    let own = views.iter().filter(|v| v.course.form == Form::Uncoordinated);
    for (view, phase) in own.flat_map(|v| v.phases.iter().map(move |p| (v, p))) {
        if !phase.has_minimum() || !phase.feasible {
            continue;
        }
        let mut claim = judged(
            format!("Off an even part: {}", place(view, phase)),
            "%",
            Some("the minimum is not reached"),
            Bound::AtMost(EVEN_PERCENT),
            Some(100.0 * phase.off_even()),
            figure_id(view),
        );
        let promised = phase.vms.iter().map(|vm| vm.rates.minimum).sum::<f64>() / 1e6;
        let got = phase.vms.iter().filter(|vm| vm.rates.minimum > 0.0).map(|vm| vm.mean).sum::<f64>() / 1e6;
        claim.note = Some(format!("{promised:.1} MB/s were promised together, {got:.1} came"));
        out.push(claim);
    }
    out
}

/// All phases with maximums, of a form.
fn maximums(views: &[View<'_>]) -> Vec<Judged> {
    let mut out = Vec::new();
    for form in [Form::Array, Form::Uncoordinated, Form::Coordinated] {
        let own = views.iter().filter(|v| v.course.form == form);
        let all = own.flat_map(|v| v.phases.iter().filter_map(move |p| Some((v, p, p.over_maximum()?))));
        let Some((view, phase, over)) = all.max_by(|a, b| a.2.total_cmp(&b.2)) else { continue };
        let mut claim = judged(
            format!("Maximums, {}: over it in the fullest 5 s", form_words(form)),
            "I/Os",
            Some("8 and 4 MB/s held"),
            Bound::AtMost(1.0),
            Some(over),
            figure_id(view),
        );
        claim.note = Some(format!("the fullest of all: {}", place(view, phase)));
        out.push(claim);
    }
    out
}

/// Of the array's own scheduler: nothing is wasted, and rates are those of the formula.
fn sums(views: &[View<'_>], io_bytes_per_s: f64) -> Vec<Judged> {
    let own = || {
        let array = views.iter().filter(|v| v.course.form == Form::Array);
        array.flat_map(|v| v.phases.iter().map(move |p| (v, p)))
    };
    let mut out = Vec::new();
    let share = |(v, p): (&'_ View<'_>, &'_ PhaseView)| (figure_id(v), place(v, p), 100.0 * p.sum / p.can_do);
    let least = own().map(share).min_by(|a, b| a.2.total_cmp(&b.2));
    if let Some((figure, place, least)) = least {
        let name = "Sum of all VMs, of what the array can do, at its least";
        let mut claim = judged(name.into(), "%", None, Bound::AtLeast(SUM_PERCENT), Some(least), figure);
        claim.note = Some(format!(
            "{place}; what it can do is measured without scheduler, with as many writes at once as the load offers and the minimums allow"
        ));
        out.push(claim);
    }
    let judged_by_formula = own().filter(|(_, p)| {
        p.feasible && p.vms.iter().any(|vm| vm.rates.minimum > 0.0 || vm.rates.maximum.is_finite())
    });
    let off =
        judged_by_formula.map(|(v, p)| (figure_id(v), place(v, p), 100.0 * p.off_expected(io_bytes_per_s)));
    if let Some((figure, place, off)) = off.max_by(|a, b| a.2.total_cmp(&b.2)) {
        let name = "Rates against water-filling, the farthest VM";
        let mut claim = judged(name.into(), "%", None, Bound::AtMost(FORMULA_PERCENT), Some(off), figure);
        claim.note = Some(format!("{place}; beyond one I/O per window"));
        out.push(claim);
    }
    out
}

fn infeasible(views: &[View<'_>]) -> Vec<Judged> {
    let mut out = Vec::new();
    let own = views.iter().filter(|v| v.course.form == Form::Array);
    for (view, phase) in own.flat_map(|v| v.phases.iter().map(move |p| (v, p))) {
        if phase.feasible || !phase.has_minimum() {
            continue;
        }
        let mut claim = judged(
            format!("Minimums that do not fit, off an even scaling: {}", place(view, phase)),
            "%",
            None,
            Bound::AtMost(FORMULA_PERCENT),
            Some(100.0 * phase.off_even()),
            figure_id(view),
        );
        let promised = phase.vms.iter().map(|vm| vm.rates.minimum).sum::<f64>() / 1e6;
        claim.note = Some(format!(
            "{promised:.1} MB/s are promised, {:.1} are there; the array says that it gives {:.0} % of the minimums",
            phase.sum / 1e6,
            f64::from(phase.scale_permille) / 10.0
        ));
        out.push(claim);
    }
    out
}

/// Who misses a minimum is told of.
fn events(views: &[View<'_>]) -> Vec<Judged> {
    let mut out = Vec::new();
    for form in [Form::Uncoordinated, Form::Array] {
        let own = views.iter().filter(|v| v.course.form == form && v.course.id == "minimums");
        let missed = own.flat_map(|v| v.phases.iter().map(move |p| (v, p))).filter(|(_, p)| {
            p.vms.iter().any(|vm| vm.rates.minimum > 0.0 && vm.mean < 0.95 * vm.rates.minimum)
        });
        // A VM that misses two phases in a row is told of once.
        let Some((view, phase)) = missed.into_iter().next() else { continue };
        out.push(judged(
            format!("Event after the change: {}", place(view, phase)),
            "s",
            Some("about 60 s"),
            Bound::AtMost(EVENT_S),
            Some(phase.told.map_or(f64::INFINITY, |(_, last)| last)),
            figure_id(view),
        ));
    }
    out
}

/// What the published experiment does not have.
fn others(extras: &Extras) -> Vec<Judged> {
    let mut out = Vec::new();
    if let Some(n) = extras.neighbour {
        let ms = |ns: u64| ns as f64 / 1e6;
        let mut claim = judged(
            "Noisy neighbour (4 KiB, 64 outstanding): 99th percentile of the reserved LU above what it is alone".into(),
            "ms",
            None,
            Bound::AtMost(ms(n.service_ns)),
            Some(ms(n.beside_p99_ns) - ms(n.alone_p99_ns)),
            String::new(),
        );
        claim.note = Some(format!(
            "alone at its share {:.1} ms, beside the neighbour {:.1} ms, an I/O of an idle array {:.1} ms; the neighbour has {:.0} I/Os per second",
            ms(n.alone_p99_ns),
            ms(n.beside_p99_ns),
            ms(n.service_ns),
            n.neighbour_iops
        ));
        out.push(claim);
    }
    let held = |name: &str, value: Option<f64>, figure: &str, note: Option<String>| {
        let percent = value.map(|worst| 100.0 * worst);
        let bound = Bound::AtLeast(HELD_PERCENT);
        Judged { note, ..judged(name.into(), "% of it", None, bound, percent, figure.into()) }
    };
    out.push(held("Several sizes and depths: minimums, worst 5 s", extras.mixed, "mixed_array_model", None));
    let rebuild = extras
        .rebuild
        .map(|r| {
            let [before, after, rebuilt] = [r.before, r.after, r.rebuilt].map(|rate| rate / 1e6);
            format!("all together {before:.1} MB/s before and {after:.1} after; the rebuild reads and writes {rebuilt:.1} MB/s")
        });
    out.push(held(
        "A drive dies and its spare is filled: minimums, worst 5 s",
        extras.rebuild.map(|r| r.worst),
        "rebuild_array_model",
        rebuild,
    ));
    out.push(judged(
        "A drive dies and its spare is filled: what that leaves all VMs together".into(),
        "% of before",
        None,
        Bound::AtMost(REBUILDING_PERCENT),
        extras.rebuild.map(|r| 100.0 * r.after / r.before),
        "rebuild_array_model".into(),
    ));
    let changes =
        extras.changes.map(|(_, changes)| format!("{changes} changes, each judged from 5 s after it on"));
    out.push(held(
        "Policies change under load: minimums, worst 5 s",
        extras.changes.map(|(worst, _)| worst),
        "changes_array_model",
        changes,
    ));
    let thousand = extras.thousand.map(|t| {
        format!(
            "100 of them with one; with one I/O more, for a window has 30; the others between {:.0} and {:.0} % of an even part; {:.0} I/Os per second in all",
            100.0 * t.spread.0,
            100.0 * t.spread.1,
            t.iops
        )
    });
    out.push(held("1,000 LUs: minimums, worst 5 s", extras.thousand.map(|t| t.worst), "", thousand));
    out
}

/// For the report.
pub(super) fn claims(judged: &[Judged]) -> Vec<Claim> {
    let claim = |j: &Judged| Claim {
        name: j.name.clone(),
        unit: j.unit.into(),
        published: j.published.map(Into::into),
        expected: Some(j.bound.words(j.unit)),
        measured: j.value.filter(|value| value.is_finite()),
        low: None,
        high: None,
        verdict: j.verdict.words(),
        figure: (!j.figure.is_empty()).then(|| j.figure.clone()),
        note: j.note.clone(),
    };
    judged.iter().map(claim).collect()
}
