//! Tells the groups what they hold, so that a rebuild copies only used pages: zeroed pages that were not
//! allocated since hold zeros; the content of other free pages does not matter.

use std::ops::Range;
use std::rc::Rc;

use raid::{Contents, GroupId};

use crate::area::Area;
use crate::inner::Inner;
use crate::{Pool, PoolError};

/// Pages zeroed at once; they cannot be allocated meanwhile.
const RUN_PAGES_MAX: u32 = 256;

impl Inner {
    /// Registers the pool with its groups.
    pub(crate) fn tell_contents(self: &Rc<Self>) {
        for area in self.areas().iter() {
            let (pool, id) = (Rc::downgrade(self), area.group.id());
            let known =
                move |range| pool.upgrade().map_or(Contents::Kept, |pool| pool.contents_of(id, range));
            area.group.know_contents(Rc::new(known));
        }
    }

    /// Metadata are in use, and so is everything after the last page.
    fn contents_of(&self, group: GroupId, range: Range<u64>) -> Contents {
        let areas = self.areas();
        let area = areas.iter().find(|a| a.group.id() == group && self.alive().is_ok());
        let pages = area.and_then(|area| area.pages_in(range));
        pages.map_or(Contents::Kept, |pages| self.space.borrow().contents(pages))
    }
}

impl Area {
    /// The pages that a range touches; `None` if it extends beyond them.
    fn pages_in(&self, range: Range<u64>) -> Option<Range<u32>> {
        let stride = self.at(self.first_page() + 1) - self.at(self.first_page());
        let from = range.start.checked_sub(self.at(self.first_page()))? / stride;
        let end = (range.end - self.at(self.first_page())).div_ceil(stride);
        let (from, end) = (u64::from(self.first_page()) + from, u64::from(self.first_page()) + end);
        (end <= u64::from(self.end_page())).then_some(from as u32..end as u32)
    }
}

impl Pool {
    /// Zeroes the free pages of a group that are not known to hold zeros, if zeroing is cheap on all its
    /// drives; returns the bytes. A rebuild then does not copy them. Does nothing while pages of the pool are
    /// moved.
    pub async fn clean_free_pages(&self, group: GroupId) -> Result<u64, PoolError> {
        let inner = &self.0;
        let areas = inner.areas();
        let Some(area) = areas.iter().find(|a| a.group.id() == group && a.group.cheap_zero()) else {
            return Ok(0);
        };
        let Ok(_moving) = inner.begin_moving("the zeroing of free pages") else { return Ok(0) };
        let (mut from, mut bytes) = (area.first_page(), 0);
        loop {
            let run = inner.space.borrow_mut().take_unclean(from..area.end_page(), RUN_PAGES_MAX);
            let Some(run) = run else { return Ok(bytes) };
            let (at, end) = (area.at(run.start), area.at(run.end));
            let zeroed = area.zero(at, end - at).await;
            inner.space.borrow_mut().give_back(run.clone(), zeroed.is_ok());
            inner.freed.wake_all();
            zeroed?;
            bytes += end - at;
            from = run.end;
        }
    }
}
