//! Pools: their space and their schedulers.

use status::{PolicyPart, PoolScheduler, Status};

use super::write::{Text, labels};

pub(super) fn write(out: &mut Text, status: &Status) {
    for (name, help, value) in POOL_GAUGES {
        out.gauge(name, help, status.pools.iter().map(|p| (labels(&[("pool", &p.name)]), value(p))));
    }
    let label = |s: &PoolScheduler| match &s.pool {
        Some(pool) => labels(&[("pool", pool)]),
        None => labels(&[("images_of_controller", &s.controller.to_string())]),
    };
    for (name, help, value) in SCHEDULER_GAUGES {
        out.gauge(name, help, status.schedulers.iter().map(|s| (label(s), value(s))));
    }
    for (name, help, value) in PART_GAUGES {
        let parts = status.schedulers.iter().flat_map(|s| s.parts.iter().map(move |part| (s, part)));
        let samples = parts.filter_map(|(s, part)| {
            let place = match &s.pool {
                Some(pool) => ("pool", pool.clone()),
                None => ("images_of_controller", s.controller.to_string()),
            };
            Some((labels(&[("policy", &part.policy), (place.0, &place.1)]), value(part)?))
        });
        out.gauge(name, help, samples);
    }
}

type PoolGauge = (&'static str, &'static str, fn(&status::Pool) -> f64);

const POOL_GAUGES: &[PoolGauge] = &[
    ("masu_pool_size_bytes", "Size of a pool", |p| p.size_bytes as f64),
    ("masu_pool_used_bytes", "Bytes in pages that are taken", |p| p.used_bytes as f64),
    ("masu_pool_token_bytes", "Bytes in pages that only tokens of hosts hold", |p| p.token_bytes as f64),
    ("masu_pool_promised_bytes", "Bytes that volumes promise to hosts", |p| p.promised_bytes as f64),
    ("masu_pool_soft_threshold_ratio", "Used space above which masu warns", |p| {
        f64::from(p.soft_threshold_percent) / 100.0
    }),
    ("masu_pool_critical_threshold_ratio", "Used space above which the warning is critical", |p| {
        f64::from(p.critical_threshold_percent) / 100.0
    }),
];

type SchedulerGauge = (&'static str, &'static str, fn(&PoolScheduler) -> f64);

const SCHEDULER_GAUGES: &[SchedulerGauge] = &[
    ("masu_scheduler_depth", "Requests that a pool works on at once at most", |s| s.depth.into()),
    ("masu_scheduler_depth_cost_ratio", "Throughput that the depth costs against the deepest", |s| {
        f64::from(s.depth_cost_permille) / 1e3
    }),
    ("masu_scheduler_in_flight", "Requests that a pool works on", |s| s.in_flight.into()),
    ("masu_scheduler_waiting", "Requests that wait for their turn", |s| s.waiting.into()),
    ("masu_scheduler_capacity_iops", "Normalised IOPS that a pool was seen to do", |s| {
        s.capacity_iops as f64
    }),
    ("masu_scheduler_minimums_iops", "Normalised IOPS that are promised in sum", |s| s.minimums_iops as f64),
    ("masu_scheduler_scale_ratio", "What of the minimums could be given", |s| {
        f64::from(s.scale_permille) / 1e3
    }),
];

type PartGauge = (&'static str, &'static str, fn(&PolicyPart) -> Option<f64>);

/// Of aggregated policies with volumes in several schedulers.
const PART_GAUGES: &[PartGauge] = &[
    ("masu_policy_part_minimum_iops", "What a scheduler has of the minimum of a policy", |part| {
        Some(part.minimum_iops as f64)
    }),
    ("masu_policy_part_maximum_iops", "What a scheduler has of the maximum of a policy", |part| {
        part.maximum_iops.map(|iops| iops as f64)
    }),
];
