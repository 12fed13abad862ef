//! Striping arithmetic; no I/O.
//!
//! The units of one range in one set are adjacent, so that every range is at most one extent per set, and
//! every drive gets one read.

use std::ops::Range;

use crate::label::Label;

/// The striping of a group over its sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sets {
    pub(crate) unit: u64,
    /// The number of sets.
    pub(crate) count: u64,
    /// The number of drives per set.
    pub(crate) copies: usize,
}

/// A range in one set, in bytes from the start of its drives' data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) set: usize,
    pub(crate) from: u64,
    pub(crate) len: u64,
}

/// A range of the group within one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) set: usize,
    /// Its offset in the set, from the start of its drives' data.
    pub(crate) from: u64,
    pub(crate) len: u64,
}

impl Sets {
    pub(crate) fn of(label: &Label) -> Sets {
        let copies = label.level.copies(label.width);
        Sets {
            unit: label.stripe_unit_bytes.into(),
            count: (label.width / copies).into(),
            copies: copies as usize,
        }
    }

    /// The positions of a set.
    pub(crate) fn members(&self, set: usize) -> Range<usize> {
        set * self.copies..(set + 1) * self.copies
    }

    /// The extent of `at..at + len` in a set, if it has one.
    pub(crate) fn extent(&self, set: usize, at: u64, len: u64) -> Option<Extent> {
        let (n, unit, s) = (self.count, self.unit, set as u64);
        let last_byte = at + len - 1;
        let (u0, u1) = (at / unit, last_byte / unit);
        let first = u0 + (s + n - u0 % n) % n;
        if first > u1 {
            return None;
        }
        let last = u1 - (u1 % n + n - s) % n;
        let from = first / n * unit + if first == u0 { at % unit } else { 0 };
        let end = last / n * unit + if last == u1 { last_byte % unit + 1 } else { unit };
        Some(Extent { set, from, len: end - from })
    }

    /// The extents of a range, by set.
    pub(crate) fn extents(&self, at: u64, len: u64) -> impl Iterator<Item = Extent> + use<> {
        let sets = *self;
        (0..self.count as usize).filter_map(move |set| sets.extent(set, at, len))
    }

    /// The runs of a range in address order.
    pub(crate) fn runs(&self, at: u64, len: u64) -> impl Iterator<Item = Run> + use<> {
        let (unit, n, end) = (self.unit, self.count, at + len);
        let mut next = at;
        std::iter::from_fn(move || {
            if next >= end {
                return None;
            }
            let (u, within) = (next / unit, next % unit);
            let len = (unit - within).min(end - next);
            next += len;
            Some(Run { set: (u % n) as usize, from: u / n * unit + within, len })
        })
    }

    /// The smallest range of the group that contains `from..from + len` of the drives' data, in every set.
    pub(crate) fn around(&self, from: u64, len: u64) -> Range<u64> {
        if self.count == 1 {
            return from..from + len;
        }
        let row = self.unit * self.count;
        let first = from / self.unit * row;
        let end = (from + len).div_ceil(self.unit) * row;
        first..end
    }

    /// The group address of byte `from` of a set.
    pub(crate) fn address(&self, set: usize, from: u64) -> u64 {
        (from / self.unit * self.count + set as u64) * self.unit + from % self.unit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arithmetic against a unit-by-unit walk.
    #[test]
    fn extents_are_what_a_walk_over_the_runs_finds() {
        for count in 1..5 {
            let sets = Sets { unit: 4096, count, copies: 1 };
            for at in (0..40_000).step_by(512) {
                for len in [512, 4096, 4608, 20_480, 33_280] {
                    for set in 0..count as usize {
                        let runs: Vec<Run> = sets.runs(at, len).filter(|r| r.set == set).collect();
                        let walked = runs.first().map(|first| {
                            let len = runs.iter().map(|r| r.len).sum();
                            Extent { set, from: first.from, len }
                        });
                        assert_eq!(
                            sets.extent(set, at, len),
                            walked,
                            "{count} sets, {len} at {at} in set {set}"
                        );
                    }
                    let first = sets.runs(at, len).next().expect("a run");
                    assert_eq!(sets.address(first.set, first.from), at);
                    let around = sets.around(first.from, first.len);
                    assert!(around.start <= at && at + first.len <= around.end);
                }
            }
        }
    }
}
