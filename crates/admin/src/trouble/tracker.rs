//! Since when something is wrong, and the events of what begins and what ends.

use std::collections::BTreeMap;

use array::{Event, Severity};
use status::Trouble;

/// Remembers since when something is wrong, and tells what begins and what ends.
#[derive(Default)]
pub(crate) struct Tracker {
    since_ms: BTreeMap<(String, String), (u64, Trouble)>,
}

impl Tracker {
    /// Puts to each trouble since when it is there; gives the events of what began and ended.
    pub(crate) fn track(&mut self, all: &mut [Trouble], now_ms: u64) -> Vec<Event> {
        let mut events = Vec::new();
        let key = |t: &Trouble| (t.object.clone(), t.kind.clone());
        let mut next = BTreeMap::new();
        for trouble in all.iter_mut() {
            let before = self.since_ms.get(&key(trouble));
            trouble.since_ms = before.map_or(now_ms, |(since, _)| *since);
            if before.is_none_or(|(_, before)| before.severity != trouble.severity) {
                let severity = if trouble.severity == "error" { Severity::Error } else { Severity::Warning };
                events.push(Event::new(severity, &trouble.object, format!("trouble: {}", trouble.text)));
            }
            next.insert(key(trouble), (trouble.since_ms, trouble.clone()));
        }
        let over = self.since_ms.iter().filter(|(key, _)| !next.contains_key(*key));
        for (_, (_, trouble)) in over {
            events.push(Event::info(&trouble.object, format!("trouble is over: {}", trouble.text)));
        }
        self.since_ms = next;
        events
    }

    /// The same without telling: for a status that is asked for between two looks.
    pub(crate) fn date(&self, all: &mut [Trouble], now_ms: u64) {
        for trouble in all {
            let known = self.since_ms.get(&(trouble.object.clone(), trouble.kind.clone()));
            trouble.since_ms = known.map_or(now_ms, |(since, _)| *since);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::group;
    use super::super::trouble_of;
    use super::*;
    use status::{Progress, Status};

    #[test]
    fn trouble_is_told_once_when_it_begins_and_once_when_it_ends() {
        let mut tracker = Tracker::default();
        let mut at = |status: &Status, now_ms| {
            let mut all = trouble_of(status);
            let events = tracker.track(&mut all, now_ms);
            (events.iter().map(ToString::to_string).collect::<Vec<_>>(), all.first().map(|t| t.since_ms))
        };
        let (events, since) = at(&group("degraded", None, 0), 1000);
        assert!(events.len() == 1 && events[0].starts_with("group g0: trouble: degraded"), "{events:?}");
        assert_eq!(since, Some(1000));
        // Its rebuild makes progress: it is the same trouble.
        let progress = Progress { done_bytes: 43, total_bytes: 100 };
        assert_eq!(at(&group("degraded", Some(progress), 0), 2000), (vec![], Some(1000)));
        // It becomes worse: that is news.
        assert_eq!(at(&group("failed", None, 0), 3000).0.len(), 1);
        let (events, since) = at(&group("optimal", None, 0), 4000);
        assert!(events.len() == 1 && events[0].contains("trouble is over"), "{events:?}");
        assert_eq!(since, None);
    }
}
