//! A pattern, run: all threads begin at once, the time ends when the last one has.

use std::io;
use std::num::NonZeroU64;
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::Advice;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::buffer::Buffer;
use crate::outcome::Outcome;
use crate::pattern::{BLOCK_BYTES, Direction, Pattern, PatternError};
use crate::processor::Used;
use crate::stream::{Work, work};
use crate::target::{Stretch, Target};

/// How a pattern is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Where.
    pub target: Target,
    /// Bytes of one read or write; with 64 files at once the memory is 64 of them.
    pub transfer_bytes: u64,
    /// All threads on this processor.
    pub cpu: Option<usize>,
    /// Through the page cache.
    pub buffered: bool,
    /// Of the content.
    pub seed: u64,
}

/// 256 KiB: no more drive time for a larger one, and 64 files in 16 MiB.
pub(crate) const TRANSFER_BYTES: u64 = 256 << 10;
/// Of a thread: what it calls needs a few KiB.
const STACK_BYTES: usize = 128 << 10;

/// Why a load cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum StressError {
    /// No pattern.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// No such place, or it refuses.
    #[error("{path}: {cause}")]
    Place {
        /// Where.
        path: String,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// No place for all files.
    #[error("{path}: {len_bytes} bytes are too few for {pattern}: {wanted_bytes}")]
    TooSmall {
        /// The drive or image.
        path: String,
        /// Its size.
        len_bytes: u64,
        /// What was to be run there.
        pattern: String,
        /// What that needs.
        wanted_bytes: u64,
    },
    /// No transfer.
    #[error("transfers of {0} bytes: a multiple of 4096, up to 64 MiB")]
    Transfer(u64),
    /// No such processor, or none that may be used.
    #[error("processor {cpu}: {cause}")]
    Cpu {
        /// Its number.
        cpu: usize,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// Too many threads.
    #[error("a thread for each file: {0}")]
    Thread(#[source] io::Error),
}

impl Plan {
    /// On this target, past the page cache, on any processor.
    pub fn new(target: Target) -> Plan {
        Plan { target, transfer_bytes: TRANSFER_BYTES, cpu: None, buffered: false, seed: 1 }
    }

    fn place(&self, cause: io::Error) -> StressError {
        StressError::Place { path: self.target.path().display().to_string(), cause }
    }

    fn check(&self, pattern: &Pattern) -> Result<(), StressError> {
        pattern.check()?;
        if !(BLOCK_BYTES..=64 << 20).contains(&self.transfer_bytes)
            || !self.transfer_bytes.is_multiple_of(BLOCK_BYTES)
        {
            return Err(StressError::Transfer(self.transfer_bytes));
        }
        let len_bytes = self.target.len_bytes().map_err(|e| self.place(e))?;
        match len_bytes.filter(|len| *len < pattern.total_bytes()) {
            None => Ok(()),
            Some(len_bytes) => Err(StressError::TooSmall {
                path: self.target.path().display().to_string(),
                len_bytes,
                pattern: pattern.to_string(),
                wanted_bytes: pattern.total_bytes(),
            }),
        }
    }
}

/// Writes what a reading pattern reads, unless it lies there already. A writing pattern needs nothing.
pub fn prepare(plan: &Plan, pattern: &Pattern) -> Result<(), StressError> {
    if pattern.direction == Direction::Read && !plan.target.has(pattern) {
        run(plan, &Pattern { direction: Direction::Write, ..pattern.clone() })?;
    }
    Ok(())
}

/// Runs a pattern, once. What it reads was written before, by itself or by [`prepare`], with the same seed.
pub fn run(plan: &Plan, pattern: &Pattern) -> Result<Outcome, StressError> {
    plan.check(pattern)?;
    let stretches: Result<Vec<Stretch>, io::Error> =
        (0..pattern.files).map(|number| plan.target.open(pattern, number, plan.buffered)).collect();
    let stretches = stretches.map_err(|e| plan.place(e))?;
    let direct = stretches.iter().all(|stretch| stretch.direct);
    if !direct && pattern.direction == Direction::Read {
        // Whatever the page cache holds of it would be read from there.
        for stretch in &stretches {
            let _ = rustix::fs::fadvise(&stretch.file, 0, None::<NonZeroU64>, Advice::DontNeed);
        }
    }
    let ran = threads(plan, pattern, stretches)?;
    let each = ran.took.iter().map(|took| pattern.file_bytes as f64 / took.as_secs_f64().max(1e-9) / 1e6);
    let seconds = ran.took.iter().max().copied().unwrap_or_default().as_secs_f64().max(1e-9);
    Ok(Outcome {
        pattern: pattern.clone(),
        seconds,
        mb_per_s: pattern.total_bytes() as f64 / seconds / 1e6,
        slowest_mb_per_s: each.clone().fold(f64::INFINITY, f64::min),
        fastest_mb_per_s: each.fold(0.0, f64::max),
        load: ran.after.since(&ran.before, ran.wall_s),
        direct,
        wrong: ran.wrong,
    })
}

struct Ran {
    /// Of each file, from the common start.
    took: Vec<Duration>,
    wrong: u64,
    before: Used,
    after: Used,
    wall_s: f64,
}

/// All threads, from a common start.
fn threads(plan: &Plan, pattern: &Pattern, stretches: Vec<Stretch>) -> Result<Ran, StressError> {
    let start = Barrier::new(stretches.len() + 1);
    let (done, ended) = mpsc::channel();
    // A thread that cannot be had leaves the others waiting at the start: then all of them do nothing.
    let go = std::sync::atomic::AtomicBool::new(true);
    let transfer = plan.transfer_bytes.min(pattern.file_bytes) as usize;
    thread::scope(|scope| {
        let mut refused = None;
        for (number, stretch) in (0..pattern.files).zip(stretches) {
            let (done, start, go) = (done.clone(), &start, &go);
            let one = move || {
                let mut buffer = Buffer::new(transfer, plan.seed, number);
                let pinned = pin(plan.cpu);
                start.wait();
                let own = Work {
                    number,
                    direction: pattern.direction,
                    file_bytes: pattern.file_bytes,
                    seed: plan.seed,
                };
                let from = Instant::now();
                let result = match (pinned, go.load(std::sync::atomic::Ordering::Acquire)) {
                    (Err(error), _) => Err(error),
                    (Ok(()), false) => Ok(0),
                    (Ok(()), true) => work(&stretch, &mut buffer, &own).map_err(|e| plan.place(e)),
                };
                let _ = done.send((number, from.elapsed(), result));
            };
            let spawned = thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, one);
            if let Err(error) = spawned {
                go.store(false, std::sync::atomic::Ordering::Release);
                refused = Some((number, error));
                break;
            }
        }
        drop(done);
        if let Some((number, error)) = refused {
            // Those that never came to the start are stood in for.
            for _ in number..pattern.files {
                scope.spawn(|| start.wait());
            }
            start.wait();
            return Err(StressError::Thread(error));
        }
        let before = Used::now();
        let from = Instant::now();
        start.wait();
        let all: Vec<_> = ended.iter().collect();
        let (after, wall_s) = (Used::now(), from.elapsed().as_secs_f64());
        let mut took = vec![Duration::ZERO; pattern.files as usize];
        let mut wrong = 0;
        for (number, time, result) in all {
            wrong += result?;
            took[number as usize] = time;
        }
        Ok(Ran { took, wrong, before, after, wall_s })
    })
}

/// This thread on one processor.
fn pin(cpu: Option<usize>) -> Result<(), StressError> {
    let Some(cpu) = cpu else { return Ok(()) };
    let refused = |cause| StressError::Cpu { cpu, cause };
    if cpu >= CpuSet::MAX_CPU {
        return Err(refused(io::Error::other("there is none of this number")));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|errno| refused(errno.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str, scale: f64) -> Pattern {
        text.parse::<Pattern>().expect("a pattern").scaled(scale)
    }

    #[test]
    fn files_are_written_read_and_compared() {
        let dir = tempfile::tempdir().expect("a folder");
        let plan = Plan::new(Target::at(dir.path()).expect("a folder"));
        let written = run(&plan, &pattern("W3x1", 1.0)).expect("writes");
        let read = run(&plan, &pattern("R3x1", 1.0)).expect("reads");
        assert_eq!((written.wrong, read.wrong), (0, 0));
        assert!(read.mb_per_s > 0.0 && read.slowest_mb_per_s <= read.fastest_mb_per_s, "{read:?}");
        let other = Plan { seed: 2, ..plan.clone() };
        assert_eq!(run(&other, &pattern("R3x1", 1.0)).expect("reads").wrong, 3 * 256);
        // Longer than what is there, and of another shape.
        assert!(run(&plan, &pattern("R3x2", 1.0)).is_err());
        prepare(&plan, &pattern("R3x2", 0.5)).expect("writes what is not there");
    }

    #[test]
    fn stretches_of_an_image_are_files() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("disk.img");
        File::create(&path).and_then(|f| f.set_len(1 << 20)).expect("an image");
        let plan = Plan::new(Target::at(&path).expect("a file"));
        run(&plan, &pattern("W4x1", 0.25)).expect("writes");
        assert_eq!(run(&plan, &pattern("R4x1", 0.25)).expect("reads").wrong, 0);
        let refused = run(&plan, &pattern("R4x1", 0.5)).expect_err("too small");
        assert!(
            refused.to_string().ends_with("1048576 bytes are too few for 4 × 0.5 MB: 2097152"),
            "{refused}"
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let plan = Plan::new(Target::at(dir.path()).expect("a folder"));
        let small = pattern("W1x1", 0.01);
        let odd = [
            Plan { transfer_bytes: 1000, ..plan.clone() },
            Plan { transfer_bytes: 0, ..plan.clone() },
            Plan { cpu: Some(100_000), ..plan.clone() },
            Plan { target: Target::Directory("/nowhere".into()), ..plan.clone() },
        ];
        for plan in odd {
            assert!(run(&plan, &small).is_err(), "{plan:?}");
        }
        assert!(run(&Plan { cpu: Some(0), buffered: true, ..plan }, &small).is_ok_and(|o| !o.direct));
        assert!(Target::at(std::path::Path::new("/dev/null")).is_err());
    }

    use std::fs::File;
}
