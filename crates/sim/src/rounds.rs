//! Rounds on all threads: many runs of the simulation, each of which depends on its number alone.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::forks::THREADS;

/// Does rounds 0, 1, 2 and so on, until one says `false`: it was not needed. At most `most` are done at a
/// time. Returns how many were done.
///
/// # Panics
/// With a round that does; the others that have begun end first.
pub(crate) fn on_all_threads(most: u64, round: impl Fn(u64) -> bool + Sync) -> u64 {
    let (next, done, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let rounds = || {
            let _stop = StopAfterPanic(&stop);
            while !stop.load(Ordering::Relaxed) && round(next.fetch_add(1, Ordering::Relaxed)) {
                done.fetch_add(1, Ordering::Relaxed);
            }
        };
        let threads: Vec<_> = (0..THREADS.min(most as usize)).map(|_| scope.spawn(rounds)).collect();
        for thread in threads {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
    done.into_inner()
}

/// Lets the other threads end, too.
struct StopAfterPanic<'a>(&'a AtomicBool);

impl Drop for StopAfterPanic<'_> {
    fn drop(&mut self) {
        self.0.fetch_or(std::thread::panicking(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn each_round_is_done_once_and_one_that_panics_ends_all() {
        let seen = Mutex::new(vec![]);
        let round = |number| {
            if number < 100 {
                seen.lock().expect("no panic").push(number);
            }
            number < 100
        };
        assert_eq!(on_all_threads(u64::MAX, round), 100);
        let mut seen = seen.into_inner().expect("no panic");
        seen.sort_unstable();
        assert_eq!(seen, Vec::from_iter(0..100));
        let panics = |number| {
            assert!(number != 20, "round 20");
            true
        };
        assert!(std::panic::catch_unwind(|| on_all_threads(u64::MAX, panics)).is_err());
        assert_eq!(on_all_threads(0, |_| true), 0);
    }
}
