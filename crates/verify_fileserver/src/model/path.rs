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

use anyhow::{Result, bail};
use array::{LocalSession, Lun};
use block::{Pieces, RangeLocks};
use futures::future::{join_all, try_join_all};
use scsi::{Request, Status};
use world::{Buf, Data, Instant, World};
use world_model::Link;
use world_model::station::Station;

use super::super::scenario::Fileserver;
use super::disk::{Format, LuWrite, Vdisk};
use super::layout::Range;
use lab_core::quantity::Time;
use lab_tools::testbed;

/// What a command takes of a port beside its data, and its response: the headers of the frames that they
/// stand for.
const COMMAND_BYTES: u64 = 48;
/// Force unit access: byte 1 of WRITE(16) (SBC-4 5.34).
const FUA: u8 = 1 << 3;
/// The longest command: that of the largest transfer of a scenario, with what a block of a virtual disk makes
/// of it.
const COMMAND_BYTES_MAX: u64 = 4 << 20;

/// Nanoseconds of a time.
pub(super) fn ns(time: Time) -> u64 {
    time.0.as_nanos() as u64
}

/// A machine with servers on it.
pub(super) struct Host {
    pub(super) processors: RefCell<Station>,
    /// What the root partition did on them.
    pub(super) root_ns: Cell<u64>,
}

/// A controller of the array, with its port.
pub(super) struct Controller {
    pub(super) cores: RefCell<Station>,
    inbound: RefCell<Station>,
    outbound: RefCell<Station>,
}

/// What servers share.
pub(super) struct Fabric {
    pub(super) world: World,
    pub(super) hosts: Vec<Host>,
    pub(super) controllers: Vec<Controller>,
    link: Link,
    costs: Costs,
    zeros: Data,
    /// Whether a new block of a VHD is written full of zeros first.
    zeroes_blocks: bool,
}

/// Which of the hosts a server is on, and which of the controllers owns its LU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) host: usize,
    pub(super) controller: usize,
}

/// In nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Costs {
    io: u64,
    lookup: u64,
    command: u64,
    per_kib: u64,
}

impl Fabric {
    pub(super) fn new(scenario: &Fileserver, world: &World, hosts: usize) -> Fabric {
        let (host, controller) = (&scenario.host, &scenario.controller);
        let station = |servers: u32| RefCell::new(Station::new(servers as usize));
        let new_host = |_| Host { processors: station(host.cores), root_ns: Cell::default() };
        let new_controller =
            |_| Controller { cores: station(controller.cores), inbound: station(1), outbound: station(1) };
        Fabric {
            world: world.clone(),
            hosts: (0..hosts).map(new_host).collect(),
            controllers: (0..scenario.array.controllers).map(new_controller).collect(),
            link: scenario.fabric(),
            costs: Costs {
                io: ns(host.io),
                lookup: ns(host.lookup),
                command: ns(controller.command),
                per_kib: ns(controller.per_kib),
            },
            zeroes_blocks: host.zeroes_blocks,
            zeros: Buf::shared_zeros(COMMAND_BYTES_MAX as usize).freeze(),
        }
    }

    /// Waits until a station has done work that comes now.
    pub(super) async fn at(&self, station: &RefCell<Station>, work_ns: u64) {
        let end = station.borrow_mut().serve(self.world.now().0, work_ns);
        self.world.sleep_until(Instant(end)).await;
    }

    async fn cross(&self, direction: &RefCell<Station>, bytes: u64) {
        let end = direction.borrow_mut().serve(self.world.now().0, self.link.wire_ns(bytes));
        self.world.sleep_until(Instant(end) + self.link.latency).await;
    }
}

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
    session: LocalSession,
    vdisk: RefCell<Vdisk>,
    format: Format,
    place: Place,
    /// I/Os share their ranges of the disk; one that takes blocks has its own alone.
    blocks: RangeLocks,
    /// One at a time changes the tables.
    tables: RangeLocks,
    tally: Cell<DiskTally>,
    tag: Cell<u64>,
}

/// How an I/O of the guest ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Done,
    /// SPACE ALLOCATION FAILED, WRITE PROTECT (SBC-4 4.7): the pool has no page.
    NoSpace,
}

/// When a write is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Durable {
    /// Before it ends: it carries FUA.
    AtOnce,
    /// After a flush.
    Later,
}

impl GuestDisk {
    pub(super) fn new(fabric: &Rc<Fabric>, session: LocalSession, vdisk: Vdisk, place: Place) -> GuestDisk {
        GuestDisk {
            fabric: fabric.clone(),
            session,
            format: vdisk.format(),
            vdisk: RefCell::new(vdisk),
            place,
            blocks: RangeLocks::default(),
            tables: RangeLocks::default(),
            tally: Cell::default(),
            tag: Cell::default(),
        }
    }

    /// The machine that the guest is on.
    pub(super) fn host(&self) -> &Host {
        &self.fabric.hosts[self.place.host]
    }

    /// What happened up to now; the largest queue begins anew.
    pub(super) fn tally(&self) -> DiskTally {
        self.count(|_| {});
        let tally = self.tally.get();
        self.tally.set(DiskTally { most: tally.in_disk, ..tally });
        tally
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
        try_join_all(parts.iter().map(|part| self.read_lu(*part))).await?;
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
            return self.write_lu(write, durable).await;
        }
        if writes.besides() == 0 {
            let all = join_all(writes.list.iter().map(|write| self.write_lu(*write, durable))).await;
            return all.into_iter().find(|one| !matches!(one, Ok(Ended::Done))).unwrap_or(Ok(Ended::Done));
        }
        for write in &writes.list {
            if write.after_flush {
                self.flush_lu().await?;
            }
            let durable = if write.is_payload { durable } else { Durable::AtOnce };
            if self.write_lu(*write, durable).await? == Ended::NoSpace {
                return Ok(Ended::NoSpace);
            }
        }
        Ok(Ended::Done)
    }

    /// A flush of the guest.
    pub(super) async fn flush(&self) -> Result<()> {
        self.pass().await;
        self.flush_lu().await
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

    async fn read_lu(&self, range: Range) -> Result<Ended> {
        self.command(testbed::read(range.at, range.bytes, self.next_tag()), (0, range.bytes)).await
    }

    async fn write_lu(&self, write: LuWrite, durable: Durable) -> Result<Ended> {
        let LuWrite { range, .. } = write;
        let zeros = Pieces::from(self.fabric.zeros.slice(0..range.bytes as usize));
        let mut request = testbed::write(range.at, zeros, self.next_tag());
        if durable == Durable::AtOnce {
            request.cdb[1] |= FUA;
        }
        self.command(request, (range.bytes, 0)).await
    }

    async fn flush_lu(&self) -> Result<()> {
        self.command(testbed::flush(self.next_tag()), (0, 0)).await.map(|_| ())
    }

    fn next_tag(&self) -> u64 {
        self.tag.set(self.tag.get() + 1);
        self.tag.get()
    }

    /// One command to the LU, with so many bytes to it and from it.
    async fn command(&self, request: Request, (to, from): (u64, u64)) -> Result<Ended> {
        let fabric = &*self.fabric;
        let controller = &fabric.controllers[self.place.controller];
        fabric.cross(&controller.inbound, COMMAND_BYTES + to).await;
        let work = fabric.costs.command + fabric.costs.per_kib * (to + from) / 1024;
        fabric.at(&controller.cores, work).await;
        let ended = self.execute(request).await?;
        fabric.cross(&controller.outbound, COMMAND_BYTES + from).await;
        Ok(ended)
    }

    async fn execute(&self, request: Request) -> Result<Ended> {
        let (cdb, is_write) = (request.cdb, !request.data_out.is_empty());
        let response = self.session.execute(Lun(0), request).await;
        if response.status == Status::Good {
            return Ok(Ended::Done);
        }
        // Fixed format (SPC-5 4.4.3): key in byte 2, additional code in bytes 12 and 13; descriptor format
        // has them in bytes 1 to 3.
        let sense = &response.sense;
        let code = match sense.first().map(|byte| byte & 0x7f) {
            Some(0x72) => sense.get(2..4),
            _ => sense.get(12..14),
        };
        if is_write && code == Some(&[0x27, 0x07]) {
            return Ok(Ended::NoSpace);
        }
        bail!("{cdb:02x?}: the array answered {:?}, sense {:02x?}", response.status, response.sense)
    }
}
