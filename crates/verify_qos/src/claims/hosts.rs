//! Hosts that agree on shares through a store, and maximums for all as the publication advises.

use super::{Measure, Outcome, exact, figure_id, of_phase, phases, place};
use crate::judge::{PhaseView, View};
use crate::phases::{Form, StoreState};
use crate::play::{Look, Played};
use crate::reach::{Fit, Short};
use lab_core::stats::Estimate;

/// The experiment of the publication's advice.
const ADVICE: &str = "advice";

pub(super) fn measures(views: &[View<'_>], io_bytes_per_s: f64) -> Vec<Measure> {
    let mut out = Vec::new();
    for view in views.iter().filter(|view| view.course.form == Form::Coordinated) {
        out.extend(least(view, io_bytes_per_s));
        for (phase, played) in view.phases.iter().zip(&view.course.phases) {
            out.extend(with_fault(view, phase, played, io_bytes_per_s));
        }
    }
    out.extend(advice(views));
    out
}

/// The VM that has least of what the formula gives it, in all phases without a fault.
fn least(view: &View<'_>, io_bytes_per_s: f64) -> Option<Measure> {
    let own = view.phases.iter().filter(|p| !p.has_fault && !matches!(p.fit, Fit::OutOfReach(_)));
    let all: Vec<_> = own.filter_map(|phase| Some((phase, phase.least_of_due(io_bytes_per_s)?))).collect();
    let (phase, least) = all.iter().min_by(|a, b| a.1.mean.total_cmp(&b.1.mean))?;
    // A phase that is surely short is not hidden by one that may be shorter.
    let of =
        |end: fn(&Estimate) -> f64| all.iter().map(|(_, share)| end(share)).fold(f64::INFINITY, f64::min);
    let share = Estimate { low: of(|e| e.low), mean: least.mean, high: of(|e| e.high) };
    let short = phase.short.map(short).unwrap_or_default();
    let note = format!(
        "phase {:?}; all together {:.1} MB/s, of {:.1} to {:.1} that the array can do in such a time; beyond \
         one I/O per window",
        phase.name,
        phase.sum / 1e6,
        phase.can_do_between.low / 1e6,
        phase.can_do_between.high / 1e6
    );
    let measure = Measure::new("nodes", share.scaled(100.0)).at(view.course.title.clone());
    Some(measure.figure(figure_id(view)).note(note + &short))
}

/// At what load the VMs' own requests are what limits them.
fn short(short: Short) -> String {
    format!(
        "; {} VMs have too few in flight for what their weights and minimums would give them: with {:.0} in \
         flight, beyond which the array does next to no more, an I/O brings {:.2} MB/s",
        short.vms,
        short.in_flight,
        short.each / 1e6
    )
}

/// The same in a phase in which hosts or the store are not there, and how long it took to notice.
fn with_fault(view: &View<'_>, phase: &PhaseView, played: &Played, io_bytes_per_s: f64) -> Vec<Measure> {
    let looks = || view.course.looks.iter().filter(|l| l.at_ns > played.from_ns && l.at_ns <= played.to_ns);
    let after = |look: &Look| (look.at_ns - played.from_ns) as f64 / 1e9;
    let noticed = |id: &str, is_so: &dyn Fn(&Look) -> bool, never: &str| {
        let last = looks().filter(|look| !is_so(look)).last().map_or(0.0, after);
        let first = looks().map(after).find(|at| *at > last);
        let outcome = first.map_or_else(|| Outcome::Never(never.into()), exact);
        of_phase(id, outcome, view, phase)
    };
    let gone = !played.nodes.killed.is_empty() || !played.nodes.hung.is_empty();
    let mut out = Vec::new();
    for (id, is_so) in [
        ("nodes.killed", !played.nodes.killed.is_empty()),
        ("nodes.hung", !played.nodes.hung.is_empty()),
        ("nodes.store", played.store == StoreState::Away),
    ] {
        if let Some(share) = phase.least_of_due(io_bytes_per_s).filter(|_| is_so) {
            let measure = of_phase(id, share.scaled(100.0).into(), view, phase);
            out.push(match &phase.fit {
                Fit::OutOfReach(why) => measure.not_judged(why),
                _ => measure,
            });
        }
    }
    if gone {
        let given_back = |look: &Look| look.sharing.is_some_and(|sharing| !sharing.gone_have_shares);
        out.push(noticed("nodes.lease", &given_back, "its share was not released"));
    }
    if played.store == StoreState::Away {
        let said = |look: &Look| look.sharing.is_some_and(|sharing| sharing.all_say_away);
        out.push(noticed("nodes.said", &said, "not all hosts said so to the end of the phase"));
    }
    out
}

/// Maximums for all: what each VM has of its part, and what is left unused while others are idle.
fn advice(views: &[View<'_>]) -> Vec<Measure> {
    let mut out = Vec::new();
    let own = phases(views, Form::Uncoordinated).filter(|(view, _)| view.course.id == ADVICE);
    for (view, phase) in own {
        let at_work = || phase.vms.iter().filter(|vm| vm.rates.outstanding > 0.0);
        if at_work().any(|vm| vm.rates.maximum.is_infinite()) {
            continue;
        }
        let worst = at_work().map(|vm| vm.worst / vm.rates.maximum).fold(f64::INFINITY, f64::min);
        out.push(of_phase("advice", exact(100.0 * worst), view, phase));
        // The same VMs without maximums keep the array busy.
        let unused = phase.unused().scaled(100.0);
        let note = format!(
            "{}: {:.1} of {:.1} MB/s",
            place(view, phase),
            phase.sum / 1e6,
            phase.can_do_unlimited.mean / 1e6
        );
        let id = if at_work().count() < phase.vms.len() { "advice.idle" } else { "advice.busy" };
        let measure = Measure::new(id, unused).figure(figure_id(view)).note(note);
        let follows = at_work().count() == phase.vms.len() || 2 * at_work().count() == phase.vms.len();
        out.push(if follows { measure } else { measure.not_judged("not half of the VMs are idle") });
    }
    out
}
