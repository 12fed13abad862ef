//! The formula: water-filling with minimums, maximums, weights, demands and a floor.
//!
//! A disk with a minimum has it, one without has its part of the floor; the rest goes by weight. In letters:
//! `x = min(d, l, max(r, λ w))` with λ such that the capacity is used up or every demand is met, and
//! `r = floor · C · w / Σw` for disks without a minimum. Minimums that do not fit beside the floor are
//! scaled by one factor.

/// Fractional bits of the level.
const FRACTION_BITS: u32 = 32;

/// What a disk may claim, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// 0: none.
    pub minimum: u64,
    /// None: unlimited.
    pub maximum: Option<u64>,
    /// At least 1.
    pub weight: u64,
    /// What it would take; none: all that it can get.
    pub demand: Option<u64>,
}

/// What each disk is to get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filled {
    /// In the order of the claims, rounded down.
    pub rates: Vec<u64>,
    /// Of 1000: what of the minimums is given; 1000 when they fit.
    pub scale_permille: u64,
}

impl Claim {
    fn most(&self) -> u64 {
        self.maximum.unwrap_or(u64::MAX).min(self.demand.unwrap_or(u64::MAX))
    }
}

fn sum(rates: impl Iterator<Item = u64>) -> u128 {
    rates.map(u128::from).sum()
}

/// What each of `claims` is to get of `capacity`; `floor_permille` of it is for those without a minimum.
pub fn fill(capacity: u64, floor_permille: u64, claims: &[Claim]) -> Filled {
    let free = || claims.iter().filter(|claim| claim.minimum == 0);
    let floor = u128::from(capacity) * u128::from(floor_permille.min(1000)) / 1000;
    let weights = sum(free().map(|claim| claim.weight)).max(1);
    let floor_of = |claim: &Claim| {
        let part = u64::try_from(floor * u128::from(claim.weight) / weights).unwrap_or(u64::MAX);
        part.min(claim.most())
    };
    let least = |claim: &Claim| match claim.minimum {
        0 => floor_of(claim),
        minimum => minimum.min(claim.most()),
    };
    let for_minimums = u128::from(capacity) - sum(free().map(floor_of)).min(u128::from(capacity));
    let minimums = sum(claims.iter().filter(|claim| claim.minimum > 0).map(least));
    if minimums > for_minimums {
        let scaled = |claim: &Claim| match claim.minimum {
            0 => floor_of(claim),
            _ => (u128::from(least(claim)) * for_minimums / minimums) as u64,
        };
        let scale_permille = (1000 * for_minimums / minimums) as u64;
        return Filled { rates: claims.iter().map(scaled).collect(), scale_permille };
    }
    let at = |claim: &Claim, level: u128| {
        let by_weight =
            u64::try_from((level * u128::from(claim.weight)) >> FRACTION_BITS).unwrap_or(u64::MAX);
        by_weight.max(least(claim)).min(claim.most())
    };
    // The largest level whose total does not exceed the capacity.
    let (mut fits, mut over) = (0_u128, (u128::from(capacity) + 1) << FRACTION_BITS);
    while over - fits > 1 {
        let level = fits + (over - fits) / 2;
        match sum(claims.iter().map(|claim| at(claim, level))) <= u128::from(capacity) {
            true => fits = level,
            false => over = level,
        }
    }
    Filled { rates: claims.iter().map(|claim| at(claim, fits)).collect(), scale_permille: 1000 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(minimum: u64, maximum: Option<u64>, weight: u64) -> Claim {
        Claim { minimum, maximum, weight, demand: None }
    }

    /// The table of science: RD (250, none, 100), OLTP (250, none, 200), DM (0, 1000, 300), without a floor.
    #[test]
    fn the_table_comes_out() {
        let claims = [claim(250, None, 100), claim(250, None, 200), claim(0, Some(1000), 300)];
        for (capacity, rates) in [
            (500, [250, 250, 0]),
            (600, [250, 250, 100]),
            (875, [250, 250, 375]),
            (1200, [250, 380, 570]),
            (2000, [333, 666, 1000]),
            (3000, [666, 1333, 1000]),
        ] {
            let got = fill(capacity, 0, &claims);
            let near = got.rates.iter().zip(&rates).all(|(a, b)| a.abs_diff(*b) <= 1);
            assert!(near && got.scale_permille == 1000, "{capacity}: {got:?}");
        }
    }

    #[test]
    fn minimums_that_do_not_fit_are_scaled_alike_and_the_floor_is_left() {
        let got = fill(
            1000,
            20,
            &[claim(500, None, 1), claim(1500, None, 9), claim(0, None, 3), claim(0, None, 1)],
        );
        assert_eq!(got, Filled { rates: vec![245, 735, 15, 5], scale_permille: 490 });
    }

    #[test]
    fn nobody_stands_still_when_minimums_just_fit() {
        // Ten megabytes for minimums of 9.9: the floor takes a hundredth of the minimums.
        let mut claims = vec![claim(990_000, None, 1); 10];
        claims.extend(vec![claim(0, None, 1); 5]);
        let got = fill(10_000_000, 20, &claims);
        assert!(got.rates[..10].iter().all(|rate| *rate == 980_000), "{got:?}");
        assert!(got.rates[10..].iter().all(|rate| *rate == 40_000), "{got:?}");
    }

    #[test]
    fn what_nobody_asks_for_goes_to_the_others() {
        let idle = Claim { demand: Some(10), ..claim(500, None, 1) };
        let got = fill(1000, 20, &[idle, claim(0, None, 1), claim(0, Some(100), 1)]);
        assert_eq!(got.rates, [10, 890, 100]);
        let sated = Claim { demand: Some(10), ..claim(0, None, 1) };
        assert_eq!(fill(1000, 20, &[sated, sated]).rates, [10, 10]);
        assert_eq!(fill(0, 20, &[claim(5, None, 1), sated]).rates, [0, 0]);
        assert_eq!(fill(7, 20, &[]).rates, [0; 0]);
    }

    /// Shares of hosts whose disks have no minimum: what `verify qos` found to be 0.000 MB/s.
    #[test]
    fn disks_without_a_minimum_get_what_water_filling_gives() {
        let mut claims = vec![claim(16_384_000, None, 100); 5];
        claims.extend(vec![claim(0, None, 100); 5]);
        let got = fill(140_000_000, 20, &claims).rates;
        assert!(got[5..].iter().all(|rate| rate.abs_diff(11_616_000) <= 1), "{got:?}");
    }
}
