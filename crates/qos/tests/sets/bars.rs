//! How promises are drawn at random, and how service is held against the formula. The sets on an array of
//! drives (`crates/array/tests/sets`) take this file, too.

pub(crate) const SECOND_NS: u64 = 1_000_000_000;
/// A change is judged from 5 s later on (seed 2), over windows of as long.
pub(crate) const SETTLES_NS: u64 = 5 * SECOND_NS;
pub(crate) const WINDOW_NS: u64 = 5 * SECOND_NS;
pub(crate) const LOOK_NS: u64 = 100_000_000;
const STEP_NS: u64 = 50_000_000;

/// Weights to draw from.
pub(crate) const WEIGHTS: [u32; 8] = [1, 10, 50, 100, 100, 200, 400, 1000];

/// Minimums of so many clients, as shares of the capacity, and their sum.
pub(crate) fn promises(rng: &mut fastrand::Rng, count: usize) -> (f64, Vec<f64>) {
    // Four in ten sets promise more than there is.
    let promised = if rng.u8(..10) < 4 { 1.05 + 2.0 * rng.f64() } else { 0.2 + 0.76 * rng.f64() };
    // Of each: its part of the minimums, from equal to a hundred to one.
    let mut parts: Vec<f64> =
        (0..count).map(|_| if rng.u8(..10) < 5 { 100_f64.powf(rng.f64()) } else { 0.0 }).collect();
    if parts.iter().all(|part| *part == 0.0) {
        parts[0] = 1.0;
    }
    let all: f64 = parts.iter().sum();
    (promised, parts.iter().map(|part| part / all * promised).collect())
}

/// How far a rate is from the formula, as a share of it; what one request makes is left out. Rates are in
/// units per second.
pub(crate) fn off(rate: f64, expected: f64, cost_units: f64, judged_ns: u64) -> f64 {
    let one = cost_units * SECOND_NS as f64 / judged_ns as f64;
    ((rate - expected).abs() - one).max(0.0) / expected.max(one)
}

/// The worst windows as a share of the minimum, less one request; none without a minimum. Units per second.
pub(crate) fn kept(worst: f64, minimum_iops: u64, cost_units: f64) -> Option<f64> {
    let one = cost_units * SECOND_NS as f64 / WINDOW_NS as f64;
    (minimum_iops > 0).then(|| (worst + one) / minimum_iops as f64)
}

/// Units per second in the worst of a hundred windows; `count`: the requests that ended from a time until
/// before another.
pub(crate) fn worst(count: impl Fn(u64, u64) -> usize, (from, to): (u64, u64), cost_units: f64) -> f64 {
    let begins = (from..to - WINDOW_NS).step_by(STEP_NS as usize);
    let mut windows: Vec<usize> = begins.map(|at| count(at, at + WINDOW_NS)).collect();
    windows.sort_unstable();
    windows[windows.len() / 100] as f64 * cost_units / (WINDOW_NS / SECOND_NS) as f64
}
