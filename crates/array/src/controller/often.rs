//! Keeps events that hosts cause from filling what is kept: of equal ones a few are told, with how many there were, and of all of them
//! no more than what leaves room for everything else.

use std::collections::BTreeMap;
use std::time::Duration;

use world::Instant;

use crate::event::Event;

/// An event that comes again is told again after this time at the earliest, and after twice that each time it does, until it was not
/// there for as long as the longest pause.
const PAUSE_MIN: Duration = Duration::from_secs(10);
const PAUSE_MAX: Duration = Duration::from_secs(3600);
/// Kinds that are remembered: more than hosts that misbehave at the same time.
const KINDS_MAX: usize = 4096;
/// Told at once at most: what a large site does when its power comes back.
const BURST: u64 = 4096;
/// Beyond that, one in this time for the whole array. In the 30 days that events are kept these are 21,600; with the burst, from declared
/// hosts and from strangers together, 51,392 of 100,000 events.
const REFILL: Duration = Duration::from_secs(120);

/// What was told of what one class of peers causes.
pub(crate) struct Often {
    told: BTreeMap<(String, String), Told>,
    /// What may be told now, and until when that was reckoned.
    budget: u64,
    reckoned: Instant,
    refill: Duration,
    /// Left out because there were too many.
    left_out: u64,
}

/// One kind of event.
struct Told {
    at: Instant,
    pause: Duration,
    /// How often it came since.
    more: u64,
}

impl Often {
    /// For one of so many controllers: they share what may be told.
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

    /// The event, if it is its time.
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
                event.text = format!("{} ({} more times since this was told last)", event.text, told.more);
            }
        }
        if !self.take(now) {
            self.left_out += 1;
            return None;
        }
        if self.left_out > 0 {
            let left_out = std::mem::take(&mut self.left_out);
            event.text =
                format!("{}; {left_out} events of hosts before it were too many to be told", event.text);
        }
        if self.told.len() >= KINDS_MAX {
            self.told.retain(|_, told| now < told.at + PAUSE_MAX);
        }
        // Too many kinds at once: then a kind is told each time that it is new.
        if self.told.len() >= KINDS_MAX {
            self.told.pop_first();
        }
        self.told.insert(key, Told { at: now, pause, more: 0 });
        Some(event)
    }

    /// Takes one of what may be told.
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
        assert_eq!(told[..2], ["logged in", "logged in (166 more times since this was told last)"]);
        assert!((24..40).contains(&told.len()), "{}", told.len());
        // As often as it is told, for a month: the pauses grow.
        let mut often = Often::new(1);
        let mut told = 0;
        for ms in (0..30 * DAY.as_millis() as u64).step_by(11_000) {
            told += usize::from(often.admit(Event::info("host h", "logged in"), at(ms)).is_some());
        }
        assert!(told < 1000, "{told}");
        // After hours of silence it is news again.
        let (before, after) = (31 * DAY.as_millis() as u64, 31 * DAY.as_millis() as u64 + 10_500);
        assert!(often.admit(Event::info("host h", "logged in"), at(before)).is_some());
        assert!(often.admit(Event::info("host h", "logged in"), at(after)).is_some());
    }

    #[test]
    fn names_that_are_made_up_leave_room_in_what_is_kept() {
        for controllers in [1, 8] {
            let mut often: Vec<Often> = (0..controllers).map(|_| Often::new(controllers)).collect();
            let mut told = 0;
            // A new name each second, for a month.
            for s in 0..30 * DAY.as_secs() {
                let event = Event::warning(format!("initiator {s}"), "refused");
                let one = &mut often[s as usize % controllers];
                told += usize::from(one.admit(event, at(1000 * s)).is_some());
                assert!(one.told.len() <= KINDS_MAX);
            }
            assert!((20_000..27_000).contains(&told), "{told} with {controllers} controllers");
        }
        let mut often = Often::new(1);
        (0..BURST + 7)
            .for_each(|n| drop(often.admit(Event::warning(format!("initiator {n}"), "refused"), at(0))));
        let next =
            often.admit(Event::warning("initiator x", "refused"), at(120_000)).expect("its time has come");
        assert_eq!(next.text, "refused; 7 events of hosts before it were too many to be told");
    }
}
