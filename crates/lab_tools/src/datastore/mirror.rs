//! A disk that is copied while its VM writes to it: what goes where, and what waits (a mirror driver).
//!
//! ```text
//!   0 ─────────── copied ─────────── copying ─────────── end
//!     both disks            waits              the old disk
//! ```
//!
//! The copy goes from the beginning to the end, a region at a time. Before a region is read, no write into it
//! is in flight; while it is copied, writes into it wait. So what is copied is what was written last.

use std::cell::RefCell;
use std::collections::BTreeMap;

use world::sync::Signal;

/// Where a write goes now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    /// To the old disk: the copy comes by later.
    Old,
    /// To the old disk and to the new one.
    Both,
    /// Nowhere yet: the copy is there now.
    Wait,
}

/// How far the copy is. No write crosses the end of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    /// Everything before it is on the new disk.
    copied: u64,
    /// The end of the region that is copied now; `copied` where none is.
    copying: u64,
}

impl Progress {
    /// Where a write at this offset goes.
    fn route(&self, offset: u64) -> Route {
        match offset {
            before if before < self.copied => Route::Both,
            within if within < self.copying => Route::Wait,
            _ => Route::Old,
        }
    }
}

/// A copy in progress, and the writes in flight beside it.
#[derive(Default)]
pub struct Mirror {
    progress: RefCell<Progress>,
    /// Writes in flight, by offset.
    writing: RefCell<BTreeMap<u64, u32>>,
    changed: Signal,
}

/// A write in flight; over when dropped.
pub struct Writing<'a> {
    mirror: &'a Mirror,
    offset: u64,
    /// Whether it goes to the new disk, too.
    pub to_both: bool,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let mut writing = self.mirror.writing.borrow_mut();
        if let Some(count) = writing.get_mut(&self.offset) {
            *count -= 1;
            if *count == 0 {
                writing.remove(&self.offset);
            }
        }
        self.mirror.changed.wake_all();
    }
}

impl Mirror {
    /// Begins a write at this offset, after the copy has left its region.
    pub async fn write(&self, offset: u64) -> Writing<'_> {
        let may = || match self.progress.borrow().route(offset) {
            Route::Wait => None,
            route => Some(route == Route::Both),
        };
        let to_both = self.changed.wait_for(may).await;
        *self.writing.borrow_mut().entry(offset).or_default() += 1;
        Writing { mirror: self, offset, to_both }
    }

    /// Takes the region up to `end`: nobody writes there from now on, and what was in flight has ended.
    pub async fn begin(&self, end: u64) {
        let copied = {
            let mut progress = self.progress.borrow_mut();
            progress.copying = end;
            progress.copied
        };
        let is_still = || self.writing.borrow().range(copied..end).next().is_none().then_some(());
        self.changed.wait_for(is_still).await;
    }

    /// The region is on the new disk.
    pub fn end(&self) {
        let mut progress = self.progress.borrow_mut();
        progress.copied = progress.copying;
        drop(progress);
        self.changed.wake_all();
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use futures::future::FutureExt;

    use super::*;

    #[test]
    fn a_write_goes_where_the_copy_does_not_lose_it() {
        let progress = Progress { copied: 10, copying: 20 };
        assert_eq!(
            [9, 10, 19, 20].map(|at| progress.route(at)),
            [Route::Both, Route::Wait, Route::Wait, Route::Old]
        );
    }

    #[test]
    fn a_region_is_copied_when_nobody_writes_there_and_writes_wait_for_it() {
        let mirror = Mirror::default();
        let early = block_on(mirror.write(5));
        assert!(!early.to_both);
        assert!(mirror.begin(10).now_or_never().is_none(), "a write is in flight there");
        drop(early);
        assert!(mirror.begin(10).now_or_never().is_some());
        assert!(mirror.write(5).now_or_never().is_none(), "the copy is there");
        assert!(!block_on(mirror.write(10)).to_both);
        mirror.end();
        assert!(block_on(mirror.write(5)).to_both);
    }
}
