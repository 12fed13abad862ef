//! What stands before an array's LUs: port and controller, which all servers share.
//!
//! ```text
//!   server ──> port, in ──> controller ──> LU (the array's own code) ──> port, out ──> server
//! ```

use std::cell::{Cell, RefCell};
use std::fmt;

use anyhow::{Result, bail};
use array::{LocalSession, Lun};
use block::Pieces;
use scsi::Status;
use world::{Buf, Data, Instant, World};
use world_model::Link;
use world_model::station::Station;

use super::scenario::Sanboot;
use lab_core::quantity::Time;
use lab_tools::testbed;

/// What a command takes of a port beside its data, and its response: the headers of the frames that they
/// stand for.
const COMMAND_BYTES: u64 = 48;

/// One I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Op {
    pub(super) at: u64,
    pub(super) reads: bool,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", if self.reads { "READ" } else { "WRITE" }, self.at)
    }
}

/// What each thing costs the controller, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Costs {
    command_ns: u64,
    kib_ns: u64,
    write_ns: u64,
    miss_ns: u64,
}

/// The nanoseconds of an input.
pub(super) fn ns(time: Time) -> u64 {
    time.0.as_nanos() as u64
}

/// Port and controller.
pub(super) struct Front {
    pub(super) world: World,
    pub(super) controller: RefCell<Station>,
    pub(super) inbound: RefCell<Station>,
    pub(super) outbound: RefCell<Station>,
    link: Link,
    costs: Costs,
    /// What is written: zeros, which cost no memory where drives are modelled.
    content: Data,
    /// Commands that the array or a disk was given, those that fill the cache included.
    pub(super) executed: Cell<u64>,
}

impl Front {
    /// Idle; nothing longer than `bytes_max` is written at once.
    pub(super) fn new(sanboot: &Sanboot, world: &World, bytes_max: u64) -> Front {
        let controller = &sanboot.controller;
        let costs = Costs {
            command_ns: ns(controller.command),
            kib_ns: ns(controller.per_kib),
            write_ns: ns(controller.write),
            miss_ns: ns(controller.miss),
        };
        Front {
            world: world.clone(),
            controller: RefCell::new(Station::new(controller.cores as usize)),
            inbound: RefCell::new(Station::new(1)),
            outbound: RefCell::new(Station::new(1)),
            link: sanboot.link(),
            costs,
            content: Buf::shared_zeros(bytes_max as usize).freeze(),
            executed: Cell::default(),
        }
    }

    /// With other content to write, at least as long as what is written at once: somebody's array may treat
    /// zeros as nothing.
    pub(super) fn with_content(self, content: Data) -> Front {
        Front { content, ..self }
    }

    /// What is written, so many bytes.
    pub(super) fn content(&self, bytes: u64) -> Data {
        self.content.slice(..bytes as usize)
    }

    /// One more command.
    pub(super) fn count(&self) {
        self.executed.set(self.executed.get() + 1);
    }

    /// Waits until a station has done so much work that arrives now.
    pub(super) async fn wait_at(&self, station: &RefCell<Station>, work_ns: u64) {
        if work_ns == 0 {
            return;
        }
        let end = station.borrow_mut().serve(self.world.now().0, work_ns);
        self.world.sleep_until(Instant(end)).await;
    }

    async fn cross(&self, direction: &RefCell<Station>, bytes: u64) {
        let end = direction.borrow_mut().serve(self.world.now().0, self.link.wire_ns(bytes));
        self.world.sleep_until(Instant(end) + self.link.latency).await;
    }

    /// Through port and controller to a LU and back. Whether no drive had to be waited for.
    ///
    /// # Errors
    ///
    /// The array does not answer GOOD.
    pub(super) async fn reach(&self, session: &LocalSession, tag: u64, op: Op, bytes: u64) -> Result<bool> {
        self.arrive(op, bytes).await;
        let arrived = self.world.now();
        self.execute(session, tag, op, bytes).await?;
        let hit = self.world.now() == arrived;
        self.leave(op, bytes, hit).await;
        Ok(hit)
    }

    /// A command through port and controller.
    pub(super) async fn arrive(&self, op: Op, bytes: u64) {
        let to = if op.reads { 0 } else { bytes };
        self.cross(&self.inbound, COMMAND_BYTES + to).await;
        let write_ns = if op.reads { 0 } else { self.costs.write_ns };
        let data_ns = self.costs.kib_ns * bytes / 1024;
        self.wait_at(&self.controller, self.costs.command_ns + data_ns + write_ns).await;
    }

    /// Its answer, which no drive had to be waited for if it was a hit.
    pub(super) async fn leave(&self, op: Op, bytes: u64, hit: bool) {
        if !hit {
            self.wait_at(&self.controller, self.costs.miss_ns).await;
        }
        let from = if op.reads { bytes } else { 0 };
        self.cross(&self.outbound, COMMAND_BYTES + from).await;
    }

    /// At the LU itself.
    ///
    /// # Errors
    ///
    /// The array does not answer GOOD.
    pub(super) async fn execute(&self, session: &LocalSession, tag: u64, op: Op, bytes: u64) -> Result<()> {
        let request = match op.reads {
            true => testbed::read(op.at, bytes, tag),
            false => testbed::write(op.at, Pieces::from(self.content(bytes)), tag),
        };
        self.count();
        let response = session.execute(Lun(0), request).await;
        if response.status != Status::Good || (op.reads && response.data_in.len() as u64 != bytes) {
            bail!(
                "{op} of {bytes} bytes: the array answered {}",
                testbed::answer(response.status, &response.sense)
            );
        }
        Ok(())
    }
}
