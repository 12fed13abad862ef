//! Status snapshot of schedulers and clients.

use std::rc::Rc;

use qos::Health;
use stack::{Gate, Service};

use crate::controller::State;
use crate::status::{QosState, SchedulerStatus, VolumeQos};

/// The schedulers in which a policy is in force: of pools, and of images.
pub(crate) fn schedulers_status(state: &State) -> Vec<SchedulerStatus> {
    let pools = state.services.iter().map(|(pool, of)| (Some(pool), &of.service, Some(&of.background)));
    let images = state.image_service.iter().map(|service| (None, service, None));
    let on = pools.chain(images).filter(|(_, service, _)| service.is_on());
    let status = |(pool, service, background): (Option<&String>, &Rc<Service>, Option<&Rc<Gate>>)| {
        let scheduler = service.scheduler();
        SchedulerStatus {
            pool: pool.cloned(),
            unit_bytes: scheduler.settings().unit_bytes,
            depth: scheduler.depth(),
            in_flight: scheduler.in_flight(),
            waiting: scheduler.waiting(),
            capacity: scheduler.capacity(),
            minimums_iops: scheduler.minimums(),
            scale_permille: scheduler.scale_permille(),
            background: background.map(|gate| gate.counts()).unwrap_or_default(),
        }
    };
    on.map(status).collect()
}

/// The state of the policy `policy` on a volume or an image.
pub(crate) fn qos_of(state: &State, policy: Option<&String>, gate: &Gate) -> VolumeQos {
    let known = policy.map(|name| state.config.policy(name).is_some());
    let state = match (known, gate.health()) {
        (Some(false), _) => QosState::UnknownPolicy,
        (Some(true), Health::BelowMinimum { minimum_iops, served_iops }) => {
            QosState::BelowMinimum { minimum_iops, served_iops }
        }
        _ => QosState::Ok,
    };
    VolumeQos { policy: policy.cloned(), state, counts: gate.counts() }
}
