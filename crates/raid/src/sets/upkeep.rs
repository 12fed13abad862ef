//! One step of a rebuild, a scrub or a resync of mirrors. The range is held: writes to it wait for two reads
//! and possibly a write.

use block::{BlockError, Buf, Data};
use futures::future::join_all;
use smallvec::SmallVec;

use super::Sets;
use crate::contents::{Contents, is_zero};
use crate::inner::Inner;
use crate::upkeep::{STEP_LEN, Scrubbed};

impl Inner {
    /// Rebuilds the drive at `position` from `from` on: copies from a mirror, or writes zeros where zeros are
    /// known. What no mirror can read becomes a lost range. Returns the length.
    pub(crate) async fn sets_rebuild_step(
        &self,
        sets: &Sets,
        position: usize,
        from: u64,
    ) -> Result<u64, BlockError> {
        let drive = self.members[position].rebuilding();
        let (len, all_zeros) = self.plan_step(drive.as_ref(), from, |len| sets.around(from, len));
        let _held = self.locks.exclusive(sets.around(from, len)).await;
        let known = |at, len| self.contents_of(sets.around(at, len)) == Contents::Zeros;
        if all_zeros && known(from, len) {
            self.fill_zeros(position, from, len).await?;
            self.rebuilt(position, from..from + len);
            return Ok(len);
        }
        // The range may have been written since it was known to be zeros: take only an ordinary step.
        let len = len.min(self.rebuild_step());
        let pieces =
            (from..from + len).step_by(STEP_LEN as usize).map(|at| (at, STEP_LEN.min(from + len - at)));
        let copies = pieces.map(async |(at, n)| match known(at, n) {
            true => self.fill_zeros(position, at, n).await,
            false => self.copy(sets, position, at, n).await,
        });
        join_all(copies).await.into_iter().collect::<Result<(), _>>()?;
        self.rebuilt(position, from..from + len);
        Ok(len)
    }

    /// Zeroes a range of the drive that is being rebuilt.
    pub(crate) async fn fill_zeros(&self, position: usize, from: u64, len: u64) -> Result<(), BlockError> {
        let Some(drive) = self.members[position].rebuilding() else { return Ok(()) };
        match drive.zero(self.data_offset + from, len).await {
            Ok(()) => Ok(()),
            Err(error) => self.drop_member(position, &error).await,
        }
    }

    async fn copy(&self, sets: &Sets, position: usize, from: u64, len: u64) -> Result<(), BlockError> {
        match self.read_any(sets, position / sets.copies, from, len).await? {
            Some(data) => self.fill(position, from, data).await,
            None => self.refill_blocks(sets, position, from, len).await,
        }
    }

    async fn fill(&self, position: usize, from: u64, data: Data) -> Result<(), BlockError> {
        let Some(drive) = self.members[position].rebuilding() else { return Ok(()) };
        if drive.info().cheap_zero && is_zero(&data) {
            return self.fill_zeros(position, from, data.len() as u64).await;
        }
        match drive.write(self.data_offset + from, data).await {
            Ok(()) => Ok(()),
            Err(error) => self.drop_member(position, &error).await,
        }
    }

    /// The same block by block, for a range with an unreadable block.
    async fn refill_blocks(
        &self,
        sets: &Sets,
        position: usize,
        from: u64,
        len: u64,
    ) -> Result<(), BlockError> {
        let set = position / sets.copies;
        let _changing = self.changing(from..from + len);
        for block in (from..from + len).step_by(crate::BLOCK_LEN as usize) {
            let data = match self.read_any(sets, set, block, crate::BLOCK_LEN).await? {
                Some(data) => data,
                None => {
                    self.lose(sets.address(set, block), crate::BLOCK_LEN).await?;
                    let zeros = block::Buf::zeroed(crate::BLOCK_LEN as usize).freeze();
                    for (m, drive) in self.takers(sets, set) {
                        if let Err(error) = drive.write(self.data_offset + block, zeros.clone()).await {
                            self.drop_member(m, &error).await?;
                        }
                    }
                    zeros
                }
            };
            self.fill(position, block, data).await?;
        }
        Ok(())
    }

    /// The content of the first mirror in their order that can read it; `None` if none can. Drives that are
    /// gone are dropped.
    async fn read_any(
        &self,
        sets: &Sets,
        set: usize,
        from: u64,
        len: u64,
    ) -> Result<Option<Data>, BlockError> {
        for m in self.preferred_order(sets, set, from).filter(|m| self.members[*m].active().is_some()) {
            match self.read_from(m, from, len as usize).await {
                Ok(data) => return Ok(Some(data)),
                Err(error) if error.is_of_drive() => self.drop_member(m, &error).await?,
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// Compares the mirrors of all sets over `from..from + len` of their data, and repairs.
    pub(crate) async fn sets_scrub_step(
        &self,
        sets: &Sets,
        from: u64,
        len: u64,
        scrubbed: &mut Scrubbed,
    ) -> Result<(), BlockError> {
        if sets.copies > 1 {
            self.mirrors_begin_to_differ().await?;
        }
        let _held = self.locks.exclusive(sets.around(from, len)).await;
        for set in 0..sets.count as usize {
            self.scrub_set(sets, set, from, len, scrubbed).await?;
        }
        Ok(())
    }

    async fn scrub_set(
        &self,
        sets: &Sets,
        set: usize,
        from: u64,
        len: u64,
        scrubbed: &mut Scrubbed,
    ) -> Result<(), BlockError> {
        let mut copies: SmallVec<[(usize, Option<Data>); 4]> = SmallVec::new();
        for m in sets.members(set).filter(|m| self.members[*m].active().is_some()) {
            match self.read_from(m, from, len as usize).await {
                Ok(data) => copies.push((m, Some(data))),
                Err(error) if error.is_of_drive() => self.drop_member(m, &error).await?,
                Err(_) => copies.push((m, None)),
            }
        }
        scrubbed.compared_bytes += len * copies.len() as u64;
        for at in (0..len as usize).step_by(crate::BLOCK_LEN as usize) {
            let n = (len as usize - at).min(crate::BLOCK_LEN as usize);
            let mut blocks = copies.iter().map(|(_, data)| data.as_ref().map(|d| &d[at..at + n]));
            let first = blocks.next().flatten();
            if first.is_some() && blocks.all(|b| b == first) {
                continue;
            }
            self.repair_block(sets, set, from + at as u64, n, scrubbed).await?;
        }
        Ok(())
    }

    /// Decides about a block that differs between mirrors or is unreadable: the majority is right. Without a
    /// majority, nothing is written.
    async fn repair_block(
        &self,
        sets: &Sets,
        set: usize,
        from: u64,
        len: usize,
        scrubbed: &mut Scrubbed,
    ) -> Result<(), BlockError> {
        let mut copies: SmallVec<[(usize, Option<Data>); 4]> = SmallVec::new();
        for m in sets.members(set).filter(|m| self.members[*m].active().is_some()) {
            copies.push((m, self.read_from(m, from, len).await.ok()));
        }
        let readable = || copies.iter().filter_map(|(_, data)| data.as_ref());
        let votes = |data: &Data| readable().filter(|d| d[..] == data[..]).count();
        let Some(right) = readable().max_by_key(|d| votes(d)).cloned() else {
            scrubbed.unrepaired += 1;
            return Ok(());
        };
        let agree = votes(&right) == readable().count();
        let at = sets.address(set, from);
        let _changing = self.changing(from..from + len as u64);
        let right = match self.contents_of(at..at + len as u64) {
            // The content is not in use: free ranges and zeros become zeros.
            Contents::Free | Contents::Zeros => Buf::zeroed(len).freeze(),
            Contents::Kept if agree || votes(&right) * 2 > readable().count() => right,
            Contents::Kept => {
                scrubbed.differs(at);
                return Ok(());
            }
        };
        scrubbed.mismatches += u64::from(!agree);
        for (m, _) in copies.iter().filter(|(_, d)| d.as_ref().is_none_or(|d| d[..] != right[..])) {
            let Some(drive) = self.members[*m].active() else { continue };
            scrubbed.repaired += 1;
            self.count_repair();
            if let Err(error) = drive.write(self.data_offset + from, right.clone()).await {
                self.drop_member(*m, &error).await?;
            }
        }
        Ok(())
    }

    /// Copies the preferred mirror of each set to the others where they differ. Returns the number of bytes
    /// written.
    pub(crate) async fn sets_resync_step(&self, sets: &Sets, from: u64, len: u64) -> Result<u64, BlockError> {
        self.mirrors_begin_to_differ().await?;
        self.forget_missed();
        let _held = self.locks.exclusive(sets.around(from, len)).await;
        let mut written = 0;
        for set in 0..sets.count as usize {
            written += self.resync_set(sets, set, from, len).await?;
        }
        Ok(written)
    }

    /// The drive of a member that has its data at `from`: active, or rebuilt up to there.
    fn filled_at(&self, m: usize, from: u64) -> Option<world::Drive> {
        let filled = self.rebuilding.get().is_some_and(|(p, to)| p as usize == m && from < to);
        let rebuilt = if filled { self.members[m].rebuilding() } else { None };
        self.members[m].active().or(rebuilt)
    }

    async fn resync_set(&self, sets: &Sets, set: usize, from: u64, len: u64) -> Result<u64, BlockError> {
        if let Some(written) = self.resync_extent(sets, set, from, len).await? {
            return Ok(written);
        }
        let mut written = 0;
        for block in (from..from + len).step_by(crate::BLOCK_LEN as usize) {
            written += self.resync_extent(sets, set, block, crate::BLOCK_LEN).await?.unwrap_or(0);
        }
        Ok(written)
    }

    /// Returns the number of bytes written; `None`: the preferred mirror cannot read some of the blocks,
    /// which are then taken one by one. Of one block, the first mirror in their order that can read it is the
    /// source. The range must lie in one region.
    async fn resync_extent(
        &self,
        sets: &Sets,
        set: usize,
        from: u64,
        len: u64,
    ) -> Result<Option<u64>, BlockError> {
        let mut first: Option<Data> = None;
        let mut written = 0;
        let mut unreadable: SmallVec<[usize; 4]> = SmallVec::new();
        // The drive that is being rebuilt is never the source.
        let mut members: SmallVec<[usize; 4]> = self.preferred_order(sets, set, from).collect();
        members.sort_by_key(|m| self.members[*m].active().is_none());
        for m in members {
            let Some(drive) = self.filled_at(m, from) else { continue };
            let read = self.read_from(m, from, len as usize).await;
            let outcome = match (&first, read) {
                (_, Err(error)) if error.is_of_drive() => Err(error),
                (None, Ok(data)) => {
                    first = Some(data);
                    Ok(())
                }
                (None, Err(_)) if len > crate::BLOCK_LEN => return Ok(None),
                (None, Err(_)) => {
                    unreadable.push(m);
                    Ok(())
                }
                (Some(data), Ok(same)) if data[..] == same[..] => Ok(()),
                (Some(data), _) => {
                    written += len;
                    drive.write(self.data_offset + from, data.clone()).await
                }
            };
            if let Err(error) = outcome {
                self.drop_member(m, &error).await?;
            }
        }
        for (m, data) in unreadable.into_iter().filter_map(|m| Some((m, first.clone()?))) {
            let Some(drive) = self.filled_at(m, from) else { continue };
            self.count_repair();
            written += len;
            if let Err(error) = drive.write(self.data_offset + from, data).await {
                self.drop_member(m, &error).await?;
            }
        }
        Ok(Some(written))
    }
}
