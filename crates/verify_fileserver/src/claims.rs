//! What was measured for the claims of the scenario.

use super::model::Ran;
use super::model::course::{ArrayWindow, Course, LuWindow, ServerWindow, Which};
use super::scenario::Fileserver;
use lab_core::claim::Measure;
use lab_core::stats::{Estimate, mean_of_windows, ratio_of_windows};

/// The runs of a comparison.
pub(super) struct Runs<'a> {
    pub(super) dynamic: Option<&'a Course>,
    pub(super) fixed: Option<&'a Course>,
    pub(super) cached: Option<&'a Course>,
    pub(super) vhdx: Option<&'a Course>,
}

impl<'a> Runs<'a> {
    pub(super) fn of(ran: &'a Ran) -> Runs<'a> {
        let find = |which: Which| ran.courses.iter().find(|course| course.which == which);
        Runs {
            dynamic: find(Which::DYNAMIC),
            fixed: find(Which::FIXED),
            cached: find(Which::CACHED),
            vhdx: find(Which::VHDX),
        }
    }
}

/// The mean of a series with its interval over the windows.
pub(super) fn level(series: &[f64]) -> Option<Estimate> {
    (!series.is_empty()).then(|| mean_of_windows(series))
}

/// How much larger `a` is than `b`, window by window.
pub(super) fn more(a: &[f64], b: &[f64]) -> Option<Estimate> {
    let pairs: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
    level(&pairs)
}

pub(super) fn tool(course: &Course) -> Vec<f64> {
    course.of_servers(|w| w.tool_mb_per_s)
}

/// Reads and writes of a LU.
pub(super) fn array_mb(course: &Course) -> Vec<f64> {
    course.of_lus(|w| w.read_mb_per_s + w.write_mb_per_s)
}

/// Both directions.
pub(super) fn network(course: &Course) -> Vec<f64> {
    course.of_servers(|w| w.received_mb_per_s + w.sent_mb_per_s)
}

pub(super) fn controller(number: usize) -> impl Fn(&ArrayWindow) -> f64 {
    move |w| w.controller_percent.get(number).copied().unwrap_or_default()
}

pub(super) fn of_groups(list: &[f64]) -> f64 {
    list.iter().sum::<f64>() / list.len().max(1) as f64
}

/// Everything that the run tells.
pub(super) fn measures(scenario: &Fileserver, ran: &Ran) -> Vec<Measure> {
    let runs = Runs::of(ran);
    let mut out = Vec::new();
    if let (Some(dynamic), Some(fixed)) = (runs.dynamic, runs.fixed) {
        out.extend(throughput(scenario, dynamic, fixed));
        out.extend(array(dynamic, fixed));
        out.extend(ordering(dynamic, fixed));
        out.extend(no_difference(scenario, dynamic, fixed));
        out.extend(state(dynamic, fixed));
    }
    if let (Some(fixed), Some(cached)) = (runs.fixed, runs.cached) {
        out.extend(write_cache(fixed, cached));
    }
    out
}

/// By how many percent `a` is less than `b`, window by window.
pub(super) fn below(a: &[f64], b: &[f64]) -> Option<Estimate> {
    let over = ratio_of_windows(a, b)?;
    Some(Estimate { mean: 1.0 - over.mean, low: 1.0 - over.high, high: 1.0 - over.low }.scaled(100.0))
}

fn throughput(scenario: &Fileserver, dynamic: &Course, fixed: &Course) -> Vec<Measure> {
    let (d, f) = (tool(dynamic), tool(fixed));
    let all_files = f64::from(scenario.published.trees) / 128.0 * 128_053_899_719.0 / 1e6;
    let minutes: Vec<f64> = f.iter().map(|mb| all_files / mb / 60.0).collect();
    vec![
        Measure::new("throughput.below", below(&d, &f)),
        Measure::new("throughput.less", more(&f, &d)),
        Measure::new("throughput.fixed", level(&f)),
        Measure::new("throughput.dynamic", level(&d)),
        Measure::new("throughput.whole", level(&minutes)),
    ]
}

fn array(dynamic: &Course, fixed: &Course) -> Vec<Measure> {
    type Of = fn(&LuWindow) -> f64;
    let lower = |of: Of| more(&fixed.of_lus(of), &dynamic.of_lus(of));
    let kib: Of = |w| w.write_mb_per_s * 1e6 / 1024.0 / w.write_iops.max(1.0);
    let share = |of: fn(&LuWindow) -> (f64, f64)| {
        let series = fixed.of_lus(move |w| {
            let (writes, reads) = of(w);
            100.0 * writes / reads.max(1e-9)
        });
        level(&series)
    };
    vec![
        Measure::new("array.reads.mb", lower(|w| w.read_mb_per_s)),
        Measure::new("array.reads.iops", lower(|w| w.read_iops)),
        Measure::new("array.writes.mb", lower(|w| w.write_mb_per_s)),
        Measure::new("array.writes.iops", lower(|w| w.write_iops).map(|e| e.scaled(-1.0))),
        Measure::new("array.writes.smaller", lower(kib)),
        Measure::new("quarter.bytes", share(|w| (w.write_mb_per_s, w.read_mb_per_s))),
        Measure::new("quarter.ios", share(|w| (w.write_iops, w.read_iops))),
    ]
}

/// Tool below array below network.
fn ordering(dynamic: &Course, fixed: &Course) -> Vec<Measure> {
    let differences = |of: fn(&Course) -> Vec<f64>| -> Vec<f64> {
        of(fixed).iter().zip(of(dynamic)).map(|(f, d)| f - d).collect()
    };
    let (of_tool, of_array, of_net) = (differences(tool), differences(array_mb), differences(network));
    vec![
        Measure::new("order.network", level(&of_net)),
        Measure::new("order.array", more(&of_array, &of_tool)),
        Measure::new("order.top", more(&of_net, &of_array)),
    ]
}

/// "5.1 against 4.9 ms": what a difference of responses is of.
pub(super) fn response_note(scenario: &Fileserver, [dynamic, fixed]: [f64; 2]) -> String {
    let noticed = scenario.bottleneck.response.0.as_secs_f64() * 1e3;
    format!("{dynamic:.1} against {fixed:.1} ms; material is a fifth of the {noticed} ms that users notice")
}

fn no_difference(scenario: &Fileserver, dynamic: &Course, fixed: &Course) -> Vec<Measure> {
    type Of = fn(&ServerWindow) -> f64;
    let above = |of: Of| more(&dynamic.of_servers(of), &fixed.of_servers(of));
    let response = |id, of: Of| {
        let both = [dynamic, fixed].map(|course| level(&course.of_servers(of)).map_or(0.0, |e| e.mean));
        Measure::new(id, above(of)).note(response_note(scenario, both))
    };
    vec![
        response("same.read", |w| w.read_ms),
        response("same.write", |w| w.write_ms),
        Measure::new("same.queue", above(|w| w.queue)),
        Measure::new("same.processors", above(|w| w.cpu_percent)),
        Measure::new("same.memory", above(|w| w.available_mb)),
    ]
}

fn state(dynamic: &Course, fixed: &Course) -> Vec<Measure> {
    let of = |series: Vec<f64>| level(&series);
    let most = |list: &[f64]| list.iter().copied().fold(0.0, f64::max);
    let (busy, idle) = (of(fixed.of_array(controller(0))), of(fixed.of_array(controller(1))));
    // Of both runs, window by window, for the published range is that of both.
    let [d, f] = [dynamic, fixed].map(|c| c.of_array(|w| of_groups(&w.drive_percent)));
    let both: Vec<f64> = d.iter().zip(&f).map(|(d, f)| (d + f) / 2.0).collect();
    let fullest = most(&fixed.of_array(|w| most(&w.group_queue)));
    vec![
        Measure::new("controller.first", busy),
        Measure::new("controller.second", idle),
        Measure::new("pending", of(fixed.of_array(|w| w.pending_percent))),
        Measure::new("hits", of(fixed.of_lus(|w| w.write_hit_percent))),
        Measure::new("drives", of(both)),
        Measure::new("queued", of(fixed.of_array(|w| of_groups(&w.group_queue)))),
        Measure::new("queued.most", Estimate::exact(fullest)),
        Measure::new("headroom", headroom(fixed)),
    ]
}

/// How much more the busiest resource could do.
pub(super) fn headroom(fixed: &Course) -> Option<Estimate> {
    let busy = level(&fixed.of_array(controller(0)))?;
    Some(Estimate { mean: 100.0 / busy.mean, low: 100.0 / busy.high, high: 100.0 / busy.low })
}

fn write_cache(fixed: &Course, cached: &Course) -> Vec<Measure> {
    let than = |a: Vec<f64>, b: Vec<f64>| {
        let over = ratio_of_windows(&a, &b);
        over.map(|e| Estimate { mean: e.mean - 1.0, low: e.low - 1.0, high: e.high - 1.0 }.scaled(100.0))
    };
    let read = |course: &Course| course.of_servers(|w| w.read_ms);
    vec![
        Measure::new("cache.throughput", than(tool(cached), tool(fixed))),
        Measure::new("cache.read", than(read(cached), read(fixed))),
    ]
}
