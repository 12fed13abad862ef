//! What a set received against the closed formula.

use qos::{Claim, DepthLimit, Settings, expected_with_floor, reach};

use super::bars::{self, LOOK_NS, SECOND_NS, SETTLES_NS, WINDOW_NS};
use super::draw::{Set, capacity_units};
use super::pool::{Load, Run, UNIT_BYTES};

/// Without policies, the scheduler learns the depth of the pool; then they are put in force.
const WITHOUT_NS: u64 = 30 * SECOND_NS;

/// The formula counts in these parts of a unit: some clients are due less than a unit per second.
const PARTS: u64 = 1000;

/// A client in a set; units per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    pub(crate) load: Load,
    pub(crate) rate: f64,
    pub(crate) expected: f64,
    /// In the worst 1 % of the windows.
    pub(crate) worst: f64,
    pub(crate) judged_ns: u64,
    /// What its outstanding requests allow at most: q x cost / service time.
    pub(crate) reach: f64,
    /// The same in the worst 1 % of the windows, in which service times happen to be long.
    pub(crate) steady_reach: f64,
}

impl Served {
    /// How far it is from the formula, as a share of it; what one request makes is left out.
    pub(crate) fn off(&self) -> f64 {
        bars::off(self.rate, self.expected, self.load.cost_units(), self.judged_ns)
    }

    /// Whether no scheduler can keep its minimum in 99 % of the windows.
    pub(crate) fn is_beyond_reach(&self) -> bool {
        self.load.policy.minimum_iops as f64 > self.steady_reach
    }

    /// The worst windows as a share of the minimum, less one request; none without a minimum.
    pub(crate) fn kept(&self) -> Option<f64> {
        bars::kept(self.worst, self.load.policy.minimum_iops, self.load.cost_units())
    }
}

/// A set as it was served.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) set: Set,
    pub(crate) clients: Vec<Served>,
    /// All together, as a share of what the pool and the clients' demand allow.
    pub(crate) sum: f64,
    /// Whether the minimums fit, each limited to its reach.
    pub(crate) feasible: bool,
    /// On average.
    pub(crate) depth: f64,
    pub(crate) limit: DepthLimit,
}

impl Outcome {
    /// The client farthest from the formula.
    pub(crate) fn farthest(&self) -> &Served {
        self.clients.iter().max_by(|a, b| a.off().total_cmp(&b.off())).expect("a set has clients")
    }

    /// The worst windows of all minimums that fit.
    pub(crate) fn kept(&self) -> Option<f64> {
        let fit = self.clients.iter().filter(|c| self.feasible && !c.is_beyond_reach());
        fit.filter_map(Served::kept).min_by(f64::total_cmp)
    }

    /// Minimums that no scheduler can keep, because the client has too few outstanding requests.
    pub(crate) fn beyond_reach(&self) -> usize {
        self.clients.iter().filter(|c| c.is_beyond_reach()).count()
    }
}

/// Runs a set, and judges so much of it.
pub(crate) fn play(set: &Set, judged_ns: u64) -> Outcome {
    let mut run = Run::new(set.pool, &set.loads, Settings::default(), set.seed);
    run.run_until(WITHOUT_NS);
    run.set_policies();
    let from = WITHOUT_NS + SETTLES_NS;
    run.run_until(from);
    let to = from + judged_ns;
    let mut depths = 0;
    let looks = (from..to).step_by(LOOK_NS as usize);
    for at in looks.clone() {
        run.run_until(at + LOOK_NS);
        depths += run.scheduler.depth();
    }
    judge(set, &run, (from, to), f64::from(depths) / looks.count() as f64)
}

fn judge(set: &Set, run: &Run, (from, to): (u64, u64), depth: f64) -> Outcome {
    let capacity = capacity_units(&set.pool, set.loads[0].bytes);
    let service_ns = |load: &Load| set.pool.service_ns(load.bytes);
    let claim = |load: &Load| Claim {
        minimum: load.policy.minimum_iops * PARTS,
        maximum: load.policy.maximum_iops.map(|most| most * PARTS),
        weight: u64::from(load.policy.weight),
        demand: Some(reach(
            load.outstanding * PARTS,
            load.bytes.max(UNIT_BYTES),
            service_ns(load),
            UNIT_BYTES,
        )),
    };
    let claims: Vec<Claim> = set.loads.iter().map(claim).collect();
    let rate = |load: usize| {
        let count = count(&run.done[load], from, to);
        count as f64 * set.loads[load].cost_units() * SECOND_NS as f64 / (to - from) as f64
    };
    let rates: Vec<f64> = (0..set.loads.len()).map(rate).collect();
    let all: f64 = rates.iter().sum();
    let floor = Settings::default().floor_percent;
    let fill = |units: f64| expected_with_floor((units * PARTS as f64) as u64, floor, &claims);
    let possible = fill(capacity);
    let expected = fill(all);
    let reach_of = |load: usize| claims[load].demand.unwrap_or(u64::MAX) as f64 / PARTS as f64;
    let served = |load: usize| Served {
        load: set.loads[load],
        rate: rates[load],
        judged_ns: to - from,
        expected: expected.rates[load] as f64 / PARTS as f64,
        worst: bars::worst(
            |from, to| count(&run.done[load], from, to),
            (from, to),
            set.loads[load].cost_units(),
        ),
        reach: reach_of(load),
        steady_reach: steady(set, &set.loads[load], reach_of(load)),
    };
    Outcome {
        set: set.clone(),
        clients: (0..set.loads.len()).map(served).collect(),
        sum: all * PARTS as f64 / possible.rates.iter().sum::<u64>() as f64,
        feasible: possible.feasible,
        depth,
        limit: run.scheduler.depth_limit(),
    }
}

/// The reach less 2.33 standard errors of the service times in a window: 1 % of a normal distribution is
/// below.
fn steady(set: &Set, load: &Load, reach: f64) -> f64 {
    let requests = reach / load.cost_units() * WINDOW_NS as f64 / SECOND_NS as f64;
    reach * (1.0 - 2.33 * set.pool.deviation(load.bytes) / requests.sqrt())
}

fn count(done: &[u64], from: u64, to: u64) -> usize {
    done.partition_point(|at| *at < to) - done.partition_point(|at| *at < from)
}
