//! Which regions of the units the records of a journal touch: a superset.

use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes of a region: a power of two.
const REGION_SHIFT: u32 = 20;

/// The last record of each region.
#[derive(Default)]
pub(crate) struct Regions {
    last: BTreeMap<(u64, u64), u64>,
}

impl Regions {
    /// Records a write.
    pub(crate) fn note(&mut self, unit: u64, range: Range<u64>, sequence: u64) {
        let (first, end) = (range.start >> REGION_SHIFT, range.end.div_ceil(1 << REGION_SHIFT));
        self.last.extend((first..end).map(|region| ((unit, region), sequence)));
    }

    /// Records a Forget of the range.
    pub(crate) fn forget(&mut self, unit: u64, range: Range<u64>) {
        let (first, end) = (range.start.div_ceil(1 << REGION_SHIFT), range.end >> REGION_SHIFT);
        if first >= end {
            return;
        }
        let whole: Vec<_> = self.last.range((unit, first)..(unit, end)).map(|(key, _)| *key).collect();
        for key in &whole {
            self.last.remove(key);
        }
    }

    /// Whether a record later than `retired` may touch the range.
    pub(crate) fn hold(&self, unit: u64, range: &Range<u64>, retired: u64) -> bool {
        let (first, end) = (range.start >> REGION_SHIFT, range.end.div_ceil(1 << REGION_SHIFT));
        first < end && self.last.range((unit, first)..(unit, end)).any(|(_, last)| *last > retired)
    }

    /// Records up to `retired` are no longer part of a replay.
    pub(crate) fn retire(&mut self, retired: u64) {
        self.last.retain(|_, last| *last > retired);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_held_until_they_are_retired_or_forgotten_as_a_whole() {
        const MIB: u64 = 1 << 20;
        let mut regions = Regions::default();
        regions.note(1, MIB - 512..MIB + 512, 5);
        assert!(regions.hold(1, &(0..512), 4));
        assert!(regions.hold(1, &(0..1 << 50), 4));
        assert!(!regions.hold(1, &(2 * MIB..3 * MIB), 4));
        assert!(!regions.hold(2, &(0..MIB), 4));
        assert!(!regions.hold(1, &(0..MIB), 5));
        regions.forget(1, 512..2 * MIB);
        assert!(regions.hold(1, &(0..MIB), 4), "forgotten in part only");
        assert!(!regions.hold(1, &(MIB..2 * MIB), 4));
        regions.retire(5);
        assert!(!regions.hold(1, &(0..MIB), 0));
    }
}
