//! How schedulers and their clients stand, as plain values.

use qos::Health;

use super::gate::Gate;
use crate::config::VolumeConfig;
use crate::state::State;
use crate::status::{QosState, SchedulerStatus, VolumeQos};

/// The schedulers of the pools in which a policy is in force.
pub(crate) fn schedulers_status(state: &State) -> Vec<SchedulerStatus> {
    let on = state.services.iter().filter(|(_, of_pool)| of_pool.service.on.get());
    let status = |(pool, of_pool): (&String, &super::apply::PoolService)| {
        let scheduler = of_pool.service.scheduler.borrow();
        SchedulerStatus {
            pool: pool.clone(),
            unit_bytes: scheduler.settings().unit_bytes,
            depth: scheduler.depth(),
            in_flight: scheduler.in_flight(),
            waiting: scheduler.waiting(),
            capacity: scheduler.capacity(),
            minimums_iops: scheduler.minimums(),
            scale_permille: scheduler.scale_permille(),
            background: scheduler.counts(of_pool.background.client),
        }
    };
    on.map(status).collect()
}

/// How the promise to a volume stands.
pub(crate) fn volume_qos(state: &State, declared: &VolumeConfig, gate: &Gate) -> VolumeQos {
    let scheduler = gate.service.scheduler.borrow();
    let known = declared.policy.as_ref().map(|name| state.config.policy(name).is_some());
    let health = scheduler.health(scheduler.flow_of(gate.client));
    let state = match (known, health) {
        (Some(false), _) => QosState::UnknownPolicy,
        (Some(true), Health::BelowMinimum { minimum_iops, served_iops }) => {
            QosState::BelowMinimum { minimum_iops, served_iops }
        }
        _ => QosState::Ok,
    };
    VolumeQos { policy: declared.policy.clone(), state, counts: scheduler.counts(gate.client) }
}
