//! All runs of a verification, on all cores, in an order that does not depend on them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Result, anyhow};

use super::super::scenario::Fileserver;
use super::bed::{self, Bed, Shape};
use super::course::{Course, Growth, Which};
use super::disk::Format;
use super::growth::Ground;
use super::play::{self, Set};
use crate::interrupt::Stop;

/// What was run.
pub(in super::super) struct Ran {
    /// Dynamic, fixed, fixed with the write cache on; those that were not stopped.
    pub(in super::super) courses: Vec<Course>,
    /// Expanded in time, and full before.
    pub(in super::super) growths: Vec<Growth>,
    pub(in super::super) stopped: bool,
}

#[derive(Clone, Copy)]
enum Job {
    Course(Which),
    Growth { in_time: bool },
}

const JOBS: [Job; 5] = [
    Job::Course(Which::DYNAMIC),
    Job::Course(Which::FIXED),
    Job::Course(Which::CACHED),
    Job::Growth { in_time: true },
    Job::Growth { in_time: false },
];

enum Done {
    Course(Course),
    Growth(Growth),
}

/// Everything that runs need, made once.
struct Grounds {
    set: Set,
    dynamic: Bed,
    fixed: Bed,
    growth: Ground,
}

impl Grounds {
    fn make(scenario: &Fileserver, seed: u64) -> Result<Grounds> {
        let (plan, layout) = bed::set(scenario, seed)?;
        let set = Set { plan, layout };
        let used = set.layout.used_bytes();
        let make = |format, used| {
            let servers = scenario.published.servers;
            Bed::make(scenario, Shape { format, servers, pool_free_bytes: None, spare_groups: 0 }, used, seed)
        };
        Ok(Grounds {
            dynamic: make(Format::Dynamic, used)?,
            // Nothing of a fixed disk depends on what was written.
            fixed: make(Format::Fixed, 0)?,
            growth: Ground::make(scenario, seed)?,
            set,
        })
    }

    fn run(&self, scenario: &Fileserver, job: Job, seed: u64) -> Result<Done> {
        match job {
            Job::Course(which) => {
                let bed = if which.format == Format::Dynamic { &self.dynamic } else { &self.fixed };
                play::run(scenario, bed, &self.set, which, seed).map(Done::Course)
            }
            Job::Growth { in_time } => self.growth.run(in_time, seed).map(Done::Growth),
        }
    }
}

/// How a job is called while it runs.
fn words(job: Job) -> String {
    match job {
        Job::Course(which) => format!("four servers, {}", which.name()),
        Job::Growth { in_time: true } => "a pool that is expanded in time".into(),
        Job::Growth { in_time: false } => "a pool that is full before it is expanded".into(),
    }
}

/// Runs all of it on so many threads; `begins` is told what begins.
pub(in super::super) fn run(
    scenario: &Fileserver,
    (seed, threads): (u64, usize),
    stop: &Stop,
    begins: impl Fn(&str),
) -> Result<Ran> {
    begins("making the arrays");
    let grounds = Grounds::make(scenario, seed)?;
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Result<Done>)>> = Mutex::default();
    let (sender, begun) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, JOBS.len()) {
            let (grounds, next, done, sender) = (&grounds, &next, &done, sender.clone());
            scope.spawn(move || {
                while !stop.is_asked() {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = JOBS.get(index) else { break };
                    sender.send(*job).unwrap_or(());
                    let outcome = grounds.run(scenario, *job, seed);
                    if outcome.is_err() {
                        stop.ask();
                    }
                    done.lock().expect("nothing panics with it").push((index, outcome));
                }
            });
        }
        drop(sender);
        begun.iter().for_each(|job| begins(&words(job)));
    });
    let mut done = done.into_inner().map_err(|_| anyhow!("a run did not end"))?;
    done.sort_by_key(|(index, _)| *index);
    let mut ran = Ran { courses: vec![], growths: vec![], stopped: done.len() < JOBS.len() };
    for (_, outcome) in done {
        match outcome? {
            Done::Course(course) => ran.courses.push(course),
            Done::Growth(growth) => ran.growths.push(growth),
        }
    }
    Ok(ran)
}
