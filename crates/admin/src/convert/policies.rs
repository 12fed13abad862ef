//! The part of the status that is about services that volumes are promised.

use array::status::{QosState, SchedulerStatus, VolumeQos as Standing};
use config::{Config, PolicyConfig, Sharing};

use crate::api::{Policy, PoolScheduler, VolumeQos};

pub(super) fn policy(declared: &PolicyConfig, config: &Config) -> Policy {
    let having = config.promised().filter(|(_, _, policy)| *policy == Some(&declared.name));
    Policy {
        name: declared.name.clone(),
        minimum_iops: declared.minimum_iops,
        maximum_iops: declared.maximum_iops,
        bandwidth_bytes_per_s: declared.bandwidth_bytes_per_s,
        weight: declared.weight,
        burst_units: declared.burst_units,
        sharing: match declared.sharing {
            Sharing::Dedicated => "dedicated".into(),
            Sharing::Aggregated => "aggregated".into(),
        },
        volumes: having.map(|(_, name, _)| name.clone()).collect(),
    }
}

pub(super) fn scheduler(s: SchedulerStatus, controller: usize) -> PoolScheduler {
    PoolScheduler {
        pool: s.pool,
        controller,
        unit_bytes: s.unit_bytes,
        depth: s.depth,
        in_flight: s.in_flight,
        waiting: s.waiting,
        capacity_iops: s.capacity.units_per_s,
        capacity_is_full: s.capacity.saturated,
        minimums_iops: s.minimums_iops,
        scale_permille: s.scale_permille,
        background_bytes: s.background.charged_bytes,
    }
}

/// Of a volume or an image.
pub(super) fn standing(standing: &Standing) -> VolumeQos {
    let (state, served_iops) = match standing.state {
        QosState::Ok => ("ok", None),
        QosState::BelowMinimum { served_iops, .. } => ("below_minimum", Some(served_iops)),
        QosState::UnknownPolicy => ("unknown_policy", None),
    };
    let counts = standing.counts;
    VolumeQos {
        policy: standing.policy.clone(),
        state: state.into(),
        served_iops,
        charged_bytes: counts.charged_bytes,
        minimum_requests: counts.minimum_requests,
        weight_requests: counts.weight_requests,
        waited_requests: counts.waited_requests,
        waited_us: counts.waited_ns / 1000,
    }
}
