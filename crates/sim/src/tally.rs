//! The counters of a run.

/// Counts of a run, and a digest of everything that happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) lives: u64,
    pub(crate) crashes: u64,
    pub(crate) persistence_points: u64,
    pub(crate) digest: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Tally) {
        self.lives += other.lives;
        self.crashes += other.crashes;
        self.persistence_points += other.persistence_points;
        // A sum: forks end in any order.
        self.digest = self.digest.wrapping_add(other.digest);
    }
}
