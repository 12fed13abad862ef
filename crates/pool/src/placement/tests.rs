//! The planner on pages that are imagined: what settles, what follows, what is left alone.

use world::Rng;

use super::*;

/// Two classes of pages with a rate each; `fast` pages of them lie in the upper class.
struct World {
    rng: Rng,
    rates: Vec<u64>,
    heat: Vec<u32>,
    is_fast: Vec<bool>,
    fast_pages: u32,
}

impl World {
    fn new(rates: Vec<u64>, fast_pages: u32, fast_used: usize) -> World {
        let n = rates.len();
        let is_fast = (0..n).map(|i| i < fast_used).collect();
        World { rng: Rng::with_seed(7), rates, heat: vec![0; n], is_fast, fast_pages }
    }

    fn tier(&self, fast: bool, pages: u32) -> Tier {
        let of = |i: usize| Warm { heat: self.heat[i], page: i as u32 };
        let mut warm: Vec<Warm> = (0..self.heat.len()).filter(|i| self.is_fast[*i] == fast).map(of).collect();
        warm.sort_unstable();
        let used = warm.len() as u32;
        let hottest = warm.iter().rev().take(MOVES_MAX).copied().collect();
        warm.truncate(MOVES_MAX);
        Tier { pages, used, coldest: warm, hottest }
    }

    /// One interval of accesses at random, and what the planner makes of it: pages moved, and the share of
    /// accesses that the upper class had.
    fn interval(&mut self) -> (Plan, f64) {
        let total: u64 = self.rates.iter().sum();
        let mut sums = Vec::with_capacity(self.rates.len());
        let mut sum = 0;
        for rate in &self.rates {
            sum += rate;
            sums.push(sum);
        }
        let mut served = 0;
        for _ in 0..total {
            let at = self.rng.u64(0..total);
            let page = sums.partition_point(|s| *s <= at);
            self.heat[page] += ACCESS;
            served += u64::from(self.is_fast[page]);
        }
        let plan = plan(&self.tier(true, self.fast_pages), &self.tier(false, 1 << 20));
        plan.demote.iter().for_each(|p| self.is_fast[*p as usize] = false);
        plan.promote.iter().for_each(|p| self.is_fast[*p as usize] = true);
        self.heat.iter_mut().for_each(|heat| *heat /= 2);
        (plan, served as f64 / total as f64)
    }
}

fn moves(plan: &Plan) -> usize {
    plan.demote.len() + plan.promote.len()
}

#[test]
fn with_a_skew_the_hot_pages_come_up_and_then_nothing_moves() {
    // A tenth of 20,000 pages has nine tenths of the accesses, and none of it is in the upper class, which is
    // full of others.
    let rates: Vec<u64> = (0..20_000).map(|i| if i % 10 == 9 { 81 } else { 1 }).collect();
    let mut world = World::new(rates, 3000, 2800);
    (0..20_000).for_each(|i| world.is_fast[i] = i % 10 != 9 && i < 3111);
    let shares: Vec<(usize, f64)> =
        (0..12).map(|_| world.interval()).map(|(plan, share)| (moves(&plan), share)).collect();
    assert!(shares[0].1 < 0.1 && shares[3].1 > 0.88, "{shares:?}");
    assert!(shares[4..].iter().all(|(moves, share)| *moves == 0 && *share > 0.88), "{shares:?}");
}

#[test]
fn of_hot_pages_that_do_not_fit_some_come_and_none_takes_anothers_place() {
    let rates: Vec<u64> = (0..10_000).map(|i| if i % 2 == 1 { 40 } else { 0 }).collect();
    let mut world = World::new(rates, 1000, 0);
    let plans: Vec<Plan> = (0..10).map(|_| world.interval().0).collect();
    assert_eq!((plans[0].promote.len(), plans[0].reason), (950, Reason::Room));
    assert!(plans[1..].iter().all(|p| moves(p) == 0 && p.reason == Reason::Settled), "{:?}", plans.last());
}

#[test]
fn a_uniform_load_moves_nothing_whatever_its_rate() {
    for rate in [1, 3, 10, 30, 100, 300] {
        let mut world = World::new(vec![rate; 20_000], 2000, 1900);
        for i in 0..8 {
            let (plan, _) = world.interval();
            assert_eq!((moves(&plan), plan.reason), (0, Reason::Settled), "rate {rate}, interval {i}");
        }
    }
}

#[test]
fn a_hot_spot_that_moves_is_followed() {
    let rates = |from: usize| (0..10_000).map(|i| u64::from((from..from + 500).contains(&i)) * 60).collect();
    let mut world = World::new(rates(0), 600, 0);
    (0..4).for_each(|_| _ = world.interval());
    assert!(world.interval().1 > 0.99);
    world.rates = rates(5000);
    let shares: Vec<f64> = (0..6).map(|_| world.interval().1).collect();
    assert!(shares[0] == 0.0 && shares[3] > 0.9, "{shares:?}");
    assert_eq!(moves(&world.interval().0), 0);
}

fn warm(heats: &[u32], first: u32) -> Vec<Warm> {
    heats.iter().zip(first..).map(|(heat, page)| Warm { heat: heat * ACCESS, page }).collect()
}

#[test]
fn what_is_decided_has_its_reason() {
    let upper = Tier { pages: 100, used: 95, coldest: warm(&[0, 1, 2], 0), hottest: warm(&[9], 50) };
    let lower = Tier { pages: 100, used: 50, coldest: vec![], hottest: warm(&[400, 300, 3], 1000) };
    let plan_of = |upper: &Tier, lower: &Tier| {
        let plan = plan(upper, lower);
        (plan.demote, plan.promote, plan.reason)
    };
    assert_eq!(plan_of(&upper, &lower), (vec![0, 1], vec![1000, 1001], Reason::Exchange));
    let full = Tier { used: 100, ..lower.clone() };
    assert_eq!(plan_of(&upper, &full), (vec![], vec![], Reason::NoRoomBelow));
    let emptier = Tier { used: 94, ..upper.clone() };
    assert_eq!(plan_of(&emptier, &full), (vec![], vec![1000], Reason::NoRoomBelow));
    assert_eq!(plan_of(&emptier, &lower), (vec![0], vec![1000, 1001], Reason::Exchange));
    let fuller = Tier { used: 97, ..upper.clone() };
    let cold = Tier { hottest: warm(&[3], 1000), ..lower.clone() };
    assert_eq!(plan_of(&fuller, &cold), (vec![0, 1], vec![], Reason::TooFull));
    assert_eq!(plan_of(&upper, &cold), (vec![], vec![], Reason::Settled));
    assert_eq!(
        plan_of(&Tier { used: 10, ..upper }, &cold),
        (vec![], vec![], Reason::Settled),
        "below the floor"
    );
}

#[test]
fn the_threshold_rises_with_what_it_is_compared_to_and_is_never_below_half_as_much_again() {
    let mut before = 0;
    for heat in (0..2_000_000).step_by(997) {
        let needed = threshold(heat);
        assert!(needed > before && needed >= u64::from(heat) * 3 / 2 + FLOOR, "{heat}: {needed}");
        before = needed;
    }
    assert_eq!(
        threshold(0).div_ceil(ACCESS.into()),
        32,
        "sixteen accesses in each interval, as docs/placement.md says"
    );
}
