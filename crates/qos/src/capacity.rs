//! What the array has been seen to do.

use crate::tag::SECOND_NS;

/// In such a part of a window somebody has to wait for the array, for the window to show what it can do.
const SATURATED_PERCENT: u64 = 90;

/// What the array has been seen to do, in units per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Units per second; 0 when nothing was done yet.
    pub units_per_s: u64,
    /// Whether somebody waited all along, so that it was all that the array could do; otherwise it was never asked for more.
    pub saturated: bool,
}

/// Counts what is served.
#[derive(Default)]
pub(crate) struct Meter {
    last: u64,
    /// Whether somebody could be served and is not, since `last`.
    pub(crate) blocked: bool,
    blocked_ns: u64,
    pub(crate) served_bytes: u64,
    pub(crate) seen: Capacity,
}

impl Meter {
    pub(crate) fn elapse(&mut self, now: u64) {
        if self.blocked {
            self.blocked_ns += now.saturating_sub(self.last);
        }
        self.last = now;
    }

    /// A window has ended: one in which somebody waited says what the array can do, by a quarter; others at least what it did.
    pub(crate) fn close(&mut self, passed_ns: u64, unit_bytes: u64) {
        let served = u128::from(self.served_bytes) * u128::from(SECOND_NS) / u128::from(passed_ns);
        let units_per_s = (served / u128::from(unit_bytes)) as u64;
        let saturated = self.blocked_ns >= passed_ns / 100 * SATURATED_PERCENT;
        self.seen = match (self.seen.saturated, saturated) {
            (true, true) => {
                Capacity { units_per_s: (self.seen.units_per_s * 3 + units_per_s) / 4, saturated: true }
            }
            (true, false) => self.seen,
            (false, true) => Capacity { units_per_s, saturated: true },
            (false, false) => {
                Capacity { units_per_s: self.seen.units_per_s.max(units_per_s), saturated: false }
            }
        };
        (self.served_bytes, self.blocked_ns) = (0, 0);
    }
}
