//! From a guest's disk to its LU: the virtual disk, the host's root partition, port, controller, and the
//! array's own code.
//!
//! ```text
//!   guest ──> root partition ──> port, in ──> controller ──> LU (cache, journal, pool, RAID, drives) ──> port, out ──> guest
//!             processors of      of the LU's   that owns      the array's own code
//!             the host, the VHD  controller    the LU
//! ```
//!
//! The parser of the virtual disk changes its tables one block at a time, each write of them with FUA, and
//! flushes before what refers to something is written. I/O to the block waits for that, other I/O does not.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use anyhow::Result;
use block::RangeLocks;
use futures::future::{join_all, try_join_all};

use super::disk::{Format, Vdisk};
use super::fabric::{Fabric, Host};
use super::layout::Range;
use super::lu::{Durable, Ended, Lu};

/// What a guest saw of its disk.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DiskTally {
    pub(super) reads: u64,
    pub(super) read_ns: u64,
    pub(super) writes: u64,
    pub(super) write_ns: u64,
    /// I/Os in the disk, added up over time.
    pub(super) held_ns: u64,
    /// The maximum in flight since the last read.
    pub(super) most: u32,
    /// Writes that were refused, for the pool had no page.
    pub(super) refused: u64,
    /// Blocks that the virtual disk took of the LU.
    pub(super) grown: u64,
    /// Commands with what the guest reads and writes; those of them that are not on the array's 4 KiB; and
    /// those with anything else.
    pub(super) commands: u64,
    pub(super) crooked: u64,
    pub(super) besides: u64,
    in_disk: u32,
    since_ns: u64,
}

/// The data disk of a guest.
pub(super) struct GuestDisk {
    pub(super) fabric: Rc<Fabric>,
    pub(super) lu: Rc<Lu>,
    pub(super) vdisk: RefCell<Vdisk>,
    format: Format,
    /// Which of the machines the guest is on.
    host: usize,
    /// I/Os share their ranges of the disk; one that takes blocks has its own alone.
    pub(super) blocks: RangeLocks,
    /// One at a time changes the tables.
    pub(super) tables: RangeLocks,
    tally: Cell<DiskTally>,
}

impl GuestDisk {
    pub(super) fn new(fabric: &Rc<Fabric>, lu: Rc<Lu>, vdisk: Vdisk, host: usize) -> GuestDisk {
        GuestDisk {
            fabric: fabric.clone(),
            lu,
            format: vdisk.format(),
            vdisk: RefCell::new(vdisk),
            host,
            blocks: RangeLocks::default(),
            tables: RangeLocks::default(),
            tally: Cell::default(),
        }
    }

    /// The machine that the guest is on.
    pub(super) fn host(&self) -> &Host {
        &self.fabric.hosts[self.host]
    }

    /// What happened up to now; the largest queue begins anew.
    pub(super) fn tally(&self) -> DiskTally {
        self.count(|_| {});
        let tally = self.tally.get();
        self.tally.set(DiskTally { most: tally.in_disk, ..tally });
        tally
    }

    /// How often its file became longer.
    pub(super) fn grown(&self) -> u64 {
        self.tally.get().grown
    }

    fn count(&self, change: impl FnOnce(&mut DiskTally)) {
        let now = self.fabric.world.now().0;
        let mut tally = self.tally.get();
        tally.held_ns += u64::from(tally.in_disk) * (now - tally.since_ns);
        tally.since_ns = now;
        change(&mut tally);
        tally.most = tally.most.max(tally.in_disk);
        self.tally.set(tally);
    }

    /// A read of the guest.
    pub(super) async fn read(&self, range: Range) -> Result<()> {
        let began = self.fabric.world.now();
        self.count(|t| t.in_disk += 1);
        let _held = self.blocks.shared(range.at..range.end()).await;
        let mut parts = Vec::new();
        self.vdisk.borrow_mut().read(range, &mut parts)?;
        self.pass().await;
        try_join_all(parts.iter().map(|part| self.lu.read(*part))).await?;
        let took = self.fabric.world.now().since(began).as_nanos() as u64;
        let crooked = parts.iter().filter(|part| part.is_crooked()).count() as u64;
        self.count(|t| {
            t.in_disk -= 1;
            t.reads += 1;
            t.read_ns += took;
            (t.commands, t.crooked) = (t.commands + parts.len() as u64, t.crooked + crooked);
        });
        Ok(())
    }

    /// A write of the guest, with all that the virtual disk writes besides.
    pub(super) async fn write(&self, range: Range, durable: Durable) -> Result<Ended> {
        let began = self.fabric.world.now();
        self.count(|t| t.in_disk += 1);
        self.pass().await;
        let ended = self.write_locked(range, durable).await?;
        let took = self.fabric.world.now().since(began).as_nanos() as u64;
        self.count(|t| {
            t.in_disk -= 1;
            t.writes += 1;
            t.write_ns += took;
            t.refused += u64::from(ended == Ended::NoSpace);
        });
        Ok(ended)
    }

    /// A write that takes blocks has the tables, and its range, alone; unless another one took the blocks
    /// while it waited.
    async fn write_locked(&self, range: Range, durable: Durable) -> Result<Ended> {
        let takes_blocks = || self.vdisk.borrow_mut().takes_blocks(range);
        if takes_blocks() {
            let _tables = self.tables.exclusive(0..1).await;
            if takes_blocks() {
                let _held = self.blocks.exclusive(range.at..range.end()).await;
                return self.write_parts(range, durable).await;
            }
        }
        let _held = self.blocks.shared(range.at..range.end()).await;
        self.write_parts(range, durable).await
    }

    /// All writes of one write of the guest: those between two flushes together, but the tables one by one.
    async fn write_parts(&self, range: Range, durable: Durable) -> Result<Ended> {
        let writes =
            self.vdisk.borrow_mut().write(range, (self.tally.get().grown, self.fabric.zeroes_blocks))?;
        self.count(|t| {
            t.grown += u64::from(writes.grew);
            t.commands += writes.list.len() as u64 - writes.besides();
            t.crooked += writes.crooked();
            t.besides += writes.besides();
        });
        if let [write] = writes.list[..] {
            return self.lu.write(write.range, durable).await;
        }
        if writes.besides() == 0 {
            let all = join_all(writes.list.iter().map(|write| self.lu.write(write.range, durable))).await;
            return all.into_iter().find(|one| !matches!(one, Ok(Ended::Done))).unwrap_or(Ok(Ended::Done));
        }
        for write in &writes.list {
            if write.after_flush {
                self.lu.flush().await?;
            }
            let durable = if write.is_payload { durable } else { Durable::AtOnce };
            if self.lu.write(write.range, durable).await? == Ended::NoSpace {
                return Ok(Ended::NoSpace);
            }
        }
        Ok(Ended::Done)
    }

    /// A flush of the guest.
    pub(super) async fn flush(&self) -> Result<()> {
        self.pass().await;
        self.lu.flush().await
    }

    /// Through the root partition, which finds the place in the virtual disk.
    async fn pass(&self) {
        let costs = &self.fabric.costs;
        let work_ns = match self.format {
            Format::Fixed => costs.io,
            Format::Dynamic | Format::Vhdx => costs.io + costs.lookup,
        };
        let host = self.host();
        host.root_ns.set(host.root_ns.get() + work_ns);
        self.fabric.at(&host.processors, work_ns).await;
    }
}
