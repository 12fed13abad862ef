//! The figures of a real run.

use super::claims::{Rounds, array, writes_per_mb};
use super::measure::{Run, value};
use super::stack::volume;
use lab_core::report::{Axis, Figure, Mark, Panel, Series};
use lab_core::stats::Estimate;
use lab_tools::samplers::Sample;

/// A configuration as figures show it.
pub(super) struct Shown {
    pub(super) name: String,
    pub(super) color: &'static str,
    /// What was published of it, MB/s of the tool.
    pub(super) published: Option<f64>,
}

fn axis(label: &str, unit: &str) -> Axis {
    Axis { label: label.into(), unit: unit.into(), log: false }
}

/// All of them.
pub(super) fn figures(shown: &[Shown], runs: &[Run], disk: Option<&[String]>) -> Vec<Figure> {
    let mut out = vec![throughput(shown, runs), rounds(shown, runs)];
    if runs.iter().any(|run| run.array.is_some()) {
        out.extend(of_array(shown, runs));
    }
    if let Some(disks) = disk {
        out.push(response(shown, runs, disks));
    }
    out.push(busy(shown, runs));
    out
}

fn bar(x: usize, e: &Estimate) -> Vec<f64> {
    match e.low.is_finite() && e.low < e.high {
        true => vec![x as f64, e.mean, e.low, e.high],
        false => vec![x as f64, e.mean],
    }
}

/// A bar for each configuration, its mean over the rounds.
fn bars(shown: &[Shown], runs: &[Run], of: impl Fn(&Run) -> f64) -> Vec<Vec<f64>> {
    let level = |(x, one): (usize, &Shown)| Some(bar(x, &Rounds::of(runs, &one.name).level(&of)?));
    shown.iter().enumerate().filter_map(level).collect()
}

fn names(shown: &[Shown]) -> Vec<String> {
    shown.iter().map(|one| one.name.clone()).collect()
}

fn throughput(shown: &[Shown], runs: &[Run]) -> Figure {
    let tool = |run: &Run| run.tool_mb_per_s;
    let means: Vec<String> = shown
        .iter()
        .filter_map(|one| {
            Some(format!("{} {:.1} MB/s", one.name, Rounds::of(runs, &one.name).level(tool)?.mean))
        })
        .collect();
    let mark = |one: &Shown| {
        Some(Mark {
            label: "published, of other hardware".into(),
            value: one.published?,
            category: Some(one.name.clone()),
            series: None,
            panel: None,
        })
    };
    Figure {
        id: "throughput".into(),
        title: format!("A server copies: {}", means.join(", ")),
        subtitle: Some(
            "What the tool copies until all is on the disk, mean of the rounds, 95 % interval".into(),
        ),
        kind: "bars",
        x: axis("configuration", ""),
        y: axis("throughput of a server", "MB/s"),
        categories: names(shown),
        series: vec![Series {
            name: "measured".into(),
            color: "blue",
            points: bars(shown, runs, tool),
            panel: None,
        }],
        marks: shown.iter().filter_map(mark).collect(),
        ..Figure::default()
    }
}

fn rounds(shown: &[Shown], runs: &[Run]) -> Figure {
    let line = |one: &Shown| Series {
        name: one.name.clone(),
        color: one.color,
        points: runs
            .iter()
            .filter(|run| run.configuration == one.name)
            .map(|run| vec![f64::from(run.round + 1), run.tool_mb_per_s])
            .collect(),
        panel: None,
    };
    Figure {
        id: "rounds".into(),
        title:
            "Round by round: what differs between rounds is the machine's, what differs within one the disk's"
                .into(),
        subtitle: Some("One run of each configuration in a round, in an order by the seed".into()),
        kind: "lines",
        x: axis("round", ""),
        y: axis("throughput of a server", "MB/s"),
        series: shown.iter().map(line).collect(),
        ..Figure::default()
    }
}

/// One bar for each configuration.
fn one_bar(
    (id, title): (&str, String),
    (label, unit): (&str, &str),
    (shown, runs): (&[Shown], &[Run]),
    of: impl Fn(&Run) -> f64,
) -> Figure {
    Figure {
        id: id.into(),
        title,
        subtitle: Some("The LU's own counters, mean of the rounds, 95 % interval".into()),
        kind: "bars",
        x: axis("configuration", ""),
        y: axis(label, unit),
        categories: names(shown),
        series: vec![Series {
            name: "at the array".into(),
            color: "blue",
            points: bars(shown, runs, of),
            panel: None,
        }],
        ..Figure::default()
    }
}

/// How many writes and how long, and the LU over the time of a run.
fn of_array(shown: &[Shown], runs: &[Run]) -> Vec<Figure> {
    let write_kib = array(|a| a.write_kib);
    let each = |of: &dyn Fn(&Run) -> f64, unit: &str| -> String {
        let level = |one: &Shown| Rounds::of(runs, &one.name).level(of).map_or(f64::NAN, |e| e.mean);
        let words = shown.iter().map(|one| format!("{} {:.3}{unit}", one.name, level(one)));
        words.collect::<Vec<_>>().join(", ")
    };
    let count = format!("Writes at the array for each MB copied: {}", each(&writes_per_mb, ""));
    let size = format!("Size of a write at the array: {}", each(&write_kib, " KiB"));
    vec![
        one_bar(("writes", count), ("writes for each MB copied", ""), (shown, runs), writes_per_mb),
        one_bar(("write_size", size), ("a write", "KiB"), (shown, runs), write_kib),
        over_time(shown, runs),
    ]
}

fn over_time(shown: &[Shown], runs: &[Run]) -> Figure {
    let of_lu = |metric: &'static str| {
        move |number: usize, sample: &Sample| value(sample, &format!("lu {}", volume(number)), metric)
    };
    let (read, written) = (of_lu("read"), of_lu("written"));
    let (reads, writes) = (of_lu("reads"), of_lu("writes"));
    let of: [PanelOf<'_>; 4] = [
        ("read_mb", "Array reads", ("reads of the LU", "MB/s"), 1, &read),
        ("write_mb", "Array writes", ("writes of the LU", "MB/s"), 1, &written),
        ("read_iops", "Array reads, I/Os", ("reads of the LU", "IOPS"), 1, &reads),
        ("write_iops", "Array writes, I/Os", ("writes of the LU", "IOPS"), 1, &writes),
    ];
    let share = |one: &Shown| {
        let of = |of: fn(&super::measure::Array) -> f64| {
            Rounds::of(runs, &one.name).level(array(of)).map_or(f64::NAN, |e| e.mean)
        };
        format!("{:.0} and {:.0} ({})", of(|a| a.read_mb_per_s), of(|a| a.write_mb_per_s), one.name)
    };
    let shares: Vec<String> = shown.iter().map(share).collect();
    timeline("array", format!("The array reads and writes {} MB/s", shares.join(", ")), shown, runs, &of)
}

/// A panel of a timeline: its id and title, its axis, which series it is in, and what of a sample.
type PanelOf<'a> = (&'a str, &'a str, (&'a str, &'a str), usize, &'a dyn Fn(usize, &Sample) -> Option<f64>);

/// Lines over the time of a run: at each sample the mean of the rounds, and a band from the least to the most
/// of them.
fn timeline(id: &str, title: String, shown: &[Shown], runs: &[Run], of: &[PanelOf<'_>]) -> Figure {
    let mut series = Vec::new();
    for (panel, _, _, source, value) in of {
        for (number, one) in shown.iter().enumerate() {
            let own: Vec<&Run> = runs.iter().filter(|run| run.configuration == one.name).collect();
            let last =
                own.iter().filter_map(|run| Some(run.series.get(*source)?.samples.len())).min().unwrap_or(0);
            let point = |at: usize| {
                let samples = own.iter().filter_map(|run| run.series.get(*source)?.samples.get(at));
                let values: Vec<(f64, f64)> =
                    samples.filter_map(|s| Some(((s.from_s + s.to_s) / 2.0, value(number, s)?))).collect();
                if values.is_empty() {
                    return None;
                }
                let count = values.len() as f64;
                let sum = values.iter().fold((0.0, 0.0), |sum, v| (sum.0 + v.0, sum.1 + v.1));
                let low = values.iter().map(|v| v.1).fold(f64::INFINITY, f64::min);
                let high = values.iter().map(|v| v.1).fold(f64::NEG_INFINITY, f64::max);
                Some(vec![sum.0 / count, sum.1 / count, low, high])
            };
            series.push(Series {
                name: one.name.clone(),
                color: one.color,
                points: (0..last).filter_map(point).collect(),
                panel: Some((*panel).into()),
            });
        }
    }
    let panel = |(id, title, (label, unit), _, _): &PanelOf<'_>| Panel {
        id: (*id).into(),
        title: (*title).into(),
        y: Some(axis(label, unit)),
    };
    Figure {
        id: id.into(),
        title,
        subtitle: Some("Over the time of a run; bands go from the least to the most of the rounds".into()),
        kind: "timeline",
        x: axis("time in a run", "s"),
        y: axis("", ""),
        series,
        panels: of.iter().map(panel).collect(),
        ..Figure::default()
    }
}

fn response(shown: &[Shown], runs: &[Run], disks: &[String]) -> Figure {
    let of_disk = |metric: &'static str| {
        move |number: usize, sample: &Sample| value(sample, &format!("disk {}", disks.get(number)?), metric)
    };
    let (reads, writes, queue) = (of_disk("read await"), of_disk("write await"), of_disk("queue"));
    let of: [PanelOf<'_>; 3] = [
        ("read_ms", "Time of a read", ("a read", "ms"), 0, &reads),
        ("write_ms", "Time of a write", ("a write", "ms"), 0, &writes),
        ("queue", "Queue of the server's disk", ("I/Os in the disk", ""), 0, &queue),
    ];
    let took = |one: &Shown| {
        let of = Rounds::of(runs, &one.name)
            .level(|run| run.disk.as_ref().map_or(f64::NAN, |d| d.read_ms))
            .map_or(f64::NAN, |e| e.mean);
        format!("{:.1} ms ({})", of, one.name)
    };
    let title =
        format!("A read takes {}; users notice 50 ms", shown.iter().map(took).collect::<Vec<_>>().join(", "));
    timeline("response", title, shown, runs, &of)
}

fn busy(shown: &[Shown], runs: &[Run]) -> Figure {
    let of = |resource: &'static str, metric: &'static str| {
        move |_: usize, sample: &Sample| value(sample, resource, metric)
    };
    let (cpu, memory) = (of("cpu", "busy"), of("memory", "available"));
    let (controller, pending) = (of("controller 0", "busy"), of("cache 0", "write pending"));
    let mut panels: Vec<PanelOf<'_>> = vec![
        ("cpu", "Processors of this machine", ("processor time", "%"), 0, &cpu),
        ("memory", "Memory of this machine", ("available", "GiB"), 0, &memory),
    ];
    if runs.iter().any(|run| run.array.is_some()) {
        panels.push(("controller", "Controller", ("utilisation", "%"), 1, &controller));
        panels.push(("pending", "Write pending", ("of the cache", "%"), 1, &pending));
    }
    let of_all = |of: fn(&Run) -> f64| runs.iter().map(of).sum::<f64>() / runs.len().max(1) as f64;
    let drives = of_all(|run| run.array.as_ref().map_or(f64::NAN, |a| a.drives_percent));
    let title = match runs.iter().any(|run| run.array.is_some()) {
        true => format!(
            "Processors of this machine work {:.0} %, drives {drives:.0} %",
            of_all(|run| run.processors_percent)
        ),
        false => format!("Processors of this machine work {:.0} %", of_all(|run| run.processors_percent)),
    };
    timeline("busy", title, shown, runs, &panels)
}
