//! The prediction: what the plan gives for each number of servers, what ends it, the validation, and the
//! refusals.

use super::band::{band, drawn, root_mean_square};
use super::groups::Law;
use super::line::Form;
use super::model::{Answer, Model};
use super::plan::{HARMLESS, IDLE, Plan, Rejected, States};
use super::what_if::{Change, Changed};
use super::{Basis, Checked, Demand, End, Forecast, Place, Point, Ramp, Refusal, Validation, ramp};

/// A resource that gives this share of all it can is at its end: with more customers its queue grows, not its
/// rate.
pub const FULL: f64 = 0.95;
/// A hidden resource shows when the model is this much off between few servers and many.
const UNEXPLAINED: f64 = 0.08;
/// A model that is this much off what it was fitted on predicts nothing: the bar at twice the servers is 10
/// %.
const OFF_MAX: f64 = 0.08;
/// A cache that holds this share of the writes that it may holds all that it may with a few servers more.
const NEARLY: f64 = 0.98;
/// Measured numbers of servers that a validation leaves out, and those that it needs besides.
const LEFT_OUT: usize = 2;
const VALIDATION_LEAST: usize = 3;
/// The drives of a group, in the words of a prediction.
const GROUP: &str = "drives of a group";

/// Predicts up to so many servers, from a seed for the bootstrap.
pub fn predict(ramp: &Ramp, to: u32, seed: u64) -> Result<Forecast, Refusal> {
    predict_changed(ramp, to, seed, &[])
}

/// The same with other hardware than was measured: its demands are scaled, all else stays as it was.
pub fn predict_changed(ramp: &Ramp, to: u32, seed: u64, changes: &[Change]) -> Result<Forecast, Refusal> {
    ramp.check()?;
    let validation = validate(ramp, seed);
    let errors: Vec<f64> = validation.iter().flat_map(|v| &v.points).map(Checked::error).collect();
    let mut forecast = forecast(ramp, to, seed, (&errors, changes))?;
    forecast.validation = validation;
    Ok(forecast)
}

fn validate(ramp: &Ramp, seed: u64) -> Option<Validation> {
    let servers = ramp.servers();
    let fitted_to =
        servers[servers.len().checked_sub(LEFT_OUT + 1).filter(|at| at + 1 >= VALIDATION_LEAST)?];
    let means = ramp::means(&ramp.samples);
    let failed = |why: String| Some(Validation { fitted_to, points: vec![], refused: Some(why) });
    let forecast = match forecast(&ramp.upto(fitted_to), servers[servers.len() - 1], seed, (&[], &[])) {
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

fn forecast(
    ramp: &Ramp,
    to: u32,
    seed: u64,
    (known, changes): (&[f64], &[Change]),
) -> Result<Forecast, Refusal> {
    ramp.check()?;
    let states = States::of(&ramp.samples, &ramp.packed);
    let mut plan = Plan::make(ramp, &states)?;
    let model = plan.model(ramp, &states);
    check_explained(&model, &plan, &states)?;
    if plan.off > OFF_MAX {
        return Err(Refusal::Misfit { off_percent: 100.0 * plan.off });
    }
    let errors = [known, &plan.errors(ramp, &states)?].concat();
    let off = plan.off.max(root_mean_square(&errors));
    let changed = Changed::of(ramp, changes);
    let ramp = &Ramp { groups: ramp.groups + changed.more, ..ramp.clone() };
    plan.changed = (!changes.is_empty()).then_some(changed);
    let model = plan.model(ramp, &states);
    let measured_to = states.last().servers;
    let within = plan.within(&model, &states)?;
    let (mut refused, mut gaps, mut medians) = (None, Vec::new(), Vec::new());
    for servers in 1..=to.max(measured_to) {
        let answer = model.answer(servers)?;
        let why = refuse(&model, &plan, &states, servers, &answer);
        match (within.basis(servers), why) {
            (Basis::Beyond, Some(why)) if servers > measured_to => {
                refused = Some((servers, why.to_string()));
                break;
            }
            (Basis::Between { low, high }, _) if model.is_unknown(servers) => {
                gaps.push((servers, Refusal::Crossing { servers, low, high }.to_string()));
            }
            _ => medians.push((servers, answer)),
        }
    }
    let rows: Vec<u32> = medians.iter().map(|(servers, _)| *servers).collect();
    let drawn = drawn(ramp, &plan, &rows, seed, off)?;
    let points = medians.iter().zip(drawn.iops).map(|((servers, answer), iops)| {
        let most = most_used(ramp, answer);
        let resource = most.map_or("nothing that was measured", |(name, _)| name).to_owned();
        let row = within.row(*servers, answer.iops, |n| ramp.shares(n));
        Point {
            servers: *servers,
            basis: row.basis,
            why_outside: row.why_outside,
            iops: band(iops),
            resource,
            used: most.map_or(0.0, |(_, used)| used),
        }
    });
    // Nothing is known of what happens from the refused number on: a limit there would be a forecast.
    let is_told = |end: &End| refused.as_ref().is_none_or(|(from, _)| end.servers < *from);
    Ok(Forecast {
        measured_to,
        points: points.collect(),
        gaps,
        demands: demands(ramp, &plan, &states, &drawn.demands_s),
        ends: end(ramp, &medians, measured_to).filter(is_told),
        validation: None,
        refused,
        notes: notes(&plan, ramp),
    })
}

/// Whether the measured resources explain how the service falls.
fn check_explained(model: &Model<'_>, plan: &Plan, states: &States) -> Result<(), Refusal> {
    let mut used = states.in_turn().iter().filter(|state| state.servers >= plan.from);
    let (Some(first), Some(last)) = (used.next(), used.next_back()) else {
        return Ok(());
    };
    let answers = [model.answer_as(first)?, model.answer_as(last)?];
    let unexplained = answers[1].iops / last.iops / (answers[0].iops / first.iops) - 1.0;
    let measured = Answer { used: last.utilisation.clone(), ..answers[1].clone() };
    let (busiest, utilisation) = most_used(model.ramp, &measured).unwrap_or(("nothing", 0.0));
    if unexplained < UNEXPLAINED || utilisation >= FULL {
        return Ok(());
    }
    let each = |state: &super::Sample| state.iops / f64::from(state.servers);
    Err(Refusal::Unmeasured {
        from: first.servers,
        to: last.servers,
        fall_percent: 100.0 * (1.0 - each(last) / each(first)),
        unexplained_percent: 100.0 * unexplained,
        resource: busiest.to_owned(),
        utilisation_percent: 100.0 * utilisation,
    })
}

fn refuse(model: &Model<'_>, plan: &Plan, states: &States, servers: u32, answer: &Answer) -> Option<Refusal> {
    for form in &plan.forms {
        if let Err(Rejected::NoLine { refusal, most_s }) = form
            && answer.iops * most_s >= HARMLESS
        {
            return Some(refusal.clone());
        }
    }
    if model.ramp.groups == 0 {
        return None;
    }
    let shares = model.ramp.shares(servers);
    shares.into_iter().find_map(|(_, each)| match plan.nearly_full(model.ramp, states, each, NEARLY) {
        Some(share) => Some(Refusal::NearlyFull { servers, each, percent: 100.0 * share }),
        None => unseen(model, states, servers, each),
    })
}

/// A group with more servers than any had, where that may matter.
fn unseen(model: &Model<'_>, states: &States, servers: u32, each: u32) -> Option<Refusal> {
    let kinds = || states.all.iter().flat_map(|state| &state.groups);
    if kinds().any(|shared| shared.each == each) {
        return None;
    }
    let measured = kinds().map(|shared| shared.each).max()?;
    let bounded = model.groups.as_ref().is_some_and(|groups| (1..=each).any(|each| groups.bounds(each)));
    let last = states.last().groups.first()?;
    let busy = last.utilisation * f64::from(each) / f64::from(last.each);
    (bounded || busy >= HARMLESS).then_some(Refusal::Deeper { servers, each, measured })
}

/// Of what the servers share: their own limits end nothing.
fn most_used<'a>(ramp: &'a Ramp, answer: &Answer) -> Option<(&'a str, f64)> {
    let resources = ramp.resources.iter().zip(&answer.used).filter(|(r, _)| r.place == Place::Shared);
    let named = resources.map(|(resource, used)| (resource.name.as_str(), *used));
    let all = named.chain(answer.group_used.map(|used| (GROUP, used)));
    all.filter(|(_, used)| *used > 0.0).max_by(|a, b| a.1.total_cmp(&b.1))
}

/// The first resource that is full; or the one that would be first if each server kept what it has.
fn end(ramp: &Ramp, medians: &[(u32, Answer)], measured_to: u32) -> Option<End> {
    let now = &medians.iter().find(|(servers, _)| *servers == measured_to)?.1;
    let most = |answer: &Answer| most_used(ramp, answer).map(|(name, used)| (name.to_owned(), used));
    // Full for good: a demand that falls with the servers may fill a resource with few of them only.
    let is_full = |(_, answer): &&(u32, Answer)| most(answer).is_some_and(|(_, used)| used >= FULL);
    let (servers, resource) = match medians.iter().rev().take_while(is_full).last() {
        Some((servers, answer)) => (*servers, most(answer)?.0),
        None => {
            let (servers, last) = medians.last()?;
            let (name, used) = most(last)?;
            ((f64::from(*servers) / used).ceil().min(f64::from(u32::MAX)) as u32, name)
        }
    };
    let at = ramp.resources.iter().position(|r| r.name == resource);
    let used = at.map_or(now.group_used.unwrap_or(0.0), |k| now.used[k]);
    Some(End { resource, servers, used })
}

fn demands(ramp: &Ramp, plan: &Plan, states: &States, drawn: &[Vec<f64>]) -> Vec<Demand> {
    let last = states.last();
    let demand = |k: usize| Demand {
        resource: ramp.resources[k].name.clone(),
        us: band(drawn[k].iter().map(|s| s * 1e6).collect()),
        with_share: plan.forms[k].as_ref().is_ok_and(|chosen| chosen.form == Form::Share),
        utilisation: last.utilisation[k],
        rejected: match &plan.forms[k] {
            Ok(_) => None,
            Err(Rejected::Idle) => Some(format!("it never works more than {:.0} %", IDLE * 100.0)),
            // The resource stands beside it.
            Err(Rejected::NoLine { refusal, .. }) => {
                let why = refusal.to_string();
                let own = format!("{}: ", ramp.resources[k].name);
                Some(why.strip_prefix(&own).map_or(why.clone(), str::to_owned))
            }
        },
    };
    let mut all: Vec<Demand> = (0..ramp.resources.len()).map(demand).collect();
    if let (false, Some(shared)) = (plan.bounding.is_empty(), last.groups.first()) {
        all.push(Demand {
            resource: GROUP.to_owned(),
            us: band(drawn[ramp.resources.len()].iter().map(|s| s * 1e6).collect()),
            with_share: true,
            utilisation: shared.utilisation,
            rejected: None,
        });
    }
    all
}

fn notes(plan: &Plan, ramp: &Ramp) -> Vec<String> {
    let mut out = Vec::new();
    if plan.from > 1 {
        out.push(format!(
            "fewer than {} servers are not used for the demands: their cost per I/O \
            differs",
            plan.from
        ));
    }
    match (plan.bounding.is_empty(), plan.law) {
        (true, _) if ramp.groups > 0 => out.push("no group holds its servers up".to_owned()),
        (false, Law::Hits) => out.push(
            "a group's time for an I/O is taken as a + b/n: the cache has less of each server's file the more there are"
                .to_owned(),
        ),
        (false, Law::Memory) => out.push(
            "the cache is full of dirty data: all servers get the destage rate of the fullest groups, which \
             falls with the amount of data"
                .to_owned(),
        ),
        _ => {}
    }
    out
}
