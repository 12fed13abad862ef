//! How long a node may run controllers without hearing from the owner.
//!
//! The node asks; the owner answers how long it grants from its answer on. The node counts from when it
//! asked, so its term ends before the owner's count of it, whatever the answer took; the owner waits longer
//! by what clocks differ.

use std::collections::BTreeMap;
use std::time::Duration;

use world::Instant;

use crate::DRIFT_PERCENT_MAX;

/// How often a node asks.
pub const EVERY: Duration = Duration::from_millis(500);
/// The longest term: the owner's own term is not longer.
const TERM_MAX: Duration = Duration::from_secs(4);
/// A peer that has said nothing for so long is gone: its connection ends, and what is on its way with it.
pub const SILENT_MAX: Duration = Duration::from_millis(2500);
/// Terms that were asked for and are not answered.
const ASKED_MAX: usize = 16;
const _: () = assert!(SILENT_MAX.as_millis() < TERM_MAX.as_millis());

/// What the owner grants now, whose own term ends at `own_until`.
pub fn grant(now: Instant, own_until: Instant) -> Duration {
    let left = Duration::from_nanos(own_until.0.saturating_sub(now.0));
    left.min(TERM_MAX)
}

/// The end of a term that was asked for at this time, at the node.
fn end(asked: Instant, granted: Duration) -> Instant {
    asked + granted
}

/// The terms that a node has asked its owner for, by the node's clock.
#[derive(Default)]
pub struct Terms {
    asked: BTreeMap<u64, Instant>,
    count: u64,
    until: Option<Instant>,
}

impl Terms {
    /// Asks for one: the number of the question.
    pub fn ask(&mut self, now: Instant) -> u64 {
        if self.asked.len() == ASKED_MAX {
            self.asked.pop_first();
        }
        self.count += 1;
        self.asked.insert(self.count, now);
        self.count
    }

    /// The owner has answered the question of this number. What nobody asked grants nothing.
    pub fn granted(&mut self, number: u64, granted: Duration) {
        let until = self.asked.remove(&number).map(|asked| end(asked, granted));
        self.until = self.until.max(until);
    }

    /// The end of the longest term; none: it had none yet.
    pub fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Whether the node may serve now.
    pub fn holds(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

/// When the owner may take for granted that the node's term has ended, which it granted then: with clocks
/// that differ by twice what one may be off.
pub fn over(granted_at: Instant, granted: Duration) -> Instant {
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

    #[test]
    fn a_term_counts_from_its_question_and_a_late_short_one_shortens_nothing() {
        let (mut terms, ms) = (Terms::default(), Duration::from_millis);
        assert!(!terms.holds(at(0)));
        let (first, second) = (terms.ask(at(0)), terms.ask(at(500)));
        terms.granted(second, ms(4000));
        terms.granted(first, ms(4000));
        assert!(terms.holds(at(4499)) && !terms.holds(at(4500)));
        // Answered already, or never asked.
        terms.granted(second, ms(9000));
        terms.granted(99, ms(9000));
        assert_eq!(terms.until(), Some(at(4500)));
    }

    #[test]
    fn a_node_that_hears_nothing_keeps_few_questions() {
        let mut terms = Terms::default();
        let numbers: Vec<u64> = (0..100).map(|n| terms.ask(at(n))).collect();
        assert_eq!(terms.asked.len(), ASKED_MAX);
        terms.granted(numbers[0], Duration::from_secs(4));
        assert_eq!(terms.until(), None);
    }
}
