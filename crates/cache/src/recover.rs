//! Recovery after a crash: records of a journal become dirty frames. And detaching a unit.

use block::{BackingStore, BlockError, Device, Pieces};

use crate::cache::Cache;
use crate::journal::{Replay, ReplayRecord};
use crate::unit::{Unit, WritePolicy, blocks_of, bytes_of};

/// Result of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Applied records.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Records of stores that no longer exist.
    pub orphans: u64,
}

impl<D: BackingStore, J: Device + Clone + 'static> Cache<D, J> {
    /// Applies the records of a journal, before anything else uses the units that share it. Service can begin
    /// afterwards, while dirty frames are destaged in the background. Can be interrupted and repeated.
    ///
    /// # Errors
    /// The journal cannot be read, or a store failed a write or destage that the replay needed.
    pub async fn replay(&self, mut replay: Replay<J>, units: &[Unit<D, J>]) -> Result<Replayed, BlockError> {
        let mut done = Replayed::default();
        self.0.replaying.set(self.0.replaying.get() + 1);
        let outcome = self.replay_all(&mut replay, units, &mut done).await;
        self.0.replaying.set(self.0.replaying.get() - 1);
        self.0.dirtied();
        outcome.map(|()| done)
    }

    async fn replay_all(
        &self,
        replay: &mut Replay<J>,
        units: &[Unit<D, J>],
        done: &mut Replayed,
    ) -> Result<(), BlockError> {
        while let Some(record) = replay.next().await? {
            match units.iter().find(|u| u.state.stable_id == record.unit) {
                Some(unit) => {
                    unit.take_over(&record).await?;
                    done.records += 1;
                    done.bytes += record.len;
                }
                None => done.orphans += 1,
            }
        }
        Ok(())
    }

    /// Ends the cache of a unit: everything is on the store and durable, and no frame is left. After the last
    /// unit of a journal, close the journal.
    ///
    /// # Errors
    /// A destage or the flush of the store failed; the unit stays attached.
    pub async fn detach(&self, unit: &Unit<D, J>) -> Result<(), BlockError> {
        let end = unit.geometry().len_bytes;
        unit.set_policy(WritePolicy::Off);
        let held = unit.state.locks.exclusive(bytes_of(&blocks_of(&(0..end)))).await;
        unit.destage_range(blocks_of(&(0..end))).await?;
        unit.flush_store(unit.state.changes.get()).await?;
        // Nobody waits for it: a journal that has failed keeps no unit.
        unit.forget_in_journal(&(0..end)).await?;
        self.0.frames.borrow_mut().drop_range(unit.state.id, blocks_of(&(0..end)));
        self.0.units.borrow_mut().remove(&unit.state.id);
        self.0.note_left(&unit.state, unit.partition());
        drop(held);
        self.0.cleaned.wake_all();
        Ok(())
    }

    /// As [`Cache::detach`], of a unit whose content nobody needs any more, because its store is deleted:
    /// dirty data are not destaged, for which a full pool has no room.
    ///
    /// # Errors
    /// As [`Cache::detach`].
    pub async fn discard(&self, unit: &Unit<D, J>) -> Result<(), BlockError> {
        unit.set_policy(WritePolicy::Off);
        let whole = bytes_of(&blocks_of(&(0..unit.geometry().len_bytes)));
        unit.change(whole, async { Ok(()) }).await?;
        self.detach(unit).await
    }
}

impl<D: BackingStore, J: Device + Clone + 'static> Unit<D, J> {
    async fn take_over(&self, record: &ReplayRecord) -> Result<(), BlockError> {
        // A record is checked like any other input.
        let geometry = self.geometry();
        geometry.check(record.at, record.len)?;
        let block = u64::from(geometry.block_bytes);
        if !record.at.is_multiple_of(block) || !record.len.is_multiple_of(block) {
            let place = format!("record {} of the journal", record.sequence);
            let cause = format!("{} bytes at {} are not whole blocks", record.len, record.at);
            return Err(BlockError::Corrupt { place, cause });
        }
        if !self.state.store.takes_in_place(record.at, record.len) {
            match self.state.write_below(None, record.at, &record.data).await {
                // It stays dirty, as after a destage that failed: whoever makes room needs the store open.
                Err(full @ BlockError::NoSpace { .. }) => *self.state.failure.borrow_mut() = Some(full),
                done => done?,
            }
        }
        self.put_again(record.at, &record.data, record.sequence).await
    }

    async fn put_again(&self, at: u64, data: &Pieces, sequence: u64) -> Result<(), BlockError> {
        let mut done = 0;
        while done < data.len() {
            let put = self.put_frames(at + done as u64, &data.slice(done, data.len() - done), sequence);
            self.changed(&(at + done as u64..at + (done + put) as u64));
            done += put;
            if put == 0 {
                // More than the memory holds: destage some of it now.
                self.cache.wait_for_clean_or_full().await?;
            }
        }
        Ok(())
    }
}
