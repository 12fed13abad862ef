//! Ranges of a group that no redundancy can tell any more: reading them is an error until they are written again.
//!
//! They are on the labels. A range is noted durably before anybody may read what stands in its place; that it was written
//! again is durable before the flush that covers the write is acknowledged.

use std::cell::{Cell, RefCell};

/// What fits a label.
pub(crate) const LOST_MAX: usize = 200;

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

/// The lost ranges, in order, not touching each other.
#[derive(Default)]
pub(crate) struct Lost {
    ranges: RefCell<Vec<LostRange>>,
    /// How many there are: the one look that a read takes.
    count: Cell<usize>,
}

impl Lost {
    pub(crate) fn new(ranges: Vec<LostRange>) -> Lost {
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

    /// Whether there are more than a label can hold: then nobody can be told any more what is lost.
    pub(crate) fn is_too_long(&self) -> bool {
        self.count.get() > LOST_MAX
    }

    /// The first lost byte of a range.
    pub(crate) fn first_in(&self, at: u64, len: u64) -> Option<u64> {
        if self.count.get() == 0 {
            return None;
        }
        let ranges = self.ranges.borrow();
        let found = ranges.iter().find(|r| r.at < at + len && at < r.end())?;
        Some(found.at.max(at))
    }

    /// Adds a range, joined to those that it touches.
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
        self.count.set(ranges.len());
    }

    /// The range was written: whether any of it was lost.
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
        self.count.set(ranges.len());
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
