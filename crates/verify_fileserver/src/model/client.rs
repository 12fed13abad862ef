//! The workers of a server's clients: the same steps as those of the real load.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use world::{Rng, World};

use super::super::load::{Step, unit};
use super::super::scenario::{Client as Costs, Fileserver};
use super::server::Server;
use super::volume::{Layout, Placed, Range};
use lab_tools::files::{Plan, Tree};

/// What the workers of one server share.
pub(super) struct Load {
    pub(super) server: Rc<Server>,
    pub(super) plan: std::sync::Arc<Plan>,
    pub(super) layout: std::sync::Arc<Layout>,
    costs: Costs,
    transfer_bytes: u64,
    read_share: f64,
    seed: u64,
    /// The tree that the next worker takes; after the last one it begins again.
    next: Cell<u32>,
}

impl Load {
    pub(super) fn new(
        scenario: &Fileserver,
        server: Rc<Server>,
        (plan, layout): (std::sync::Arc<Plan>, std::sync::Arc<Layout>),
        (read_percent, seed): (u32, u64),
    ) -> Load {
        Load {
            server,
            plan,
            layout,
            costs: scenario.client.clone(),
            transfer_bytes: scenario.server.transfer.0,
            read_share: f64::from(read_percent) / 100.0,
            seed,
            next: Cell::default(),
        }
    }

    /// One worker, for ever: one tree after another, no think time.
    pub(super) async fn work(&self, world: &World, mut rng: Rng) -> Result<()> {
        loop {
            let number = self.next.get();
            self.next.set((number + 1) % self.plan.spec().trees);
            let tree = self.plan.tree(number);
            let placed = self.layout.place(&tree);
            for step in unit(&self.plan, (self.seed, number), self.read_share) {
                self.step(world, (&tree, &placed), step, &mut rng).await?;
            }
        }
    }

    /// Around a mean, for workers would go in step.
    async fn pause(&self, world: &World, mean: Duration, rng: &mut Rng) {
        let ns = mean.as_nanos() as u64;
        world.sleep(Duration::from_nanos(ns / 2 + rng.u64(..=ns))).await;
    }

    async fn step(
        &self,
        world: &World,
        (tree, placed): (&Tree, &Placed),
        step: Step,
        rng: &mut Rng,
    ) -> Result<()> {
        let file = tree.files[step.file as usize];
        for folder in tree.folders.way(file.folder) {
            self.server.list(placed, folder).await?;
            self.pause(world, self.costs.folder.0, rng).await;
        }
        let record = placed.record(step.file);
        self.server.open(record).await?;
        self.pause(world, self.costs.file.0, rng).await;
        let old_at = placed.file_at(step.file);
        let at = if step.reads { old_at } else { self.server.place(old_at, file.bytes) };
        let mut from = 0;
        while from < file.bytes {
            let range = Range { at: at + from, bytes: self.transfer_bytes.min(file.bytes - from) };
            match step.reads {
                true => self.server.read(range).await?,
                false => self.server.write(range).await,
            }
            let local = self.costs.per_kib.0.mul_f64(range.bytes as f64 / 1024.0);
            self.pause(world, local, rng).await;
            from += range.bytes;
        }
        if !step.reads {
            self.server.note(record, at).await?;
        }
        let mut tally = self.server.tally.get();
        tally.files += 1;
        self.server.tally.set(tally);
        Ok(())
    }
}
