//! Which mirror is read where mirrors may differ: always the same one for the same address, so that a block
//! that was read once does not change, also after another unclean end.
//!
//! ```text
//!   region of the drives' data      0    1    2    3   …
//!   order of three mirrors         012  120  201  012  …   the first one in sync is read, and copied by a resync
//! ```
//!
//! So all drives of a set share the reads, and a drive that is dropped changes only the regions that were
//! read from it. A function of the address and of the members alone: nothing of it needs to be recorded.

use crate::inner::Inner;
use crate::label::Preferred;
use crate::regions::region_bytes;
use crate::sets::{Extent, Sets};

impl Preferred {
    /// Bytes of the drives' data with the same order.
    fn region_bytes(self, sets: &Sets) -> u64 {
        match self {
            Preferred::First => u64::MAX,
            Preferred::ByRegion => region_bytes(sets.unit),
        }
    }

    /// The positions of a set in the order in which they count at byte `from` of the drives' data.
    pub(crate) fn order(self, sets: &Sets, set: usize, from: u64) -> impl Iterator<Item = usize> + use<> {
        let n = sets.copies as u64;
        let first = from / self.region_bytes(sets) % n;
        let begin = sets.members(set).start;
        (0..n).map(move |i| begin + ((first + i) % n) as usize)
    }

    /// The parts of an extent in each of which one order counts, by address.
    fn parts(self, sets: &Sets, extent: Extent) -> impl Iterator<Item = Extent> + use<> {
        let (region, end) = (self.region_bytes(sets), extent.from + extent.len);
        let mut next = extent.from;
        std::iter::from_fn(move || {
            let from = next;
            next = (from / region + 1).saturating_mul(region).min(end);
            (from < end).then(|| Extent { from, len: next - from, ..extent })
        })
    }
}

impl Inner {
    /// The positions of a set in the order in which they count at byte `from` of the drives' data.
    pub(crate) fn preferred_order(
        &self,
        sets: &Sets,
        set: usize,
        from: u64,
    ) -> impl Iterator<Item = usize> + use<> {
        self.preferred.order(sets, set, from)
    }

    /// An extent in the parts that are read from one mirror each: several only where mirrors may differ.
    pub(crate) fn parts_to_read(&self, sets: &Sets, extent: Extent) -> impl Iterator<Item = Extent> + use<> {
        let pinned = self.is_pinned(extent.from, extent.len);
        let rule = if pinned { self.preferred } else { Preferred::First };
        rule.parts(sets, extent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn order(rule: Preferred, copies: usize, set: usize, from: u64) -> Vec<usize> {
        rule.order(&Sets { unit: 64 << 10, count: 2, copies }, set, from).collect()
    }

    #[test]
    fn each_region_begins_with_the_next_mirror() {
        let by_region = |copies, set, from| order(Preferred::ByRegion, copies, set, from);
        assert_eq!((by_region(2, 0, 0), by_region(2, 0, MIB - 1)), (vec![0, 1], vec![0, 1]));
        assert_eq!((by_region(2, 1, MIB), by_region(2, 1, 2 * MIB)), (vec![3, 2], vec![2, 3]));
        assert_eq!((by_region(3, 0, MIB), by_region(3, 0, 2 * MIB + 1)), (vec![1, 2, 0], vec![2, 0, 1]));
        assert_eq!(by_region(3, 0, 3 * MIB), vec![0, 1, 2]);
        assert_eq!(order(Preferred::First, 3, 1, 5 * MIB), vec![3, 4, 5]);
    }

    #[test]
    fn parts_end_where_regions_do() {
        let parts = |rule: Preferred, unit, from, len| -> Vec<(u64, u64)> {
            let sets = Sets { unit, count: 1, copies: 2 };
            rule.parts(&sets, Extent { set: 0, from, len }).map(|e| (e.from, e.len)).collect()
        };
        let by_region = |unit, from, len| parts(Preferred::ByRegion, unit, from, len);
        assert_eq!(by_region(4096, MIB - 4096, 4096), [(MIB - 4096, 4096)]);
        assert_eq!(
            by_region(4096, MIB - 4096, MIB + 8192),
            [(MIB - 4096, 4096), (MIB, MIB), (2 * MIB, 4096)]
        );
        // A unit larger than a region.
        assert_eq!(by_region(4 * MIB, 3 * MIB, 2 * MIB), [(3 * MIB, MIB), (4 * MIB, MIB)]);
        assert_eq!(parts(Preferred::First, 4096, MIB - 4096, 8192), [(MIB - 4096, 8192)]);
    }
}
