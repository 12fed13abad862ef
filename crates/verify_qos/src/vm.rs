//! A virtual machine: it keeps its I/Os in flight and notes when each ended.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use anyhow::{Result, bail};
use array::{LocalSession, Lun};
use block::Pieces;
use scsi::{Request, Status};
use world::sync::Signal;
use world::{Buf, Data, World};

use super::array_nodes::Paths;
use super::hosts::Gate;
use lab_tools::hosts::Disk;
use lab_tools::load::access::{Op, Walk};
use lab_tools::testbed::{self, notice_attentions};

/// How a VM comes to its disk.
#[derive(Clone)]
pub(super) enum Route {
    /// A command that reaches the controller as a value.
    Local(Rc<LocalSession>, Lun),
    /// Over iSCSI.
    Session(Disk),
    /// By the path that is there, of two.
    Paths(Rc<Paths>),
}

impl Route {
    /// Takes notice of what the LU has to say at first.
    pub(super) async fn greet(&self) {
        let Route::Local(session, lun) = self else { return };
        notice_attentions(session, *lun).await;
    }

    async fn execute(&self, op: Op, zeros: &Data, tag: u64) -> Result<()> {
        match self {
            Route::Session(disk) if op.reads => disk.read(op.at, op.len).await.map(drop)?,
            Route::Session(disk) => disk.write(op.at, zeros.slice(..op.len as usize).into()).await?,
            Route::Paths(paths) => paths.execute(|| request(op, zeros, tag)).await?,
            Route::Local(session, lun) => {
                let response = session.execute(*lun, request(op, zeros, tag)).await;
                if response.status != Status::Good {
                    bail!("{op}: the array answered {}", testbed::answer(response.status, &response.sense));
                }
            }
        }
        Ok(())
    }
}

/// The command of an operation.
fn request(op: Op, zeros: &Data, tag: u64) -> Request {
    match op.reads {
        true => testbed::read(op.at, op.len, tag),
        false => testbed::write(op.at, Pieces::from(zeros.slice(..op.len as usize)), tag),
    }
}

/// An I/O that ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Done {
    pub(super) at_ns: u64,
    /// How long it took.
    pub(super) took_ns: u64,
    pub(super) bytes: u64,
}

/// After so many I/Os that took no time, the next one is another step of the world: so somebody who stops the
/// run need not wait until a large cache is full.
const AT_ONCE_MAX: u32 = 1024;

pub(super) struct Vm {
    pub(super) world: World,
    pub(super) route: Route,
    /// Where its requests wait on its host.
    pub(super) gate: Option<Gate>,
    pub(super) walk: RefCell<Walk>,
    pub(super) zeros: Data,
    pub(super) log: RefCell<Vec<Done>>,
    stopped: Cell<bool>,
    still: Cell<bool>,
    changed: Signal,
    pub(super) running: Cell<u32>,
    pub(super) failure: RefCell<Option<String>>,
}

impl Vm {
    /// One that has not begun.
    pub(super) fn new(world: &World, route: Route, walk: Walk, transfer_bytes_max: u64) -> Vm {
        Vm {
            world: world.clone(),
            route,
            gate: None,
            walk: RefCell::new(walk),
            zeros: Buf::shared_zeros(transfer_bytes_max as usize).freeze(),
            log: RefCell::default(),
            stopped: Cell::new(false),
            still: Cell::new(false),
            changed: Signal::default(),
            running: Cell::new(0),
            failure: RefCell::default(),
        }
    }

    /// Begins with so many outstanding.
    pub(super) fn start(self: &Rc<Vm>, outstanding: u16) {
        for number in 0..u64::from(outstanding) {
            let vm = self.clone();
            vm.running.set(vm.running.get() + 1);
            self.world.spawn(async move {
                if let Err(error) = vm.go_on(number).await {
                    vm.failure.borrow_mut().get_or_insert(error.to_string());
                }
                vm.running.set(vm.running.get() - 1);
            });
        }
    }

    /// Ends it, after the I/Os in flight.
    pub(super) fn stop(&self) {
        self.stopped.set(true);
        self.changed.wake_all();
    }

    /// From now on it does nothing, or what it did.
    pub(super) fn stand_still(&self, still: bool) {
        self.still.set(still);
        self.changed.wake_all();
    }

    /// What failed, if anything did.
    pub(super) fn check(&self) -> Result<()> {
        match &*self.failure.borrow() {
            Some(failure) => bail!("{failure}"),
            None => Ok(()),
        }
    }

    async fn go_on(&self, number: u64) -> Result<()> {
        let mut at_once = 0_u32;
        // Tags of one nexus differ between its tasks; each has one command at a time.
        let tag = number + 2;
        let may_go = || (self.stopped.get() || !self.still.get()).then_some(());
        while !self.stopped.get() {
            if self.still.get() {
                self.changed.wait_for(may_go).await;
                continue;
            }
            let op = self.walk.borrow_mut().step();
            let due = self.world.now();
            let admitted = match &self.gate {
                Some(gate) => Some(gate.admit(op.len).await),
                None => None,
            };
            self.route.execute(op, &self.zeros, tag).await?;
            if let Some(admitted) = admitted {
                admitted.done();
            }
            let now = self.world.now();
            at_once = if now == due { at_once + 1 } else { 0 };
            if at_once == AT_ONCE_MAX {
                // A cache takes writes in no time of the model as long as it has room.
                at_once = 0;
                world::yield_now().await;
            }
            self.log.borrow_mut().push(Done {
                at_ns: now.0,
                took_ns: now.since(due).as_nanos() as u64,
                bytes: op.len,
            });
        }
        Ok(())
    }
}
