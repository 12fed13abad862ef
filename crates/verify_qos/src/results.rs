//! What was measured, for a machine: metrics and `throughput.csv`.

use std::fmt::Write as _;

use lab_core::record::Metric;

use super::capacity::Capacity;
use super::judge::View;

fn mb(bytes_per_s: f64) -> f64 {
    (bytes_per_s / 10.0).round() / 1e5
}

/// What the array can do with 1, 2, … writes in flight and no scheduler, and every VM in every phase.
pub(super) fn metrics(capacity: &Capacity, views: &[View<'_>]) -> Vec<Metric> {
    let mut out = Vec::new();
    for point in &capacity.0 {
        let place = [("in_flight", point.in_flight.to_string())];
        let place = place.each_ref().map(|(name, value)| (*name, value.as_str()));
        out.push(Metric::new("capacity", "MB/s", &place, vec![mb(point.rate)]));
        out.push(Metric::new("capacity_each_worst_window", "MB/s", &place, vec![mb(point.worst_each)]));
    }
    for (view, phase) in views.iter().flat_map(|view| view.phases.iter().map(move |phase| (view, phase))) {
        let form = view.course.form.name();
        let place = [("experiment", view.course.id.as_str()), ("form", form), ("phase", phase.name.as_str())];
        let told = phase.last_told_s().unwrap_or(f64::NAN);
        for (id, unit, value) in [
            ("sum", "MB/s", mb(phase.sum)),
            ("can_do", "MB/s", mb(phase.can_do)),
            ("depth", "writes", phase.depth),
            ("scale", "permille", f64::from(phase.scale_permille)),
            ("event_after", "s", told),
        ] {
            out.push(Metric::new(id, unit, &place, vec![value]));
        }
        for (number, vm) in phase.vms.iter().enumerate() {
            let number = (number + 1).to_string();
            let [experiment, form, phase] = place;
            let place = [experiment, form, phase, ("vm", number.as_str())];
            for (id, value) in [
                ("minimum", vm.rates.minimum),
                ("maximum", vm.rates.maximum),
                ("throughput", vm.mean),
                ("throughput_worst_window", vm.worst),
                ("throughput_expected", vm.expected),
                ("throughput_due", vm.due.mean),
            ] {
                out.push(Metric::new(id, "MB/s", &place, vec![mb(value)]));
            }
        }
    }
    out.retain(|metric| !metric.samples.is_empty());
    out
}

/// Whole seconds of a course.
pub(super) fn seconds(view: &View<'_>) -> usize {
    view.phases.last().map_or(0, |phase| phase.to_s as usize)
}

/// A line for each VM and second.
pub(super) fn series_csv(views: &[View<'_>]) -> String {
    let mut out = String::from("experiment,form,second,vm,mb_per_s\n");
    for view in views {
        let seconds = seconds(view);
        for (vm, done) in view.course.done.iter().enumerate() {
            let mut bytes = vec![0u64; seconds];
            for one in done {
                if let Some(second) = bytes.get_mut((one.at_ns / 1_000_000_000) as usize) {
                    *second += one.bytes;
                }
            }
            for (second, bytes) in bytes.iter().enumerate() {
                let (id, form) = (&view.course.id, view.course.form.name());
                let _ = writeln!(out, "{id},{form},{second},{},{:.4}", vm + 1, *bytes as f64 / 1e6);
            }
        }
    }
    out
}
