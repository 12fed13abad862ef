//! How sure it is: bootstrap samples, each with the model's own error.

use statrs::distribution::{ContinuousCDF, StudentsT};
use world::Rng;

use super::model::{Model, calibrate};
use super::plan::{Plan, States};
use super::ramp::State;
use super::{Band, Basis, Ramp, Refusal, Sample};

/// Bootstrap samples: the 5 % and 95 % quantiles of so many scatter by a fiftieth of the band's width.
pub const SAMPLES: usize = 100;
/// No model is nearer to an array than this.
const OFF_LEAST: f64 = 0.005;

/// Everything that the bootstrap samples gave.
pub(super) struct Drawn {
    /// In the order of the rows.
    pub(super) iops: Vec<Vec<f64>>,
    /// By resource, and after them of the fullest group: the demand with the most servers measured.
    pub(super) demands_s: Vec<Vec<f64>>,
}

/// `rows`: the numbers of servers that are drawn.
pub(super) fn drawn(ramp: &Ramp, plan: &Plan, rows: &[u32], seed: u64, off: f64) -> Result<Drawn, Refusal> {
    let mut rng = Rng::with_seed(seed);
    let numbers = ramp.servers();
    let measured_to = numbers[numbers.len() - 1];
    let freedom = (numbers.len() - 1).max(3);
    let (each, none) = (vec![Vec::new(); rows.len()], vec![Vec::new(); ramp.resources.len() + 1]);
    let mut drawn = Drawn { iops: each, demands_s: none };
    // What was measured was not measured with other hardware.
    let measured = Plan { changed: None, ..plan.clone() };
    for error in students(&mut rng, freedom) {
        let in_turn = resampled(&ramp.samples, &mut rng);
        let states = States::of(in_turn, resampled(&ramp.packed, &mut rng));
        let mut calm = measured.model(ramp, &states);
        let free: Vec<&Sample> = plan.free.iter().map(|at| &states.all[*at]).collect();
        calibrate(&mut calm, &free, Some(plan.think_s))?;
        let model = Model { think_s: calm.think_s, ..plan.model(ramp, &states) };
        let lines = model.lines.iter().map(|line| line.map_or(0.0, |line| line.at(measured_to)));
        let group = model.answer(measured_to)?.groups.first().map_or(0.0, |rate| 1.0 / rate);
        for (demands, demand_s) in drawn.demands_s.iter_mut().zip(lines.chain([group])) {
            demands.push(demand_s);
        }
        // How far the model itself is off is part of the band; the further away, the more.
        let error = off.max(OFF_LEAST) * error;
        let within = plan.within(&model, &states)?;
        for (servers, drawn) in rows.iter().zip(&mut drawn.iops) {
            let away = f64::from(servers.saturating_sub(measured_to)) / f64::from(measured_to);
            let row = within.row(*servers, model.answer(*servers)?.iops, |n| ramp.shares(n));
            // What was measured is as sure as its windows are.
            let error = if row.basis == Basis::Measured { 0.0 } else { error * (1.0 + away).sqrt() };
            drawn.push(row.iops * error.exp());
        }
    }
    Ok(drawn)
}

/// Of each state as many windows as there are, drawn with replacement: a repeat, then one of its windows.
fn resampled<'a>(samples: &'a [Sample], rng: &mut Rng) -> Vec<&'a Sample> {
    let mut states: Vec<State> = samples.iter().map(Sample::state).collect();
    states.sort_unstable();
    states.dedup();
    let mut out = Vec::with_capacity(samples.len());
    for state in states {
        let is_of = |sample: &&Sample| sample.state() == state;
        let of: Vec<&Sample> = samples.iter().filter(is_of).collect();
        let mut repeats: Vec<u32> = of.iter().map(|sample| sample.repeat).collect();
        repeats.dedup();
        for _ in 0..repeats.len() {
            let repeat = repeats[rng.usize(..repeats.len())];
            let windows: Vec<&Sample> = of.iter().copied().filter(|sample| sample.repeat == repeat).collect();
            out.extend((0..windows.len()).map(|_| windows[rng.usize(..windows.len())]));
        }
    }
    out
}

/// As many values of Student's t as there are samples, one for each of as many equal shares of its
/// distribution, in any order: the errors widen the band and move no median.
fn students(rng: &mut Rng, freedom: usize) -> Vec<f64> {
    let t = StudentsT::new(0.0, 1.0, freedom as f64).expect("at least one degree of freedom");
    let share = |i: usize| (i as f64 + 0.5) / SAMPLES as f64;
    let mut values: Vec<f64> = (0..SAMPLES).map(|i| t.inverse_cdf(share(i))).collect();
    rng.shuffle(&mut values);
    values
}

pub(super) fn band(mut values: Vec<f64>) -> Band {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    Band { low: at(0.05), median: at(0.5), high: at(0.95) }
}

pub(super) fn root_mean_square(values: &[f64]) -> f64 {
    (values.iter().map(|value| value * value).sum::<f64>() / values.len().max(1) as f64).sqrt()
}
