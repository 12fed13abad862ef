//! What a run's numbers say about its resources: rules with their sources, each a pure function of a point.

use super::results::{Pattern, Point, Resource, ResourceKind, ServerRate};
use super::scenario::Bottleneck;
use lab_core::report::{Cost, CostOf, Finding};

/// What the point does not say itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Limits {
    /// Share of the cache that may be pending before the array slows writes down; none where writes are not
    /// cached.
    pub(super) high_watermark: Option<f64>,
    pub(super) bottleneck: Bottleneck,
}

/// Everything that is found at a point; "no bottleneck" when it is nothing.
pub(super) fn findings(point: &Point, limits: &Limits) -> Vec<Finding> {
    let max = &limits.bottleneck;
    let rules = [
        slow_response(point, max),
        long_queue(point, max),
        write_pending(point, limits),
        idle_controller(point, max),
        unequal_spread(point, max),
    ];
    let mut out = busy(point, max);
    out.extend(rules.into_iter().flatten());
    if out.is_empty() {
        out.push(no_bottleneck(point));
    }
    out
}

fn finding(
    resource: &str,
    evidence: String,
    threshold: &str,
    source: &str,
    consequence: &str,
    r#try: &str,
) -> Finding {
    Finding {
        resource: resource.into(),
        evidence,
        threshold: Some(threshold.into()),
        source: Some(source.into()),
        consequence: consequence.into(),
        r#try: (!r#try.is_empty()).then(|| r#try.into()),
        cost: None,
    }
}

/// The same, with what it costs.
fn costing(finding: Finding, cost: Option<Cost>) -> Finding {
    Finding { cost, ..finding }
}

/// The share of all I/Os under way that wait at drives and are not served there: by Little's law, that share
/// of the response time. Only of random reads: what is destaged or read ahead waits at drives as well, and
/// no server waits for it.
fn waiting_at_drives(point: &Point) -> Option<Cost> {
    if point.pattern != Pattern::RandomRead {
        return None;
    }
    let drives = || point.resources.iter().filter(|r| r.kind == ResourceKind::Drive);
    let queued = mean(point.windows.iter().map(|w| w.drive_queue_mean)) * drives().count() as f64;
    let served: f64 = drives().map(|r| r.utilisation).sum();
    let under_way: f64 = point.per_server.iter().map(|s| s.iops * s.response_ms_mean / 1e3).sum();
    Cost::share((queued - served) / under_way, CostOf::ResponseTime)
}

/// What relieving a kind of resource would win at most, by the law of utilisation: with `then` as its
/// utilisation afterwards, the busiest resource ends it.
fn relieved(point: &Point, kind: ResourceKind, used: f64, then: f64) -> Option<Cost> {
    let others = point.resources.iter().filter(|r| r.kind != kind && r.kind != ResourceKind::Group);
    let end = others.map(|r| r.utilisation).fold(then, f64::max);
    Cost::share(1.0 - end / used, CostOf::Throughput).map(Cost::at_most)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count > 0.0 { sum / count } else { 0.0 }
}

/// What is used more than 70 %; of drives and groups that are alike, the busiest one speaks for all.
pub(super) fn busy(point: &Point, max: &Bottleneck) -> Vec<Finding> {
    let kinds = [
        (
            ResourceKind::Controller,
            "commands wait for the controller before anything else",
            "move volumes to the other controller",
        ),
        (
            ResourceKind::Port,
            "the port is the end of what every server gets together",
            "a second port, or a faster one",
        ),
        (
            ResourceKind::Drive,
            "cache misses wait for their drive",
            "more drives in the group, or fewer servers on it",
        ),
    ];
    let of = |(kind, consequence, attempt): (ResourceKind, &str, &str)| {
        let all = || point.resources.iter().filter(move |r| r.kind == kind && !r.used_by.is_empty());
        let over = all().filter(|r| r.utilisation > max.utilisation_percent / 100.0).count();
        let busiest = all().max_by(|a, b| a.utilisation.total_cmp(&b.utilisation))?;
        (over > 0).then(|| {
            let others = if over > 1 {
                format!(", and {} more of its kind above the threshold", over - 1)
            } else {
                String::new()
            };
            let cost = match kind {
                ResourceKind::Drive => waiting_at_drives(point),
                _ => None,
            };
            let cost = cost.or_else(|| relieved(point, kind, busiest.utilisation, 0.0));
            let finding = finding(
                &busiest.name,
                format!("works {:.0} % of the time{others}", busiest.utilisation * 100.0),
                &format!("utilisation ≤ {} %", max.utilisation_percent),
                "queueing: at 70 % the response is more than three times that of an idle resource (M/M/1)",
                consequence,
                attempt,
            );
            costing(finding, cost)
        })
    };
    kinds.into_iter().filter_map(of).collect()
}

/// A response above 50 ms.
pub(super) fn slow_response(point: &Point, max: &Bottleneck) -> Option<Finding> {
    let max_ms = max.response.0.as_secs_f64() * 1e3;
    let slowest =
        point.per_server.iter().map(|s| s.response_ms_mean).enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
    let (server, ms) = slowest.filter(|(_, ms)| *ms > max_ms)?;
    let spent = |s: &ServerRate| s.iops * s.response_ms_mean;
    let over = |s: &ServerRate| s.iops * (s.response_ms_mean - max_ms).max(0.0);
    let sum = |of: &dyn Fn(&ServerRate) -> f64| point.per_server.iter().map(of).sum::<f64>();
    let cost = Cost::share(sum(&over) / sum(&spent), CostOf::ResponseTime);
    let finding = finding(
        &format!("server {server}"),
        format!("waits {ms:.0} ms for an I/O on average"),
        &format!("response ≤ {max_ms} ms"),
        "capacity planning for system disks: above 50 ms users notice the storage",
        "applications on this server are slower than on an internal disk",
        "see what works hardest; fewer servers on its group",
    );
    Some(costing(finding, cost))
}

/// Queues of more than twice the spindles.
pub(super) fn long_queue(point: &Point, max: &Bottleneck) -> Option<Finding> {
    // The windows tell the mean over all drives; those that nobody uses have no queue.
    let drives = || point.resources.iter().filter(|r| r.kind == ResourceKind::Drive);
    let (all, used) = (drives().count() as f64, drives().filter(|r| !r.used_by.is_empty()).count() as f64);
    let queue = mean(point.windows.iter().map(|w| w.drive_queue_mean)) * all / used.max(1.0);
    (used > 0.0 && queue > max.queue_per_spindle).then(|| {
        let finding = finding(
            "drives",
            format!("{queue:.1} requests at each drive in use on average"),
            &format!("queue ≤ {} × spindles", max.queue_per_spindle),
            "one request is in service and one is being prepared; the others only wait",
            "more outstanding I/Os make every response longer, and the throughput little more",
            "more spindles, or fewer outstanding I/Os per server",
        );
        costing(finding, waiting_at_drives(point))
    })
}

/// Write pending near the high watermark.
pub(super) fn write_pending(point: &Point, limits: &Limits) -> Option<Finding> {
    let limit = limits.high_watermark?;
    let pending = mean(point.windows.iter().map(|w| w.write_pending));
    (pending >= limits.bottleneck.pending_percent / 100.0 * limit).then(|| {
        finding(
            "cache",
            format!(
                "write pending is {:.0} % of the cache; writes are throttled at {:.0} %",
                pending * 100.0,
                limit * 100.0
            ),
            &format!("write pending ≤ {} % of the high watermark", limits.bottleneck.pending_percent),
            "the array's own limit: at the watermark a write waits for a destage",
            "writes go at the speed of the drives, and bursts find no room",
            "RAID1 instead of RAID5 for what is written at random; more drives",
        )
    })
}

/// One controller idle while the other works.
pub(super) fn idle_controller(point: &Point, max: &Bottleneck) -> Option<Finding> {
    let all = || point.resources.iter().filter(|r| r.kind == ResourceKind::Controller);
    let by = |a: &&Resource, b: &&Resource| a.utilisation.total_cmp(&b.utilisation);
    let (least, most) = (all().min_by(by)?, all().max_by(by)?);
    (all().count() > 1
        && most.utilisation > max.utilisation_percent / 100.0
        && least.utilisation < max.idle_percent / 100.0)
        .then(|| {
            let even = all().map(|r| r.utilisation).sum::<f64>() / all().count() as f64;
            let cost = relieved(point, ResourceKind::Controller, most.utilisation, even);
            let finding = finding(
                &least.name,
                format!(
                    "works {:.0} % of the time while {} works {:.0} %",
                    least.utilisation * 100.0,
                    most.name,
                    most.utilisation * 100.0
                ),
                &format!(
                    "no controller below {} % while another is above {} %",
                    max.idle_percent, max.utilisation_percent
                ),
                "two active controllers share the work only as their volumes do",
                "half of the hardware is idle",
                &format!("move half of the system disks to {}", least.name),
            );
            costing(finding, cost)
        })
}

/// Servers that ask alike and do not get alike.
pub(super) fn unequal_spread(point: &Point, max: &Bottleneck) -> Option<Finding> {
    let rates = || point.per_server.iter().map(|s| s.iops);
    let (least, most) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
    (point.per_server.len() > 1 && most > (1.0 + max.spread_percent / 100.0) * least).then(|| {
        let groups = || point.resources.iter().filter(|r| r.kind == ResourceKind::Group);
        let fullest = groups().max_by_key(|r| r.used_by.len());
        let crowd =
            fullest.map_or(String::new(), |g| format!("; {} has {} of the servers", g.name, g.used_by.len()));
        let (sum, count) = rates().fold((0.0, 0.0), |(sum, count), rate| (sum + rate, count + 1.0));
        // What the best-served get above an even part, and the others lack.
        let lacking = rates().map(|rate| (sum / count - rate).max(0.0)).sum::<f64>() / sum;
        let finding = finding(
            "servers",
            format!("get from {least:.0} to {most:.0} I/Os per second{crowd}"),
            &format!("the best-served at most {} % above the worst", max.spread_percent),
            "all ask for the same: a difference comes from where their disks are",
            "a mean over all servers hides that some get less",
            "one system disk per RAID group, or the same number on each",
        );
        costing(finding, Cost::share(lacking, CostOf::Throughput))
    })
}

fn no_bottleneck(point: &Point) -> Finding {
    let shared = point.resources.iter().filter(|r| r.kind != ResourceKind::Host);
    let busiest = shared.max_by(|a, b| a.utilisation.total_cmp(&b.utilisation));
    let evidence = match busiest {
        Some(r) => format!(
            "no bottleneck found: the busiest, {}, works {:.0} % of the time",
            r.name,
            r.utilisation * 100.0
        ),
        None => "no bottleneck found".into(),
    };
    Finding {
        resource: "array".into(),
        evidence,
        threshold: None,
        source: None,
        consequence: "the servers themselves decide what they get".into(),
        r#try: None,
        cost: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Layout, Window};

    const MAX: Bottleneck = Bottleneck {
        response: lab_core::quantity::Time(std::time::Duration::from_millis(50)),
        queue_per_spindle: 2.0,
        utilisation_percent: 70.0,
        pending_percent: 90.0,
        idle_percent: 5.0,
        spread_percent: 25.0,
    };
    const LIMITS: Limits = Limits { high_watermark: Some(0.7), bottleneck: MAX };

    fn resource(name: &str, kind: ResourceKind, utilisation: f64, used_by: &[u32]) -> Resource {
        Resource { name: name.into(), kind, units: 1, utilisation, used_by: used_by.to_vec() }
    }

    /// Two servers that nothing holds up.
    fn calm() -> Point {
        let rate = ServerRate { iops: 1000.0, mb_per_s: 4.096, response_ms_mean: 4.0, response_ms_p99: 9.0 };
        let window = Window {
            seconds: 1.0,
            iops: 2000.0,
            server_iops: vec![1000.0, 1000.0],
            controller_busy: vec![0.3, 0.0],
            port_busy: vec![0.1],
            port_mb_per_s: 8.2,
            drive_busy: vec![0.5, 0.5, 0.0],
            drive_queue_mean: 1.0,
            hit_share: 0.5,
            write_pending: 0.3,
        };
        Point {
            pattern: Pattern::RandomRead,
            layout: Layout::Raid1x8,
            servers: 2,
            repeat: 0,
            packing: vec![],
            share_of: 0,
            lost: false,
            seed: 1,
            per_server: vec![rate.clone(), rate],
            windows: vec![window; 3],
            resources: vec![
                resource("CTRL0", ResourceKind::Controller, 0.3, &[0, 1]),
                resource("CTRL1", ResourceKind::Controller, 0.0, &[]),
                resource("port0", ResourceKind::Port, 0.1, &[0, 1]),
                resource("group0", ResourceKind::Group, 0.5, &[0]),
                resource("group1", ResourceKind::Group, 0.5, &[1]),
                resource("drive0", ResourceKind::Drive, 0.5, &[0]),
                resource("drive1", ResourceKind::Drive, 0.5, &[1]),
                resource("drive2", ResourceKind::Drive, 0.0, &[]),
            ],
            hit_share: 0.5,
            warm_up_s: 1.0,
            settled: true,
            virtual_s: 4.0,
            array_ios: 8000,
        }
    }

    /// The one finding of a point, and that it names what it should.
    fn check(change: impl Fn(&mut Point), resource: &str, evidence: &str) {
        let mut point = calm();
        change(&mut point);
        let found = findings(&point, &LIMITS);
        let one = found.iter().find(|f| f.resource == resource).unwrap_or_else(|| panic!("{found:?}"));
        assert!(one.evidence.contains(evidence), "{one:?}");
        assert!(one.threshold.is_some() && one.source.is_some());
    }

    /// What that finding costs, in words.
    fn cost(change: impl Fn(&mut Point), resource: &str) -> Option<String> {
        let mut point = calm();
        change(&mut point);
        let found = findings(&point, &LIMITS);
        let one = found.iter().find(|f| f.resource == resource).unwrap_or_else(|| panic!("{found:?}"));
        one.cost.map(Cost::words)
    }

    #[test]
    fn waiting_at_drives_costs_its_share_of_the_response_time() {
        // 8 I/Os are under way (2 × 1000/s × 4 ms); 4.5 are at drives, of which 1 is served.
        let queue = |p: &mut Point| p.windows.iter_mut().for_each(|w| w.drive_queue_mean = 1.5);
        assert_eq!(cost(queue, "drives").as_deref(), Some("43.8 % of response time"));
        let destaged = |p: &mut Point| {
            queue(p);
            p.pattern = Pattern::RandomWrite;
        };
        assert_eq!(cost(destaged, "drives"), None);
    }

    #[test]
    fn a_busy_resource_costs_no_more_than_until_the_next_one_is_busy() {
        // Drives at 50 % end what relieving a controller at 80 % wins.
        let busy = |p: &mut Point| p.resources[0].utilisation = 0.8;
        assert_eq!(cost(busy, "CTRL0").as_deref(), Some("up to 37.5 % of throughput"));
        // Of two controllers each is at 40 % then: the drives end it again.
        assert_eq!(cost(busy, "CTRL1").as_deref(), Some("up to 37.5 % of throughput"));
        // A port that is not the busiest wins nothing alone.
        let port = |p: &mut Point| {
            p.resources[0].utilisation = 0.9;
            p.resources[2].utilisation = 0.8;
        };
        assert_eq!(cost(port, "port0").as_deref(), Some("up to 0 % of throughput"));
    }

    #[test]
    fn slow_and_unequal_servers_cost_what_is_over_and_what_they_lack() {
        // Server 1 has 100 of 104 ms, of which 50 are over.
        let slow = |p: &mut Point| p.per_server[1].response_ms_mean = 100.0;
        assert_eq!(cost(slow, "server 1").as_deref(), Some("48.1 % of response time"));
        // 500 and 1000 of 750 each.
        let unequal = |p: &mut Point| p.per_server[0].iops = 500.0;
        assert_eq!(cost(unequal, "servers").as_deref(), Some("16.7 % of throughput"));
    }

    #[test]
    fn what_throttled_writes_lose_is_not_known() {
        let pending = |p: &mut Point| p.windows.iter_mut().for_each(|w| w.write_pending = 0.64);
        assert_eq!(cost(pending, "cache"), None);
        assert_eq!(cost(|_| {}, "array"), None);
    }

    #[test]
    fn a_calm_point_has_no_bottleneck_and_says_so() {
        let found = findings(&calm(), &LIMITS);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].evidence.contains("no bottleneck found: the busiest, drive1, works 50 %"),
            "{found:?}"
        );
    }

    #[test]
    fn a_busy_resource_is_named_with_how_many_are_like_it() {
        check(|p| p.resources[2].utilisation = 0.71, "port0", "71 %");
        check(
            |p| p.resources[5..7].iter_mut().for_each(|r| r.utilisation = 0.9),
            "drive1",
            "1 more of its kind",
        );
        let mut at_the_threshold = calm();
        at_the_threshold.resources[0].utilisation = MAX.utilisation_percent / 100.0;
        assert!(busy(&at_the_threshold, &MAX).is_empty());
    }

    #[test]
    fn a_slow_response_names_the_server() {
        check(|p| p.per_server[1].response_ms_mean = 51.0, "server 1", "51 ms");
    }

    #[test]
    fn a_queue_counts_the_drives_in_use_only() {
        // 1.5 on average over three drives, of which two have any: 2.25.
        check(|p| p.windows.iter_mut().for_each(|w| w.drive_queue_mean = 1.5), "drives", "2.2 requests");
        let mut point = calm();
        point.windows.iter_mut().for_each(|w| w.drive_queue_mean = 1.3);
        assert!(long_queue(&point, &MAX).is_none());
    }

    #[test]
    fn pending_writes_are_held_against_the_watermark() {
        check(|p| p.windows.iter_mut().for_each(|w| w.write_pending = 0.64), "cache", "64 %");
        let mut point = calm();
        point.windows.iter_mut().for_each(|w| w.write_pending = 0.64);
        assert!(write_pending(&point, &Limits { high_watermark: None, ..LIMITS }).is_none());
        assert!(write_pending(&calm(), &LIMITS).is_none());
    }

    #[test]
    fn an_idle_controller_beside_a_busy_one_is_found() {
        check(|p| p.resources[0].utilisation = 0.9, "CTRL1", "while CTRL0 works 90 %");
        assert!(idle_controller(&calm(), &MAX).is_none());
    }

    #[test]
    fn unequal_servers_are_found_with_the_group_they_share() {
        check(
            |p| {
                p.per_server[0].iops = 500.0;
                p.resources[3].used_by = vec![0, 2];
            },
            "servers",
            "from 500 to 1000 I/Os per second; group0 has 2",
        );
    }
}
