//! The model as the harness holds it: the seed, the disks, the links, and one run after another.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;

use world::World;

use crate::core::{Core, Ended};
use crate::disk::Disk;
use crate::disk_spec::DiskSpec;
use crate::fork::{DisksImage, Loss};
use crate::net::Net;
use crate::rack::Disks;
use crate::trace::{Trace, TraceEntry};

/// More polls than any honest step of the array makes while time stands still.
const POLLS_AT_ONE_TIME_MAX: u64 = 1_000_000;

/// How a run that may lose its power came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<T> {
    /// The main future ended.
    Finished(T),
    /// The power was cut; the disks hold what the fault model left on them. [`Model::reboot`] comes next.
    PowerCut,
}

/// The model world of one seed. It outlives the runs in it, and so do its disks.
pub struct Model {
    seed: u64,
    runs: Cell<u64>,
    trace: Rc<Trace>,
    disks: Disks,
    net: Net,
    polls_at_one_time_max: Cell<u64>,
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
        }
    }

    /// A model that goes on from an image of the disks of another one, after this loss, with a seed of its own; its links are new.
    /// What of the unflushed writes survived a loss of power is drawn from the seed.
    pub fn from_image(seed: u64, image: DisksImage, loss: Loss) -> Model {
        Model::with_disks(seed, Disks::from_image(seed, image, loss))
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// A new disk, full of zeros. Code opens it as `DriveSpec::Modelled { name }`. The name must be new.
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

    /// Runs until the future ends. When it has, the process dies: all that it spawned is dropped, and what it had
    /// submitted to drives is still carried out. A power cut panics; see [`Model::run_until_crash`].
    pub fn run<T, F: Future<Output = T>>(&self, main: impl FnOnce(World) -> F) -> T {
        match self.run_until_crash(main) {
            Outcome::Finished(output) => output,
            Outcome::PowerCut => {
                panic!("the power was cut in a run that does not expect it (seed {})", self.seed)
            }
        }
    }

    /// Runs until the future ends or the power is cut.
    pub fn run_until_crash<T, F: Future<Output = T>>(&self, main: impl FnOnce(World) -> F) -> Outcome<T> {
        assert!(self.disks.is_powered(), "the power is off: Model::reboot comes before the next run");
        let _seed = SeedOnPanic(self.seed);
        let run = self.runs.get();
        self.runs.set(run + 1);
        self.trace.record(0, "run", run, self.seed);
        // Every run has its own streams: what a run draws (the identity of a new pool) the next one must not draw again.
        let seed = self.seed.wrapping_add(run.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (trace, polls_max) = (self.trace.clone(), self.polls_at_one_time_max.get());
        let core = Core::new(seed, trace, self.disks.clone(), self.net.clone(), polls_max);
        let ended = core.run(main);
        core.end();
        self.net.end();
        self.trace.record(core.now_ns(), "end", run, 0);
        match ended {
            Ended::Finished(output) => {
                self.disks.process_ended();
                Outcome::Finished(output)
            }
            Ended::PowerCut => {
                self.disks.tear();
                Outcome::PowerCut
            }
        }
    }

    /// The power comes back.
    pub fn reboot(&self) {
        self.disks.power_on();
    }

    /// One number for all that happened so far: every scheduling decision, drive and socket operation with its time.
    pub fn digest(&self) -> u64 {
        self.trace.digest()
    }

    /// From now on the trace is kept as a list, too: to find where two runs of one seed part.
    pub fn keep_trace(&self) {
        self.trace.keep();
    }

    /// The trace since [`Model::keep_trace`].
    pub fn trace(&self) -> Vec<TraceEntry> {
        self.trace.entries()
    }

    /// How many polls may happen while time stands still, before the run is called a spinning one.
    pub fn set_polls_at_one_time_max(&self, polls: u64) {
        self.polls_at_one_time_max.set(polls);
    }
}

impl Drop for Model {
    /// Code under test may leave circles of counted pointers behind when its process dies; they must not keep the disks' content.
    fn drop(&mut self) {
        self.disks.clear();
    }
}

/// Says the seed when a run panics, so that it can be run again.
struct SeedOnPanic(u64);

impl Drop for SeedOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this run of the model had the seed {}", self.0);
        }
    }
}
