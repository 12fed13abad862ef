//! Lost ranges of a group: redundancy cannot reconstruct them, and reads return an error until they are
//! written again.
//!
//! The labels record them. A range is durably recorded before anybody can read what is stored in its place.
//! When it is written again, the removal is durable before the flush that covers the write is acknowledged.
//! Their number is limited by the labels: at the limit, the two closest ranges are joined, and the data
//! between them are lost, too.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use crate::lost_table::LOST_MAX;

/// Bytes `at..at + len` of the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LostRange {
    pub(crate) at: u64,
    pub(crate) len: u64,
}

impl LostRange {
    fn end(&self) -> u64 {
        self.at + self.len
    }
}

/// Whether ranges are valid in a label: in order, none empty, none touching another, none beyond all
/// addresses.
pub(crate) fn are_in_order(ranges: &[LostRange]) -> bool {
    let whole = |r: &LostRange| r.len > 0 && r.at.checked_add(r.len).is_some();
    ranges.iter().all(whole) && ranges.is_sorted_by(|a, b| a.end() < b.at)
}

/// The lost ranges, in order, not touching each other.
#[derive(Default)]
pub(crate) struct Lost {
    ranges: RefCell<Vec<LostRange>>,
    /// Their number: the only check of a read.
    count: Cell<usize>,
}

impl Lost {
    pub(crate) fn new(ranges: &[LostRange]) -> Lost {
        let lost = Lost::default();
        ranges.iter().for_each(|r| lost.add(r.at, r.len));
        lost
    }

    pub(crate) fn ranges(&self) -> Vec<LostRange> {
        self.ranges.borrow().clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.count.get()
    }

    /// The first lost byte of a range.
    pub(crate) fn first_in(&self, at: u64, len: u64) -> Option<u64> {
        if self.count.get() == 0 {
            return None;
        }
        let ranges = self.ranges.borrow();
        let found = ranges.get(ranges.partition_point(|r| r.end() <= at)).filter(|r| r.at < at + len)?;
        Some(found.at.max(at))
    }

    /// Adds a range and joins it to those that it touches.
    pub(crate) fn add(&self, at: u64, len: u64) {
        let mut new = LostRange { at, len };
        let mut ranges = self.ranges.borrow_mut();
        ranges.retain(|r| {
            let touches = r.at <= new.end() && new.at <= r.end();
            if touches {
                let end = new.end().max(r.end());
                new.at = new.at.min(r.at);
                new.len = end - new.at;
            }
            !touches
        });
        let i = ranges.partition_point(|r| r.at < new.at);
        ranges.insert(i, new);
        fold(&mut ranges, 0..0);
        self.count.set(ranges.len());
    }

    /// Removes a written range. Returns whether any of it was lost.
    pub(crate) fn written(&self, at: u64, len: u64) -> bool {
        if self.first_in(at, len).is_none() {
            return false;
        }
        let end = at + len;
        let mut ranges = self.ranges.borrow_mut();
        let pieces = ranges.iter().flat_map(|r| {
            let before = LostRange { at: r.at, len: at.clamp(r.at, r.end()) - r.at };
            let from = end.clamp(r.at, r.end()).max(before.end());
            let behind = LostRange { at: from, len: r.end() - from };
            [before, behind]
        });
        *ranges = pieces.filter(|r| r.len > 0).collect();
        fold(&mut ranges, at..end);
        self.count.set(ranges.len());
        true
    }
}

/// Joins the two closest ranges until the labels can hold all, but not those around `kept`, which was just
/// written.
fn fold(ranges: &mut Vec<LostRange>, kept: Range<u64>) {
    while ranges.len() > LOST_MAX {
        let may_join = |i: &usize| ranges[i + 1].at <= kept.start || kept.end <= ranges[*i].end();
        let gap = |i: &usize| ranges[i + 1].at - ranges[*i].end();
        let closest =
            (0..ranges.len() - 1).filter(may_join).min_by_key(gap).expect("there are more than two");
        let end = ranges.remove(closest + 1).end();
        ranges[closest].len = end - ranges[closest].at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_can_be_held_are_joined_where_least_is_between() {
        let lost = Lost::default();
        (0..LOST_MAX as u64).for_each(|i| lost.add(i * 100_000, 4096));
        assert_eq!(lost.count(), LOST_MAX);
        lost.add(250_000, 4096);
        assert_eq!(lost.count(), LOST_MAX);
        assert_eq!(lost.first_in(204_096, 45_904), Some(204_096), "between two that are 45,904 apart");
        // Written data are never lost again by joining.
        assert!(lost.written(301_024, 512));
        assert_eq!((lost.count(), lost.first_in(301_024, 512)), (LOST_MAX, None));
        assert!(are_in_order(&lost.ranges()));
    }

    #[test]
    fn ranges_join_are_cut_and_found() {
        let lost = Lost::default();
        let check = |expected: &[(u64, u64)]| {
            let ranges: Vec<_> = lost.ranges().iter().map(|r| (r.at, r.len)).collect();
            assert_eq!(ranges, expected);
        };
        lost.add(100, 10);
        lost.add(300, 10);
        lost.add(110, 20);
        check(&[(100, 30), (300, 10)]);
        assert_eq!(lost.first_in(0, 100), None);
        assert_eq!(lost.first_in(0, 101), Some(100));
        assert_eq!(lost.first_in(120, 500), Some(120));
        assert!(!lost.written(130, 170));
        assert!(lost.written(110, 5));
        check(&[(100, 10), (115, 15), (300, 10)]);
        assert!(lost.written(0, 305));
        check(&[(305, 5)]);
    }
}
