//! From shares to rates: what disks are granted beyond their shares, so that minimums are kept in the bad
//! moments of the array, too.
//!
//! A disk whose share is its minimum, no more and no less, is *promised* it. The others have what is left.

use crate::Grant;

/// Promised disks are to get so much more than their minimum, as long as the others lose no more than so
/// much.
const MARGIN: f64 = 0.03;
const OTHERS_MARGIN: f64 = 0.025;
/// What is granted beyond the capacity is for promised disks first, up to this part of their shares: the
/// array serves whoever asks, so what others are granted beyond theirs would be taken from these.
const EXTRA_MAX: f64 = 0.06;
/// While nobody corrects rates: of its share, a promised disk may take so much, and the others so much, for
/// the array may do less than now.
const STEADY_PROMISED: f64 = 1.1;
const STEADY_OTHERS: f64 = 0.96;

/// What disks of a kind are granted, as parts of their shares.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Terms {
    /// What each is to get on average.
    target: f64,
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
    /// Of shares with whether they are promised, where `headroom` is the part of their sum that is granted
    /// beyond it.
    pub(crate) fn new(headroom: f64, shares: &[(u64, bool)]) -> Grants {
        let sum =
            |which: bool| shares.iter().filter(|(_, is)| *is == which).map(|(share, _)| *share as f64).sum();
        let (promised, others): (f64, f64) = (sum(true), sum(false));
        if promised < 1.0 || others < 1.0 {
            let terms = Terms { target: 1.0, extra: headroom, steady: 1.0 + headroom };
            return Grants { promised: terms, others: terms };
        }
        let margin = (MARGIN * promised).min(OTHERS_MARGIN * others);
        let beyond = headroom * (promised + others);
        let extra = (beyond / promised).min(EXTRA_MAX);
        Grants {
            promised: Terms { target: 1.0 + margin / promised, extra, steady: STEADY_PROMISED },
            others: Terms {
                target: 1.0 - margin / others,
                extra: (beyond - extra * promised).max(0.0) / others,
                steady: STEADY_OTHERS,
            },
        }
    }

    fn terms(&self, is_promised: bool) -> &Terms {
        if is_promised { &self.promised } else { &self.others }
    }

    /// What a disk is to get on average, bytes per second.
    pub(crate) fn target(&self, share: u64, is_promised: bool) -> f64 {
        share as f64 * self.terms(is_promised).target
    }

    /// What it is granted, where `rate` makes up for what it is behind or ahead of its target.
    pub(crate) fn grant(&self, (share, steady): (u64, u64), is_promised: bool, rate: f64) -> Grant {
        let terms = self.terms(is_promised);
        let rate = rate + terms.extra * share as f64;
        Grant { rate: rate as u64, steady: (terms.steady * steady as f64) as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a disk with this share is granted without anything to make up for.
    fn granted(grants: &Grants, share: u64, is_promised: bool) -> u64 {
        grants.grant((share, share), is_promised, grants.target(share, is_promised)).rate
    }

    #[test]
    fn without_minimums_all_are_granted_alike_beyond_their_shares() {
        let grants = Grants::new(0.01, &[(1000, false), (3000, false)]);
        assert_eq!((granted(&grants, 1000, false), granted(&grants, 3000, false)), (1010, 3030));
        assert_eq!(grants.grant((1000, 1000), false, 0.0).steady, 1010);
    }

    #[test]
    fn minimums_come_first_and_the_others_lose_little() {
        // Half of the array, and nearly all of it.
        for (promised, others) in [(50_000, 50_000), (96_000, 4_000)] {
            let grants = Grants::new(0.01, &[(promised, true), (others, false)]);
            let (more, less) = (granted(&grants, promised, true), granted(&grants, others, false));
            assert!(more > promised && less < others && less >= others / 1000 * 975, "{more} {less}");
            assert!((more + less).abs_diff((promised + others) / 100 * 101) <= 2, "{more} {less}");
            let steady = |share, is| grants.grant((share, share), is, 0.0).steady;
            assert!(steady(promised, true) > promised && steady(others, false) < others);
        }
    }

    #[test]
    fn one_small_minimum_is_not_granted_all_that_is_beyond_the_capacity() {
        let grants = Grants::new(0.16, &[(1000, true), (99_000, false)]);
        assert!(granted(&grants, 1000, true) <= 1100, "{grants:?}");
        assert!(granted(&grants, 99_000, false) > 110_000, "{grants:?}");
    }
}
