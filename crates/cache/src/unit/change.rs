//! Direct operations on the store: zeroing, unmapping, copies, large writes.

use std::ops::Range;

use block::{BackingStore, BlockError, Device, Pieces, RangeGuard};

use super::state::{Unit, blocks_of, bytes_of};
use crate::frames::{FrameState, Key};

/// A range whose content is on the store, and that cannot be written until this is dropped.
pub struct Settled<'a> {
    _held: RangeGuard<'a>,
}

impl<D: BackingStore, J: Device + Clone + 'static> Unit<D, J> {
    /// Runs `operation`, which changes the range on the store and nothing else of this unit. Writes to the
    /// range wait. If it fails, the range may be changed in part.
    ///
    /// # Errors
    /// The operation's, or those of a destage or flush that it needs.
    pub async fn change<T>(
        &self,
        range: Range<u64>,
        operation: impl Future<Output = Result<T, BlockError>>,
    ) -> Result<T, BlockError> {
        self.change_and_keep(range, operation, None).await
    }

    pub(super) async fn change_and_keep<T>(
        &self,
        range: Range<u64>,
        operation: impl Future<Output = Result<T, BlockError>>,
        content: Option<&Pieces>,
    ) -> Result<T, BlockError> {
        let _held = self.state.locks.exclusive(bytes_of(&blocks_of(&range))).await;
        self.change_held(range, operation, content).await
    }

    /// Like [`Unit::change`], for an operation with the source range `from` of `source`: its dirty data are
    /// destaged first, and writes to it also wait.
    pub async fn change_from<T>(
        &self,
        range: Range<u64>,
        source: &Unit<D, J>,
        from: Range<u64>,
        operation: impl Future<Output = Result<T, BlockError>>,
    ) -> Result<T, BlockError> {
        let (to, from) = (bytes_of(&blocks_of(&range)), bytes_of(&blocks_of(&from)));
        // Locked in the order of the units, so that no deadlock is possible; within one unit, both at once.
        let (_first, _second) = if self.state.id == source.state.id {
            (self.state.locks.exclusive_of([to, from.clone()]).await, None)
        } else if self.state.id < source.state.id {
            let first = self.state.locks.exclusive(to).await;
            (first, Some(source.state.locks.exclusive(from.clone()).await))
        } else {
            let first = source.state.locks.exclusive(from.clone()).await;
            (first, Some(self.state.locks.exclusive(to).await))
        };
        source.settle_held(from).await?;
        self.change_held(range, operation, None).await
    }

    /// Waits until all content of the range is on the store, and locks out writers: for operations on the
    /// store as a whole (clones, tokens). No replay writes older records there again.
    ///
    /// # Errors
    /// A destage, the flush of the store or the journal failed.
    pub async fn settle(&self, range: Range<u64>) -> Result<Settled<'_>, BlockError> {
        let blocks = blocks_of(&range);
        let held = self.state.locks.exclusive(bytes_of(&blocks)).await;
        self.settle_held(bytes_of(&blocks)).await?;
        Ok(Settled { _held: held })
    }

    /// The range of whole blocks is locked exclusively. Its content may be shared next: a replay of records
    /// that are on the store would give each page to one of those that share it.
    async fn settle_held(&self, bytes: Range<u64>) -> Result<(), BlockError> {
        self.destage_range(blocks_of(&bytes)).await?;
        match (self.forget_in_journal(&bytes).await?, &self.state.journal) {
            (Some(forget), Some(journal)) => journal.durable(forget).await,
            _ => Ok(()),
        }
    }

    /// The range is locked exclusively.
    async fn change_held<T>(
        &self,
        range: Range<u64>,
        operation: impl Future<Output = Result<T, BlockError>>,
        content: Option<&Pieces>,
    ) -> Result<T, BlockError> {
        let (state, blocks) = (&self.state, blocks_of(&range));
        // If a block is changed in part, its other dirty sectors must not be lost with its frame.
        let bytes = bytes_of(&blocks);
        if bytes.start != range.start {
            self.destage_range(blocks.start..blocks.start + 1).await?;
        }
        if bytes.end != range.end {
            self.destage_range(blocks.end - 1..blocks.end).await?;
        }
        // From here on no destage of the range begins, because it is locked exclusively. One in flight could
        // arrive after the operation.
        self.wait_for_destages(&blocks).await;
        let outcome = operation.await;
        state.note_bypass();
        // Its evicted frames are dropped too.
        self.cache.offer_evicted();
        self.changed(&range);
        match &outcome {
            Ok(_) => self.cache.frames.borrow_mut().drop_range(state.id, blocks),
            Err(_) => self.drop_clean(blocks),
        }
        self.cache.cleaned.wake_all();
        let done = outcome?;
        if let Some(content) = content {
            self.keep(range.start, content);
        }
        self.forget_in_journal(&range).await?;
        Ok(done)
    }

    /// Older records of the range must not be replayed over it. The store is flushed first: without the
    /// records, what they replaced must not return either. Returns the number of the *Forget* record, if one
    /// was needed.
    pub(crate) async fn forget_in_journal(&self, range: &Range<u64>) -> Result<Option<u64>, BlockError> {
        let Some(journal) = &self.state.journal else { return Ok(None) };
        if !journal.holds(self.state.stable_id, range.clone()) {
            return Ok(None);
        }
        self.state.store.flush().await?;
        Ok(Some(journal.append_forget(self.state.stable_id, range.start, range.end - range.start)))
    }

    /// The store's content of the range is unknown.
    fn drop_clean(&self, blocks: Range<u64>) {
        let mut frames = self.cache.frames.borrow_mut();
        for block in frames.present(self.state.id, blocks) {
            let key = Key { unit: self.state.id, block };
            if frames.peek(key).is_some_and(|f| f.state == FrameState::Clean) {
                frames.drop_range(self.state.id, block..block + 1);
            }
        }
    }
}
