//! The service that a scheduler must converge to: water-filling with a floor.
//!
//! `x = min(d, l, max(r, λ w))` with λ such that the capacity is used up or every demand is met.
//! Over-committed minimums are scaled by one factor: `x = min(d, l, α r)`. The clients without a minimum
//! share at least the floor, a part of the capacity, by weight; what they do not ask for is for the others.

/// Fractional bits of λ and α.
const FRACTION_BITS: u32 = 32;
/// Percent of the capacity that the clients without a minimum share at least, unless set otherwise.
pub const FLOOR_PERCENT_DEFAULT: u32 = 2;

/// Claim of a client, in units per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Claim {
    /// Its minimum; 0: none.
    pub minimum: u64,
    pub maximum: Option<u64>,
    /// Its weight for the remaining capacity; at least 1.
    pub weight: u64,
    /// Its demand; none: unlimited. A client with few outstanding requests demands no more than [`reach`].
    pub demand: Option<u64>,
}

/// Service of each client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// In the order of the claims, rounded down.
    pub rates: Vec<u64>,
    /// Whether the claimed minimums fit beside the floor.
    pub feasible: bool,
}

impl Claim {
    fn most(&self) -> u64 {
        self.maximum.unwrap_or(u64::MAX).min(self.demand.unwrap_or(u64::MAX))
    }

    fn by_weight(&self, level: u128) -> u64 {
        times(level, self.weight).max(self.minimum).min(self.most())
    }

    fn by_minimum(&self, level: u128) -> u64 {
        times(level, self.minimum).min(self.most())
    }
}

fn times(level: u128, of: u64) -> u64 {
    u64::try_from(level.saturating_mul(u128::from(of)) >> FRACTION_BITS).unwrap_or(u64::MAX)
}

fn sum(rates: impl Iterator<Item = u64>) -> u128 {
    rates.map(u128::from).sum()
}

/// The rates at the largest level whose total does not exceed the capacity.
fn fill(capacity: u64, claims: &[Claim], at: fn(&Claim, u128) -> u64) -> Vec<u64> {
    let (mut fits, mut over) = (0_u128, (u128::from(capacity) + 1) << FRACTION_BITS);
    while over - fits > 1 {
        let level = fits + (over - fits) / 2;
        match sum(claims.iter().map(|c| at(c, level))) <= u128::from(capacity) {
            true => fits = level,
            false => over = level,
        }
    }
    claims.iter().map(|c| at(c, fits)).collect()
}

/// Water-filling without a floor.
fn filled(capacity: u64, claims: &[Claim]) -> Expected {
    let feasible = sum(claims.iter().map(|c| c.by_weight(0))) <= u128::from(capacity);
    let at = if feasible { Claim::by_weight } else { Claim::by_minimum };
    Expected { rates: fill(capacity, claims, at), feasible }
}

/// Service of each client on an array with `capacity` units per second and the default floor.
pub fn expected(capacity: u64, claims: &[Claim]) -> Expected {
    expected_with_floor(capacity, FLOOR_PERCENT_DEFAULT, claims)
}

/// Service of each client on an array with `capacity` units per second, of which the clients without a
/// minimum share at least `floor_percent`.
pub fn expected_with_floor(capacity: u64, floor_percent: u32, claims: &[Claim]) -> Expected {
    let whole = filled(capacity, claims);
    let (free, promised): (Vec<Claim>, Vec<Claim>) = claims.iter().copied().partition(|c| c.minimum == 0);
    let asked = sum(free.iter().map(Claim::most));
    let floor = (u128::from(capacity) * u128::from(floor_percent) / 100).min(asked) as u64;
    let rates = claims.iter().zip(&whole.rates);
    if sum(rates.filter(|(c, _)| c.minimum == 0).map(|(_, rate)| *rate)) >= u128::from(floor) {
        return whole;
    }
    let promised = filled(capacity - floor, &promised);
    let mut of_free = filled(floor, &free).rates.into_iter();
    let mut of_promised = promised.rates.into_iter();
    let rate = |c: &Claim| if c.minimum == 0 { of_free.next() } else { of_promised.next() };
    Expected { rates: claims.iter().filter_map(rate).collect(), feasible: promised.feasible }
}

/// Units per second that a client with `outstanding` requests of `cost_bytes` can have at most, if each takes
/// `below_ns` below the scheduler, whatever the scheduler does (Little's law).
pub fn reach(outstanding: u64, cost_bytes: u64, below_ns: u64, unit_bytes: u64) -> u64 {
    let work = u128::from(outstanding) * u128::from(cost_bytes) * 1_000_000_000;
    u64::try_from(work / (u128::from(below_ns.max(1)) * u128::from(unit_bytes.max(1)))).unwrap_or(u64::MAX)
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
            let got = expected_with_floor(capacity, 0, &claims);
            let near = |(a, b): (&u64, &u64)| a.abs_diff(*b) <= 1;
            assert!(got.feasible && got.rates.iter().zip(&rates).all(near), "{capacity}: {got:?}");
        }
    }

    #[test]
    fn minimums_that_do_not_fit_are_scaled_alike() {
        let claims = [claim(100, None, 1), claim(300, None, 9), claim(0, None, 5)];
        let got = expected_with_floor(140, 0, &claims);
        assert_eq!(got, Expected { rates: vec![35, 105, 0], feasible: false });
        // 2 % of 1,400 are for the third one; the others share 1,372 as 1,000 : 3,000.
        let got = expected(1400, &[claim(1000, None, 1), claim(3000, None, 9), claim(0, None, 5)]);
        assert_eq!(got, Expected { rates: vec![343, 1029, 28], feasible: false });
        // One that asks for less than its scaled minimum has all that it asks for.
        let idle = Claim { demand: Some(10), ..claim(500, None, 1) };
        assert_eq!(expected(100, &[idle, claim(100, None, 1), claim(200, None, 1)]).rates, [10, 30, 60]);
    }

    #[test]
    fn clients_without_a_minimum_share_the_floor_by_weight() {
        // A weight that leaves the second one a ten-thousandth does not starve it.
        let got = expected(1000, &[claim(500, None, 10_000), claim(0, None, 1)]);
        assert_eq!(got, Expected { rates: vec![980, 20], feasible: true });
        // Minimums of 99 % do not fit beside the floor.
        let got = expected(1000, &[claim(990, None, 1), claim(0, None, 1), claim(0, None, 3)]);
        assert_eq!(got, Expected { rates: vec![980, 5, 15], feasible: false });
        // What is left of the floor is for the others; nobody is above its maximum.
        let asks_little = Claim { demand: Some(3), ..claim(0, None, 1) };
        assert_eq!(expected(1000, &[claim(2000, None, 1), asks_little]).rates, [997, 3]);
        assert_eq!(expected(1000, &[claim(2000, None, 1), claim(0, Some(4), 1)]).rates, [996, 4]);
    }

    #[test]
    fn the_reach_is_what_outstanding_requests_allow() {
        // One request of 512 KiB that takes 20 ms: 50 of 64 units per second.
        assert_eq!(reach(1, 512 << 10, 20_000_000, 8192), 3200);
        assert_eq!(reach(4, 8192, 5_000_000, 8192), 800);
        assert_eq!(reach(1, u64::MAX, 0, 0), u64::MAX);
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
