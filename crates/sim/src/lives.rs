//! Lives: the process starts again and again on the same disks; how each life ends is drawn.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use world::{Rng, World};
use world_model::{DiskSpec, Model, Outcome};

use crate::faults::Fault;
use crate::tally::Tally;

/// Most operations of a life.
const STEPS_MAX: u64 = 600;
/// Most persistence points before a power cut: usually within the life.
const POINTS_MAX: u64 = 400;
/// A small cache, so that it overflows and writes reach the medium in pieces.
const CACHE_BYTES: u64 = 256 << 10;

/// The parameters of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct How {
    pub(crate) fault: Fault,
    pub(crate) verbose: bool,
}

/// The planned end of a life.
#[derive(Clone, Copy)]
enum End {
    /// Clean: everything is closed.
    Close,
    /// The process dies, the power stays.
    Die,
    /// Power failure after this many persistence points.
    PowerCut(u64),
}

/// How a life ended, for the shadows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Closed,
    Died,
    PowerCut,
}

/// The parameters of a life.
#[derive(Clone, Default)]
pub(crate) struct Life {
    /// Remaining operations.
    pub(crate) steps: Rc<Cell<u64>>,
    /// Whether it ends cleanly.
    pub(crate) closes: bool,
    /// Whether faults are drawn.
    pub(crate) faults: bool,
    /// Whether redundancy is compared, too, and not only content.
    pub(crate) thorough: bool,
    /// Whether blank disks replace lost ones, beside the workload.
    pub(crate) repairs: bool,
}

impl Life {
    pub(crate) fn of(steps: u64) -> Life {
        Life { steps: Rc::new(Cell::new(steps)), ..Life::default() }
    }
}

/// A stack on disks, with the shadows of its content.
pub(crate) trait Living: Sized + 'static {
    /// Which of its kind.
    type Kind: Copy + Send + Sync;
    /// The shadows, which can be sent to another thread.
    type Known: Clone + Send;

    /// Creates it, in a life of its own.
    fn create(kind: Self::Kind, seed: u64, how: How) -> (Lives, Self);

    /// A stack with these shadows on other disks.
    fn with(kind: Self::Kind, how: How, known: Self::Known) -> Self;

    /// The current shadows.
    fn known(&self) -> Self::Known;

    /// One life: recovers, compares everything, and does its steps.
    async fn life(&self, model: &Model, world: World, life: &Life);

    /// A life ended in this way.
    fn ended(&self, how: Ended);

    /// Loses disks for good: as many as redundancy allows, or one more. Returns whether any was lost.
    fn lose_disks(&self, rng: &mut Rng, beyond: bool) -> bool;

    /// A life after more was lost than redundancy allows: every read is an error or correct.
    async fn life_beyond(&self, model: &Model, world: World);
}

/// The disks of a run, and its history.
pub(crate) struct Lives {
    pub(crate) model: Model,
    rng: Rng,
    tally: Tally,
}

/// The specification of all simulated disks, except their size.
pub(crate) fn disk_spec(len_bytes: u64) -> DiskSpec {
    DiskSpec::new(len_bytes).with_jitter(Duration::from_micros(150)).with_cache_bytes(CACHE_BYTES)
}

impl Lives {
    /// Creates blank disks `d0`, `d1`, ….
    pub(crate) fn new(seed: u64, disks: usize, disk_bytes: u64) -> Lives {
        let model = Model::new(seed);
        for i in 0..disks {
            model.disk(&format!("d{i}"), disk_spec(disk_bytes));
        }
        Lives::on(model)
    }

    /// The disks of this model.
    pub(crate) fn on(model: Model) -> Lives {
        // What the harness itself draws has its own stream: `lives`.
        let rng = Rng::with_seed(model.seed() ^ u64::from_le_bytes(*b"lives\0\0\0"));
        Lives { model, rng, tally: Tally::default() }
    }

    fn draw_end(&mut self) -> End {
        match self.rng.u8(..6) {
            0 => End::Close,
            1 => End::Die,
            _ => End::PowerCut(self.rng.u64(1..=POINTS_MAX)),
        }
    }

    /// Lives until all steps are done.
    pub(crate) fn live(&mut self, living: &impl Living, steps: u64) {
        let mut left = steps;
        while left > 0 {
            let quota = left.min(self.rng.u64(1..=STEPS_MAX));
            let end = self.draw_end();
            let (closes, repairs) = (matches!(end, End::Close), self.rng.bool());
            let told = Life { closes, repairs, faults: true, ..Life::of(quota) };
            if let End::PowerCut(points) = end {
                self.cut_power_in(points);
            }
            self.one_life(living, &told);
            left -= quota - told.steps.get();
        }
    }

    /// Plans a power failure after this many persistence points.
    pub(crate) fn cut_power_in(&self, points: u64) {
        let now = self.model.disks().persistence_points();
        self.model.disks().cut_power_after(now + points);
    }

    /// Returns whether the power failed.
    pub(crate) fn one_life(&mut self, living: &impl Living, told: &Life) -> bool {
        let outcome = self.model.run_until_crash(async |world| living.life(&self.model, world, told).await);
        self.tally.lives += 1;
        match outcome {
            Outcome::PowerCut => {
                self.tally.crashes += 1;
                living.ended(Ended::PowerCut);
                self.model.reboot();
                true
            }
            Outcome::Finished(()) => {
                self.model.disks().keep_power();
                living.ended(if told.closes { Ended::Closed } else { Ended::Died });
                false
            }
        }
    }

    pub(crate) fn tally(&self) -> Tally {
        Tally {
            persistence_points: self.model.disks().persistence_points(),
            digest: self.model.digest(),
            ..self.tally
        }
    }
}
