//! The network that a ramp is taken for: servers with their outstanding I/Os, in chains by the group that
//! they share.
//!
//! What the servers share, and what each has, are stations. A group bounds its servers' rate (see `groups`):
//! those wait outside until they keep to it, and meanwhile the others have more of what is shared.

use super::groups::Groups;
use super::line::Line;
use super::{Place, Ramp, Refusal, Sample};
use crate::mva::{Chain, Network, Rate, Station, solve_chains};

/// Rounds in which the rates of groups come down to their bounds.
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
    /// None: nothing is known of the groups yet, and they bound nobody.
    pub(super) groups: Option<Groups>,
    /// What an I/O takes besides.
    pub(super) think_s: f64,
    /// How regular services are: 0 as the network presumes (exponential), 1 as if nobody ever met anybody
    /// before a station is full.
    pub(super) regular: f64,
}

/// A network's answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) iops: f64,
    /// Of one group, for each share.
    pub(super) groups: Vec<f64>,
    /// Of all it can, what each resource gives.
    pub(super) used: Vec<f64>,
    /// Of all it can, what the fullest group gives; none where it bounds nobody.
    pub(super) group_used: Option<f64>,
}

impl Model<'_> {
    /// With so many servers that go to the groups in turn.
    pub(super) fn answer(&self, servers: u32) -> Result<Answer, Refusal> {
        self.placed((servers, servers), &self.ramp.shares(servers))
    }

    /// Whether no measured state says if groups bound so many servers.
    pub(super) fn is_unknown(&self, servers: u32) -> bool {
        let shares = self.ramp.shares(servers);
        self.groups.as_ref().is_some_and(|groups| groups.is_unknown(servers, &shares))
    }

    /// As in a state that was measured.
    pub(super) fn answer_as(&self, state: &Sample) -> Result<Answer, Refusal> {
        self.placed((state.servers, state.share_of), &state.shares())
    }

    fn placed(&self, (servers, share_of): (u32, u32), shares: &[(u32, u32)]) -> Result<Answer, Refusal> {
        let shared = self.shared(servers);
        let mut chains: Vec<Chain> =
            shares.iter().map(|(count, each)| self.chain(servers, *count, *each)).collect();
        let mut rates = solve_chains(&shared, &chains)?;
        let bounds = match &self.groups {
            Some(groups) => groups.most_per_s(share_of, shares),
            None => vec![f64::INFINITY; shares.len()],
        };
        for _ in 0..BOUND_ROUNDS {
            if rates.iter().zip(&bounds).all(|(rate, bound)| *rate <= bound * (1.0 + BOUND_NEAR)) {
                break;
            }
            for ((chain, rate), bound) in chains.iter_mut().zip(&rates).zip(&bounds) {
                let wait_s = chain.customers as f64 * (1.0 / bound - 1.0 / rate);
                chain.own.think_s = (chain.own.think_s + wait_s).max(self.think_s.max(THINK_LEAST_S));
            }
            rates = solve_chains(&shared, &chains)?;
        }
        let rates = self.regularly(&rates, &self.unhindered(&shared, &chains));
        let rates: Vec<f64> = rates.iter().zip(&bounds).map(|(rate, bound)| rate.min(*bound)).collect();
        let iops = rates.iter().zip(shares).map(|(rate, (count, _))| rate * f64::from(*count)).sum();
        let used = (0..self.lines.len()).map(|k| self.used(k, servers, iops)).collect();
        let group_used = rates.first().zip(bounds.first()).map(|(rate, bound)| rate / bound);
        Ok(Answer { iops, groups: rates, used, group_used: group_used.filter(|used| *used > 0.0) })
    }

    /// Between the network's rates and those without any waiting.
    fn regularly(&self, rates: &[f64], unhindered: &[f64]) -> Vec<f64> {
        let between = |(rate, most): (&f64, &f64)| rate * (most / rate).max(1.0).powf(self.regular);
        rates.iter().zip(unhindered).map(between).collect()
    }

    /// What each chain gets when nobody waits before a station is full; then all get less alike.
    fn unhindered(&self, shared: &[Station], chains: &[Chain]) -> Vec<f64> {
        let shared_s: f64 = shared.iter().map(|station| station.demand_s).sum();
        let alone = |chain: &Chain| {
            let own = chain.own.bounds(chain.customers).most_per_s;
            own.min(chain.customers as f64 / (chain.own.total_s() + shared_s))
        };
        let alone: Vec<f64> = chains.iter().map(alone).collect();
        let sum: f64 = alone.iter().zip(chains).map(|(rate, chain)| rate * chain.count as f64).sum();
        let units = |station: &Station| match station.rate {
            Rate::Servers(units) => f64::from(units),
            _ => 1.0,
        };
        let full = shared.iter().map(|station| sum * station.demand_s / units(station)).fold(1.0, f64::max);
        alone.into_iter().map(|rate| rate / full).collect()
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
            if resource.place == Place::Server && demand_s > 0.0 {
                let rate = if each > 1 { Rate::Servers(each) } else { Rate::Single };
                stations.push(Station { name: resource.name.clone(), demand_s, rate });
            }
        }
        let own = Network { think_s: self.think_s.max(THINK_LEAST_S), stations };
        Chain { count: count as usize, customers, own }
    }

    fn used(&self, k: usize, servers: u32, iops: f64) -> f64 {
        let demand_s = self.lines[k].map_or(0.0, |line| line.at(servers));
        match self.ramp.resources[k].place {
            Place::Shared => iops * demand_s,
            Place::Server => iops * demand_s / f64::from(servers),
        }
    }
}

/// The think time with which the model comes nearest to the measured states, by golden section; and how near.
pub(super) fn calibrate(
    model: &mut Model<'_>,
    states: &[&Sample],
    around_s: Option<f64>,
) -> Result<f64, Refusal> {
    let round_s = |state: &&Sample| f64::from(state.servers * model.ramp.outstanding) / state.iops;
    let most_s = states.iter().map(round_s).fold(0.0, f64::max);
    // A bootstrap sample is near to the whole: a quarter around takes fewer steps.
    let (mut low, mut high, steps) = match around_s {
        Some(s) => (0.75 * s, (1.25 * s).max(0.02 * most_s), 8),
        None => (0.0, most_s, 22),
    };
    let distance = |model: &mut Model<'_>, think_s: f64| -> Result<f64, Refusal> {
        model.think_s = think_s;
        off(model, states)
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

/// Root mean square of the distance of the model to the states, in shares of them.
pub(super) fn off(model: &Model<'_>, states: &[&Sample]) -> Result<f64, Refusal> {
    let mut sum = 0.0;
    for state in states {
        sum += (model.answer_as(state)?.iops / state.iops).ln().powi(2);
    }
    Ok((sum / states.len().max(1) as f64).sqrt())
}
