//! Reads: run by run, from pages or from the shared zeros.

use block::{BlockError, Pieces};
use world::Trace;

use crate::inner::Inner;
use crate::space::heat::Way;
use crate::volume::Volume;

impl Volume {
    pub(crate) async fn read_runs(
        &self,
        trace: Option<&Trace>,
        at: u64,
        len: u64,
        out: &mut Pieces,
    ) -> Result<(), BlockError> {
        let page_bytes = self.pool.page_bytes;
        let mut done = 0;
        while done < len {
            let (index, within) = (((at + done) / page_bytes) as u32, (at + done) % page_bytes);
            let pages = (within + len - done).div_ceil(page_bytes) as u32;
            let run = self.state.map.borrow().run(index, pages);
            let count = run.page.map_or(run.count, |page| self.pool.in_one_piece(page, run.count));
            let n = (u64::from(count) * page_bytes - within).min(len - done);
            match run.page {
                None => self.pool.push_zeros(n, out),
                Some(page) => {
                    let _reading = self.pool.begin_reading(page, count);
                    self.pool.space.borrow_mut().touch(page, count, n, Way::Read);
                    self.pool.read_pages(trace, page, within, n, out).await?;
                }
            }
            done += n;
        }
        Ok(())
    }
}

impl Inner {
    /// Appends shared zeros.
    pub(crate) fn push_zeros(&self, len: u64, out: &mut Pieces) {
        let mut left = len as usize;
        while left > 0 {
            let n = left.min(self.zeros.len());
            out.push(self.zeros.slice(..n));
            left -= n;
        }
    }

    /// How many of `count` pages from `page` on are contiguous on its group.
    pub(crate) fn in_one_piece(&self, page: u32, count: u32) -> u32 {
        self.locate(page).0.in_one_piece(page, count, self.page_bytes)
    }
}
