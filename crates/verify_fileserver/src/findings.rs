//! What the runs say of bottlenecks, with the resource that each comes from.

use super::claims::{Runs, controller, level, of_groups};
use super::model::Ran;
use super::model::course::Course;
use super::scenario::Fileserver;
use lab_core::report::{Cost, CostOf, Finding};

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
        out.push(idle(scenario, course));
    }
    out
}

/// Resource, whether it is over its threshold, evidence, threshold, its source, and the cost if it is over.
type Check<'a> = (&'a str, bool, String, String, &'a str, Option<Cost>);

fn bottlenecks(scenario: &Fileserver, course: &Course) -> Vec<Finding> {
    let read_ms = value(course.of_servers(|w| w.read_ms));
    let write_ms = value(course.of_servers(|w| w.write_ms));
    let queue = value(course.of_servers(|w| w.queue)) / f64::from(scenario.array.drives_per_group);
    let (name, most, next) = first_and_next(&resources(scenario, course));
    let max = &scenario.bottleneck;
    let response_ms = max.response.0.as_secs_f64() * 1e3;
    let checks = [
        (
            "disk of a server",
            read_ms.max(write_ms) > response_ms,
            format!("a read takes {read_ms:.1} ms, a write {write_ms:.1} ms"),
            format!("response ≤ {response_ms} ms"),
            "capacity planning for servers: above 50 ms users notice the storage",
            Cost::share(1.0 - response_ms / read_ms.max(write_ms), CostOf::ResponseTime),
        ),
        (
            "disk queue of a server",
            queue > max.queue_per_spindle,
            format!("{queue:.2} I/Os for each spindle of its group"),
            format!("queue ≤ 1.5 to {} × spindles", max.queue_per_spindle),
            "one request is in service and one is being prepared; the others only wait",
            Cost::share(1.0 - 1.0 / queue, CostOf::ResponseTime),
        ),
        (
            name,
            most > max.utilisation_percent,
            format!("works {most:.0} % of the time, more than anything else"),
            format!("utilisation ≤ {} %", max.utilisation_percent),
            "queueing: at 70 % the response is more than three times that of an idle resource (M/M/1)",
            relieved(most, next),
        ),
    ];
    let finding = |(resource, is_over, evidence, threshold, source, cost): Check<'_>| {
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
            // What does not limit costs nothing that the run could tell.
            cost: cost.filter(|_| is_over).map(Cost::at_most),
        }
    };
    checks.into_iter().map(finding).collect()
}

pub(super) fn busiest(scenario: &Fileserver, course: &Course) -> (&'static str, f64) {
    let (name, most, _) = first_and_next(&resources(scenario, course));
    (name, most)
}

/// The busiest resource, how much of it is used, and how much of the next one.
fn first_and_next(all: &[(&'static str, f64)]) -> (&'static str, f64, f64) {
    let mut all = all.to_vec();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    let (name, most) = all.first().copied().unwrap_or(("nothing", 0.0));
    (name, most, all.get(1).map_or(0.0, |(_, next)| *next))
}

/// The throughput that is lost to a resource: by the law of utilisation the next one, `then` used now, ends
/// what relieving it wins.
fn relieved(used: f64, then: f64) -> Option<Cost> {
    Cost::share(1.0 - then / used, CostOf::Throughput)
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
        cost: None,
    }
}

fn idle(scenario: &Fileserver, course: &Course) -> Finding {
    let own = [value(course.of_array(controller(0))), value(course.of_array(controller(1)))];
    let all = resources(scenario, course);
    let is_limit =
        own[0] > scenario.bottleneck.utilisation_percent && all.iter().all(|(_, used)| *used <= own[0]);
    // With the LUs spread, controllers work alike, and something else may work more than they do.
    let others = all.iter().filter(|(name, _)| !name.starts_with("controller")).map(|(_, used)| *used);
    let then = others.fold(own.iter().sum::<f64>() / 2.0, f64::max);
    Finding {
        resource: "controller 1".into(),
        evidence: format!("works {:.0} % of the time while controller 0 works {:.0} %", own[1], own[0]),
        threshold: Some("no controller idle while another is the busiest resource".into()),
        source: Some("two active controllers share the work only as their LUs do".into()),
        consequence: "The headroom is that of one controller.".into(),
        r#try: Some("Two of the four data LUs on each controller.".into()),
        cost: relieved(own[0], then).filter(|_| is_limit).map(Cost::at_most),
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::course::{ArrayWindow, Commands, HostWindow, ServerWindow, Which};
    use super::*;

    /// Response in milliseconds, I/Os in a queue of four spindles, and the utilisation of the controllers and
    /// of the drives in percent.
    fn course(response_ms: f64, queue: f64, controllers: [f64; 2], drives: f64) -> Course {
        let server = ServerWindow {
            tool_mb_per_s: 1.0,
            cpu_percent: 1.0,
            available_mb: 1.0,
            queue,
            queue_max: 1,
            read_ms: response_ms,
            write_ms: response_ms / 2.0,
            received_mb_per_s: 0.0,
            sent_mb_per_s: 0.0,
        };
        let array = ArrayWindow {
            at_s: 1.0,
            lus: vec![],
            controller_percent: controllers.to_vec(),
            pending_percent: 0.0,
            drive_percent: vec![drives],
            group_queue: vec![0.0],
        };
        let host = HostWindow {
            at_s: 1.0,
            servers: vec![server],
            logical_percent: 1.0,
            root_percent: 1.0,
            available_mb: 1.0,
        };
        Course {
            which: Which::DYNAMIC,
            seed: 1,
            hosts: vec![host],
            arrays: vec![array],
            files: vec![],
            grown_blocks: vec![],
            commands: Commands::default(),
        }
    }

    fn costs(findings: &[Finding]) -> Vec<(&str, Option<String>)> {
        findings.iter().map(|f| (f.resource.as_str(), f.cost.map(Cost::words))).collect()
    }

    #[test]
    fn what_is_over_its_threshold_costs_at_most_what_relieving_it_wins() {
        let (mut scenario, _) = lab_core::scenario::ScenarioFile::load(None).expect("built in");
        let scenario: &mut Fileserver = &mut scenario;
        scenario.array.drives_per_group = 4;
        let response_ms = scenario.bottleneck.response.0.as_secs_f64() * 1e3;
        let over = bottlenecks(scenario, &course(2.0 * response_ms, 16.0, [90.0, 0.0], 45.0));
        let cost = |words: &str| Some(words.to_owned());
        assert_eq!(
            costs(&over),
            [
                ("disk of a server", cost("up to 50 % of response time")),
                ("disk queue of a server", cost("up to 75 % of response time")),
                ("controller 0", cost("up to 50 % of throughput")),
            ]
        );
        let under = bottlenecks(scenario, &course(0.5 * response_ms, 2.0, [20.0, 0.0], 10.0));
        assert!(under.iter().all(|finding| finding.cost.is_none()), "{:?}", costs(&under));
    }

    /// Two controllers that work 45 % each wait for drives that work 60 %.
    #[test]
    fn an_idle_controller_costs_what_lies_between_the_busy_one_and_the_next_resource() {
        let (scenario, _) = lab_core::scenario::ScenarioFile::load(None).expect("built in");
        let cost = |controllers, drives| idle(&scenario, &course(1.0, 1.0, controllers, drives)).cost;
        assert_eq!(cost([90.0, 0.0], 60.0).map(Cost::words).as_deref(), Some("up to 33.3 % of throughput"));
        assert_eq!(cost([90.0, 0.0], 10.0).map(Cost::words).as_deref(), Some("up to 50 % of throughput"));
        assert_eq!(cost([90.0, 0.0], 95.0), None, "the drives are the limit");
    }
}
