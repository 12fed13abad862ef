//! The model for the harness: seed, disks, links, and successive runs.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::{Rc, Weak};

use world::World;

use crate::core::{Core, Ended};
use crate::disk::Disk;
use crate::disk_spec::DiskSpec;
use crate::fork::{DisksImage, Loss};
use crate::machine::Machine;
use crate::net::Net;
use crate::rack::Disks;
use crate::trace::{Trace, TraceEntry};

/// More polls than any honest step of the array makes while time stands still.
const POLLS_AT_ONE_TIME_MAX: u64 = 1_000_000;

/// How a run ended that allows a power failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// The main future ended.
    Finished(T),
    /// The power failed; the disks hold what the fault model left. Call [`Model::reboot`] next.
    PowerCut,
}

/// The model world of one seed. It outlives its runs, and so do its disks.
pub struct Model {
    seed: u64,
    runs: Cell<u64>,
    trace: Rc<Trace>,
    disks: Disks,
    net: Net,
    polls_at_one_time_max: Cell<u64>,
    /// The run.
    core: RefCell<Weak<Core>>,
}

impl Model {
    /// A model with no disks.
    pub fn new(seed: u64) -> Model {
        Model::with_disks(seed, Disks::new(seed))
    }

    fn with_disks(seed: u64, disks: Disks) -> Model {
        Model {
            seed,
            runs: Cell::new(0),
            trace: Rc::default(),
            disks,
            net: Net::default(),
            polls_at_one_time_max: Cell::new(POLLS_AT_ONE_TIME_MAX),
            core: RefCell::default(),
        }
    }

    /// A model that continues from an image of another model's disks, after this loss, with its own seed and
    /// new links. The seed decides which unflushed writes survive a power failure.
    pub fn from_image(seed: u64, image: DisksImage, loss: Loss) -> Model {
        Model::with_disks(seed, Disks::from_image(seed, image, loss))
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Adds a disk of zeros. Code opens it as `DriveSpec::Modelled { name }`. Panics if the name exists.
    pub fn disk(&self, name: &str, spec: DiskSpec) -> Disk {
        self.disks.add(name, spec)
    }

    /// All disks together: their power and their persistence points.
    pub fn disks(&self) -> &Disks {
        &self.disks
    }

    /// The links between sockets: their speed and their faults.
    pub fn net(&self) -> &Net {
        &self.net
    }

    /// Runs until the future ends. Then the process dies: all spawned tasks are dropped, and submitted drive
    /// operations are still carried out. Panics at a power failure; see [`Model::run_until_crash`].
    pub fn run<T, F: Future<Output = T>>(&self, main: impl FnOnce(World) -> F) -> T {
        match self.run_until_crash(main) {
            Outcome::Finished(output) => output,
            Outcome::PowerCut => {
                panic!("unexpected power failure in this run (seed {})", self.seed)
            }
        }
    }

    /// Runs until the future ends, as [`Model::run`], or until nobody wants its end any more: then gives
    /// nothing, and the process has died where it was. `is_wanted` is asked every some thousand steps.
    pub fn run_while<T, F: Future<Output = T>>(
        &self,
        is_wanted: impl Fn() -> bool,
        main: impl FnOnce(World) -> F,
    ) -> Option<T> {
        match self.run_to_its_end(main, &is_wanted)? {
            Outcome::Finished(output) => Some(output),
            Outcome::PowerCut => {
                panic!("unexpected power failure in this run (seed {})", self.seed)
            }
        }
    }

    /// Runs until the future ends or the power fails.
    pub fn run_until_crash<T, F: Future<Output = T>>(&self, main: impl FnOnce(World) -> F) -> Outcome<T> {
        self.run_to_its_end(main, &|| true).expect("its end is wanted")
    }

    fn run_to_its_end<T, F: Future<Output = T>>(
        &self,
        main: impl FnOnce(World) -> F,
        is_wanted: &dyn Fn() -> bool,
    ) -> Option<Outcome<T>> {
        assert!(self.disks.is_powered(), "the power is off; call Model::reboot before the next run");
        let _seed = SeedOnPanic(self.seed);
        let run = self.runs.get();
        self.runs.set(run + 1);
        self.trace.record(0, "run", run, self.seed);
        // Every run has its own streams: a run must not draw again what an earlier one drew (the identity of
        // a new pool).
        let seed = self.seed.wrapping_add(run.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (trace, polls_max) = (self.trace.clone(), self.polls_at_one_time_max.get());
        let core = Core::new(seed, trace, self.disks.clone(), self.net.clone(), polls_max);
        *self.core.borrow_mut() = Rc::downgrade(&core);
        let ended = core.run(main, is_wanted);
        core.end();
        self.net.end();
        self.trace.record(core.now_ns(), "end", run, 0);
        match ended {
            Ended::Finished(output) => {
                self.disks.process_ended();
                Some(Outcome::Finished(output))
            }
            Ended::PowerCut => {
                self.disks.tear();
                Some(Outcome::PowerCut)
            }
            Ended::Abandoned => {
                self.disks.process_ended();
                None
            }
        }
    }

    /// A machine with a process of its own in the current run; its name is for messages. Panics outside of a
    /// run.
    pub fn machine(&self, name: &str) -> Machine {
        let core = self.core.borrow().upgrade().expect("machines are made within a run");
        Machine::new(core, name)
    }

    /// Restores the power.
    pub fn reboot(&self) {
        self.disks.power_on();
    }

    /// A digest of the history: every scheduling decision, drive and socket operation with its time.
    pub fn digest(&self) -> u64 {
        self.trace.digest()
    }

    /// Also keeps the trace as a list, to find where two runs of one seed diverge.
    pub fn keep_trace(&self) {
        self.trace.keep();
    }

    /// The trace since [`Model::keep_trace`].
    pub fn trace(&self) -> Vec<TraceEntry> {
        self.trace.entries()
    }

    /// The limit of polls without progress of time, before the run panics.
    pub fn set_polls_at_one_time_max(&self, polls: u64) {
        self.polls_at_one_time_max.set(polls);
    }
}

impl Drop for Model {
    /// Code under test may leave reference cycles behind; they must not keep the disks' content.
    fn drop(&mut self) {
        self.disks.clear();
    }
}

/// Prints the seed when a run panics, so that it can be repeated.
struct SeedOnPanic(u64);

impl Drop for SeedOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed of this model run: {}", self.0);
        }
    }
}
