//! What was promised over several nodes against what was seen. Pure.

use ::qos::{Claim, Settings, expected};
use lab_core::stats::{Estimate, mean_of_windows, quotient_of_means};

use super::bed::{Class, VMS, place_of};
use super::play::{Course, Played};
use super::scenario::ArrayNodes;
use crate::judge::{bytes, following, settles};
use crate::scenario::Qos;
use crate::vm::Done;
use crate::windows::{STEP_NS, windows, worst};

const SECOND_NS: f64 = 1e9;
/// Throughput is compared over these.
const SHORT_NS: u64 = 1_000_000_000;

/// A run, phase by phase.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(super) phases: Vec<PhaseView>,
    /// I/Os for each pool by which the fullest window exceeds the aggregated maximum; none: there is no
    /// maximum.
    pub(super) over_ios: Option<f64>,
}

/// What is promised in a phase, and what came of it. Bytes per second.
#[derive(Clone, Debug)]
pub(super) struct PhaseView {
    pub(super) name: String,
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    /// A node is lost when it begins, and not taken over before the next phase.
    pub(super) is_lost: bool,
    /// From its beginning to when the controller of a node that was lost ran again.
    pub(super) taken_over_s: Option<f64>,
    /// The aggregated minimum, where its VMs work.
    pub(super) gold: Option<Minimum>,
    /// Whether the minimums fit on the nodes that are there.
    pub(super) fits: bool,
    /// The dedicated minimum; worst of all nodes that are there.
    pub(super) silver: Option<Minimum>,
    /// Of VMs that work: the one with least of what the closed formula gives it, as a share, and the farthest
    /// from it; beyond one I/O per window.
    pub(super) least: f64,
    pub(super) farthest: f64,
    /// Of VMs without a minimum that work: the one with least of its part by weight of the floor, as a share.
    pub(super) floor: f64,
    /// What all VMs had together of what the nodes can do; none: not all work.
    pub(super) of_can_do: Option<Estimate>,
    /// From the change to when the last pool had said that the aggregated minimum is violated; none: not all.
    pub(super) said_s: Option<f64>,
    /// The aggregated maximum.
    pub(super) bronze: Option<f64>,
}

impl PhaseView {
    pub(super) fn has_policy(&self) -> bool {
        self.gold.is_some() || self.silver.is_some() || self.bronze.is_some()
    }
}

/// A minimum, and what came of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Minimum {
    pub(super) promised: f64,
    /// On average.
    pub(super) mean: f64,
    /// In the worst of a hundred windows.
    pub(super) worst: f64,
    /// From the change on; infinite: not to the end of the phase.
    pub(super) settled_s: f64,
}

impl Minimum {
    /// The worst of a hundred windows, as a share of it.
    pub(super) fn share(&self) -> f64 {
        self.worst / self.promised
    }
}

/// A minimum is kept where so much of it comes: the bar.
const KEPT: f64 = 0.95;

/// Times of a phase, in nanoseconds.
struct Span {
    /// When something changed last: the promises, or where a controller runs.
    changed: u64,
    settled: u64,
    to: u64,
    window: u64,
}

/// Looks at a run.
pub(crate) fn view(qos: &Qos, shape: &ArrayNodes, course: &Course) -> View {
    let window = qos.run.window.0.as_nanos() as u64;
    let settle = qos.run.settle.0.as_nanos() as u64;
    let base =
        course.phases.first().map_or(vec![], |first| totals(course, first.from_ns + settle, first.to_ns));
    let view = |phase: &Played| {
        let changed = phase.taken_over_ns.unwrap_or(phase.from_ns);
        let span = Span { changed, settled: changed + settle, to: phase.to_ns, window };
        phase_view(qos, shape, (course, phase), (&span, &base))
    };
    View { phases: course.phases.iter().map(view).collect(), over_ios: over(qos, shape, course, window) }
}

/// Bytes in windows that follow one another, of all VMs together.
fn totals(course: &Course, from_ns: u64, to_ns: u64) -> Vec<f64> {
    let all: Vec<Vec<f64>> =
        course.done.iter().map(|done| following(done, from_ns, to_ns, SHORT_NS)).collect();
    let count = all.iter().map(Vec::len).min().unwrap_or(0);
    (0..count).map(|at| all.iter().map(|vm| vm[at]).sum()).collect()
}

fn merged<'a>(course: &'a Course, which: impl Fn(usize) -> bool + 'a) -> Vec<Done> {
    let own = course.done.iter().enumerate().filter(|(vm, _)| which(*vm));
    let mut all: Vec<Done> = own.flat_map(|(_, done)| done).copied().collect();
    all.sort_by_key(|done| done.at_ns);
    all
}

fn minimum(done: &[Done], promised: f64, span: &Span) -> Minimum {
    let per_s = |bytes: f64| bytes * SECOND_NS / span.window as f64;
    let needed = KEPT * promised * span.window as f64 / SECOND_NS;
    let from_change = windows(done, span.changed, span.to, span.window);
    Minimum {
        promised,
        mean: mean(done, span),
        worst: per_s(worst(windows(done, span.settled, span.to, span.window))),
        settled_s: settles(&from_change, needed).unwrap_or(f64::INFINITY),
    }
}

fn phase_view(
    qos: &Qos,
    shape: &ArrayNodes,
    (course, phase): (&Course, &Played),
    (span, base): (&Span, &[f64]),
) -> PhaseView {
    let unit = qos.unit_bytes(shape.transfer.0) as f64;
    let is_lost = phase.lost.filter(|_| phase.taken_over_ns.is_none());
    let rates = Rates::of(course, phase, is_lost, unit);
    let gold = (phase.promised.gold > 0).then_some(phase.promised.gold as f64 * unit);
    let silver = (phase.promised.silver > 0).then_some(phase.promised.silver as f64 * unit);
    let gold_done = merged(course, |vm| place_of(vm).0 == Class::Gold);
    let silvers = course.done.iter().enumerate().filter(|(vm, _)| {
        let (class, node) = place_of(*vm);
        class == Class::Silver && Some(node) != is_lost
    });
    // Nothing changes for the VM of a node that is there: its whole phase counts.
    let undisturbed = Span { settled: phase.from_ns, changed: phase.from_ns, ..*span };
    let of_silver = |node: usize| if is_lost.is_some() && node != 0 { &undisturbed } else { span };
    let silver = silver.and_then(|promised| {
        let all = silvers.map(|(vm, done)| minimum(done, promised, of_silver(place_of(vm).1)));
        all.min_by(|a, b| a.worst.total_cmp(&b.worst))
    });
    let (least, farthest) = rates.against_formula((course, span), io_rate(qos, shape));
    let works = phase.still.iter().all(|still| !still) && is_lost.is_none() && !base.is_empty();
    let said: Vec<Option<u64>> = (0..course.done.len())
        .filter(|vm| place_of(*vm).0 == Class::Gold)
        .map(|vm| phase.said_ns[vm])
        .collect();
    let after = |at_ns: u64| (at_ns - phase.from_ns) as f64 / SECOND_NS;
    PhaseView {
        name: phase.name.clone(),
        from_s: phase.from_ns as f64 / SECOND_NS,
        to_s: phase.to_ns as f64 / SECOND_NS,
        is_lost: is_lost.is_some(),
        taken_over_s: phase.taken_over_ns.map(after),
        gold: gold.map(|promised| minimum(&gold_done, promised, span)),
        fits: rates.fits(course.node_can_do),
        silver,
        least,
        farthest,
        floor: rates.of_floor((course, span)),
        of_can_do: works
            .then(|| quotient_of_means(&totals(course, span.settled, span.to), base, mean_of_windows))
            .flatten(),
        bronze: phase.promised.bronze.map(|most| most as f64 * unit),
        said_s: said.into_iter().collect::<Option<Vec<_>>>().and_then(|all| all.into_iter().max()).map(after),
    }
}

/// One I/O in a window, bytes per second.
fn io_rate(qos: &Qos, shape: &ArrayNodes) -> f64 {
    shape.transfer.0 as f64 / qos.run.window.0.as_secs_f64()
}

/// What the closed formula is applied to: each pool by itself, with its part of what is promised.
struct Rates {
    /// By node: the VMs that work with what is promised to each; none: the node is lost.
    pools: Vec<Option<Vec<(usize, Claim)>>>,
}

impl Rates {
    /// A minimum and a maximum are divided evenly by the VMs that work, for the nodes are alike; within a
    /// pool an aggregated policy is one client, which is here as many as it has VMs that work.
    fn of(course: &Course, phase: &Played, lost: Option<usize>, unit: f64) -> Rates {
        let node_of = |vm: usize| place_of(vm).1;
        let works = |vm: &usize| !phase.still[*vm] && Some(node_of(*vm)) != lost;
        let count = |class: Class| {
            (0..course.done.len()).filter(works).filter(|vm| place_of(*vm).0 == class).count().max(1) as f64
        };
        let per_pool = |class: Class| VMS.iter().filter(|own| **own == class).count() as u64;
        let promised = &phase.promised;
        let claim = |vm: usize| {
            let class = place_of(vm).0;
            let minimum = match class {
                Class::Gold => promised.gold as f64 * unit / count(class),
                Class::Silver => promised.silver as f64 * unit,
                Class::Bronze | Class::Free => 0.0,
            };
            let most = promised.bronze.filter(|_| class == Class::Bronze);
            let is_one = class == Class::Gold && promised.gold > 0;
            Claim {
                minimum: minimum as u64,
                maximum: most.map(|most| (most as f64 * unit / count(class)) as u64),
                weight: 100 / if is_one { per_pool(class) } else { 1 },
                demand: None,
            }
        };
        let pool = |node: usize| {
            let own = (node * VMS.len()..(node + 1) * VMS.len()).filter(works);
            (Some(node) != lost).then(|| own.map(|vm| (vm, claim(vm))).collect())
        };
        Rates { pools: (0..course.nodes).map(pool).collect() }
    }

    /// Whether all minimums fit, where each node can do so much.
    fn fits(&self, node_can_do: f64) -> bool {
        self.pools.iter().flatten().all(|pool| {
            let claims: Vec<Claim> = pool.iter().map(|(_, claim)| *claim).collect();
            expected(node_can_do as u64, &claims).feasible
        })
    }

    /// The VM with least of what the formula makes of what its pool served, as a share; and the farthest from
    /// it. What one I/O per window makes is left out.
    fn against_formula(&self, (course, span): (&Course, &Span), io_rate: f64) -> (f64, f64) {
        let mean = |vm: usize| mean(&course.done[vm], span);
        let (mut least, mut farthest) = (1.0_f64, 0.0_f64);
        for pool in self.pools.iter().flatten() {
            let sum: f64 = pool.iter().map(|(vm, _)| mean(*vm)).sum();
            let claims: Vec<Claim> = pool.iter().map(|(_, claim)| *claim).collect();
            for ((vm, _), rate) in pool.iter().zip(expected(sum as u64, &claims).rates) {
                let (has, rate) = (mean(*vm), (rate as f64).max(1.0));
                let off = (has - rate).signum() * ((has - rate).abs() - io_rate).max(0.0) / rate;
                least = least.min(1.0 + off);
                farthest = farthest.max(off.abs());
            }
        }
        (least, farthest)
    }

    /// What the VM without a minimum that has least got of its part by weight of the floor of its pool, as a
    /// share; of no more than its maximum.
    fn of_floor(&self, (course, span): (&Course, &Span)) -> f64 {
        let mut least = f64::INFINITY;
        for pool in self.pools.iter().flatten() {
            let sum: f64 = pool.iter().map(|(vm, _)| mean(&course.done[*vm], span)).sum();
            let floor = sum * f64::from(Settings::default().floor_percent) / 100.0;
            let own = || pool.iter().filter(|(_, claim)| claim.minimum == 0);
            let weights: f64 = own().map(|(_, claim)| claim.weight as f64).sum();
            for (vm, claim) in own() {
                let part = floor * claim.weight as f64 / weights;
                let part = claim.maximum.map_or(part, |most| part.min(most as f64)).max(1.0);
                least = least.min(mean(&course.done[*vm], span) / part);
            }
        }
        least
    }
}

/// Bytes per second of a VM, from when a phase has settled on.
fn mean(done: &[Done], span: &Span) -> f64 {
    bytes(done, span.settled, span.to) as f64 * SECOND_NS / (span.to - span.settled).max(1) as f64
}

/// By how many I/Os of each pool the fullest window exceeds the aggregated maximum, over all phases in a row
/// that have it.
fn over(qos: &Qos, shape: &ArrayNodes, course: &Course, window: u64) -> Option<f64> {
    let unit = qos.unit_bytes(shape.transfer.0) as f64;
    let done = merged(course, |vm| place_of(vm).0 == Class::Bronze);
    // What was sent before the policy came is below already.
    let below = f64::from(shape.outstanding) * VMS.len() as f64 * shape.transfer.0 as f64;
    let drained_ns = (below / course.node_can_do.max(1.0) * SECOND_NS) as u64;
    let phases = course.phases.chunk_by(|a, b| a.promised.bronze == b.promised.bronze);
    let of_run = |run: &[Played]| {
        let most = run[0].promised.bronze? as f64 * unit * window as f64 / SECOND_NS;
        let from_ns = run[0].from_ns + drained_ns.max(STEP_NS);
        let fullest = windows(&done, from_ns, run[run.len() - 1].to_ns, window).into_iter().max()?;
        Some((fullest as f64 - most) / shape.transfer.0 as f64 / course.nodes as f64)
    };
    phases.filter_map(of_run).max_by(f64::total_cmp)
}
