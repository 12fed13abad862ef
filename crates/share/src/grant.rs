//! From shares to rates: what disks are granted beyond their shares, so that minimums are kept in the bad
//! moments of the array, too.
//!
//! A disk whose share is its minimum, no more and no less, is *promised* it. The others have what is left.

use crate::Grant;

/// Promised disks are to get so much more than their minimum, as long as the others lose no more than so
/// much.
const MARGIN: f64 = 0.03;
const OTHERS_MARGIN: f64 = 0.02;
/// What is granted beyond the capacity is for promised disks first, up to this part of their shares: the
/// array serves whoever asks, so what others are granted beyond theirs would be taken from these.
const EXTRA_MAX: f64 = 0.06;
/// While nobody corrects rates: of its share, a promised disk may take so much, and the others so much, for
/// the array may do less than now. If all together took what it does, promised disks would wait for it.
const STEADY_PROMISED: f64 = 1.04;
const STEADY_OTHERS: f64 = 0.965;

/// A disk that waits for its rate needs so much of the margin that one needs which waits for the array.
const NEED_LEAST: f64 = 0.25;

/// A disk with its share of the capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Part {
    /// Bytes per second.
    pub(crate) share: u64,
    pub(crate) is_promised: bool,
    /// How often it waits for the array and not for its rate, from 0 to 1: then it has nothing to catch up
    /// with in the array's bad moments.
    pub(crate) held_up: f64,
}

impl Part {
    fn need(&self) -> f64 {
        self.held_up.max(NEED_LEAST)
    }
}

/// What disks of a kind are granted, as parts of their shares.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Terms {
    /// What each is to get on average beyond its share, for each unit of its need.
    margin: f64,
    /// Granted beyond that.
    extra: f64,
    /// Granted while the registry is away.
    steady: f64,
}

/// The grants of all disks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Grants {
    promised: Terms,
    others: Terms,
}

impl Grants {
    /// Of all disks, where `headroom` is the part of the sum of their shares that is granted beyond it.
    pub(crate) fn new(headroom: f64, parts: &[Part]) -> Grants {
        let sum = |is_promised: bool, of: fn(&Part) -> f64| -> f64 {
            parts.iter().filter(|part| part.is_promised == is_promised).map(of).sum()
        };
        let (promised, others) = (sum(true, |part| part.share as f64), sum(false, |part| part.share as f64));
        if promised < 1.0 || others < 1.0 {
            let terms = Terms { margin: 0.0, extra: headroom, steady: 1.0 + headroom };
            return Grants { promised: terms, others: terms };
        }
        let margin = (MARGIN * promised).min(OTHERS_MARGIN * others);
        let needed = sum(true, |part| part.share as f64 * part.need());
        let beyond = headroom * (promised + others);
        let extra = (beyond / promised).min(EXTRA_MAX);
        Grants {
            promised: Terms { margin: margin / needed, extra, steady: STEADY_PROMISED },
            others: Terms {
                margin: -margin / others,
                extra: (beyond - extra * promised).max(0.0) / others,
                steady: STEADY_OTHERS,
            },
        }
    }

    fn terms(&self, part: &Part) -> &Terms {
        if part.is_promised { &self.promised } else { &self.others }
    }

    /// What a disk is to get on average, bytes per second.
    pub(crate) fn target(&self, part: &Part) -> f64 {
        let need = if part.is_promised { part.need() } else { 1.0 };
        part.share as f64 * (1.0 + self.terms(part).margin * need)
    }

    /// What it is granted, where `rate` makes up for what it is behind or ahead of its target, and `steady`
    /// is its share of what the array does over a longer time.
    pub(crate) fn grant(&self, part: &Part, steady: u64, rate: f64) -> Grant {
        let terms = self.terms(part);
        let rate = rate + terms.extra * part.share as f64;
        Grant { rate: rate as u64, steady: (terms.steady * steady as f64) as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a disk with this share is granted without anything to make up for.
    fn granted(grants: &Grants, part: Part) -> u64 {
        grants.grant(&part, part.share, grants.target(&part)).rate
    }

    fn promised(share: u64) -> Part {
        Part { share, is_promised: true, held_up: 0.0 }
    }

    fn other(share: u64) -> Part {
        Part { is_promised: false, ..promised(share) }
    }

    #[test]
    fn without_minimums_all_are_granted_alike_beyond_their_shares() {
        let grants = Grants::new(0.01, &[other(1000), other(3000)]);
        assert_eq!((granted(&grants, other(1000)), granted(&grants, other(3000))), (1010, 3030));
        assert_eq!(grants.grant(&other(1000), 1000, 0.0).steady, 1010);
    }

    #[test]
    fn minimums_come_first_and_the_others_lose_little() {
        // Half of the array, and nearly all of it.
        for (most, rest) in [(50_000, 50_000), (96_000, 4_000)] {
            let grants = Grants::new(0.01, &[promised(most), other(rest)]);
            let (more, less) = (granted(&grants, promised(most)), granted(&grants, other(rest)));
            assert!(more > most && less < rest && less >= rest / 1000 * 975, "{more} {less}");
            assert!((more + less).abs_diff((most + rest) / 100 * 101) <= 2, "{more} {less}");
            let steady = |part: Part| grants.grant(&part, part.share, 0.0).steady;
            assert!(steady(promised(most)) > most && steady(other(rest)) < rest);
        }
    }

    #[test]
    fn one_small_minimum_is_not_granted_all_that_is_beyond_the_capacity() {
        let grants = Grants::new(0.16, &[promised(1000), other(99_000)]);
        assert!(granted(&grants, promised(1000)) <= 1100, "{grants:?}");
        assert!(granted(&grants, other(99_000)) > 110_000, "{grants:?}");
    }

    /// Whoever waits for its rate catches up; whoever waits for the array cannot.
    #[test]
    fn the_margin_goes_to_minimums_that_wait_for_the_array() {
        let waits = Part { held_up: 1.0, ..promised(40_000) };
        let parts = [promised(40_000), waits, other(20_000)];
        let grants = Grants::new(0.0, &parts);
        let [easy, hard, rest] = parts.map(|part| granted(&grants, part) as i64 - part.share as i64);
        assert!(hard > 3 * easy && easy > 0 && (easy + hard + rest).abs() <= 2, "{easy} {hard} {rest}");
    }
}
