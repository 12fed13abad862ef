//! A file server: requests of its clients, its memory, its file system, and the writer that works later.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use anyhow::Result;
use futures::stream::{self, StreamExt};
use world::{Instant, Rng};
use world_model::Link;
use world_model::station::Station;

use super::super::scenario::{Fileserver, Server as Costs};
use super::path::{Ended, Fabric, GuestDisk, ns};
use super::volume::{Layout, Placed, Range, Volume};

/// A request or an answer beside its data: headers of SMB 2, a name.
const REQUEST_BYTES: u64 = 160;
/// Opening and closing.
const OPEN_REQUESTS: u32 = 2;
/// Windows holds writers back when so much of its memory waits to be written.
const DIRTY_SHARE_MAX: f64 = 0.25;
/// Each time the lazy writer takes so much of what waits.
const LAZY_SHARE: usize = 8;

/// What came and went.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServerTally {
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
    /// Of files, from the server and to it: what the tool counts.
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
    pub(super) files: u64,
}

pub(super) struct Server {
    pub(super) fabric: Rc<Fabric>,
    pub(super) disk: GuestDisk,
    pub(super) volume: RefCell<Volume>,
    pub(super) cpu: RefCell<Station>,
    inbound: RefCell<Station>,
    outbound: RefCell<Station>,
    link: Link,
    costs: Costs,
    /// What is to be written, oldest first.
    dirty: RefCell<VecDeque<Range>>,
    dirty_bytes: Cell<u64>,
    pub(super) tally: Cell<ServerTally>,
    rng: RefCell<Rng>,
    /// Whether the system says that writes are done while the disk still has them in its cache.
    os_cache: bool,
}

impl Server {
    pub(super) fn new(
        scenario: &Fileserver,
        (disk, layout): (GuestDisk, &Layout),
        os_cache: bool,
        rng: Rng,
    ) -> Server {
        let costs = scenario.server.clone();
        Server {
            fabric: disk.fabric.clone(),
            disk,
            volume: RefCell::new(Volume::new(layout, costs.cache.0)),
            cpu: RefCell::new(Station::new(costs.cores as usize)),
            inbound: RefCell::new(Station::new(1)),
            outbound: RefCell::new(Station::new(1)),
            link: scenario.network(),
            costs,
            dirty: RefCell::default(),
            dirty_bytes: Cell::default(),
            tally: Cell::default(),
            rng: RefCell::new(rng),
            os_cache,
        }
    }

    fn count(&self, change: impl FnOnce(&mut ServerTally)) {
        let mut tally = self.tally.get();
        change(&mut tally);
        self.tally.set(tally);
    }

    async fn come_in(&self, bytes: u64) {
        let all = bytes + REQUEST_BYTES;
        self.count(|t| t.received_bytes += self.link.wire_bytes(all));
        self.cross(&self.inbound, all).await;
        let work = ns(self.costs.request) + ns(self.costs.per_kib) * bytes / 1024;
        self.work(work).await;
    }

    async fn go_out(&self, bytes: u64) {
        self.work(ns(self.costs.per_kib) * bytes / 1024).await;
        let all = bytes + REQUEST_BYTES;
        self.count(|t| t.sent_bytes += self.link.wire_bytes(all));
        self.cross(&self.outbound, all).await;
    }

    /// On a processor of the server, which is one of the host's for that time.
    async fn work(&self, work_ns: u64) {
        if work_ns > 0 {
            let end = self.cpu.borrow_mut().serve(self.fabric.world.now().0, work_ns);
            self.disk.host().processors.borrow_mut().serve(self.fabric.world.now().0, work_ns);
            self.fabric.world.sleep_until(Instant(end)).await;
        }
    }

    async fn cross(&self, direction: &RefCell<Station>, bytes: u64) {
        let end = direction.borrow_mut().serve(self.fabric.world.now().0, self.link.wire_ns(bytes));
        self.fabric.world.sleep_until(Instant(end) + self.link.latency).await;
    }

    /// Has a table in memory.
    async fn have(&self, range: Range) -> Result<()> {
        let mut missing = Vec::new();
        self.volume.borrow_mut().missing(range, &mut missing);
        for range in missing {
            self.disk.read(range).await?;
        }
        Ok(())
    }

    /// Lists a folder.
    pub(super) async fn list(&self, placed: &Placed, folder: u32) -> Result<()> {
        self.come_in(0).await;
        self.have(placed.index(folder)).await?;
        self.go_out(placed.list_bytes(folder)).await;
        Ok(())
    }

    /// Opens and closes a file.
    pub(super) async fn open(&self, record: Range) -> Result<()> {
        for _ in 0..OPEN_REQUESTS {
            self.come_in(0).await;
            self.have(record).await?;
            self.go_out(0).await;
        }
        Ok(())
    }

    /// Reads a part of a file: of the disk whole clusters, and of these some again.
    pub(super) async fn read(&self, range: Range) -> Result<()> {
        self.come_in(0).await;
        let whole = Range { bytes: range.bytes.next_multiple_of(super::volume::CLUSTER_BYTES), ..range };
        self.disk.read(whole).await?;
        if self.rng.borrow_mut().u32(..100) < self.costs.again_percent {
            self.disk.read(whole).await?;
        }
        self.volume.borrow_mut().pass(whole.bytes);
        self.go_out(range.bytes).await;
        self.count(|t| t.read_bytes += range.bytes);
        Ok(())
    }

    /// Takes a part of a file, to be written later.
    pub(super) async fn write(&self, range: Range) {
        self.come_in(range.bytes).await;
        let whole = range.bytes.next_multiple_of(super::volume::CLUSTER_BYTES);
        self.soil(Range { bytes: whole, ..range });
        self.volume.borrow_mut().pass(whole);
        let most = (self.costs.cache.0 as f64 * DIRTY_SHARE_MAX) as u64;
        while self.dirty_bytes.get() > most {
            self.fabric.world.sleep(self.costs.lazy_every.0).await;
        }
        self.go_out(0).await;
        self.count(|t| t.written_bytes += range.bytes);
    }

    /// Where a file that is written anew comes to lie: in place of the old one, or where nothing has been.
    pub(super) fn place(&self, old_at: u64, bytes: u64) -> u64 {
        let is_fresh = self.rng.borrow_mut().u32(..100) < self.costs.fresh_percent;
        let fresh = if is_fresh { self.volume.borrow_mut().fresh(bytes) } else { None };
        fresh.unwrap_or(old_at)
    }

    /// A file has been written: the file system notes it in its log at once, and in its tables later.
    pub(super) async fn note(&self, record: Range, at: u64) -> Result<()> {
        for _ in 0..self.costs.log_writes {
            let log = self.volume.borrow_mut().log();
            if self.os_cache {
                self.soil(log);
            } else {
                // What is refused here is refused later to the lazy writer, too, which tries again.
                self.disk.write(log).await?;
            }
        }
        self.soil(record);
        self.soil(Volume::bitmap(at));
        Ok(())
    }

    fn soil(&self, range: Range) {
        self.dirty.borrow_mut().push_back(range);
        self.dirty_bytes.set(self.dirty_bytes.get() + range.bytes);
    }

    /// Memory that nobody uses.
    pub(super) fn available_bytes(&self) -> u64 {
        self.costs.cache.0 - self.volume.borrow().held_bytes().min(self.costs.cache.0)
            + self.costs.cache.0 / LAZY_SHARE as u64
    }

    /// The lazy writer, for ever: now and then it writes a part of what waits, the oldest first, neighbours
    /// together.
    pub(super) async fn write_lazily(&self) -> Result<()> {
        loop {
            self.fabric.world.sleep(self.costs.lazy_every.0).await;
            self.volume.borrow_mut().tidy();
            let batch = self.take();
            let writes =
                stream::iter(batch).map(|range| async move { (range, self.disk.write(range).await) });
            let mut writes = writes.buffer_unordered(self.costs.lazy_depth as usize);
            while let Some((range, ended)) = writes.next().await {
                match ended? {
                    Ended::Done => self.dirty_bytes.set(self.dirty_bytes.get() - range.bytes),
                    // Tried again, for as long as it takes.
                    Ended::NoSpace => self.dirty.borrow_mut().push_front(range),
                }
            }
        }
    }

    /// An eighth of what waits, or all when that is little.
    fn take(&self) -> Vec<Range> {
        let mut dirty = self.dirty.borrow_mut();
        let count = dirty.len().div_ceil(LAZY_SHARE).max(self.costs.lazy_depth as usize).min(dirty.len());
        let mut batch: Vec<Range> = dirty.drain(..count).collect();
        batch.sort_by_key(|range| range.at);
        let mut joined: Vec<Range> = Vec::with_capacity(batch.len());
        for range in batch {
            let most = self.costs.transfer.0;
            match joined.last_mut() {
                Some(last) if last.at + last.bytes == range.at && last.bytes + range.bytes <= most => {
                    last.bytes += range.bytes;
                }
                // A table that was changed twice is written once.
                Some(last) if *last == range => self.dirty_bytes.set(self.dirty_bytes.get() - range.bytes),
                _ => joined.push(range),
            }
        }
        joined
    }
}
