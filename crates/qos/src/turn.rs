//! Virtual time of the weight phase: the tag of the request served last, and how far a flow may be ahead of
//! it or behind it.
//!
//! That bound is what the turn advances in a second, the same for all flows. In requests of each flow it was
//! a few milliseconds of one with a large weight and minutes of one with a small weight: what the former
//! lacked was forgotten, and what the latter could not have had was given to it.

use crate::tag::{SECOND_NS, share_of};

/// Interval between two looks at how far the turn has advanced.
const LOOK_NS: u64 = 100_000_000;
/// The average follows single looks by this part.
const MEMORY: u64 = 16;

/// The turn, in points of work by weight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turn {
    pub(crate) at: u64,
    /// The largest request of late, of all flows.
    pub(crate) peak_bytes: u64,
    /// Points by which it advances in a second, on average, but no more than if what is served in that time
    /// were of the largest weight at work. With requests of a small one it jumps a thousand times as far,
    /// when no other waits, and those who begin to wait then lack nothing.
    pub(crate) second: u64,
    looked_at: u64,
    looked: u64,
    served_bytes: u64,
}

impl Turn {
    /// Measures how fast it advances, when the interval has passed.
    pub(crate) fn look(&mut self, now: u64, largest_weight: impl FnOnce() -> u32) {
        let passed_ns = now.saturating_sub(self.looked_at);
        if passed_ns < LOOK_NS {
            return;
        }
        let moved = self.at.saturating_sub(self.looked).min(share_of(self.served_bytes, largest_weight()));
        let moved = u128::from(moved) * u128::from(SECOND_NS);
        let second = u64::try_from(moved / u128::from(passed_ns)).unwrap_or(u64::MAX);
        self.second = self.second / MEMORY * (MEMORY - 1) + second / MEMORY;
        (self.looked_at, self.looked, self.served_bytes) = (now, self.at, 0);
    }

    /// A flow with this tag and weight is served, and is charged so many bytes at most. One far ahead is
    /// served only when no other may be: the turn advances by what is charged, and does not jump to the flow.
    /// Otherwise all other flows would be as far behind as a flow can be, and their differences would be
    /// lost.
    pub(crate) fn serve(&mut self, tag: u64, bytes: u64, weight: u32) {
        self.served_bytes = self.served_bytes.saturating_add(bytes);
        let on = self.at.saturating_add(share_of(bytes, weight));
        self.at = self.at.max(tag.min(on));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_turn_follows_what_is_served_and_jumps_to_no_flow_far_ahead() {
        let mut turn = Turn::default();
        turn.serve(1000, 8192, 100);
        assert_eq!(turn.at, 1000);
        turn.serve(u64::MAX, 8192, 100);
        assert_eq!(turn.at, 1000 + share_of(8192, 100));
        turn.serve(500, 8192, 100);
        assert_eq!(turn.at, 1000 + share_of(8192, 100));
    }

    #[test]
    fn a_second_is_what_it_advances_in_a_second_on_average() {
        let mut turn = Turn::default();
        for look in 1..=100 {
            turn.at = look * 32_000;
            turn.served_bytes = 200_000;
            turn.look(look * LOOK_NS, || 100);
        }
        assert!((300_000..=320_000).contains(&turn.second), "{}", turn.second);
        (turn.at, turn.served_bytes) = (u64::MAX, u64::MAX);
        turn.look(100 * LOOK_NS + 1, || 100);
        assert!(turn.second <= 320_000, "an interval has not passed");
        turn.look(101 * LOOK_NS, || 100);
        assert!(turn.second > 320_000);
    }
}
