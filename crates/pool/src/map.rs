//! The page map of a volume: a table of leaves, each with the pages of 1,024 consecutive indices.
//!
//! Leaves are shared by counting: a clone of a map, or the snapshot from which a checkpoint is written, copies the
//! table and no leaf; a leaf is copied when it is changed while shared. A mapped page costs 4 bytes, and a leaf 4 KiB.

use std::rc::Rc;

/// Indices per leaf: 4 KiB of entries.
pub(crate) const LEAF_LEN: usize = 1024;
/// The entry of an index without a page.
const NONE: u32 = u32::MAX;

#[derive(Clone)]
struct Leaf {
    entries: [u32; LEAF_LEN],
    used: u32,
}

/// Which page an index has.
#[derive(Clone, Default)]
pub(crate) struct Map {
    leaves: Vec<Option<Rc<Leaf>>>,
    mapped: u64,
}

/// Indices in a row: without pages, or with pages in a row.
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

    /// Changes one entry; the old one comes back.
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

    /// How many indices have a page.
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

    fn leaf_is_empty(&self, index: u32) -> bool {
        self.leaves.get(index as usize / LEAF_LEN).is_none_or(Option::is_none)
    }

    /// The first index with a page in `from..end`.
    pub(crate) fn next_mapped(&self, from: u32, end: u32) -> Option<u32> {
        let mut index = from;
        while index < end && (index as usize) < self.leaves.len() * LEAF_LEN {
            if self.leaf_is_empty(index) {
                index = (index / LEAF_LEN as u32 + 1) * LEAF_LEN as u32;
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
}
