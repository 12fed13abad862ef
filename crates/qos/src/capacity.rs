//! Measures the capacity of the array.

use crate::tag::SECOND_NS;

/// A window shows the capacity if some request waited for the array for this part of it.
const SATURATED_PERCENT: u64 = 90;

/// Measured capacity, in units per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Units per second; 0 before any work.
    pub units_per_s: u64,
    /// Whether a request waited all the time, so that the value is the capacity; otherwise it is a lower
    /// bound.
    pub saturated: bool,
}

/// Counts served work.
#[derive(Default)]
pub(crate) struct Meter {
    last: u64,
    /// Whether a request could be served and is not, since `last`.
    pub(crate) blocked: bool,
    blocked_ns: u64,
    /// Time in which a request waited for a slot, in total.
    pub(crate) waited_ns: u64,
    served_bytes: u64,
    /// Since the scheduler began.
    pub(crate) served_total_bytes: u64,
    pub(crate) seen: Capacity,
}

/// What was told last of the work of a scheduler.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) since: u64,
    pub(crate) waited_ns: u64,
    pub(crate) served_bytes: u64,
}

impl Meter {
    /// Records work that was served.
    pub(crate) fn serve(&mut self, bytes: u64) {
        self.served_bytes += bytes;
        self.served_total_bytes = self.served_total_bytes.saturating_add(bytes);
    }

    pub(crate) fn elapse(&mut self, now: u64) {
        if self.blocked {
            self.blocked_ns += now.saturating_sub(self.last);
            self.waited_ns += now.saturating_sub(self.last);
        }
        self.last = now;
    }

    /// Whether a request waited nearly all the time since the window began.
    pub(crate) fn is_full(&self, passed_ns: u64) -> bool {
        self.blocked_ns >= passed_ns / 100 * SATURATED_PERCENT
    }

    /// Ends a window. A window with waiting requests changes the capacity by a quarter of the difference; any
    /// other is a lower bound.
    pub(crate) fn close(&mut self, passed_ns: u64, unit_bytes: u64) {
        let served = u128::from(self.served_bytes) * u128::from(SECOND_NS) / u128::from(passed_ns);
        let units_per_s = (served / u128::from(unit_bytes)) as u64;
        let saturated = self.is_full(passed_ns);
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
