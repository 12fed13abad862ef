//! Regions of the drives' data, and those that were written since the last flush.

use std::cell::{Cell, RefCell};
use std::ops::Range;

/// The smallest size of a region.
pub(crate) const REGION_BYTES: u64 = 1 << 20;

/// The size of a region: whole units, so that no unit lies in two regions.
pub(crate) fn region_bytes(unit: u64) -> u64 {
    REGION_BYTES.next_multiple_of(unit)
}

/// A set of regions of the drives' data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Regions {
    region_bytes: u64,
    words: Vec<u64>,
    /// Words that are not zero, each once: clearing costs as much as was recorded, not as much as exists.
    used: Vec<u32>,
}

impl Regions {
    /// An empty set for drives with this much data, in whole units.
    pub(crate) fn new(data_len: u64, unit: u64) -> Regions {
        let region_bytes = region_bytes(unit);
        let regions = data_len.div_ceil(region_bytes);
        Regions { region_bytes, words: vec![0; regions.div_ceil(64) as usize], used: Vec::new() }
    }

    pub(crate) fn add(&mut self, range: &Range<u64>) {
        for region in range.start / self.region_bytes..range.end.div_ceil(self.region_bytes) {
            self.add_word((region / 64) as usize, 1 << (region % 64));
        }
    }

    fn add_word(&mut self, index: usize, bits: u64) {
        let word = &mut self.words[index];
        if *word == 0 {
            self.used.push(index as u32);
        }
        *word |= bits;
    }

    pub(crate) fn add_all(&mut self, other: &Regions) {
        other.used.iter().for_each(|i| self.add_word(*i as usize, other.words[*i as usize]));
    }

    pub(crate) fn clear(&mut self) {
        self.used.drain(..).for_each(|i| self.words[i as usize] = 0);
    }

    /// The length from `from` on, up to `max`, that is in no region of the set.
    pub(crate) fn clean_from(&self, from: u64, max: u64) -> u64 {
        let has = |region: u64| self.words[(region / 64) as usize] & 1 << (region % 64) != 0;
        let end = from + max;
        let mut region = from / self.region_bytes;
        while region * self.region_bytes < end && !has(region) {
            region += 1;
        }
        (region * self.region_bytes).clamp(from, end) - from
    }

    /// The number of bytes in its regions.
    pub(crate) fn len_bytes(&self) -> u64 {
        let regions: u32 = self.used.iter().map(|i| self.words[*i as usize].count_ones()).sum();
        u64::from(regions) * self.region_bytes
    }
}

/// Regions written since the last flush of all drives, in two generations: a flush covers the writes that had
/// ended when it began.
pub(crate) struct Unflushed {
    pub(crate) now: RefCell<Regions>,
    pub(crate) flushing: RefCell<Regions>,
    pub(crate) flushes: Cell<bool>,
}

impl Unflushed {
    pub(crate) fn new(none: &Regions) -> Unflushed {
        Unflushed {
            now: RefCell::new(none.clone()),
            flushing: RefCell::new(none.clone()),
            flushes: Cell::new(false),
        }
    }

    /// All regions written since the last flush that ended.
    pub(crate) fn all(&self) -> Regions {
        let mut all = self.now.borrow().clone();
        all.add_all(&self.flushing.borrow());
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn regions_are_those_that_were_added_and_no_others() {
        let mut regions = Regions::new(1000 * MIB + 512, 64 << 10);
        assert_eq!(regions.clean_from(0, 1000 * MIB + 512), 1000 * MIB + 512);
        regions.add(&(70 * MIB + 5..70 * MIB + 6));
        regions.add(&(200 * MIB - 1..200 * MIB + 1));
        assert_eq!(regions.clean_from(0, 1000 * MIB), 70 * MIB);
        assert_eq!(regions.clean_from(70 * MIB, MIB), 0);
        assert_eq!(regions.clean_from(71 * MIB, 1000 * MIB), 128 * MIB);
        assert_eq!(regions.clean_from(201 * MIB, 100 * MIB), 100 * MIB);
        assert_eq!(regions.len_bytes(), 3 * MIB);
        let mut other = Regions::new(1000 * MIB + 512, 64 << 10);
        other.add(&(1000 * MIB..1000 * MIB + 512));
        other.add_all(&regions);
        assert_eq!(other.len_bytes(), 4 * MIB);
        other.clear();
        assert_eq!(other, Regions::new(1000 * MIB + 512, 64 << 10));
    }
}
