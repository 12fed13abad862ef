//! A client: its workers, with the same steps as those of the real load, and its own disk.
//!
//! ```text
//!   read:   server's disk ──> its cache ──> SMB, 64 KiB, some requests at once ──> client's cache ─ ─ > its disk
//!   write:  client's disk ──> its cache ──> SMB, 64 KiB, some requests at once ──> server's cache ─ ─ > its disk
//! ```

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use futures::stream::{self, StreamExt, TryStreamExt};
use world::{Buf, Data, Drive, Rng, World};

use super::super::load::{Step, unit};
use super::super::scenario::{Client as Costs, Fileserver};
use super::copies::Copied;
use super::layout::{CLUSTER_BYTES, Layout, Placed, Range};
use super::memory::Memory;
use super::server::Server;
use lab_tools::files::{Plan, Tree};

/// The longest transfer of the client's disk: what its lazy writer writes at a time (Windows Internals, 6th
/// edition, chapter 11: 1 MiB on a client).
const TRANSFER_BYTES: u64 = 1 << 20;
/// Its system's lazy writer works every second.
const LAZY_EVERY: Duration = Duration::from_secs(1);

/// A client's machine: its cache and its disk. The trees lie there as on the server, and are replaced in
/// place.
pub(super) struct Machine {
    drive: Drive,
    memory: RefCell<Memory>,
    zeros: Data,
}

impl Machine {
    pub(super) fn new(scenario: &Fileserver, drive: Drive) -> Machine {
        let zeros = Buf::shared_zeros(TRANSFER_BYTES as usize).freeze();
        Machine { drive, memory: RefCell::new(Memory::new(scenario.client.cache.0)), zeros }
    }

    async fn fetch(&self, range: Range) -> Result<()> {
        let bytes = range.bytes.next_multiple_of(CLUSTER_BYTES);
        let filled = self.drive.read(range.at, Buf::new(bytes as usize)).await;
        filled.result.map_err(|e| anyhow!("a client's disk: {e}"))
    }

    async fn soil(&self, world: &World, range: Range) {
        let bytes = range.bytes.next_multiple_of(CLUSTER_BYTES);
        self.memory.borrow_mut().soil(Range { bytes, ..range });
        while self.memory.borrow().is_full() {
            world.sleep(LAZY_EVERY).await;
        }
    }

    /// Its lazy writer, for ever.
    pub(super) async fn write_lazily(&self, world: &World) -> Result<()> {
        let mut next = world.now();
        loop {
            next = world.now().max(next + LAZY_EVERY);
            world.sleep_until(next).await;
            let runs = self.memory.borrow_mut().take();
            for part in runs.into_iter().flat_map(|run| run.parts(TRANSFER_BYTES).collect::<Vec<_>>()) {
                let written = self.drive.write(part.at, self.zeros.slice(0..part.bytes as usize)).await;
                written.map_err(|e| anyhow!("a client's disk: {e}"))?;
                self.memory.borrow_mut().written(part, true);
            }
        }
    }
}

/// What the workers of one server share.
pub(super) struct Load {
    pub(super) server: Rc<Server>,
    plan: std::sync::Arc<Plan>,
    layout: std::sync::Arc<Layout>,
    costs: Costs,
    /// A request of SMB, a transfer of the server's disk, and how many of these it keeps going ahead.
    request_bytes: u64,
    transfer_bytes: u64,
    ahead: usize,
    read_share: f64,
    /// Whether a file that is written replaces the one there; else it is a new one.
    replaces: bool,
    seed: u64,
    /// Trees that workers have taken; after the last one they begin again.
    taken: Cell<u32>,
}

/// What of a load one run sets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mix {
    pub(super) read_percent: u32,
    pub(super) replaces: bool,
    pub(super) seed: u64,
}

impl Load {
    pub(super) fn new(
        scenario: &Fileserver,
        server: Rc<Server>,
        (plan, layout): (std::sync::Arc<Plan>, std::sync::Arc<Layout>),
        mix: Mix,
    ) -> Load {
        Load {
            server,
            plan,
            layout,
            costs: scenario.client.clone(),
            request_bytes: scenario.server.request_bytes.0,
            transfer_bytes: scenario.server.transfer.0,
            ahead: scenario.server.read_ahead as usize,
            read_share: f64::from(mix.read_percent) / 100.0,
            replaces: mix.replaces,
            seed: mix.seed,
            taken: Cell::default(),
        }
    }

    /// One worker, for ever: one tree after another, no think time.
    pub(super) async fn work(&self, world: &World, machine: &Machine, mut rng: Rng) -> Result<()> {
        loop {
            let unit_number = self.taken.get();
            self.taken.set(unit_number + 1);
            let number = unit_number % self.plan.spec().trees;
            let tree = self.plan.tree(number);
            let placed = self.layout.place(&tree);
            for step in unit(&self.plan, (self.seed, number), self.read_share) {
                let file = tree.files[step.file as usize];
                let from_ns = world.now().0;
                for folder in tree.folders.way(file.folder) {
                    self.server.list(&placed, folder).await?;
                }
                self.server.open(placed.record(step.file)).await?;
                self.think(world, &mut rng).await;
                match step.reads {
                    true => self.read(world, machine, (&tree, &placed), step).await?,
                    false => self.write(machine, (&tree, &placed), step).await?,
                }
                self.server.count(|t| t.files += 1);
                let (file, is_read, to_ns) = (step.file, step.reads, world.now().0);
                self.server.note_copied(Copied { unit: unit_number, file, is_read, from_ns, to_ns });
            }
        }
    }

    /// The work of the client's own programs for a file, around its mean, for workers would go in step.
    async fn think(&self, world: &World, rng: &mut Rng) {
        let ns = self.costs.file.0.as_nanos() as u64;
        world.sleep(Duration::from_nanos(ns / 2 + rng.u64(..=ns))).await;
    }

    /// From the server. Its cache reads ahead of the requests, which the client keeps going.
    async fn read(
        &self,
        world: &World,
        machine: &Machine,
        (tree, placed): (&Tree, &Placed),
        step: Step,
    ) -> Result<()> {
        let bytes = tree.files[step.file as usize].bytes;
        let file = Range { at: placed.file_at(step.file), bytes };
        let fetched = stream::iter(file.parts(self.transfer_bytes))
            .map(async |part| self.server.fetch(part).await.map(|()| part))
            .buffered(1 + self.ahead);
        let requests = fetched
            .map_ok(|part| stream::iter(part.parts(self.request_bytes).map(anyhow::Ok)))
            .try_flatten()
            .map_ok(async |part| {
                self.server.send(part.bytes).await;
                Ok(part)
            });
        let mut sent = Box::pin(requests.try_buffered(self.costs.requests as usize));
        while let Some(part) = sent.try_next().await? {
            machine.soil(world, part).await;
        }
        Ok(())
    }

    /// To the server, where the file gets clusters for all of its length before its bytes come.
    async fn write(&self, machine: &Machine, (tree, placed): (&Tree, &Placed), step: Step) -> Result<()> {
        let file = tree.files[step.file as usize];
        let here = Range { at: placed.file_at(step.file), bytes: file.bytes };
        let old_at = self.replaces.then_some(here.at);
        let at = self.server.replace(old_at, file.bytes);
        let fetched = stream::iter(here.parts(self.transfer_bytes))
            .map(async |part| machine.fetch(part).await.map(|()| part))
            .buffered(1 + self.ahead);
        let requests = fetched
            .map_ok(|part| stream::iter(part.parts(self.request_bytes).map(anyhow::Ok)))
            .try_flatten()
            .map_ok(async |part| {
                self.server.take(Range { at: at + (part.at - here.at), ..part }).await;
                Ok(())
            });
        let mut taken = Box::pin(requests.try_buffered(self.costs.requests as usize));
        while taken.try_next().await?.is_some() {}
        let buffer = placed.buffer_of(file.folder, step.file);
        self.server.note([placed.record(step.file)].into_iter().chain(buffer), (old_at, at));
        Ok(())
    }
}
