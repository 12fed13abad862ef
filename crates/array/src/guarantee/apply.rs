//! Makes what is declared of policies so, while hosts go on.

use std::rc::Rc;

use qos::{Policy, Scheduler, Settings, admit};

use super::gate::Gate;
use super::judge::judge_task;
use super::service::Service;
use crate::config::{Config, PolicyConfig, Sharing};
use crate::controller::Controller;
use crate::watch::Watch;

/// What work in the background is called among the clients of a pool.
const BACKGROUND: &str = "background work";

/// What a pool has for its promises.
pub(crate) struct PoolService {
    pub(crate) service: Rc<Service>,
    /// Of rebuilds, evacuations and their like.
    pub(crate) background: Rc<Gate>,
}

impl PoolService {
    /// The gate of work in the background, while somebody is promised something.
    pub(crate) fn background_if_closed(&self) -> Option<Rc<Gate>> {
        Some(self.background.clone()).filter(|gate| !gate.is_open())
    }
}

fn settings_of(config: &Config) -> Settings {
    Settings { unit_bytes: config.qos.unit_bytes, depth_max: config.qos.depth_max, ..Settings::default() }
}

/// Gives a pool that was opened its scheduler.
pub(crate) fn open_service(controller: &Rc<Controller>, pool: &str, config: &Config, watch: &Watch) {
    let service = Service::new(controller.world.clone(), settings_of(config), watch.clone());
    let background = service.gate(BACKGROUND);
    controller.world.spawn(judge_task(controller.clone(), pool.to_owned(), service.clone(), watch.clone()));
    controller.state.borrow_mut().services.insert(pool.to_owned(), PoolService { service, background });
}

/// Gives every volume of this controller the policy that is declared for it.
pub(crate) fn set_policies(controller: &Controller, config: &Config, done: &mut Vec<String>) {
    let state = controller.state();
    for (pool, of_pool) in &state.services {
        let service = &of_pool.service;
        let now = service.now();
        let mut any = false;
        if service.scheduler.borrow().settings() != settings_of(config) {
            service.scheduler.borrow_mut().set_settings(now, settings_of(config));
        }
        service.set(&of_pool.background, None, config.qos.background);
        for volume in config.volumes.iter().filter(|v| v.pool == *pool) {
            let Some(lu) = state.lus.get(&volume.name) else { continue };
            let declared = volume.policy.as_ref();
            let policy = declared.and_then(|name| config.policy(name));
            any |= policy.is_some();
            let was = state.config.volume(&volume.name).and_then(|v| v.policy.as_ref());
            if let Some(name) = declared.filter(|_| was != declared) {
                match policy {
                    Some(_) => done.push(format!("volume {}: policy {name}", volume.name)),
                    None => done.push(format!(
                        "warning: volume {}: there is no policy {name:?}: nothing is promised to it",
                        volume.name
                    )),
                }
            } else if was.is_some() && declared.is_none() {
                done.push(format!("volume {}: no policy", volume.name));
            }
            let Some(gate) = lu.medium().gate() else { continue };
            match policy {
                Some(PolicyConfig { name, policy, sharing: Sharing::Aggregated }) => {
                    service.set(gate, Some(name), *policy);
                }
                Some(PolicyConfig { policy, .. }) => service.set(gate, None, *policy),
                None => service.set(gate, None, Policy::none()),
            }
        }
        service.on.set(any);
        service.pump();
        if let Some(warning) = overcommitted(&service.scheduler.borrow()).filter(|_| any) {
            done.push(format!("warning: pool {pool}: {warning}"));
        }
    }
}

/// What an operator is to know when more is promised than the pool was seen to do.
fn overcommitted(scheduler: &Scheduler) -> Option<String> {
    let capacity = scheduler.capacity();
    let promised = scheduler.minimums();
    match (capacity.units_per_s, capacity.saturated) {
        (0, _) => None,
        (units, true) => admit(units, promised).map(|warning| warning.to_string()),
        (units, false) => admit(units, promised).map(|_| {
            format!(
                "the minimums are {promised} IOPS together; the most that was asked of it so far are {units} IOPS, so it is not known whether they fit"
            )
        }),
    }
}

impl Service {
    /// Gives a client a policy: one of its own, or one that it shares with all that name it.
    fn set(&self, gate: &Gate, shared: Option<&String>, policy: Policy) {
        let now = self.now();
        let mut scheduler = self.scheduler.borrow_mut();
        let current = scheduler.flow_of(gate.client);
        let is_shared = self.shared.borrow().values().any(|flow| *flow == current);
        let wanted = match shared {
            None if !is_shared => current,
            None => scheduler.add_flow(now, policy),
            Some(name) => {
                let known = self.shared.borrow().get(name).copied();
                let flow = known.unwrap_or_else(|| scheduler.add_flow(now, policy));
                self.shared.borrow_mut().insert(name.clone(), flow);
                flow
            }
        };
        scheduler.set_policy(now, wanted, policy);
        if wanted != current {
            scheduler.move_client(now, gate.client, wanted);
            self.forget_flow(&mut scheduler, current);
        }
    }
}
