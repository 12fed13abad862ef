//! The servers: each keeps so many I/Os in flight on its file, through everything that stands between it and
//! its disk.
//!
//! ```text
//!   server ──> its own I/O path ──> port, in ──> controller ──> LU (the array's own code) ──> port, out ──> server
//!              one after another    all servers  all servers    cache, pool, RAID, drives     all servers
//! ```

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use anyhow::{Result, bail};
use array::{LocalSession, Lun};
use block::Pieces;
use hdrhistogram::Histogram;
use scsi::Status;
use world::{Buf, Data, Drive, Instant, Rng, World};
use world_model::Link;
use world_model::station::Station;

use super::results::{Pattern, ServerRate};
use super::scenario::Sanboot;
use lab_tools::hosts::Disk;
use lab_tools::testbed::{self, notice_attentions};

/// What a command takes of a port beside its data, and its response: the headers of the frames that they
/// stand for.
const COMMAND_BYTES: u64 = 48;
/// Response times are kept from 1 µs to this long, to three digits.
const RESPONSE_US_MAX: u64 = 1_000_000_000;

/// Where a server's disk is.
pub(super) enum Target {
    /// Behind port and controller.
    Lu(LocalSession),
    /// In the server.
    Disk(Drive),
    /// Behind a session over iSCSI: port and controller are real.
    Session(Disk),
}

/// One I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Op {
    pub(super) at: u64,
    pub(super) reads: bool,
}

/// What a server does next.
struct Walk {
    pattern: Pattern,
    read_percent: u32,
    transfers: u64,
    /// Where each stream is in its part of the file.
    next: Vec<u64>,
    rng: Rng,
}

impl Walk {
    fn new(pattern: Pattern, read_percent: u32, (transfers, streams): (u64, u32), mut rng: Rng) -> Walk {
        let part = transfers / u64::from(streams);
        let next = (0..streams).map(|_| rng.u64(..part)).collect();
        Walk { pattern, read_percent, transfers, next, rng }
    }

    fn next(&mut self, stream: usize) -> (u64, bool) {
        let number = match self.pattern.is_random() {
            true => self.rng.u64(..self.transfers),
            false => {
                let part = self.transfers / self.next.len() as u64;
                let next = self.next[stream];
                self.next[stream] = (next + 1) % part;
                stream as u64 * part + next
            }
        };
        let reads = match self.read_percent {
            0 => false,
            100 => true,
            percent => self.rng.u32(..100) < percent,
        };
        (number, reads)
    }
}

/// What happened at a server.
pub(super) struct Tally {
    pub(super) ios: u64,
    pub(super) response_ns: u64,
    pub(super) responses_us: Histogram<u64>,
}

impl Tally {
    fn new() -> Tally {
        let responses_us = Histogram::new_with_bounds(1, RESPONSE_US_MAX, 3).expect("bounds that it takes");
        Tally { ios: 0, response_ns: 0, responses_us }
    }

    /// What it comes to, over so many seconds of transfers of so many bytes.
    pub(super) fn rate(&self, seconds: f64, transfer_bytes: u64) -> ServerRate {
        let iops = self.ios as f64 / seconds;
        ServerRate {
            iops,
            mb_per_s: iops * transfer_bytes as f64 / 1e6,
            response_ms_mean: self.response_ns as f64 / self.ios.max(1) as f64 / 1e6,
            response_ms_p99: self.responses_us.value_at_quantile(0.99) as f64 / 1e3,
        }
    }
}

struct Server {
    target: Target,
    walk: RefCell<Walk>,
    /// Its own I/O path.
    path: RefCell<Station>,
    tally: RefCell<Tally>,
    tag: Cell<u64>,
}

/// What each thing costs, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Costs {
    command_ns: u64,
    data_ns: u64,
    write_ns: u64,
    miss_ns: u64,
    host_ns: u64,
    host_spread_ns: u64,
}

/// Everything between the servers and their disks, and the servers.
pub(super) struct Ramp {
    world: World,
    servers: Vec<Server>,
    pub(super) controller: RefCell<Station>,
    pub(super) inbound: RefCell<Station>,
    pub(super) outbound: RefCell<Station>,
    link: Link,
    costs: Costs,
    transfer_bytes: u64,
    /// Where the file is on a disk in a server.
    disk_from: u64,
    /// What is written: zeros, which cost no memory where drives are modelled.
    content: Data,
    pub(super) counts: Cell<Counts>,
    /// Commands that the array or the disk was given, those that fill the cache included.
    pub(super) executed: Cell<u64>,
    failure: RefCell<Option<String>>,
}

/// What all servers did together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) ios: u64,
    pub(super) reads: u64,
    /// Reads that waited for no drive.
    pub(super) hits: u64,
}

impl Ramp {
    pub(super) fn new(sanboot: &Sanboot, world: &World, pattern: Pattern, targets: Vec<Target>) -> Ramp {
        let transfer_bytes = sanboot.published.transfer.0;
        let ns = |time: lab_core::quantity::Time| time.0.as_nanos() as u64;
        let host_ns = ns(sanboot.host.io);
        let costs = Costs {
            command_ns: ns(sanboot.controller.command),
            data_ns: ns(sanboot.controller.per_kib) * transfer_bytes / 1024,
            write_ns: ns(sanboot.controller.write),
            miss_ns: ns(sanboot.controller.miss),
            host_ns,
            host_spread_ns: host_ns * u64::from(sanboot.host.spread_percent) / 100,
        };
        let transfers = sanboot.published.file.0 / transfer_bytes;
        let read_percent = match pattern.read_percent() {
            0 => 0,
            100 => 100,
            _ => sanboot.published.mix_read_percent,
        };
        let server = |(number, target)| {
            let rng = world.random(&format!("server {number}"));
            let walk = Walk::new(pattern, read_percent, (transfers, sanboot.run.streams), rng);
            Server {
                target,
                walk: RefCell::new(walk),
                path: RefCell::new(Station::new(1)),
                tally: RefCell::new(Tally::new()),
                tag: Cell::new(0),
            }
        };
        Ramp {
            world: world.clone(),
            servers: targets.into_iter().enumerate().map(server).collect(),
            controller: RefCell::new(Station::new(sanboot.controller.cores as usize)),
            inbound: RefCell::new(Station::new(1)),
            outbound: RefCell::new(Station::new(1)),
            link: sanboot.link(),
            costs,
            transfer_bytes,
            disk_from: sanboot.internal.from.0,
            content: Buf::shared_zeros(transfer_bytes as usize).freeze(),
            counts: Cell::default(),
            executed: Cell::default(),
            failure: RefCell::default(),
        }
    }

    /// With other content to write, at least as long as what is written at once: somebody's array may treat
    /// zeros as nothing.
    pub(super) fn with_content(self, content: Data) -> Ramp {
        Ramp { content, ..self }
    }

    /// Begins: each server keeps so many in flight from now on.
    pub(super) fn start(self: &Rc<Self>, outstanding: u32) {
        for server in 0..self.servers.len() {
            for number in 0..outstanding as usize {
                let ramp = self.clone();
                self.world.spawn(async move {
                    if let Err(error) = ramp.go_on(server, number).await {
                        ramp.failure.borrow_mut().get_or_insert(error.to_string());
                    }
                });
            }
        }
    }

    /// What failed first, if anything did.
    pub(super) fn check(&self) -> Result<()> {
        match &*self.failure.borrow() {
            Some(failure) => bail!("{failure}"),
            None => Ok(()),
        }
    }

    /// One of the I/Os that a server keeps in flight, again and again; they are shared out to its streams.
    async fn go_on(&self, server: usize, number: usize) -> Result<()> {
        let server = &self.servers[server];
        let stream = number % server.walk.borrow().next.len();
        loop {
            let (transfer, reads) = server.walk.borrow_mut().next(stream);
            let began = self.world.now();
            let work_ns = self.host_ns(server);
            self.wait_at(&server.path, work_ns).await;
            let op = Op { at: transfer * self.transfer_bytes, reads };
            let hit = self.reach(server, op).await?;
            let mut counts = self.counts.get();
            counts.ios += 1;
            counts.reads += u64::from(reads);
            counts.hits += u64::from(reads && hit);
            self.counts.set(counts);
            let took = self.world.now().since(began);
            let mut tally = server.tally.borrow_mut();
            tally.ios += 1;
            tally.response_ns += took.as_nanos() as u64;
            tally.responses_us.saturating_record((took.as_micros() as u64).max(1));
        }
    }

    fn host_ns(&self, server: &Server) -> u64 {
        let (mean, spread) = (self.costs.host_ns, self.costs.host_spread_ns);
        mean - spread + server.walk.borrow_mut().rng.u64(..=2 * spread)
    }

    async fn wait_at(&self, station: &RefCell<Station>, work_ns: u64) {
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

    /// Through port and controller to the disk and back. Whether no drive had to be waited for.
    async fn reach(&self, server: &Server, op: Op) -> Result<bool> {
        let session = match &server.target {
            Target::Disk(drive) => return self.use_disk(drive, op).await.map(|()| false),
            Target::Session(disk) => {
                // What waited for a drive only the array knows.
                return self.use_session(disk, op, self.transfer_bytes).await.map(|()| false);
            }
            Target::Lu(session) => session,
        };
        let (to, from) = if op.reads { (0, self.transfer_bytes) } else { (self.transfer_bytes, 0) };
        self.cross(&self.inbound, COMMAND_BYTES + to).await;
        let write_ns = if op.reads { 0 } else { self.costs.write_ns };
        self.wait_at(&self.controller, self.costs.command_ns + self.costs.data_ns + write_ns).await;
        let arrived = self.world.now();
        self.execute(session, server, op, self.transfer_bytes).await?;
        let hit = self.world.now() == arrived;
        if !hit {
            self.wait_at(&self.controller, self.costs.miss_ns).await;
        }
        self.cross(&self.outbound, COMMAND_BYTES + from).await;
        Ok(hit)
    }

    async fn execute(&self, session: &LocalSession, server: &Server, op: Op, bytes: u64) -> Result<()> {
        let tag = server.tag.get() + 1;
        server.tag.set(tag);
        let request = match op.reads {
            true => testbed::read(op.at, bytes, tag),
            false => testbed::write(op.at, Pieces::from(self.content.clone()), tag),
        };
        self.executed.set(self.executed.get() + 1);
        let response = session.execute(Lun(0), request).await;
        if response.status != Status::Good || (op.reads && response.data_in.len() as u64 != bytes) {
            bail!("{op:?}: the array answered {:?}, sense {:02x?}", response.status, response.sense);
        }
        Ok(())
    }

    async fn use_disk(&self, drive: &Drive, op: Op) -> Result<()> {
        self.executed.set(self.executed.get() + 1);
        let at = self.disk_from + op.at;
        match op.reads {
            true => drive.read(at, Buf::shared_zeros(self.transfer_bytes as usize)).await.result?,
            false => drive.write(at, self.content.clone()).await?,
        }
        Ok(())
    }

    async fn use_session(&self, disk: &Disk, op: Op, bytes: u64) -> Result<()> {
        self.executed.set(self.executed.get() + 1);
        match op.reads {
            true => disk.read(op.at, bytes).await.map(drop)?,
            false => disk.write(op.at, Pieces::from(self.content.slice(..bytes as usize))).await?,
        }
        Ok(())
    }

    /// One read or write of a server at once, past port and controller: the cache comes to the state that it
    /// has in the long run.
    pub(super) async fn condition(&self, server: usize, op: Op, bytes: u64) -> Result<()> {
        let server = &self.servers[server];
        match &server.target {
            Target::Lu(session) => self.execute(session, server, op, bytes).await,
            Target::Session(disk) => self.use_session(disk, op, bytes).await,
            Target::Disk(_) => Ok(()),
        }
    }

    /// The power-on attention of each LU is taken notice of (SPC-5 5.14): after it commands are executed.
    pub(super) async fn log_in(&self) -> Result<()> {
        for server in &self.servers {
            let Target::Lu(session) = &server.target else { continue };
            notice_attentions(session, Lun(0)).await;
        }
        Ok(())
    }

    /// The time of its world.
    pub(super) fn now_ns(&self) -> u64 {
        self.world.now().0
    }

    /// What a server did since the tallies were taken the last time.
    pub(super) fn take_tallies(&self) -> Vec<Tally> {
        self.servers.iter().map(|server| server.tally.replace(Tally::new())).collect()
    }

    /// I/Os of each server since the tallies were taken.
    pub(super) fn server_ios(&self) -> Vec<u64> {
        self.servers.iter().map(|server| server.tally.borrow().ios).collect()
    }

    /// For how long each server's own path was in use.
    pub(super) fn host_busy_ns(&self, now_ns: u64) -> Vec<u64> {
        self.servers.iter().map(|server| server.path.borrow().busy_ns(now_ns)).collect()
    }
}
