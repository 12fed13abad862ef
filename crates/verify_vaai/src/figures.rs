//! The figures: each title is what was found.

use std::collections::BTreeMap;

use super::bulk::{Bulk, Way};
use super::power_on::{Crowd, Operation};
use super::recording::Judgement;
use super::words::{bytes, count, mean_of, seconds};
use lab_core::report::{Axis, Figure, Mark, Series};
use lab_core::stats::{Estimate, mean, ratio};
use lab_core::words::plain;

/// All figures that have something to show.
pub(crate) fn figures(judgement: &Judgement<'_>) -> Vec<Figure> {
    let [time, cpu, packets, drive_io] = [TIME, CPU, PACKETS, DRIVE_IO].map(|b| bars(judgement, &b));
    let all = [
        share(judgement),
        time,
        cpu,
        packets,
        drive_io,
        course(judgement),
        locking(judgement),
        filling(judgement),
        daily_locks(judgement),
        daily(judgement),
    ];
    all.into_iter().flatten().collect()
}

const TIME: Bars = Bars {
    id: "time",
    metric: "time_s",
    label: "time",
    unit: "ms",
    by: 1e3,
    title: |j| {
        let (off, on) = off_and_on(j, "zeroing", "time_s")?;
        Some(format!("Zeroing takes {} instead of {}", seconds(on), seconds(off)))
    },
    subtitle: "Time of one operation",
};

const CPU: Bars = Bars {
    id: "cpu",
    metric: "host_cpu_s",
    label: "host CPU time",
    unit: "ms",
    by: 1e3,
    title: |j| {
        let (off, on) = off_and_on(j, "copy", "host_cpu_s")?;
        Some(format!("A clone costs the host {} of CPU time instead of {}", seconds(on), seconds(off)))
    },
    subtitle: "CPU time of the host's thread, user and system",
};

const PACKETS: Bars = Bars {
    id: "packets",
    metric: "packets",
    label: "packets, both ways",
    unit: "",
    by: 1.0,
    title: |j| {
        let (off, on) = off_and_on(j, "zeroing", "packets")?;
        Some(format!("{} packets become {}", count(off), count(on)))
    },
    subtitle: "TCP segments sent and received by the host",
};

const DRIVE_IO: Bars = Bars {
    id: "drive-io",
    metric: "drive_bytes",
    label: "drive I/O",
    unit: "MiB",
    by: 1.0 / 1_048_576.0,
    title: |j| {
        let (off, on) = off_and_on(j, "zeroing", "drive_bytes")?;
        let what = if on < off / 100.0 {
            "Zeroing inside a pool writes only metadata to the drives"
        } else {
            "Zeroing costs the drives"
        };
        Some(format!("{what}: {} instead of {}", bytes(on), bytes(off)))
    },
    subtitle: "Bytes that the array's drives read and wrote",
};

fn off_and_on(judgement: &Judgement<'_>, test: &str, metric: &str) -> Option<(f64, f64)> {
    Some((mean_of(judgement, test, "off", metric)?, mean_of(judgement, test, "paper", metric)?))
}

/// The tests that were done, with the names of their groups of bars.
fn groups(judgement: &Judgement<'_>) -> Vec<(Bulk, String)> {
    let done = |bulk: &Bulk| !judgement.run.record.series(bulk.name(), "off", "time_s").is_empty();
    let named = |bulk: Bulk| {
        let len = mean_of(judgement, bulk.name(), "off", "len_bytes").map(bytes).unwrap_or_default();
        let name = match bulk {
            Bulk::Zeroing => format!("Zeroing, {len}"),
            Bulk::Copy => format!("Clone in one pool, {len}"),
            Bulk::Between => format!("Clone between pools, {len}"),
        };
        (bulk, name)
    };
    Bulk::ALL.into_iter().filter(done).map(named).collect()
}

/// A way that is shown: its mode in samples, its name, its colour.
type Shown = (&'static str, &'static str, &'static str);

/// Without offload first, then in the published steps.
fn shown(judgement: &Judgement<'_>) -> Vec<Shown> {
    let (off, paper) = (Way::Off.name(), Way::Paper.name());
    match judgement.run.is_model {
        false => vec![
            (off, "by the host", "orange"),
            (paper, "offloaded, small steps", "blue"),
            (Way::Advertised.name(), "offloaded, large steps", "green"),
            (Way::Tokens.name(), "offloaded, tokens", "purple"),
        ],
        true => vec![
            (off, "by the host", "orange"),
            (paper, "offloaded, thick, small steps", "blue"),
            ("thin_paper", "offloaded, thin, small steps", "sky"),
            ("thin_advertised", "offloaded, thin, large steps", "green"),
            ("thin_tokens", "offloaded, thin, tokens", "purple"),
        ],
    }
}

fn point(x: usize, estimate: &Estimate, by: f64) -> Vec<f64> {
    let e = estimate.scaled(by);
    if e.low.is_finite() { vec![x as f64, e.mean, e.low.max(0.0), e.high] } else { vec![x as f64, e.mean] }
}

fn repeats(judgement: &Judgement<'_>) -> String {
    match judgement.run.is_model {
        true => "in virtual time".into(),
        false => format!("mean of {} repeats, 95 % interval", judgement.run.record.repeats),
    }
}

/// The figure of the first screen: how much of the time is left.
fn share(judgement: &Judgement<'_>) -> Option<Figure> {
    let groups = groups(judgement);
    let estimate = |bulk: Bulk, mode: &str| {
        let (on, off) = judgement.run.record.paired(bulk.name(), [mode, "off"], "time_s");
        ratio(&on, &off)
    };
    let series = shown(judgement).into_iter().skip(1).map(|(mode, name, color)| {
        let points = groups
            .iter()
            .enumerate()
            .filter_map(|(x, (bulk, _))| Some(point(x, &estimate(*bulk, mode)?, 100.0)));
        Series { name: name.into(), color, points: points.collect(), panel: None }
    });
    let left = |bulk: Bulk| estimate(bulk, Way::Paper.name()).map(|e| plain(round2(100.0 * e.mean)));
    let within =
        [Bulk::Zeroing, Bulk::Copy].iter().filter_map(|b| left(*b)).collect::<Vec<_>>().join(" % and ");
    let title = match left(Bulk::Between) {
        Some(between) => format!(
            "Zeroing and cloning in a pool take {within} % of the time; between pools it is {between} %"
        ),
        None => format!("Zeroing and cloning take {within} % of the time"),
    };
    let mark = |(bulk, name): &(Bulk, String)| {
        let (off_s, on_s) = bulk.published_s();
        Mark {
            label: "published".into(),
            value: 100.0 * on_s / off_s,
            category: Some(name.clone()),
            series: None,
            panel: None,
        }
    };
    (!groups.is_empty()).then(|| Figure {
        id: "share".into(),
        title,
        subtitle: Some(format!("Time with offload, as a share of the time without; {}", repeats(judgement))),
        kind: "bars",
        y: Axis { label: "time, of that without offload".into(), unit: "%".into(), log: false },
        categories: groups.iter().map(|(_, name)| name.clone()).collect(),
        series: series.collect(),
        marks: groups.iter().map(mark).collect(),
        note: Some(
            "Small steps: 1 MiB zeroed, 4 MiB copied per command, as published; large steps: the most that the array advertises. \
             Published: 100 GiB zeroed, 48 GiB copied, over 1 GbE."
                .into(),
        ),
        ..Figure::default()
    })
}

fn round2(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// A figure of bars, one group per test, one bar per way.
struct Bars {
    id: &'static str,
    metric: &'static str,
    label: &'static str,
    unit: &'static str,
    by: f64,
    title: fn(&Judgement<'_>) -> Option<String>,
    subtitle: &'static str,
}

fn bars(judgement: &Judgement<'_>, bars: &Bars) -> Option<Figure> {
    let groups = groups(judgement);
    let series = shown(judgement).into_iter().map(|(mode, name, color)| {
        let points = groups.iter().enumerate().filter_map(|(x, (bulk, _))| {
            let values = judgement.run.record.series(bulk.name(), mode, bars.metric);
            (!values.is_empty()).then(|| point(x, &mean(&values), bars.by))
        });
        Series { name: name.into(), color, points: points.collect(), panel: None }
    });
    Some(Figure {
        id: bars.id.into(),
        title: (bars.title)(judgement)?,
        subtitle: Some(format!("{}; {}", bars.subtitle, repeats(judgement))),
        kind: "bars",
        y: Axis { label: bars.label.into(), unit: bars.unit.into(), log: true },
        categories: groups.iter().map(|(_, name)| name.clone()).collect(),
        series: series.collect(),
        marks: published(judgement, bars, &groups),
        ..Figure::default()
    })
}

/// What the model's times are held against.
fn published(judgement: &Judgement<'_>, bars: &Bars, groups: &[(Bulk, String)]) -> Vec<Mark> {
    let is_held = judgement.run.is_model && bars.metric == TIME.metric;
    let marks = groups.iter().filter(|_| is_held).flat_map(|(bulk, group)| {
        let (off_s, on_s) = bulk.published_s();
        [("published, by the host", off_s), ("published, offloaded", on_s)].map(|(label, value)| Mark {
            label: label.into(),
            value: bars.by * value,
            category: Some(group.clone()),
            series: None,
            panel: None,
        })
    });
    marks.collect()
}

/// Bytes on the wire over time, without and with offload.
fn course(judgement: &Judgement<'_>) -> Option<Figure> {
    let course = |mode: &str| {
        judgement.run.record.courses.iter().find(|c| c.test == "zeroing" && c.mode == mode && c.repeat == 1)
    };
    let (off, on) = (course("off")?, course("paper")?);
    let line = |ticks: &[super::record::Tick]| -> Vec<Vec<f64>> {
        let points = ticks.iter().map(|t| vec![t.at_s, t.bytes / 1e6]);
        std::iter::once(vec![0.0, 0.0]).chain(points).collect()
    };
    let (off_end, on_end) = (off.ticks.last()?, on.ticks.last()?);
    // The offloaded line ends early: drawn on to the end, it shows that nothing more comes.
    let mut still = line(&on.ticks);
    still.push(vec![off_end.at_s, on_end.bytes / 1e6]);
    let series = |(_, name, color): Shown, points| Series { name: name.into(), color, points, panel: None };
    let shown = shown(judgement);
    Some(Figure {
        id: "course".into(),
        title: format!("With offload the wire is silent after {}", seconds(on_end.at_s)),
        subtitle: Some("Bytes both ways since the zeroing began; first repeat".into()),
        kind: "lines",
        x: Axis { label: "time".into(), unit: "s".into(), log: false },
        y: Axis { label: "bytes, both ways".into(), unit: "MB".into(), log: false },
        series: vec![series(shown[0], line(&off.ticks)), series(shown[1], still)],
        ..Figure::default()
    })
}

/// The time of every VM, sorted: each rank's mean over the repeats.
fn ranks(judgement: &Judgement<'_>, crowd: Crowd) -> Vec<Vec<f64>> {
    let mut by_repeat: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
    for power_on in judgement.run.record.power_ons.iter().filter(|p| p.mode == crowd.name()) {
        by_repeat.entry(power_on.repeat).or_default().push(power_on.time_s);
    }
    by_repeat.values_mut().for_each(|times| times.sort_by(f64::total_cmp));
    let ranks = by_repeat.values().map(Vec::len).min().unwrap_or(0);
    let at = |rank: usize| by_repeat.values().map(|times| times[rank]).sum::<f64>() / by_repeat.len() as f64;
    (0..ranks).map(|rank| vec![(rank + 1) as f64, at(rank)]).collect()
}

fn locking(judgement: &Judgement<'_>) -> Option<Figure> {
    let all = [
        (Crowd::Reserve, "LU reserved", "orange"),
        (Crowd::Compare, "COMPARE AND WRITE", "blue"),
        (Crowd::Alone, "one host alone", "grey"),
    ];
    let series: Vec<Series> = all
        .iter()
        .map(|(crowd, name, color)| Series {
            name: (*name).into(),
            color,
            points: ranks(judgement, *crowd),
            panel: None,
        })
        .filter(|s| !s.points.is_empty())
        .collect();
    let vms = series.first()?.points.len();
    let mean_of = |crowd: Crowd| mean_of(judgement, "locking", crowd.name(), "vm_time_mean_s");
    let title = format!(
        "{vms} VMs that power on at once take {} each instead of {}; alone on their host they take {}",
        seconds(mean_of(Crowd::Compare)?),
        seconds(mean_of(Crowd::Reserve)?),
        seconds(mean_of(Crowd::Alone)?),
    );
    Some(Figure {
        id: "locking".into(),
        title,
        subtitle: Some(format!(
            "Time to power on of every VM, sorted; at each rank the mean of the repeats: {}",
            judgement.run.record.repeats
        )),
        kind: "ranks",
        x: Axis { label: "VM, by rank".into(), ..Axis::default() },
        y: Axis { label: "time to power on".into(), unit: "s".into(), log: false },
        series,
        ..Figure::default()
    })
}

/// What else VMs ask of locks.
fn daily_locks(judgement: &Judgement<'_>) -> Option<Figure> {
    let done = |operation: &Operation| mean_of(judgement, operation.name(), "compare", "vm_time_mean_s");
    let operations: Vec<Operation> = Operation::ALL.into_iter().filter(|o| done(o).is_some()).collect();
    let all = [
        (Crowd::Reserve, "LU reserved", "orange"),
        (Crowd::Compare, "COMPARE AND WRITE", "blue"),
        (Crowd::Alone, "one host alone", "grey"),
    ];
    let series = all.map(|(crowd, name, color)| {
        let points = operations.iter().enumerate().filter_map(|(x, operation)| {
            let mean_s = mean_of(judgement, operation.name(), crowd.name(), "vm_time_mean_s")?;
            Some(vec![x as f64, 1e3 * mean_s])
        });
        Series { name: name.into(), color, points: points.collect(), panel: None }
    });
    let saved = |operation: &Operation| judgement.estimate(&format!("{}.saved", operation.name()));
    let saved: Vec<f64> = operations.iter().filter_map(saved).map(|e| e.mean).collect();
    let (least, most) = (saved.iter().copied().reduce(f64::min)?, saved.iter().copied().reduce(f64::max)?);
    Some(Figure {
        id: "daily-locks".into(),
        title: format!(
            "Creating, growing, snapshots, hand-over and shutting down take {} to {} % less time with COMPARE AND WRITE",
            plain(round2(least)),
            plain(round2(most))
        ),
        subtitle: Some("Mean time of a VM, while all VMs of all hosts do the same; in virtual time".into()),
        kind: "bars",
        y: Axis { label: "mean time of a VM".into(), unit: "ms".into(), log: true },
        categories: operations.iter().map(|o| operation_words(*o).to_owned()).collect(),
        series: series.into(),
        ..Figure::default()
    })
}

/// An operation with locks, as it is called on the page.
pub(crate) fn operation_words(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "create",
        Operation::Grow => "grow a thin disk",
        Operation::Snapshot => "create a snapshot",
        Operation::HandOver => "hand over",
        Operation::Consolidate => "delete a snapshot",
        Operation::ShutDown => "shut down",
    }
}

/// What was done with data besides, and how it is called.
pub(crate) const DAILY: [(&str, &str); 4] = [
    ("first_4k", "First writes, 4 KiB"),
    ("first_64k", "First writes, 64 KiB"),
    ("deploy", "Disks deployed at once"),
    ("live", "Live migration of a disk"),
];

/// First writes, deployment and migration, by the host and by the array.
fn daily(judgement: &Judgement<'_>) -> Option<Figure> {
    let done = |(test, _): &(&str, &str)| mean_of(judgement, test, "paper", "time_s").is_some();
    let tests: Vec<(&str, &str)> = DAILY.into_iter().filter(done).collect();
    let all = [
        ("off", "host, thick", "orange"),
        ("paper", "array, thick", "blue"),
        ("thin_off", "host, thin", "vermillion"),
        ("thin_paper", "array, thin", "sky"),
    ];
    let series = all.map(|(mode, name, color)| {
        let points = tests.iter().enumerate().filter_map(|(x, (test, _))| {
            Some(vec![x as f64, 1e3 * mean_of(judgement, test, mode, "time_s")?])
        });
        Series { name: name.into(), color, points: points.collect(), panel: None }
    });
    let of = |mode: &str| mean_of(judgement, "first_4k", mode, "response_s");
    Some(Figure {
        id: "daily".into(),
        title: format!(
            "The first write into a block of a thin disk takes {} instead of {}",
            seconds(of("thin_paper")?),
            seconds(of("thin_off")?)
        ),
        subtitle: Some("Time of one operation, in the published steps; in virtual time".into()),
        kind: "bars",
        y: Axis { label: "time".into(), unit: "ms".into(), log: true },
        categories: tests.iter().map(|(_, name)| (*name).to_owned()).collect(),
        series: series.into(),
        ..Figure::default()
    })
}

/// The thin pool while the host writes.
fn filling(judgement: &Judgement<'_>) -> Option<Figure> {
    let of =
        |f: &&super::record::Filled| f.repeat == 1 && matches!(f.event, None | Some("warned" | "stopped"));
    let first: Vec<_> = judgement.run.record.filling.iter().filter(of).collect();
    let warned = first.iter().find(|f| f.event == Some("warned"));
    let stopped = first.iter().find(|f| f.event == Some("stopped"))?;
    let mib = |written: f64| written / f64::from(1 << 20);
    let points = first.iter().map(|f| vec![mib(f.written_bytes), f.used_percent]).collect();
    let event = |name: &str, color, f: &super::record::Filled| Series {
        name: name.into(),
        color,
        points: vec![vec![mib(f.written_bytes), f.used_percent]],
        panel: None,
    };
    let mut series = vec![Series { name: "pool used".into(), color: "blue", points, panel: None }];
    series.extend(warned.map(|f| event("warned (38h/07h)", "orange", f)));
    series.push(event("stopped (27h/07h)", "vermillion", stopped));
    let title = match warned {
        Some(f) => format!(
            "The host is warned at {} % of the pool and stopped at {} %",
            plain(round2(f.used_percent)),
            plain(round2(stopped.used_percent))
        ),
        None => format!(
            "The host is stopped at {} % of the pool and was never warned",
            plain(round2(stopped.used_percent))
        ),
    };
    Some(Figure {
        id: "thin".into(),
        title,
        subtitle: Some(format!(
            "A host writes 1 MiB at a time to a LU that is promised more than its pool has; the threshold is {} %; first repeat",
            judgement.vaai.thin.threshold_percent
        )),
        kind: "lines",
        x: Axis { label: "written".into(), unit: "MiB".into(), log: false },
        y: Axis { label: "pool used".into(), unit: "%".into(), log: false },
        series,
        ..Figure::default()
    })
}
