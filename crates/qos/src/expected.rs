//! The service that a scheduler must converge to: water-filling.
//!
//! `x = min(d, l, max(r, λ w))` with λ such that the capacity is used up or every demand is met;
//! over-committed minimums are scaled by one factor.

/// Fractional bits of λ.
const FRACTION_BITS: u32 = 32;

/// Claim of a client, in units per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Claim {
    /// Its minimum; 0: none.
    pub minimum: u64,
    pub maximum: Option<u64>,
    /// Its weight for the remaining capacity; at least 1.
    pub weight: u64,
    /// Its demand; none: unlimited.
    pub demand: Option<u64>,
}

/// Service of each client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// In the order of the claims, rounded down.
    pub rates: Vec<u64>,
    /// Whether the claimed minimums fit.
    pub feasible: bool,
}

impl Claim {
    fn most(&self) -> u64 {
        self.maximum.unwrap_or(u64::MAX).min(self.demand.unwrap_or(u64::MAX))
    }

    fn least(&self) -> u64 {
        self.minimum.min(self.most())
    }

    fn at(&self, level: u128) -> u64 {
        let by_weight = u64::try_from((level * u128::from(self.weight)) >> FRACTION_BITS).unwrap_or(u64::MAX);
        by_weight.max(self.minimum).min(self.most())
    }
}

fn sum(rates: impl Iterator<Item = u64>) -> u128 {
    rates.map(u128::from).sum()
}

/// Service of each client on an array with `capacity` units per second.
pub fn expected(capacity: u64, claims: &[Claim]) -> Expected {
    let promised = sum(claims.iter().map(Claim::least));
    if promised > u128::from(capacity) {
        let part = |c: &Claim| (u128::from(c.least()) * u128::from(capacity) / promised) as u64;
        return Expected { rates: claims.iter().map(part).collect(), feasible: false };
    }
    // The largest level whose total does not exceed the capacity.
    let (mut fits, mut over) = (0_u128, (u128::from(capacity) + 1) << FRACTION_BITS);
    while over - fits > 1 {
        let level = fits + (over - fits) / 2;
        match sum(claims.iter().map(|c| c.at(level))) <= u128::from(capacity) {
            true => fits = level,
            false => over = level,
        }
    }
    Expected { rates: claims.iter().map(|c| c.at(fits)).collect(), feasible: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(minimum: u64, maximum: Option<u64>, weight: u64) -> Claim {
        Claim { minimum, maximum, weight, demand: None }
    }

    /// The table of the mClock paper's kind: RD (250, none, 100), OLTP (250, none, 200), DM (0, 1000, 300).
    #[test]
    fn the_table_comes_out() {
        let claims = [claim(250, None, 100), claim(250, None, 200), claim(0, Some(1000), 300)];
        for (capacity, rates) in [
            (500, [250, 250, 0]),
            (600, [250, 250, 100]),
            (875, [250, 250, 375]),
            (1200, [250, 380, 570]),
            (1500, [250, 500, 750]),
            (2000, [333, 666, 1000]),
            (3000, [666, 1333, 1000]),
        ] {
            let got = expected(capacity, &claims);
            let near = |(a, b): (&u64, &u64)| a.abs_diff(*b) <= 1;
            assert!(got.feasible && got.rates.iter().zip(&rates).all(near), "{capacity}: {got:?}");
        }
    }

    #[test]
    fn minimums_that_do_not_fit_are_scaled_alike() {
        let got = expected(140, &[claim(100, None, 1), claim(300, None, 9), claim(0, None, 5)]);
        assert_eq!(got, Expected { rates: vec![35, 105, 0], feasible: false });
    }

    #[test]
    fn what_nobody_asks_for_goes_to_the_others() {
        let idle = Claim { demand: Some(10), ..claim(500, None, 1) };
        let got = expected(1000, &[idle, claim(0, None, 1), claim(0, Some(100), 1)]);
        assert_eq!(got, Expected { rates: vec![10, 890, 100], feasible: true });
        let sated = Claim { demand: Some(10), ..claim(0, None, 1) };
        assert_eq!(expected(1000, &[sated, sated]).rates, [10, 10]);
    }
}
