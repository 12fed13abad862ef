//! One life of the process after another, on the same disks; how each ends is drawn.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use world::{Drive, DriveSpec, Rng, World};
use world_model::{DiskSpec, Model, Outcome};

use super::Tally;

/// A life does at most so many operations.
const STEPS_MAX: u64 = 600;
/// When the power is cut, it is after at most so many persistence points: within the life, most often.
const POINTS_MAX: u64 = 400;
/// A small cache, so that it runs over and writes reach the medium in pieces.
const CACHE_BYTES: u64 = 256 << 10;

/// How one life is to end.
#[derive(Clone, Copy)]
enum End {
    /// In order: everything is closed.
    Close,
    /// The process dies, the power stays.
    Die,
    /// The power is cut after so many persistence points.
    PowerCut(u64),
}

/// How one life has ended, as the shadows are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Closed,
    Died,
    PowerCut,
}

/// What one life is told.
pub(crate) struct Life {
    /// How many operations are left to do; each takes one.
    pub(crate) steps: Rc<Cell<u64>>,
    /// Whether it ends in order.
    pub(crate) closes: bool,
}

/// The disks of a run, and what it has lived through.
pub(crate) struct Lives {
    pub(crate) model: Model,
    rng: Rng,
    tally: Tally,
}

/// Opens the disks `d0`, `d1`, … .
pub(crate) fn open_drives(world: &World, count: usize) -> Vec<Drive> {
    let open =
        |i| world.open_drive(&DriveSpec::Modelled { name: format!("d{i}") }).expect("the disk is there");
    (0..count).map(open).collect()
}

impl Lives {
    pub(crate) fn new(seed: u64, disks: usize, disk_bytes: u64) -> Lives {
        let model = Model::new(seed);
        for i in 0..disks {
            let spec = DiskSpec::new(disk_bytes).with_jitter(Duration::from_micros(150));
            model.disk(&format!("d{i}"), spec.with_cache_bytes(CACHE_BYTES));
        }
        // What the harness itself draws has its own stream: `lives`.
        Lives {
            model,
            rng: Rng::with_seed(seed ^ u64::from_le_bytes(*b"lives\0\0\0")),
            tally: Tally::default(),
        }
    }

    fn draw_end(&mut self) -> End {
        match self.rng.u8(..6) {
            0 => End::Close,
            1 => End::Die,
            _ => End::PowerCut(self.rng.u64(1..=POINTS_MAX)),
        }
    }

    /// Lives until all steps are done. `ended` brings the shadows up to date.
    pub(crate) fn live(
        mut self,
        steps: u64,
        life: impl AsyncFn(&Model, World, &Life),
        ended: impl Fn(Ended),
    ) -> Tally {
        let mut left = steps;
        while left > 0 {
            let quota = left.min(self.rng.u64(1..=STEPS_MAX));
            let end = self.draw_end();
            let told = Life { steps: Rc::new(Cell::new(quota)), closes: matches!(end, End::Close) };
            if let End::PowerCut(points) = end {
                let now = self.model.disks().persistence_points();
                self.model.disks().cut_power_after(now + points);
            }
            self.one_life(&told, &life, &ended);
            left -= quota - told.steps.get();
        }
        self.tally()
    }

    /// Cuts the power after the `point`-th persistence point of a life, if it has so many; then a life in peace looks at
    /// what is left. Returns whether it came so far.
    pub(crate) fn crash_at(
        &mut self,
        point: u64,
        steps: u64,
        life: impl AsyncFn(&Model, World, &Life),
        ended: impl Fn(Ended),
    ) -> bool {
        let now = self.model.disks().persistence_points();
        self.model.disks().cut_power_after(now + point);
        let told = |steps| Life { steps: Rc::new(Cell::new(steps)), closes: false };
        let crashed = self.one_life(&told(steps), &life, &ended);
        self.one_life(&told(0), &life, &ended);
        crashed
    }

    fn one_life(
        &mut self,
        told: &Life,
        life: impl AsyncFn(&Model, World, &Life),
        ended: impl Fn(Ended),
    ) -> bool {
        let outcome = self.model.run_until_crash(async |world| life(&self.model, world, told).await);
        self.tally.lives += 1;
        match outcome {
            Outcome::PowerCut => {
                self.tally.crashes += 1;
                ended(Ended::PowerCut);
                self.model.reboot();
                true
            }
            Outcome::Finished(()) => {
                self.model.disks().keep_power();
                ended(if told.closes { Ended::Closed } else { Ended::Died });
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
