//! The figures: one for each question, small multiples in it; each title is what was found.
//!
//! Panels stand for the published figures 7-1 to 7-23: `[[published_figure]]` of the scenario.

use super::claims::{Runs, controller, headroom, level, more, of_groups, tool};
use super::model::Ran;
use super::model::course::{ArrayWindow, Course, HostWindow, LuWindow, ServerWindow, Which};
use super::scenario::Fileserver;
use lab_core::report::{Axis, Figure, Mark, Panel, Series, Span};
use lab_core::stats::Estimate;
use lab_core::words::plain;

/// A panel: its id, its title, its axis.
pub(super) type PanelOf<'a, T> = (&'a str, &'a str, (&'a str, &'a str), fn(&T) -> f64);

pub(super) fn axis(label: &str, unit: &str) -> Axis {
    Axis { label: label.into(), unit: unit.into(), log: false }
}

/// The same colour for the same configuration everywhere.
fn color(which: Which) -> &'static str {
    match which {
        Which::DYNAMIC => "orange",
        Which::FIXED => "blue",
        Which::VHDX => "purple",
        _ => "green",
    }
}

/// All of them.
pub(super) fn figures(scenario: &Fileserver, ran: &Ran) -> Vec<Figure> {
    let runs = Runs::of(ran);
    let mut out = vec![throughput(scenario, ran)];
    if let (Some(dynamic), Some(fixed)) = (runs.dynamic, runs.fixed) {
        out.push(array("array", &[dynamic, fixed], scenario));
        out.push(response("response", &[dynamic, fixed], scenario));
        out.push(servers("servers", &[dynamic, fixed], scenario));
        out.push(host(&[dynamic, fixed], scenario));
        out.push(busy(&[dynamic, fixed], scenario));
    }
    if let (Some(fixed), Some(cached)) = (runs.fixed, runs.cached) {
        out.push(cache_throughput(&[fixed, cached], scenario));
        out.push(array("cache_array", &[fixed, cached], scenario));
        out.push(response("cache_response", &[fixed, cached], scenario));
    }
    out
}

fn bar(x: usize, e: &Estimate) -> Vec<f64> {
    match e.low.is_finite() && e.low < e.high {
        true => vec![x as f64, e.mean, e.low, e.high],
        false => vec![x as f64, e.mean],
    }
}

fn throughput(scenario: &Fileserver, ran: &Ran) -> Figure {
    let means: Vec<(Which, Estimate)> =
        ran.courses.iter().filter_map(|course| Some((course.which, level(&tool(course))?))).collect();
    let of = |which: Which| means.iter().find(|(w, _)| *w == which).map(|(_, e)| e.mean);
    let title = match (of(Which::DYNAMIC), of(Which::FIXED)) {
        (Some(d), Some(f)) => format!(
            "A server on a disk that grows copies {d:.1} MB/s, on a fixed one {f:.1}: {:.1} % less",
            100.0 * (1.0 - d / f)
        ),
        _ => "Throughput of a server".into(),
    };
    let p = &scenario.published;
    let mark = |which: Which, value| Mark {
        label: "published".into(),
        value,
        category: Some(which.name().into()),
        series: None,
        panel: None,
    };
    Figure {
        id: "throughput".into(),
        title,
        subtitle: Some("What the tool copies per server, mean of the windows, 95 % interval".into()),
        kind: "bars",
        x: axis("configuration", ""),
        y: axis("throughput of a server", "MB/s"),
        categories: means.iter().map(|(which, _)| which.name().to_owned()).collect(),
        series: vec![Series {
            name: "measured".into(),
            color: "blue",
            points: means.iter().enumerate().map(|(x, (_, e))| bar(x, e)).collect(),
            panel: None,
        }],
        marks: vec![mark(Which::DYNAMIC, p.dynamic_mb_per_s), mark(Which::FIXED, p.fixed_mb_per_s)],
        ..Figure::default()
    }
}

/// A line whose band goes from the least to the most of the four servers.
pub(super) fn band(at_s: f64, values: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let count = values.clone().count().max(1) as f64;
    let mean = values.clone().sum::<f64>() / count;
    let (low, high) = values.fold((f64::INFINITY, 0.0), |(l, h): (f64, f64), v| (l.min(v), h.max(v)));
    vec![at_s, mean, low.min(mean), high]
}

pub(super) fn timeline(
    id: &str,
    title: String,
    scenario: &Fileserver,
    panels: Vec<Panel>,
    series: Vec<Series>,
) -> Figure {
    let run = &scenario.run;
    let from = run.from.0.as_secs_f64();
    Figure {
        id: id.into(),
        title,
        subtitle: Some(
            "Lines are means of the four servers, bands go from the least to the most of them".into(),
        ),
        kind: "timeline",
        x: axis("time", "s"),
        y: axis("", ""),
        series,
        phases: vec![Span { name: "counted".into(), from, to: from + f64::from(run.seconds) }],
        warm_up: Some(Span { name: "counters begin after this".into(), from: 0.0, to: from }),
        panels,
        ..Figure::default()
    }
}

pub(super) fn panels<T>(of: &[PanelOf<'_, T>]) -> Vec<Panel> {
    let panel = |(id, title, (label, unit), _): &PanelOf<'_, T>| Panel {
        id: (*id).into(),
        title: (*title).into(),
        y: Some(axis(label, unit)),
    };
    of.iter().map(panel).collect()
}

pub(super) fn lines<T>(
    courses: &[&Course],
    of: &[PanelOf<'_, T>],
    points: impl Fn(&Course, fn(&T) -> f64) -> Vec<Vec<f64>>,
) -> Vec<Series> {
    let mut out = Vec::new();
    for (id, _, _, value) in of {
        out.extend(courses.iter().map(|course| Series {
            name: course.which.name().into(),
            color: color(course.which),
            points: points(course, *value),
            panel: Some((*id).into()),
        }));
    }
    out
}

/// "3.4 MB/s less", "15 IOPS more".
fn than(less: Option<Estimate>, unit: &str) -> String {
    let Some(e) = less else { return "–".into() };
    format!("{} {unit} {}", plain(e.mean.abs()), if e.mean >= 0.0 { "less" } else { "more" })
}

fn array(id: &str, courses: &[&Course; 2], scenario: &Fileserver) -> Figure {
    let of: [PanelOf<'_, LuWindow>; 4] = [
        ("read_mb", "Array reads", ("reads of a LU", "MB/s"), |w| w.read_mb_per_s),
        ("write_mb", "Array writes", ("writes of a LU", "MB/s"), |w| w.write_mb_per_s),
        ("read_iops", "Array reads, I/Os", ("reads of a LU", "IOPS"), |w| w.read_iops),
        ("write_iops", "Array writes, I/Os", ("writes of a LU", "IOPS"), |w| w.write_iops),
    ];
    let points = |course: &Course, value: fn(&LuWindow) -> f64| {
        course.arrays.iter().map(|w| band(w.at_s, w.lus.iter().map(value))).collect()
    };
    let [a, b] = courses;
    let lower = |of: fn(&LuWindow) -> f64| more(&b.of_lus(of), &a.of_lus(of));
    let [reads, writes] = [lower(|w| w.read_mb_per_s), lower(|w| w.write_iops)];
    let title = match id {
        "array" => format!(
            "A disk that grows reads {} and writes {}",
            than(reads, "MB/s"),
            than(writes, "times per second")
        ),
        _ => format!(
            "With the write cache off the servers read {} and write {}",
            than(reads, "MB/s"),
            than(writes, "times per second")
        ),
    };
    timeline(id, title, scenario, panels(&of), lines(courses, &of, points))
}

fn response(id: &str, courses: &[&Course; 2], scenario: &Fileserver) -> Figure {
    let of: [PanelOf<'_, ServerWindow>; 3] = [
        ("read_ms", "Time of a read", ("a read", "ms"), |w| w.read_ms),
        ("write_ms", "Time of a write", ("a write", "ms"), |w| w.write_ms),
        ("queue", "Disk queue", ("I/Os in the disk", ""), |w| w.queue),
    ];
    let [a, b] = courses.map(|c| level(&c.of_servers(|w| w.read_ms)).map_or(0.0, |e| e.mean));
    let title = format!(
        "A read takes {} ms ({}) and {} ms ({}); users notice 50 ms",
        plain(a),
        courses[0].which.name(),
        plain(b),
        courses[1].which.name()
    );
    timeline(id, title, scenario, panels(&of), lines(courses, &of, of_servers))
}

fn cache_throughput(courses: &[&Course; 2], scenario: &Fileserver) -> Figure {
    let of: [PanelOf<'_, ServerWindow>; 1] =
        [("tool", "Throughput of a server", ("throughput", "MB/s"), |w| w.tool_mb_per_s)];
    let [off, on] = courses.map(|c| level(&tool(c)).map_or(0.0, |e| e.mean));
    let title =
        format!("With the write cache of its disk on a server copies {} MB/s, off {}", plain(on), plain(off));
    let lines = lines(courses, &of, of_servers);
    timeline("cache_throughput", title, scenario, panels(&of), lines)
}

fn of_servers(course: &Course, value: fn(&ServerWindow) -> f64) -> Vec<Vec<f64>> {
    course.hosts.iter().map(|w| band(w.at_s, w.servers.iter().map(value))).collect()
}

fn servers(id: &str, courses: &[&Course; 2], scenario: &Fileserver) -> Figure {
    let of: [PanelOf<'_, ServerWindow>; 3] = [
        ("cpu", "Processors of a server", ("processor time", "%"), |w| w.cpu_percent),
        ("memory", "Unused memory", ("available", "MB"), |w| w.available_mb),
        ("network", "Network, both directions", ("network", "MB/s"), |w| {
            w.received_mb_per_s + w.sent_mb_per_s
        }),
    ];
    let cpu = level(&courses[1].of_servers(|w| w.cpu_percent)).map_or(0.0, |e| e.mean);
    let net =
        level(&courses[1].of_servers(|w| w.received_mb_per_s + w.sent_mb_per_s)).map_or(0.0, |e| e.mean);
    let title = format!("Processors of a server work {cpu:.0} %, its network carries {net:.0} of 250 MB/s");
    timeline(id, title, scenario, panels(&of), lines(courses, &of, of_servers))
}

fn host(courses: &[&Course; 2], scenario: &Fileserver) -> Figure {
    let of: [PanelOf<'_, HostWindow>; 3] = [
        ("root", "The root partition", ("root virtual processors", "%"), |w| w.root_percent),
        ("logical", "All processors of the host", ("logical processors", "%"), |w| w.logical_percent),
        ("memory", "Memory of the host", ("not the servers'", "MB"), |w| w.available_mb),
    ];
    let points = |course: &Course, value: fn(&HostWindow) -> f64| {
        course.hosts.iter().map(|w| vec![w.at_s, value(w)]).collect()
    };
    let root = |c: &Course| level(&c.of_host(|w| w.root_percent)).map_or(0.0, |e| e.mean);
    let title = format!(
        "Virtual disks that grow take {:.1} points more of the host's root partition",
        root(courses[0]) - root(courses[1])
    );
    let mut figure = timeline("host", title, scenario, panels(&of), lines(courses, &of, points));
    figure.note = Some(
        "Memory of the host by arithmetic: its servers have theirs from beginning to end, in every configuration; the root partition's is not modelled."
            .into(),
    );
    figure
}

fn busy(courses: &[&Course; 2], scenario: &Fileserver) -> Figure {
    let of: [PanelOf<'_, ArrayWindow>; 4] = [
        ("controller", "Controller 0", ("utilisation", "%"), |w| controller(0)(w)),
        ("drives", "Drives of a group", ("utilisation", "%"), |w| of_groups(&w.drive_percent)),
        ("queue", "Commands in the drives of a group", ("commands", ""), |w| of_groups(&w.group_queue)),
        ("pending", "Write pending", ("of the cache", "%"), |w| w.pending_percent),
    ];
    let points = |course: &Course, value: fn(&ArrayWindow) -> f64| {
        course.arrays.iter().map(|w| vec![w.at_s, value(w)]).collect()
    };
    let room = headroom(courses[0]);
    let title = format!(
        "Controller 0 is the busiest of the array: {} times the load is left",
        room.map_or("–".into(), |e| plain(e.mean))
    );
    let mut figure = timeline("busy", title, scenario, panels(&of), lines(courses, &of, points));
    let mark = |panel: &str, value| Mark {
        label: "published".into(),
        value,
        category: None,
        series: None,
        panel: Some(panel.into()),
    };
    figure.marks =
        vec![mark("controller", 61.0), mark("drives", 42.5), mark("queue", 15.0), mark("pending", 11.0)];
    figure
}
