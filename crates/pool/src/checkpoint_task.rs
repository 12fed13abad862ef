//! Writes a checkpoint and puts it in force. A checkpoint that changes the set of groups does both at once.
//!
//! ```text
//!   blocks ──> the holders of the new table ── flush ── superblock ──> the holders ── flush    it counts
//!                                                                       └──> the other groups, if the table changed
//! ```

use std::rc::Rc;

use block::{BlockError, Device, Pieces};
use futures::future::join_all;
use world::yield_now;

use crate::area::{Area, Areas};
use crate::catalog::Catalog;
use crate::checkpoint::{Packer, items};
use crate::commit_task::{flush_all, write_all};
use crate::inner::Inner;
use crate::layout::{CHECKPOINT_BLOCK, SLOTS_AT};
use crate::structure::Change;
use crate::superblock::Superblock;

/// Items encoded between two yields: 128 leaves, less than a millisecond. (A block write is a yield, too, but
/// thousands of leaves with contiguous pages fit in a block.)
const STEP_ITEMS: usize = 128;

impl Inner {
    /// Writes the checkpoint of `catalog` in the background, with `change` if there is one.
    pub(crate) fn spawn_checkpoint_task(self: &Rc<Self>, catalog: Catalog, change: Option<Rc<Change>>) {
        let inner = self.clone();
        self.world.spawn(async move {
            match inner.checkpoint(&catalog, change).await {
                Ok(()) => inner.journal.checkpoint_runs.set(false),
                Err(error) => inner.poison(&error),
            }
            inner.commit.progress.wake_all();
        });
    }

    async fn checkpoint(&self, catalog: &Catalog, change: Option<Rc<Change>>) -> Result<(), BlockError> {
        let (generation, sequence) = (self.journal.generation.get(), self.journal.sequence.get());
        let next = Superblock { generation, sequence, ..self.superblock.borrow().clone() };
        let Some(change) = change else {
            return self.write_persistently(catalog, &next, &self.areas()).await;
        };
        let next = Superblock { table: change.table.clone(), ..next };
        self.write_persistently(catalog, &next, &change.areas).await?;
        self.install(&change);
        self.persistently(async || self.tell_others().await).await
    }

    /// A failed attempt may be in force already: the next attempt writes the same.
    async fn write_persistently(
        &self,
        catalog: &Catalog,
        next: &Superblock,
        areas: &Areas,
    ) -> Result<(), BlockError> {
        self.persistently(async || self.write_checkpoint(catalog, next.clone(), areas).await).await
    }

    /// Writes a checkpoint to the holders of `next` and puts it in force. `areas` are those of its table.
    pub(crate) async fn write_checkpoint(
        &self,
        catalog: &Catalog,
        next: Superblock,
        areas: &Areas,
    ) -> Result<(), BlockError> {
        let holders: Vec<Rc<Area>> = next.table.holders.iter().map(|h| areas[*h as usize].clone()).collect();
        let generation = next.generation;
        let mut packer = Packer::new(self.id, generation);
        for (i, item) in items(catalog).enumerate() {
            packer.push(&item);
            if i % STEP_ITEMS == STEP_ITEMS - 1 {
                self.give_way().await;
            }
            while let Some((index, buf)) = packer.block(false) {
                self.write_checkpoint_block(&holders, generation, index, buf).await?;
            }
        }
        while let Some((index, buf)) = packer.block(true) {
            self.write_checkpoint_block(&holders, generation, index, buf).await?;
        }
        flush_all(&holders).await?;
        let superblock = Superblock { checkpoint_blocks: packer.blocks(), ..next };
        write_superblocks(&superblock, areas, |i| superblock.table.is_holder(i)).await?;
        *self.superblock.borrow_mut() = superblock;
        self.count(|c| c.checkpoints += 1);
        Ok(())
    }

    /// Writes the superblock to the groups without metadata, so that they identify the pool's groups if a
    /// holder is gone.
    pub(crate) async fn tell_others(&self) -> Result<(), BlockError> {
        let superblock = self.superblock.borrow().clone();
        write_superblocks(&superblock, &self.areas(), |i| !superblock.table.is_holder(i)).await
    }

    async fn write_checkpoint_block(
        &self,
        holders: &[Rc<Area>],
        generation: u64,
        index: u32,
        buf: block::Buf,
    ) -> Result<(), BlockError> {
        let within = u64::from(index) * CHECKPOINT_BLOCK;
        if within + CHECKPOINT_BLOCK > self.layout.checkpoint_area {
            let place = format!("pool {}", self.name);
            return Err(BlockError::Corrupt {
                place,
                cause: "a checkpoint does not fit its area".to_owned(),
            });
        }
        write_all(holders, self.layout.checkpoint_at(generation) + within, &buf.freeze().into()).await?;
        // A large checkpoint must not delay other I/O, not even on drives that answer at once.
        yield_now().await;
        Ok(())
    }
}

/// Writes the superblock to the groups at the positions that `whose` returns, and flushes them.
async fn write_superblocks(
    superblock: &Superblock,
    areas: &Areas,
    whose: impl Fn(usize) -> bool,
) -> Result<(), BlockError> {
    let at = SLOTS_AT[(superblock.generation % 2) as usize];
    let chosen: Vec<(Rc<Area>, Pieces)> = (0..areas.len())
        .filter(|i| whose(*i))
        .map(|i| (areas[i].clone(), superblock.of_group(i as u32).encode()))
        .collect();
    let writes = chosen.iter().map(|(area, copy)| area.group.write(at, copy));
    join_all(writes).await.into_iter().collect::<Result<(), _>>()?;
    join_all(chosen.iter().map(|(area, _)| area.group.flush())).await.into_iter().collect()
}
