//! Making durable: through the journal, or by destaging.

use std::ops::Range;

use block::{BlockError, Device};

use super::state::{Unit, blocks_of, bytes_of};
use crate::Store;

impl<D: Store, J: Device + Clone + 'static> Unit<D, J> {
    /// Makes everything that completed before this call durable.
    pub async fn flush(&self) -> Result<(), BlockError> {
        let end = self.geometry().len_bytes;
        self.sync_range(0..end).await
    }

    /// Makes what completed of a range before this call durable (a write with FUA).
    pub async fn sync(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.sync_range(at..at + len).await
    }

    async fn sync_range(&self, range: Range<u64>) -> Result<(), BlockError> {
        match &self.state.journal {
            Some(journal) => {
                // Nothing of this unit has a later record.
                let last = journal.next_sequence() - 1;
                let changes = self.state.changes.get();
                journal.durable(last).await?;
                self.flush_store(changes).await
            }
            None => {
                let blocks = blocks_of(&range);
                let _held = self.state.locks.shared(bytes_of(&blocks)).await;
                self.destage_range(blocks).await?;
                self.flush_store(self.state.changes.get()).await
            }
        }
    }

    /// Flushes the store, unless the first `changes` of it are durable already.
    pub(crate) async fn flush_store(&self, changes: u64) -> Result<(), BlockError> {
        let state = &self.state;
        if state.flushed.get() < changes {
            // What is changed while the flush is under way is not covered by it.
            let covered = state.changes.get();
            state.store.flush().await?;
            state.flushed.set(state.flushed.get().max(covered));
        }
        Ok(())
    }
}
