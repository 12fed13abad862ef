//! The figures: each title is what was found.

use diskstress::{Direction, Pattern};

use super::claims::farthest;
use super::lu::Cost;
use super::results::{Of, On, Run, patterns, processor, speed};
use lab_core::report::{Axis, Figure, Series};
use lab_core::stats::{self, Estimate};

/// Physical is blue and virtual orange throughout.
fn color(on: On) -> &'static str {
    match on {
        On::Physical => "blue",
        On::Virtual => "orange",
    }
}

/// All figures.
pub(super) fn figures(run: &Run, is_model: bool) -> Vec<Figure> {
    let mut out = vec![speeds(run), processors(run, is_model)];
    if is_model {
        out.insert(0, rise(run));
        out.extend(on_lu(run));
    }
    out
}

fn shape(pattern: &Pattern) -> String {
    format!("{}: {}", pattern.name, pattern)
}

fn all_patterns() -> Vec<Pattern> {
    [Direction::Read, Direction::Write].into_iter().flat_map(patterns).collect()
}

/// A bar for each pattern and machine.
fn bars(run: &Run, of: Of) -> Vec<Series> {
    let point = |(i, pattern): (usize, &Pattern), on| {
        let mean = run.mean(&pattern.name, on, of)?;
        Some(match mean.low.is_finite() {
            true => vec![i as f64, mean.mean, mean.low.max(0.0), mean.high],
            false => vec![i as f64, mean.mean],
        })
    };
    let patterns = all_patterns();
    let series = |on: On| Series {
        name: on.name().into(),
        color: color(on),
        points: patterns.iter().enumerate().filter_map(|p| point(p, on)).collect(),
        panel: None,
    };
    On::BOTH.map(series).into()
}

/// "-9.2 % at the most (R4)".
fn apart(far: Option<(String, Estimate)>) -> Option<String> {
    let (name, over) = far?;
    let percent = 100.0 * (over.mean - 1.0);
    if percent.abs() < 0.05 {
        return Some("the same".into());
    }
    Some(format!("{percent:+.1} % at the most ({name})"))
}

fn speeds(run: &Run) -> Figure {
    let [reads, writes] = [Direction::Read, Direction::Write].map(|d| apart(farthest(run, d)));
    let title = match (reads, writes) {
        (Some(reads), Some(writes)) => {
            format!("Virtual against physical: reads {reads}, writes {writes}")
        }
        _ => "Speed of each pattern".into(),
    };
    Figure {
        id: "speed".into(),
        title,
        subtitle: Some(format!(
            "all files of a pattern together, mean of {} repeats with its 95 % interval; R reads, W writes",
            run.repeats
        )),
        kind: "bars",
        x: Axis { label: "pattern".into(), ..Axis::default() },
        y: Axis { label: "speed".into(), unit: "MB/s".into(), log: false },
        categories: all_patterns().iter().map(shape).collect(),
        series: bars(run, speed),
        ..Figure::default()
    }
}

/// A LU of masu beside the controller of the machine.
fn on_lu(run: &Run) -> Option<Figure> {
    const PATTERNS: [&str; 4] = ["R1", "R4", "W1", "W4"];
    let bars = |name: &str, color, of: fn(&Cost) -> f64| {
        let point = |(i, pattern): (usize, &&str)| {
            let samples = run.lu_samples(pattern, of);
            let e = (!samples.is_empty()).then(|| stats::mean(&samples))?;
            Some(match e.low.is_finite() {
                true => vec![i as f64, e.mean, e.low.max(0.0), e.high],
                false => vec![i as f64, e.mean],
            })
        };
        let points: Vec<Vec<f64>> = PATTERNS.iter().enumerate().filter_map(point).collect();
        Series { name: name.into(), color, points, panel: None }
    };
    let percent = |pattern: &str| Some(100.0 * run.lu_over(pattern)?.mean);
    let [r1, r4, w1, w4] = PATTERNS.map(percent);
    Some(Figure {
        id: "lu".into(),
        title: format!(
            "Through a LU reads have {:.0} and {:.0} % of what they have natively (R1, R4), and writes {:.0} and {:.0} % (W1, W4)",
            r1?, r4?, w1?, w4?
        ),
        subtitle: Some("the same place of the same drives, with shorter files".into()),
        kind: "bars",
        x: Axis { label: "pattern".into(), ..Axis::default() },
        y: Axis { label: "speed".into(), unit: "MB/s".into(), log: false },
        categories: PATTERNS.map(str::to_owned).into(),
        series: vec![
            bars("physical", color(On::Physical), |cost| cost.physical_mb_per_s),
            bars("LU", "green", |cost| cost.mb_per_s),
        ],
        ..Figure::default()
    })
}

fn processors(run: &Run, is_model: bool) -> Figure {
    let most = |on| {
        let all = all_patterns().into_iter().filter_map(|p| run.mean(&p.name, on, processor));
        all.map(|e| e.mean).fold(0.0, f64::max)
    };
    Figure {
        id: "processor".into(),
        title: format!(
            "Processors work {:.1} % at the most natively and {:.1} % virtually",
            most(On::Physical),
            most(On::Virtual)
        ),
        subtitle: Some("share of all processors of the machine while a pattern runs".into()),
        kind: "bars",
        x: Axis { label: "pattern".into(), ..Axis::default() },
        y: Axis { label: "processors".into(), unit: "%".into(), log: false },
        categories: all_patterns().iter().map(shape).collect(),
        series: bars(run, processor),
        note: (!is_model)
            .then(|| "The guest's CPU is emulated in software: its load is that of the emulator.".into()),
        ..Figure::default()
    }
}

/// Reads over the number of files.
fn rise(run: &Run) -> Figure {
    let reads = patterns(Direction::Read);
    let series = |on: On| Series {
        name: on.name().into(),
        color: color(on),
        points: reads
            .iter()
            .filter_map(|p| {
                let e = run.mean(&p.name, on, speed)?;
                Some(vec![f64::from(p.files), e.mean, e.low, e.high])
            })
            .collect(),
        panel: None,
    };
    let of = |on| run.rise(&run.drive, ("R4", "R1"), on).map_or(0.0, |e| 100.0 * (e.mean - 1.0));
    Figure {
        id: "rise".into(),
        title: format!(
            "From 64 files to 8 reads rise {:.1} % natively and {:.1} % in a virtual machine",
            of(On::Physical),
            of(On::Virtual)
        ),
        subtitle: Some(format!("sequential reads of 8 GB, all files together; {} repeats, 95 % interval", run.repeats)),
        kind: "lines",
        x: Axis { label: "files read at once".into(), unit: String::new(), log: true },
        y: Axis { label: "speed".into(), unit: "MB/s".into(), log: false },
        series: On::BOTH.map(series).into(),
        note: Some(
            "The files share the memory in which the controller reads ahead, natively and from a guest: fewer files, longer stretches, fewer moves of the arms.".into(),
        ),
        ..Figure::default()
    }
}
