//! The most volumes with which a bound holds: found by bisection, for what gets worse with each more.

use std::collections::BTreeMap;

use anyhow::Result;
use lab_core::stats::Estimate;
use lab_core::verdict::Verdict;

/// What was tried, and what follows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    /// By count: what was measured, and whether the bound held.
    pub(super) tried: BTreeMap<usize, (Estimate, Verdict)>,
    /// The largest count with which it held; 0: with none.
    pub(super) largest: usize,
    /// Of larger ones, the smallest with which it did not hold: between the two it is undecided. One more
    /// than there are volumes: it held with all.
    pub(super) refused: usize,
    /// How many volumes there are.
    pub(super) most: usize,
}

impl Found {
    /// The largest count, with what is undecided as its interval. If the bound held with all volumes, it may
    /// be any larger one.
    pub(super) fn estimate(&self) -> Estimate {
        let mean = self.largest as f64;
        let high = if self.largest == self.most { f64::INFINITY } else { (self.refused - 1) as f64 };
        Estimate { mean, low: mean, high }
    }
}

/// Tries counts from 1 to `most`.
///
/// # Errors
///
/// That of `measure`.
pub(super) fn largest(
    most: usize,
    mut measure: impl FnMut(usize) -> Result<(Estimate, Verdict)>,
) -> Result<Found> {
    let mut tried: BTreeMap<usize, (Estimate, Verdict)> = BTreeMap::new();
    let mut at = |count: usize| -> Result<Verdict> {
        if let Some((_, verdict)) = tried.get(&count) {
            return Ok(*verdict);
        }
        let measured = measure(count)?;
        tried.insert(count, measured);
        Ok(measured.1)
    };
    let largest = last(0, most + 1, |count| Ok(at(count)? == Verdict::Held))?;
    let refused = last(largest, most + 1, |count| Ok(at(count)? != Verdict::NotHeld))? + 1;
    Ok(Found { tried, largest, refused, most })
}

/// The last count that is so, of those from `yes` (it is) to before `no` (it is not).
fn last(mut yes: usize, mut no: usize, mut is_so: impl FnMut(usize) -> Result<bool>) -> Result<usize> {
    while no - yes > 1 {
        let middle = yes + (no - yes) / 2;
        match is_so(middle)? {
            true => yes = middle,
            false => no = middle,
        }
    }
    Ok(yes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(held_to: usize, refused_from: usize, expected: (usize, f64, f64)) {
        let measure = |count: usize| {
            let verdict = match count {
                n if n <= held_to => Verdict::Held,
                n if n >= refused_from => Verdict::NotHeld,
                _ => Verdict::Undecided,
            };
            Ok((Estimate::exact(count as f64), verdict))
        };
        let found = largest(100, measure).expect("no errors");
        let estimate = found.estimate();
        assert_eq!((found.largest, estimate.low, estimate.high), expected);
        assert!(found.tried.len() <= 14, "{} of 100 were tried", found.tried.len());
    }

    #[test]
    fn the_edge_is_found_with_few_runs() {
        check(37, 38, (37, 37.0, 37.0));
        check(37, 41, (37, 37.0, 40.0));
        check(0, 1, (0, 0.0, 0.0));
        check(100, 101, (100, 100.0, f64::INFINITY));
    }
}
