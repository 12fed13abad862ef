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
use super::steps::Steps;
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

/// What happened at a server.
pub(super) struct Tally {
    pub(super) ios: u64,
    pub(super) response_ns: u64,
    pub(super) bytes: u64,
    pub(super) responses_us: Histogram<u64>,
}

impl Tally {
    fn new() -> Tally {
        let responses_us = Histogram::new_with_bounds(1, RESPONSE_US_MAX, 3).expect("bounds that it takes");
        Tally { ios: 0, response_ns: 0, bytes: 0, responses_us }
    }

    /// What it comes to, over so many seconds.
    pub(super) fn rate(&self, seconds: f64) -> ServerRate {
        ServerRate {
            iops: self.ios as f64 / seconds,
            mb_per_s: self.bytes as f64 / seconds / 1e6,
            response_ms_mean: self.response_ns as f64 / self.ios.max(1) as f64 / 1e6,
            response_ms_p99: self.responses_us.value_at_quantile(0.99) as f64 / 1e3,
        }
    }
}

struct Server {
    target: Target,
    steps: RefCell<Steps>,
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
pub(super) struct Costs {
    host_ns: u64,
    host_spread_ns: u64,
}

impl Costs {
    pub(super) fn of(sanboot: &Sanboot) -> Costs {
        let host_ns = ns(sanboot.host.io);
        Costs { host_ns, host_spread_ns: host_ns * u64::from(sanboot.host.spread_percent) / 100 }
    }

    /// Of one I/O.
    pub(super) fn draw(&self, rng: &mut Rng) -> u64 {
        let (mean, spread) = (self.host_ns, self.host_spread_ns);
        mean - spread + rng.u64(..=2 * spread)
    }
}

/// Everything between the servers and their disks, and the servers.
pub(super) struct Ramp {
    world: World,
    servers: Vec<Server>,
    pub(super) front: Front,
    costs: Costs,
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
    pub(super) bytes: u64,
}

impl Ramp {
    /// Servers with these disks, none of them started.
    ///
    /// # Errors
    ///
    /// What the pattern replays cannot be read.
    pub(super) fn new(
        sanboot: &Sanboot,
        world: &World,
        pattern: Pattern,
        targets: Vec<Target>,
    ) -> Result<Ramp> {
        let server = |(number, target)| {
            let rng = world.random(&format!("server {number}"));
            Ok(Server {
                target,
                steps: RefCell::new(Steps::new(sanboot, pattern, rng)?),
                path: RefCell::new(Station::new(1)),
                tally: RefCell::new(Tally::new()),
                tag: Cell::new(0),
            })
        };
        let servers = targets.into_iter().enumerate().map(server).collect::<Result<Vec<Server>>>()?;
        let longest = servers.iter().map(|server| server.steps.borrow().bytes_max()).max();
        Ok(Ramp {
            world: world.clone(),
            servers,
            front: Front::new(sanboot, world, longest.unwrap_or(0)),
            costs: Costs::of(sanboot),
            disk_from: sanboot.internal.from.0,
            counts: Cell::default(),
            failure: RefCell::default(),
        })
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
        let stream = number % server.steps.borrow().streams();
        loop {
            let (op, bytes) = server.steps.borrow_mut().next(stream);
            let began = self.world.now();
            let work_ns = self.host_ns(server);
            self.front.wait_at(&server.path, work_ns).await;
            let hit = self.reach(server, op, bytes).await?;
            let mut counts = self.counts.get();
            counts.ios += 1;
            counts.reads += u64::from(op.reads);
            counts.hits += u64::from(op.reads && hit);
            counts.bytes += bytes;
            self.counts.set(counts);
            let took = self.world.now().since(began);
            let mut tally = server.tally.borrow_mut();
            tally.ios += 1;
            tally.bytes += bytes;
            tally.response_ns += took.as_nanos() as u64;
            tally.responses_us.saturating_record((took.as_micros() as u64).max(1));
        }
    }

    fn host_ns(&self, server: &Server) -> u64 {
        self.costs.draw(server.steps.borrow_mut().rng())
    }

    /// Through port and controller to the disk and back. Whether no drive had to be waited for.
    async fn reach(&self, server: &Server, op: Op, bytes: u64) -> Result<bool> {
        let session = match &server.target {
            Target::Disk(drive) => return self.use_disk(drive, op, bytes).await.map(|()| false),
            Target::Session(disk) => {
                // What waited for a drive only the array knows.
                return self.use_session(disk, op, bytes).await.map(|()| false);
            }
            Target::Lu(session) => session,
        };
        self.front.reach(session, server.next_tag(), op, bytes).await
    }

    async fn use_disk(&self, drive: &Drive, op: Op, bytes: u64) -> Result<()> {
        self.front.count();
        let at = self.disk_from + op.at;
        match op.reads {
            true => drive.read(at, Buf::shared_zeros(bytes as usize)).await.result?,
            false => drive.write(at, self.front.content(bytes)).await?,
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
