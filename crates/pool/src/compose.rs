//! Composes a new page: the written data, surrounded by the old page's content or zeros.

use block::{BlockError, Pieces};
use world::Trace;

use crate::area::Content;
use crate::inner::Inner;
use crate::space::Allocated;

/// Unit of a copy within the pool.
const COPY_STEP: u64 = 1 << 20;

impl Inner {
    /// Fills the new page. Everything is complete on the drives on return, though not flushed: a commit
    /// flushes before it writes the map.
    pub(crate) async fn compose(
        &self,
        trace: Option<&Trace>,
        (new, old): (Allocated, Option<u32>),
        within: u64,
        content: &Content<'_>,
        (done, n): (u64, u64),
    ) -> Result<(), BlockError> {
        let (area, base) = self.locate(new.page);
        let block = area.block_bytes;
        let aligned = within.is_multiple_of(block) && n.is_multiple_of(block);
        let (from, end) = (within / block * block, (within + n).next_multiple_of(block));
        self.surround(new, old, 0, from).await?;
        self.surround(new, old, end, self.page_bytes).await?;
        match content {
            Content::Zeros(_) if aligned && new.clean => Ok(()),
            _ if aligned => area.put(trace, base + within, content, done, n).await,
            _ => {
                let (from, data) = self.widen(old, within, content, (done, n), block).await?;
                area.write(trace, base + from, &data).await
            }
        }
    }

    /// Fills `from..end` of the new page from the old one, or with zeros unless it holds them.
    async fn surround(
        &self,
        new: Allocated,
        old: Option<u32>,
        from: u64,
        end: u64,
    ) -> Result<(), BlockError> {
        let (area, base) = self.locate(new.page);
        let Some(old) = old else {
            return match from < end && !new.clean {
                true => area.zero(base + from, end - from).await,
                false => Ok(()),
            };
        };
        let mut at = from;
        while at < end {
            let n = (end - at).min(COPY_STEP);
            let mut data = Pieces::new();
            self.read_pages(None, old, at, n, &mut data).await?;
            area.write(None, base + at, &data).await?;
            at += n;
        }
        Ok(())
    }

    /// Zeroes a page that was allocated for a thick volume.
    pub(crate) async fn clear(&self, new: Allocated) -> Result<(), BlockError> {
        self.surround(new, None, 0, self.page_bytes).await
    }
}
