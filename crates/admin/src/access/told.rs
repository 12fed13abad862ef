//! Which refusals become events: a flood of them must not push out others.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Refusals of one source are told once in so long.
const WINDOW: Duration = Duration::from_secs(60);
/// So many sources are told apart within a window. The refusals of others are only counted.
const SOURCES_MAX: usize = 16;

/// The refusals of the current window.
#[derive(Debug, Default)]
pub(super) struct Told {
    began: Option<Instant>,
    sources: BTreeSet<String>,
    untold: u64,
}

impl Told {
    /// Counts a refusal. `Some` if it is to be told, with the number of those that were not told since the
    /// last event.
    pub(super) fn add(&mut self, source: &str, now: Instant) -> Option<u64> {
        if self.began.is_none_or(|began| now.duration_since(began) >= WINDOW) {
            self.began = Some(now);
            self.sources.clear();
        }
        if self.sources.len() < SOURCES_MAX && self.sources.insert(source.to_owned()) {
            return Some(std::mem::take(&mut self.untold));
        }
        self.untold += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_a_source_are_told_once_a_window_and_counted() {
        let (mut told, start) = (Told::default(), Instant::now());
        assert_eq!(told.add("1", start), Some(0));
        assert_eq!(told.add("1", start + WINDOW / 2), None);
        assert_eq!(told.add("2", start + WINDOW / 2), Some(1));
        assert_eq!(told.add("2", start + WINDOW / 2), None);
        assert_eq!(told.add("1", start + WINDOW), Some(1));
    }

    #[test]
    fn refusals_from_many_sources_are_a_bounded_number_of_events() {
        let (mut told, now) = (Told::default(), Instant::now());
        let events = (0..10_000).filter(|n| told.add(&n.to_string(), now).is_some()).count();
        assert_eq!(events, SOURCES_MAX);
        assert_eq!(told.add("1", now + WINDOW), Some(10_000 - SOURCES_MAX as u64));
    }
}
