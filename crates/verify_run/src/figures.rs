//! Figures: each quantity over time and phase by phase, and what a search tried.

use lab_core::report::{Axis, Figure, Mark, Panel, Series, Span};
use lab_core::stats::Estimate;
use lab_core::verdict::Verdict;
use lab_core::words::{capital, plain, value};

use super::asked::At;
use super::claims::level;
use super::course::Course;
use super::plan::Plan;
use super::recording::{Ran, Recording};
use super::scenario::Quantity;

/// Lines told apart, in the order of the loads or arrays.
const COLORS: [&str; 6] = ["blue", "orange", "green", "vermillion", "purple", "sky"];

/// All of them.
pub(super) fn figures(plan: &Plan, recording: &Recording) -> Vec<Figure> {
    let mut out = Vec::new();
    out.extend(
        recording.ran.iter().any(|ran| ran.found.is_some()).then(|| search(plan, recording)).flatten(),
    );
    for quantity in by_phase(plan) {
        out.push(phases(plan, recording, quantity));
    }
    for quantity in over_time(plan) {
        out.push(timeline(plan, recording, quantity));
    }
    out
}

/// What claims ask for, and then what the scenario draws.
fn by_phase(plan: &Plan) -> Vec<Quantity> {
    let asked = plan.asked.iter().map(|asked| asked.quantity).filter(|quantity| quantity.has_windows());
    once(asked.chain(plan.run.figures.iter().copied()))
}

fn over_time(plan: &Plan) -> Vec<Quantity> {
    let asked = plan.asked.iter().map(|asked| match asked.quantity {
        Quantity::RebuildTime => Quantity::Rate,
        other => other,
    });
    once(plan.run.figures.iter().copied().chain(asked).filter(|quantity| quantity.has_windows()))
}

fn once(all: impl Iterator<Item = Quantity>) -> Vec<Quantity> {
    let mut out: Vec<Quantity> = Vec::new();
    for quantity in all {
        if !out.contains(&quantity) {
            out.push(quantity);
        }
    }
    out
}

fn axis(label: &str, unit: &str) -> Axis {
    Axis { label: label.into(), unit: unit.into(), log: false }
}

/// "12.3 ± 0.4 ms".
pub(super) fn with_unit(estimate: &Estimate, quantity: Quantity) -> String {
    format!("{} {}", value(estimate), quantity.unit())
}

/// A bar with its whiskers.
fn bar(x: usize, estimate: Option<Estimate>) -> Vec<f64> {
    match estimate {
        Some(e) if e.low.is_finite() && e.low < e.high => vec![x as f64, e.mean, e.low.max(0.0), e.high],
        Some(e) => vec![x as f64, e.mean],
        None => vec![x as f64, f64::NAN],
    }
}

/// What runs side by side in a phase: each load by itself; what is of the array, once.
fn loads_of(plan: &Plan, quantity: Quantity) -> Vec<Option<usize>> {
    match quantity.is_of_array() {
        true => vec![None],
        false => (0..plan.loads.len()).map(Some).collect(),
    }
}

fn load_name(plan: &Plan, load: Option<usize>) -> String {
    load.map_or("all loads".into(), |load| plan.loads[load].name.clone())
}

/// A quantity of each load in each phase, array by array.
fn phases(plan: &Plan, recording: &Recording, quantity: Quantity) -> Figure {
    let several = recording.ran.len() > 1;
    let mut categories = Vec::new();
    let mut places: Vec<(&Ran, usize)> = Vec::new();
    for (phase, own) in plan.phases.iter().enumerate() {
        for ran in &recording.ran {
            categories.push(match (several, plan.phases.len()) {
                (true, 1) => ran.array.clone(),
                (true, _) => format!("{}, {}", own.name, ran.array),
                (false, _) => own.name.clone(),
            });
            places.push((ran, phase));
        }
    }
    let series = loads_of(plan, quantity).into_iter().enumerate().map(|(n, load)| {
        let point = |(x, (ran, phase)): (usize, &(&Ran, usize))| {
            bar(x, level(ran, quantity, At { load, phase: *phase, array: None }))
        };
        Series {
            name: load_name(plan, load),
            color: COLORS[n % COLORS.len()],
            points: places.iter().enumerate().map(point).collect(),
            panel: None,
        }
    });
    Figure {
        id: format!("phases_{}", quantity.name()),
        title: phases_title(plan, &places, &categories, quantity),
        subtitle: Some(format!(
            "{} of each load, with its interval over {}",
            capital(quantity.words()),
            samples(plan)
        )),
        kind: "bars",
        x: axis(if several && plan.phases.len() == 1 { "array" } else { "phase" }, ""),
        y: axis(quantity.words(), quantity.unit()),
        series: series.collect(),
        categories,
        ..Figure::default()
    }
}

/// What samples are, in words.
fn samples(plan: &Plan) -> String {
    match plan.run.repeats {
        1 => format!("windows of {} s", plain(plan.run.window.0.as_secs_f64())),
        n => format!("{n} runs"),
    }
}

/// The least and the most of the load that claims ask for first.
fn phases_title(plan: &Plan, places: &[(&Ran, usize)], categories: &[String], quantity: Quantity) -> String {
    let asked = plan.asked.iter().find(|asked| asked.quantity == quantity);
    let load = match (quantity.is_of_array(), asked) {
        (true, _) => None,
        (false, Some(asked)) => asked.at.load,
        (false, None) => Some(0),
    };
    let of = |(n, (ran, phase)): (usize, &(&Ran, usize))| {
        Some((n, level(ran, quantity, At { load, phase: *phase, array: None })?))
    };
    let mut all: Vec<(usize, Estimate)> = places.iter().enumerate().filter_map(of).collect();
    all.sort_by(|a, b| a.1.mean.total_cmp(&b.1.mean));
    let who = if quantity.is_of_array() { String::new() } else { format!("{}: ", load_name(plan, load)) };
    let text = match &all[..] {
        [] => format!("{}: nothing was measured", quantity.words()),
        [(_, one)] => format!("{}{} is {}", who, quantity.words(), with_unit(one, quantity)),
        [(least, low), .., (most, high)] => format!(
            "{}{} from {} ({}) to {} ({})",
            who,
            quantity.words(),
            value(low),
            categories[*least],
            with_unit(high, quantity),
            categories[*most]
        ),
    };
    capital(&text)
}

/// A quantity of each load over time; of several runs the first.
fn timeline(plan: &Plan, recording: &Recording, quantity: Quantity) -> Figure {
    let several = recording.ran.len() > 1;
    let first = |ran: &'_ Ran| ran.courses.first().cloned();
    let courses: Vec<Course> = recording.ran.iter().filter_map(first).collect();
    let mut series = Vec::new();
    for course in &courses {
        for (n, load) in loads_of(plan, quantity).into_iter().enumerate() {
            let points = line(course, quantity, load);
            if points.iter().any(|point| point[1].is_finite()) {
                series.push(Series {
                    name: load_name(plan, load),
                    color: COLORS[n % COLORS.len()],
                    points,
                    panel: several.then(|| course.array.clone()),
                });
            }
        }
    }
    let span = |name: &str, from: f64, to: f64| Span { name: name.into(), from, to };
    let one = courses.first();
    let phases = one.map_or(vec![], |course| {
        let all = plan.phases.iter().zip(&course.phases);
        all.map(|(plan, played)| span(&plan.name, played.from_s, played.to_s)).collect()
    });
    let settle = plan.run.settle.0.as_secs_f64();
    Figure {
        id: format!("time_{}", quantity.name()),
        title: timeline_title(plan, &courses, quantity),
        subtitle: Some(format!(
            "{} of each load in windows of {} s{}",
            capital(quantity.words()),
            plain(plan.run.window.0.as_secs_f64()),
            if plan.run.repeats > 1 { ", the first of the runs" } else { "" }
        )),
        kind: "timeline",
        x: axis("time", "s"),
        y: axis(quantity.words(), quantity.unit()),
        series,
        phases,
        warm_up: one
            .filter(|course| course.warm_up.to_s > course.warm_up.from_s)
            .map(|course| span("warm-up, as the scenario says", course.warm_up.from_s, course.warm_up.to_s)),
        panels: match several {
            true => courses
                .iter()
                .map(|course| Panel { id: course.array.clone(), title: course.array.clone(), y: None })
                .collect(),
            false => vec![],
        },
        note: (settle > 0.0).then(|| format!("The first {} s of each phase do not count.", plain(settle))),
        ..Figure::default()
    }
}

/// Every window, the warm-up first; a gap where the load does not run.
fn line(course: &Course, quantity: Quantity, load: Option<usize>) -> Vec<Vec<f64>> {
    let mut points = Vec::new();
    for played in std::iter::once(&course.warm_up).chain(&course.phases) {
        let middle = |n: usize| played.from_s + (n as f64 + 0.5) * course.window_s;
        if quantity == Quantity::ReadHits {
            points.extend(played.read_hits.iter().enumerate().map(|(n, percent)| vec![middle(n), *percent]));
            continue;
        }
        let windows = played.windows(load);
        if windows.is_empty() {
            points.push(vec![played.from_s, f64::NAN]);
        }
        let value =
            |window: &super::course::Window| window.value(quantity, course.window_s).unwrap_or(f64::NAN);
        points.extend(windows.iter().enumerate().map(|(n, window)| vec![middle(n), value(window)]));
    }
    points
}

fn timeline_title(plan: &Plan, courses: &[Course], quantity: Quantity) -> String {
    let rebuilt = courses.iter().filter_map(|course| course.rebuild_s).next();
    let loads = plan.loads.iter().map(|load| load.name.as_str()).collect::<Vec<_>>().join(", ");
    match rebuilt {
        Some(s) if s.is_finite() => {
            format!("{} over time: the rebuild ends after {} s", capital(quantity.words()), plain(s))
        }
        Some(_) => {
            format!("{} over time: the rebuild does not end within the run", capital(quantity.words()))
        }
        None => format!("{} over time: {loads}", capital(quantity.words())),
    }
}

/// What was measured with each count that was tried.
fn search(plan: &Plan, recording: &Recording) -> Option<Figure> {
    let search = plan.search.as_ref()?;
    let found = |ran: &'_ Ran| ran.found.clone().map(|found| (ran.array.clone(), found));
    let all: Vec<_> = recording.ran.iter().filter_map(found).collect();
    let load = &plan.loads[search.load].name;
    let title: Vec<String> = all
        .iter()
        .map(|(array, found)| {
            let on = if all.len() > 1 { format!("on {array} ") } else { String::new() };
            let more = if found.largest == found.most { " or more" } else { "" };
            format!("{on}{}{more}", found.largest)
        })
        .collect();
    let series = all.iter().enumerate().map(|(n, (array, found))| Series {
        name: array.clone(),
        color: COLORS[n % COLORS.len()],
        points: found.tried.iter().map(|(count, (estimate, _))| bar(*count, Some(*estimate))).collect(),
        panel: None,
    });
    let bound = search.bound.upper.or(search.bound.lower).map(|end| end.value)?;
    let undecided = all.iter().flat_map(|(_, found)| found.tried.values());
    let undecided = undecided.filter(|(_, verdict)| *verdict == Verdict::Undecided).count();
    Some(Figure {
        id: "search".into(),
        title: format!(
            "{} {} keep {} {}",
            capital(&title.join(", ")),
            load,
            search.quantity.words(),
            search.bound.words(search.quantity.unit())
        ),
        subtitle: Some(format!(
            "{} by number of volumes of {load}, as tried by the bisection",
            capital(search.quantity.words())
        )),
        kind: "lines",
        x: axis("volumes", ""),
        y: axis(search.quantity.words(), search.quantity.unit()),
        series: series.collect(),
        marks: vec![Mark { label: "bound".into(), value: bound, category: None, series: None, panel: None }],
        note: (undecided > 0)
            .then(|| format!("{undecided} of these are undecided: the bound lies in their interval.")),
        ..Figure::default()
    })
}
