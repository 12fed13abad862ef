//! The process of a machine, as its tasks and its drives know it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use world::sync::Signal;

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

/// Asked before each step.
pub(crate) type Check = Rc<dyn Fn() -> bool>;

/// The process of a machine.
pub(crate) struct Process {
    name: String,
    life: Cell<Life>,
    /// Of tasks that were woken while it was paused.
    woken: RefCell<Vec<Waker>>,
    check: RefCell<Option<Check>>,
    delay_ns: Cell<u64>,
    died: Signal,
}

impl Process {
    pub(crate) fn new(name: &str) -> Rc<Process> {
        Rc::new(Process {
            name: name.to_owned(),
            life: Cell::new(Life::Runs),
            woken: RefCell::default(),
            check: RefCell::default(),
            delay_ns: Cell::new(0),
            died: Signal::default(),
        })
    }

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

    pub(crate) fn dies_unless(&self, check: Check) {
        if !self.is_dead() {
            *self.check.borrow_mut() = Some(check);
        }
    }

    pub(crate) fn pause(&self) {
        if !self.is_dead() {
            self.life.set(Life::Paused);
        }
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.life.get() == Life::Paused
    }

    pub(crate) fn resume(&self) {
        if self.life.get() == Life::Paused {
            self.life.set(Life::Runs);
            self.woken.take().into_iter().for_each(Waker::wake);
        }
    }

    pub(crate) fn set_delay(&self, time: Duration) {
        self.delay_ns.set(time.as_nanos() as u64);
    }

    /// Returns when it is dead.
    pub(crate) async fn dead(&self) {
        self.died.wait_for(|| self.is_dead().then_some(())).await;
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
