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

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use world::World;
use world::sync::Signal;

use crate::core::Core;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Runs,
    Paused,
    Dead,
}

/// Whether a task of a machine may take its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Goes,
    /// The machine is paused.
    Waits,
    /// The machine is dead, or has to die now.
    Ends,
}

type Check = Rc<dyn Fn() -> bool>;

/// A machine as its tasks and drives know it.
pub(crate) struct State {
    name: String,
    life: Cell<Life>,
    /// Of tasks that were woken while it was paused.
    woken: RefCell<Vec<Waker>>,
    check: RefCell<Option<Check>>,
    delay_ns: Cell<u64>,
    died: Signal,
}

impl State {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.life.get() == Life::Dead
    }

    /// From a submission to its arrival at the drive.
    pub(crate) fn delay_ns(&self) -> u64 {
        self.delay_ns.get()
    }

    /// Asked before each step of a task; `waker` comes again when the machine is resumed.
    pub(crate) fn turn(&self, waker: &Waker) -> Turn {
        match self.life.get() {
            Life::Dead => Turn::Ends,
            Life::Paused => {
                self.woken.borrow_mut().push(waker.clone());
                Turn::Waits
            }
            Life::Runs => {
                let check = self.check.borrow().clone();
                if check.is_none_or(|check| check()) { Turn::Goes } else { Turn::Ends }
            }
        }
    }

    /// Its tasks are to be dropped by the caller.
    pub(crate) fn die(&self) {
        self.life.set(Life::Dead);
        self.forget();
        self.died.wake_all();
    }

    /// Takes apart what may hold the world, which holds this.
    pub(crate) fn forget(&self) {
        let held = (self.check.take(), self.woken.take());
        drop(held);
    }
}

/// A machine for the harness, within one run. Another life of it is another `Machine`.
#[derive(Clone)]
pub struct Machine {
    core: Rc<Core>,
    state: Rc<State>,
}

impl Machine {
    pub(crate) fn new(core: Rc<Core>, name: &str) -> Machine {
        let state = Rc::new(State {
            name: name.to_owned(),
            life: Cell::new(Life::Runs),
            woken: RefCell::default(),
            check: RefCell::default(),
            delay_ns: Cell::new(0),
            died: Signal::default(),
        });
        core.know(&state);
        Machine { core, state }
    }

    /// The world of the code on it.
    pub fn world(&self) -> World {
        self.core.world(Some(self.state.clone()))
    }

    /// Its process dies at once.
    pub fn kill(&self) {
        self.core.kill(&self.state);
    }

    /// Before each step of a task `check` is asked; when it says no, the process dies. This is the guard that
    /// a process has against its own past: a comparison with a clock before whatever leaves it.
    pub fn dies_unless(&self, check: impl Fn() -> bool + 'static) {
        if !self.state.is_dead() {
            *self.state.check.borrow_mut() = Some(Rc::new(check));
        }
    }

    /// Whether it is dead.
    pub fn is_dead(&self) -> bool {
        self.state.is_dead()
    }

    /// Returns when it is dead.
    pub async fn dead(&self) {
        self.state.died.wait_for(|| self.state.is_dead().then_some(())).await;
    }

    /// Stops it where it stands.
    pub fn pause(&self) {
        if !self.state.is_dead() {
            self.state.life.set(Life::Paused);
        }
    }

    /// It goes on.
    pub fn resume(&self) {
        if self.state.life.get() == Life::Paused {
            self.state.life.set(Life::Runs);
            self.state.woken.take().into_iter().for_each(Waker::wake);
        }
    }

    /// What it submits to drives from now on arrives there after this time; zero: at once.
    pub fn set_way_to_storage(&self, time: Duration) {
        self.state.delay_ns.set(time.as_nanos() as u64);
    }
}
