//! Zero-page reclaim: scans a thin volume and releases pages that hold only zeros.
//!
//! A page is first read without a lock: for most pages the first bytes decide. A page that looks like zeros
//! is read again with its index locked, while nobody writes it, and then released as by UNMAP, with a record
//! in the journal. If others refer to the page, too, only this volume's reference is dropped.

use std::ops::{ControlFlow, Range};

use block::{BlockError, Pieces};

use crate::record::Record;
use crate::span::Span;
use crate::volume::Volume;
use crate::volume_state::Provisioning;
use crate::{Pool, PoolError};

/// A page is read in steps of this size, and no further than it is zeros: large enough for a drive, small
/// enough that a page with data costs little.
const READ_STEP: u64 = 256 << 10;
/// Unmapped indices are skipped in steps of this many, with yields: 64 leaves.
const SKIP_INDICES: u32 = 64 << 10;
/// One comparison covers this much: vectors of 16 or 32 bytes, without a branch for each.
const LANE: usize = 256;

/// The result of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Bytes of pages that were read.
    pub scanned_bytes: u64,
    /// Bytes of pages that the volume no longer occupies.
    pub released_bytes: u64,
    /// Bytes that became free in the pool: of released pages without other references.
    pub freed_bytes: u64,
    /// Whether the whole volume was scanned; otherwise the scan was stopped.
    pub complete: bool,
}

/// Whether all bytes are zero. (The fold over a lane becomes vector instructions; the branch is taken once
/// per lane.)
fn is_zero(bytes: &[u8]) -> bool {
    let mut lanes = bytes.chunks_exact(LANE);
    let none = |lane: &[u8]| lane.iter().fold(0, |all, byte| all | byte) == 0;
    lanes.by_ref().all(none) && none(lanes.remainder())
}

impl Pool {
    /// Releases pages of zeros in a thin volume, online. `pace` is called after every page with the bytes
    /// that were read: it waits for other I/O, and may stop the scan.
    ///
    /// # Errors
    ///
    /// No such volume, it is thick, or a group failed.
    pub async fn reclaim(
        &self,
        volume: &str,
        pace: impl AsyncFnMut(u64) -> ControlFlow<()>,
    ) -> Result<Reclaimed, PoolError> {
        self.reclaim_behind(volume, async |_| Ok(()), pace).await
    }

    /// The same below a cache: before a page is released, `hold` destages a range of bytes to the volume, and
    /// prevents more writes to it as long as its result lives.
    pub async fn reclaim_behind<H>(
        &self,
        volume: &str,
        hold: impl AsyncFn(Range<u64>) -> Result<H, BlockError>,
        mut pace: impl AsyncFnMut(u64) -> ControlFlow<()>,
    ) -> Result<Reclaimed, PoolError> {
        let (pool, name) = (self.name().to_owned(), volume.to_owned());
        let Some(volume) = self.volume(volume) else {
            return Err(PoolError::NoVolume { pool, volume: name });
        };
        if volume.state.provisioning == Provisioning::Thick {
            let cause = "cannot reclaim a thick volume: its pages stay reserved".to_owned();
            return Err(PoolError::Volume { pool, volume: name, cause });
        }
        Ok(volume.reclaim(&hold, &mut pace).await?)
    }
}

impl Volume {
    async fn reclaim<H>(
        &self,
        hold: &impl AsyncFn(Range<u64>) -> Result<H, BlockError>,
        pace: &mut impl AsyncFnMut(u64) -> ControlFlow<()>,
    ) -> Result<Reclaimed, BlockError> {
        let mut found = Reclaimed::default();
        let mut next = Some(0);
        while let Some(from) = next {
            self.alive()?;
            let (index, after) = self.next_page(from);
            next = after;
            let Some(index) = index else {
                self.pool.give_way().await;
                continue;
            };
            found.scanned_bytes += self.pool.page_bytes;
            let (mut read, looks_zero) = self.page_is_zero(index).await?;
            if looks_zero {
                let (at, len) = (u64::from(index) * self.pool.page_bytes, self.state.len_bytes.get());
                let _held = hold(at..(at + self.pool.page_bytes).min(len)).await?;
                read += self.release_if_zero(index, &mut found).await?;
            }
            if pace(read).await.is_break() {
                return Ok(found);
            }
        }
        // The released pages are free on return.
        self.pool.flush().await?;
        found.complete = true;
        Ok(found)
    }

    /// The first mapped index from `from` on, within one step, and the start of the next step; `None` at the
    /// end.
    fn next_page(&self, from: u32) -> (Option<u32>, Option<u32>) {
        let map = self.state.map.borrow();
        let end = from.saturating_add(SKIP_INDICES);
        match map.next_mapped(from, end) {
            Some(index) => (Some(index), Some(index + 1)),
            None if end as usize >= map.leaves() * crate::map::LEAF_LEN => (None, None),
            None => (None, Some(end)),
        }
    }

    /// Reads the page of an index as far as it holds zeros. Returns the length, and whether all of it was
    /// zeros. An unmapped index needs no second read.
    async fn page_is_zero(&self, index: u32) -> Result<(u64, bool), BlockError> {
        let Some(page) = self.state.map.borrow().get(index) else { return Ok((0, false)) };
        let _reading = self.pool.begin_reading(page, 1);
        let mut at = 0;
        while at < self.pool.page_bytes {
            let n = READ_STEP.min(self.pool.page_bytes - at);
            let mut data = Pieces::new();
            self.pool.read_pages(None, page, at, n, &mut data).await?;
            at += n;
            if !data.iter().all(|piece| is_zero(piece)) {
                return Ok((at, false));
            }
        }
        Ok((at, true))
    }

    /// Reads again while no write to the page is in flight, and releases it. Returns the length.
    async fn release_if_zero(&self, index: u32, found: &mut Reclaimed) -> Result<u64, BlockError> {
        let _lock = self.state.locks.exclusive(Span::one(index).into()).await;
        self.drain(Span::one(index)).await;
        self.alive()?;
        let (read, zero) = self.page_is_zero(index).await?;
        self.pool.room().await?;
        // The index is locked: the map cannot change.
        let page = self.state.map.borrow().get(index).filter(|_| zero);
        let Some(page) = page else { return Ok(read) };
        self.state.map.borrow_mut().set(index, None);
        self.pool.entries.set(self.pool.entries.get() - 1);
        self.pool.log(Record::Unmap { volume: self.state.id, index, count: 1 });
        let last = self.pool.drop_logged(self.state.id, page);
        self.pool.watch();
        found.released_bytes += self.pool.page_bytes;
        found.freed_bytes += u64::from(last) * self.pool.page_bytes;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bit_anywhere_is_not_zero() {
        for len in [0, 1, 255, 256, 257, 4096, 65_537] {
            let mut bytes = vec![0; len];
            assert!(is_zero(&bytes), "{len} zeros");
            for at in (0..len).step_by(len / 61 + 1).chain(len.checked_sub(1)) {
                bytes[at] = 0x80;
                assert!(!is_zero(&bytes), "byte {at} of {len}");
                bytes[at] = 0;
            }
        }
    }

    /// `cargo test --release -p pool zero_test_speed -- --ignored --nocapture`
    #[test]
    #[ignore = "a measurement"]
    #[expect(clippy::disallowed_methods, reason = "a measurement needs a clock")]
    fn zero_test_speed() {
        let bytes = vec![0; 64 << 20];
        let begun = std::time::Instant::now();
        let all = (0..16).all(|_| is_zero(std::hint::black_box(&bytes)));
        let gb = 16.0 * bytes.len() as f64 / 1e9;
        println!("{all}: {:.1} GB/s", gb / begun.elapsed().as_secs_f64());
    }
}
