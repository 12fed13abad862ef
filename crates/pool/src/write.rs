//! Writes: in place where the volume owns the page exclusively, otherwise to a new page.
//!
//! The path in place takes no lock and allocates nothing: it counts itself in on its pages, writes, and
//! counts itself out. A change of the map locks the indices and waits for the count. Everything else happens
//! with one index locked, so that two writers of an unmapped or shared page do not both allocate a new one.

use block::BlockError;
use world::Trace;

use crate::area::Content;
use crate::record::Record;
use crate::space::heat::Way;
use crate::span::Span;
use crate::volume::Volume;

/// Pages that can be written in place.
struct InPlace {
    page: u32,
    count: u32,
    len: u64,
}

impl Volume {
    /// Writes all of `content` at `at`, which was checked.
    pub(crate) async fn overwrite(
        &self,
        trace: Option<&Trace>,
        at: u64,
        content: Content<'_>,
    ) -> Result<(), BlockError> {
        let mut done = 0;
        while done < content.len() {
            done += self.overwrite_some(trace, at + done, &content, done).await?;
        }
        Ok(())
    }

    /// Writes within one run or one page. Returns the length; 0 if the path has changed and must be chosen
    /// again.
    async fn overwrite_some(
        &self,
        trace: Option<&Trace>,
        at: u64,
        content: &Content<'_>,
        done: u64,
    ) -> Result<u64, BlockError> {
        self.alive()?;
        let page_bytes = self.pool.page_bytes;
        let (index, within, left) = ((at / page_bytes) as u32, at % page_bytes, content.len() - done);
        if self.state.locks.has_exclusive(&Span::one(index).into()) {
            drop(self.state.locks.shared(Span::one(index).into()).await);
            return Ok(0);
        }
        if let Some(run) = self.in_place(index, within, left) {
            self.write_in_place(trace, &run, within, content, done).await?;
            return Ok(run.len);
        }
        let n = left.min(page_bytes - within);
        if self.is_zero_already(index, content) {
            return Ok(n);
        }
        self.overwrite_page(trace, index, within, content, (done, n)).await
    }

    fn is_zero_already(&self, index: u32, content: &Content<'_>) -> bool {
        matches!(content, Content::Zeros(_)) && self.state.map.borrow().get(index).is_none()
    }

    /// The longest run from here on that can be written in place, in whole blocks of the group.
    fn in_place(&self, index: u32, within: u64, left: u64) -> Option<InPlace> {
        let (pool, page_bytes) = (&self.pool, self.pool.page_bytes);
        let pages = (within + left).div_ceil(page_bytes) as u32;
        let run = self.state.map.borrow().run(index, pages);
        let page = run.page?;
        let (area, _) = pool.locate(page);
        let mut count = pool.in_one_piece(page, run.count);
        count = pool.space.borrow().writable(page, count, pool.commit.done());
        if count > 1 && self.state.locks.has_exclusive(&Span { from: index, end: index + count }.into()) {
            count = 1;
        }
        let len = (u64::from(count) * page_bytes).saturating_sub(within).min(left);
        let len = len / area.block_bytes * area.block_bytes;
        let fits = len > 0 && within.is_multiple_of(area.block_bytes);
        fits.then(|| InPlace { page, count: (within + len).div_ceil(page_bytes) as u32, len })
    }

    async fn write_in_place(
        &self,
        trace: Option<&Trace>,
        run: &InPlace,
        within: u64,
        content: &Content<'_>,
        done: u64,
    ) -> Result<(), BlockError> {
        let (area, base) = self.pool.locate(run.page);
        // Not a guard: if this future is dropped while the drive still writes, the pages must stay counted.
        {
            let mut space = self.pool.space.borrow_mut();
            space.begin_write(run.page, run.count);
            space.touch(run.page, run.count, run.len, Way::Write);
        }
        self.state.writers.set(self.state.writers.get() + 1);
        let outcome = area.put(trace, base + within, content, done, run.len).await;
        self.pool.space.borrow_mut().end_write(run.page, run.count);
        self.state.writers.set(self.state.writers.get() - 1);
        self.state.drained.wake_all();
        outcome
    }

    /// Writes `n` bytes of `content` from `done` on to a page that cannot simply be written in place.
    async fn overwrite_page(
        &self,
        trace: Option<&Trace>,
        index: u32,
        within: u64,
        content: &Content<'_>,
        (done, n): (u64, u64),
    ) -> Result<u64, BlockError> {
        let _lock = self.state.locks.exclusive(Span::one(index).into()).await;
        self.drain(Span::one(index)).await;
        self.alive()?;
        if self.is_zero_already(index, content) {
            return Ok(n);
        }
        let old = self.state.map.borrow().get(index);
        if let Some(page) = old
            && self.pool.space.borrow().refs(page) == 1
            && !self.pool.space.borrow().is_read_elsewhere(page)
        {
            return self.overwrite_own(trace, page, within, content, (done, n)).await;
        }
        let new = match (self.pool.allocate().await, old) {
            (Err(_), Some(page)) if self.pool.space.borrow().is_read_elsewhere(page) => {
                // It needs no new page when those reads have ended.
                self.pool.reads_elsewhere_ended(page).await;
                return self.alive().map(|()| 0);
            }
            (new, _) => new?,
        };
        self.pool.space.borrow_mut().touch(new.page, 1, n, Way::Write);
        let composed = self.pool.compose(trace, (new, old), within, content, (done, n)).await;
        let ready = match composed {
            Ok(()) => self.pool.room().await,
            Err(error) => Err(error),
        };
        if let Err(error) = ready {
            self.pool.drop_unlogged(new.page);
            return Err(error);
        }
        self.set_page(index, new.page);
        Ok(n)
    }

    /// The page is exclusive, but not durably yet, or the blocks below are larger than the write.
    async fn overwrite_own(
        &self,
        trace: Option<&Trace>,
        page: u32,
        within: u64,
        content: &Content<'_>,
        (done, n): (u64, u64),
    ) -> Result<u64, BlockError> {
        let settles_at = self.pool.space.borrow().settles_at(page);
        if settles_at > self.pool.commit.done() {
            // The durable map may show this page elsewhere: the old content must stay there until the commit.
            self.pool.commit().await?;
            return Ok(0);
        }
        let (area, base) = self.pool.locate(page);
        if within.is_multiple_of(area.block_bytes) && n >= area.block_bytes {
            return Ok(0);
        }
        self.pool.space.borrow_mut().touch(page, 1, n, Way::Write);
        let (from, data) = self.pool.widen(Some(page), within, content, (done, n), area.block_bytes).await?;
        area.write(trace, base + from, &data).await?;
        Ok(n)
    }

    /// Maps a page; the caller's reference becomes the map's. The caller has just checked the room.
    pub(crate) fn set_page(&self, index: u32, page: u32) {
        let old = self.state.map.borrow_mut().set(index, Some(page));
        self.pool.space.borrow_mut().own(page, self.state.id);
        self.pool.log(Record::Map { volume: self.state.id, index, page, count: 1 });
        match old {
            Some(old) => _ = self.pool.drop_logged(self.state.id, old),
            None => self.pool.entries.set(self.pool.entries.get() + 1),
        }
    }
}
