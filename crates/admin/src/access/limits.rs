//! How often somebody may ask: buckets that fill evenly, a bounded number of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What one may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    /// At once.
    pub(super) burst: u32,
    /// Until one more may be taken.
    pub(super) every: Duration,
}

/// Of each key, when its bucket will be full again.
///
/// A bucket that is full is not kept. Of too many, the one is forgotten that is full first.
#[derive(Debug)]
pub(super) struct Buckets<K> {
    rate: Rate,
    most: usize,
    full_at: BTreeMap<K, Instant>,
}

impl<K: Ord + Clone> Buckets<K> {
    /// None is taken from yet; so many keys are told apart.
    pub(super) fn new(rate: Rate, most: usize) -> Buckets<K> {
        Buckets { rate, most, full_at: BTreeMap::new() }
    }

    /// Takes one.
    ///
    /// # Errors
    /// The bucket is empty: until there is one again.
    pub(super) fn take(&mut self, key: &K, now: Instant) -> Result<(), Duration> {
        let full_at = self.full_at.get(key).copied().unwrap_or(now).max(now);
        let next = full_at + self.rate.every;
        let room = self.rate.every * self.rate.burst;
        let missing = next.saturating_duration_since(now);
        if missing > room {
            return Err(missing - room);
        }
        if !self.full_at.contains_key(key) && self.full_at.len() >= self.most {
            self.full_at.retain(|_, at| *at > now);
        }
        if !self.full_at.contains_key(key) && self.full_at.len() >= self.most {
            let first = self.full_at.iter().min_by_key(|(_, at)| **at).map(|(key, _)| key.clone());
            first.and_then(|key| self.full_at.remove(&key));
        }
        self.full_at.insert(key.clone(), next);
        Ok(())
    }

    /// Until one may be taken; none: now.
    pub(super) fn wait(&self, key: &K, now: Instant) -> Option<Duration> {
        let next = self.full_at.get(key).copied().unwrap_or(now).max(now) + self.rate.every;
        let room = self.rate.every * self.rate.burst;
        next.saturating_duration_since(now).checked_sub(room).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Rate = Rate { burst: 3, every: Duration::from_secs(2) };

    #[test]
    fn a_burst_is_let_through_and_then_one_at_a_time() {
        let (mut buckets, start) = (Buckets::new(RATE, 10), Instant::now());
        for _ in 0..3 {
            assert_eq!(buckets.take(&1, start), Ok(()));
        }
        assert_eq!(buckets.take(&1, start), Err(Duration::from_secs(2)));
        assert_eq!(buckets.wait(&1, start), Some(Duration::from_secs(2)));
        let later = start + Duration::from_millis(500);
        assert_eq!(buckets.take(&1, later), Err(Duration::from_millis(1500)));
        assert_eq!(buckets.take(&2, later), Ok(()), "others have a bucket of their own");
        let next = start + RATE.every;
        assert_eq!(buckets.wait(&1, next), None);
        assert_eq!(buckets.take(&1, next), Ok(()));
        assert_eq!(buckets.take(&1, next), Err(RATE.every));
        let full = start + Duration::from_secs(60);
        let taken = (0..10).filter(|_| buckets.take(&1, full).is_ok()).count();
        assert_eq!(taken, 3, "it holds no more than a burst");
    }

    #[test]
    fn many_keys_are_a_bounded_number_of_buckets_and_the_emptiest_stay() {
        let (mut buckets, now) = (Buckets::new(RATE, 8), Instant::now());
        for _ in 0..3 {
            assert_eq!(buckets.take(&0, now), Ok(()));
        }
        for key in 1..10_000 {
            assert_eq!(buckets.take(&key, now), Ok(()));
            assert!(buckets.full_at.len() <= 8);
        }
        assert!(buckets.take(&0, now).is_err(), "the bucket that is empty was not forgotten");
    }
}
