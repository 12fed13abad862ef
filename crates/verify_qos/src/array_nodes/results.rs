//! What was measured at several nodes, for a machine: metrics and `nodes.csv`.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use lab_core::record::Metric;

use super::bed::{VMS, place_of};
use super::judge::{Minimum, View};
use super::play::Course;

fn mb(bytes_per_s: f64) -> f64 {
    (bytes_per_s / 10.0).round() / 1e5
}

/// Every phase of every run.
pub(crate) fn metrics(courses: &[(&Course, &View)]) -> Vec<Metric> {
    let mut out = Vec::new();
    for (course, view) in courses {
        let nodes = course.nodes.to_string();
        let of_nodes = [("nodes", nodes.as_str())];
        out.push(Metric::new("node_can_do", "MB/s", &of_nodes, vec![mb(course.node_can_do)]));
        for (phase, played) in view.phases.iter().zip(&course.phases) {
            let place = [("nodes", nodes.as_str()), ("phase", phase.name.as_str())];
            let mut add = |id: &str, unit: &str, value: Option<f64>| {
                let value = value.filter(|value| value.is_finite());
                out.extend(value.map(|value| Metric::new(id, unit, &place, vec![value])));
            };
            for (policy, minimum) in [("aggregated", &phase.gold), ("dedicated", &phase.silver)] {
                let of = |value: fn(&Minimum) -> f64| minimum.as_ref().map(value);
                add(&format!("{policy}_minimum"), "MB/s", of(|m| mb(m.promised)));
                add(&format!("{policy}_throughput"), "MB/s", of(|m| mb(m.mean)));
                add(&format!("{policy}_worst_window"), "MB/s", of(|m| mb(m.worst)));
                add(&format!("{policy}_settled_after"), "s", of(|m| m.settled_s));
            }
            add("least_of_formula", "%", Some(100.0 * phase.least));
            add("farthest_from_formula", "%", Some(100.0 * phase.farthest));
            add("least_of_floor", "%", Some(100.0 * phase.floor));
            add("sum_of_can_do", "%", phase.of_can_do.map(|share| 100.0 * share.mean));
            add("taken_over_after", "s", phase.taken_over_s);
            add("take_over_time", "s", played.taken_over_ns.map(|_| played.took_over_ns as f64 / 1e9));
        }
    }
    out
}

fn seconds(course: &Course) -> usize {
    course.phases.last().map_or(0, |phase| (phase.to_ns / 1_000_000_000) as usize)
}

/// Lines of the file.
pub(crate) fn rows(courses: &[(&Course, &View)]) -> usize {
    courses.iter().map(|(course, _)| seconds(course) * course.done.len()).sum()
}

/// Writes the throughput of every VM, second by second.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_series(path: &Path, courses: &[(&Course, &View)]) -> Result<()> {
    let mut out = String::from("nodes,second,node,vm,class,mb_per_s\n");
    for (course, _) in courses {
        for (vm, done) in course.done.iter().enumerate() {
            let mut bytes = vec![0u64; seconds(course)];
            for one in done {
                if let Some(second) = bytes.get_mut((one.at_ns / 1_000_000_000) as usize) {
                    *second += one.bytes;
                }
            }
            let ((class, node), own) = (place_of(vm), vm % VMS.len() + 1);
            for (second, bytes) in bytes.iter().enumerate() {
                let (nodes, mb) = (course.nodes, *bytes as f64 / 1e6);
                let _ = writeln!(out, "{nodes},{second},{},{own},{},{mb:.4}", node + 1, class.name());
            }
        }
    }
    std::fs::write(path, out).with_context(|| path.display().to_string())
}
