//! Clocks of different machines, as NTP compares them: four moments of an exchange give the offset and how
//! far it may be wrong. Pure.

/// An exchange: asked here, received and answered there, heard here. Nanoseconds, each by its own clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Exchange {
    pub(super) asked: u64,
    pub(super) received: u64,
    pub(super) answered: u64,
    pub(super) heard: u64,
}

/// What a clock there is ahead of the clock here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Offset {
    /// When that was, by the clock here.
    pub(super) at_ns: u64,
    pub(super) ahead_ns: i64,
    /// At most so far wrong: half of what the way took.
    pub(super) error_ns: u64,
}

impl Exchange {
    /// `None`: times that went back.
    fn offset(&self) -> Option<Offset> {
        let way =
            self.heard.checked_sub(self.asked)?.checked_sub(self.answered.checked_sub(self.received)?)?;
        let there = i128::from(self.received) + i128::from(self.answered);
        let here = i128::from(self.asked) + i128::from(self.heard);
        let ahead_ns = i64::try_from((there - here) / 2).ok()?;
        Some(Offset { at_ns: self.heard, ahead_ns, error_ns: way.div_ceil(2) })
    }
}

/// Of several exchanges the one with the shortest way: it was held up least.
pub(super) fn offset(exchanges: &[Exchange]) -> Option<Offset> {
    exchanges.iter().filter_map(Exchange::offset).min_by_key(|offset| offset.error_ns)
}

/// A moment here, by the clock there.
pub(super) fn there(at_ns: u64, offset: &Offset) -> u64 {
    at_ns.saturating_add_signed(offset.ahead_ns)
}

/// A moment there, by the clock here; between two comparisons on a line, for clocks do not run alike.
pub(super) fn here(at_ns: u64, before: &Offset, after: &Offset) -> u64 {
    let by = |ahead: i64| at_ns.saturating_add_signed(ahead.saturating_neg());
    let passed = after.at_ns.saturating_sub(before.at_ns);
    if passed == 0 {
        return by(before.ahead_ns);
    }
    let share = by(before.ahead_ns).saturating_sub(before.at_ns) as f64 / passed as f64;
    let drift = after.ahead_ns.saturating_sub(before.ahead_ns) as f64 * share.min(1.0);
    by(before.ahead_ns.saturating_add(drift as i64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_is_within_half_of_the_way() {
        // There it is 1000 later; the ways take 30 and 10.
        let slow = Exchange { asked: 0, received: 1030, answered: 1035, heard: 45 };
        let quick = Exchange { asked: 100, received: 1102, answered: 1103, heard: 105 };
        let found = offset(&[slow, quick]).expect("one");
        assert_eq!((found.ahead_ns, found.error_ns), (1000, 2));
        assert!(
            (slow.offset().expect("one").ahead_ns - 1000).unsigned_abs()
                <= slow.offset().expect("one").error_ns
        );
        assert_eq!(there(500, &found), 1500);
        // What an agent may say, too.
        let wrong = Exchange { asked: 5, received: u64::MAX, answered: 0, heard: 7 };
        assert_eq!(offset(&[wrong]), None);
        let far = Exchange { asked: 5, received: u64::MAX, answered: u64::MAX, heard: 7 };
        assert_eq!(offset(&[far]), None);
    }

    #[test]
    fn a_clock_that_runs_faster_is_corrected_on_a_line() {
        let before = Offset { at_ns: 0, ahead_ns: 100, error_ns: 1 };
        let after = Offset { at_ns: 1000, ahead_ns: 110, error_ns: 1 };
        assert_eq!(here(100, &before, &after), 0);
        assert_eq!(here(605, &before, &after), 500);
        assert_eq!(here(50, &before, &before), 0);
    }
}
