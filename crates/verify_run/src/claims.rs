//! What was measured for the claims of the scenario.

use lab_core::bound::{Bound, Lies};
use lab_core::claim::{Measure, Outcome};
use lab_core::record::World;
use lab_core::stats::{Estimate, mean, mean_of_windows, quotient_of_means, ratio_of_means};
use lab_core::words::plain;

use super::asked::{Asked, At};
use super::course::Course;
use super::plan::Plan;
use super::recording::{Ran, Recording};
use super::scenario::Quantity;

/// Of all claims of a world, in the order of the scenario.
pub(super) fn measures(plan: &Plan, world: World, recording: &Recording) -> Vec<Measure> {
    let of_world = plan.asked.iter().filter(|asked| asked.world.is_none_or(|own| own == world));
    of_world.flat_map(|asked| of_claim(plan, recording, asked)).collect()
}

/// Of one: on its array, or on each.
fn of_claim(plan: &Plan, recording: &Recording, asked: &Asked) -> Vec<Measure> {
    let on: Vec<&Ran> = match asked.at.array {
        // `--target` stands for whichever array a claim names.
        Some(array) if !recording.is_target() => {
            let name = &plan.arrays[array].name;
            recording.ran.iter().filter(|ran| ran.array == *name).collect()
        }
        _ => recording.ran.iter().collect(),
    };
    let several = on.len() > 1;
    let measure = |ran: &Ran| {
        let outcome = outcome(plan, recording, ran, asked);
        let measure = Measure::new(&asked.id, outcome).figure(figure(asked)).note(unanswered(ran, asked));
        if several { measure.at(&ran.array) } else { measure }
    };
    on.into_iter().map(measure).collect()
}

/// The figure that shows a quantity at its places.
pub(super) fn figure(asked: &Asked) -> String {
    match asked.quantity {
        Quantity::LargestCount => "search".into(),
        Quantity::RebuildTime => "time_rate".into(),
        other => format!("phases_{}", other.name()),
    }
}

fn outcome(plan: &Plan, recording: &Recording, ran: &Ran, asked: &Asked) -> Outcome {
    let missing = |why: &str| Outcome::Missing(why.into());
    if asked.quantity == Quantity::LargestCount {
        return match &ran.found {
            Some(found) => found.estimate().into(),
            None => Outcome::NotMeasured("the search was stopped".into()),
        };
    }
    if asked.quantity == Quantity::RebuildTime {
        return rebuild(&ran.courses);
    }
    if recording.is_target() && asked.quantity == Quantity::ReadHits {
        return missing("masu cannot read the counters of the array behind --target");
    }
    let differs = |other: At| other.array != asked.at.array;
    if recording.is_target() && asked.compared_with.is_some_and(differs) {
        return missing("--target stands for both arrays");
    }
    if let Some(fault) = fault(ran, asked.quantity, asked.at) {
        return fault;
    }
    if let Some(open) = growing(plan, ran, asked) {
        return open;
    }
    let estimate = match asked.compared_with {
        None => level(ran, asked.quantity, asked.at),
        Some(other) => {
            let there = match other.array.filter(|_| !recording.is_target()) {
                Some(array) => recording.ran.iter().find(|other| other.array == plan.arrays[array].name),
                None => Some(ran),
            };
            if let Some(fault) = there.and_then(|there| fault(there, asked.quantity, other)) {
                return fault;
            }
            let is_nothing =
                |there| level(there, asked.quantity, other).is_some_and(|level| level.mean == 0.0);
            if there.is_some_and(is_nothing) {
                return missing("what it is compared with is 0: the ratio is not defined");
            }
            there.and_then(|there| compared(ran, there, asked.quantity, (asked.at, other)))
        }
    };
    match estimate {
        Some(estimate) => estimate.into(),
        None => missing("no I/O ended in a window that counts, or the run was stopped before it"),
    }
}

/// Which windows had no answer, of a claim about response times.
fn unanswered(ran: &Ran, asked: &Asked) -> Option<String> {
    let places = [Some(asked.at), asked.compared_with]
        .into_iter()
        .flatten()
        .filter(|at| asked.quantity.is_response() && at.array == asked.at.array);
    let of_course = |course: &Course, at: At| {
        let played = course.phases.get(at.phase)?;
        let (count, first) = played.unanswered(at.load)?;
        let counted = played.windows(at.load).len() - played.first;
        let begins_s = plain(played.from_s + first as f64 * course.window_s);
        Some(format!(
            "in {count} of {counted} windows I/Os were in flight and none ended, first at {begins_s} s: they \
             count with their age"
        ))
    };
    let mut all = places.flat_map(|at| ran.courses.iter().filter_map(move |course| of_course(course, at)));
    all.next()
}

/// What can only grow until its phase ends, and is less than the least that is claimed: a run that is stopped
/// in that phase does not tell.
fn growing(plan: &Plan, ran: &Ran, asked: &Asked) -> Option<Outcome> {
    let grows = matches!(asked.quantity, Quantity::Failed | Quantity::ResponseMax);
    let is_cut = |course: &Course| course.phases.get(asked.at.phase).is_none_or(|played| played.is_cut);
    if !grows || asked.compared_with.is_some() || !ran.courses.iter().any(is_cut) {
        return None;
    }
    let so_far = level(ran, asked.quantity, asked.at)?;
    let world = asked.world.unwrap_or_default();
    let least = Bound { upper: None, ..plan.claims.bound(&asked.id, world)? };
    let why = || Outcome::Never(format!("{} {} so far", plain(so_far.mean), asked.quantity.unit()));
    (least.lies(&so_far) == Some(Lies::Beyond)).then(why)
}

/// Why the quantity says nothing at a place, or why the claim cannot hold there.
pub(super) fn fault(ran: &Ran, quantity: Quantity, at: At) -> Option<Outcome> {
    let played = || ran.courses.iter().filter_map(|course| course.phases.get(at.phase));
    if quantity.is_response() {
        return played().find_map(|played| played.fault(at.load));
    }
    if quantity == Quantity::Failed && ran.courses.iter().any(|course| course.is_unended(at.load, at.phase)) {
        return Some(Outcome::Missing("I/Os in flight at the end were never answered".into()));
    }
    let mut windows = played().flat_map(|played| played.windows(at.load).iter().skip(played.first));
    let nothing = quantity == Quantity::Failed && windows.all(|window| window.ios + window.failed == 0);
    nothing.then(|| Outcome::Missing("no I/O ended in a window that counts".into()))
}

/// A quantity at a place: where a run was repeated, its runs are the samples, else its windows.
pub(super) fn level(ran: &Ran, quantity: Quantity, at: At) -> Option<Estimate> {
    let samples = samples(ran, quantity, at);
    if samples.is_empty() {
        return None;
    }
    Some(match (quantity, ran.courses.len()) {
        (Quantity::ResponseMax, _) => Estimate::exact(samples.iter().copied().fold(0.0, f64::max)),
        (Quantity::Failed, _) => Estimate::exact(samples.iter().sum()),
        (_, 1) => mean_of_windows(&samples),
        (_, _) => mean(&samples),
    })
}

/// The windows of a single run; of several runs their means.
pub(super) fn samples(ran: &Ran, quantity: Quantity, at: At) -> Vec<f64> {
    let of = |course: &Course| {
        let played = course.phases.get(at.phase);
        played.map_or(vec![], |played| played.samples(quantity, at.load, course.window_s))
    };
    let whole = |windows: Vec<f64>| match quantity {
        _ if windows.is_empty() => None,
        Quantity::ResponseMax => Some(windows.into_iter().fold(0.0, f64::max)),
        Quantity::Failed => Some(windows.into_iter().sum()),
        _ => Some(windows.iter().sum::<f64>() / windows.len() as f64),
    };
    match &ran.courses[..] {
        [one] => of(one),
        several => several.iter().filter_map(|course| whole(of(course))).collect(),
    }
}

/// The ratio of a quantity at two places. A ratio of maxima or counts has no interval. Windows of one phase
/// of one run are pairs; others have nothing to do with each other.
fn compared(here: &Ran, there: &Ran, quantity: Quantity, (at, other): (At, At)) -> Option<Estimate> {
    if matches!(quantity, Quantity::ResponseMax | Quantity::Failed) {
        let (a, b) = (level(here, quantity, at)?, level(there, quantity, other)?);
        return (b.mean > 0.0).then(|| Estimate::exact(a.mean / b.mean));
    }
    if let ([course], true) = (&here.courses[..], std::ptr::eq(here, there) && at.phase == other.phase) {
        let played = course.phases.get(at.phase)?;
        let each = |load| played.each(quantity, load, course.window_s);
        let both = each(at.load).into_iter().zip(each(other.load));
        let pairs: Vec<(f64, f64)> = both.filter_map(|(a, b)| Some((a?, b?))).collect();
        return ratio_of_means(&pairs);
    }
    let (a, b) = (samples(here, quantity, at), samples(there, quantity, other));
    match (here.courses.len(), there.courses.len()) {
        (1, 1) => quotient_of_means(&a, &b, mean_of_windows),
        _ => quotient_of_means(&a, &b, mean),
    }
}

fn rebuild(courses: &[Course]) -> Outcome {
    let times: Vec<f64> = courses.iter().filter_map(|course| course.rebuild_s).collect();
    match &times[..] {
        [] => Outcome::NotMeasured("the run was stopped before a drive was pulled".into()),
        times if times.iter().any(|time| time.is_nan()) => {
            let why = "a group was not optimal again when the run ended".to_owned();
            let is_known = |course: &Course| course.rebuild_s.is_some_and(f64::is_nan) && !course.is_cut;
            if courses.iter().any(is_known) { Outcome::Refuted(why) } else { Outcome::Never(why) }
        }
        times => mean(times).into(),
    }
}
