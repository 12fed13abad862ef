//! Running a pattern: all threads begin at once; the time ends with the last one.

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

/// How to run a pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Where the files are.
    pub target: Target,
    /// Bytes of one read or write; 64 files need 64 buffers of this size.
    pub transfer_bytes: u64,
    /// All threads on this processor.
    pub cpu: Option<usize>,
    /// Use the page cache.
    pub buffered: bool,
    /// Seed of the content.
    pub seed: u64,
}

/// 256 KiB: a larger transfer saves no drive time, and 64 files need 16 MiB.
pub(crate) const TRANSFER_BYTES: u64 = 256 << 10;
/// Stack of a thread, which needs a few KiB.
const STACK_BYTES: usize = 128 << 10;

/// Why a load failed.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum StressError {
    /// An invalid pattern.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The directory, drive or image cannot be used.
    #[error("{path}: {cause}")]
    Place {
        path: String,
        /// Error of the system.
        #[source]
        cause: io::Error,
    },
    /// The drive or image is too small for all files.
    #[error("{path} is too small for {pattern}: has {len_bytes} bytes, requires {wanted_bytes}")]
    TooSmall {
        /// The drive or image.
        path: String,
        /// Its size.
        len_bytes: u64,
        pattern: String,
        /// The size that the pattern requires.
        wanted_bytes: u64,
    },
    /// An invalid transfer size.
    #[error("invalid transfer size of {0} bytes: must be a multiple of 4096, up to 64 MiB")]
    Transfer(u64),
    /// No such processor, or no right to use it.
    #[error("cannot use processor {cpu}: {cause}")]
    Cpu {
        /// Its number.
        cpu: usize,
        /// Error of the system.
        #[source]
        cause: io::Error,
    },
    /// Cannot start the threads.
    #[error("cannot start a thread per file: {0}")]
    Thread(#[source] io::Error),
}

impl Plan {
    /// A plan for this target, bypassing the page cache, on any processor.
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

/// Writes the files that a reading pattern needs, unless they exist. A writing pattern needs nothing.
pub fn prepare(plan: &Plan, pattern: &Pattern) -> Result<(), StressError> {
    if pattern.direction == Direction::Read && !plan.target.has(pattern) {
        run(plan, &Pattern { direction: Direction::Write, ..pattern.clone() })?;
    }
    Ok(())
}

/// Runs a pattern once. A reading pattern requires files written earlier, by a run or by [`prepare`], with
/// the same seed.
pub fn run(plan: &Plan, pattern: &Pattern) -> Result<Outcome, StressError> {
    plan.check(pattern)?;
    let stretches: Result<Vec<Stretch>, io::Error> =
        (0..pattern.files).map(|number| plan.target.open(pattern, number, plan.buffered)).collect();
    let stretches = stretches.map_err(|e| plan.place(e))?;
    let direct = stretches.iter().all(|stretch| stretch.direct);
    if !direct && pattern.direction == Direction::Read {
        // The page cache would otherwise serve what it holds of the file.
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
    /// Duration per file, from the common start.
    took: Vec<Duration>,
    wrong: u64,
    before: Used,
    after: Used,
    wall_s: f64,
}

/// Runs all threads from a common start.
fn threads(plan: &Plan, pattern: &Pattern, stretches: Vec<Stretch>) -> Result<Ran, StressError> {
    let start = Barrier::new(stretches.len() + 1);
    let (done, ended) = mpsc::channel();
    // If a thread cannot be started, the others would wait for it: then none of them does anything.
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
            // Take the places of threads that never reached the start.
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

/// Binds this thread to one processor.
fn pin(cpu: Option<usize>) -> Result<(), StressError> {
    let Some(cpu) = cpu else { return Ok(()) };
    let refused = |cause| StressError::Cpu { cpu, cause };
    if cpu >= CpuSet::MAX_CPU {
        return Err(refused(io::Error::other("no such processor")));
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
            refused.to_string().ends_with("is too small for 4 × 0.5 MB: has 1048576 bytes, requires 2097152"),
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
