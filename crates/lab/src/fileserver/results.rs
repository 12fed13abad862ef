//! `results.json` and the counters as CSV: no wall time is in them, so that the same seed gives the same bytes.

use std::fmt::Write as _;

use serde::Serialize;

use super::claims::{Judged, controller, of_groups};
use super::model::Ran;
use super::model::course::{Course, Growth, RampStep, ServerWindow};
use super::scenario::Fileserver;

/// What a run found. Field names are part of the interface.
#[derive(Serialize)]
pub(super) struct Results<'a> {
    version: &'static str,
    scenario: &'a str,
    world: &'static str,
    seed: u64,
    quick: bool,
    checks: Vec<Check<'a>>,
    courses: &'a [Course],
    ramp: &'a [RampStep],
    growths: &'a [Growth],
}

#[derive(Serialize)]
struct Check<'a> {
    name: &'a str,
    unit: &'a str,
    published: Option<&'a str>,
    expected: String,
    measured: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    verdict: &'static str,
}

impl<'a> Results<'a> {
    pub(super) fn of(
        scenario: &'a Fileserver,
        (seed, quick): (u64, bool),
        ran: &'a Ran,
        judged: &'a [Judged],
    ) -> Results<'a> {
        let finite = |value: f64| value.is_finite().then_some(value);
        let check = |j: &'a Judged| Check {
            name: j.name,
            unit: j.unit,
            published: j.published.as_deref(),
            expected: j.bound.words(j.unit),
            measured: j.estimate.and_then(|e| finite(e.mean)),
            low: j.estimate.and_then(|e| finite(e.low)),
            high: j.estimate.and_then(|e| finite(e.high)),
            verdict: j.verdict.words(),
        };
        Results {
            version: env!("CARGO_PKG_VERSION"),
            scenario: &scenario.name,
            world: "model",
            seed,
            quick,
            checks: judged.iter().map(check).collect(),
            courses: &ran.courses,
            ramp: &ran.ramp,
            growths: &ran.growths,
        }
    }
}

/// A line for each server and interval.
pub(super) fn servers_csv(courses: &[Course]) -> String {
    let mut out = String::from(
        "configuration,time_s,server,tool_mb_per_s,cpu_percent,available_mb,disk_queue,disk_queue_max,s_per_read,s_per_write,received_mb_per_s,sent_mb_per_s,total_mb_per_s\n",
    );
    for (course, window) in courses.iter().flat_map(|c| c.hosts.iter().map(move |w| (c, w))) {
        for (server, w) in window.servers.iter().enumerate() {
            let _ = writeln!(
                out,
                "\"{}\",{:.1},{server},{:.4},{:.3},{:.1},{:.3},{},{:.6},{:.6},{:.4},{:.4},{:.4}",
                course.which.name(),
                window.at_s,
                w.tool_mb_per_s,
                w.cpu_percent,
                w.available_mb,
                w.queue,
                w.queue_max,
                w.read_ms / 1e3,
                w.write_ms / 1e3,
                w.received_mb_per_s,
                w.sent_mb_per_s,
                w.received_mb_per_s + w.sent_mb_per_s
            );
        }
    }
    out
}

/// A line for each interval of the host.
pub(super) fn host_csv(courses: &[Course]) -> String {
    let mut out = String::from(
        "configuration,time_s,logical_processor_percent,root_virtual_processor_percent,available_mb\n",
    );
    for (course, w) in courses.iter().flat_map(|c| c.hosts.iter().map(move |w| (c, w))) {
        let _ = writeln!(
            out,
            "\"{}\",{:.1},{:.3},{:.3},{:.1}",
            course.which.name(),
            w.at_s,
            w.logical_percent,
            w.root_percent,
            w.available_mb
        );
    }
    out
}

/// A line for each LU, its group and the controllers in each interval of the array.
pub(super) fn array_csv(courses: &[Course]) -> String {
    let mut out = String::from(
        "configuration,time_s,lu,read_iops,write_iops,iops,read_mb_per_s,write_mb_per_s,mb_per_s,write_hit_percent,controller0_percent,controller1_percent,write_pending_percent,drive_percent,group_commands\n",
    );
    for (course, window) in courses.iter().flat_map(|c| c.arrays.iter().map(move |w| (c, w))) {
        for (lu, w) in window.lus.iter().enumerate() {
            let of = |list: &[f64], at: usize| list.get(at).copied().unwrap_or_default();
            let _ = writeln!(
                out,
                "\"{}\",{:.1},{lu},{:.3},{:.3},{:.3},{:.4},{:.4},{:.4},{:.3},{:.3},{:.3},{:.3},{:.3},{:.3}",
                course.which.name(),
                window.at_s,
                w.read_iops,
                w.write_iops,
                w.read_iops + w.write_iops,
                w.read_mb_per_s,
                w.write_mb_per_s,
                w.read_mb_per_s + w.write_mb_per_s,
                w.write_hit_percent,
                of(&window.controller_percent, 0),
                of(&window.controller_percent, 1),
                window.pending_percent,
                of(&window.drive_percent, lu),
                of(&window.group_queue, lu)
            );
        }
    }
    out
}

/// A line for each window of each number of servers.
pub(super) fn ramp_csv(ramp: &[RampStep]) -> String {
    let mut out = String::from(
        "controllers,servers,time_s,tool_mb_per_s,s_per_read,s_per_write,controller0_percent,controller1_percent,drive_percent,logical_processor_percent\n",
    );
    for step in ramp {
        let of = |number: usize| step.course.of_array(controller(number));
        let (first, second) = (of(0), of(1));
        let drives = step.course.of_array(|w| of_groups(&w.drive_percent));
        for (n, (host, array)) in step.course.hosts.iter().zip(&step.course.arrays).enumerate() {
            let of = |value: fn(&ServerWindow) -> f64| host.servers.iter().map(value).sum::<f64>();
            let count = host.servers.len().max(1) as f64;
            let _ = writeln!(
                out,
                "{},{},{:.1},{:.4},{:.6},{:.6},{:.3},{:.3},{:.3},{:.3}",
                step.owners,
                step.servers,
                array.at_s,
                of(|w| w.tool_mb_per_s),
                of(|w| w.read_ms) / count / 1e3,
                of(|w| w.write_ms) / count / 1e3,
                first[n],
                second[n],
                drives[n],
                host.logical_percent
            );
        }
    }
    out
}

/// A line for each second of a pool that grows.
pub(super) fn growth_csv(growths: &[Growth]) -> String {
    let mut out = String::from("run,time_s,read_mb_per_s,write_mb_per_s,s_per_read,used_percent,refused\n");
    for (growth, w) in growths.iter().flat_map(|g| g.windows.iter().map(move |w| (g, w))) {
        let _ = writeln!(
            out,
            "{},{:.1},{:.4},{:.4},{:.6},{:.3},{}",
            growth.name,
            w.at_s,
            w.read_mb_per_s,
            w.write_mb_per_s,
            w.read_ms / 1e3,
            w.used_percent,
            w.refused
        );
    }
    out
}
