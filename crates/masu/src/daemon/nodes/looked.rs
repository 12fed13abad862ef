//! The certificates of the registry's nodes, as an owner looks for one that it does not know.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A node that has just joined is known soon, and strangers keep nobody from the registry.
const EVERY: Duration = Duration::from_millis(100);

/// The numbers of nodes, each with the SHA-256 of its certificate.
type Certificates = Arc<Vec<(u16, String)>>;

/// The last look, and what it found.
#[derive(Default)]
pub(super) struct Looked(Mutex<Option<(Instant, Certificates)>>);

impl Looked {
    /// Looks again if it is due: between two looks, what the last one found counts. Nobody waits for the look
    /// of another one.
    pub(super) fn certificates(
        &self,
        now: Instant,
        look: impl FnOnce() -> Vec<(u16, String)>,
    ) -> Certificates {
        let last = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let mut last = last();
            let found = last.as_ref().map(|(_, found)| found.clone()).unwrap_or_default();
            if last.as_ref().is_some_and(|(at, _)| now - *at < EVERY) {
                return found;
            }
            *last = Some((now, found));
        }
        let found = Certificates::new(look());
        *last() = Some((now, found.clone()));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before, a node that a look had found was sent away when a stranger had come after it.
    #[test]
    fn between_two_looks_what_the_last_one_found_counts() {
        let (looked, now) = (Looked::default(), Instant::now());
        let found = |names: &[&str]| names.iter().map(|name| (1, (*name).to_owned())).collect::<Vec<_>>();
        assert_eq!(*looked.certificates(now, || found(&["a"])), found(&["a"]));
        assert_eq!(
            *looked.certificates(now + EVERY / 2, || unreachable!("strangers have nobody look")),
            found(&["a"])
        );
        assert_eq!(*looked.certificates(now + EVERY, || found(&["b"])), found(&["b"]));
    }
}
