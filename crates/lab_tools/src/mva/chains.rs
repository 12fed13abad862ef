//! Several chains of customers that share stations: each chain has stations of its own, too, and visits no
//! other chain's.
//!
//! ```text
//!   chain 1: think Z₁ ──> its group ──┐
//!   chain 2: think Z₂ ──> its group ──┼──> shared: port, controller ──> back
//!   chain 3: …                        ┘
//! ```
//!
//! Servers on RAID groups of one array are like this. With `f_g(i)` the normalisation constant of chain g's
//! own part with i customers and `G(J)` that of the shared part with J, the whole has `Σ_J J!·G(J)·Σ_{j₁+…=J}
//! Π f_g(N_g−j_g)/j_g!` (product form), and chain g's throughput is that of one customer less in it over that
//! of all. The factorials are turned into Poisson weights around the expected J, so that nothing that matters
//! underflows.

use super::network::{CUSTOMERS_MAX, Network, NetworkError, Rate, Station};
use super::schweitzer::approximated;
use super::solve::{convolved, factors};

/// Rounds at most in which the scales come near the throughputs sought.
const ROUNDS: usize = 6;
/// A scale within this factor of what came out lost nothing.
const NEAR: f64 = 1.5;

/// Chains that are alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Chain {
    /// How many there are.
    pub count: usize,
    /// Customers in each.
    pub customers: usize,
    /// What they do outside the shared stations: their thinking, and the stations of each chain.
    pub own: Network,
}

/// What is expected of the solution: it decides about scaling only.
struct Guess {
    per_s: Vec<f64>,
    shared_customers: f64,
}

/// More customers than even the approximation is for: a mistake of the caller.
const APPROXIMATED_MAX: usize = 1 << 20;

/// The throughput of one chain of each kind, in rounds per second: exactly, and nearly (see `schweitzer`)
/// where there are too many customers for that.
pub fn solve_chains(shared: &[Station], chains: &[Chain]) -> Result<Vec<f64>, NetworkError> {
    let total: usize = chains.iter().map(|chain| chain.count * chain.customers).sum();
    let all = Network { think_s: 0.0, stations: shared.to_vec() };
    if total > APPROXIMATED_MAX {
        return Err(NetworkError::Customers(total));
    }
    let is_exact = total <= CUSTOMERS_MAX;
    if !shared.is_empty() {
        all.check(if is_exact { total } else { 1 })?;
    }
    for chain in chains {
        // A chain may have nothing of its own.
        if chain.own.total_s() > 0.0 || shared.is_empty() {
            chain.own.check(if is_exact { chain.customers } else { 1 })?;
        }
    }
    if !is_exact {
        return Ok(approximated(shared, chains));
    }
    let mut guess = first_guess(shared, chains, total);
    for _ in 0..ROUNDS {
        let next = round(shared, chains, total, &guess);
        let near = |(a, b): (&f64, &f64)| a / b < NEAR && b / a < NEAR;
        let is_near = next.per_s.iter().zip(&guess.per_s).all(near);
        guess = next;
        if is_near {
            break;
        }
    }
    Ok(guess.per_s)
}

fn first_guess(shared: &[Station], chains: &[Chain], total: usize) -> Guess {
    let demand_s: f64 = shared.iter().map(|station| station.demand_s).sum();
    let most_per_s = match shared.is_empty() {
        true => f64::INFINITY,
        false => Network { think_s: 0.0, stations: shared.to_vec() }.bounds(total.max(1)).most_per_s,
    };
    let alone = |chain: &Chain| {
        let own = chain.own.bounds(chain.customers);
        let round_s = chain.own.total_s() + demand_s;
        if chain.own.total_s() > 0.0 {
            own.most_per_s.min(chain.customers as f64 / round_s)
        } else {
            chain.customers as f64 / round_s
        }
    };
    let sum: f64 = chains.iter().map(|chain| chain.count as f64 * alone(chain)).sum();
    let by = (most_per_s / sum).min(1.0);
    let per_s: Vec<f64> = chains.iter().map(|chain| alone(chain) * by).collect();
    let shared_customers = match by < 1.0 {
        true => total as f64 / 2.0,
        false => (sum * demand_s).min(total as f64),
    };
    Guess { per_s, shared_customers }
}

fn round(shared: &[Station], chains: &[Chain], total: usize, guess: &Guess) -> Guess {
    let sum: f64 = chains.iter().zip(&guess.per_s).map(|(chain, per_s)| chain.count as f64 * per_s).sum();
    let mean = guess.shared_customers.clamp(0.5, total as f64);
    let parts: Vec<[Vec<f64>; 2]> = chains
        .iter()
        .zip(&guess.per_s)
        .map(|(chain, per_s)| part(chain, *per_s, mean * per_s / sum))
        .collect();
    let weights = shared_weights(shared, total, sum, mean);
    let mut next = Guess { per_s: Vec::new(), shared_customers: 0.0 };
    for k in 0..chains.len() {
        let mut others = vec![1.0];
        for (l, other) in chains.iter().enumerate() {
            for _ in 0..other.count - usize::from(k == l) {
                others = joined(&others, &parts[l][0]);
            }
        }
        let [whole, less] = [0, 1].map(|missing| dot(&others, &parts[k][missing], &weights));
        next.per_s.push(guess.per_s[k] * less.0 / whole.0);
        if k == 0 {
            next.shared_customers = whole.1 / whole.0;
        }
    }
    next
}

/// The own part of a chain by how many of it are at the shared stations; then the same with one customer
/// less. Both have one scale.
fn part(chain: &Chain, per_s: f64, mean: f64) -> [Vec<f64>; 2] {
    let n = chain.customers;
    let mut own = factors(n, |i| per_s * chain.own.think_s / i as f64);
    for station in &chain.own.stations {
        own = convolved(&own, &factors(n, |i| per_s * station.demand_s / station.rate(i)));
    }
    let poisson = factors(n, |j| mean / j as f64);
    let of = |present: usize| (0..=present).map(|j| own[present - j] * poisson[j]).collect();
    [of(n), of(n - 1)]
}

/// The convolution of both, whole, scaled to a maximum of 1.
fn joined(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; a.len() + b.len() - 1];
    for (i, x) in a.iter().enumerate() {
        for (j, y) in b.iter().enumerate() {
            out[i + j] += x * y;
        }
    }
    let most = out.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    out.iter_mut().for_each(|value| *value /= most);
    out
}

/// Of the shared stations with J customers, over the Poisson weight that the chains' parts have brought in.
fn shared_weights(shared: &[Station], total: usize, per_s: f64, mean: f64) -> Vec<f64> {
    let mut all = factors(total, |_| 0.0);
    for station in shared {
        let load = per_s * station.demand_s;
        match station.rate {
            Rate::Single => all = with_single(all, load),
            _ => all = convolved(&all, &factors(total, |j| load / station.rate(j))),
        }
    }
    let poisson = (0..=total).scan(0.0, |log, j| {
        *log += if j == 0 { 0.0 } else { (mean / j as f64).ln() };
        Some(*log)
    });
    let logs: Vec<f64> = all.iter().zip(poisson).map(|(weight, log)| weight.ln() - log).collect();
    // Far from what is expected the weights may be out of any range; there the chains' parts are nothing.
    let near = logs[(mean.round() as usize).min(total)];
    let near = if near.is_finite() { near } else { 0.0 };
    logs.into_iter().map(|log| (log - near).clamp(-600.0, 600.0).exp() * f64::from(log.is_finite())).collect()
}

/// The convolution with a station of one server: its factors are a geometric series, so each value follows
/// from the one before.
fn with_single(mut all: Vec<f64>, load: f64) -> Vec<f64> {
    let mut most = all[0];
    for j in 1..all.len() {
        all[j] += load * all[j - 1];
        if all[j] > most {
            most = all[j];
        }
        if most > 1e200 {
            all.iter_mut().for_each(|value| *value /= most);
            most = 1.0;
        }
    }
    all.iter_mut().for_each(|value| *value /= most);
    all
}

/// The sum over all customers at the shared stations, and that with their number.
fn dot(others: &[f64], own: &[f64], weights: &[f64]) -> (f64, f64) {
    let (mut sum, mut customers) = (0.0, 0.0);
    for (total, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
        let at = |j: usize| own[j] * others.get(total - j).copied().unwrap_or(0.0);
        let value: f64 = weight * (0..=total.min(own.len() - 1)).map(at).sum::<f64>();
        sum += value;
        customers += value * total as f64;
    }
    (sum, customers)
}

#[cfg(test)]
mod tests {
    use super::super::solve;
    use super::*;

    fn own(think_s: f64, stations: &[(f64, Rate)]) -> Network {
        let station = |(demand_s, rate): &(f64, Rate)| Station {
            name: "own".into(),
            demand_s: *demand_s,
            rate: rate.clone(),
        };
        Network { think_s, stations: stations.iter().map(station).collect() }
    }

    fn check(got: f64, should: f64) {
        assert!((got / should - 1.0).abs() < 1e-6, "{got} should be {should}");
    }

    #[test]
    fn one_chain_is_a_network() {
        for (think_s, customers) in [(0.0, 7), (0.003, 40), (0.5, 3), (0.02, 300)] {
            let shared = [Station::single("port", 0.001), Station::single("controller", 0.0005)];
            let group =
                own(think_s, &[(0.004, Rate::Dependent((1..9).map(|j| f64::from(j).powf(0.3)).collect()))]);
            let mut whole = group.clone();
            whole.stations.extend(shared.clone());
            let should = solve(&whole, customers).expect("a network")[customers - 1].throughput_per_s;
            let got = solve_chains(&shared, &[Chain { count: 1, customers, own: group }]).expect("a network");
            check(got[0], should);
        }
    }

    #[test]
    fn chains_that_share_everything_are_one() {
        let shared = [Station::single("port", 0.002)];
        let chains =
            [(3, 4), (1, 20)].map(|(count, customers)| Chain { count, customers, own: own(0.1, &[]) });
        let got = solve_chains(&shared, &chains).expect("a network");
        let whole = Network { think_s: 0.1, stations: shared.to_vec() };
        let should = solve(&whole, 32).expect("a network")[31].throughput_per_s / 32.0;
        check(got[0], 4.0 * should);
        check(got[1], 20.0 * should);
    }

    #[test]
    fn two_customers_in_two_chains_agree_with_the_chain_of_markov() {
        // Each thinks at rate 10 or is at the one station, rate 30 shared between those present. States: 0,
        // 1, 2 there. By balance: p1 = p0·20/30, p2 = p1·10/30; the throughput is 30·(p1 + p2).
        let (p1, p2) = (20.0 / 30.0, 20.0 / 30.0 * 10.0 / 30.0);
        let should = 30.0 * (p1 + p2) / (1.0 + p1 + p2) / 2.0;
        let chains = [Chain { count: 2, customers: 1, own: own(0.1, &[]) }];
        check(solve_chains(&[Station::single("port", 1.0 / 30.0)], &chains).expect("a network")[0], should);
    }

    #[test]
    fn nothing_shared_leaves_each_alone_and_a_shared_station_saturates() {
        let chains = [Chain { count: 4, customers: 8, own: own(0.01, &[(0.005, Rate::Single)]) }];
        let alone = solve(&chains[0].own, 8).expect("a network")[7].throughput_per_s;
        check(solve_chains(&[], &chains).expect("a network")[0], alone);
        let shared = [Station::single("port", 0.01)];
        let got = solve_chains(&shared, &chains).expect("a network");
        assert!((99.0..100.01).contains(&(4.0 * got[0])), "{got:?}");
    }
}
