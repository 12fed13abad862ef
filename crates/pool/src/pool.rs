//! The handle of a pool.

use std::rc::Rc;
use std::time::Duration;

use block::BlockError;
use world::LatencyCounts;

use crate::closed::Closed;
use crate::events::Thresholds;
use crate::inner::Inner;
use crate::record::Record;
use crate::spec::{PoolCounts, PoolId, PoolSpace};
use crate::volume::Volume;
use crate::{PoolError, PoolEvent};

/// A write that found no room below a drive is told for so long.
const NO_ROOM_SHOWN: Duration = Duration::from_secs(60);

/// A thin pool: a handle, cheap to clone.
#[derive(Clone)]
pub struct Pool(pub(crate) Rc<Inner>);

impl Pool {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its identity.
    pub fn id(&self) -> PoolId {
        self.0.id
    }

    /// The latencies of reads and writes of its volumes since it was opened, of one operation in sixteen.
    pub fn latencies(&self) -> (LatencyCounts, LatencyCounts) {
        self.0.stage.counts()
    }

    /// Whether another handle keeps the pool open: of itself, of a volume or of a ROD.
    pub fn is_used_elsewhere(&self) -> bool {
        Rc::strong_count(&self.0) > 1
    }

    /// Used and free space.
    pub fn space(&self) -> PoolSpace {
        let (space, page) = (self.0.space.borrow(), self.0.page_bytes);
        let (total, used) = (u64::from(space.total()) * page, u64::from(space.used()) * page);
        PoolSpace {
            total_bytes: total,
            used_bytes: used,
            shared_bytes: u64::from(space.shared()) * page,
            held_bytes: u64::from(space.only_held()) * page,
            free_bytes: total - used,
            subscribed_bytes: self.0.totals.subscribed_bytes(),
            soft_threshold_percent: self.0.thresholds.get().soft,
            critical_threshold_percent: self.0.thresholds.get().critical,
            page_bytes: page,
        }
    }

    /// Counters since it was opened.
    pub fn counts(&self) -> PoolCounts {
        self.0.counts.get()
    }

    /// The volume of this name.
    pub fn volume(&self, name: &str) -> Option<Volume> {
        let id = self.0.totals.id_of(name)?;
        let state = self.0.volumes.borrow().get(&id)?.clone();
        let is_complete = !state.unfinished.get() && !state.deleted.get();
        is_complete.then(|| Volume { pool: self.0.clone(), state })
    }

    /// All volumes, in the order of their creation.
    pub fn volumes(&self) -> Vec<Volume> {
        let volumes = self.0.volumes.borrow();
        let complete = volumes.values().filter(|v| !v.unfinished.get() && !v.deleted.get());
        complete.map(|state| Volume { pool: self.0.clone(), state: state.clone() }).collect()
    }

    /// Sets the used shares at which events are raised, in percent; 0: never. Durable on return.
    ///
    /// # Errors
    ///
    /// Invalid thresholds, or the pool's metadata cannot be written.
    pub async fn set_thresholds(&self, soft: u8, critical: u8) -> Result<(), PoolError> {
        let thresholds = Thresholds { soft, critical };
        if let Some(cause) = thresholds.fault() {
            return Err(PoolError::Spec { pool: self.0.name.clone(), cause });
        }
        self.0.room().await?;
        if self.0.thresholds.replace(thresholds) != thresholds {
            self.0.events.renew();
        }
        self.0.log(Record::Thresholds(thresholds));
        self.0.watch();
        Ok(self.0.commit().await?)
    }

    /// The next event. For one listener.
    pub async fn next_event(&self) -> PoolEvent {
        self.0.events.next().await
    }

    /// Why the storage below a drive has no room for what is to be written: metadata now, or data of a volume
    /// in the last minute.
    pub fn no_room(&self) -> Option<BlockError> {
        let stalled = self.0.stalled.borrow().clone().filter(|e| matches!(e, BlockError::NoRoom { .. }));
        let last = self.0.no_room.borrow().clone();
        let recent = |at| self.0.world.now() < at + NO_ROOM_SHOWN;
        stalled.or_else(|| last.filter(|(at, _)| recent(*at)).map(|(_, error)| error))
    }

    /// Why writes of volumes failed in the last minute: a drive refused them, and its group has no redundancy
    /// that takes them.
    pub fn refused_writes(&self) -> Option<BlockError> {
        let last = self.0.refused.borrow().clone();
        last.filter(|(at, _)| self.0.world.now() < *at + NO_ROOM_SHOWN).map(|(_, error)| error)
    }

    /// Makes everything durable that completed before the call.
    ///
    /// # Errors
    ///
    /// A drive failed, and redundancy did not help. What was durable before stays so.
    pub async fn flush(&self) -> Result<(), BlockError> {
        self.0.flush().await
    }

    /// Flushes and closes the groups, with all metadata in a checkpoint: at the next start no frame of the
    /// journal can be taken for one that a power failure tore. Nothing may be in flight or follow.
    ///
    /// # Errors
    ///
    /// As [`Pool::flush`]; the next start then recovers.
    pub async fn close(&self) -> Result<Closed, BlockError> {
        let inner = &self.0;
        let checkpoint_ended = || !inner.journal.checkpoint_runs.get() || inner.alive().is_err();
        inner.commit.progress.wait_for(|| checkpoint_ended().then_some(())).await;
        inner.journal.ends.set(true);
        inner.commit().await?;
        inner.commit.progress.wait_for(|| checkpoint_ended().then_some(())).await;
        inner.journal.ends.set(false);
        inner.alive()?;
        for area in self.0.areas().iter() {
            area.group.close().await?;
        }
        Ok(Closed::with(&inner.superblock.borrow()))
    }
}
