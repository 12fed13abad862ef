//! Lines of the log about what happens again and again: one in a while is said.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A line is said again after this time.
const AGAIN: Duration = Duration::from_secs(60);

/// Something that others can cause as often as they like.
#[derive(Default)]
pub(super) struct Repeated(Mutex<(Option<Instant>, u64)>);

impl Repeated {
    /// Says it, or only counts it.
    pub(super) fn warn(&self, text: &str) {
        if let Some(unsaid) = self.says(Instant::now()) {
            let more =
                if unsaid > 0 { format!(" ({unsaid} like it were not logged)") } else { String::new() };
            tracing::warn!("{text}{more}");
        }
    }

    /// Some if it is to be said now, with the number of those before that were not.
    fn says(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.0.is_some_and(|said| now - said < AGAIN) {
            state.1 += 1;
            return None;
        }
        state.0 = Some(now);
        Some(std::mem::take(&mut state.1))
    }
}

/// Something that may fail for a while.
pub(super) struct Lasting {
    time: Duration,
    since: Option<Instant>,
    said: Option<Instant>,
}

impl Lasting {
    /// It is said when it has failed for so long.
    pub(super) fn new(time: Duration) -> Lasting {
        Lasting { time, since: None, said: None }
    }

    /// It goes well now.
    pub(super) fn is_over(&mut self) {
        self.since = None;
    }

    /// It fails now.
    pub(super) fn lasts(&mut self, text: impl FnOnce() -> String) {
        if self.fails(Instant::now()) {
            tracing::warn!("{}", text());
        }
    }

    /// Whether to say so.
    fn fails(&mut self, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        let says = now - since >= self.time && self.said.is_none_or(|said| now - said >= AGAIN);
        if says {
            self.said = Some(now);
        }
        says
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_repeat_is_said_once_a_minute_with_the_number_of_the_rest() {
        let (begun, repeated) = (Instant::now(), Repeated::default());
        let at = |s: u64| begun + Duration::from_secs(s);
        let says: Vec<_> = [0, 1, 59, 60, 61].map(|s| repeated.says(at(s))).into();
        assert_eq!(says, [Some(0), None, None, Some(2), None]);
    }

    #[test]
    fn a_failure_is_said_when_it_lasts() {
        let (begun, mut lasting) = (Instant::now(), Lasting::new(Duration::from_secs(10)));
        let at = |s: u64| begun + Duration::from_secs(s);
        let says: Vec<_> = [0, 9, 10, 11, 69, 70].map(|s| lasting.fails(at(s))).into();
        assert_eq!(says, [false, false, true, false, false, true]);
        lasting.is_over();
        assert!(!lasting.fails(at(200)), "another one");
    }
}
