//! When a node may get controllers again that it has lost, or could not run.

use std::collections::BTreeMap;
use std::time::Duration;

use world::Instant;

/// After the connection of a node broke while it ran controllers, or these could not be closed for it.
const AFTER_LOSS: Duration = Duration::from_secs(5);
/// After a node could not claim the drives of its controllers, if these do not change.
pub const AFTER_REFUSAL: Duration = Duration::from_secs(60);
/// A node tries for so long to claim the drives of controllers that it is to run; then the owner has these
/// back. Hosts wait meanwhile.
pub const CLAIM_MAX: Duration = Duration::from_secs(15);
/// The owner waits so long for a node that says neither that it runs them nor that it cannot: it may be
/// within an attempt that takes longer than that is to.
pub const BEGIN_MAX: Duration = Duration::from_secs(30);
/// The owner keeps other changes of the array waiting for so long while controllers begin elsewhere.
pub const CHANGES_WAIT: Duration = Duration::from_secs(1);
const _: () = assert!(CHANGES_WAIT.as_millis() < CLAIM_MAX.as_millis());
const _: () = assert!(CLAIM_MAX.as_millis() < BEGIN_MAX.as_millis());

/// The pauses of nodes, by their number. `D`: what the drives of controllers are.
pub struct Pauses<D>(BTreeMap<u16, (Instant, Option<D>)>);

impl<D> Default for Pauses<D> {
    fn default() -> Pauses<D> {
        Pauses(BTreeMap::new())
    }
}

impl<D: PartialEq> Pauses<D> {
    /// The node is gone, or its controllers stay where they are for now.
    pub fn lost(&mut self, node: u16, now: Instant) {
        let until = now + AFTER_LOSS;
        // What it refused before, it does not get the sooner.
        let pause = self.0.entry(node).or_insert((until, None));
        if pause.0 < until {
            *pause = (until, None);
        }
    }

    /// The node could not claim these drives.
    pub fn refused(&mut self, node: u16, drives: D, now: Instant) {
        self.0.insert(node, (now + AFTER_REFUSAL, Some(drives)));
    }

    /// Whether the node may get controllers with these drives now.
    pub fn may_get(&self, node: u16, drives: &D, now: Instant) -> bool {
        self.0.get(&node).is_none_or(|(until, refused)| {
            now >= *until || refused.as_ref().is_some_and(|refused| refused != drives)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Instant {
        Instant(secs * 1_000_000_000)
    }

    #[test]
    fn a_node_that_refused_waits_a_minute_or_for_other_drives() {
        let mut pauses = Pauses::default();
        assert!(pauses.may_get(1, &"d1", at(0)));
        pauses.refused(1, "d1", at(10));
        assert!(!pauses.may_get(1, &"d1", at(69)) && pauses.may_get(1, &"d1", at(70)));
        assert!(pauses.may_get(1, &"d2", at(11)), "its drives are others now");
        assert!(pauses.may_get(2, &"d1", at(11)), "another node");
    }

    #[test]
    fn a_node_that_was_lost_waits_for_seconds_and_not_less_for_what_it_refused() {
        let mut pauses = Pauses::default();
        pauses.lost(1, at(10));
        assert!(!pauses.may_get(1, &"d1", at(14)) && pauses.may_get(1, &"d1", at(15)));
        assert!(!pauses.may_get(1, &"d2", at(14)), "whatever its drives are");
        pauses.refused(1, "d1", at(20));
        pauses.lost(1, at(30));
        assert!(!pauses.may_get(1, &"d1", at(79)) && pauses.may_get(1, &"d1", at(80)));
        pauses.lost(1, at(78));
        assert!(!pauses.may_get(1, &"d2", at(82)) && pauses.may_get(1, &"d1", at(83)));
    }
}
