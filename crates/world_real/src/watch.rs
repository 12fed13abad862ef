//! Polling before a sleep: how long, and when it pays.
//!
//! Sleeping and being woken costs this thread and the waker more than a batch of small commands (20 to 25 us
//! in a virtual machine, where the wake is an interrupt between CPUs). If the last sleep was short, the
//! thread first polls the ring's memory for a moment, without a system call or an interrupt. It never polls
//! longer than it could save, so that a wait costs at most twice as much; after unsuccessful polls the next
//! waits skip it, twice as many each time. An idle world sleeps and does not poll.

use std::time::Duration;

/// The longest watch: what a sleep and a wake cost (measured, see docs/decisions/0001-worlds.md).
pub(crate) const WATCH_TIME_MAX: Duration = Duration::from_micros(20);
/// A sleep this short would have been spared, its own cost taken off, by a watch.
const SHORT_SLEEP_MAX: Duration = Duration::from_micros(50);
/// After this many watches in vain in a row, one wait in 2^10 is watched.
const VAIN_MAX: u32 = 10;

/// Whether the next wait begins with a watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Watch {
    last_sleep_was_short: bool,
    /// Watches in vain in a row.
    vain: u32,
    /// Waits to come that are not watched.
    skip: u32,
}

impl Watch {
    /// Whether this wait begins with a watch.
    pub(crate) fn is_due(self) -> bool {
        self.last_sleep_was_short && self.skip == 0
    }

    /// A watch ended, with or without something seen.
    pub(crate) fn ended(self, seen: bool) -> Watch {
        if seen {
            return Watch { vain: 0, ..self };
        }
        let vain = (self.vain + 1).min(VAIN_MAX);
        Watch { vain, skip: 1 << vain, ..self }
    }

    /// A sleep took this long.
    pub(crate) fn slept(self, time: Duration) -> Watch {
        Watch { last_sleep_was_short: time <= SHORT_SLEEP_MAX, skip: self.skip.saturating_sub(1), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_micros(10);
    const LONG: Duration = Duration::from_millis(1);

    #[test]
    fn watches_follow_short_sleeps_and_give_up_when_in_vain() {
        let idle = Watch::default().slept(LONG);
        assert!(!idle.is_due());
        let mut watch = idle.slept(SHORT);
        assert!(watch.is_due() && watch.ended(true).is_due());
        // 1,000 waits whose watches see nothing: a handful of watches.
        let mut watched = 0;
        for _ in 0..1000 {
            if watch.is_due() {
                watched += 1;
                watch = watch.ended(false);
            }
            watch = watch.slept(SHORT);
        }
        assert!((5..=10).contains(&watched), "{watched} watches");
    }
}
