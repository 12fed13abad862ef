//! All runs of a verification, on all cores, in an order that does not depend on them.

use anyhow::Result;

use super::super::scenario::{Fileserver, Run};
use super::bed::{self, Bed, Shape};
use super::course::{Course, Growth, RampStep, Staged, Which};
use super::disk::Format;
use super::growth::Ground;
use super::play::{self, Set, Use, Watcher};
use super::staged;
use lab_core::interrupt::Stop;
use lab_core::parallel;

/// What was run.
pub(in super::super) struct Ran {
    /// Dynamic, fixed, fixed with the write cache on, VHDX; those that were not stopped before two windows of
    /// the array were counted.
    pub(in super::super) courses: Vec<Course>,
    /// More and more servers: first with one controller, then with all.
    pub(in super::super) ramp: Vec<RampStep>,
    /// Expanded in time, and full before.
    pub(in super::super) growths: Vec<Growth>,
    /// Stage by stage, a VHD and a VHDX.
    pub(in super::super) staged: Vec<Staged>,
    pub(in super::super) stopped: bool,
}

#[derive(Clone, Copy, Debug)]
enum Job {
    Course(Which),
    Ramp { owners: usize, servers: u32 },
    Growth { in_time: bool },
    Staged { format: Format },
}

/// In the order of what they give.
fn jobs(scenario: &Fileserver) -> Vec<Job> {
    let courses = [Which::DYNAMIC, Which::FIXED, Which::CACHED, Which::VHDX].map(Job::Course);
    let ramp = |owners: usize, steps: &[u32]| -> Vec<Job> {
        steps.iter().map(|servers| Job::Ramp { owners, servers: *servers }).collect()
    };
    let one = ramp(1, &scenario.ramp.servers);
    let all = ramp(scenario.array.controllers, &scenario.ramp.spread_servers);
    let growths = [true, false].map(|in_time| Job::Growth { in_time });
    let staged = [Format::Dynamic, Format::Vhdx].map(|format| Job::Staged { format });
    courses.into_iter().chain(one).chain(all).chain(growths).chain(staged).collect()
}

/// The virtual time of a job, of all its servers together: its cost, roughly.
fn server_seconds(scenario: &Fileserver, job: Job) -> f64 {
    let of =
        |servers: u32, run: &Run| f64::from(servers) * (run.from.0.as_secs_f64() + f64::from(run.seconds));
    match job {
        Job::Course(_) => of(scenario.published.servers, &scenario.run),
        Job::Ramp { servers, .. } => of(servers, &scenario.ramp.run()),
        Job::Growth { .. } => f64::from(scenario.growth.seconds),
        Job::Staged { .. } => staged::estimate_s(scenario),
    }
}

/// The jobs as cores take them: the longest first, so that no core is idle for long at the end.
fn longest_first(scenario: &Fileserver, jobs: &[Job]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    let cost = |index: usize| server_seconds(scenario, jobs[index]);
    order.sort_by(|a, b| cost(*b).total_cmp(&cost(*a)));
    order
}

/// How many runs there are.
pub(in super::super) fn runs(scenario: &Fileserver) -> usize {
    jobs(scenario).len()
}

enum Done {
    Course(Course),
    Ramp(RampStep),
    Growth(Growth),
    Staged(Staged),
}

/// Makes what a run needs, and runs it: nothing of it is in memory afterwards but what it counted.
fn go(scenario: &Fileserver, set: &Set, job: Job, seed: u64, watcher: &Watcher<'_>) -> Result<Done> {
    match job {
        Job::Course(which) => {
            let servers = scenario.published.servers;
            // Nothing of a fixed disk depends on what was written.
            let filled = (which.format != Format::Fixed).then_some(&*set.layout);
            let bed = Bed::make(scenario, Shape::published(which.format, servers), filled, seed)?;
            let what = Use::published(scenario, servers, which.os_cache, seed);
            let course = play::run(scenario, (&bed, set), (which, &scenario.run), what, watcher)?;
            Ok(Done::Course(course))
        }
        Job::Ramp { owners, servers } => {
            let shape = Shape { owners, ..Shape::published(Format::Fixed, servers) };
            let bed = Bed::make(scenario, shape, None, seed)?;
            let per_host = scenario.ramp.per_host;
            let what = Use { per_host, ..Use::published(scenario, servers, false, seed) };
            let run = (Which::FIXED, &scenario.ramp.run());
            let course = play::run(scenario, (&bed, set), run, what, watcher)?;
            Ok(Done::Ramp(RampStep { owners, servers, course }))
        }
        Job::Growth { in_time } => {
            Ground::make(scenario, seed)?.run(in_time, seed, watcher).map(Done::Growth)
        }
        Job::Staged { format } => {
            staged::Ground::make(scenario, format, seed)?.run(seed, watcher).map(Done::Staged)
        }
    }
}

/// How a job is called while it runs.
fn words(scenario: &Fileserver, job: Job) -> String {
    match job {
        Job::Course(which) => format!("{} servers, {}", scenario.published.servers, which.name()),
        Job::Ramp { owners: 1, servers } => format!("{servers} servers"),
        Job::Ramp { owners, servers } => format!("{servers} servers on {owners} controllers"),
        Job::Growth { in_time: true } => "a pool that is expanded in time".into(),
        Job::Growth { in_time: false } => "a pool that is full before it is expanded".into(),
        Job::Staged { format: Format::Vhdx } => "everything grows, dynamic VHDX".into(),
        Job::Staged { .. } => "everything grows, dynamic VHD".into(),
    }
}

/// What the thread that waits is told.
pub(in super::super) enum Said {
    /// A run begins.
    Begins(String),
    /// So much of it has passed.
    Passed(String),
}

/// Runs all of it on so many threads; `tell` hears what begins, and how far it is.
pub(in super::super) fn run(
    scenario: &Fileserver,
    (seed, threads): (u64, usize),
    stop: &Stop,
    tell: impl Fn(Said),
) -> Result<Ran> {
    let (plan, layout) = bed::set(scenario, seed)?;
    let set = Set { plan, layout };
    let jobs = jobs(scenario);
    let order = longest_first(scenario, &jobs);
    let work = |place: usize, say: &dyn Fn(Said)| {
        let index = order[place];
        let name = words(scenario, jobs[index]);
        say(Said::Begins(name.clone()));
        let passed = |done_s: f64, all_s: f64| {
            say(Said::Passed(format!("{name}: {done_s:.0} of {all_s:.0} s")));
        };
        let done = go(scenario, &set, jobs[index], seed, &Watcher { stop, tell: &passed })?;
        anyhow::Ok((index, done))
    };
    let mut done: Vec<(usize, Done)> =
        parallel::run((jobs.len(), threads), stop, work, tell)?.into_iter().map(|(_, done)| done).collect();
    done.sort_by_key(|(index, _)| *index);
    let mut ran =
        Ran { courses: vec![], ramp: vec![], growths: vec![], staged: vec![], stopped: stop.is_asked() };
    for (_, outcome) in done {
        match outcome {
            Done::Course(course) if course.arrays.len() < 2 => {}
            Done::Ramp(step) if step.course.arrays.len() < 2 => {}
            Done::Course(course) => ran.courses.push(course),
            Done::Ramp(step) => ran.ramp.push(step),
            Done::Growth(growth) => ran.growths.push(growth),
            Done::Staged(staged) => ran.staged.push(staged),
        }
    }
    Ok(ran)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab_core::scenario::ScenarioFile;

    #[test]
    fn every_job_is_taken_once_and_no_longer_one_after_a_shorter_one() {
        let (whole, _) = Fileserver::load(None).expect("built in");
        for scenario in [whole.clone().quick(), whole] {
            let jobs = jobs(&scenario);
            let order = longest_first(&scenario, &jobs);
            let costs: Vec<f64> = order.iter().map(|index| server_seconds(&scenario, jobs[*index])).collect();
            assert!(costs.is_sorted_by(|longer, shorter| longer >= shorter), "{costs:?}");
            let mut all = order;
            all.sort_unstable();
            assert!(all.into_iter().eq(0..jobs.len()));
        }
    }

    /// Zero, less than nothing, beyond any machine, no number, nothing: each number of the scenario, one at a
    /// time.
    #[test]
    fn every_number_at_its_extremes_is_refused_or_played() {
        use lab_core::scenario::extremes::play_all;
        let (refused, played) = play_all(Fileserver::BUILT_IN.0, |text| {
            let Ok(scenario) = Fileserver::parse(text, "x.toml") else { return false };
            // The files of a run take seconds to be planned, so the order of its jobs has to do.
            let scenario = scenario.quick();
            let jobs = jobs(&scenario);
            assert_eq!(longest_first(&scenario, &jobs).len(), jobs.len());
            true
        });
        assert!(refused > 50 && played > 10, "{refused} refused, {played} played");
    }
}
