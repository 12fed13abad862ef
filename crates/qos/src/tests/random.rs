//! Random policies and clients: nothing is idle while somebody may be served, nobody starves, promises are
//! kept.

use super::*;
use crate::expected;

fn policy(rng: &mut fastrand::Rng, fair_units: u64) -> Policy {
    let minimum_iops = if rng.bool() { rng.u64(1..=fair_units) } else { 0 };
    let maximum_iops = rng.bool().then(|| minimum_iops.max(1) + rng.u64(0..2 * fair_units));
    let bandwidth_bytes_per_s = (rng.u8(..4) == 0).then(|| (minimum_iops + fair_units) * UNIT);
    let weight = [1, 50, 100, 200, 1000][rng.usize(..5)];
    Policy { minimum_iops, maximum_iops, bandwidth_bytes_per_s, weight, burst_units: rng.u64(..100) }
}

fn check(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let (count, units) = (rng.usize(2..12), rng.u64(2_000..20_000));
    let places = rng.u64(1..=4);
    let mut loads = Vec::new();
    for _ in 0..count {
        let policy = policy(&mut rng, units / count as u64);
        policy.check().expect("a good policy");
        let bytes = [512, 4096, 8192, 65_536][rng.usize(..4)];
        loads.push(Load { bytes, outstanding: rng.u32(16..64), ..Load::of(policy) });
    }
    let settings = Settings { depth_max: 8, ..Settings::default() };
    let mut array = Array::with(settings, units * UNIT, places, 1, &loads);
    array.run(20 * SECOND_NS);
    let (from, to) = (5 * SECOND_NS, array.now);
    let rate = |load: usize| array.rate(load, from, to);
    let feasible = expected(units, &array.claims()).feasible;
    let mut all_limited = true;
    for (load, of) in loads.iter().enumerate() {
        let (got, most) = (rate(load), of.policy.maximum_iops.unwrap_or(u64::MAX));
        let cost = of.bytes.max(UNIT) / UNIT;
        assert!(got > 0, "seed {seed}: load {load} starves");
        assert!(
            !feasible || got * 100 + 100 >= of.policy.minimum_iops * 98,
            "seed {seed}, load {load}: {got}"
        );
        let best = array.windows(load, 0, to).into_iter().max().expect("windows");
        assert!(best <= most.saturating_mul(5).saturating_add(cost), "seed {seed}, load {load}: {best}");
        let is_limited = of.policy.maximum_iops.is_some() || of.policy.bandwidth_bytes_per_s.is_some();
        all_limited &= is_limited;
    }
    let sum: u64 = (0..count).map(rate).sum();
    assert!(all_limited || sum * 100 >= units * 97, "seed {seed}: {sum} of {units}");
}

#[test]
fn random_policies_are_kept() {
    (1..=24).for_each(check);
}
