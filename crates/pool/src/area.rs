//! The pages of one group, and whether the group has something to flush.

use std::cell::Cell;

use block::{BlockError, Device, Pieces};
use raid::Group;

use crate::superblock::GroupEntry;

/// A group's share of the pool.
pub(crate) struct Area {
    pub(crate) group: Group,
    pub(crate) entry: GroupEntry,
    pub(crate) block_bytes: u64,
    /// Something was written since the last flush began; also by a process before this one, for all that is known.
    dirty: Cell<bool>,
    /// Flushes in flight: what they cover is not durable yet.
    flushing: Cell<u32>,
}

impl Area {
    pub(crate) fn new(group: Group, entry: GroupEntry) -> Area {
        let block_bytes = group.geometry().block_bytes.into();
        Area { group, entry, block_bytes, dirty: Cell::new(true), flushing: Cell::new(0) }
    }

    /// The page after the last one.
    pub(crate) fn end_page(&self) -> u32 {
        self.entry.first_page + self.entry.pages
    }

    pub(crate) async fn write(&self, at: u64, data: &Pieces) -> Result<(), BlockError> {
        let outcome = self.group.write(at, data).await;
        self.dirty.set(true);
        outcome
    }

    pub(crate) async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        let outcome = self.group.zero(at, len).await;
        self.dirty.set(true);
        outcome
    }

    /// Flushes unless everything is durable already.
    pub(crate) async fn flush(&self) -> Result<(), BlockError> {
        if !self.dirty.get() && self.flushing.get() == 0 {
            return Ok(());
        }
        self.dirty.set(false);
        self.flushing.set(self.flushing.get() + 1);
        let outcome = self.group.flush().await;
        self.flushing.set(self.flushing.get() - 1);
        if outcome.is_err() {
            self.dirty.set(true);
        }
        outcome
    }
}
