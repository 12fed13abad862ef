//! What the runs say of bottlenecks, with the resource that each comes from.

use super::claims::{Runs, controller, level, of_groups};
use super::model::Ran;
use super::model::course::Course;
use super::scenario::Fileserver;
use lab_core::report::Finding;

pub(super) fn value(series: Vec<f64>) -> f64 {
    level(&series).map_or(0.0, |e| e.mean)
}

/// A resource and how much of it is used, in percent.
pub(super) fn resources(scenario: &Fileserver, course: &Course) -> Vec<(&'static str, f64)> {
    let net = f64::from(scenario.client.gbit) * 125.0;
    let one_way = value(course.of_servers(|w| w.received_mb_per_s.max(w.sent_mb_per_s)));
    vec![
        ("controller 0", value(course.of_array(controller(0)))),
        ("controller 1", value(course.of_array(controller(1)))),
        ("drives", value(course.of_array(|w| of_groups(&w.drive_percent)))),
        ("network of a server", 100.0 * one_way / net),
        ("processors of a server", value(course.of_servers(|w| w.cpu_percent))),
        ("processors of the host", value(course.of_host(|w| w.logical_percent))),
    ]
}

/// All findings.
pub(super) fn findings(scenario: &Fileserver, ran: &Ran) -> Vec<Finding> {
    let mut out = Vec::new();
    if let Some(course) = Runs::of(ran).dynamic {
        out.extend(bottlenecks(scenario, course));
        out.push(headroom(scenario, course));
        out.push(idle(course));
    }
    out
}

fn bottlenecks(scenario: &Fileserver, course: &Course) -> Vec<Finding> {
    let read_ms = value(course.of_servers(|w| w.read_ms));
    let write_ms = value(course.of_servers(|w| w.write_ms));
    let queue = value(course.of_servers(|w| w.queue)) / f64::from(scenario.array.drives_per_group);
    let (name, most) = busiest(scenario, course);
    let max = &scenario.bottleneck;
    let response_ms = max.response.0.as_secs_f64() * 1e3;
    let checks = [
        (
            "disk of a server",
            read_ms.max(write_ms) > response_ms,
            format!("a read takes {read_ms:.1} ms, a write {write_ms:.1} ms"),
            format!("response ≤ {response_ms} ms"),
            "capacity planning for servers: above 50 ms users notice the storage",
        ),
        (
            "disk queue of a server",
            queue > max.queue_per_spindle,
            format!("{queue:.2} I/Os for each spindle of its group"),
            format!("queue ≤ 1.5 to {} × spindles", max.queue_per_spindle),
            "one request is in service and one is being prepared; the others only wait",
        ),
        (
            name,
            most > max.utilisation_percent,
            format!("works {most:.0} % of the time, more than anything else"),
            format!("utilisation ≤ {} %", max.utilisation_percent),
            "queueing: at 70 % the response is more than three times that of an idle resource (M/M/1)",
        ),
    ];
    let finding = |(resource, is_over, evidence, threshold, source): (&str, bool, String, String, &str)| {
        let consequence = if is_over {
            "It limits what the servers get.".into()
        } else {
            format!("The {resource} is not the bottleneck; the clients' own work limits their throughput.")
        };
        let attempt = is_over.then(|| format!("Relieve the {resource} first."));
        Finding {
            resource: resource.into(),
            evidence,
            threshold: Some(threshold),
            source: Some(source.into()),
            consequence,
            r#try: attempt,
        }
    };
    checks.into_iter().map(finding).collect()
}

pub(super) fn busiest(scenario: &Fileserver, course: &Course) -> (&'static str, f64) {
    let all = resources(scenario, course);
    all.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or(("nothing", 0.0))
}

fn headroom(scenario: &Fileserver, course: &Course) -> Finding {
    let times = |used: f64| 100.0 / used.max(0.1);
    let mut all = resources(scenario, course);
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    let (first, used) = all[0];
    let others = all[1..].iter().filter(|(_, used)| *used >= 1.0);
    let others: Vec<String> =
        others.map(|(name, used)| format!("{name} {:.1} times", times(*used))).collect();
    Finding {
        resource: first.into(),
        evidence: format!(
            "used {used:.0} %: room for {:.1} times this load. By the others: {}",
            times(used),
            others.join(", ")
        ),
        threshold: Some("1 / utilisation of the busiest resource".into()),
        source: Some("the law of utilisation: U = X · D".into()),
        consequence: format!(
            "The published 1.5 to 1.8 times fits a controller (1 / 0.61 = 1.64), not drives at 41 to 44 %. Here the limit is that of {first}."
        ),
        r#try: Some("Give half of the data LUs to controller 1.".into()),
    }
}

fn idle(course: &Course) -> Finding {
    Finding {
        resource: "controller 1".into(),
        evidence: format!(
            "works {:.0} % of the time while controller 0 works {:.0} %",
            value(course.of_array(controller(1))),
            value(course.of_array(controller(0)))
        ),
        threshold: Some("no controller idle while another is the busiest resource".into()),
        source: Some("two active controllers share the work only as their LUs do".into()),
        consequence: "The headroom is that of one controller.".into(),
        r#try: Some("Two of the four data LUs on each controller.".into()),
    }
}
