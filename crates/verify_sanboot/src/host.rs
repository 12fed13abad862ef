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
use world::{Buf, Data, Drive, Rng, World};
use world_model::station::Station;

use super::front::{Front, Op, ns};
use super::results::{Pattern, ServerRate};
use super::scenario::Sanboot;
use lab_tools::hosts::Disk;
use lab_tools::testbed::notice_attentions;

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

impl Server {
    fn next_tag(&self) -> u64 {
        self.tag.set(self.tag.get() + 1);
        self.tag.get()
    }
}

/// What an I/O costs a server itself, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Costs {
    host_ns: u64,
    host_spread_ns: u64,
}

/// Everything between the servers and their disks, and the servers.
pub(super) struct Ramp {
    world: World,
    servers: Vec<Server>,
    pub(super) front: Front,
    costs: Costs,
    transfer_bytes: u64,
    /// Where the file is on a disk in a server.
    disk_from: u64,
    pub(super) counts: Cell<Counts>,
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
        let host_ns = ns(sanboot.host.io);
        let costs = Costs { host_ns, host_spread_ns: host_ns * u64::from(sanboot.host.spread_percent) / 100 };
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
            front: Front::new(sanboot, world, transfer_bytes),
            costs,
            transfer_bytes,
            disk_from: sanboot.internal.from.0,
            counts: Cell::default(),
            failure: RefCell::default(),
        }
    }

    /// With other content to write, at least as long as what is written at once: somebody's array may treat
    /// zeros as nothing.
    pub(super) fn with_content(self, content: Data) -> Ramp {
        Ramp { front: self.front.with_content(content), ..self }
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
            self.front.wait_at(&server.path, work_ns).await;
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
        self.front.reach(session, server.next_tag(), op, self.transfer_bytes).await
    }

    async fn use_disk(&self, drive: &Drive, op: Op) -> Result<()> {
        self.front.count();
        let at = self.disk_from + op.at;
        match op.reads {
            true => drive.read(at, Buf::shared_zeros(self.transfer_bytes as usize)).await.result?,
            false => drive.write(at, self.front.content(self.transfer_bytes)).await?,
        }
        Ok(())
    }

    async fn use_session(&self, disk: &Disk, op: Op, bytes: u64) -> Result<()> {
        self.front.count();
        match op.reads {
            true => disk.read(op.at, bytes).await.map(drop)?,
            false => disk.write(op.at, Pieces::from(self.front.content(bytes))).await?,
        }
        Ok(())
    }

    /// One read or write of a server at once, past port and controller: the cache comes to the state that it
    /// has in the long run.
    pub(super) async fn condition(&self, server: usize, op: Op, bytes: u64) -> Result<()> {
        let server = &self.servers[server];
        match &server.target {
            Target::Lu(session) => self.front.execute(session, server.next_tag(), op, bytes).await,
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
