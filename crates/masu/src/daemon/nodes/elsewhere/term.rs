//! How long a node may run controllers without hearing from the owner. Pure.
//!
//! The node asks; the owner answers how long it grants from its answer on. The node counts from when it
//! asked, so its term ends before the owner's count of it, whatever the answer took; the owner waits longer
//! by what clocks differ.

use std::time::Duration;

use cluster::DRIFT_PERCENT_MAX;
use world::Instant;

/// How often a node asks.
pub(super) const EVERY: Duration = Duration::from_millis(500);
/// The longest term: the owner's own term is not longer.
const TERM_MAX: Duration = Duration::from_secs(4);
/// A peer that has said nothing for so long is gone: its connection ends, and what is on its way with it.
pub(super) const SILENT_MAX: Duration = Duration::from_millis(2500);
const _: () = assert!(SILENT_MAX.as_millis() < TERM_MAX.as_millis());

/// What the owner grants now, whose own term ends at `own_until`.
pub(super) fn grant(now: Instant, own_until: Instant) -> Duration {
    let left = Duration::from_nanos(own_until.0.saturating_sub(now.0));
    left.min(TERM_MAX)
}

/// The end of a term that was asked for at this time, at the node.
pub(super) fn end(asked: Instant, granted: Duration) -> Instant {
    asked + granted
}

/// When the owner may take for granted that the node's term has ended, which it granted then: with clocks
/// that differ by twice what one may be off.
pub(super) fn over(granted_at: Instant, granted: Duration) -> Instant {
    granted_at + granted * (100 + 2 * DRIFT_PERCENT_MAX as u32) / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    #[test]
    fn a_grant_is_never_longer_than_the_owners_own_term() {
        let rows = [(0, 5000, 4000), (0, 4000, 4000), (1000, 4000, 3000), (4000, 4000, 0), (9000, 4000, 0)];
        for (now, until, expected) in rows {
            assert_eq!(grant(at(now), at(until)), Duration::from_millis(expected), "{now} of {until}");
        }
    }

    #[test]
    fn the_owner_waits_longer_than_any_node_serves() {
        // The node's clock is slow by 5 %, the owner's fast by 5 %: in true time the node serves 4 / 0.95 s.
        let granted = grant(at(0), at(5000));
        let node_ms = end(at(0), granted).0 as f64 / 0.95 / 1e6;
        let owner_ms = over(at(0), granted).0 as f64 / 1.05 / 1e6;
        assert!(node_ms <= owner_ms + 25.0, "{node_ms} > {owner_ms}");
    }
}
