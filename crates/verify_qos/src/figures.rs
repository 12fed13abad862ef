//! The time figures: every VM a line, phases shaded, minimum and maximum drawn.

use std::ops::Range;

use super::capacity::Capacity;
use super::claims::{figure_id, form_words};
use super::judge::View;
use super::phases::Form;
use super::scenario::Qos;
use super::vm::Done;
use lab_core::record::World;
use lab_core::report::{Axis, Figure, Panel, Series, Span};

/// Throughput is drawn over this time: a second has fifteen writes of a VM at 8 MB/s, which would be drawn as
/// steps.
const BIN_NS: u64 = 2_000_000_000;
const SECOND_NS: f64 = 1e9;
/// So many panels can be read beside each other; of more VMs each panel has several.
const PANELS_MAX: usize = 12;
/// Lines of one panel, told apart. Where each VM has its own panel, one colour is throughput everywhere.
const COLORS: [&str; 5] = ["blue", "orange", "green", "purple", "sky"];

/// All of them.
pub(super) fn figures(qos: &Qos, world: World, views: &[View<'_>], capacity: &Capacity) -> Vec<Figure> {
    let mut out: Vec<Figure> = views.iter().map(|view| timeline(qos, world, view)).collect();
    out.push(curve(qos, capacity));
    out
}

fn mb(bytes_per_s: f64) -> f64 {
    bytes_per_s / 1e6
}

fn timeline(qos: &Qos, world: World, view: &View<'_>) -> Figure {
    let course = view.course;
    let parts = parts(course.done.len());
    let end_ns = course.phases.last().map_or(0, |phase| phase.to_ns);
    let mut series: Vec<Series> = Vec::new();
    for part in &parts {
        let panel = Some(part_id(part));
        for vm in part.clone() {
            series.push(Series {
                name: if part.len() == 1 { "throughput".into() } else { vm_name(vm) },
                color: COLORS[(vm - part.start) % COLORS.len()],
                points: line(std::slice::from_ref(&course.done[vm]), end_ns),
                panel: panel.clone(),
            });
        }
        for (name, color) in [("minimum", "vermillion"), ("maximum", "grey")] {
            let points = limit_line(view, part.clone(), name == "minimum");
            if points.iter().any(|point| point[1].is_finite()) {
                series.push(Series { name: name.into(), color, points, panel: panel.clone() });
            }
        }
    }
    series.push(Series {
        name: "throughput".into(),
        color: "blue",
        points: line(&course.done, end_ns),
        panel: Some("all".into()),
    });
    let span = |phase: &super::play::Played| Span {
        name: phase.name.clone(),
        from: phase.from_ns as f64 / SECOND_NS,
        to: phase.to_ns as f64 / SECOND_NS,
    };
    // VMs share one scale; all together are ten times as much as one.
    let own_axis = Axis { label: "all together".into(), unit: "MB/s".into(), log: false };
    let all = Panel { id: "all".into(), title: "All together".into(), y: Some(own_axis) };
    let panels =
        parts.iter().map(|part| Panel { id: part_id(part), title: part_title(part), y: None }).chain([all]);
    Figure {
        id: figure_id(view),
        title: title(view, |share| qos.is_kept(share, world)),
        subtitle: Some(format!(
            "{}, {}: throughput of every VM over 2 s each; minimum and maximum in the same unit (1000 units of 8 KiB per second are 8.192 MB/s)",
            course.title,
            form_words(course.form)
        )),
        kind: "timeline",
        x: Axis { label: "time".into(), unit: "s".into(), log: false },
        y: Axis { label: "throughput".into(), unit: "MB/s".into(), log: false },
        series,
        phases: course.phases.iter().map(span).collect(),
        warm_up: course.phases.first().map(|phase| Span {
            name: "before the first phase".into(),
            from: 0.0,
            to: phase.from_ns as f64 / SECOND_NS,
        }),
        panels: panels.collect(),
        note: Some("Judged is each phase from 5 s after its beginning on.".into()),
        ..Figure::default()
    }
}

/// The VMs of each panel: one, or as many as the largest number of panels leaves.
fn parts(vms: usize) -> Vec<Range<usize>> {
    let each = vms.div_ceil(PANELS_MAX).max(1);
    (0..vms).step_by(each).map(|from| from..(from + each).min(vms)).collect()
}

fn part_id(part: &Range<usize>) -> String {
    format!("from{}", part.start)
}

fn vm_name(vm: usize) -> String {
    format!("VM{:02}", vm + 1)
}

fn part_title(part: &Range<usize>) -> String {
    match part.len() {
        1 => vm_name(part.start),
        _ => format!("{} to {}", vm_name(part.start), vm_name(part.end - 1)),
    }
}

/// What was found, in one line.
fn title(view: &View<'_>, is_kept: impl Fn(f64) -> bool) -> String {
    let with: Vec<_> = view.phases.iter().filter(|p| p.has_minimum() && p.fits()).collect();
    let worst = with.iter().filter_map(|p| p.worst_of_minimum()).min_by(f64::total_cmp);
    let over = view.phases.iter().filter_map(|p| p.over_maximum()).max_by(f64::total_cmp);
    let who = match view.course.form {
        Form::Uncoordinated => "Each host by itself",
        Form::Array => "The array schedules",
        Form::Coordinated => "Hosts with shares",
    };
    match (worst, over) {
        (Some(worst), _) if is_kept(worst) => {
            format!("{who}: minimums are kept, the worst 5 s have {:.1} % of them", 100.0 * worst)
        }
        (Some(_), _) => {
            let got = with.iter().map(|p| {
                let own = p.vms.iter().filter(|vm| vm.rates.minimum > 0.0);
                own.map(|vm| vm.mean / vm.rates.minimum).fold(f64::INFINITY, f64::min)
            });
            let least = got.fold(f64::INFINITY, f64::min);
            format!("{who}: minimums are violated, a VM gets {:.0} % of its minimum", 100.0 * least)
        }
        (None, Some(over)) if over <= 1.0 => format!("{who}: maximums are kept to the I/O"),
        (None, Some(over)) => format!("{who}: a maximum is exceeded by {over:.1} I/Os in 5 s"),
        (None, None) => format!("{who}: no minimum"),
    }
}

/// Bytes that ended in each bin, per second.
fn line(all: &[Vec<Done>], end_ns: u64) -> Vec<Vec<f64>> {
    let mut bins = vec![0u64; (end_ns / BIN_NS) as usize];
    for done in all.iter().flatten() {
        if let Some(bin) = bins.get_mut((done.at_ns / BIN_NS) as usize) {
            *bin += done.bytes;
        }
    }
    let point = |(bin, bytes): (usize, &u64)| {
        let middle = (bin as f64 + 0.5) * BIN_NS as f64 / SECOND_NS;
        vec![middle, mb(*bytes as f64 * SECOND_NS / BIN_NS as f64)]
    };
    bins.iter().enumerate().map(point).collect()
}

/// The minimum or maximum of the VMs of a panel: level in a phase, a gap where there is none.
fn limit_line(view: &View<'_>, vms: Range<usize>, is_minimum: bool) -> Vec<Vec<f64>> {
    let mut points = Vec::new();
    for phase in &view.phases {
        let of = phase.vms[vms.clone()].iter().map(|vm| match is_minimum {
            true if vm.rates.minimum > 0.0 => vm.rates.minimum,
            true => f64::NAN,
            false => vm.rates.maximum,
        });
        let level = mb(of.filter(|rate| rate.is_finite()).fold(f64::NAN, f64::max));
        points.extend([vec![phase.from_s, level], vec![phase.to_s - 0.001, level]]);
        points.push(vec![phase.to_s, f64::NAN]);
    }
    points
}

fn curve(qos: &Qos, capacity: &Capacity) -> Figure {
    let points = |of: &dyn Fn(f64, f64) -> f64| -> Vec<Vec<f64>> {
        let point = |p: &super::capacity::Point| vec![p.in_flight as f64, mb(of(p.in_flight as f64, p.rate))];
        capacity.0.iter().map(point).collect()
    };
    let series = |name: &str, color, points| Series { name: name.into(), color, points, panel: None };
    let bad = capacity.0.iter().map(|point| vec![point.in_flight as f64, mb(point.worst_each)]).collect();
    Figure {
        id: "capacity".into(),
        title: format!(
            "The array does {:.0} MB/s with one I/O in flight and {:.0} with {}",
            mb(capacity.at(1.0)),
            mb(capacity.all()),
            capacity.most()
        ),
        subtitle: Some(format!(
            "random I/Os of {} KiB, {} % reads, no scheduler: a VM can get no more than what its I/Os in flight bring",
            qos.published.transfer.0 >> 10,
            qos.published.reads_percent
        )),
        kind: "lines",
        x: Axis { label: "I/Os in flight".into(), unit: String::new(), log: false },
        y: Axis { label: "throughput".into(), unit: "MB/s".into(), log: false },
        series: vec![
            series("all together", "blue", points(&|_, rate| rate)),
            series("each", "orange", points(&|n, rate| rate / n)),
            series("each, worst 5 s", "purple", bad),
        ],
        ..Figure::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_ten_vms_has_a_panel_of_its_own_and_a_thousand_share_twelve() {
        assert_eq!(parts(10), (0..10).map(|vm| vm..vm + 1).collect::<Vec<_>>());
        let of = |vms| parts(vms).into_iter().map(|part| part_title(&part)).collect::<Vec<_>>();
        assert_eq!(of(2), ["VM01", "VM02"]);
        assert_eq!(of(13)[0], "VM01 to VM02");
        assert_eq!(of(13).last().map(String::as_str), Some("VM13"));
        assert_eq!(of(1000).len(), 12);
        assert_eq!(of(1000).last().map(String::as_str), Some("VM925 to VM1000"));
        assert!(parts(0).is_empty());
    }
}
