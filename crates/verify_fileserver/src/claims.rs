//! What was measured for the claims of the scenario.

use super::model::Ran;
use super::model::course::{ArrayWindow, Course, HostWindow, LuWindow, ServerWindow, Which};
use lab_core::claim::Measure;
use lab_core::stats::{self, Estimate, mean_of_windows, ratio_of_means};
use lab_core::words::plain;

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
pub(super) fn measures(ran: &Ran) -> Vec<Measure> {
    let runs = Runs::of(ran);
    let mut out = Vec::new();
    if let (Some(dynamic), Some(fixed)) = (runs.dynamic, runs.fixed) {
        out.extend(throughput(dynamic, fixed));
        out.extend(array(dynamic, fixed));
        out.extend(alike(dynamic, fixed));
        out.extend(host(dynamic, fixed));
        out.extend(state(dynamic));
    }
    if let (Some(fixed), Some(cached)) = (runs.fixed, runs.cached) {
        out.extend(write_cache(fixed, cached));
    }
    out
}

/// By how many percent the mean of `a` is less than that of `b`.
pub(super) fn below(a: &[f64], b: &[f64]) -> Option<Estimate> {
    Some(above(a, b)?.scaled(-1.0))
}

/// By how many percent the mean of `a` is more than that of `b`. The windows of both are pairs, for the
/// clients do the same in them; one in which nothing was done counts.
fn above(a: &[f64], b: &[f64]) -> Option<Estimate> {
    ratio_of_means(&pairs(a, b)).map(percent_over)
}

/// 1.04 times is 4 % more.
fn percent_over(times: Estimate) -> Estimate {
    let Estimate { mean, low, high } = times;
    Estimate { mean: mean - 1.0, low: low - 1.0, high: high - 1.0 }.scaled(100.0)
}

fn pairs(a: &[f64], b: &[f64]) -> Vec<(f64, f64)> {
    a.iter().copied().zip(b.iter().copied()).collect()
}

fn throughput(dynamic: &Course, fixed: &Course) -> Vec<Measure> {
    let (d, f) = (tool(dynamic), tool(fixed));
    vec![
        Measure::new("throughput.below", below(&d, &f)).note(less("MB/s", more(&f, &d))),
        Measure::new("throughput.fixed", level(&f)),
    ]
}

/// "3.5 MB/s": what a share is of.
fn less(unit: &str, difference: Option<Estimate>) -> String {
    difference.map_or_else(String::new, |e| format!("{} {unit}", plain((e.mean * 100.0).round() / 100.0)))
}

type OfLu = fn(&LuWindow) -> f64;

fn array(dynamic: &Course, fixed: &Course) -> Vec<Measure> {
    let lower = |of: OfLu| more(&fixed.of_lus(of), &dynamic.of_lus(of));
    let kib: OfLu = |w| w.write_mb_per_s * 1e6 / 1024.0 / w.write_iops.max(1.0);
    // Of both runs, for what is published is said of both.
    let both = |of: OfLu| middle(&dynamic.of_lus(of), &fixed.of_lus(of));
    let share = |writes: OfLu, reads: OfLu| {
        ratio_of_means(&pairs(&both(writes), &both(reads))).map(|e| e.scaled(100.0))
    };
    let spread = |of: OfLu| farthest(&[dynamic, fixed], of);
    vec![
        Measure::new("array.reads.mb", lower(|w| w.read_mb_per_s)),
        Measure::new("array.reads.iops", lower(|w| w.read_iops)),
        Measure::new("array.writes.mb", lower(|w| w.write_mb_per_s)),
        Measure::new("array.writes.iops", lower(|w| w.write_iops).map(|e| e.scaled(-1.0))),
        Measure::new("array.writes.smaller", lower(kib)),
        Measure::new("quarter.bytes", share(|w| w.write_mb_per_s, |w| w.read_mb_per_s)),
        Measure::new("quarter.ios", share(|w| w.write_iops, |w| w.read_iops)),
        Measure::new("spread.reads.mb", spread(|w| w.read_mb_per_s)),
        Measure::new("spread.reads.iops", spread(|w| w.read_iops)),
        Measure::new("spread.writes.mb", spread(|w| w.write_mb_per_s)),
        Measure::new("spread.writes.iops", spread(|w| w.write_iops)),
    ]
}

/// Half of both, window by window.
fn middle(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| (a + b) / 2.0).collect()
}

/// By how many percent the LU that is farthest from the mean of all differs from it, over the whole run, with
/// the interval of its windows; none: in a run nothing was done.
fn farthest(courses: &[&Course], of: OfLu) -> Option<Estimate> {
    let of_course = |course: &&Course| {
        let lus = course.arrays.first().map_or(0, |w| w.lus.len());
        let middle = |w: &ArrayWindow| w.lus.iter().map(of).sum::<f64>() / lus.max(1) as f64;
        let over = |lu: usize| {
            let windows: Vec<(f64, f64)> =
                course.arrays.iter().map(|w| (of(&w.lus[lu]), middle(w))).collect();
            ratio_of_means(&windows)
        };
        (0..lus).map(over).collect::<Option<Vec<Estimate>>>()
    };
    let all = courses.iter().map(of_course).collect::<Option<Vec<_>>>()?.concat();
    Some(percent_over(stats::farthest(&all, 1.0)?.1))
}

fn alike(dynamic: &Course, fixed: &Course) -> Vec<Measure> {
    type Of = fn(&ServerWindow) -> f64;
    let than = |id, unit: &str, of: Of| {
        let (d, f) = (dynamic.of_servers(of), fixed.of_servers(of));
        Measure::new(id, above(&d, &f)).note(against(unit, [&d, &f]))
    };
    let points = |of: Of| more(&dynamic.of_servers(of), &fixed.of_servers(of));
    vec![
        than("same.read", "ms", |w| w.read_ms),
        than("same.write", "ms", |w| w.write_ms),
        than("same.queue", "I/Os", |w| w.queue),
        Measure::new("queue.dynamic", level(&dynamic.of_servers(|w| w.queue))),
        Measure::new("queue.fixed", level(&fixed.of_servers(|w| w.queue))),
        Measure::new("same.processors", points(|w| w.cpu_percent)),
        Measure::new("same.memory", points(|w| w.available_mb)),
        Measure::new("order.network", more(&network(fixed), &network(dynamic))),
    ]
}

/// "5.1 against 4.9 ms": what a difference is of.
fn against(unit: &str, both: [&[f64]; 2]) -> String {
    let [a, b] = both.map(|series| level(series).map_or(0.0, |e| e.mean));
    format!("{a:.1} against {b:.1} {unit}")
}

fn host(dynamic: &Course, fixed: &Course) -> Vec<Measure> {
    type Of = fn(&HostWindow) -> f64;
    let points = |of: Of| more(&dynamic.of_host(of), &fixed.of_host(of));
    let free_gb = dynamic.of_host(|w| w.available_mb / 1e3);
    vec![
        Measure::new("same.root", points(|w| w.root_percent)),
        Measure::new("same.host", points(|w| w.logical_percent)),
        Measure::new("same.parent", points(|w| w.available_mb)),
        Measure::new("parent", level(&free_gb)),
    ]
}

/// The state of the array in the dynamic run.
fn state(dynamic: &Course) -> Vec<Measure> {
    let of = |series: Vec<f64>| level(&series);
    let fullest = fullest(dynamic);
    let most = fullest.iter().copied().fold(0.0, f64::max);
    let note = format!(
        "of each group its fullest window; the fullest of all has {most:.1}, and within a second there are more"
    );
    vec![
        Measure::new("controller.first", of(dynamic.of_array(controller(0)))),
        Measure::new("controller.second", of(dynamic.of_array(controller(1)))),
        Measure::new("pending", of(dynamic.of_array(|w| w.pending_percent))),
        Measure::new("hits", of(dynamic.write_hits())),
        Measure::new("drives", of(dynamic.of_array(|w| of_groups(&w.drive_percent)))),
        Measure::new("queued", of(dynamic.of_array(|w| of_groups(&w.group_queue)))),
        Measure::new("queued.most", of_several(&fullest)).note(note),
        Measure::new("headroom", headroom(dynamic)),
    ]
}

/// Of each group the most commands that a window has: the groups are repeats of each other.
fn fullest(course: &Course) -> Vec<f64> {
    let groups = course.arrays.iter().map(|w| w.group_queue.len()).min().unwrap_or(0);
    let most = |group: usize| course.arrays.iter().map(|w| w.group_queue[group]).fold(0.0, f64::max);
    (0..groups).map(most).collect()
}

/// The mean of several that have nothing to do with each other.
fn of_several(values: &[f64]) -> Option<Estimate> {
    (!values.is_empty()).then(|| stats::mean(values))
}

/// How much more the busiest resource could do.
pub(super) fn headroom(course: &Course) -> Option<Estimate> {
    level(&course.of_array(controller(0))).map(|busy| busy.share_of(100.0))
}

/// With the write cache on, against off.
fn write_cache(fixed: &Course, cached: &Course) -> Vec<Measure> {
    let lu = |of: OfLu| above(&cached.of_lus(of), &fixed.of_lus(of));
    let server = |id, unit: &str, of: fn(&ServerWindow) -> f64| {
        let (on, off) = (cached.of_servers(of), fixed.of_servers(of));
        Measure::new(id, above(&on, &off)).note(against(unit, [&on, &off]))
    };
    vec![
        Measure::new("cache.throughput", above(&tool(cached), &tool(fixed))),
        Measure::new("cache.reads.mb", lu(|w| w.read_mb_per_s)),
        Measure::new("cache.writes.mb", lu(|w| w.write_mb_per_s)),
        Measure::new("cache.reads.iops", lu(|w| w.read_iops)),
        Measure::new("cache.writes.iops", lu(|w| w.write_iops)),
        server("cache.read", "ms", |w| w.read_ms),
        server("cache.write", "ms", |w| w.write_ms),
        server("cache.queue", "I/Os", |w| w.queue),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::model::course::Commands;
    use super::*;

    /// Of two LUs with so many reads in their only window.
    fn course(reads: [f64; 2]) -> Course {
        let lu = |read_iops: f64| LuWindow {
            read_iops,
            write_iops: 0.0,
            read_mb_per_s: 0.0,
            write_mb_per_s: 0.0,
            write_hit_percent: None,
        };
        let window = ArrayWindow {
            at_s: 60.0,
            lus: reads.map(lu).into(),
            controller_percent: vec![],
            pending_percent: 0.0,
            drive_percent: vec![],
            group_queue: vec![],
        };
        Course {
            which: Which::DYNAMIC,
            seed: 1,
            hosts: vec![],
            arrays: vec![window],
            files: vec![],
            grown_blocks: vec![],
            commands: Commands::default(),
        }
    }

    /// 0/0 is no number, and was taken for a LU that is exactly like the others.
    #[test]
    fn servers_that_did_nothing_are_not_alike() {
        let of = |courses: &[&Course]| farthest(courses, |w| w.read_iops);
        let (busy, still) = (course([60.0, 140.0]), course([0.0, 0.0]));
        assert_eq!(of(&[&busy]).map(|e| e.mean.abs().round()), Some(40.0));
        assert_eq!((of(&[&still]), of(&[&busy, &still]), of(&[])), (None, None, None));
        assert!(still.write_hits().is_empty(), "nothing was written: there is no share of hits");
    }

    /// Both were judged by their value alone, as if they had been counted: two LUs that differ by 6 % in a
    /// run of few windows that differ more among each other were surely not alike.
    #[test]
    fn what_differs_between_servers_and_is_most_has_the_interval_of_a_sample() {
        let windows = |reads: &[[f64; 2]], queues: &[[f64; 2]]| {
            let one = |(reads, queue): (&[f64; 2], &[f64; 2])| ArrayWindow {
                group_queue: queue.to_vec(),
                ..course(*reads).arrays.remove(0)
            };
            Course { arrays: reads.iter().zip(queues).map(one).collect(), ..course([0.0; 2]) }
        };
        let estimate = |course: &Course, id: &str| {
            let all = array(course, course).into_iter().chain(state(course));
            let own = all.into_iter().find(|m| m.id() == id).expect("a measure");
            let lab_core::claim::Outcome::Estimate(e) = own.outcome() else { panic!("{own:?}") };
            *e
        };
        let queues = [[20.0, 25.0], [28.0, 24.0], [10.0, 11.0]];
        let varied = windows(&[[150.0, 90.0], [80.0, 110.0], [88.0, 82.0]], &queues);
        let spread = estimate(&varied, "spread.reads.iops");
        assert!(
            (spread.mean.abs() - 6.0).abs() < 1e-9 && spread.low < -5.0 && spread.high > -5.0,
            "{spread:?}"
        );
        let steady = windows(&[[106.0, 94.0]; 3], &queues);
        let spread = estimate(&steady, "spread.reads.iops");
        assert!(spread.low.abs() > 5.9 && spread.high.abs() > 5.9, "{spread:?}");
        // 28 and 25: t(0.975, 1) = 12.706, by 1.5.
        let most = estimate(&varied, "queued.most");
        assert!(most.mean == 26.5 && (most.high - 26.5 - 12.706 * 1.5).abs() < 0.01, "{most:?}");
    }

    /// Windows in which clients got nothing were left out of how much less they got.
    #[test]
    fn windows_with_nothing_count() {
        let busy = [60.0; 6];
        let stalled = [60.0, 60.0, 60.0, 0.0, 0.0, 0.0];
        assert_eq!(below(&stalled, &busy).map(|e| e.mean), Some(50.0));
        assert_eq!(below(&busy, &busy).map(|e| e.mean.abs()), Some(0.0));
        assert_eq!(below(&busy, &[0.0; 6]), None);
    }

    /// A window without reads made its share of writes a thousand million times as much.
    #[test]
    fn the_share_of_writes_is_that_of_all_windows() {
        let mut course = course([100.0, 100.0]);
        course.arrays[0].lus.iter_mut().for_each(|lu| lu.write_iops = 20.0);
        let mut still = course.arrays[0].clone();
        still.lus.iter_mut().for_each(|lu| (lu.read_iops, lu.write_iops) = (0.0, 10.0));
        course.arrays = vec![course.arrays[0].clone(), course.arrays[0].clone(), still];
        let all = array(&course, &course);
        let share = all.iter().find(|m| m.id() == "quarter.ios").expect("a measure");
        let lab_core::claim::Outcome::Estimate(share) = share.outcome() else { panic!("{share:?}") };
        assert_eq!(share.mean, 25.0);
    }

    #[test]
    fn a_format_without_commands_of_its_guest_has_no_shares_of_them() {
        let still = course([0.0, 0.0]);
        let mut busy = still.clone();
        busy.commands = Commands { payload: 1000, crooked: 860, besides: 40 };
        let of = |vhdx: &Course| {
            let all = super::super::beyond::vhdx::measures(&busy, &busy, vhdx);
            let own = all.into_iter().filter(|m| ["vhdx.straight", "vhdx.besides"].contains(&m.id()));
            own.map(|m| matches!(m.outcome(), lab_core::claim::Outcome::Estimate(_))).collect::<Vec<_>>()
        };
        assert_eq!((of(&busy), of(&still)), (vec![true; 2], vec![false; 2]));
    }
}
