//! Forks. At a persistence point of a run, an image of the disks and of the shadows is taken. In a model of
//! its own the power is cut there, possibly with a loss of drives, and the array recovers and is compared. So
//! a workload runs once, and not once for each of its points.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, PoisonError};

use world::Rng;
use world_model::{DisksImage, Loss, Model};

use crate::lives::{Ended, How, Life, Lives, Living};
use crate::tally::Tally;

/// Threads that recover forks: the cores of the smallest machine in use.
pub(crate) const THREADS: usize = 2;
/// Forks that wait for a thread: few, because each keeps what later writes replace.
const QUEUE: usize = 16;
/// A second power cut comes within this many persistence points after the first: within most recoveries.
const SECOND_CUT_MAX: u64 = 40;
/// One fork in this many is cut again while it recovers.
const SECOND_CUT_ONE_IN: u8 = 3;
/// One fork in this many that lost drives gets blank ones, and rebuilds.
const REPAIR_ONE_IN: u8 = 3;
/// A multiplier for seeds: 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The event at a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blow {
    /// Power failure.
    Power,
    /// Death of the process.
    Process,
    /// Power failure, with the loss of as many drives as redundancy allows.
    PowerAndDrives,
    /// Power failure, with the loss of one drive more.
    Beyond,
}

/// One moment of a run.
pub(crate) struct Fork<K> {
    image: DisksImage,
    known: K,
    point: u64,
    seed: u64,
}

/// The seed of a fork: from the run's seed, the point and the event.
fn seed_at(seed: u64, point: u64, blow: Blow) -> u64 {
    (seed ^ point.wrapping_mul(GOLDEN)).wrapping_mul(4).wrapping_add(blow as u64).wrapping_mul(GOLDEN)
}

impl<K: Clone + Send> Fork<K> {
    /// Takes a fork.
    fn of<L: Living<Known = K>>(disks: &world_model::Disks, living: &L, point: u64, seed: u64) -> Fork<K> {
        Fork { image: disks.image(), known: living.known(), point, seed }
    }

    /// Applies the event, recovers and compares; sometimes repeats that; then continues for `steps`
    /// operations.
    fn strike<L: Living<Known = K>>(&self, kind: L::Kind, how: How, blow: Blow, steps: u64) -> Tally {
        let seed = seed_at(self.seed, self.point, blow);
        let mut rng = Rng::with_seed(seed);
        let loss = if blow == Blow::Process { Loss::Process } else { Loss::Power };
        let model = Model::from_image(seed, self.image.clone(), loss);
        let living = L::with(kind, how, self.known.clone());
        if how.verbose {
            eprintln!("{blow:?} after persistence point {}, seed {seed}", self.point);
        }
        living.ended(if blow == Blow::Process { Ended::Died } else { Ended::PowerCut });
        let lost = match blow {
            Blow::Power | Blow::Process => false,
            Blow::PowerAndDrives | Blow::Beyond => living.lose_disks(&mut rng, blow == Blow::Beyond),
        };
        let mut lives = Lives::on(model);
        if blow == Blow::Beyond {
            lives.model.run(async |world| living.life_beyond(&lives.model, world).await);
            return Tally { crashes: 1, persistence_points: 0, ..lives.tally() };
        }
        let repairs = lost && rng.u8(..REPAIR_ONE_IN) == 0;
        let mut crashes = 1;
        if rng.u8(..SECOND_CUT_ONE_IN) == 0 {
            lives.cut_power_in(rng.u64(1..=SECOND_CUT_MAX));
            crashes +=
                u64::from(lives.one_life(&living, &Life { repairs, thorough: true, ..Life::of(steps) }));
        }
        lives.one_life(&living, &Life { repairs, thorough: true, ..Life::of(steps) });
        // A final comparison of what the recovery left.
        if repairs || steps > 0 {
            lives.one_life(&living, &Life { thorough: true, ..Life::of(0) });
        }
        Tally { crashes, persistence_points: 0, ..lives.tally() }
    }

    /// The same; on failure prints how to reproduce it.
    fn strike_named<L: Living<Known = K>>(&self, kind: L::Kind, how: How, blow: Blow, steps: u64) -> Tally {
        match catch_unwind(AssertUnwindSafe(|| self.strike::<L>(kind, how, blow, steps))) {
            Ok(tally) => tally,
            Err(panic) => {
                eprintln!("seed {}, {blow:?} after persistence point {}", self.seed, self.point);
                std::panic::resume_unwind(panic)
            }
        }
    }
}

/// The state of a group while the workload runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Optimal,
    /// Degraded: drives were lost before.
    Degraded,
    /// Rebuilding: blank drives were assigned, and are rebuilt beside the workload.
    Rebuilding,
}

/// Operations before drives are lost.
const BEFORE_STEPS: u64 = 100;

/// Creates a life of this phase; `None` if no drive can be lost.
fn begin<L: Living>(kind: L::Kind, seed: u64, how: How, phase: Phase) -> Option<(Lives, Rc<L>)> {
    let (mut lives, living) = L::create(kind, seed, how);
    if phase != Phase::Optimal {
        // Write and flush data first.
        lives.one_life(&living, &Life { closes: true, ..Life::of(BEFORE_STEPS) });
        if !living.lose_disks(&mut Rng::with_seed(seed), false) {
            return None;
        }
    }
    Some((lives, Rc::new(living)))
}

/// At which persistence points of a workload to fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Points {
    /// At one in this many; 1 is every point.
    OneIn(u64),
    /// At this point.
    Only(u64),
}

impl Points {
    fn has(self, point: u64) -> bool {
        match self {
            Points::OneIn(n) => point.is_multiple_of(n.max(1)),
            Points::Only(only) => only == point,
        }
    }
}

impl fmt::Display for Points {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Points::OneIn(1) => f.write_str("all"),
            Points::OneIn(n) => write!(f, "one in {n}"),
            Points::Only(point) => write!(f, "number {point} alone"),
        }
    }
}

/// Forks a workload at its persistence points, with every event that must be survived.
pub(crate) fn every_point<L: Living>(
    kind: L::Kind,
    seed: u64,
    steps: u64,
    phase: Phase,
    points: Points,
) -> Option<Tally> {
    let (send, receive) = sync_channel::<Fork<L::Known>>(QUEUE);
    let (receive, failed) = (Mutex::new(receive), AtomicBool::new(false));
    let failed = &failed;
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..THREADS).map(|_| scope.spawn(|| strike_all::<L>(kind, &receive, failed))).collect();
        let (mut lives, living) = begin::<L>(kind, seed, How::default(), phase)?;
        let (disks, watched) = (lives.model.disks().clone(), living.clone());
        lives.model.disks().watch_points(move |point| {
            if points.has(point) {
                // No thread receives any more if all have failed; they print why.
                let _ = send.send(Fork::of(&disks, &*watched, point, seed));
            }
        });
        let before = lives.model.disks().persistence_points();
        lives.one_life(&*living, &Life { repairs: phase == Phase::Rebuilding, ..Life::of(steps) });
        lives.model.disks().unwatch();
        let run = lives.tally();
        let mut all = Tally { persistence_points: run.persistence_points - before, ..Tally::default() };
        for thread in threads {
            match thread.join() {
                Ok(tally) => all.add(tally),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all.digest = all.digest.wrapping_add(run.digest);
        Some(all)
    })
}

/// Runs all forks from the channel, with every event.
fn strike_all<L: Living>(
    kind: L::Kind,
    receive: &Mutex<Receiver<Fork<L::Known>>>,
    failed: &AtomicBool,
) -> Tally {
    let mut all = Tally::default();
    loop {
        let next = receive.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(fork) = next else { return all };
        if failed.load(Ordering::Relaxed) {
            continue;
        }
        for blow in [Blow::Power, Blow::PowerAndDrives] {
            let _failing = FailsUnless(failed);
            all.add(fork.strike_named::<L>(kind, How::default(), blow, 0));
        }
    }
}

/// Tells the other threads when this one fails.
struct FailsUnless<'a>(&'a AtomicBool);

impl Drop for FailsUnless<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// Most forks of a round …
const FORKS_MAX: usize = 24;
/// … at one persistence point in this many, on average: the forks are spread over the workload.
const FORK_ONE_IN: u64 = 12;
/// Most operations of a round's workload.
const ROUND_STEPS_MAX: u64 = 200;
/// Most operations after a fork.
const FORK_STEPS_MAX: u64 = 30;

/// One round of random crashes: a workload in a random phase, with random events at random points.
pub(crate) fn round<L: Living>(kind: L::Kind, seed: u64, how: How) -> Tally {
    let mut rng = Rng::with_seed(seed.wrapping_mul(GOLDEN));
    let phase = [Phase::Optimal, Phase::Optimal, Phase::Degraded, Phase::Rebuilding][rng.usize(..4)];
    let begun = begin::<L>(kind, seed, how, phase);
    let (phase, (mut lives, living)) = match begun {
        Some(begun) => (phase, begun),
        None => (Phase::Optimal, begin::<L>(kind, seed, how, Phase::Optimal).expect("it is whole")),
    };
    if how.verbose {
        eprintln!("{phase:?}");
    }
    let forks = Rc::new(RefCell::new(Vec::new()));
    let (disks, watched, taken) = (lives.model.disks().clone(), living.clone(), forks.clone());
    let next = Cell::new(disks.persistence_points() + rng.u64(1..=2 * FORK_ONE_IN));
    let mut gaps = rng.fork();
    let gap = RefCell::new(move || gaps.u64(1..=2 * FORK_ONE_IN));
    lives.model.disks().watch_points(move |point| {
        if point >= next.get() && taken.borrow().len() < FORKS_MAX {
            next.set(point + (gap.borrow_mut())());
            taken.borrow_mut().push(Fork::of(&disks, &*watched, point, seed));
        }
    });
    let steps = rng.u64(1..=ROUND_STEPS_MAX);
    lives.one_life(&*living, &Life { repairs: phase == Phase::Rebuilding, faults: true, ..Life::of(steps) });
    lives.model.disks().unwatch();
    let mut all = Tally { digest: lives.model.digest(), ..Tally::default() };
    for fork in forks.take() {
        let blow = match rng.u8(..16) {
            0..7 => Blow::Power,
            7..9 => Blow::Process,
            9..15 => Blow::PowerAndDrives,
            _ => Blow::Beyond,
        };
        all.add(fork.strike_named::<L>(kind, how, blow, rng.u64(..=FORK_STEPS_MAX)));
    }
    all
}
