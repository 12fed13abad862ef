//! Policies over several pools: each pool is an array of its own with a scheduler, and `Divider` says every
//! half of a second what each has of them.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::{Divider, FlowId, ROUND_NS, Spread, Terms};

/// 140 MB/s.
const CAPACITY: u64 = 140_000_000;
const IO: u64 = 512 << 10;

/// Pools with loads. The loads of a policy are in one flow in each pool.
struct Pools {
    arrays: Vec<Array>,
    policies: BTreeMap<String, Policy>,
    /// The loads of a policy in a pool.
    loads: BTreeMap<(String, usize), Vec<usize>>,
    divider: Divider<usize>,
    /// Pools that do not answer.
    silent: BTreeSet<usize>,
    now: u64,
}

impl Pools {
    /// `others` are loads in each pool beside those of policies: policy and outstanding requests.
    fn new(pools: usize, others: &[(Policy, u32)], spread: &[(&str, Policy, usize)]) -> Pools {
        let mut made = Pools {
            arrays: vec![],
            policies: spread.iter().map(|(name, policy, _)| ((*name).to_owned(), *policy)).collect(),
            loads: BTreeMap::new(),
            divider: Divider::default(),
            silent: BTreeSet::new(),
            now: 0,
        };
        for pool in 0..pools {
            let load = |policy: Policy, outstanding| Load { outstanding, ..Load::of(policy) };
            let mut loads: Vec<Load> = others.iter().map(|(policy, out)| load(*policy, *out)).collect();
            for (name, policy, count) in spread {
                let own = loads.len()..loads.len() + count;
                loads.extend(vec![load(*policy, 0); *count]);
                made.loads.insert(((*name).to_owned(), pool), own.collect());
            }
            let mut array = Array::new(CAPACITY, 8, 1, &loads);
            for own in made.loads.iter().filter(|((_, of), _)| *of == pool).map(|(_, own)| own) {
                own[1..].iter().for_each(|second| array.join(own[0], *second));
            }
            for (name, policy, _) in spread {
                let flow = array.clients[made.loads[&((*name).to_owned(), pool)][0]].0;
                let even = Terms::of(policy, UNIT).even(pools as u64);
                array.schedulers[0].set_part(0, flow, Some(even));
            }
            made.arrays.push(array);
        }
        made
    }

    fn flow(&self, name: &str, pool: usize) -> FlowId {
        self.arrays[pool].clients[self.loads[&(name.to_owned(), pool)][0]].0
    }

    /// All volumes of a policy in a pool have so many requests out each.
    fn ask(&mut self, name: &str, pool: usize, outstanding: u32) {
        for load in self.loads[&(name.to_owned(), pool)].clone() {
            self.arrays[pool].set_outstanding(load, outstanding);
        }
    }

    fn run(&mut self, seconds: u64) {
        let places: BTreeSet<usize> = (0..self.arrays.len()).collect();
        let spread = |policy: &Policy| Spread { terms: Terms::of(policy, UNIT), places: places.clone() };
        let declared = self.policies.iter().map(|(name, policy)| (name.clone(), spread(policy))).collect();
        for _ in 0..seconds * SECOND_NS / ROUND_NS {
            self.arrays.iter_mut().for_each(|array| array.run(ROUND_NS));
            self.now += ROUND_NS;
            let mut news = Vec::new();
            self.arrays.iter_mut().for_each(|array| array.schedulers[0].close_window(self.now, &mut news));
            let parts = self.divider.divide(self.now, &declared, &self.silent);
            for (pool, parts) in parts {
                let flows: Vec<FlowId> = parts.iter().map(|(name, _)| self.flow(name, pool)).collect();
                let array = &mut self.arrays[pool];
                for (flow, (_, part)) in flows.iter().zip(&parts) {
                    part.iter().for_each(|part| array.schedulers[0].set_part(self.now, *flow, Some(*part)));
                }
                array.look(0);
                let (room, uses) = array.schedulers[0].tell(self.now, &flows);
                let uses = parts.into_iter().map(|(name, _)| name).zip(uses.into_iter().map(Some)).collect();
                self.divider.observe(self.now, (&pool, 0), room, uses);
            }
        }
    }

    /// Units of a policy in all windows of 5 s between two times, in all pools together; one each 50 ms.
    fn windows(&self, name: &str, from_s: u64) -> Vec<u64> {
        let mut all: Vec<u64> = Vec::new();
        for ((_, pool), loads) in self.loads.iter().filter(|((of, _), _)| of == name) {
            for load in loads {
                let own = self.arrays[*pool].windows(*load, from_s * SECOND_NS, self.now);
                all.resize(own.len(), 0);
                all.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
            }
        }
        all
    }

    /// The worst 1 % of the windows, of 1000 of what a rate gives in them.
    fn worst_permille(&self, name: &str, units_per_s: u64, from_s: u64) -> u64 {
        let mut windows = self.windows(name, from_s);
        windows.sort_unstable();
        windows[windows.len() / 100] * 1000 / (5 * units_per_s)
    }

    /// By how much the fullest window exceeds a maximum, in requests.
    fn most_over(&self, name: &str, units_per_s: u64) -> u64 {
        let most = self.windows(name, 0).into_iter().max().expect("windows");
        most.saturating_sub(5 * units_per_s).div_ceil(IO / UNIT)
    }

    fn parts(&self, name: &str) -> Vec<u64> {
        let part = |pool: usize| {
            let part = self.arrays[pool].schedulers[0].part(self.flow(name, pool)).expect("a part");
            part.minimum_bytes_per_s / UNIT
        };
        (0..self.arrays.len()).map(part).collect()
    }

    fn rates(&self, name: &str, from_s: u64) -> Vec<u64> {
        let rate = |pool: usize| {
            let loads = &self.loads[&(name.to_owned(), pool)];
            loads.iter().map(|load| self.arrays[pool].rate(*load, from_s * SECOND_NS, self.now)).sum()
        };
        (0..self.arrays.len()).map(rate).collect()
    }
}

/// Units per second of a pool.
const POOL: u64 = CAPACITY / UNIT;

#[test]
fn a_minimum_holds_in_sum_over_2_3_and_16_pools_with_neighbours() {
    for pools in [2, 3, 16] {
        // Neighbours would leave a twentieth of each pool.
        let wanted = POOL / 2 * pools as u64;
        let mut bed = Pools::new(pools, &[(Policy::none(), 4); 8], &[("p", minimum(wanted), 2)]);
        (0..pools).for_each(|pool| bed.ask("p", pool, 8));
        bed.run(30);
        let worst = bed.worst_permille("p", wanted, 5);
        println!("{pools}: {worst} {:?} {:?}", bed.parts("p"), bed.rates("p", 5));
        assert!(worst >= 950, "{pools}: {worst}");
        // All of it wanders to the half of the pools.
        let half = pools / 2;
        (0..half).for_each(|pool| bed.ask("p", pool, 0));
        bed.run(30);
        let wanted_now = wanted.min(POOL * 9 / 10 * (pools - half) as u64);
        let worst = bed.worst_permille("p", wanted_now, 35);
        println!("{pools}: {worst} {:?} {:?}", bed.parts("p"), bed.rates("p", 35));
        assert!(worst >= 950, "{pools} after it has wandered: {worst}");
    }
}

#[test]
fn a_minimum_goes_to_the_pool_that_can_give_it() {
    let mut bed =
        Pools::new(3, &[(minimum(POOL * 7 / 10), 32), (Policy::none(), 8)], &[("p", minimum(POOL), 2)]);
    // Its neighbour in the third pool is idle.
    bed.arrays[2].set_outstanding(0, 0);
    (0..3).for_each(|pool| bed.ask("p", pool, 16));
    bed.run(40);
    let worst = bed.worst_permille("p", POOL, 5);
    println!("{worst} {:?} {:?}", bed.parts("p"), bed.rates("p", 5));
    assert!(worst >= 950, "{worst}");
    for pool in 0..2 {
        let other = bed.arrays[pool].rate(0, 5 * SECOND_NS, bed.now);
        assert!(other >= POOL * 7 / 10 * 95 / 100, "the neighbour in pool {pool}: {other}");
    }
    // Now it asks in the third, and is idle in the first.
    bed.arrays[2].set_outstanding(0, 32);
    bed.arrays[0].set_outstanding(0, 0);
    bed.run(40);
    let worst = bed.worst_permille("p", POOL, 45);
    println!("{worst} {:?} {:?}", bed.parts("p"), bed.rates("p", 45));
    assert!(worst >= 950, "{worst}");
}

#[test]
fn two_policies_that_meet_in_a_pool_make_room_for_each_other() {
    let policies = [("p", minimum(POOL * 8 / 10), 1), ("q", minimum(POOL * 8 / 10), 1)];
    let mut bed = Pools::new(2, &[(Policy::none(), 8)], &policies);
    bed.ask("p", 0, 32);
    (0..2).for_each(|pool| bed.ask("q", pool, 32));
    bed.run(40);
    for name in ["p", "q"] {
        let worst = bed.worst_permille(name, POOL * 8 / 10, 5);
        println!("{name}: {worst} {:?} {:?}", bed.parts(name), bed.rates(name, 5));
        assert!(worst >= 950, "{name}: {worst}");
    }
}

#[test]
fn a_minimum_that_no_pool_can_give_is_divided_nevertheless_and_said() {
    let mut bed = Pools::new(3, &[(Policy::none(), 8)], &[("p", minimum(POOL * 4), 2)]);
    (0..3).for_each(|pool| bed.ask("p", pool, 8));
    bed.run(40);
    println!("{:?} {:?}", bed.parts("p"), bed.rates("p", 5));
    let sum: u64 = bed.parts("p").iter().sum();
    assert!(sum.abs_diff(POOL * 4) <= 3, "{sum}");
    for pool in 0..3 {
        let health = bed.arrays[pool].schedulers[0].health(bed.flow("p", pool));
        assert!(matches!(health, crate::Health::BelowMinimum { .. }), "pool {pool}: {health:?}");
        assert!(bed.arrays[pool].rate(0, 5 * SECOND_NS, bed.now) > POOL / 100, "the others have the floor");
    }
    bed.policies.insert("p".to_owned(), minimum(POOL));
    (0..3).for_each(|pool| {
        let flow = bed.flow("p", pool);
        let now = bed.now;
        bed.arrays[pool].schedulers[0].set_policy(now, flow, minimum(POOL));
    });
    bed.run(30);
    let worst = bed.worst_permille("p", POOL, 45);
    assert!(worst >= 950, "{worst}");
    for pool in 0..3 {
        assert_eq!(bed.arrays[pool].schedulers[0].health(bed.flow("p", pool)), crate::Health::Ok);
    }
}

#[test]
fn a_maximum_holds_in_sum_while_its_load_wanders_and_is_given() {
    for pools in [2, 3, 16] {
        let most = POOL / 4;
        let mut bed = Pools::new(pools, &[(Policy::none(), 4)], &[("p", maximum(most), 2)]);
        // Responses of the first one are late.
        bed.arrays[0].set_below_ns(|_| 400_000_000);
        let mut rng = fastrand::Rng::with_seed(pools as u64);
        for phase in 0..12 {
            let busy: Vec<usize> = (0..pools).filter(|_| rng.bool()).collect();
            let busy = if busy.is_empty() { vec![phase % pools] } else { busy };
            for pool in 0..pools {
                let out = if busy.contains(&pool) { [1, 4, 32][rng.usize(..3)] } else { 0 };
                bed.ask("p", pool, out);
            }
            let begun = bed.now / SECOND_NS;
            bed.run(15);
            let rates = bed.rates("p", begun + 5);
            let sum: u64 = rates.iter().sum();
            println!("{pools}, phase {phase}: {busy:?} {rates:?} {} %", sum * 100 / most);
            // What is below counts, too: where responses are late, less is given.
            let is_late = busy.contains(&0);
            assert!(is_late || sum * 100 >= most * 90, "phase {phase} of {pools}: {sum} of {most}");
            busy.iter().for_each(|pool| assert!(rates[*pool] > 0, "pool {pool} stands still"));
        }
        let over = bed.most_over("p", most);
        println!("{pools}: {over} requests over");
        assert!(over <= pools as u64, "{pools}: {over} requests over");
    }
}

/// A depth of 3 gives a small part as well as a deeper one: it was found to cost nothing, and all of the
/// maximum was 60 % short.
#[test]
fn a_small_part_of_a_maximum_does_not_make_the_queue_shallow_for_a_large_one() {
    let most = POOL * 8 / 10;
    let mut bed = Pools::new(8, &[], &[("p", maximum(most), 2)]);
    (0..8).for_each(|pool| bed.ask("p", pool, 8));
    bed.run(60);
    (1..8).for_each(|pool| bed.ask("p", pool, 0));
    bed.run(20);
    let rate = bed.rates("p", 65)[0];
    println!("{rate} of {most}, depth {}", bed.arrays[0].schedulers[0].depth());
    assert!(rate * 100 >= most * 92, "{rate} of {most}");
}

/// What ends late in one pool counts before another one begins more.
#[test]
fn a_maximum_holds_in_sum_where_responses_take_three_seconds() {
    let most = POOL / 8;
    let mut bed = Pools::new(2, &[(Policy::none(), 0)], &[("p", maximum(most), 2)]);
    bed.arrays[0].set_below_ns(|_| 3 * SECOND_NS);
    for _ in 0..4 {
        bed.ask("p", 0, 64);
        bed.ask("p", 1, 0);
        bed.run(11);
        bed.ask("p", 0, 0);
        bed.ask("p", 1, 64);
        bed.run(11);
    }
    let over = bed.most_over("p", most);
    println!("{over} requests over");
    assert!(over <= 2, "{over} requests over");
}

#[test]
fn a_pool_that_does_not_answer_keeps_its_part_and_the_others_have_the_minimum() {
    let limits = Policy { maximum_iops: Some(POOL), ..minimum(POOL / 2) };
    let mut bed = Pools::new(3, &[(Policy::none(), 8); 4], &[("p", limits, 2)]);
    (0..3).for_each(|pool| bed.ask("p", pool, 8));
    bed.run(20);
    bed.silent.insert(1);
    bed.ask("p", 1, 0);
    bed.run(20);
    let worst = bed.worst_permille("p", POOL / 2, 28);
    println!("{worst} {:?}", bed.rates("p", 28));
    assert!(worst >= 950, "{worst}");
    // It was there all along, and uses what it had.
    bed.ask("p", 1, 64);
    bed.run(20);
    bed.silent.clear();
    bed.run(20);
    let over = bed.most_over("p", POOL);
    assert!(over <= 3, "{over} requests over");
    let worst = bed.worst_permille("p", POOL / 2, 28);
    assert!(worst >= 950, "{worst}");
}

/// A pool of which an aggregated maximum held a little never searched its depth: nobody waited, and a minimum
/// had no more than what is outstanding brings.
#[test]
fn a_small_part_of_a_maximum_beside_other_loads_hides_nothing_of_the_depth() {
    let units = CAPACITY / UNIT;
    let maximum = Policy { maximum_iops: Some(units / 10), ..Policy::none() };
    let load = |policy: Policy, outstanding: u32| Load { bytes: 64 << 10, outstanding, ..Load::of(policy) };
    let promised = units * 55 / 100;
    let loads = [load(minimum(promised), 8), load(Policy::none(), 16), load(maximum, 8)];
    let mut array = Array::new(CAPACITY, 4, 1, &loads);
    let (held, _) = array.clients[2];
    array.schedulers[0].set_part(0, held, Some(Terms::of(&maximum, UNIT).even(2)));
    array.run(30 * SECOND_NS);
    let rate = |load: usize| array.rate(load, 15 * SECOND_NS, array.now);
    assert!(rate(0) * 100 >= promised * 98, "{} of {promised}", rate(0));
    assert!(rate(2) * 100 >= units * 5 * 95 / 100, "{} of {}", rate(2), units / 20);
}

/// What a maximum kept from a flow is nobody's debt: the flow was as far behind by weight as its maximum had
/// held it back, and had all of the floor until it had caught up.
#[test]
fn a_flow_that_its_part_of_a_maximum_held_back_leaves_the_others_their_share_of_the_floor() {
    let units = CAPACITY / UNIT;
    let (least, most) = (minimum(units * 3), maximum(units));
    let load = |policy: Policy| Load { bytes: 64 << 10, outstanding: 8, ..Load::of(policy) };
    let loads = [load(least), load(least), load(Policy::none()), load(most)];
    let mut array = Array::new(CAPACITY, 4, 1, &loads);
    array.join(0, 1);
    let [gold, bronze] = [0, 3].map(|load| array.clients[load].0);
    let scheduler = &mut array.schedulers[0];
    scheduler.set_part(0, gold, Some(Terms::of(&least, UNIT).even(9)));
    scheduler.set_part(0, bronze, Some(Terms::of(&most, UNIT).even(20)));
    array.run(20 * SECOND_NS);
    // From now on the minimum is more than the pool can do.
    let now = array.now;
    array.schedulers[0].set_part(now, gold, Some(Terms::of(&least, UNIT).even(2)));
    array.run(20 * SECOND_NS);
    let rate = |load: usize| array.rate(load, 25 * SECOND_NS, array.now);
    println!("{:?}", [0, 1, 2, 3].map(rate));
    for load in [2, 3] {
        assert!(rate(load) >= units / 100 * 95 / 100, "load {load}: {} of {}", rate(load), units / 100);
    }
}
