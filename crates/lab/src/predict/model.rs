//! The network that a ramp is taken for: servers with their outstanding I/Os, in chains by the group that they share.
//!
//! Drives are either in the way of an I/O (a read that misses) or behind it (what the cache writes and reads ahead): then they bound a group's rate
//! and nobody waits before. Which of both, the measured points say.

use super::line::Line;
use super::{Place, Ramp, Refusal};
use crate::mva::{Chain, Network, Rate, Station, solve_chains};

/// Rounds in which the rate of groups whose drives are behind comes down to their bound.
const BOUND_ROUNDS: usize = 8;
/// A rate this near to its bound is at it.
const BOUND_NEAR: f64 = 1e-4;
/// Thinking takes at least this, so that a round always takes time.
const THINK_LEAST_S: f64 = 1e-7;

/// Demands, and how they hang together.
#[derive(Clone, Debug)]
pub(super) struct Model<'a> {
    pub(super) ramp: &'a Ramp,
    /// In the order of the resources; none where a demand was rejected or is nothing.
    pub(super) lines: Vec<Option<Line>>,
    /// A drive's throughput grows with its queue to this power.
    pub(super) sorting: f64,
    /// Whether the drives are behind the cache.
    pub(super) behind: bool,
    /// What an I/O takes besides.
    pub(super) think_s: f64,
}

/// A network's answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) iops: f64,
    /// Of all it can, what each resource gives; of groups, the fullest one.
    pub(super) used: Vec<f64>,
}

impl Model<'_> {
    /// With so many servers.
    pub(super) fn answer(&self, servers: u32) -> Result<Answer, Refusal> {
        let shares = self.ramp.shares(servers);
        let shared = self.shared(servers);
        let mut chains: Vec<Chain> =
            shares.iter().map(|(count, each)| self.chain(servers, *count, *each)).collect();
        let mut rates = solve_chains(&shared, &chains)?;
        let bound = self.bound_per_s(servers);
        for _ in 0..BOUND_ROUNDS {
            if rates.iter().all(|rate| *rate <= bound * (1.0 + BOUND_NEAR)) {
                break;
            }
            for (chain, rate) in chains.iter_mut().zip(&rates) {
                let wait_s = chain.customers as f64 * (1.0 / bound - 1.0 / rate);
                chain.own.think_s = (chain.own.think_s + wait_s).max(self.think_s.max(THINK_LEAST_S));
            }
            rates = solve_chains(&shared, &chains)?;
        }
        let rates: Vec<f64> = rates.into_iter().map(|rate| rate.min(bound)).collect();
        let iops = rates.iter().zip(&shares).map(|(rate, (count, _))| rate * f64::from(*count)).sum();
        let used = (0..self.lines.len()).map(|k| self.used(k, servers, iops, rates[0])).collect();
        Ok(Answer { iops, used })
    }

    fn shared(&self, servers: u32) -> Vec<Station> {
        let each = self.ramp.resources.iter().zip(&self.lines).filter(|(r, _)| r.place == Place::Shared);
        each.filter_map(|(resource, line)| {
            let demand_s = line.as_ref()?.at(servers) * f64::from(resource.units);
            let rate = if resource.units > 1 { Rate::Servers(resource.units) } else { Rate::Single };
            (demand_s > 0.0).then(|| Station { name: resource.name.clone(), demand_s, rate })
        })
        .collect()
    }

    fn chain(&self, servers: u32, count: u32, each: u32) -> Chain {
        let customers = (each * self.ramp.outstanding) as usize;
        let mut stations = Vec::new();
        for (resource, line) in self.ramp.resources.iter().zip(&self.lines) {
            let demand_s = line.map_or(0.0, |line| line.at(servers));
            if resource.place == Place::Group && !self.behind && demand_s > 0.0 {
                let rates = (1..=customers).map(|queue| (queue as f64).powf(self.sorting)).collect();
                let rate = if self.sorting > 0.0 { Rate::Dependent(rates) } else { Rate::Single };
                let drive = Station { name: resource.name.clone(), demand_s, rate };
                stations.extend(std::iter::repeat_n(drive, resource.units as usize));
            }
            if resource.place == Place::Server && demand_s > 0.0 {
                let rate = if each > 1 { Rate::Servers(each) } else { Rate::Single };
                stations.push(Station { name: resource.name.clone(), demand_s, rate });
            }
        }
        let own = Network { think_s: self.think_s.max(THINK_LEAST_S), stations };
        Chain { count: count as usize, customers, own }
    }

    /// What a group behind the cache gives at most.
    fn bound_per_s(&self, servers: u32) -> f64 {
        let groups = self
            .ramp
            .resources
            .iter()
            .zip(&self.lines)
            .filter(|(r, _)| self.behind && r.place == Place::Group);
        let demand_s = groups.filter_map(|(_, line)| Some(line.as_ref()?.at(servers))).fold(0.0, f64::max);
        1.0 / demand_s
    }

    fn used(&self, k: usize, servers: u32, iops: f64, of_fullest: f64) -> f64 {
        let demand_s = self.lines[k].map_or(0.0, |line| line.at(servers));
        let resource = &self.ramp.resources[k];
        match resource.place {
            Place::Shared => iops * demand_s,
            Place::Server => iops * demand_s / f64::from(servers),
            Place::Group if self.behind => of_fullest * demand_s,
            Place::Group => {
                let customers = f64::from(self.ramp.fullest(servers) * self.ramp.outstanding);
                let queue = (customers / f64::from(resource.units)).max(1.0);
                of_fullest * demand_s / queue.powf(self.sorting)
            }
        }
    }
}

/// The think time with which the model comes nearest to the measured points (servers, I/Os per second), by golden section; and how near.
pub(super) fn calibrate(
    model: &mut Model<'_>,
    points: &[(u32, f64)],
    around_s: Option<f64>,
) -> Result<f64, Refusal> {
    let round_s = |(servers, iops): &(u32, f64)| {
        f64::from(servers * model.ramp.outstanding) / iops.max(f64::MIN_POSITIVE)
    };
    let most_s = points.iter().map(round_s).fold(0.0, f64::max);
    // A bootstrap sample is near to the whole: a quarter around takes fewer steps.
    let (mut low, mut high, steps) = match around_s {
        Some(s) => (0.75 * s, (1.25 * s).max(0.02 * most_s), 8),
        None => (0.0, most_s, 22),
    };
    let distance = |model: &mut Model<'_>, think_s: f64| -> Result<f64, Refusal> {
        model.think_s = think_s;
        off(model, points)
    };
    let golden = (5f64.sqrt() - 1.0) / 2.0;
    let (mut a, mut b) = (high - golden * (high - low), low + golden * (high - low));
    let (mut at_a, mut at_b) = (distance(model, a)?, distance(model, b)?);
    for _ in 0..steps {
        if at_a <= at_b {
            (high, b, at_b) = (b, a, at_a);
            a = high - golden * (high - low);
            at_a = distance(model, a)?;
        } else {
            (low, a, at_a) = (a, b, at_b);
            b = low + golden * (high - low);
            at_b = distance(model, b)?;
        }
    }
    let best = if at_a <= at_b { a } else { b };
    distance(model, best)
}

/// Root mean square of the distance of the model to the points, in shares of them.
fn off(model: &Model<'_>, points: &[(u32, f64)]) -> Result<f64, Refusal> {
    let mut sum = 0.0;
    for (servers, iops) in points {
        sum += (model.answer(*servers)?.iops / iops).ln().powi(2);
    }
    Ok((sum / points.len() as f64).sqrt())
}
