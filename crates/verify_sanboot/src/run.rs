//! All points of a run, on all cores, in an order that does not depend on them.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::bed::{Bed, Shape};
use super::results::{Layout, Pattern, Point, Results};
use super::scenario::{SERVERS_MAX, Sanboot};
use super::which::Which;
use super::{boot, point, takeover};
use lab_core::interrupt::{Abandoned, Stop, unless_abandoned};
use lab_core::parallel;
use lab_core::progress::Progress;
use lab_core::scenario::ScenarioFile;

/// What is asked of a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) quick: bool,
    pub(crate) layouts: Vec<Layout>,
    /// Points that run side by side.
    pub(crate) threads: usize,
}

/// What it gave, and how long that took: times of the machine, which are no results.
#[derive(Clone, Debug)]
pub(crate) struct Ran {
    pub(crate) results: Results,
    pub(crate) pace: Pace,
}

/// How fast the model was.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    /// From the first point to the last.
    pub(crate) wall: Duration,
    /// Of all threads.
    pub(crate) busy: Duration,
    /// I/Os of the servers, warm-ups included.
    pub(crate) ios: u64,
    /// Virtual seconds of all points.
    pub(crate) virtual_s: f64,
}

impl Pace {
    /// Simulated I/Os per second of one core.
    pub(crate) fn ios_per_s(&self) -> f64 {
        self.ios as f64 / self.busy.as_secs_f64().max(1e-9)
    }
}

/// A disk alone is repeated so many times as often, where points are repeated at all: two sequential streams
/// keep the rotation in which they happened to meet for a whole run, and it gives 650, 877 or 1,274 I/Os per
/// second. That adds a thirtieth to the I/Os of a run.
const OWN_TIMES: u32 = 4;

/// The points, in the order of the results.
pub(super) fn points(sanboot: &Sanboot, layouts: &[Layout]) -> Vec<Which> {
    let run = &sanboot.run;
    let mut all = Vec::new();
    for pattern in Pattern::ALL {
        for &layout in layouts {
            // Servers do not share their internal disks: one says what each has.
            let (within, beyond) = match layout {
                Layout::Internal => (&[1][..], &[][..]),
                Layout::Raid5x4 | Layout::Raid1x8 | Layout::Given => {
                    (&run.servers[..], &run.servers_beyond[..])
                }
            };
            let repeats = match layout {
                Layout::Internal if run.repeats > 1 => OWN_TIMES * run.repeats,
                _ => run.repeats,
            };
            let once = beyond.iter().map(|servers| (*servers, 1));
            for (servers, repeats) in within.iter().map(|servers| (*servers, repeats)).chain(once) {
                let first = Which::in_turn(pattern, layout, servers);
                all.extend((0..repeats).map(|repeat| Which { repeat, ..first.clone() }));
            }
        }
    }
    all
}

/// What predictions need besides: as many servers on a group as there will be, with few servers in all.
fn packed(sanboot: &Sanboot, (patterns, layouts): (&[Pattern], &[Layout])) -> Vec<Which> {
    let mut all = Vec::new();
    for &pattern in patterns {
        for &layout in layouts {
            let Some(shape) = Shape::of(layout) else { continue };
            for packing in shape.packings(sanboot.run.packed_to) {
                let servers = packing.iter().sum();
                let which = Which { packing, ..Which::in_turn(pattern, layout, servers) };
                let shares = shares(pattern, servers, sanboot.run.packed_to);
                all.extend(shares.iter().map(|&share_of| Which { share_of, ..which.clone() }));
            }
        }
    }
    all
}

/// The same with a drive of the first group lost, for one pattern that drives bound: what forecasts are worth
/// then.
fn lost(sanboot: &Sanboot, layouts: &[Layout]) -> Vec<Which> {
    let layouts: Vec<Layout> = layouts.iter().copied().filter(|layout| *layout == Layout::Raid5x4).collect();
    let all = once_each(sanboot, (&[Pattern::RandomRead], &layouts), &sanboot.run.lost_servers);
    all.into_iter().map(|which| Which { lost: true, ..which }).collect()
}

/// Patterns that the method of forecasts was not made with.
fn held_out(sanboot: &Sanboot, layouts: &[Layout]) -> Vec<Which> {
    let is_shared = |layout: &Layout| Shape::of(*layout).is_some();
    let layouts: Vec<Layout> = layouts.iter().copied().filter(is_shared).collect();
    once_each(sanboot, (&Pattern::HELD_OUT, &layouts), &sanboot.run.held_out_servers)
}

/// So many servers once each, and those that are packed, for a forecast that is only judged.
fn once_each(sanboot: &Sanboot, (patterns, layouts): (&[Pattern], &[Layout]), servers: &[u32]) -> Vec<Which> {
    if servers.is_empty() {
        return vec![];
    }
    let each = patterns.iter().flat_map(|pattern| layouts.iter().map(move |layout| (*pattern, *layout)));
    let all = each.flat_map(|(p, l)| servers.iter().map(move |n| Which::in_turn(p, l, *n)));
    all.chain(packed(sanboot, (patterns, layouts))).collect()
}

/// Among how many servers each of those that are packed has its share of the cache; 0: among themselves.
///
/// Writes that wait in the cache gather by rows, and how much a group gains by that changes with the share of
/// each server. Writes alone fill the cache with few servers and with many. Beside reads, few servers with
/// the whole cache read what many do not, and their writes take longer to come to a balance than a point may.
fn shares(pattern: Pattern, servers: u32, packed_to: u32) -> Vec<u32> {
    let is_many = 2 * servers > packed_to;
    match (pattern.writes_at_random(), pattern.is_mixed()) {
        (true, true) if is_many => vec![packed_to, SERVERS_MAX],
        (true, true) => vec![],
        (true, false) if is_many => vec![0, SERVERS_MAX],
        _ => vec![0],
    }
}

/// A point that is to be run, and on what.
#[derive(Clone)]
struct Job<'a> {
    sanboot: &'a Sanboot,
    bed: &'a Bed,
    which: Which,
}

/// Runs the jobs on so many threads, and calls `began` for each that begins. Gives the points with their
/// numbers, and how long each took; when somebody asks to stop, those that are done.
fn run_jobs(
    jobs: &[Job<'_>],
    (seed, threads): (u64, usize),
    stop: &Stop,
    began: impl Fn(usize),
) -> Result<Vec<(usize, (Point, Duration))>> {
    let work = |index: usize, begins: &dyn Fn(usize)| {
        begins(index);
        let (job, from) = (&jobs[index], Instant::now());
        let point = point::run(job.sanboot, job.bed, job.which.clone(), seed, stop);
        anyhow::Ok(unless_abandoned(point)?.map(|point| (point, from.elapsed())))
    };
    let done = parallel::run((jobs.len(), threads), stop, work, began)?;
    Ok(done.into_iter().filter_map(|(index, done)| Some((index, done?))).collect())
}

/// Runs all points. After a stop request, the completed ones are kept.
pub(crate) fn run(sanboot: &Sanboot, plan: &Plan, stop: &Stop) -> Result<Ran> {
    let mut all = points(sanboot, &plan.layouts);
    all.extend(packed(sanboot, (&Pattern::ALL, &plan.layouts)));
    all.extend(lost(sanboot, &plan.layouts));
    all.extend(held_out(sanboot, &plan.layouts));
    // What the storms need, too, before anything is measured for minutes.
    boot::Trace::load(&sanboot.boot.trace)?;
    let beds = plan.layouts.iter().map(|layout| Bed::make(sanboot, *layout, plan.seed));
    let beds = beds.collect::<Result<Vec<Bed>>>()?;
    let job = |which: &Which| {
        let bed = beds.iter().find(|bed| bed.layout == which.layout).expect("each layout has one");
        Job { sanboot, bed, which: which.clone() }
    };
    let jobs: Vec<Job<'_>> = all.iter().map(job).collect();
    let from = Instant::now();
    let firsts = all.iter().filter(|which| which.repeat == 0).count();
    let progress = Progress::new(firsts as u64);
    let done = run_jobs(&jobs, (plan.seed, plan.threads), stop, |index| show(&progress, &all[index]))?;
    progress.end();
    let busy = done.iter().map(|(_, (_, took))| *took).sum();
    let points: Vec<Point> = done.into_iter().map(|(_, (point, _))| point).collect();
    if points.is_empty() && stop.is_asked() {
        return Err(Abandoned.into());
    }
    let pace = Pace {
        wall: from.elapsed(),
        busy,
        ios: points.iter().map(|p| p.array_ios).sum(),
        virtual_s: points.iter().map(|p| p.virtual_s).sum(),
    };
    let (storms, is_whole) = boot::run(sanboot, plan, stop)?;
    let (takeovers, are_whole) = takeover::run(sanboot, plan, stop)?;
    let stopped = points.len() < all.len() || !is_whole || !are_whole;
    let measured = results_of(sanboot, plan.seed, points);
    Ok(Ran { results: Results { quick: plan.quick, stopped, storms, takeovers, ..measured }, pace })
}

/// Points with what they were run with.
pub(super) fn results_of(sanboot: &Sanboot, seed: u64, points: Vec<Point>) -> Results {
    let (lost, points): (Vec<Point>, Vec<Point>) = points.into_iter().partition(|point| point.lost);
    let is_held_out = |point: &Point| Pattern::HELD_OUT.contains(&point.pattern);
    let (held_out, points): (Vec<Point>, Vec<Point>) = points.into_iter().partition(is_held_out);
    let (points, packed) = points.into_iter().partition(|point| point.packing.is_empty());
    Results {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        scenario: sanboot.name.clone(),
        world: "model".to_owned(),
        seed,
        quick: true,
        stopped: false,
        conditions: sanboot.conditions(),
        points,
        packed,
        lost,
        held_out,
        storms: vec![],
        takeovers: vec![],
        digest: None,
    }
}

/// One point of the built-in scenario, measured for so long in virtual time, and how long that took.
pub fn experiment(
    pattern: Pattern,
    layout: Layout,
    servers: u32,
    time: Duration,
) -> Result<(Point, Duration)> {
    let (mut sanboot, _) = Sanboot::load(None)?;
    sanboot.run.window_time.0 = time / sanboot.run.windows;
    let bed = Bed::make(&sanboot, layout, 1)?;
    let from = Instant::now();
    let point = point::run(&sanboot, &bed, Which::in_turn(pattern, layout, servers), 1, &Stop::default())?;
    Ok((point, from.elapsed()))
}

/// Tells what begins: one line for each number of servers.
pub(super) fn show(progress: &Progress, which: &Which) {
    if which.repeat > 0 {
        return;
    }
    let servers = if which.servers == 1 { "server" } else { "servers" };
    let (pattern, layout) = (which.pattern.name().replace('_', " "), which.layout.name());
    let lost = if which.lost { ", a drive lost" } else { "" };
    progress.step(&format!("{pattern}, {layout}, {} {servers}{lost}", which.servers));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever thread runs which point: the same seed gives the same bytes.
    #[test]
    fn the_same_seed_gives_the_same_results_to_the_byte() {
        let (mut small, _) = Sanboot::load(None).expect("built in");
        (small.published.file.0, small.array.lu.0, small.array.cache.0) = (16 << 20, 128 << 20, 16 << 20);
        (small.run.servers, small.run.servers_beyond, small.run.repeats) = (vec![1, 3], vec![], 1);
        (small.run.windows, small.run.window_ios, small.run.round_ios) = (2, 50, 25);
        (small.run.packed_to, small.run.lost_servers, small.run.held_out_servers) = (3, vec![2], vec![2]);
        (small.takeover.servers, small.takeover.journal.0) = (vec![2], 32 << 20);
        (small.takeover.warm_up.0, small.takeover.time.0) = (Duration::from_secs(1), Duration::from_secs(1));
        small.run.balance_time.0 = small.run.round_time.0;
        (small.boot.servers, small.boot.repeats, small.boot.lu.0) = (vec![2], 1, 128 << 20);
        let bytes = |threads| {
            let plan = Plan { seed: 7, quick: false, layouts: Layout::MODELLED.to_vec(), threads };
            let ran = run(&small, &plan, &Stop::default()).expect("points");
            assert_eq!(ran.results.points.len(), 6 * 5);
            assert_eq!(ran.results.with_a_drive_lost().points.len(), 1);
            assert_eq!(ran.results.of_patterns_held_out().points.len(), 2 * 2);
            assert_eq!(ran.results.storms.len(), 2 * 3);
            assert_eq!(ran.results.takeovers.len(), 2);
            serde_json::to_string_pretty(&ran.results).expect("text")
        };
        assert_eq!(bytes(1), bytes(2));
    }
}
