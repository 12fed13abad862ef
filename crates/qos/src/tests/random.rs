//! Random policies and clients: nothing is idle while somebody may be served, nobody starves, promises are
//! kept.

use super::*;
use crate::{ClientId, FlowId, Next, RATE_MAX, RequestId, WEIGHT_MAX, expected};

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

/// A number up to 2^`bits`, small or large alike.
fn any(rng: &mut fastrand::Rng, bits: u32) -> u64 {
    let most = 1 << rng.u32(0..=bits);
    rng.u64(0..=most)
}

/// A scheduler in the hands of hosts and operators who do anything that the interface allows.
struct Anything {
    rng: fastrand::Rng,
    scheduler: Scheduler,
    now: u64,
    flows: Vec<FlowId>,
    clients: Vec<ClientId>,
    waiting: Vec<RequestId>,
    below: Vec<RequestId>,
}

impl Anything {
    fn policy(&mut self) -> Policy {
        let rng = &mut self.rng;
        let minimum_iops = if rng.bool() { any(rng, 30) } else { 0 };
        let policy = Policy {
            minimum_iops,
            maximum_iops: rng.bool().then(|| rng.u64(minimum_iops.max(1)..=RATE_MAX)),
            bandwidth_bytes_per_s: rng.bool().then(|| rng.u64(1..=RATE_MAX << 13)),
            weight: rng.u32(1..=WEIGHT_MAX),
            burst_units: rng.u64(0..=RATE_MAX),
        };
        policy.check().expect("a valid policy");
        policy
    }

    fn settings(rng: &mut fastrand::Rng) -> Settings {
        Settings {
            unit_bytes: 512 << rng.u32(0..=11),
            depth_max: rng.u32(0..=1024),
            floor_percent: rng.u32(0..=50),
            depth_adapts: rng.bool(),
            anticipates: rng.bool(),
        }
    }

    fn step(&mut self) {
        self.now += any(&mut self.rng, 37);
        let now = self.now;
        let (flow, client) = (
            self.flows[self.rng.usize(..self.flows.len())],
            self.clients[self.rng.usize(..self.clients.len())],
        );
        match self.rng.u8(..20) {
            0 => {
                let policy = self.policy();
                self.scheduler.set_policy(now, flow, policy);
            }
            1 => self.scheduler.move_client(now, client, flow),
            2 => self.scheduler.charge(now, client, 1 << self.rng.u32(0..=40)),
            3 => self.scheduler.set_settings(now, Anything::settings(&mut self.rng)),
            4 => self.scheduler.close_window(now, &mut Vec::new()),
            5 => self.scheduler.set_share(now, self.rng.bool().then(|| self.rng.u64(..RATE_MAX))),
            6 if !self.waiting.is_empty() => {
                let request = self.waiting.swap_remove(self.rng.usize(..self.waiting.len()));
                assert!(self.scheduler.cancel(now, request));
            }
            7..14 => {
                let bytes = any(&mut self.rng, 40);
                let id = self.scheduler.submit(now, client, bytes, 0);
                self.waiting.push(id);
            }
            _ if !self.below.is_empty() => {
                let request = self.below.swap_remove(self.rng.usize(..self.below.len()));
                self.scheduler.complete(now, request);
            }
            _ => {}
        }
        while let Next::Dispatch(dispatch) = self.scheduler.next(now) {
            self.waiting.retain(|waiting| *waiting != dispatch.request);
            self.below.push(dispatch.request);
        }
        assert!(self.scheduler.depth() >= 1);
        assert_eq!(self.scheduler.waiting() as usize, self.waiting.len());
    }
}

/// Any number of clients, any settings, any times: no panic, and no request is lost.
#[test]
fn nothing_that_hosts_and_operators_do_panics() {
    for seed in 1..=40 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut scheduler = Scheduler::new(Anything::settings(&mut rng));
        let flows: Vec<FlowId> = (0..rng.u32(1..40)).map(|_| scheduler.add_flow(0, Policy::none())).collect();
        let client = |_| scheduler.add_client(0, flows[rng.usize(..flows.len())]);
        let clients = (0..60).map(client).collect();
        let (waiting, below) = (vec![], vec![]);
        let mut anything = Anything { rng, scheduler, now: 0, flows, clients, waiting, below };
        (0..3000).for_each(|_| anything.step());
    }
}
