//! Detects changes during a read: a counter for each region of a unit.
//!
//! Data read from the device enter the cache only if no write, direct operation or end of a destage touched
//! their region meanwhile. Regions share counters; a collision costs a miss, never a stale block.
//! share counters; a collision costs a miss, never a stale block.

use std::cell::RefCell;
use std::ops::Range;

/// Bytes of a region: a power of two.
const REGION_SHIFT: u32 = 16;
/// Counters of a unit: 8 KiB.
const COUNTERS: usize = 1024;

/// The counters of one unit.
pub(crate) struct Generations {
    regions: RefCell<Box<[u64]>>,
}

/// A snapshot of the counters of a range: equal only if none of them changed, because they only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Generation(u64);

fn regions_of(range: &Range<u64>) -> impl Iterator<Item = usize> + use<> {
    let (first, end) = (range.start >> REGION_SHIFT, range.end.div_ceil(1 << REGION_SHIFT));
    // More regions than counters are all counters.
    (first..end.min(first + COUNTERS as u64)).map(|region| region as usize % COUNTERS)
}

impl Generations {
    pub(crate) fn new() -> Generations {
        Generations { regions: RefCell::new(vec![0; COUNTERS].into_boxed_slice()) }
    }

    /// Records a change in the range.
    pub(crate) fn touch(&self, range: &Range<u64>) {
        let mut counters = self.regions.borrow_mut();
        regions_of(range).for_each(|region| counters[region] += 1);
    }

    /// The current snapshot of the range.
    pub(crate) fn of(&self, range: &Range<u64>) -> Generation {
        let counters = self.regions.borrow();
        Generation(regions_of(range).map(|region| counters[region]).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_within_is_noticed_and_one_elsewhere_is_not() {
        let generations = Generations::new();
        let range = (1 << 20)..(1 << 20) + 4096;
        let before = generations.of(&range);
        generations.touch(&(0..4096));
        assert_eq!(generations.of(&range), before);
        generations.touch(&(range.end - 1..range.end));
        assert_ne!(generations.of(&range), before);
        let before = generations.of(&range);
        generations.touch(&(0..1 << 40));
        assert_ne!(generations.of(&range), before, "a range over everything is");
    }
}
