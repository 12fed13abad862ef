//! Zeroing and unmapping: whole pages are released, which changes the map and needs no drive I/O; the rest is
//! zeroed in place. On a thick volume everything is zeroed in place.

use block::BlockError;

use crate::area::Content;
use crate::record::Record;
use crate::span::Span;
use crate::volume::Volume;
use crate::volume_state::Provisioning;

/// Pages released between two checks of the room for pending changes.
const STEP_PAGES: u32 = 4096;

impl Volume {
    /// Releases every whole page in the range; every byte of the range reads as zero afterwards. Returns the
    /// bytes that became free in the pool: a page with other references does not count.
    pub async fn unmap(&self, at: u64, len: u64) -> Result<u64, BlockError> {
        self.check(at, len)?;
        let (page, end) = (self.pool.page_bytes, at + len);
        let first = at.div_ceil(page);
        // The last page of a volume may be partial; nothing follows it.
        let last = if end == self.state.len_bytes.get() { end.div_ceil(page) } else { end / page };
        if self.state.provisioning == Provisioning::Thick || first >= last {
            self.overwrite(None, at, Content::Zeros(len)).await?;
            return Ok(0);
        }
        self.overwrite(None, at, Content::Zeros(first * page - at)).await?;
        self.overwrite(None, last * page, Content::Zeros(end.saturating_sub(last * page))).await?;
        self.release(Span { from: first as u32, end: last as u32 }).await
    }

    async fn release(&self, span: Span) -> Result<u64, BlockError> {
        let idle = self.state.map.borrow().next_mapped(span.from, span.end).is_none();
        if idle && !self.state.locks.has_exclusive(&span.into()) {
            return Ok(0);
        }
        let _lock = self.state.locks.exclusive(span.into()).await;
        self.drain(span).await;
        self.alive()?;
        let mut freed = 0;
        let mut next = Some(span.from);
        while let Some(from) = next {
            self.pool.room().await?;
            next = self.release_some(Span { from, end: span.end }, &mut freed);
        }
        self.pool.watch();
        Ok(freed * self.pool.page_bytes)
    }

    /// Releases some pages; returns where to continue, if there are more.
    fn release_some(&self, span: Span, freed: &mut u64) -> Option<u32> {
        let mut map = self.state.map.borrow_mut();
        let mut from = span.from;
        for _ in 0..STEP_PAGES {
            let index = map.next_mapped(from, span.end)?;
            let page = map.set(index, None).expect("it was mapped");
            self.pool.entries.set(self.pool.entries.get() - 1);
            self.pool.log(Record::Unmap { volume: self.state.id, index, count: 1 });
            *freed += u64::from(self.pool.drop_logged(self.state.id, page));
            from = index + 1;
        }
        Some(from)
    }
}
