//! How long requests are below, and so the throughput, at another depth: the time is a straight line over the
//! depth, of which the search knows two points. By Little's law the throughput is depth / time: it saturates.

use crate::pressure::PARTS;

/// A shallower queue must shorten the time below by this part of the change, of 1000, or it only costs
/// throughput: the time is not spent in a queue.
pub(crate) const RELIEF_MIN_PERMILLE: u64 = 333;
/// A request alone takes no less than this part of what the line tells: it took 70 and 75 % of that on ten
/// drives of two kinds, with lines through depths of 64 and 32.
const ALONE_PART: u128 = 2;

/// Time below over the depth, in parts that only compare.
#[derive(Clone, Copy)]
pub(crate) struct Curve {
    fixed: u128,
    slope: u128,
}

impl Curve {
    /// A change of the depth from `depth` changes the time by `relief_permille` of the change.
    pub(crate) fn new(depth: u32, relief_permille: u64) -> Curve {
        let relief = relief_permille.min(1000);
        Curve { fixed: u128::from((1000 - relief) * u64::from(depth) * PARTS), slope: u128::from(relief) }
    }

    fn at(&self, depth_parts: u64) -> u128 {
        (self.fixed + self.slope * u128::from(depth_parts)).max(1)
    }

    /// Time below of a request alone, if it is `below_ns` at `crowd_parts`.
    pub(crate) fn alone_ns(&self, below_ns: u64, crowd_parts: u64) -> u64 {
        (u128::from(below_ns) * self.at(PARTS) / self.at(crowd_parts)) as u64
    }

    /// The throughput with any number of requests, if it is `rate` at `crowd_parts`: beyond the depth at
    /// which the time below is all queue, it does not rise.
    pub(crate) fn most(&self, rate: u64, crowd_parts: u64) -> u64 {
        let queued = (self.slope * u128::from(crowd_parts)).max(1);
        u64::try_from(u128::from(rate) * self.at(crowd_parts) / queued).unwrap_or(u64::MAX)
    }

    /// The depth at which requests are below for `time_ns`, if they are for `below_ns` at `crowd_parts`.
    /// 0: shallower than the line tells, which is to be tried: where drives reorder, the true curve is below
    /// it. None: at no depth. A deeper queue is taken to cost all of the change.
    pub(crate) fn depth_for(&self, time_ns: u64, below_ns: u64, crowd_parts: u64) -> Option<u64> {
        let (time, below, parts) = (u128::from(time_ns), u128::from(below_ns.max(1)), u128::from(PARTS));
        if time >= below {
            let depth = time * u128::from(crowd_parts) / (below * parts);
            return Some(u64::try_from(depth).unwrap_or(u64::MAX));
        }
        let line = time * self.at(crowd_parts) / below;
        if self.slope < u128::from(RELIEF_MIN_PERMILLE) || line * ALONE_PART < self.fixed {
            return None;
        }
        Some((line.saturating_sub(self.fixed) / (self.slope * parts)) as u64)
    }

    /// The shallowest depth with about this part of the throughput at `crowd_parts`, of 1000.
    pub(crate) fn shallowest_with(&self, permille: u64, crowd_parts: u64) -> u64 {
        let (part, crowd) = (u128::from(permille), u128::from(crowd_parts));
        let rest = (1000 * self.at(crowd_parts)).saturating_sub(part * self.slope * crowd).max(1);
        let parts = u128::from(PARTS);
        let depth = (part * crowd * self.fixed / rest + parts / 2) / parts;
        u64::try_from(depth).unwrap_or(u64::MAX)
    }

    /// Throughput at a depth against that at another one, of 1000.
    pub(crate) fn throughput_permille(&self, depth: u32, of: u32) -> u64 {
        let at = |depth: u32| self.at(u64::from(depth) * PARTS);
        (1000 * u128::from(depth) * at(of) / (u128::from(of.max(1)) * at(depth))) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half of the time at a depth of 16 is a queue: 24 ms there, 12 ms without one.
    fn half() -> Curve {
        Curve::new(16, 500)
    }

    #[test]
    fn a_shallower_queue_shortens_the_time_by_what_is_queued() {
        let depth = |time_ms: u64| half().depth_for(time_ms * 1_000_000, 24_000_000, 16 * PARTS);
        assert_eq!([depth(24), depth(18), depth(15)], [Some(16), Some(8), Some(4)]);
        assert_eq!([depth(12), depth(6), depth(5)], [Some(0), Some(0), None]);
        assert_eq!(depth(48), Some(32));
        assert_eq!(half().alone_ns(24_000_000, 16 * PARTS), 12_750_000);
        // Each has a slot of its own: no depth helps.
        assert_eq!(Curve::new(16, 0).depth_for(20_000_000, 24_000_000, 16 * PARTS), None);
    }

    #[test]
    fn the_throughput_falls_with_the_depth_unless_all_of_it_is_a_queue() {
        // At 8 of 16 a request takes 18 ms instead of 24: 2/3 of the throughput.
        assert_eq!(half().throughput_permille(8, 16), 666);
        assert_eq!(
            [half().shallowest_with(666, 16 * PARTS), half().shallowest_with(1000, 16 * PARTS)],
            [8, 16]
        );
        assert_eq!(Curve::new(16, 1000).shallowest_with(980, 16 * PARTS), 0);
        assert_eq!(Curve::new(16, 0).shallowest_with(500, 16 * PARTS), 8);
    }
}
