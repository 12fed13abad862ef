//! The free clusters of a volume, and which of them a file gets. Pure.
//!
//! NTFS takes the free run that fits best (observed: Carrier, File System Forensic Analysis, 2005). Clusters
//! that a transaction frees are not given to another one before that is durable, at the next checkpoint.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::Deserialize;

use super::layout::{CLUSTER_BYTES, Range};

/// How a file finds its clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in super::super) enum Placement {
    /// The least free run that is long enough.
    Best,
    /// Behind the file that got its clusters last.
    Next,
}

/// Free runs by address and by length.
#[derive(Clone, Debug, Default)]
pub(super) struct Space {
    by_at: BTreeMap<u64, u64>,
    by_len: BTreeSet<(u64, u64)>,
    /// What was freed, and when it may be used.
    freed: VecDeque<(u64, Range)>,
    next_at: u64,
}

impl Space {
    pub(super) fn new(free: Range) -> Space {
        let mut space = Space { next_at: free.at, ..Space::default() };
        space.insert(free);
        space
    }

    fn insert(&mut self, range: Range) {
        self.by_at.insert(range.at, range.bytes);
        self.by_len.insert((range.bytes, range.at));
    }

    fn remove(&mut self, at: u64) -> Option<Range> {
        let bytes = self.by_at.remove(&at)?;
        self.by_len.remove(&(bytes, at));
        Some(Range { at, bytes })
    }

    /// A run of so many whole clusters; none: no free run is so long.
    pub(super) fn take(&mut self, now_ns: u64, bytes: u64, placement: Placement) -> Option<Range> {
        while self.freed.front().is_some_and(|(due_ns, _)| *due_ns <= now_ns) {
            let (_, range) = self.freed.pop_front().expect("there is one");
            self.join(range);
        }
        let bytes = bytes.next_multiple_of(CLUSTER_BYTES);
        let best = || self.by_len.range((bytes, 0)..).next().map(|(_, at)| *at);
        let at = match placement {
            Placement::Best => best(),
            Placement::Next => {
                let fits = |(_, len): &(&u64, &u64)| **len >= bytes;
                self.by_at.range(self.next_at..).find(fits).map(|(at, _)| *at).or_else(best)
            }
        }?;
        let run = self.remove(at).expect("it is free");
        if run.bytes > bytes {
            self.insert(Range { at: at + bytes, bytes: run.bytes - bytes });
        }
        self.next_at = at + bytes;
        Some(Range { at, bytes })
    }

    /// Frees a run; it can be used from then on.
    pub(super) fn free(&mut self, due_ns: u64, range: Range) {
        if range.bytes > 0 {
            self.freed.push_back((due_ns, range));
        }
    }

    fn join(&mut self, mut range: Range) {
        let before = self.by_at.range(..range.at).next_back().map(|(at, bytes)| (*at, at + bytes));
        if let Some((at, end)) = before
            && end == range.at
        {
            self.remove(at);
            range = Range { at, bytes: range.end() - at };
        }
        if let Some(next) = self.remove(range.end()) {
            range.bytes += next.bytes;
        }
        self.insert(range);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: u64 = CLUSTER_BYTES;

    fn range(at: u64, bytes: u64) -> Range {
        Range { at: at * K, bytes: bytes * K }
    }

    #[test]
    fn the_least_run_that_fits_is_taken_once_its_release_is_durable() {
        let mut space = Space::new(range(100, 1000));
        space.free(50, range(10, 4));
        space.free(50, range(20, 8));
        assert_eq!(space.take(49, 3 * K, Placement::Best), Some(range(100, 3)));
        assert_eq!(space.take(50, 3 * K - 1, Placement::Best), Some(range(10, 3)));
        assert_eq!(space.take(50, 5 * K, Placement::Best), Some(range(20, 5)));
        assert_eq!(space.take(50, K, Placement::Best), Some(range(13, 1)));
        assert_eq!(space.take(50, 2000 * K, Placement::Best), None);
    }

    #[test]
    fn neighbours_join_and_the_next_run_is_behind_the_last() {
        let mut space = Space::new(range(100, 10));
        space.free(0, range(96, 4));
        space.free(0, range(90, 2));
        assert_eq!(space.take(0, 12 * K, Placement::Best), Some(range(96, 12)));
        let mut space = Space::new(range(100, 10));
        assert_eq!(space.take(0, 4 * K, Placement::Next), Some(range(100, 4)));
        space.free(0, range(90, 4));
        assert_eq!(space.take(0, 4 * K, Placement::Next), Some(range(104, 4)));
        assert_eq!(space.take(0, 4 * K, Placement::Next), Some(range(90, 4)));
    }
}
