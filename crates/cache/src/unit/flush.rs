//! Making durable: through the journal, or by destaging.

use std::ops::Range;

use block::{BackingStore, BlockError, Device};

use super::state::{Unit, blocks_of, bytes_of};
use crate::frames::FRAME_BYTES;

/// Blocks that are locked while they are destaged: 16 MiB.
const PIECE_BLOCKS: u64 = (16 << 20) / FRAME_BYTES as u64;

impl<D: BackingStore, J: Device + Clone + 'static> Unit<D, J> {
    /// Makes everything durable that completed before this call: with a journal by a commit, without one by
    /// destaging.
    ///
    /// # Errors
    /// The commit, a destage or the flush of the store failed; what was not durable before may not be
    /// durable.
    pub async fn flush(&self) -> Result<(), BlockError> {
        let end = self.geometry().len_bytes;
        self.sync_range(0..end).await
    }

    /// Makes everything in a range durable that completed before this call (a write with FUA).
    ///
    /// # Errors
    ///
    /// A volume or journal write failed; the data stay dirty and are written again.
    pub async fn sync(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.sync_range(at..at + len).await
    }

    /// Destages what is dirty when it is called, from the first block to the last, while hosts go on. Only
    /// operations that bypass the frames wait, for the piece that is being destaged.
    ///
    /// # Errors
    /// A destage or the flush of the store failed.
    pub async fn destage(&self) -> Result<(), BlockError> {
        let end = blocks_of(&(0..self.geometry().len_bytes)).end;
        let mut from = 0;
        while let Some(first) = self.first_dirty(from..end) {
            let piece = first..(first + PIECE_BLOCKS).min(end);
            let _held = self.state.locks.shared(bytes_of(&piece)).await;
            from = piece.end;
            self.destage_range(piece).await?;
        }
        self.flush_store(self.state.changes.get()).await
    }

    fn first_dirty(&self, blocks: Range<u64>) -> Option<u64> {
        let frames = self.cache.frames.borrow();
        frames.dirty_after(self.state.id, blocks.start).next().filter(|block| *block < blocks.end)
    }

    async fn sync_range(&self, range: Range<u64>) -> Result<(), BlockError> {
        match &self.state.journal {
            Some(journal) => {
                // No later record belongs to this unit.
                let last = journal.next_sequence() - 1;
                // What was destaged needs no flush: its records are kept until the store was flushed.
                let bypassed = self.state.bypassed.get();
                journal.durable(last).await?;
                self.flush_store(bypassed).await
            }
            None => {
                let blocks = blocks_of(&range);
                let _held = self.state.locks.shared(bytes_of(&blocks)).await;
                self.destage_range(blocks).await?;
                self.flush_store(self.state.changes.get()).await
            }
        }
    }

    /// Flushes the store, unless its first `changes` changes are already durable.
    pub(crate) async fn flush_store(&self, changes: u64) -> Result<(), BlockError> {
        let state = &self.state;
        if state.flushed.get() < changes {
            // Changes during the flush are not covered by it.
            let covered = state.changes.get();
            state.store.flush().await?;
            state.flushed.set(state.flushed.get().max(covered));
        }
        Ok(())
    }
}
