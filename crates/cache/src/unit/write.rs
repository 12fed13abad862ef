//! Writes: to the journal's queue and to frames, or directly to the store.

use std::ops::Range;

use block::{BackingStore, BlockError, Buf, Data, Device, Pieces};
use world::{OpenSpan, Trace};

use super::state::{Unit, WritePolicy, blocks_of, bytes_of};
use crate::frames::{FRAME_BYTES, Key, SECTOR_BYTES};

/// One block of a write: its sectors in a buffer of the block's length, and which of them count.
fn block_of(at: u64, data: &Pieces, block: u64) -> (Data, u8) {
    let start = block * FRAME_BYTES as u64;
    let (from, to) = (at.max(start), (at + data.len() as u64).min(start + FRAME_BYTES as u64));
    let within = (from - start) as usize..(to - start) as usize;
    if let Some(whole) = whole_block(&data.slice((from - at) as usize, within.len())) {
        return (whole, sectors_of(&within));
    }
    let mut buf = Buf::new(FRAME_BYTES);
    if within.len() < FRAME_BYTES {
        buf.fill(0);
    }
    data.slice((from - at) as usize, within.len()).copy_to(&mut buf[within.clone()]);
    (buf.freeze(), sectors_of(&within))
}

/// The block itself, where it lies in one buffer and keeps no more memory than a copy would.
fn whole_block(data: &Pieces) -> Option<Data> {
    let mut pieces = data.iter();
    let one = pieces.next().filter(|one| one.len() == FRAME_BYTES && one.keeps_only_itself());
    one.filter(|_| pieces.next().is_none()).cloned()
}

/// The mask of the sectors in a range of bytes of one block.
pub(super) fn sectors_of(within: &Range<usize>) -> u8 {
    let (first, end) = (within.start / SECTOR_BYTES, within.end.div_ceil(SECTOR_BYTES));
    ((1_u16 << end) - (1_u16 << first)) as u8
}

impl<D: BackingStore, J: Device + Clone + 'static> Unit<D, J> {
    /// Writes `data` at `at`. Durable after a [`Unit::flush`] that begins later.
    ///
    /// # Errors
    /// The range is invalid, the store refused an allocation or failed, the journal failed, or destages of
    /// the unit fail at the moment.
    pub fn write(&self, at: u64, data: &Pieces) -> impl Future<Output = Result<(), BlockError>> {
        self.write_traced(None, at, data)
    }

    /// The same as part of a command whose stages are recorded.
    ///
    /// # Errors
    ///
    /// Those of [`Unit::write`].
    pub async fn write_traced(
        &self,
        trace: Option<&Trace>,
        at: u64,
        data: &Pieces,
    ) -> Result<(), BlockError> {
        let len = data.len() as u64;
        self.geometry().check(at, len)?;
        if len == 0 {
            return Ok(());
        }
        self.state.count(|c| {
            c.writes += 1;
            c.write_bytes += len;
        });
        match self.state.policy.get() {
            WritePolicy::Back if len < self.cache.config.direct_bytes => {
                self.write_back(trace, at, data).await
            }
            WritePolicy::Through if len < self.cache.config.direct_bytes => {
                let range = at..at + len;
                self.change_and_keep(range, self.state.write_below(trace, at, data), Some(data)).await
            }
            _ => self.change(at..at + len, self.state.write_below(trace, at, data)).await,
        }
    }

    /// Writes `data` at `at`, and returns when that range is durable.
    ///
    /// # Errors
    ///
    /// The volume refuses the range (the pool is full), or the journal failed; a sector then has its old or
    /// its new content.
    pub async fn write_durable(
        &self,
        trace: Option<&Trace>,
        at: u64,
        data: &Pieces,
    ) -> Result<(), BlockError> {
        self.write_traced(trace, at, data).await?;
        let _span = OpenSpan::begin(trace, "sync", "");
        self.sync(at, data.len() as u64).await
    }

    async fn write_back(&self, trace: Option<&Trace>, at: u64, data: &Pieces) -> Result<(), BlockError> {
        let (state, len) = (&self.state, data.len() as u64);
        // Without a working destage, more dirty data would only make it worse.
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        // Before the range is locked: room may need the destage of a range that a direct operation has
        // locked, which waits for this lock.
        let mut is_hit = true;
        if let Some(journal) = &state.journal {
            if journal.presses() {
                self.cache.dirtied();
            }
            is_hit = !journal.room().await?;
        }
        let _held = state.locks.shared(bytes_of(&blocks_of(&(at..at + len)))).await;
        if !state.store.takes_in_place(at, len) {
            // Allocates the page, or fails here. Destaging it once more keeps a single order of all writes:
            // that of the frames.
            state.write_below(trace, at, data).await?;
            is_hit = false;
        }
        let mut done = 0;
        while done < data.len() {
            is_hit &= !self.cache.below_high().await;
            let rest = data.slice(done, data.len() - done);
            let put = self.put(at + done as u64, &rest);
            done += put;
            self.cache.dirtied();
            if put == 0 {
                is_hit = false;
                let _span = OpenSpan::begin(trace, "clean_frames", "");
                self.cache.wait_for_clean().await;
            }
        }
        if is_hit {
            state.count(|c| c.write_hit_bytes += len);
        }
        Ok(())
    }

    /// Stores as much as fits in frames, and the same in the journal's queue; returns the number of bytes.
    /// Frames and journal have the same order.
    fn put(&self, at: u64, data: &Pieces) -> usize {
        let state = &self.state;
        let sequence = state.journal.as_ref().map_or(0, |j| j.next_sequence());
        let put = self.put_frames(at, data, sequence);
        if put > 0 {
            self.changed(&(at..at + put as u64));
            if let Some(journal) = &state.journal {
                let given = journal.append_write(state.stable_id, at, &data.slice(0, put));
                assert_eq!(given, sequence, "the frames were told the number of their record");
            }
        }
        put
    }

    /// Stores as much as fits in frames; returns the number of bytes.
    pub(crate) fn put_frames(&self, at: u64, data: &Pieces, sequence: u64) -> usize {
        let mut frames = self.cache.frames.borrow_mut();
        let (mut put, end) = (0, at + data.len() as u64);
        for block in blocks_of(&(at..end)) {
            let (content, sectors) = block_of(at, data, block);
            let key = Key { unit: self.state.id, block };
            if frames.write(self.state.partition.get(), key, content, sectors, sequence).is_err() {
                break;
            }
            put = (end.min((block + 1) * FRAME_BYTES as u64) - at) as usize;
        }
        put
    }

    /// Caches the store's current content for reads. The range is locked exclusively, and no frame contains
    /// any of it.
    pub(super) fn keep(&self, at: u64, data: &Pieces) {
        let mut frames = self.cache.frames.borrow_mut();
        for block in blocks_of(&(at..at + data.len() as u64)) {
            let (content, sectors) = block_of(at, data, block);
            let key = Key { unit: self.state.id, block };
            frames.insert_clean(self.state.partition.get(), key, content, sectors);
        }
        drop(frames);
        self.cache.offer_evicted();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_block_in_a_buffer_of_its_own_is_not_copied() {
        let own = Pieces::copy_of(&[7; FRAME_BYTES]);
        let address = |data: &Data| data.as_ptr();
        let first = own.iter().next().map(address).expect("a piece");
        assert_eq!((address(&block_of(0, &own, 0).0), block_of(0, &own, 0).1), (first, 0xff));
        let part = Pieces::copy_of(&[7; 2 * FRAME_BYTES]);
        let first = part.iter().next().map(address).expect("a piece");
        assert_ne!(address(&block_of(0, &part, 0).0), first, "it would keep the other half");
    }

    #[test]
    fn the_blocks_of_a_write_and_their_sectors() {
        let data = Pieces::copy_of(&[7; 9 * 512]);
        let at = 6 * 512;
        let (first, sectors) = block_of(at, &data, 0);
        assert_eq!((sectors, first[5 * 512], first[6 * 512]), (0b1100_0000, 0, 7));
        let (second, sectors) = block_of(at, &data, 1);
        assert_eq!((sectors, second[6 * 512], second[7 * 512]), (0b0111_1111, 7, 0));
    }
}
