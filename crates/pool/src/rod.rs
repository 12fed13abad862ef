//! A ROD: a range of a volume at a point in time, kept by sharing its pages. It does not survive the process.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use block::{BlockError, Pieces};

use crate::inner::Inner;
use crate::rods::{Keep, Listed, RodPages};
use crate::space::heat::Way;
use crate::span::Span;
use crate::volume::Volume;

/// A point-in-time copy; its pages are held until it is dropped.
pub struct Rod {
    pub(crate) pool: Rc<Inner>,
    /// The offset of the data within the first page.
    pub(crate) within: u64,
    pub(crate) len: u64,
    number: u64,
    /// Its pages, updated when pages are moved.
    pages: RodPages,
    /// Commands that use it: it is not discarded meanwhile.
    users: Rc<Cell<u32>>,
}

impl Volume {
    /// Freezes a range: later writes do not change the content of the ROD. It waits for writes in flight. The
    /// ROD is discarded, the oldest first, when the pool has no free page left for a write.
    ///
    /// # Errors
    ///
    /// The volume was deleted, or the range exceeds it.
    pub async fn hold(&self, at: u64, len: u64) -> Result<Rod, BlockError> {
        self.hold_as(at, len, Keep::WhileRoom).await
    }

    /// The same, for a command that copies from it at once.
    pub(crate) async fn hold_as(&self, at: u64, len: u64, keep: Keep) -> Result<Rod, BlockError> {
        self.check(at, len)?;
        let page = self.pool.page_bytes;
        let span = Span { from: (at / page) as u32, end: (at + len).div_ceil(page) as u32 };
        let _lock = self.state.locks.exclusive(span.into()).await;
        self.drain(span).await;
        self.alive()?;
        let map = self.state.map.borrow();
        let pages: Vec<Option<u32>> = (span.from..span.end).map(|index| map.get(index)).collect();
        let mut space = self.pool.space.borrow_mut();
        pages.iter().flatten().for_each(|page| space.hold(*page));
        let pages = Rc::new(RefCell::new(pages));
        let users = Rc::default();
        let number = self.pool.rods.enter(Listed { pages: pages.clone(), keep, users: Rc::clone(&users) });
        Ok(Rod { pool: self.pool.clone(), within: at % page, len, number, pages, users })
    }
}

impl Rod {
    /// Bytes that it holds.
    pub fn len_bytes(&self) -> u64 {
        self.len
    }

    /// Reads `len` bytes from offset `from`, appended to `out`.
    ///
    /// # Errors
    ///
    /// A group failed.
    pub async fn read(&self, from: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        block::Geometry { len_bytes: self.len, block_bytes: 512 }.check(from, len as u64)?;
        let page_bytes = self.pool.page_bytes;
        let (mut at, end) = (self.within + from, self.within + from + len as u64);
        while at < end {
            self.alive()?;
            let n = (page_bytes - at % page_bytes).min(end - at);
            match self.page((at / page_bytes) as u32) {
                Some(page) => {
                    // The page may be moved and released meanwhile.
                    let _reading = self.pool.begin_reading(page, 1);
                    self.pool.space.borrow_mut().touch(page, 1, n, Way::Read);
                    self.pool.read_pages(None, page, at % page_bytes, n, out).await?;
                }
                None => self.pool.push_zeros(n, out),
            }
            at += n;
        }
        Ok(())
    }

    /// A command begins to use it, and it is not discarded until the command ends; or one ends.
    pub fn keep(&self, keep: bool) {
        let users = self.users.get();
        self.users.set(if keep { users + 1 } else { users - 1 });
    }

    /// Whether it was discarded, because the pool needed its pages.
    pub fn is_discarded(&self) -> bool {
        self.len > 0 && self.pages.borrow().is_empty()
    }

    /// # Errors
    /// It was discarded.
    pub(crate) fn alive(&self) -> Result<(), BlockError> {
        if self.is_discarded() { Err(self.pool.no_space()) } else { Ok(()) }
    }

    /// The page at this index. The caller has checked that it is [alive](Rod::alive).
    pub(crate) fn page(&self, index: u32) -> Option<u32> {
        self.pages.borrow()[index as usize]
    }

    /// The state of the bytes from offset `from` on: mapped or not, and how far.
    pub(crate) fn extent(&self, from: u64) -> (u64, bool) {
        let page_bytes = self.pool.page_bytes;
        let index = ((self.within + from) / page_bytes) as usize;
        let pages = self.pages.borrow();
        if self.is_discarded() {
            // To read it is an error, and not zeros.
            return (self.len - from, true);
        }
        let mapped = pages[index].is_some();
        let count = pages[index..].iter().take_while(|p| p.is_some() == mapped).count();
        let end = (index + count) as u64 * page_bytes - self.within;
        (end.min(self.len) - from, mapped)
    }
}

impl Drop for Rod {
    fn drop(&mut self) {
        self.pool.rods.leave(self.number);
        self.pages.borrow().iter().flatten().for_each(|page| self.pool.let_go(*page));
    }
}
