//! The pool as its users hold it.

use std::fmt;
use std::rc::Rc;

use block::BlockError;

use crate::events::Thresholds;
use crate::inner::Inner;
use crate::layout::PAGE_BYTES_DEFAULT;
use crate::record::Record;
use crate::volume::Volume;
use crate::{PoolError, PoolEvent};

/// The identity of a pool, made when it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PoolId(pub [u8; 16]);

impl fmt::Display for PoolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// A pool as it is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSpec {
    /// Its name, 1 to 64 bytes.
    pub name: String,
    /// The unit in which space is handed out: a power of two from 64 KiB to 16 MiB.
    pub page_bytes: u64,
    /// The used share at which a warning is raised, in percent; 0: never.
    pub soft_threshold_percent: u8,
    /// The used share at which space is about to run out, in percent; 0: never.
    pub critical_threshold_percent: u8,
}

impl PoolSpec {
    /// A pool with pages of 1 MiB, a warning at 80 % and a more urgent one at 95 %.
    pub fn new(name: &str) -> PoolSpec {
        PoolSpec {
            name: name.to_owned(),
            page_bytes: PAGE_BYTES_DEFAULT,
            soft_threshold_percent: 80,
            critical_threshold_percent: 95,
        }
    }

    pub(crate) fn thresholds(&self) -> Thresholds {
        Thresholds { soft: self.soft_threshold_percent, critical: self.critical_threshold_percent }
    }
}

/// The space of a pool: `used_bytes + free_bytes = total_bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolSpace {
    /// Bytes in pages.
    pub total_bytes: u64,
    /// Bytes of pages that something refers to, each counted once.
    pub used_bytes: u64,
    /// Bytes of pages that more than one map entry or ROD refers to, each counted once. The others that are used are each the
    /// exclusive part of one volume, or held by nothing but a ROD.
    pub shared_bytes: u64,
    /// Bytes of the other pages, including those whose release is not durable yet: a write that needs them waits for it.
    pub free_bytes: u64,
    /// The sizes of all volumes together: what was promised.
    pub subscribed_bytes: u64,
    /// The used share at which a warning is raised, in percent; 0: never.
    pub soft_threshold_percent: u8,
    /// The used share at which space is about to run out, in percent; 0: never.
    pub critical_threshold_percent: u8,
    /// The size of a page.
    pub page_bytes: u64,
}

/// What a pool did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolCounts {
    /// Commits.
    pub commits: u64,
    /// Bytes that they wrote to the journal (to each copy).
    pub journal_bytes: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Reads, writes, zeroings, unmappings, copies and holds of its volumes: whether there is a foreground to be spared.
    pub operations: u64,
}

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

    /// Used and free space.
    pub fn space(&self) -> PoolSpace {
        let (space, page) = (self.0.space.borrow(), self.0.page_bytes);
        let (total, used) = (u64::from(space.total()) * page, u64::from(space.used()) * page);
        PoolSpace {
            total_bytes: total,
            used_bytes: used,
            shared_bytes: u64::from(space.shared()) * page,
            free_bytes: total - used,
            subscribed_bytes: self.0.totals.subscribed_bytes(),
            soft_threshold_percent: self.0.thresholds.get().soft,
            critical_threshold_percent: self.0.thresholds.get().critical,
            page_bytes: page,
        }
    }

    /// What it did since it was opened.
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

    /// Sets the used shares at which warnings are raised, in percent; 0: never. Durable when it returns.
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

    /// The next thing that the pool has to tell. For one listener.
    pub async fn next_event(&self) -> PoolEvent {
        self.0.events.next().await
    }

    /// Makes everything durable that completed before the call.
    pub async fn flush(&self) -> Result<(), BlockError> {
        self.0.flush().await
    }

    /// Flushes and closes the groups. Nothing may be in flight or follow.
    pub async fn close(&self) -> Result<(), BlockError> {
        self.0.commit().await?;
        for area in self.0.areas().iter() {
            area.group.close().await?;
        }
        Ok(())
    }
}
