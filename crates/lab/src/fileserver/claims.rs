//! The claims of the published experiment, in its order, against what was measured.

use super::beyond;
use super::model::Ran;
use super::model::course::{ArrayWindow, Course, LuWindow, ServerWindow, Which};
use super::scenario::Fileserver;
use crate::sanboot::claims::Bound;
use crate::vaai::Verdict;
use lab_core::report::Claim;
use lab_core::stats::{Estimate, mean_of_windows, ratio_of_windows};

/// A claim that was judged.
pub(super) struct Judged {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) published: Option<String>,
    pub(super) bound: Bound,
    pub(super) estimate: Option<Estimate>,
    pub(super) verdict: Verdict,
    pub(super) figure: &'static str,
    pub(super) note: Option<String>,
}

/// Throughput with calibrated inputs is held when it is within so much of what was published.
const NEAR_PERCENT: f64 = 10.0;
/// No material difference: less than a fifth of a threshold, or of a value.
const MATERIAL_PERCENT: f64 = 20.0;
/// Users notice the storage above it, and I/Os only wait when there are more for each spindle: the thresholds of the analysis.
const RESPONSE_MS_MAX: f64 = 50.0;
const QUEUE_PER_SPINDLE: f64 = 1.5;
/// Of a share in percent: so many points.
const MATERIAL_POINTS: f64 = 5.0;

pub(super) fn judged(
    (name, unit): (&'static str, &'static str),
    published: impl Into<Option<&'static str>>,
    bound: Bound,
    estimate: Option<Estimate>,
    figure: &'static str,
) -> Judged {
    let verdict = bound.judge(estimate.as_ref());
    let published = published.into().map(str::to_owned);
    Judged { name, unit, published, bound, estimate, verdict, figure, note: None }
}

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

/// Everything, in the order of the seed's table.
pub(super) fn judge(scenario: &Fileserver, ran: &Ran) -> Vec<Judged> {
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
    out.extend(beyond::claims(ran));
    out
}

/// By how many percent `a` is less than `b`, window by window.
pub(super) fn below(a: &[f64], b: &[f64]) -> Option<Estimate> {
    let over = ratio_of_windows(a, b)?;
    Some(Estimate { mean: 1.0 - over.mean, low: 1.0 - over.high, high: 1.0 - over.low }.scaled(100.0))
}

fn near(published: f64) -> Bound {
    let by = published * NEAR_PERCENT / 100.0;
    Bound::Within(published - by, published + by)
}

fn throughput(scenario: &Fileserver, dynamic: &Course, fixed: &Course) -> Vec<Judged> {
    let p = &scenario.published;
    let (d, f) = (tool(dynamic), tool(fixed));
    let mut first = judged(
        ("Throughput: dynamic below fixed", "%"),
        "about 6 %",
        Bound::Within(2.0, 12.0),
        below(&d, &f),
        "throughput",
    );
    first.note = Some("the cost of an I/O of a dynamic disk is calibrated to it".into());
    let calibrated = |name, published: f64, series: &[f64]| {
        let bound = near(published);
        let mut claim = judged((name, "MB/s"), None::<&'static str>, bound, level(series), "throughput");
        claim.published = Some(format!("about {published}"));
        claim.note = Some("clients are calibrated to the fixed disk".into());
        claim
    };
    let all_files = f64::from(p.trees) / 128.0 * 128_053_899_719.0 / 1e6;
    let minutes = |series: &[f64]| {
        let times: Vec<f64> = series.iter().map(|mb| all_files / mb / 60.0).collect();
        level(&times)
    };
    vec![
        first,
        judged(
            ("Throughput: dynamic below fixed by", "MB/s"),
            "3.5",
            Bound::Within(1.5, 6.0),
            more(&f, &d),
            "throughput",
        ),
        calibrated("Throughput of a server, fixed", p.fixed_mb_per_s, &f),
        calibrated("Throughput of a server, dynamic", p.dynamic_mb_per_s, &d),
        judged(
            ("All 128,000 files of a server", "min"),
            "over 30",
            Bound::AtLeast(30.0),
            minutes(&f),
            "throughput",
        ),
    ]
}

fn array(dynamic: &Course, fixed: &Course) -> Vec<Judged> {
    type Of = fn(&LuWindow) -> f64;
    let lower = |of: Of| more(&fixed.of_lus(of), &dynamic.of_lus(of));
    let kib: Of = |w| w.write_mb_per_s * 1e6 / 1024.0 / w.write_iops.max(1.0);
    let smaller = more(&fixed.of_lus(kib), &dynamic.of_lus(kib));
    let share = |of: fn(&LuWindow) -> (f64, f64)| {
        let series = fixed.of_lus(move |w| {
            let (writes, reads) = of(w);
            100.0 * writes / reads.max(1e-9)
        });
        level(&series)
    };
    vec![
        judged(
            ("Array reads: dynamic lower by", "MB/s"),
            "3.4",
            Bound::Above(0.0),
            lower(|w| w.read_mb_per_s),
            "array",
        ),
        judged(
            ("Array reads: dynamic lower by", "IOPS"),
            "33",
            Bound::Above(0.0),
            lower(|w| w.read_iops),
            "array",
        ),
        judged(
            ("Array writes: dynamic lower by", "MB/s"),
            "0.7",
            Bound::Above(0.0),
            lower(|w| w.write_mb_per_s),
            "array",
        ),
        judged(
            ("Array writes: dynamic higher by", "IOPS"),
            "15",
            Bound::Above(0.0),
            lower(|w| w.write_iops).map(|e| e.scaled(-1.0)),
            "array",
        ),
        judged(
            ("Array writes: dynamic smaller by", "KiB"),
            "smaller writes",
            Bound::Above(0.0),
            smaller,
            "array",
        ),
        judged(
            ("Writes against reads at the array, bytes", "%"),
            "about a quarter",
            Bound::Within(15.0, 35.0),
            share(|w| (w.write_mb_per_s, w.read_mb_per_s)),
            "array",
        ),
        judged(
            ("Writes against reads at the array, I/Os", "%"),
            "about a quarter",
            Bound::Within(15.0, 35.0),
            share(|w| (w.write_iops, w.read_iops)),
            "array",
        ),
    ]
}

/// Tool below array below network.
fn ordering(dynamic: &Course, fixed: &Course) -> Vec<Judged> {
    let differences = |of: fn(&Course) -> Vec<f64>| -> Vec<f64> {
        of(fixed).iter().zip(of(dynamic)).map(|(f, d)| f - d).collect()
    };
    let (of_tool, of_array, of_net) = (differences(tool), differences(array_mb), differences(network));
    let mut all = vec![
        judged(("Network: fixed above dynamic", "MB/s"), "4.6", Bound::Above(0.0), level(&of_net), "servers"),
        judged(
            ("The difference at the array, above that of the tool", "MB/s"),
            "4.1 − 3.5",
            Bound::Above(0.0),
            more(&of_array, &of_tool),
            "array",
        ),
        judged(
            ("The difference at the network, above that at the array", "MB/s"),
            "4.6 − 4.1",
            Bound::Above(0.0),
            more(&of_net, &of_array),
            "servers",
        ),
    ];
    all[1].note = Some("how much more the array reads than the tool is calibrated".into());
    all
}

fn no_difference(scenario: &Fileserver, dynamic: &Course, fixed: &Course) -> Vec<Judged> {
    type Of = fn(&ServerWindow) -> f64;
    let above = |of: Of| more(&dynamic.of_servers(of), &fixed.of_servers(of));
    let within = |by: f64| Bound::Within(-by, by);
    // Against the thresholds that the analysis of bottlenecks has: of its own small values a difference may be large and still not material.
    let of_threshold = |threshold: f64| within(threshold * MATERIAL_PERCENT / 100.0);
    let spindles = f64::from(scenario.array.drives_per_group);
    let none = "no material difference";
    let response = |name, of: Of| {
        let [d, f] = [dynamic, fixed].map(|course| level(&course.of_servers(of)).map_or(0.0, |e| e.mean));
        let mut claim = judged((name, "ms"), none, of_threshold(RESPONSE_MS_MAX), above(of), "response");
        claim.note = Some(format!(
            "{d:.1} against {f:.1} ms; material is a fifth of the {RESPONSE_MS_MAX} ms that users notice"
        ));
        claim
    };
    vec![
        response("Response of a read: dynamic above fixed", |w| w.read_ms),
        response("Response of a write: dynamic above fixed", |w| w.write_ms),
        judged(
            ("Queue of a server's disk: dynamic above fixed", "I/Os"),
            none,
            of_threshold(QUEUE_PER_SPINDLE * spindles),
            above(|w| w.queue),
            "response",
        ),
        judged(
            ("Processors of a server: dynamic above fixed", "points"),
            none,
            within(MATERIAL_POINTS),
            above(|w| w.cpu_percent),
            "servers",
        ),
        judged(
            ("Memory of a server: dynamic above fixed", "MB"),
            none,
            within(100.0),
            above(|w| w.available_mb),
            "servers",
        ),
    ]
}

fn state(dynamic: &Course, fixed: &Course) -> Vec<Judged> {
    let of = |series: Vec<f64>| level(&series);
    let most = |list: &[f64]| list.iter().copied().fold(0.0, f64::max);
    let (busy, idle) = (of(fixed.of_array(controller(0))), of(fixed.of_array(controller(1))));
    // Of both runs, window by window, for the published range is that of both.
    let [d, f] = [dynamic, fixed].map(|c| c.of_array(|w| of_groups(&w.drive_percent)));
    let both: Vec<f64> = d.iter().zip(&f).map(|(d, f)| (d + f) / 2.0).collect();
    let headroom = busy.map(|e| Estimate { mean: 100.0 / e.mean, low: 100.0 / e.high, high: 100.0 / e.low });
    let mut room = judged(
        ("Headroom by controller 0, the busiest resource", "times"),
        "1.5 to 1.8",
        Bound::Within(1.5, 1.8),
        headroom,
        "busy",
    );
    room.note =
        Some("1 / utilisation: 1 / 0.61 = 1.64 fits the published range; its drives would give 2.3".into());
    let mut controllers = judged(("Controller 0", "%"), "61", near(61.0), busy, "busy");
    controllers.note = Some("the cost of a command is calibrated to it".into());
    vec![
        controllers,
        judged(("Controller 1", "%"), "0", Bound::AtMost(1.0), idle, "busy"),
        judged(
            ("Write pending", "%"),
            "11",
            Bound::AtMost(30.0),
            of(fixed.of_array(|w| w.pending_percent)),
            "busy",
        ),
        judged(
            ("Write hits", "%"),
            "100",
            Bound::AtLeast(99.5),
            of(fixed.of_lus(|w| w.write_hit_percent)),
            "busy",
        ),
        judged(("Utilisation of the drives", "%"), "41 to 44", Bound::Within(31.0, 54.0), of(both), "busy"),
        judged(
            ("Commands queued in a RAID group, on average", "commands"),
            "15",
            Bound::AtMost(15.0),
            of(fixed.of_array(|w| of_groups(&w.group_queue))),
            "busy",
        ),
        judged(
            ("Commands queued in a RAID group, the fullest window", "commands"),
            "30",
            Bound::AtMost(30.0),
            Some(Estimate::exact(most(&fixed.of_array(|w| most(&w.group_queue))))),
            "busy",
        ),
        room,
    ]
}

fn write_cache(fixed: &Course, cached: &Course) -> Vec<Judged> {
    let than = |a: Vec<f64>, b: Vec<f64>| {
        let over = ratio_of_windows(&a, &b);
        over.map(|e| Estimate { mean: e.mean - 1.0, low: e.low - 1.0, high: e.high - 1.0 }.scaled(100.0))
    };
    let within = Bound::Within(-5.0, 5.0);
    vec![
        judged(
            ("OS write cache on against off: throughput", "%"),
            "no difference",
            within,
            than(tool(cached), tool(fixed)),
            "cache_array",
        ),
        judged(
            ("OS write cache on against off: response of a read", "%"),
            "no difference",
            Bound::Within(-MATERIAL_PERCENT, MATERIAL_PERCENT),
            than(cached.of_servers(|w| w.read_ms), fixed.of_servers(|w| w.read_ms)),
            "cache_response",
        ),
    ]
}

/// For the report.
pub(super) fn claims(judged: &[Judged]) -> Vec<Claim> {
    let claim = |j: &Judged| {
        let interval = j.estimate.filter(|e| e.low.is_finite() && e.low < e.high);
        Claim {
            name: j.name.into(),
            unit: j.unit.into(),
            published: j.published.clone(),
            expected: Some(j.bound.words(j.unit)),
            measured: j.estimate.map(|e| e.mean).filter(|value| value.is_finite()),
            low: interval.map(|e| e.low),
            high: interval.map(|e| e.high),
            verdict: j.verdict.words(),
            figure: Some(j.figure.into()),
            note: j.note.clone(),
        }
    };
    judged.iter().map(claim).collect()
}
