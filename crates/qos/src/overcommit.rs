//! Whether the minimums are over-committed, by what the pool does. Where requests wait, the reservation clock
//! tells (`order.rs`); where all of them are below, or wait for little, only this does.
//!
//! ```text
//!  every minimum is missed, the others have next to nothing, Σ minimums > what the pool does at most: too many
//!  every minimum is missed, the pool could do more at a greater depth: the clients lack outstanding requests
//! ```

use crate::curve::{Curve, RELIEF_MIN_PERMILLE};
use crate::health::{Asked, KEPT_PERCENT, Seen};
use crate::pressure::PARTS;

/// A minimum below this part of all of them tells nothing: a single request is too much of it.
const TELLS_PERCENT: u64 = 1;
/// Flows without a minimum have no more than this part beside the floor, or it is their work that a minimum
/// lacks.
const OTHERS_PERCENT: u64 = 5;

/// What the pool did in the window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Did {
    /// All work, bytes per second.
    pub(crate) served: u64,
    /// That of flows without a minimum.
    pub(crate) served_free: u64,
    /// Requests below on average, in parts.
    pub(crate) crowd_parts: u64,
    /// Whether some request waited all the time: then the pool did what it can at this depth.
    pub(crate) is_full: bool,
    /// Throughput that the depth costs, of 1000.
    pub(crate) cost_permille: u32,
    pub(crate) floor_percent: u32,
}

impl Did {
    /// Counts what was seen of a flow in this time.
    pub(crate) fn add(&mut self, seen: Seen, has_minimum: bool, passed_ns: u64) {
        self.served = self.served.saturating_add(seen.served);
        let free = if has_minimum { 0 } else { seen.served };
        self.served_free = self.served_free.saturating_add(free);
        let crowd = seen.below_ns.saturating_mul(PARTS) / passed_ns.max(1);
        self.crowd_parts = self.crowd_parts.saturating_add(crowd);
    }

    /// What the pool does at most at any depth, bytes per second: what it did, if requests waited; if not, by
    /// how much a shallower queue shortens the time below. None: it is not known, because it was not tried,
    /// or because each request has a drive of its own and more of them bring more.
    fn most(&self, curve: &Curve, relief_permille: u64) -> Option<u64> {
        match (self.is_full, relief_permille >= RELIEF_MIN_PERMILLE) {
            (true, _) => {
                let kept = u128::from(1000 - self.cost_permille.min(999));
                Some(u64::try_from(u128::from(self.served) * 1000 / kept).unwrap_or(u64::MAX))
            }
            (false, true) => Some(curve.most(self.served, self.crowd_parts)),
            (false, false) => None,
        }
    }
}

/// What part of the minimums can be served, of 1000, if they are over-committed.
pub(crate) fn scale_permille(
    asked: impl Iterator<Item = Asked> + Clone,
    did: &Did,
    curve: &Curve,
    relief_permille: u64,
) -> Option<u32> {
    let promised: u128 = asked.clone().map(|flow| u128::from(flow.minimum)).sum();
    let most = u128::from(did.most(curve, relief_permille)?);
    let served = u128::from(did.served);
    let free = u128::from(did.served_free) * 100
        > served * u128::from(OTHERS_PERCENT + u64::from(did.floor_percent));
    if promised * u128::from(KEPT_PERCENT) <= most * 100 || free {
        return None;
    }
    let tells = asked.filter(|flow| u128::from(flow.minimum) * 100 >= promised * u128::from(TELLS_PERCENT));
    // Those that few outstanding requests hold back have less than the others.
    let scale = tells.map(|flow| u128::from(flow.served) * 1000 / u128::from(flow.minimum.max(1))).max()?;
    (scale < u128::from(10 * KEPT_PERCENT)).then_some(scale as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    fn did(served: u64) -> Did {
        Did {
            served,
            served_free: 0,
            crowd_parts: 10 * PARTS,
            is_full: false,
            cost_permille: 0,
            floor_percent: 0,
        }
    }

    /// What is said of flows with these minimums and rates in MB/s, where half of ten requests below have
    /// this part of the time below of all ten.
    fn scale(flows: &[(u64, u64)], did: Did, relief_permille: u64) -> Option<u32> {
        let asked =
            flows.iter().map(|(minimum, served)| Asked { minimum: minimum * MB, served: served * MB });
        scale_permille(asked, &did, &Curve::new(10, relief_permille), relief_permille)
    }

    #[test]
    fn minimums_beyond_what_the_pool_does_at_any_depth_are_over_committed_without_a_request_that_waits() {
        // A queue of three quarters: with any number of requests the pool does 4/3 of 100.
        for (what, flows, relief, wanted) in [
            ("three times as much", &[(150, 50), (150, 50)][..], 750, Some(333)),
            ("by a third and a little", &[(69, 50), (69, 50)], 750, Some(724)),
            ("not by a third", &[(65, 50), (65, 50)], 750, None),
            ("uneven ones, of which one lacks requests", &[(150, 60), (300, 40)], 750, Some(400)),
            ("one is met: the other lacks requests", &[(70, 70), (300, 30)], 750, None),
            ("no queue: more requests bring more", &[(150, 50), (150, 50)], 200, None),
            ("nothing is known", &[(150, 50), (150, 50)], 0, None),
            ("a small one has its request", &[(150, 50), (150, 48), (1, 2)], 750, Some(333)),
            ("all of it a queue", &[(60, 50), (60, 50)], 1000, Some(833)),
            ("nobody asks", &[], 750, None),
        ] {
            assert_eq!(scale(flows, did(100 * MB), relief), wanted, "{what}");
        }
    }

    /// Requests wait, but for too little to hold the clock back.
    #[test]
    fn where_requests_wait_the_pool_does_what_it_can_but_for_what_the_depth_costs() {
        let full = Did { is_full: true, ..did(100 * MB) };
        assert_eq!(scale(&[(60, 50), (60, 50)], full, 0), Some(833));
        let shallow = Did { cost_permille: 200, ..full };
        assert_eq!(scale(&[(60, 50), (60, 50)], shallow, 0), None);
        assert_eq!(scale(&[(65, 50), (65, 50)], shallow, 0), Some(769));
    }

    /// One flow has its minimum in a pool that does much more: its requests take too long among the others'.
    #[test]
    fn minimums_that_lack_what_others_have_are_not_over_committed() {
        let full = Did { is_full: true, served_free: 70 * MB, ..did(100 * MB) };
        assert_eq!(scale(&[(50, 30)], full, 750), None);
        assert_eq!(scale(&[(150, 30)], full, 750), None);
        let floor = Did { served_free: 3 * MB, floor_percent: 2, ..full };
        assert_eq!(scale(&[(150, 97)], floor, 750), Some(646));
        assert_eq!(scale(&[(150, 93)], Did { served_free: 8 * MB, ..floor }, 750), None);
    }
}
