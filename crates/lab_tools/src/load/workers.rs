//! Any mix against any target: as many tasks as I/Os in flight, in a closed or an open loop.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use anyhow::Result;
use block::Pieces;
use futures::future::try_join_all;
use world::sync::Signal;
use world::{Data, Instant, Rng, World};

use super::access::{Op, Walk};
use super::job::{Arrivals, Job, Pace};
use super::target::Target;
use crate::datastore::Content;

/// How long a worker waits after an I/O that failed at once.
const AFTER_FAILURE: Duration = Duration::from_millis(1);

/// Who counts the I/Os of a worker, and says how long it goes on.
pub trait Counts {
    /// Whether more is to be sent.
    fn is_open(&self, now: Instant) -> bool;

    /// When nothing more is to be sent.
    fn end(&self) -> Instant;

    /// An I/O is sent, which was due then: what was begun and has not completed is in flight.
    fn begun(&mut self, due: Instant);

    /// An I/O ended. Its latency counts from `due` on: when it was sent or, in an open loop, was to be.
    fn completed(&mut self, due: Instant, completed: Instant, op: Op, good: bool);

    /// Blocks that were not as written.
    fn mismatched(&mut self, blocks: u64);

    /// So many were due and never sent.
    fn left_behind(&mut self, unsent: u64);
}

/// What a worker has of its own.
pub struct Own {
    /// When the I/Os of an open loop come.
    pub arrivals: Rng,
    /// Content that tells its place, and that reads are compared with.
    pub verify: Option<Content>,
    /// Where nobody compares: as much as the largest I/O.
    pub data: Data,
}

/// Keeps the job going until who counts says that it ends.
pub async fn run<C: Counts>(
    world: &World,
    target: &Target,
    job: &Job,
    Own { arrivals: rng, verify, data }: Own,
    (walk, counts): (Walk, C),
) -> Result<C> {
    let worker = Worker {
        world,
        target,
        verify,
        data,
        walk: RefCell::new(walk),
        counts: RefCell::new(counts),
        in_flight: Cell::new(0),
        held: Cell::new(false),
        changed: Signal::default(),
    };
    match job.pace {
        Pace::Closed => {
            try_join_all((0..job.outstanding).map(|_| worker.closed())).await?;
        }
        Pace::Open { ios_per_s, arrivals } => {
            let schedule = RefCell::new(Schedule {
                next: world.now(),
                gap_ns: 1e9 * job.workers as f64 / ios_per_s,
                arrivals,
                rest_ns: 0.0,
                rng,
            });
            try_join_all((0..job.outstanding).map(|_| worker.open(&schedule))).await?;
            let unsent = schedule.borrow_mut().due_before(worker.counts.borrow().end());
            worker.counts.borrow_mut().left_behind(unsent);
        }
    }
    Ok(worker.counts.into_inner())
}

struct Worker<'a, C> {
    world: &'a World,
    target: &'a Target,
    verify: Option<Content>,
    data: Data,
    walk: RefCell<Walk>,
    counts: RefCell<C>,
    in_flight: Cell<u32>,
    /// A burst is over and its pause is not: nothing is sent.
    held: Cell<bool>,
    changed: Signal,
}

impl<C: Counts> Worker<'_, C> {
    async fn closed(&self) -> Result<()> {
        while self.counts.borrow().is_open(self.world.now()) {
            if self.held.get() {
                self.changed.wait_for(|| (!self.held.get()).then_some(())).await;
                continue;
            }
            let op = self.walk.borrow_mut().step();
            self.held.set(op.pause.is_some());
            self.in_flight.set(self.in_flight.get() + 1);
            let begun = self.world.now();
            let good = self.one(op, begun).await?;
            if !good && self.world.now() == begun {
                // In virtual time nothing else would ever happen.
                self.world.sleep(AFTER_FAILURE).await;
            }
            self.in_flight.set(self.in_flight.get() - 1);
            if let Some(pause) = op.pause {
                self.changed.wait_for(|| (self.in_flight.get() == 0).then_some(())).await;
                self.world.sleep(pause).await;
                self.held.set(false);
                self.changed.wake_all();
            } else if self.held.get() {
                self.changed.wake_all();
            }
        }
        Ok(())
    }

    async fn open(&self, schedule: &RefCell<Schedule>) -> Result<()> {
        loop {
            let end = self.counts.borrow().end();
            let due = schedule.borrow().next;
            if due >= end || !self.counts.borrow().is_open(self.world.now()) {
                return Ok(());
            }
            schedule.borrow_mut().step();
            self.world.sleep_until(due).await;
            let op = self.walk.borrow_mut().step();
            self.one(op, due).await?;
        }
    }

    /// One I/O, whose latency counts from `due` on. Whether it did not fail.
    async fn one(&self, op: Op, due: Instant) -> Result<bool> {
        self.counts.borrow_mut().begun(due);
        let good = if op.reads {
            let read = self.target.read(op).await?;
            if let (Some(content), Some(found)) = (self.verify, &read) {
                self.compare(content, op, found);
            }
            read.is_some()
        } else {
            let data = match self.verify {
                Some(content) => content.bytes(op.at, op.len).joined(),
                None => self.data.slice(..op.len as usize),
            };
            self.target.write(op, data).await?.is_some()
        };
        self.counts.borrow_mut().completed(due, self.world.now(), op, good);
        Ok(good)
    }

    fn compare(&self, content: Content, op: Op, found: &Pieces) {
        self.counts.borrow_mut().mismatched(content.differences(op.at, &found.joined()));
    }
}

/// The times of an open loop.
struct Schedule {
    next: Instant,
    gap_ns: f64,
    arrivals: Arrivals,
    /// Of the last gap, what is less than a nanosecond: without it a high rate would be another one.
    rest_ns: f64,
    rng: Rng,
}

impl Schedule {
    fn step(&mut self) {
        let gap = match self.arrivals {
            Arrivals::Even => self.gap_ns,
            // The inverse of the exponential distribution; 1 − u is never 0.
            Arrivals::Poisson => -(1.0 - self.rng.f64()).ln() * self.gap_ns,
        } + self.rest_ns;
        self.rest_ns = gap.fract();
        self.next = self.next + Duration::from_nanos(gap as u64);
    }

    /// How many were still to be sent before this time: what the target could not take.
    fn due_before(&mut self, end: Instant) -> u64 {
        let left_ns = (end - self.next).as_nanos() as f64;
        (left_ns / self.gap_ns) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(arrivals: Arrivals, gap_ns: f64) -> Schedule {
        Schedule { next: Instant(0), gap_ns, arrivals, rest_ns: 0.0, rng: Rng::with_seed(1) }
    }

    #[test]
    fn times_keep_their_rate_also_between_nanoseconds() {
        for arrivals in [Arrivals::Even, Arrivals::Poisson] {
            let mut schedule = schedule(arrivals, 3.7);
            (0..100_000).for_each(|_| schedule.step());
            let rate = schedule.next.0 as f64 / 100_000.0;
            let off = if arrivals == Arrivals::Even { 1e-4 } else { 0.05 };
            assert!((rate - 3.7).abs() < off, "{arrivals:?}: {rate}");
        }
    }

    #[test]
    fn what_was_due_and_not_sent_is_counted() {
        let mut schedule = schedule(Arrivals::Even, 1000.0);
        (0..10).for_each(|_| schedule.step());
        assert_eq!(schedule.due_before(Instant(15_500)), 5);
        assert_eq!(schedule.due_before(Instant(9_000)), 0);
    }
}
