//! `results.json` and `throughput.csv`: the answer for a machine.

use std::fmt::Write as _;

use serde::Serialize;

use super::claims::Judged;
use super::judge::{Capacity, PhaseView, View};
use super::scenario::Qos;
use crate::verify::{QosOptions, World};

/// What a run found. Field names are part of the interface.
#[derive(Debug, Serialize)]
pub(super) struct Results {
    version: &'static str,
    scenario: String,
    world: &'static str,
    seed: u64,
    quick: bool,
    /// With 1, 2, … writes in flight and no scheduler, MB/s.
    capacity_mb_per_s: Vec<f64>,
    checks: Vec<Check>,
    phases: Vec<PhaseResult>,
}

#[derive(Debug, Serialize)]
struct Check {
    name: String,
    unit: &'static str,
    published: Option<&'static str>,
    expected: String,
    measured: Option<f64>,
    verdict: &'static str,
}

#[derive(Debug, Serialize)]
struct PhaseResult {
    experiment: String,
    form: &'static str,
    phase: String,
    from_s: f64,
    to_s: f64,
    sum_mb_per_s: f64,
    can_do_mb_per_s: f64,
    feasible: bool,
    depth: f64,
    scale_permille: u32,
    told_after_s: Option<f64>,
    vms: Vec<VmResult>,
}

#[derive(Debug, Serialize)]
struct VmResult {
    minimum_mb_per_s: f64,
    maximum_mb_per_s: Option<f64>,
    mb_per_s: f64,
    worst_window_mb_per_s: f64,
    expected_mb_per_s: f64,
}

fn mb(bytes_per_s: f64) -> f64 {
    (bytes_per_s / 10.0).round() / 1e5
}

impl Results {
    pub(super) fn of(
        qos: &Qos,
        own: &QosOptions,
        seed: u64,
        capacity: &Capacity,
        views: &[View<'_>],
        judged: &[Judged],
    ) -> Results {
        let check = |j: &Judged| Check {
            name: j.name.clone(),
            unit: j.unit,
            published: j.published,
            expected: j.bound.words(j.unit),
            measured: j.value,
            verdict: j.verdict.words(),
        };
        let phases =
            views.iter().flat_map(|view| view.phases.iter().map(move |phase| phase_result(view, phase)));
        Results {
            version: env!("CARGO_PKG_VERSION"),
            scenario: qos.name.clone(),
            world: if own.world == World::Real { "real" } else { "model" },
            seed,
            quick: own.quick,
            capacity_mb_per_s: capacity.0.iter().map(|c| mb(*c)).collect(),
            checks: judged.iter().map(check).collect(),
            phases: phases.collect(),
        }
    }
}

fn phase_result(view: &View<'_>, phase: &PhaseView) -> PhaseResult {
    let vms = phase.vms.iter().map(|vm| VmResult {
        minimum_mb_per_s: mb(vm.rates.minimum),
        maximum_mb_per_s: vm.rates.maximum.is_finite().then(|| mb(vm.rates.maximum)),
        mb_per_s: mb(vm.mean),
        worst_window_mb_per_s: mb(vm.worst),
        expected_mb_per_s: mb(vm.expected),
    });
    PhaseResult {
        experiment: view.course.id.clone(),
        form: view.course.form.name(),
        phase: phase.name.clone(),
        from_s: phase.from_s,
        to_s: phase.to_s,
        sum_mb_per_s: mb(phase.sum),
        can_do_mb_per_s: mb(phase.can_do),
        feasible: phase.feasible,
        depth: phase.depth,
        scale_permille: phase.scale_permille,
        told_after_s: phase.told.map(|(_, last)| last),
        vms: vms.collect(),
    }
}

/// Whole seconds of a course.
pub(super) fn seconds(view: &View<'_>) -> usize {
    view.phases.last().map_or(0, |phase| phase.to_s as usize)
}

/// A line for each VM and second.
pub(super) fn series_csv(views: &[View<'_>]) -> String {
    let mut out = String::from("experiment,form,second,vm,mb_per_s\n");
    for view in views {
        let seconds = seconds(view);
        for (vm, done) in view.course.done.iter().enumerate() {
            let mut bytes = vec![0u64; seconds];
            for one in done {
                if let Some(second) = bytes.get_mut((one.at_ns / 1_000_000_000) as usize) {
                    *second += one.bytes;
                }
            }
            for (second, bytes) in bytes.iter().enumerate() {
                let (id, form) = (&view.course.id, view.course.form.name());
                let _ = writeln!(out, "{id},{form},{second},{},{:.4}", vm + 1, *bytes as f64 / 1e6);
            }
        }
    }
    out
}
