//! A virtual machine: it keeps its I/Os in flight and notes when each ended.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use anyhow::{Result, bail};
use array::{LocalSession, Lun};
use block::Pieces;
use scsi::{Request, Status, TaskAttribute};
use world::{Buf, Data, World};

use super::node::Node;
use crate::hosts::Disk;
use crate::load::access::{Op, Walk};

/// READ(16) and WRITE(16), SBC-4.
const READ_16: u8 = 0x88;
const WRITE_16: u8 = 0x8a;
const BLOCK_BYTES: u64 = 512;
/// A LU has a few things to say at first, and then no more (SPC-5 5.14).
const ATTENTIONS_MAX: usize = 8;

/// How a VM comes to its disk.
#[derive(Clone)]
pub(super) enum Route {
    /// A command that reaches the controller as a value.
    Local(Rc<LocalSession>, Lun),
    /// Over iSCSI.
    Session(Disk),
}

impl Route {
    /// Takes notice of what the LU has to say at first.
    pub(super) async fn greet(&self) {
        let Route::Local(session, lun) = self else { return };
        for _ in 0..ATTENTIONS_MAX {
            if session.execute(*lun, request([0; 16], Pieces::new(), 0, 1)).await.status == Status::Good {
                return;
            }
        }
    }

    async fn execute(&self, op: Op, zeros: &Data, tag: u64) -> Result<()> {
        match self {
            Route::Session(disk) if op.reads => disk.read(op.at, op.len).await.map(drop)?,
            Route::Session(disk) => disk.write(op.at, zeros.slice(..op.len as usize).into()).await?,
            Route::Local(session, lun) => {
                let mut cdb = [0; 16];
                cdb[0] = if op.reads { READ_16 } else { WRITE_16 };
                cdb[2..10].copy_from_slice(&(op.at / BLOCK_BYTES).to_be_bytes());
                cdb[10..14].copy_from_slice(&((op.len / BLOCK_BYTES) as u32).to_be_bytes());
                let (out, most) = match op.reads {
                    true => (Pieces::new(), op.len as u32),
                    false => (Pieces::from(zeros.slice(..op.len as usize)), 0),
                };
                let response = session.execute(*lun, request(cdb, out, most, tag)).await;
                if response.status != Status::Good {
                    bail!("{op:?}: the array answered {:?}, sense {:02x?}", response.status, response.sense);
                }
            }
        }
        Ok(())
    }
}

fn request(cdb: [u8; 16], data_out: Pieces, data_in_max: u32, tag: u64) -> Request {
    Request { cdb, attribute: TaskAttribute::Simple, data_out, data_in_max, tag }
}

/// An I/O that ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Done {
    /// When.
    pub(super) at_ns: u64,
    /// How long it took.
    pub(super) took_ns: u64,
    pub(super) bytes: u64,
}

/// One VM.
pub(super) struct Vm {
    pub(super) world: World,
    pub(super) route: Route,
    /// The scheduler of the node that it is on, and its number there.
    pub(super) node: Option<(Rc<Node>, usize)>,
    pub(super) walk: RefCell<Walk>,
    pub(super) zeros: Data,
    pub(super) log: RefCell<Vec<Done>>,
    pub(super) stopped: Cell<bool>,
    pub(super) running: Cell<u32>,
    pub(super) failure: RefCell<Option<String>>,
}

impl Vm {
    /// One that has not begun.
    pub(super) fn new(world: &World, route: Route, walk: Walk, transfer_bytes_max: u64) -> Vm {
        Vm {
            world: world.clone(),
            route,
            node: None,
            walk: RefCell::new(walk),
            zeros: Buf::shared_zeros(transfer_bytes_max as usize).freeze(),
            log: RefCell::default(),
            stopped: Cell::new(false),
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

    /// What failed, if anything did.
    pub(super) fn check(&self) -> Result<()> {
        match &*self.failure.borrow() {
            Some(failure) => bail!("{failure}"),
            None => Ok(()),
        }
    }

    async fn go_on(&self, number: u64) -> Result<()> {
        // Tags of one nexus differ between its tasks; each has one command at a time.
        let tag = number + 2;
        while !self.stopped.get() {
            let op = self.walk.borrow_mut().step();
            let due = self.world.now();
            match &self.node {
                Some((node, vm)) => {
                    let admitted = node.admit(*vm, op.len).await;
                    let served = self.route.execute(op, &self.zeros, tag).await;
                    node.done(admitted);
                    served?;
                }
                None => self.route.execute(op, &self.zeros, tag).await?,
            }
            let now = self.world.now();
            self.log.borrow_mut().push(Done {
                at_ns: now.0,
                took_ns: now.since(due).as_nanos() as u64,
                bytes: op.len,
            });
        }
        Ok(())
    }
}
