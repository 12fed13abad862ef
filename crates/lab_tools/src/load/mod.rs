//! Loads: access specifications against a LU, a file or a device, as cheap as an initiator can be, so that
//! the figures are the target's.
//!
//! ```text
//!   cli ── Plan: target, jobs ──> run ──> lanes (a thread, a world, a session or drive each) ──> Outcome
//!   icf, fio ──> Written ──┘                 ├─ reads: reads alone, whose data stays where it came
//!                                            └─ workers: everything else, closed or open loop
//! ```

pub mod access;
pub mod fio;
pub mod icf;
mod job;
mod lane;
mod live;
mod outcome;
mod reads;
pub mod target;
mod window;
pub mod workers;
mod written;

pub use lane::{room, within};

pub use access::{Access, AccessError, Burst, Mix};
pub use job::{Arrivals, Job, JobError, Pace, Plan};
pub use outcome::{JobOutcome, Latency, Outcome};
pub use written::{LeftOut, Written};

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};

use lane::Lane;
use live::Live;
use target::Place;

/// Runs a plan to its end; `tells` shows on a terminal how it goes meanwhile.
pub fn run(plan: &Plan, tells: bool) -> Result<Outcome> {
    plan.check()?;
    let place = Place::find(&plan.target)?;
    let workers: usize = plan.jobs.iter().map(|job| job.workers).sum();
    let live = Arc::new(Live::new(workers));
    let (plan, mut threads) = (Arc::new(plan.clone()), Vec::new());
    for (job, of) in plan.jobs.iter().enumerate() {
        for index in 0..of.workers {
            let number = threads.len();
            let lane =
                Lane { plan: plan.clone(), place: place.clone(), job, index, number, live: live.clone() };
            let options = world_real::Options {
                seed: plan.seed ^ (number as u64) << 32,
                cpu: plan.cpu.map(|first| first + number),
                ..world_real::Options::default()
            };
            threads.push(world_real::start(&format!("load-{number}"), options, move |w| lane.run(w))?);
        }
    }
    let show = tells.then(|| live::show(&plan, live.clone()));
    let mut lanes = Vec::new();
    for thread in threads {
        let lane = thread.join().map_err(|_| anyhow!("a worker has panicked")).and_then(|done| done?);
        // Whoever fails first ends the load: the others would run to their end for nothing.
        if lane.is_err() {
            live.stop();
        }
        lanes.push(lane);
    }
    live.stop();
    if let Some(show) = show {
        let _ = show.join();
    }
    let lanes = lanes.into_iter().collect::<Result<Vec<_>>>().with_context(|| plan.target.clone())?;
    ensure!(!lanes.is_empty(), "no worker ran");
    Ok(Outcome::of(&plan, lanes))
}
