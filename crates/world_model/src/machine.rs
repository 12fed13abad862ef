//! Machines of a run, each with one process: its tasks stand still or end together, and the drives that it
//! opens can be taken from it.
//!
//! **Dead**: its tasks are dropped, its connections reset. What it had submitted to drives is carried out,
//! and it keeps their locks: storage does not see that a process has died.
//!
//! **Paused** (SIGSTOP, a virtual machine that is not scheduled): none of its tasks takes a step, time goes
//! on, and connections stay as they are. When it is resumed it goes on where it stood.
//!
//! **Fenced**: drives are open for one machine at a time. [`world::World::fence`] takes a drive from whoever
//! has it: operations that reach the drive later fail with [`world::DriveError::Gone`] and change nothing,
//! also those that were submitted before and were slow on their way ([`Machine::set_way_to_storage`]).

use std::rc::Rc;
use std::time::Duration;

use world::World;

use crate::core::{self, Core};
use crate::process::Process;

/// A machine for the harness, within one run. Another life of it is another `Machine`.
#[derive(Clone)]
pub struct Machine {
    core: Rc<Core>,
    process: Rc<Process>,
}

impl Machine {
    pub(crate) fn new(core: Rc<Core>, name: &str) -> Machine {
        let process = Process::new(name);
        core.know(&process);
        Machine { core, process }
    }

    /// The world of the code on it.
    pub fn world(&self) -> World {
        self.core.world(Some(self.process.clone()))
    }

    /// A thread of its process.
    pub fn thread(&self) -> Thread {
        Thread { machine: self.clone(), tasks: Rc::default() }
    }

    /// Its process dies at once.
    pub fn kill(&self) {
        self.core.kill(&self.process);
    }

    /// Before each step of a task `check` is asked; when it says no, the process dies. This is the guard that
    /// a process has against its own past: a comparison with a clock before whatever leaves it.
    pub fn dies_unless(&self, check: impl Fn() -> bool + 'static) {
        self.process.dies_unless(Rc::new(check));
    }

    /// Whether it is dead.
    pub fn is_dead(&self) -> bool {
        self.process.is_dead()
    }

    /// Returns when it is dead.
    pub async fn dead(&self) {
        self.process.dead().await;
    }

    /// Whether it stands still.
    pub fn is_paused(&self) -> bool {
        self.process.is_paused()
    }

    /// Stops it where it stands.
    pub fn pause(&self) {
        self.process.pause();
    }

    /// It goes on.
    pub fn resume(&self) {
        self.process.resume();
    }

    /// What it submits to drives from now on arrives there after this time; zero: at once.
    pub fn set_way_to_storage(&self, time: Duration) {
        self.process.set_delay(time);
    }
}

/// A thread of a machine's process, with an executor of its own.
pub struct Thread {
    machine: Machine,
    tasks: Rc<core::Thread>,
}

impl Thread {
    /// The world of the code on it.
    pub fn world(&self) -> World {
        self.machine.core.world_of_thread(&self.machine.process, &self.tasks)
    }

    /// It ends: what it has spawned is dropped, and the drives that only its tasks have open are closed. To
    /// be called from outside of it.
    pub fn end(self) {
        self.machine.core.end_thread(&self.tasks);
    }
}
