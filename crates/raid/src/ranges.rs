//! Ranges that are being written: overlapping writes to mirrors take turns, so that all mirrors end up the same.

use std::cell::RefCell;

use world::sync::Signal;

/// The ranges in flight. A list: at the depth of a drive's queue a linear look costs less than a tree.
#[derive(Default)]
pub(crate) struct Ranges {
    held: RefCell<Vec<(u64, u64)>>,
    freed: Signal,
}

/// A range in flight; given back when dropped.
pub(crate) struct Held<'a> {
    ranges: &'a Ranges,
    from: u64,
    end: u64,
}

impl Ranges {
    /// Waits until no write in flight overlaps, and takes the range.
    pub(crate) async fn hold(&self, from: u64, len: u64) -> Held<'_> {
        let end = from + len;
        self.freed
            .wait_for(|| {
                let mut held = self.held.borrow_mut();
                if held.iter().any(|&(f, e)| f < end && from < e) {
                    return None;
                }
                held.push((from, end));
                Some(())
            })
            .await;
        Held { ranges: self, from, end }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut held = self.ranges.held.borrow_mut();
        let i = held.iter().position(|&r| r == (self.from, self.end)).expect("a held range is in the list");
        held.swap_remove(i);
        drop(held);
        self.ranges.freed.wake_all();
    }
}
