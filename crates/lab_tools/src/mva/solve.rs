//! The solution: throughput, response and queues for every number of customers.
//!
//! With `F_k(j)` the product of `D_k/α_k(i)` for i = 1..j (for thinking `Z^j/j!`), and G the convolution of
//! all `F_k`, the throughput with n customers is `G(n−1)/G(n)`, and station k has j of them with probability
//! `F_k(j)·G₋ₖ(n−j)/G(n)`, where `G₋ₖ` leaves it out.
//!
//! Only ratios matter, so each `F_k(j)` is multiplied by `x^j` and scaled to a maximum of 1. With x near the
//! throughput sought nothing that matters underflows; that is done anew for each doubling of the number of
//! customers.

use super::network::{Network, NetworkError};

/// The network with so many customers.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// How many.
    pub customers: usize,
    /// Rounds per second.
    pub throughput_per_s: f64,
    /// A round without its thinking.
    pub response_s: f64,
    /// In the order of the network.
    pub stations: Vec<StationPoint>,
}

/// A station of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StationPoint {
    /// The share of time in which it has a customer.
    pub utilisation: f64,
    /// How many it has on average, those in service included.
    pub queue: f64,
    /// How long a customer is there in a round.
    pub response_s: f64,
}

/// Solves the network for 1, 2, … customers.
pub fn solve(network: &Network, customers: usize) -> Result<Vec<Point>, NetworkError> {
    network.check(customers)?;
    let mut points = Vec::with_capacity(customers);
    while points.len() < customers {
        // From n to 2n: within that the tilt is good enough.
        let upto = customers.min((points.len() * 2).max(64));
        solve_upto(network, upto, &mut points);
    }
    Ok(points)
}

/// Adds the points that are missing up to this one.
fn solve_upto(network: &Network, upto: usize, points: &mut Vec<Point>) {
    let tilt = network.bounds(upto).most_per_s;
    let think = factors(upto, |n| tilt * network.think_s / n as f64);
    let each: Vec<Vec<f64>> = network
        .stations
        .iter()
        .map(|station| factors(upto, |n| tilt * station.demand_s / station.rate(n)))
        .collect();
    // Everything before each station, thinking first.
    let mut before = vec![think];
    for factors in &each {
        let next = convolved(&before[before.len() - 1], factors);
        before.push(next);
    }
    let from = points.len() + 1;
    let all = &before[each.len()];
    points.extend((from..=upto).map(|n| {
        let throughput_per_s = tilt * all[n - 1] / all[n];
        Point {
            customers: n,
            throughput_per_s,
            response_s: n as f64 / throughput_per_s - network.think_s,
            stations: vec![StationPoint::default(); each.len()],
        }
    }));
    // Everything after it.
    let mut after = factors(upto, |_| 0.0);
    for (k, factors) in each.iter().enumerate().rev() {
        let others = convolved(&before[k], &after);
        for point in &mut points[from - 1..] {
            point.stations[k] = station_point(factors, &others, point.customers, point.throughput_per_s);
        }
        after = convolved(&after, factors);
    }
}

/// The products of `step(1)` to `step(n)`, for n from 0 on, scaled to a maximum of 1.
pub(super) fn factors(upto: usize, step: impl Fn(usize) -> f64) -> Vec<f64> {
    let steps = (1..=upto).scan(0.0, |log, n| {
        *log += step(n).ln();
        Some(*log)
    });
    let logs: Vec<f64> = std::iter::once(0.0).chain(steps).collect();
    let most = logs.iter().copied().fold(0.0, f64::max);
    logs.into_iter().map(|log| (log - most).exp()).collect()
}

/// The convolution of both, as far as they go, scaled to a maximum of 1.
pub(super) fn convolved(a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut out: Vec<f64> = (0..a.len()).map(|n| weights(a, b, n).sum()).collect();
    let most = out.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    out.iter_mut().for_each(|value| *value /= most);
    out
}

/// `a(j)·b(n−j)` for j from 0 to n.
fn weights<'a>(a: &'a [f64], b: &'a [f64], n: usize) -> impl Iterator<Item = f64> + 'a {
    a[..=n].iter().zip(b[..=n].iter().rev()).map(|(a, b)| a * b)
}

fn station_point(factors: &[f64], others: &[f64], n: usize, throughput_per_s: f64) -> StationPoint {
    let (mut total, mut customers) = (0.0, 0.0);
    for (j, weight) in weights(factors, others, n).enumerate() {
        total += weight;
        customers += j as f64 * weight;
    }
    let (utilisation, queue) = (1.0 - factors[0] * others[n] / total, customers / total);
    StationPoint { utilisation, queue, response_s: queue / throughput_per_s }
}
