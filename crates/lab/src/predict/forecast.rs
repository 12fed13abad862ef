//! The prediction: what the measured points decide, the band over bootstrap samples, what ends it, and the validation.

use world::Rng;

use super::line::{self, Chosen, Form, Line, Seen};
use super::model::{Model, calibrate};
use super::{Place, Ramp, Refusal, Sample};

/// Bootstrap samples: the 5 % and 95 % quantiles of so many scatter by a fiftieth of the band's width.
pub const SAMPLES: usize = 100;
/// Resources that never work more than this are left out.
const IDLE: f64 = 0.02;
/// A resource that gives this share of all it can is at its end: with more customers its queue grows, not its rate.
pub const FULL: f64 = 0.95;
/// A rejected demand does not matter as long as its resource stays below.
const HARMLESS: f64 = 0.7;
/// A hidden resource shows when the model is this much off between few servers and many.
const UNEXPLAINED: f64 = 0.08;
/// A model that is this much off what it was fitted on predicts nothing: the bar at twice the servers is 10 %.
const OFF_MAX: f64 = 0.08;
/// Queues that differ by less say nothing about how they are sorted.
const QUEUES_DIFFER: f64 = 1.4;
/// The exponent of the queue is sought in these steps, up to what the deepest sorting of a drive gives (SPTF: about 0.28).
const SORTING_STEP: f64 = 0.02;
const SORTING_STEPS: u32 = 25;
/// Measured numbers of servers that a validation leaves out, and those that it needs besides.
const LEFT_OUT: usize = 2;
const VALIDATION_LEAST: usize = 3;
/// No model is nearer to an array than this.
const OFF_LEAST: f64 = 0.005;

/// A value with its band.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Band {
    /// The 5 % quantile.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// The 95 % quantile.
    pub high: f64,
}

/// What is predicted.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Forecast {
    /// The most servers that were measured.
    pub measured_to: u32,
    /// From one server on, as far as it goes.
    pub points: Vec<Point>,
    /// Every resource's demand.
    pub demands: Vec<Demand>,
    /// What ends it.
    pub ends: Option<End>,
    /// What leaving the last points out gave; none with too few.
    pub validation: Option<Validation>,
    /// From how many servers on nothing is said, and why.
    pub refused: Option<(u32, String)>,
    /// What else should be known.
    pub notes: Vec<String>,
    /// How the throughput of a drive grows with its queue, where the ramp or its user told: the exponent.
    pub sorting: Option<f64>,
}

/// With so many servers.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Point {
    /// How many.
    pub servers: u32,
    /// I/Os per second of all.
    pub iops: Band,
    /// What is used most.
    pub resource: String,
    /// Of all it can, what it gives.
    pub used: f64,
}

/// What an I/O costs a resource.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Demand {
    /// Which.
    pub resource: String,
    /// Of the resource's time, with the most servers measured.
    pub us: Band,
    /// Whether it follows each server's share of the cache.
    pub with_share: bool,
    /// The utilisation with the most servers measured.
    pub utilisation: f64,
    /// Why it was rejected.
    pub rejected: Option<String>,
}

/// What ends it.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct End {
    /// Which resource.
    pub resource: String,
    /// With how many servers it gives all it can, if each one asks for what it gets now.
    pub servers: u32,
    /// Of all it can, what it gives with the most servers measured.
    pub used: f64,
}

/// A prediction of what was measured, too.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Validation {
    /// Fitted on so many servers and fewer.
    pub fitted_to: u32,
    /// The points that were left out.
    pub points: Vec<Checked>,
    /// Why it failed altogether.
    pub refused: Option<String>,
}

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Checked {
    /// Servers.
    pub servers: u32,
    /// What was measured.
    pub measured: f64,
    /// What was predicted.
    pub predicted: Band,
}

impl Checked {
    /// How far the median is off, of what was measured.
    pub fn error(&self) -> f64 {
        self.predicted.median / self.measured - 1.0
    }

    /// Whether the band holds it.
    pub fn is_within(&self) -> bool {
        (self.predicted.low..=self.predicted.high).contains(&self.measured)
    }
}

/// Predicts up to so many servers, from a seed for the bootstrap.
pub fn predict(ramp: &Ramp, to: u32, seed: u64) -> Result<Forecast, Refusal> {
    ramp.check()?;
    let validation = validate(ramp, seed);
    let errors: Vec<f64> = validation.iter().flat_map(|v| &v.points).map(Checked::error).collect();
    let known_off = root_mean_square(&errors);
    let mut forecast = forecast(ramp, to, seed, known_off)?;
    forecast.validation = validation;
    Ok(forecast)
}

fn validate(ramp: &Ramp, seed: u64) -> Option<Validation> {
    let servers = ramp.servers();
    let fitted_to =
        servers[servers.len().checked_sub(LEFT_OUT + 1).filter(|at| at + 1 >= VALIDATION_LEAST)?];
    let whole: Vec<&Sample> = ramp.samples.iter().collect();
    let means = ramp.means(&whole);
    let failed = |why: String| Some(Validation { fitted_to, points: vec![], refused: Some(why) });
    let forecast = match forecast(&ramp.upto(fitted_to), servers[servers.len() - 1], seed, 0.0) {
        Ok(forecast) => forecast,
        Err(refusal) => return failed(refusal.to_string()),
    };
    let left_out = means.iter().filter(|mean| mean.servers > fitted_to);
    let points: Vec<Checked> = left_out
        .filter_map(|mean| {
            let point = forecast.points.iter().find(|point| point.servers == mean.servers)?;
            Some(Checked { servers: mean.servers, measured: mean.iops, predicted: point.iops })
        })
        .collect();
    match (points.is_empty(), forecast.refused) {
        (true, Some((_, why))) => failed(why),
        (_, refused) => Some(Validation { fitted_to, points, refused: refused.map(|(_, why)| why) }),
    }
}

/// What the whole data decides; bootstrap samples only move the numbers.
struct Plan {
    forms: Vec<Result<Chosen, Rejected>>,
    sorting: Option<f64>,
    behind: bool,
    think_s: f64,
    /// The first number of servers that all demands hold for.
    from: u32,
    /// How far the model is off the measured points.
    off: f64,
}

/// A demand that was not taken.
#[derive(Clone, Debug)]
enum Rejected {
    /// It does nothing.
    Idle,
    /// It is no line, and how much it is at most.
    NoLine { refusal: Refusal, most_s: f64 },
}

fn forecast(ramp: &Ramp, to: u32, seed: u64, known_off: f64) -> Result<Forecast, Refusal> {
    ramp.check()?;
    let whole: Vec<&Sample> = ramp.samples.iter().collect();
    let means = ramp.means(&whole);
    let plan = plan(ramp, &means)?;
    let model = model(ramp, &plan, &means);
    check_explained(&model, &plan, &means)?;
    if plan.off > OFF_MAX {
        return Err(Refusal::Misfit { off_percent: 100.0 * plan.off });
    }
    let measured_to = means[means.len() - 1].servers;
    let mut refused = None;
    let mut medians = Vec::new();
    for servers in 1..=to.max(measured_to) {
        let answer = model.answer(servers)?;
        refused = refuse(&model, &plan, &means, servers, &answer).map(|why| (servers, why.to_string()));
        if refused.is_some() && servers > measured_to {
            break;
        }
        refused = None;
        medians.push((servers, answer));
    }
    let drawn = bootstrap(ramp, &plan, medians.len() as u32, seed, known_off.max(plan.off))?;
    let points = medians.iter().map(|(servers, answer)| {
        let (k, used) = most_used(ramp, &answer.used);
        let resource =
            k.map_or_else(|| "nothing that was measured".into(), |k| ramp.resources[k].name.clone());
        Point { servers: *servers, iops: band(drawn.iops[*servers as usize - 1].clone()), resource, used }
    });
    Ok(Forecast {
        measured_to,
        points: points.collect(),
        demands: demands(ramp, &plan, &means, &drawn),
        ends: end(ramp, &medians, measured_to),
        validation: None,
        refused,
        notes: notes(&plan),
        sorting: plan.sorting,
    })
}

fn seen(ramp: &Ramp, means: &[Sample], k: usize, sorting: f64) -> Vec<Seen> {
    let one = |mean: &Sample| {
        let utilisation = mean.utilisation[k];
        let per_group = match ramp.resources[k].place {
            Place::Shared => 1.0,
            Place::Server => f64::from(mean.servers),
            // The utilisation is that of the groups in use, the throughput that of all: of one, on average.
            Place::Group => ramp.shares(mean.servers).iter().map(|(groups, _)| f64::from(*groups)).sum(),
        };
        let queue = if utilisation > 0.0 { (mean.queue / utilisation).max(1.0) } else { 1.0 };
        let faster = if ramp.resources[k].place == Place::Group { queue.powf(sorting) } else { 1.0 };
        Seen { servers: mean.servers, utilisation, demand_s: utilisation * per_group * faster / mean.iops }
    };
    means.iter().map(one).collect()
}

fn plan(ramp: &Ramp, means: &[Sample]) -> Result<Plan, Refusal> {
    let sorting = ramp.sorting.or_else(|| sorting(ramp, means));
    let form = |k: usize| {
        let seen = seen(ramp, means, k, sorting.unwrap_or(0.0));
        let busiest = seen.iter().map(|s| s.utilisation).fold(0.0, f64::max);
        if busiest < IDLE {
            return Err(Rejected::Idle);
        }
        line::choose(&seen).map_err(|off| {
            let demands = || seen.iter().map(|s| s.demand_s);
            let most_s = demands().fold(0.0, f64::max);
            let refusal = Refusal::NotALine {
                resource: ramp.resources[k].name.clone(),
                least_us: demands().fold(f64::INFINITY, f64::min) * 1e6,
                most_us: most_s * 1e6,
                off_percent: off * 100.0,
                utilisation_percent: busiest * 100.0,
            };
            Rejected::NoLine { refusal, most_s }
        })
    };
    let forms: Vec<Result<Chosen, Rejected>> = (0..ramp.resources.len()).map(form).collect();
    for (k, form) in forms.iter().enumerate() {
        let busiest = means.iter().map(|mean| mean.utilisation[k]).fold(0.0, f64::max);
        if let Err(Rejected::NoLine { refusal, .. }) = form
            && busiest >= HARMLESS
        {
            return Err(refusal.clone());
        }
    }
    let from = forms.iter().flatten().map(|chosen| chosen.from).max().unwrap_or(1);
    let mut plan = Plan { forms, sorting, behind: false, think_s: 0.0, from, off: f64::INFINITY };
    // In the way first: behind has to be nearer to be taken.
    for behind in [false, true] {
        let mut model = model(ramp, &Plan { behind, forms: plan.forms.clone(), ..plan }, means);
        let off = calibrate(&mut model, &rates(means, from), None)?;
        if off < 0.9 * plan.off {
            (plan.behind, plan.think_s, plan.off) = (behind, model.think_s, off);
        }
    }
    Ok(plan)
}

/// How drives sort their queues, where the measured queues differ enough to tell.
fn sorting(ramp: &Ramp, means: &[Sample]) -> Option<f64> {
    let k = ramp.resources.iter().position(|resource| resource.place == Place::Group)?;
    let queues =
        || means.iter().map(|mean| mean.queue / mean.utilisation[k].max(IDLE)).filter(|queue| *queue > 0.0);
    let (least, most) = (queues().fold(f64::INFINITY, f64::min), queues().fold(1.0, f64::max));
    if most < QUEUES_DIFFER * least.max(1.0) {
        return None;
    }
    let off = |sorting: f64| match line::choose(&seen(ramp, means, k, sorting)) {
        // A share of the cache could be mistaken for sorting: only what is constant counts.
        Ok(Chosen { form: Form::Constant, off, .. }) => off,
        _ => f64::INFINITY,
    };
    let steps = (0..=SORTING_STEPS).map(|step| f64::from(step) * SORTING_STEP);
    let best = steps.min_by(|a, b| off(*a).total_cmp(&off(*b)))?;
    off(best).is_finite().then_some(best)
}

fn rates(means: &[Sample], from: u32) -> Vec<(u32, f64)> {
    means.iter().filter(|mean| mean.servers >= from).map(|mean| (mean.servers, mean.iops)).collect()
}

fn model<'a>(ramp: &'a Ramp, plan: &Plan, means: &[Sample]) -> Model<'a> {
    let sorting = plan.sorting.unwrap_or(0.0);
    let line = |k: usize| -> Option<Line> {
        let chosen = plan.forms[k].as_ref().ok()?;
        let mut seen = seen(ramp, means, k, sorting);
        seen.retain(|seen| seen.servers >= chosen.from);
        Some(line::fit(&seen, chosen.form))
    };
    let lines = (0..ramp.resources.len()).map(line).collect();
    Model { ramp, lines, sorting, behind: plan.behind, think_s: plan.think_s }
}

/// Whether the measured resources explain how the service falls.
fn check_explained(model: &Model<'_>, plan: &Plan, means: &[Sample]) -> Result<(), Refusal> {
    let used: Vec<&Sample> = means.iter().filter(|mean| mean.servers >= plan.from).collect();
    let (Some(first), Some(last)) = (used.first(), used.last()) else {
        return Ok(());
    };
    let above = |mean: &Sample| -> Result<f64, Refusal> { Ok(model.answer(mean.servers)?.iops / mean.iops) };
    let unexplained = above(last)? / above(first)? - 1.0;
    let (busiest, utilisation) = most_used(model.ramp, &last.utilisation);
    if unexplained < UNEXPLAINED || utilisation >= FULL {
        return Ok(());
    }
    let each = |mean: &Sample| mean.iops / f64::from(mean.servers);
    Err(Refusal::Unmeasured {
        from: first.servers,
        to: last.servers,
        fall_percent: 100.0 * (1.0 - each(last) / each(first)),
        unexplained_percent: 100.0 * unexplained,
        resource: busiest.map_or_else(|| "nothing".into(), |k| model.ramp.resources[k].name.clone()),
        utilisation_percent: 100.0 * utilisation,
    })
}

fn refuse(
    model: &Model<'_>,
    plan: &Plan,
    means: &[Sample],
    servers: u32,
    answer: &super::model::Answer,
) -> Option<Refusal> {
    for form in &plan.forms {
        if let Err(Rejected::NoLine { refusal, most_s }) = form
            && answer.iops * most_s >= HARMLESS
        {
            return Some(refusal.clone());
        }
    }
    let measured = means.iter().map(|mean| model.ramp.fullest(mean.servers)).max().unwrap_or(0);
    let fullest = model.ramp.fullest(servers);
    let groups = model.ramp.resources.iter().zip(&answer.used).filter(|(r, _)| r.place == Place::Group);
    let used = groups.map(|(_, used)| *used).fold(0.0, f64::max);
    let outstanding = model.ramp.outstanding;
    (plan.sorting.is_none() && !plan.behind && fullest > measured && used >= HARMLESS).then_some(
        Refusal::Deeper { servers, requests: fullest * outstanding, measured: measured * outstanding },
    )
}

/// Everything that the bootstrap samples gave.
struct Drawn {
    /// By servers, from one on.
    iops: Vec<Vec<f64>>,
    /// By resource: the demand with the most servers measured.
    demands_s: Vec<Vec<f64>>,
}

fn bootstrap(ramp: &Ramp, plan: &Plan, to: u32, seed: u64, off: f64) -> Result<Drawn, Refusal> {
    let mut rng = Rng::with_seed(seed);
    let mut drawn =
        Drawn { iops: vec![Vec::new(); to as usize], demands_s: vec![Vec::new(); ramp.resources.len()] };
    let numbers = ramp.servers();
    let measured_to = numbers[numbers.len() - 1];
    let freedom = (numbers.len() - 1).max(3);
    for _ in 0..SAMPLES {
        let means = ramp.means(&resampled(ramp, &mut rng));
        let mut model = model(ramp, plan, &means);
        calibrate(&mut model, &rates(&means, plan.from), Some(plan.think_s))?;
        for (demands, line) in drawn.demands_s.iter_mut().zip(&model.lines) {
            demands.push(line.map_or(0.0, |line| line.at(measured_to)));
        }
        // How far the model itself is off is part of the band; the further away, the more.
        let error = off.max(OFF_LEAST) * student(&mut rng, freedom);
        for servers in 1..=to {
            let away = f64::from(servers.saturating_sub(measured_to)) / f64::from(measured_to);
            let iops = model.answer(servers)?.iops * (error * (1.0 + away).sqrt()).exp();
            drawn.iops[servers as usize - 1].push(iops);
        }
    }
    Ok(drawn)
}

/// Of each number of servers as many windows as there are, drawn with replacement: a repeat, then one of its windows.
fn resampled<'a>(ramp: &'a Ramp, rng: &mut Rng) -> Vec<&'a Sample> {
    let mut out = Vec::with_capacity(ramp.samples.len());
    for servers in ramp.servers() {
        let of: Vec<&Sample> = ramp.samples.iter().filter(|sample| sample.servers == servers).collect();
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

/// Student's t: a normal value over the root of a mean of squared ones (twelve uniform values make a normal one).
fn student(rng: &mut Rng, freedom: usize) -> f64 {
    let mut normal = || (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
    let value = normal();
    let squares: f64 = (0..freedom).map(|_| normal().powi(2)).sum();
    value / (squares / freedom as f64).sqrt()
}

fn band(mut values: Vec<f64>) -> Band {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[((values.len() - 1) as f64 * share).round() as usize];
    Band { low: at(0.05), median: at(0.5), high: at(0.95) }
}

fn root_mean_square(values: &[f64]) -> f64 {
    (values.iter().map(|value| value * value).sum::<f64>() / values.len().max(1) as f64).sqrt()
}

/// Of what the servers share: their own limits end nothing.
fn most_used(ramp: &Ramp, used: &[f64]) -> (Option<usize>, f64) {
    let shared = used.iter().enumerate().filter(|(k, _)| ramp.resources[*k].place != Place::Server);
    let most = shared.max_by(|a, b| a.1.total_cmp(b.1)).filter(|(_, used)| **used > 0.0);
    (most.map(|(k, _)| k), most.map_or(0.0, |(_, used)| *used))
}

/// The first resource that is full; or the one that would be first if each server kept what it has.
fn end(ramp: &Ramp, medians: &[(u32, super::model::Answer)], measured_to: u32) -> Option<End> {
    let now = &medians.iter().find(|(servers, _)| *servers == measured_to)?.1;
    // Full for good: a demand that falls with the servers may fill a resource with few of them only.
    let is_full = |(_, answer): &&(u32, super::model::Answer)| most_used(ramp, &answer.used).1 >= FULL;
    let full = medians.iter().rev().take_while(is_full).last();
    let (servers, k) = match full {
        Some((servers, answer)) => (*servers, most_used(ramp, &answer.used).0?),
        None => {
            let (servers, last) = medians.last()?;
            let (k, used) = most_used(ramp, &last.used);
            ((f64::from(*servers) / used).ceil().min(f64::from(u32::MAX)) as u32, k?)
        }
    };
    Some(End { resource: ramp.resources[k].name.clone(), servers, used: now.used[k] })
}

fn demands(ramp: &Ramp, plan: &Plan, means: &[Sample], drawn: &Drawn) -> Vec<Demand> {
    let last = &means[means.len() - 1];
    let demand = |k: usize| {
        let us = band(drawn.demands_s[k].iter().map(|s| s * 1e6).collect());
        Demand {
            resource: ramp.resources[k].name.clone(),
            us,
            with_share: matches!(plan.forms[k], Ok(Chosen { form: Form::Share, .. })),
            utilisation: last.utilisation[k],
            rejected: match &plan.forms[k] {
                Ok(_) => None,
                Err(Rejected::Idle) => Some(format!("it never works more than {:.0} %", IDLE * 100.0)),
                Err(Rejected::NoLine { refusal, .. }) => Some(refusal.to_string()),
            },
        }
    };
    (0..ramp.resources.len()).map(demand).collect()
}

fn notes(plan: &Plan) -> Vec<String> {
    let mut out = Vec::new();
    if plan.from > 1 {
        out.push(format!("fewer than {} servers were left out: their files fit the cache", plan.from));
    }
    if plan.behind {
        out.push(
            "the drives work behind the cache: they bound the rate of a group, nobody waits for them before"
                .into(),
        );
    }
    out
}
