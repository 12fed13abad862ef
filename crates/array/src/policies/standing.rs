//! Status snapshot of schedulers and clients.

use std::rc::Rc;

use qos::{DepthLimit, Health, Lack};
use stack::{Gate, Service};

use crate::controller::State;
use crate::status::{PolicyPart, PoolScheduler, VolumeQos};

/// The schedulers in which a policy is in force: of pools, and of images.
pub(crate) fn schedulers_status(state: &State, controller: usize) -> Vec<PoolScheduler> {
    let pools = state.services.iter().map(|(pool, of)| (Some(pool), &of.service, Some(&of.background)));
    let images = state.image_service.iter().map(|service| (None, service, None));
    let on = pools.chain(images).filter(|(_, service, _)| service.is_on());
    let status = |(pool, service, background): (Option<&String>, &Rc<Service>, Option<&Rc<Gate>>)| {
        let scheduler = service.scheduler();
        PoolScheduler {
            pool: pool.cloned(),
            controller,
            unit_bytes: scheduler.settings().unit_bytes,
            depth: scheduler.depth(),
            depth_limit: limit_name(scheduler.depth_limit()).into(),
            depth_cost_permille: scheduler.depth_cost_permille(),
            in_flight: scheduler.in_flight(),
            waiting: scheduler.waiting(),
            capacity_iops: scheduler.capacity().units_per_s,
            capacity_is_full: scheduler.capacity().saturated,
            minimums_iops: scheduler.minimums(),
            scale_permille: scheduler.scale_permille(),
            background_bytes: background.map_or(0, |gate| gate.counts().charged_bytes),
            parts: parts_of(state, service),
        }
    };
    on.map(status).collect()
}

/// Its parts of policies that others have, too.
fn parts_of(state: &State, service: &Service) -> Vec<PolicyPart> {
    let unit_bytes = service.scheduler().settings().unit_bytes;
    let part = |policy: &String| {
        let part = service.part(policy)?;
        Some(PolicyPart {
            policy: policy.clone(),
            minimum_iops: part.minimum_bytes_per_s / unit_bytes,
            maximum_iops: part.maximum.map(|slice| slice.bytes_per_s / unit_bytes),
            bandwidth_bytes_per_s: part.bandwidth.map(|slice| slice.bytes_per_s),
        })
    };
    state.spread.keys().filter_map(part).collect()
}

fn limit_name(limit: DepthLimit) -> &'static str {
    match limit {
        DepthLimit::Setting => "setting",
        DepthLimit::Throughput => "throughput",
        DepthLimit::Minimums => "minimums",
        DepthLimit::Outstanding => "outstanding",
    }
}

fn lack_name(lack: Lack) -> &'static str {
    match lack {
        Lack::Capacity => "capacity",
        Lack::Outstanding => "outstanding",
    }
}

/// Why a minimum is violated, in words.
pub(crate) fn reason(lack: Lack) -> &'static str {
    match lack {
        Lack::Capacity => "the minimums exceed the capacity",
        Lack::Outstanding => "too few outstanding requests for their response time",
    }
}

/// The state of the policy `policy` on a volume or an image.
pub(crate) fn qos_of(state: &State, policy: Option<&String>, gate: &Gate) -> VolumeQos {
    let known = policy.map(|name| state.config.policy(name).is_some());
    let (kept, served_iops, lacks) = match (known, gate.health()) {
        (Some(false), _) => ("unknown_policy", None, None),
        (Some(true), Health::BelowMinimum { served_iops, lacks, .. }) => {
            ("below_minimum", Some(served_iops), Some(lack_name(lacks).to_owned()))
        }
        _ => ("ok", None, gate.lacks_outstanding().then(|| lack_name(Lack::Outstanding).to_owned())),
    };
    let counts = gate.counts();
    VolumeQos {
        policy: policy.cloned(),
        state: kept.into(),
        served_iops,
        lacks,
        charged_bytes: counts.charged_bytes,
        minimum_requests: counts.minimum_requests,
        weight_requests: counts.weight_requests,
        waited_requests: counts.waited_requests,
        waited_us: counts.waited_ns / 1000,
    }
}

/// What of its minimum a volume or an image gets, in words; none where it gets all of it.
pub(crate) fn below_minimum(state: &State, policy: Option<&String>, gate: &Gate) -> Option<String> {
    state.config.policy(policy?)?;
    match gate.health() {
        Health::BelowMinimum { minimum_iops, served_iops, lacks } => {
            Some(format!("{served_iops} of {minimum_iops} IOPS: {}", reason(lacks)))
        }
        _ => None,
    }
}
