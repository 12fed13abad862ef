//! I/O on parts of pages that are not whole blocks of the group.

use block::{BlockError, Device, Pieces};
use world::Trace;

use crate::area::Content;
use crate::inner::Inner;

impl Inner {
    /// Reads `len` bytes from `within` a page on; they may extend into the following contiguous pages.
    pub(crate) async fn read_pages(
        &self,
        trace: Option<&Trace>,
        page: u32,
        within: u64,
        len: u64,
        out: &mut Pieces,
    ) -> Result<(), BlockError> {
        let (area, base) = self.locate(page);
        let block = area.block_bytes;
        let (from, end) = (within / block * block, (within + len).next_multiple_of(block));
        if (from, end) == (within, within + len) {
            return area.group.read_traced(trace, base + within, len as usize, out).await;
        }
        let mut whole = Pieces::new();
        area.group.read_traced(trace, base + from, (end - from) as usize, &mut whole).await?;
        out.append(whole.slice((within - from) as usize, len as usize));
        Ok(())
    }

    /// `n` bytes of `content` from `skip` on, at offset `within` of a page, widened to whole blocks of
    /// `block` bytes with the content of `old`, or zeros. Also returns the widened offset.
    pub(crate) async fn widen(
        &self,
        old: Option<u32>,
        within: u64,
        content: &Content<'_>,
        (skip, n): (u64, u64),
        block: u64,
    ) -> Result<(u64, Pieces), BlockError> {
        let (from, end) = (within / block * block, (within + n).next_multiple_of(block));
        let mut out = Pieces::new();
        self.edge(old, from, within - from, &mut out).await?;
        match content {
            Content::Data(data) => out.append(data.slice(skip as usize, n as usize)),
            Content::Zeros(_) => self.push_zeros(n, &mut out),
        }
        self.edge(old, within + n, end - within - n, &mut out).await?;
        Ok((from, out))
    }

    async fn edge(
        &self,
        old: Option<u32>,
        within: u64,
        len: u64,
        out: &mut Pieces,
    ) -> Result<(), BlockError> {
        match old {
            _ if len == 0 => Ok(()),
            Some(page) => self.read_pages(None, page, within, len, out).await,
            None => {
                self.push_zeros(len, out);
                Ok(())
            }
        }
    }
}
