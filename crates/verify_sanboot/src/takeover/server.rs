//! A server with two disks: it keeps so many I/Os in flight on each, through its own I/O path, and notes when
//! each ended and whether what it read was what it had written.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use anyhow::{Result, bail};
use block::Pieces;
use world::World;
use world_model::station::Station;

use super::ledger::Ledger;
use super::paths::Paths;
use crate::front::Op;
use crate::host::Costs;
use crate::results::{Disks, Pattern};
use crate::scenario::Sanboot;
use crate::steps::{Walk, read_percent};

/// One of its disks.
struct Disk {
    walk: RefCell<Walk>,
    ledger: RefCell<Ledger>,
    /// When each I/O ended.
    done: RefCell<Vec<u64>>,
}

/// It.
pub(super) struct Server {
    world: World,
    paths: Paths,
    disks: [Disk; 2],
    /// Its own I/O path, which both disks share.
    station: RefCell<Station>,
    costs: Costs,
    transfer_bytes: u64,
    stopped: Cell<bool>,
    running: Cell<u32>,
    tags: Cell<u64>,
    /// Writes that were acknowledged.
    written: Cell<u64>,
    /// Reads that gave something else than what was acknowledged last.
    wrong: Cell<u64>,
    failure: RefCell<Option<String>>,
}

/// Of blocks that are written one after the other, one in so many has a content of its own.
const STAMPED: u64 = 8;

impl Server {
    pub(super) fn new(
        sanboot: &Sanboot,
        world: &World,
        pattern: Pattern,
        (number, paths): (u32, Paths),
    ) -> Server {
        let transfer_bytes = sanboot.published.transfer.0;
        let transfers = sanboot.published.file.0 / transfer_bytes;
        let disk = |disks: Disks| {
            let rng = world.random(&format!("server {number}, {}", disks.words()));
            let walk =
                Walk::new(pattern, read_percent(sanboot, pattern), (transfers, sanboot.run.streams), rng);
            let stamped = if pattern.is_random() { 1 } else { STAMPED };
            let ledger = Ledger::new(2 * number + disks as u32, transfer_bytes, stamped);
            Disk { walk: RefCell::new(walk), ledger: RefCell::new(ledger), done: RefCell::default() }
        };
        Server {
            world: world.clone(),
            paths,
            disks: Disks::ALL.map(disk),
            station: RefCell::new(Station::new(1)),
            costs: Costs::of(sanboot),
            transfer_bytes,
            stopped: Cell::new(false),
            running: Cell::new(0),
            tags: Cell::new(0),
            written: Cell::new(0),
            wrong: Cell::new(0),
            failure: RefCell::default(),
        }
    }

    /// Begins: so many in flight on each disk.
    pub(super) fn start(self: &Rc<Self>, outstanding: u32) {
        for disks in Disks::ALL {
            for number in 0..outstanding as usize {
                let server = self.clone();
                self.running.set(self.running.get() + 1);
                self.world.spawn(async move {
                    if let Err(error) = server.go_on(disks, number).await {
                        server.failure.borrow_mut().get_or_insert(lab_core::console::causes(&error));
                    }
                    server.running.set(server.running.get() - 1);
                });
            }
        }
    }

    /// Ends it, after the I/Os in flight.
    pub(super) fn stop(&self) {
        self.stopped.set(true);
    }

    /// Whether I/Os are in flight.
    pub(super) fn is_running(&self) -> bool {
        self.running.get() > 0
    }

    /// What failed first, if anything did.
    pub(super) fn check(&self) -> Result<()> {
        match &*self.failure.borrow() {
            Some(failure) => bail!("{failure}"),
            None => Ok(()),
        }
    }

    /// When each I/O of a disk ended, since it began.
    pub(super) fn take_done(&self, disks: Disks) -> Vec<u64> {
        self.disks[disks as usize].done.take()
    }

    /// When the last I/O of a disk ended.
    pub(super) fn last_done(&self, disks: Disks) -> u64 {
        self.disks[disks as usize].done.borrow().last().copied().unwrap_or(0)
    }

    /// Writes that were acknowledged, and reads that were wrong.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.written.get(), self.wrong.get())
    }

    async fn go_on(&self, disks: Disks, number: usize) -> Result<()> {
        let disk = &self.disks[disks as usize];
        let stream = number % disk.walk.borrow().streams();
        while !self.stopped.get() {
            let (block, reads) = disk.walk.borrow_mut().next(stream);
            if !reads && disk.ledger.borrow().is_busy(block) {
                // Which of two writes at once comes last nobody can say.
                continue;
            }
            let work_ns = self.costs.draw(&mut disk.walk.borrow_mut().rng);
            let end = self.station.borrow_mut().serve(self.world.now().0, work_ns);
            self.world.sleep_until(world::Instant(end)).await;
            match reads {
                true => self.read(disks, block).await?,
                false => self.write(disks, block).await?,
            }
            disk.done.borrow_mut().push(self.world.now().0);
        }
        Ok(())
    }

    fn next_tag(&self) -> u64 {
        self.tags.set(self.tags.get() + 1);
        self.tags.get()
    }

    async fn write(&self, disks: Disks, block: u64) -> Result<()> {
        let ledger = &self.disks[disks as usize].ledger;
        if ledger.borrow().is_busy(block) {
            return Ok(());
        }
        let content = ledger.borrow_mut().send(block);
        let op = Op { at: block * self.transfer_bytes, reads: false };
        self.paths.execute(disks, op, (&content, self.transfer_bytes, self.next_tag())).await?;
        ledger.borrow_mut().acknowledge(block);
        self.written.set(self.written.get() + 1);
        Ok(())
    }

    async fn read(&self, disks: Disks, block: u64) -> Result<()> {
        let ledger = &self.disks[disks as usize].ledger;
        let op = Op { at: block * self.transfer_bytes, reads: true };
        let acknowledged = ledger.borrow().acknowledged(block);
        let read =
            self.paths.execute(disks, op, (&Pieces::new(), self.transfer_bytes, self.next_tag())).await?;
        if !ledger.borrow().is_right(block, acknowledged, &read) {
            self.wrong.set(self.wrong.get() + 1);
        }
        Ok(())
    }

    /// Reads all blocks again that have a content of their own; how many they are.
    ///
    /// # Errors
    ///
    /// The array does not answer GOOD.
    pub(super) async fn read_back(&self) -> Result<u64> {
        let mut count = 0;
        for disks in Disks::ALL {
            let blocks = self.disks[disks as usize].ledger.borrow().blocks();
            count += blocks.len() as u64;
            for some in blocks.chunks(AT_ONCE) {
                futures::future::try_join_all(some.iter().map(|block| self.read(disks, *block))).await?;
            }
        }
        Ok(count)
    }
}

/// Reads of a server at once, when all is read again.
const AT_ONCE: usize = 32;
