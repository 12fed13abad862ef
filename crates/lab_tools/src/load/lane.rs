//! One worker: a session or a drive of its own, on a thread of its own.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use world::{Buf, Rng, World};

use super::access::{ALIGN_MIN, Walk};
use super::job::{Job, Pace, Plan};
use super::live::Live;
use super::target::{Facts, Place, Target};
use super::window::Window;
use super::workers::Own;
use super::{reads, workers};
use crate::datastore::Content;
use crate::hosts::thread_cpu;

/// One worker of a load.
pub(super) struct Lane {
    pub(super) plan: Arc<Plan>,
    pub(super) place: Place,
    /// Which job of the plan.
    pub(super) job: usize,
    /// Which of its workers.
    pub(super) index: usize,
    /// Which of all.
    pub(super) number: usize,
    pub(super) live: Arc<Live>,
}

/// What a worker did.
pub(super) struct LaneOutcome {
    pub(super) job: usize,
    pub(super) window: Window,
    /// CPU time of its thread, warm-up included.
    pub(super) cpu: Duration,
}

impl Lane {
    fn job(&self) -> &Job {
        &self.plan.jobs[self.job]
    }

    pub(super) async fn run(self, world: World) -> Result<LaneOutcome> {
        let (target, facts) = Target::open(&world, &self.place, self.number, self.job().outstanding).await?;
        let job = self.job();
        let len = room(job, &facts)?;
        let workers = (self.index, job.workers);
        let walk = Walk::new(job.mix.clone(), job.from, len, workers, world.random("places"));
        let window = Window::new(
            world.now(),
            self.plan.warm_up_seconds,
            self.plan.seconds,
            self.live.clone(),
            self.number,
        );
        let before = thread_cpu();
        let window = match (self.is_cheap(), self.place.login(self.number, job.outstanding)) {
            (true, Some((login, lun))) => {
                target.close();
                let to = reads::To { login, lun, block_bytes: facts.block_bytes as u32 };
                reads::run(&world, &to, walk, job.outstanding, window).await?
            }
            _ => workers::run(&world, &target, job, self.own(&world), (walk, window)).await?,
        };
        Ok(LaneOutcome { job: self.job, window, cpu: thread_cpu() - before })
    }

    /// It writes what tells its place where that is compared, else noise.
    fn own(&self, world: &World) -> Own {
        let mut noise = Buf::new(self.job().mix.size_max() as usize);
        Rng::with_seed(self.plan.seed).fill(&mut noise);
        let verify =
            self.plan.verify.then_some(Content::Pattern { key: self.plan.seed, used_bytes: u64::MAX });
        Own { arrivals: world.random("arrivals"), verify, data: noise.freeze() }
    }

    /// Reads in a closed loop that nobody looks at.
    fn is_cheap(&self) -> bool {
        let job = self.job();
        let kinds = job.mix.kinds();
        !self.plan.verify
            && !job.mix.writes()
            && job.pace == Pace::Closed
            && kinds.iter().all(|k| k.burst.is_none())
    }
}

/// The bytes that it goes over.
pub fn room(job: &Job, facts: &Facts) -> Result<u64> {
    let block = facts.block_bytes.max(ALIGN_MIN);
    for kind in job.mix.kinds() {
        let (size, align) = (kind.size, kind.align);
        ensure!(
            size.is_multiple_of(block) && align.is_multiple_of(block),
            "{}: sizes and alignments are whole blocks of {block} bytes, not {size} at multiples of {align}",
            job.name
        );
        ensure!(
            size <= facts.transfer_bytes_max,
            "{}: I/O of {size} bytes too large: the limit of the target is {}",
            job.name,
            facts.transfer_bytes_max
        );
    }
    ensure!(job.from.is_multiple_of(block), "{}: begins within a block of {block} bytes", job.name);
    within(job, facts.len_bytes)
}

/// The bytes that it goes over of so many.
///
/// # Errors
/// Its largest I/O does not fit on them.
pub fn within(job: &Job, len_bytes: u64) -> Result<u64> {
    let len = job.span.unwrap_or(u64::MAX).min(len_bytes.saturating_sub(job.from));
    ensure!(len >= job.mix.size_max(), "{}: does not fit on {len} bytes", job.name);
    Ok(len)
}
