//! Refused logins: initiator, count and reason, while they are trouble.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use world::Instant;

/// This number of refusals within [`WINDOW`] is trouble; one wrong password is not.
const REPEATED: usize = 3;
const WINDOW: Duration = Duration::from_secs(15 * 60);
/// Undeclared initiators that are remembered: names are easily invented.
const STRANGERS_MAX: usize = 64;

/// Recent refusals, by the object of the event.
#[derive(Default)]
pub(crate) struct Refusals(BTreeMap<String, Refused>);

struct Refused {
    is_host: bool,
    /// The latest refusals.
    times: VecDeque<Instant>,
    /// All refusals since a pause as long as the window.
    count: u64,
    /// Class and detail of the last response, if one was sent.
    status: Option<(u8, u8)>,
    why: String,
}

impl Refusals {
    pub(crate) fn add(
        &mut self,
        object: &str,
        is_host: bool,
        (status, why): (Option<(u8, u8)>, String),
        now: Instant,
    ) {
        self.0.retain(|_, refused| refused.is_recent(now));
        let strangers = self.0.values().filter(|r| !r.is_host).count();
        if !is_host && strangers >= STRANGERS_MAX && !self.0.contains_key(object) {
            self.forget_a_stranger();
        }
        let new = || Refused { is_host, times: VecDeque::new(), count: 0, status, why: String::new() };
        let refused = self.0.entry(object.to_owned()).or_insert_with(new);
        refused.times.push_back(now);
        if refused.times.len() > REPEATED {
            refused.times.pop_front();
        }
        refused.count += 1;
        (refused.status, refused.why) = (status, why);
    }

    /// Removes the undeclared initiator whose last attempt is the oldest.
    fn forget_a_stranger(&mut self) {
        let strangers = self.0.iter().filter(|(_, r)| !r.is_host);
        let oldest = strangers.min_by_key(|(_, r)| r.times.back().copied()).map(|(object, _)| object.clone());
        oldest.into_iter().for_each(|object| drop(self.0.remove(&object)));
    }

    /// The initiators that were refused repeatedly.
    pub(crate) fn status(&self, now: Instant) -> Vec<status::Refusals> {
        let repeated = |r: &Refused| {
            r.times.len() == REPEATED && r.times.front().is_some_and(|first| now < *first + WINDOW)
        };
        let status = |(object, r): (&String, &Refused)| status::Refusals {
            object: object.clone(),
            is_host: r.is_host,
            logins: r.count,
            login_status: r.status.map(|(class, detail)| u16::from_be_bytes([class, detail])),
            text: r.why.clone(),
        };
        self.0.iter().filter(|(_, r)| repeated(r)).map(status).collect()
    }
}

impl Refused {
    fn is_recent(&self, now: Instant) -> bool {
        self.times.back().is_some_and(|last| now < *last + WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Instant {
        Instant::default() + Duration::from_secs(s)
    }

    #[test]
    fn who_is_refused_repeatedly_within_the_window_is_trouble() {
        let mut refusals = Refusals::default();
        let mut counts = |s: u64, add: bool| {
            if add {
                refusals.add("host h", true, (None, format!("why {s}")), at(s));
            }
            refusals.status(at(s)).into_iter().map(|r| (r.logins, r.text)).collect::<Vec<_>>()
        };
        assert_eq!(counts(0, true), []);
        assert_eq!(counts(10, true), []);
        assert_eq!(counts(20, true), [(3, "why 20".to_owned())]);
        assert_eq!(counts(899, false).len(), 1);
        assert_eq!(counts(900, false), []);
        // Occasional refusals are no trouble, however long they continue.
        for s in [1000, 1500, 2000, 2500, 3000] {
            assert_eq!(counts(s, true), [], "at {s}");
        }
    }

    #[test]
    fn strangers_are_bounded_and_push_out_no_host() {
        let mut refusals = Refusals::default();
        for name in 0..2 * STRANGERS_MAX {
            (0..3).for_each(|_| refusals.add("host h", true, (None, String::new()), at(name as u64)));
            let object = format!("initiator {name}");
            (0..3).for_each(|_| refusals.add(&object, false, (None, String::new()), at(name as u64)));
        }
        let all = refusals.status(at(128));
        assert_eq!(all.len(), STRANGERS_MAX + 1);
        assert!(all.iter().any(|r| r.is_host && r.logins == 6 * STRANGERS_MAX as u64));
        assert!(all.iter().all(|r| r.object != "initiator 0"), "the oldest went");
    }
}
