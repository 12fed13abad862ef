//! Applies policies while hosts continue.

use std::collections::BTreeMap;
use std::rc::Rc;

use qos::{Policy, Scheduler, Settings, admit};
use stack::{Gate, Service};

use super::divide::begin_to_divide;
use super::judge::judge_task;
use super::parts::part_here;
use crate::config::{Config, Sharing};
use crate::controller::{Controller, Index, PoolService, Slices, Watch};
use crate::place::Place;

/// The name of background work among the clients of a pool.
const BACKGROUND: &str = "background work";

fn settings_of(config: &Config) -> Settings {
    Settings {
        unit_bytes: config.qos.unit_bytes,
        depth_max: config.qos.depth_max,
        floor_percent: config.qos.floor_percent,
        ..Settings::default()
    }
}

/// Creates the scheduler of a pool that was opened.
pub(crate) fn open_service(controller: &Rc<Controller>, pool: &str, config: &Config, watch: &Watch) {
    let service = begin(controller, format!("pool {pool}"), config, watch);
    let found = controller.state.borrow_mut().brought_by(pool).found.take();
    found.iter().for_each(|found| service.begin_with(found));
    let background = service.gate(BACKGROUND);
    controller.state.borrow_mut().services.insert(pool.to_owned(), PoolService { service, background });
}

/// The gate of an image. The images of a controller share one scheduler, created with the first image.
pub(crate) fn image_gate(controller: &Rc<Controller>, config: &Config, image: &str) -> Rc<Gate> {
    let known = controller.state().image_service.clone();
    let service = known.unwrap_or_else(|| {
        let watch = controller.state().image_watch.clone();
        let service = begin(controller, images_of(controller), config, &watch);
        controller.state.borrow_mut().image_service = Some(service.clone());
        service
    });
    service.gate(&format!("image {image}"))
}

fn images_of(controller: &Controller) -> String {
    format!("images of controller {}", controller.index)
}

fn begin(controller: &Rc<Controller>, place: String, config: &Config, watch: &Watch) -> Rc<Service> {
    let service = Service::new(controller.world.clone(), settings_of(config), {
        let watch = watch.clone();
        async move { watch.ended().await }
    });
    controller.world.spawn(judge_task(
        (controller.world.clone(), controller.events.clone()),
        place,
        service.clone(),
        watch.clone(),
    ));
    service
}

/// Applies the declared policy to every volume and image of this controller. `was` and `is` are the previous
/// and the current declaration.
pub(crate) async fn set_policies(
    controller: &Rc<Controller>,
    config: &Config,
    (was, is): (&Index<'_>, &Index<'_>),
    slices: &mut Slices,
    done: &mut Vec<String>,
) {
    controller.state.borrow_mut().spread = is.spread();
    let before = controller.config();
    let pools: Vec<(String, Rc<Service>, Rc<Gate>)> = {
        let state = controller.state();
        let all = state.services.iter();
        all.map(|(pool, of)| (pool.clone(), of.service.clone(), of.background.clone())).collect()
    };
    for (pool, service, background) in pools {
        service.set_settings(settings_of(config));
        service.set_policy(&background, None, config.qos.background());
        let mut volumes =
            config.volumes.iter().filter(|v| v.pool == pool).map(|v| ("volume", v.name.as_str()));
        let setting = Setting { controller, config, before: &before, was, is };
        let volumes: &mut dyn Iterator<Item = _> = &mut volumes;
        set_all(&service, &setting, (&Place::Pool(pool.clone()), volumes), slices, done).await;
    }
    let images = controller.state().image_service.clone();
    if let Some(service) = images {
        service.set_settings(settings_of(config));
        let own = config.images.iter().filter(|i| i.controller == controller.index);
        let setting = Setting { controller, config, before: &before, was, is };
        let mut own = own.map(|i| ("image", i.name.as_str()));
        let place = Place::Images(controller.index);
        set_all(&service, &setting, (&place, &mut own), slices, done).await;
    }
    begin_to_divide(controller);
}

/// The previous and the current declaration, on a controller.
pub(super) struct Setting<'a> {
    controller: &'a Controller,
    pub(super) config: &'a Config,
    pub(super) before: &'a Config,
    pub(super) was: &'a Index<'a>,
    pub(super) is: &'a Index<'a>,
}

/// The previous and the current policy of a LU.
struct Declared<'a> {
    kind: &'static str,
    name: &'a str,
    was: Option<&'a String>,
    is: Option<&'a String>,
}

impl<'a> Declared<'a> {
    fn of(setting: &Setting<'a>, (kind, name): (&'static str, &'a str)) -> Declared<'a> {
        Declared { kind, name, was: setting.was.policy_of(kind, name), is: setting.is.policy_of(kind, name) }
    }

    /// The line for the operator, if the policy changes.
    fn news(&self, config: &Config) -> Option<String> {
        let Declared { kind, name, was, is } = self;
        match is {
            Some(policy) if was != is => Some(match config.policy(policy) {
                Some(_) => format!("{kind} {name}: policy {policy}"),
                None => {
                    format!("warning: {kind} {name}: policy {policy:?} does not exist; no policy is applied")
                }
            }),
            None if was.is_some() => Some(format!("{kind} {name}: no policy")),
            _ => None,
        }
    }
}

/// The warning if the minimums exceed the measured capacity.
fn overcommitted(scheduler: &Scheduler) -> Option<String> {
    let capacity = scheduler.capacity();
    let promised = scheduler.minimums();
    match (capacity.units_per_s, capacity.saturated) {
        (0, _) => None,
        (units, true) => admit(units, promised).map(|warning| warning.to_string()),
        (units, false) => admit(units, promised).map(|_| {
            format!(
                "the minimums add up to {promised} IOPS; the highest load so far was {units} IOPS, so masu \
                 cannot tell whether they are over-committed"
            )
        }),
    }
}

/// Applies the declared policies to all clients of a scheduler. `place` names the scheduler in messages.
async fn set_all<'a>(
    service: &Service,
    setting: &Setting<'a>,
    (place, declared): (&Place, &mut dyn Iterator<Item = (&'static str, &'a str)>),
    slices: &mut Slices,
    done: &mut Vec<String>,
) {
    let (mut any, mut has_minimum) = (false, false);
    let config = setting.config;
    let mut parts = BTreeMap::new();
    for one in declared {
        slices.step(2).await;
        let Some(lu) = setting.controller.state().lus.get(one.1).cloned() else { continue };
        let one = Declared::of(setting, one);
        let policy = one.is.and_then(|name| config.policy(name));
        any |= policy.is_some();
        has_minimum |= policy.is_some_and(|policy| policy.policy().minimum_iops > 0);
        done.extend(one.news(config));
        let gate = lu.disk().gate();
        match policy {
            Some(policy) => {
                let is_shared = policy.sharing == Sharing::Aggregated;
                let part = || part_here(service, setting, place, policy);
                let shared =
                    is_shared.then(|| (&policy.name, *parts.entry(&policy.name).or_insert_with(part)));
                service.set_policy(gate, shared, policy.policy());
            }
            None => service.set_policy(gate, None, Policy::none()),
        }
    }
    service.set_on(any);
    // That of background work alone is nobody's promise.
    if let Some(warning) = overcommitted(&service.scheduler()).filter(|_| has_minimum) {
        let place = match place {
            Place::Pool(pool) => format!("pool {pool}"),
            Place::Images(_) => images_of(setting.controller),
        };
        done.push(format!("warning: {place}: {warning}"));
    }
}
