//! The page map of a volume: a table of leaves, each with the pages of 1,024 consecutive indices.
//!
//! Leaves are reference-counted: a clone of a map, or the snapshot for a checkpoint, copies the table and no
//! leaf; a shared leaf is copied when it changes. A mapped page costs 4 bytes, and a leaf 4 KiB.

use std::ops::Range;
use std::rc::Rc;

/// Indices per leaf: 4 KiB of entries.
pub(crate) const LEAF_LEN: usize = 1024;
/// Leaves that one call of [`Map::extent`] looks at: some 20 microseconds.
const EXTENT_LEAVES_MAX: usize = 16_384;
/// The entry of an unmapped index.
const NONE: u32 = u32::MAX;

#[derive(Clone)]
struct Leaf {
    entries: [u32; LEAF_LEN],
    used: u32,
}

/// A page map.
#[derive(Clone, Default)]
pub(crate) struct Map {
    leaves: Vec<Option<Rc<Leaf>>>,
    mapped: u64,
}

/// Consecutive indices: all unmapped, or mapped to contiguous pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) page: Option<u32>,
    pub(crate) count: u32,
}

impl Map {
    pub(crate) fn get(&self, index: u32) -> Option<u32> {
        let leaf = self.leaves.get(index as usize / LEAF_LEN)?.as_ref()?;
        let entry = leaf.entries[index as usize % LEAF_LEN];
        (entry != NONE).then_some(entry)
    }

    /// Changes one entry and returns the old one.
    pub(crate) fn set(&mut self, index: u32, page: Option<u32>) -> Option<u32> {
        assert_ne!(page, Some(NONE), "a page number must not be the mark of no page");
        let (l, i) = (index as usize / LEAF_LEN, index as usize % LEAF_LEN);
        if self.leaves.get(l).is_none_or(Option::is_none) {
            page?;
            if self.leaves.len() <= l {
                self.leaves.resize(l + 1, None);
            }
            self.leaves[l] = Some(Rc::new(Leaf { entries: [NONE; LEAF_LEN], used: 0 }));
        }
        let slot = &mut self.leaves[l];
        let leaf = Rc::make_mut(slot.as_mut().expect("made above"));
        let old = std::mem::replace(&mut leaf.entries[i], page.unwrap_or(NONE));
        let old = (old != NONE).then_some(old);
        let (plus, minus) = (u32::from(page.is_some()), u32::from(old.is_some()));
        leaf.used = leaf.used + plus - minus;
        self.mapped = self.mapped + u64::from(plus) - u64::from(minus);
        if leaf.used == 0 {
            *slot = None;
        }
        old
    }

    /// Maps the indices `index..index + count` to the pages `page..page + count`, replacing old entries.
    pub(crate) fn set_run(&mut self, index: u32, count: u32, page: u32) {
        let mut done = 0;
        while done < count {
            let (l, i) = ((index + done) as usize / LEAF_LEN, (index + done) as usize % LEAF_LEN);
            let n = (LEAF_LEN - i).min((count - done) as usize);
            if self.leaves.len() <= l {
                self.leaves.resize(l + 1, None);
            }
            let leaf =
                self.leaves[l].get_or_insert_with(|| Rc::new(Leaf { entries: [NONE; LEAF_LEN], used: 0 }));
            let leaf = Rc::make_mut(leaf);
            let mut new = 0;
            for (entry, page) in leaf.entries[i..i + n].iter_mut().zip(page + done..) {
                new += u32::from(*entry == NONE);
                *entry = page;
            }
            leaf.used += new;
            self.mapped += u64::from(new);
            done += n as u32;
        }
    }

    /// The upper bound of leaf numbers.
    pub(crate) fn leaves(&self) -> usize {
        self.leaves.len()
    }

    /// The pages of some leaves, in index order.
    pub(crate) fn pages(&self, leaves: Range<usize>) -> impl Iterator<Item = u32> + '_ {
        let end = leaves.end.min(self.leaves.len());
        let entries = self.leaves[leaves.start.min(end)..end].iter().flatten().flat_map(|leaf| &leaf.entries);
        entries.copied().filter(|page| *page != NONE)
    }

    /// The runs of contiguous pages of one leaf: start in the leaf, length, first page.
    pub(crate) fn runs(&self, leaf: usize) -> impl Iterator<Item = (u16, u16, u32)> + '_ {
        let entries = self.leaves.get(leaf).and_then(Option::as_ref).map_or(&[][..], |l| &l.entries[..]);
        let mut at = 0;
        std::iter::from_fn(move || {
            at += entries[at..].iter().take_while(|page| **page == NONE).count();
            let page = *entries.get(at)?;
            let count = entries[at..].iter().zip(page..NONE).take_while(|(p, wanted)| *p == wanted).count();
            at += count;
            Some(((at - count) as u16, count as u16, page))
        })
    }

    /// The number of mapped indices.
    pub(crate) fn mapped(&self) -> u64 {
        self.mapped
    }

    /// The run that begins at `index`, at most `max` long.
    pub(crate) fn run(&self, index: u32, max: u32) -> Run {
        let page = self.get(index);
        let mut count = 1;
        while count < max {
            let next = index + count;
            if page.is_none() && next as usize >= self.leaves.len() * LEAF_LEN {
                return Run { page, count: max };
            }
            if page.is_none() && (next as usize).is_multiple_of(LEAF_LEN) && self.leaf_is_empty(next) {
                count += (LEAF_LEN as u32).min(max - count);
                continue;
            }
            if self.get(next) != page.map(|p| p.wrapping_add(count)) {
                break;
            }
            count += 1;
        }
        Run { page, count }
    }

    /// Whether `index` is mapped, and how many indices from it on, at most `max`, have the same state. It
    /// ends early after a number of leaves, which bounds its time; full and empty leaves count without a look
    /// at their entries.
    pub(crate) fn extent(&self, index: u32, max: u32) -> (bool, u32) {
        let mapped = self.get(index).is_some();
        let (mut at, end) = (index as usize, index as usize + max as usize);
        for _ in 0..EXTENT_LEAVES_MAX {
            let (l, i) = (at / LEAF_LEN, at % LEAF_LEN);
            if at >= end || l >= self.leaves.len() {
                break;
            }
            let alike = match &self.leaves[l] {
                None if mapped => 0,
                None => LEAF_LEN - i,
                Some(leaf) if mapped && leaf.used as usize == LEAF_LEN => LEAF_LEN - i,
                Some(leaf) => leaf.entries[i..].iter().take_while(|e| (**e != NONE) == mapped).count(),
            };
            at += alike;
            if i + alike < LEAF_LEN {
                break;
            }
        }
        // Nothing is mapped beyond the last leaf.
        let at = if !mapped && at >= self.leaves.len() * LEAF_LEN { end } else { at.min(end) };
        (mapped, (at - index as usize) as u32)
    }

    fn leaf_is_empty(&self, index: u32) -> bool {
        self.leaves.get(index as usize / LEAF_LEN).is_none_or(Option::is_none)
    }

    /// The first mapped index in `from..end`.
    pub(crate) fn next_mapped(&self, from: u32, end: u32) -> Option<u32> {
        let mut index = from;
        while index < end && (index as usize) < self.leaves.len() * LEAF_LEN {
            if self.leaf_is_empty(index) {
                // There is no index after the last possible leaf.
                index = (index / LEAF_LEN as u32 + 1).saturating_mul(LEAF_LEN as u32);
            } else if self.get(index).is_some() {
                return Some(index);
            } else {
                index += 1;
            }
        }
        None
    }

    /// All entries in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        let leaves =
            self.leaves.iter().enumerate().filter_map(|(l, leaf)| leaf.as_ref().map(|leaf| (l, leaf)));
        leaves.flat_map(|(l, leaf)| {
            let entries = leaf.entries.iter().enumerate();
            entries.filter(|(_, e)| **e != NONE).map(move |(i, e)| ((l * LEAF_LEN + i) as u32, *e))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_end_where_pages_do_not_follow_each_other() {
        let mut map = Map::default();
        assert_eq!(map.run(7, 100_000), Run { page: None, count: 100_000 });
        for (index, page) in [(5000, 9), (5001, 10), (5002, 12)] {
            assert_eq!(map.set(index, Some(page)), None);
        }
        assert_eq!(map.run(3, 100_000), Run { page: None, count: 4997 });
        assert_eq!(map.run(5000, 100), Run { page: Some(9), count: 2 });
        assert_eq!(map.run(5003, 100_000), Run { page: None, count: 100_000 });
        assert_eq!(map.next_mapped(0, u32::MAX), Some(5000));
        assert_eq!(map.next_mapped(5003, u32::MAX), None);
        let copy = map.clone();
        assert_eq!(map.set(5001, None), Some(10));
        assert_eq!((copy.get(5001), map.get(5001), map.mapped(), copy.mapped()), (Some(10), None, 2, 3));
        assert_eq!(map.iter().collect::<Vec<_>>(), [(5000, 9), (5002, 12)]);
    }

    #[test]
    fn extents_are_those_of_a_look_at_every_index() {
        let mut rng = world::Rng::with_seed(5);
        let mut map = Map::default();
        for _ in 0..40 {
            let (from, count) = (rng.u32(..6000), rng.u32(1..2500));
            match rng.bool() {
                true => map.set_run(from, count, rng.u32(..1_000_000)),
                false => (from..from + count).for_each(|index| _ = map.set(index, None)),
            }
            for _ in 0..50 {
                let (index, max) = (rng.u32(..9000), rng.u32(1..9000));
                let mapped = map.get(index).is_some();
                let count =
                    (index..index + max).take_while(|i| map.get(*i).is_some() == mapped).count() as u32;
                assert_eq!(map.extent(index, max), (mapped, count), "{index} {max}");
            }
        }
    }

    #[test]
    fn an_extent_ends_at_the_border_of_leaves() {
        let mut map = Map::default();
        map.set_run(0, 2 * LEAF_LEN as u32, 5);
        map.set(4 * LEAF_LEN as u32, Some(7));
        assert_eq!(map.extent(10, 9000), (true, 2 * LEAF_LEN as u32 - 10));
        assert_eq!(map.extent(2 * LEAF_LEN as u32, 9000), (false, 2 * LEAF_LEN as u32));
    }

    #[test]
    fn a_look_for_the_end_of_an_extent_is_bounded() {
        let mut map = Map::default();
        map.set(u32::MAX - 1, Some(7));
        let most = (EXTENT_LEAVES_MAX * LEAF_LEN) as u32;
        assert_eq!(map.extent(0, u32::MAX), (false, most));
        assert_eq!(map.extent(5, u32::MAX), (false, most - 5));
        assert_eq!(map.extent(u32::MAX - 2000, 2000), (false, 1999));
        assert_eq!(map.extent(u32::MAX - 1, 1), (true, 1));
        let mut map = Map::default();
        map.set(70_000, Some(7));
        assert_eq!(map.extent(70_001, u32::MAX - 70_001), (false, u32::MAX - 70_001), "after the last page");
    }

    #[test]
    fn runs_that_are_set_are_the_runs_that_are_found() {
        let mut map = Map::default();
        map.set_run(1000, 2000, 50);
        map.set(1500, None);
        assert_eq!((map.mapped(), map.leaves()), (1999, 3));
        assert_eq!(map.runs(0).collect::<Vec<_>>(), [(1000, 24, 50)]);
        assert_eq!(map.runs(1).collect::<Vec<_>>(), [(0, 476, 74), (477, 547, 551)]);
        assert_eq!(map.runs(7).count(), 0);
        assert_eq!(map.pages(1..2).count(), 1023);
        assert_eq!(map.pages(0..9).last(), Some(2049));
        map.set_run(1000, 2000, 9000);
        assert_eq!((map.mapped(), map.get(2999)), (2000, Some(10_999)));
    }

    #[test]
    fn looking_for_a_page_ends_at_the_last_index_that_a_map_can_have() {
        let mut map = Map::default();
        map.set(u32::MAX - 1, Some(7));
        assert_eq!(map.next_mapped(5, u32::MAX), Some(u32::MAX - 1));
        map.set(u32::MAX - 1, None);
        assert_eq!(map.next_mapped(5, u32::MAX), None);
    }

    #[test]
    fn a_clone_of_a_clone_has_the_same_leaves_whatever_its_depth() {
        let mut map = Map::default();
        map.set_run(0, 5000, 7);
        let deep = (0..200).fold(map.clone(), |map, _| map.clone());
        let same = |(a, b): (&Option<Rc<Leaf>>, &Option<Rc<Leaf>>)| match (a, b) {
            (Some(a), Some(b)) => Rc::ptr_eq(a, b),
            _ => false,
        };
        assert!(map.leaves.iter().zip(&deep.leaves).all(same), "one step from an index to its page");
    }
}
