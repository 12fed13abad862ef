//! A file server: SMB requests of its clients, its cache, its file system, and the writer that works later.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use anyhow::{Result, ensure};
use futures::future::try_join_all;
use futures::stream::{self, StreamExt};
use world::Instant;
use world_model::Link;
use world_model::station::Station;

use super::super::scenario::{Fileserver, Refused, Server as Costs};
use super::copies::Copied;
use super::fabric::{Fabric, ns};
use super::layout::{CLUSTER_BYTES, LOG_BYTES, Layout, Placed, Range, bitmap, clusters_of_file};
use super::lu::{Durable, Ended};
use super::memory::Memory;
use super::path::GuestDisk;
use super::space::Space;

/// A request or an answer beside its data: headers of SMB 2, a name.
const REQUEST_BYTES: u64 = 160;
/// A folder is opened, asked for its names until there are no more, and closed: the first two together.
const LIST_REQUESTS: u32 = 2;
/// A file is opened and closed.
const OPEN_REQUESTS: u32 = 2;
/// What NTFS logs of a file that is written anew: it is truncated, gets clusters, is named in its folder,
/// each with what would undo it.
const LOGGED_BYTES: u64 = 2048;
/// The lazy writer has runs of this length written at a time, in transfers of the disk's size.
const RUN_BYTES_MAX: u64 = 1 << 20;

/// What came and went.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ServerTally {
    pub(super) received_bytes: u64,
    pub(super) sent_bytes: u64,
    /// Of files, from the server and to it: what the tool counts.
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
    pub(super) files: u64,
    /// Of the files written: what was discarded, and how many of them lack something.
    pub(super) lost_bytes: u64,
    pub(super) lost_files: u64,
    /// Requests to write that wait now, because too much of the cache is dirty.
    pub(super) held_back: u32,
}

pub(super) struct Server {
    pub(super) fabric: Rc<Fabric>,
    pub(super) disk: GuestDisk,
    pub(super) cpu: RefCell<Station>,
    pub(super) memory: RefCell<Memory>,
    pub(super) space: RefCell<Space>,
    /// Of a volume that has grown: where, and where the bitmap of what is new lies.
    pub(super) grown: Cell<Option<(u64, u64)>>,
    /// Files that were replaced already: a load that has used all of them begins again, and then in place.
    replaced: RefCell<BTreeSet<u64>>,
    /// Files that were written and of which nothing is lost: where each begins and ends.
    pub(super) whole: RefCell<BTreeMap<u64, u64>>,
    inbound: RefCell<Station>,
    outbound: RefCell<Station>,
    link: Link,
    pub(super) costs: Costs,
    /// What the log has, and what of it is on the disk.
    logged_bytes: Cell<u64>,
    log_written_bytes: Cell<u64>,
    pub(super) tally: Cell<ServerTally>,
    /// What its clients copied, in the order of the ends; none: nobody asks.
    copied: RefCell<Option<Vec<Copied>>>,
    /// Whether the system says that writes are done while the disk still has them in its cache.
    os_cache: bool,
}

impl Server {
    pub(super) fn new(scenario: &Fileserver, (disk, layout): (GuestDisk, &Layout), os_cache: bool) -> Server {
        let costs = scenario.server.clone();
        let free = Range { at: layout.free_at, bytes: layout.len_bytes - layout.free_at };
        Server {
            fabric: disk.fabric.clone(),
            disk,
            cpu: RefCell::new(Station::new(costs.cores as usize)),
            memory: RefCell::new(Memory::new(costs.cache.0)),
            space: RefCell::new(Space::new(free)),
            grown: Cell::default(),
            replaced: RefCell::default(),
            whole: RefCell::default(),
            inbound: RefCell::new(Station::new(1)),
            outbound: RefCell::new(Station::new(1)),
            link: scenario.network(),
            costs,
            logged_bytes: Cell::default(),
            log_written_bytes: Cell::default(),
            tally: Cell::default(),
            copied: RefCell::default(),
            os_cache,
        }
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut ServerTally)) {
        let mut tally = self.tally.get();
        change(&mut tally);
        self.tally.set(tally);
    }

    /// Files are noted from now on.
    pub(super) fn note_copies(&self) {
        self.copied.replace(Some(Vec::new()));
    }

    pub(super) fn note_copied(&self, copied: Copied) {
        if let Some(all) = &mut *self.copied.borrow_mut() {
            all.push(copied);
        }
    }

    /// What was noted so far.
    pub(super) fn copied(&self) -> Vec<Copied> {
        self.copied.borrow().clone().unwrap_or_default()
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

    /// Has a cluster of a table in its cache.
    async fn have(&self, cluster: Range) -> Result<()> {
        let has = self.memory.borrow_mut().has(cluster);
        match has {
            true => Ok(()),
            false => self.disk.read(cluster).await,
        }
    }

    /// Lists a folder: one index buffer after the other, as each one says where the next is.
    pub(super) async fn list(&self, placed: &Placed, folder: u32) -> Result<()> {
        for request in 0..LIST_REQUESTS {
            self.come_in(0).await;
            if request == 0 {
                self.have(placed.folder_record(folder)).await?;
                for buffer in placed.index(folder) {
                    self.have(buffer).await?;
                }
            }
            self.go_out(if request == 0 { placed.list_bytes(folder) } else { 0 }).await;
        }
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

    /// Reads a part of a file into the cache: of the disk whole clusters.
    pub(super) async fn fetch(&self, range: Range) -> Result<()> {
        let bytes = range.bytes.next_multiple_of(CLUSTER_BYTES);
        self.disk.read(Range { bytes, ..range }).await?;
        self.memory.borrow_mut().pass(bytes);
        Ok(())
    }

    /// Answers a request to read a part of a file that is in the cache.
    pub(super) async fn send(&self, bytes: u64) {
        self.come_in(0).await;
        self.go_out(bytes).await;
        self.count(|t| t.read_bytes += bytes);
    }

    /// Takes a part of a file, to be written later.
    pub(super) async fn take(&self, range: Range) {
        self.come_in(range.bytes).await;
        let bytes = range.bytes.next_multiple_of(CLUSTER_BYTES);
        self.memory.borrow_mut().soil(Range { bytes, ..range });
        self.count(|t| t.held_back += 1);
        while self.memory.borrow().is_full() {
            self.fabric.world.sleep(self.costs.lazy_every.0).await;
        }
        self.count(|t| t.held_back -= 1);
        self.go_out(0).await;
        self.count(|t| t.written_bytes += range.bytes);
    }

    /// Where a file of this length comes to lie that replaces an old one, if there is one: its clusters are
    /// freed, and given away again after the next checkpoint.
    pub(super) fn replace(&self, old_at: Option<u64>, bytes: u64) -> u64 {
        let (mut space, now_ns) = (self.space.borrow_mut(), self.fabric.world.now().0);
        let bytes = clusters_of_file(bytes) * CLUSTER_BYTES;
        if let Some(at) = old_at {
            if !self.replaced.borrow_mut().insert(at) {
                return at;
            }
            self.whole.borrow_mut().remove(&at);
            space.free(now_ns + ns(self.costs.checkpoint), Range { at, bytes });
        }
        let new = space.take(now_ns, bytes, self.costs.placement).map(|range| range.at);
        let at = new.or(old_at).unwrap_or(0);
        self.whole.borrow_mut().insert(at, at + bytes);
        at
    }

    /// A file has been written: the file system logs it now, and changes its tables.
    pub(super) fn note(&self, tables: impl IntoIterator<Item = Range>, (old_at, at): (Option<u64>, u64)) {
        self.log();
        let mut memory = self.memory.borrow_mut();
        let maps = old_at.into_iter().chain([at]).map(|at| self.bitmap_of(at));
        tables.into_iter().chain(maps).for_each(|table| memory.soil_table(table));
    }

    /// The file system logs a change.
    pub(super) fn log(&self) {
        self.logged_bytes.set(self.logged_bytes.get() + LOGGED_BYTES);
    }

    /// The cluster of the bitmap that knows of this address.
    pub(super) fn bitmap_of(&self, at: u64) -> Range {
        match self.grown.get() {
            Some((from, bitmap_at)) if at >= from => {
                let byte = (at - from) / CLUSTER_BYTES / 8;
                Range { at: bitmap_at + byte / CLUSTER_BYTES * CLUSTER_BYTES, bytes: CLUSTER_BYTES }
            }
            _ => bitmap(at),
        }
    }

    /// Memory that nobody uses.
    pub(super) fn available_bytes(&self) -> u64 {
        self.memory.borrow().available_bytes()
    }

    pub(super) fn durable(&self) -> Durable {
        if self.os_cache { Durable::Later } else { Durable::AtOnce }
    }

    /// The lazy writer, for ever.
    pub(super) async fn write_lazily(&self) -> Result<()> {
        let mut next = self.fabric.world.now();
        loop {
            next = self.fabric.world.now().max(next + self.costs.lazy_every.0);
            self.fabric.world.sleep_until(next).await;
            self.memory.borrow_mut().tidy();
            let runs = self.memory.borrow_mut().take();
            if runs.is_empty() {
                continue;
            }
            self.write_log().await?;
            let parts = runs.into_iter().flat_map(|run| run.parts(RUN_BYTES_MAX).collect::<Vec<_>>());
            let writes = stream::iter(parts).map(|run| self.write_run(run));
            let mut writes = writes.buffer_unordered(self.costs.lazy_threads as usize);
            while let Some(ended) = writes.next().await {
                ended?;
            }
        }
    }

    /// What tables say is in the log before they are written: whole clusters, round and round.
    pub(super) async fn write_log(&self) -> Result<()> {
        let from = self.log_written_bytes.get() / CLUSTER_BYTES * CLUSTER_BYTES;
        let to = self.logged_bytes.get().next_multiple_of(CLUSTER_BYTES);
        self.log_written_bytes.set(self.logged_bytes.get());
        let log = Range { at: from % LOG_BYTES, bytes: (to - from).min(LOG_BYTES - from % LOG_BYTES) };
        for part in log.parts(self.costs.transfer.0) {
            // It was filled when the volume was made, so that it needs no page; without its log a file
            // system stops.
            let ended = self.disk.write(part, self.durable()).await?;
            ensure!(ended == Ended::Done, "the disk refused a write of the file system's log");
        }
        // Behind a cache that may lose it, the log is flushed.
        if self.os_cache && log.bytes > 0 {
            self.disk.flush().await?;
        }
        Ok(())
    }

    /// One of the lazy writer's threads writes a run: all of its transfers at once.
    async fn write_run(&self, run: Range) -> Result<()> {
        let writes = run.parts(self.costs.transfer.0).map(async |part| {
            let ended = self.disk.write(part, self.durable()).await?;
            let is_kept = ended == Ended::NoSpace && self.costs.refused == Refused::Kept;
            self.memory.borrow_mut().written(part, !is_kept);
            if ended == Ended::NoSpace && !is_kept {
                self.lose(part);
            }
            anyhow::Ok(())
        });
        try_join_all(writes).await.map(|_| ())
    }

    /// The system has discarded what the disk refused; clients were told before that it is written.
    fn lose(&self, part: Range) {
        let mut whole = self.whole.borrow_mut();
        let of = whole.range(..part.end()).rev().take_while(|(_, end)| **end > part.at);
        let damaged: Vec<u64> = of.map(|(at, _)| *at).collect();
        damaged.iter().for_each(|at| _ = whole.remove(at));
        self.count(|t| {
            t.lost_bytes += part.bytes;
            t.lost_files += damaged.len() as u64;
        });
    }
}
