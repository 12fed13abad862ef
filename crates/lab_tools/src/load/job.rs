//! What is run: jobs side by side, each an access pattern, a pace and a number of workers.

use super::access::Mix;

/// A load: everything that is run at once against one target.
#[derive(Clone, Debug)]
pub struct Plan {
    /// `iscsi://…`, or the path of a file or a device.
    pub target: String,
    /// Side by side.
    pub jobs: Vec<Job>,
    /// How long it is measured.
    pub seconds: f64,
    /// How long it runs before.
    pub warm_up_seconds: f64,
    /// The processor of the first worker.
    pub cpu: Option<usize>,
    /// Whether content is checked.
    pub verify: bool,
    /// Random seed.
    pub seed: u64,
}

/// One kind of work, by one or more workers.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Job {
    pub name: String,
    /// What is done.
    pub mix: Mix,
    /// I/Os in flight of each worker; in an open loop the most of them.
    pub outstanding: u16,
    /// When the next one is sent.
    pub pace: Pace,
    /// Sessions, each on a thread of its own.
    pub workers: usize,
    /// The first byte that is used.
    pub from: u64,
    /// Only so many bytes; none: all of the target.
    pub span: Option<u64>,
}

/// When the next I/O is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Closed loop: when one has ended.
    Closed,
    /// Open loop: at its time, whether others have ended or not. Latency counts from that time on.
    Open {
        /// Of all workers of the job.
        ios_per_s: f64,
        /// How the times are spread.
        arrivals: Arrivals,
    },
}

/// How the times of an open loop are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// One after the other at the same distance.
    Even,
    /// As independent users come.
    Poisson,
}

/// Most I/Os in flight of one worker: what a session's table of tags holds.
const OUTSTANDING_MAX: u16 = 1000;
/// Most workers of a load: threads.
const WORKERS_MAX: usize = 1024;
/// The longest that a load runs: a week.
const SECONDS_MAX: f64 = 7.0 * 86_400.0;
/// A nanosecond apart.
const RATE_MAX: f64 = 1e9;
/// Slower, and a load of a week sees not one I/O.
const RATE_MIN: f64 = 1e-6;

/// Why the parameters of a load are invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum JobError {
    /// Outstanding I/Os.
    #[error("{0}: outstanding I/Os are 1 to {OUTSTANDING_MAX} per worker")]
    Outstanding(String),
    #[error("a load has 1 to {WORKERS_MAX} workers")]
    Workers,
    /// The length of the run.
    #[error("invalid duration: must be more than 0 s, with a warm-up of 0 s or more, at most a week each")]
    Seconds,
    #[error("{0}: the rate of an open loop is 0.000001 to 1000000000 I/Os per second")]
    Rate(String),
    /// Pauses belong to closed loops.
    #[error("{0}: an open loop does not support bursts: its rate determines when the next I/O is sent")]
    BurstsInOpenLoop(String),
    /// Content is compared in units.
    #[error("{0}: to verify content, sizes, alignments and the first byte are whole 4 KiB")]
    Verify(String),
}

impl Plan {
    /// Whether it can be run, as far as the target need not be known.
    pub fn check(&self) -> Result<(), JobError> {
        let workers = self.jobs.iter().fold(0usize, |sum, job| sum.saturating_add(job.workers));
        if !(1..=WORKERS_MAX).contains(&workers) || self.jobs.iter().any(|job| job.workers == 0) {
            return Err(JobError::Workers);
        }
        let week = 0.0..=SECONDS_MAX;
        if !week.contains(&self.seconds) || self.seconds == 0.0 || !week.contains(&self.warm_up_seconds) {
            return Err(JobError::Seconds);
        }
        self.jobs.iter().try_for_each(|job| job.check(self.verify))
    }

    /// Whether any of it writes.
    pub fn writes(&self) -> bool {
        self.jobs.iter().any(|job| job.mix.writes())
    }
}

impl Job {
    /// Whether it can be run; to `verify` content, everything is whole blocks.
    pub fn check(&self, verify: bool) -> Result<(), JobError> {
        let name = || self.name.clone();
        if !(1..=OUTSTANDING_MAX).contains(&self.outstanding) {
            return Err(JobError::Outstanding(name()));
        }
        if let Pace::Open { ios_per_s, .. } = self.pace {
            if !(RATE_MIN..=RATE_MAX).contains(&ios_per_s) {
                return Err(JobError::Rate(name()));
            }
            if self.mix.kinds().iter().any(|kind| kind.burst.is_some()) {
                return Err(JobError::BurstsInOpenLoop(name()));
            }
        }
        let whole = |bytes: u64| bytes.is_multiple_of(4096);
        let is_whole = self.mix.kinds().iter().all(|k| whole(k.size) && whole(k.align)) && whole(self.from);
        if verify && !is_whole { Err(JobError::Verify(name())) } else { Ok(()) }
    }

    /// "64 KiB, 0 % read, 100 % random, 8 outstanding, 4 workers".
    pub fn words(&self) -> String {
        let pace = match self.pace {
            Pace::Closed => format!("{} outstanding", self.outstanding),
            Pace::Open { ios_per_s, arrivals } => {
                let spread = if arrivals == Arrivals::Even { "evenly" } else { "as a Poisson process" };
                format!("{ios_per_s} per second {spread}, at most {} outstanding", self.outstanding)
            }
        };
        let workers = if self.workers == 1 { "1 worker".into() } else { format!("{} workers", self.workers) };
        format!("{}, {pace}, {workers}", self.mix.words())
    }
}
