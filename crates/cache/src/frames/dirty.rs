//! Metadata of one unit: which blocks have frames, are dirty or are being destaged, and the age of the
//! oldest.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Blocks of a set that share one word.
const WORD_BLOCKS: u64 = u64::BITS as u64;

/// A sorted set of blocks: words of 64 neighbours. Sequential writes need one word per 256 KiB.
#[derive(Default)]
pub(super) struct BlockSet {
    words: BTreeMap<u64, u64>,
    len: u32,
}

impl BlockSet {
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    /// Adds a block; it must not be in the set.
    pub(super) fn insert(&mut self, block: u64) {
        let word = self.words.entry(block / WORD_BLOCKS).or_default();
        let bit = 1 << (block % WORD_BLOCKS);
        assert!(*word & bit == 0, "block {block} enters a set twice");
        *word |= bit;
        self.len += 1;
    }

    /// Removes a block; it must be in the set.
    pub(super) fn remove(&mut self, block: u64) {
        let Entry::Occupied(mut word) = self.words.entry(block / WORD_BLOCKS) else {
            panic!("block {block} leaves a set and is not in it");
        };
        let bit = 1 << (block % WORD_BLOCKS);
        assert!(word.get() & bit != 0, "block {block} leaves a set and is not in it");
        *word.get_mut() &= !bit;
        if *word.get() == 0 {
            word.remove();
        }
        self.len -= 1;
    }

    /// The blocks from `first` on, in order.
    pub(super) fn from(&self, first: u64) -> impl Iterator<Item = u64> + '_ {
        let word = first / WORD_BLOCKS;
        self.words.range(word..).flat_map(move |(&at, &bits)| {
            let mask = if at == word { u64::MAX << (first % WORD_BLOCKS) } else { u64::MAX };
            Bits(bits & mask).map(move |bit| at * WORD_BLOCKS + bit)
        })
    }

    /// Whether a block of the range is in the set.
    pub(super) fn any(&self, range: Range<u64>) -> bool {
        self.from(range.start).next().is_some_and(|block| block < range.end)
    }
}

/// The numbers of the bits that are set.
struct Bits(u64);

impl Iterator for Bits {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.0 == 0 {
            return None;
        }
        let bit = self.0.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(u64::from(bit))
    }
}

/// Metadata of one unit.
#[derive(Default)]
pub(super) struct Book {
    /// All blocks with a frame. A range costs what is cached of it, however long it is and whatever else the
    /// unit has: a host chooses the ranges that it unmaps.
    pub(super) present: BlockSet,
    /// Blocks whose frames are in state Dirty.
    pub(super) dirty: BlockSet,
    /// Blocks whose frames are in state Destaging or Rewritten.
    pub(super) in_flight: BlockSet,
    /// (oldest journal number, block) of the dirty frames that were journaled.
    pub(super) ages: BTreeSet<(u64, u64)>,
    /// Of blocks whose frames are in state Rewritten: the first journal number since their destage began.
    pub(super) since: BTreeMap<u64, u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_agree_with_a_plain_set() {
        let mut random = fastrand::Rng::with_seed(11);
        let (mut set, mut plain) = (BlockSet::default(), BTreeSet::new());
        for _ in 0..20_000 {
            let block = random.u64(0..700);
            if plain.insert(block) {
                set.insert(block);
            } else {
                plain.remove(&block);
                set.remove(block);
            }
            let (from, to) = (random.u64(0..720), random.u64(0..720));
            assert!(set.from(from).take(5).eq(plain.range(from..).copied().take(5)));
            assert_eq!(set.any(from..to), from < to && plain.range(from..to).next().is_some());
            assert_eq!(set.len() as usize, plain.len());
        }
        assert!(set.words.len() <= 11);
    }
}
