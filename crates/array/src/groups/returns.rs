//! Detection of flapping drives: counts the returns of drives that were unresponsive.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use world::Instant;

/// A drive that returns this often in this time stays out: each return costs the group a rebuild and the
/// hosts a delay.
pub(crate) const RETURNS_MAX: usize = 3;
pub(crate) const RETURNS_IN: Duration = Duration::from_secs(600);

/// The latest returns of a group's drives, by position.
#[derive(Default)]
pub(crate) struct Returns(BTreeMap<u32, VecDeque<Instant>>);

impl Returns {
    /// Records a return.
    pub(crate) fn note(&mut self, position: u32, now: Instant) {
        let times = self.0.entry(position).or_default();
        times.push_back(now);
        if times.len() > RETURNS_MAX {
            times.pop_front();
        }
    }

    /// Whether the drive is flapping.
    pub(crate) fn is_flapping(&self, position: u32, now: Instant) -> bool {
        let recent = |times: &VecDeque<Instant>| times.iter().filter(|t| now - **t < RETURNS_IN).count();
        self.0.get(&position).is_some_and(|times| recent(times) >= RETURNS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drive_flaps_when_it_came_back_three_times_in_ten_minutes() {
        let (mut returns, minute) = (Returns::default(), Duration::from_secs(60));
        let at = |minutes: u32| Instant::default() + minutes * minute;
        for minutes in [0, 6, 9] {
            assert!(!returns.is_flapping(1, at(minutes)));
            returns.note(1, at(minutes));
        }
        assert!(returns.is_flapping(1, at(9)) && !returns.is_flapping(0, at(9)));
        assert!(!returns.is_flapping(1, at(10)), "the first return is ten minutes ago");
        returns.note(1, at(11));
        assert!(returns.is_flapping(1, at(12)));
    }
}
