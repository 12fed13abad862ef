//! Rate limit for events that hosts cause. Equal events are reported a few times with their count, and all of
//! them together leave room in the event log for everything else.

use std::collections::BTreeMap;
use std::time::Duration;

use world::Instant;

use crate::event::Event;

/// A repeated event is reported again after this time at the earliest, and each time after twice the previous
/// pause, until it was absent for the longest pause.
const PAUSE_MIN: Duration = Duration::from_secs(10);
const PAUSE_MAX: Duration = Duration::from_secs(3600);
/// Kinds of events that are remembered: more than hosts that misbehave at the same time.
const KINDS_MAX: usize = 4096;
/// Events that may be reported at once: a large site after a power failure.
const BURST: u64 = 4096;
/// Beyond the burst, one event in this time for the whole array. In the 30 days that events are kept these
/// are 21,600; with the burst, from declared hosts and undeclared initiators together, 51,392 of 100,000
/// events.
const REFILL: Duration = Duration::from_secs(120);

/// The rate limit of one class of peers.
pub(crate) struct Often {
    told: BTreeMap<(String, String), Told>,
    /// Events that may be reported now, and the time of that calculation.
    budget: u64,
    reckoned: Instant,
    refill: Duration,
    /// Events dropped by the rate limit.
    left_out: u64,
}

/// The state of one kind of event.
struct Told {
    at: Instant,
    pause: Duration,
    /// Occurrences since the last report.
    more: u64,
}

impl Often {
    /// The limit of one of `controllers` controllers, which share it.
    pub(crate) fn new(controllers: usize) -> Often {
        let controllers = controllers.max(1) as u32;
        Often {
            told: BTreeMap::new(),
            budget: BURST / u64::from(controllers),
            reckoned: Instant::default(),
            refill: REFILL * controllers,
            left_out: 0,
        }
    }

    /// Returns the event if it may be reported now.
    pub(crate) fn admit(&mut self, mut event: Event, now: Instant) -> Option<Event> {
        let key = (event.object.clone(), event.text.clone());
        let mut pause = PAUSE_MIN;
        if let Some(told) = self.told.get_mut(&key) {
            if now < told.at + told.pause {
                told.more += 1;
                return None;
            }
            if now < told.at + PAUSE_MAX.max(told.pause * 2) {
                pause = (told.pause * 2).min(PAUSE_MAX);
            }
            if told.more > 0 {
                event.text = format!("{} ({} more times since the last report)", event.text, told.more);
            }
        }
        if !self.take(now) {
            self.left_out += 1;
            return None;
        }
        if self.left_out > 0 {
            let left_out = std::mem::take(&mut self.left_out);
            event.text =
                format!("{}; {left_out} earlier host events were dropped by the rate limit", event.text);
        }
        if self.told.len() >= KINDS_MAX {
            self.told.retain(|_, told| now < told.at + PAUSE_MAX);
        }
        // Too many kinds at once: a kind is then reported each time that it is new.
        if self.told.len() >= KINDS_MAX {
            self.told.pop_first();
        }
        self.told.insert(key, Told { at: now, pause, more: 0 });
        Some(event)
    }

    /// Takes one event from the budget.
    fn take(&mut self, now: Instant) -> bool {
        let refilled = (now - self.reckoned).as_nanos() / self.refill.as_nanos();
        if refilled > 0 {
            let refilled = u32::try_from(refilled).unwrap_or(u32::MAX);
            self.budget = self.budget.saturating_add(refilled.into()).min(BURST);
            self.reckoned = self.reckoned + self.refill * refilled;
        }
        let taken = self.budget.checked_sub(1);
        self.budget = taken.unwrap_or(0);
        taken.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn at(ms: u64) -> Instant {
        Instant::default() + Duration::from_millis(ms)
    }

    #[test]
    fn what_a_host_causes_again_and_again_is_told_a_few_times_with_its_number() {
        let mut often = Often::new(1);
        let mut told = Vec::new();
        // 1,000 logins a minute, for a day.
        for ms in (0..DAY.as_millis() as u64).step_by(60) {
            let event = Event::info("host h", "logged in");
            told.extend(often.admit(event, at(ms)).map(|e| e.text));
        }
        assert_eq!(told[..2], ["logged in", "logged in (166 more times since the last report)"]);
        assert!((24..40).contains(&told.len()), "{}", told.len());
        // At the rate of the reports, for a month: the pauses grow.
        let mut often = Often::new(1);
        let mut told = 0;
        for ms in (0..30 * DAY.as_millis() as u64).step_by(11_000) {
            told += usize::from(often.admit(Event::info("host h", "logged in"), at(ms)).is_some());
        }
        assert!(told < 1000, "{told}");
        // After hours without it, it is reported at once.
        let (before, after) = (31 * DAY.as_millis() as u64, 31 * DAY.as_millis() as u64 + 10_500);
        assert!(often.admit(Event::info("host h", "logged in"), at(before)).is_some());
        assert!(often.admit(Event::info("host h", "logged in"), at(after)).is_some());
    }

    #[test]
    fn names_that_are_made_up_leave_room_in_what_is_kept() {
        for controllers in [1, 8] {
            let mut often: Vec<Often> = (0..controllers).map(|_| Often::new(controllers)).collect();
            let mut told = 0;
            // A new name every ten seconds, for a month.
            for n in 0..30 * DAY.as_secs() / 10 {
                let event = Event::warning(format!("initiator {n}"), "refused");
                let one = &mut often[n as usize % controllers];
                told += usize::from(one.admit(event, at(10_000 * n)).is_some());
                assert!(one.told.len() <= KINDS_MAX);
            }
            assert!((20_000..27_000).contains(&told), "{told} with {controllers} controllers");
        }
        let mut often = Often::new(1);
        (0..BURST + 7)
            .for_each(|n| drop(often.admit(Event::warning(format!("initiator {n}"), "refused"), at(0))));
        let next =
            often.admit(Event::warning("initiator x", "refused"), at(120_000)).expect("its time has come");
        assert_eq!(next.text, "refused; 7 earlier host events were dropped by the rate limit");
    }
}
