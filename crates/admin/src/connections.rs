//! Places for connections: a bounded number, and fewer of one source, so that no client takes them all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many connections may be open at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Most {
    pub(crate) all: usize,
    pub(crate) of_source: usize,
}

/// Refusals are logged at most once in so long.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The open connections of a listener.
pub(crate) struct Places {
    most: Most,
    counts: Mutex<Counts>,
}

/// A connection's place. Dropping it frees it.
pub(crate) struct Place {
    places: Arc<Places>,
    source: String,
}

impl Places {
    pub(crate) fn new(most: Most) -> Arc<Places> {
        Arc::new(Places { most, counts: Mutex::default() })
    }

    /// A place for a connection from there; none if there are too many. Refusals are logged.
    pub(crate) fn take(self: &Arc<Places>, source: String, now: Instant) -> Option<Place> {
        let mut counts = self.counts();
        let Err(refused) = counts.enter(&source, self.most) else {
            return Some(Place { places: self.clone(), source });
        };
        if let Some(refusals) = counts.tell(now) {
            let Most { all, of_source } = self.most;
            let (count, of) = match refused {
                TooMany::OfSource => (of_source, format!("{source} has")),
                TooMany::All => (all, "all clients together have".into()),
            };
            tracing::warn!(
                "the API refused {refusals} connections: {of} the maximum of {count}; close idle connections"
            );
        }
        None
    }

    /// A place, or which maximum is reached, which who asks says.
    pub(crate) fn take_or_say(self: &Arc<Places>, source: String) -> Result<Place, TooMany> {
        self.counts().enter(&source, self.most)?;
        Ok(Place { places: self.clone(), source })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.counts().leave(&self.source);
    }
}

/// Which maximum is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TooMany {
    OfSource,
    All,
}

/// Only sources with a connection are in the table, so that it is as bounded as the connections.
#[derive(Default)]
struct Counts {
    all: usize,
    of_source: BTreeMap<String, usize>,
    told: Option<Instant>,
    untold: u64,
}

impl Counts {
    fn enter(&mut self, source: &str, most: Most) -> Result<(), TooMany> {
        if self.all >= most.all {
            return Err(TooMany::All);
        }
        if self.of_source.get(source).is_some_and(|count| *count >= most.of_source) {
            return Err(TooMany::OfSource);
        }
        self.all += 1;
        *self.of_source.entry(source.to_owned()).or_default() += 1;
        Ok(())
    }

    fn leave(&mut self, source: &str) {
        let count = self.of_source.get_mut(source).expect("its connection is counted");
        *count -= 1;
        if *count == 0 {
            self.of_source.remove(source);
        }
        self.all -= 1;
    }

    /// Counts a refusal. `Some` if it is to be logged, with the number of refusals since the last time.
    fn tell(&mut self, now: Instant) -> Option<u64> {
        self.untold += 1;
        if self.told.is_some_and(|told| now.duration_since(told) < LOG_INTERVAL) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Most = Most { all: 3, of_source: 2 };

    #[test]
    fn one_source_cannot_take_all_places() {
        let mut counts = Counts::default();
        assert_eq!([(); 3].map(|()| counts.enter("a", MOST)), [Ok(()), Ok(()), Err(TooMany::OfSource)]);
        assert_eq!(counts.enter("b", MOST), Ok(()));
        assert_eq!(counts.enter("b", MOST), Err(TooMany::All));
        counts.leave("a");
        assert_eq!(counts.enter("b", MOST), Ok(()));
    }

    #[test]
    fn the_table_forgets_who_has_left() {
        let places = Places::new(MOST);
        for n in 0..1000 {
            drop(places.take(format!("source {n}"), Instant::now()).expect("a place"));
        }
        let counts = places.counts();
        assert_eq!((counts.all, counts.of_source.len()), (0, 0));
    }

    #[test]
    fn refusals_are_logged_once_in_an_interval_with_their_number() {
        let (mut counts, now) = (Counts::default(), Instant::now());
        assert_eq!(counts.tell(now), Some(1));
        assert_eq!(counts.tell(now + LOG_INTERVAL / 2), None);
        assert_eq!(counts.tell(now + LOG_INTERVAL), Some(2));
    }
}
