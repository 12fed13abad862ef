//! Writes: to all mirrors of a set at once. A drive that fails while another one of its set succeeds is
//! dropped.

use block::{BlockError, Pieces, RangeGuard};
use smallvec::SmallVec;
use world::{Drive, DriveError, Io, Trace};

use super::Sets;
use crate::changed::Changing;
use crate::inner::Inner;
use crate::segments::{self, segments};

type Writes = SmallVec<[(usize, Io<Result<(), DriveError>>); 8]>;

impl Inner {
    pub(crate) async fn sets_write(
        &self,
        sets: &Sets,
        trace: Option<&Trace>,
        at: u64,
        data: &Pieces,
    ) -> Result<(), BlockError> {
        let _held = self.begin_write(sets, at, data.len() as u64).await?;
        let _changing = self.changing_sets(sets, at, data.len() as u64);
        let mut writes = Writes::new();
        for extent in sets.extents(at, data.len() as u64) {
            let gathered;
            let part = if extent.len == data.len() as u64 {
                data
            } else {
                gathered = gather(sets, extent.set, at, data);
                &gathered
            };
            let parts = segments(part, self.geometry.block_bytes as usize);
            for (m, drive) in self.takers(sets, extent.set) {
                let mut to = self.data_offset + extent.from;
                for segment in &parts {
                    let io = segments::write(&drive, to, segment);
                    writes.push((m, io.traced(trace, "drive", &drive.info().name)));
                    to += segment.iter().map(|data| data.len() as u64).sum::<u64>();
                }
            }
        }
        self.sets_await(sets, Some((at, data.len() as u64)), writes).await
    }

    pub(crate) async fn sets_zero(&self, sets: &Sets, at: u64, len: u64) -> Result<(), BlockError> {
        let (mut from, end) = (at, at + len);
        while from < end {
            let (at, len) = (from, self.zeros_end(from, end) - from);
            let _turn = self.zeros_turn(len).await;
            let _held = self.begin_write(sets, at, len).await?;
            let _changing = self.changing_sets(sets, at, len);
            let mut writes = Writes::new();
            for extent in sets.extents(at, len) {
                for (m, drive) in self.takers(sets, extent.set) {
                    writes.push((m, drive.zero(self.data_offset + extent.from, extent.len)));
                }
            }
            self.sets_await(sets, Some((at, len)), writes).await?;
            from += len;
        }
        Ok(())
    }

    pub(crate) async fn sets_flush(&self) -> Result<(), BlockError> {
        let crate::inner::Layout::Sets(sets) = &self.layout else { return Ok(()) };
        let flushing = self.begin_flush();
        let takers = (0..sets.count as usize).flat_map(|set| self.takers(sets, set));
        let flushes = takers.map(|(m, drive)| (m, drive.flush())).collect();
        self.sets_await(sets, None, flushes).await?;
        flushing.succeeded();
        // If another operation dropped a drive meanwhile, the write is acknowledged only after the labels
        // record it.
        self.relabel().await
    }

    fn changing_sets(&self, sets: &Sets, at: u64, len: u64) -> Changing<'_> {
        self.changing_all(sets.extents(at, len).map(|e| e.from..e.from + e.len))
    }

    /// Locks the range, if there are mirrors.
    async fn begin_write(
        &self,
        sets: &Sets,
        at: u64,
        len: u64,
    ) -> Result<Option<RangeGuard<'_>>, BlockError> {
        if sets.copies == 1 {
            return Ok(None);
        }
        self.mirrors_begin_to_differ().await?;
        Ok(Some(self.locks.exclusive(at..at + len).await))
    }

    /// The drives of a set that take writes, including those that are being rebuilt.
    pub(crate) fn takers<'a>(
        &'a self,
        sets: &Sets,
        set: usize,
    ) -> impl Iterator<Item = (usize, Drive)> + use<'a> {
        sets.members(set).filter_map(|m| self.members[m].taking_part().map(|drive| (m, drive)))
    }

    /// Waits for all operations, so that nothing is in flight when the caller gets the first error. Drives
    /// that failed are dropped if another one of their set succeeded. `range`: address and length of a write;
    /// `None`: a flush, whose failure concerns all that was not flushed.
    async fn sets_await(
        &self,
        sets: &Sets,
        range: Option<(u64, u64)>,
        writes: Writes,
    ) -> Result<(), BlockError> {
        let mut failed: SmallVec<[(usize, DriveError); 2]> = SmallVec::new();
        let mut tried = 0_u32;
        for (m, io) in writes {
            tried |= 1 << m;
            if let Err(error) = io.await
                && !failed.iter().any(|(f, _)| *f == m)
            {
                failed.push((m, error));
            }
        }
        let mut outcome = Ok(());
        for set in 0..sets.count as usize {
            let of_set = sets.members(set).fold(0_u32, |set, m| set | 1 << m);
            let took = sets.members(set).any(|m| {
                let active = self.members[m].active().is_some();
                tried & 1 << m != 0 && active && !failed.iter().any(|(f, _)| *f == m)
            });
            let of_it = |(m, _): &&(usize, DriveError)| of_set & 1 << m != 0;
            if !took && (tried & of_set != 0 || self.has_nobody(sets, set)) {
                outcome = outcome.and(Err(self.nobody_took_it(sets, range, failed.iter().find(of_it))));
            }
            for (m, error) in failed.iter().filter(of_it) {
                if took || matches!(error, DriveError::Gone { .. }) {
                    outcome = outcome.and(self.drop_member(*m, error).await);
                }
            }
        }
        outcome
    }

    fn has_nobody(&self, sets: &Sets, set: usize) -> bool {
        sets.members(set).all(|m| self.members[m].active().is_none())
    }

    /// The mirrors may now hold different parts of it.
    fn nobody_took_it(
        &self,
        sets: &Sets,
        range: Option<(u64, u64)>,
        failed: Option<&(usize, DriveError)>,
    ) -> BlockError {
        let hull = |(at, len)| {
            let extents = sets.extents(at, len).map(|e| e.from..e.from + e.len);
            extents.reduce(|all, one| all.start.min(one.start)..all.end.max(one.end))
        };
        self.begin_to_differ(range.and_then(hull));
        match failed {
            Some((_, error)) if error.is_of_drive() => BlockError::from(error.clone()),
            Some((_, error)) => self.unhelped(range.map_or(0, |(at, _)| at), error),
            None => self.failure(),
        }
    }
}

/// The bytes of `data` (which begins at `at`) in one set, in the order of its drives.
fn gather(sets: &Sets, set: usize, at: u64, data: &Pieces) -> Pieces {
    let mut out = Pieces::new();
    let mut from = 0;
    for run in sets.runs(at, data.len() as u64) {
        if run.set == set {
            out.append(data.slice(from, run.len as usize));
        }
        from += run.len as usize;
    }
    out
}
