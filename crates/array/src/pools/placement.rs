//! Placement: every pool ends its heat interval regularly, and moves pages as planned if its groups are of
//! more than one class.

use std::rc::Rc;
use std::time::Duration;

use futures::future::{Either, select};
use pool::{Pool, PoolError};

use super::work::pace;
use crate::config::{Config, FOREGROUND_SHARE_PERCENT_DEFAULT, PoolConfig};
use crate::control::ControlError;
use crate::controller::{Controller, Watch};
use crate::status::JobKind;
use crate::terms;

/// Long enough to distinguish a page with an access every twenty seconds from an idle one. Short enough that
/// the hot set of a working day has moved up within minutes.
pub(crate) const PLACEMENT_INTERVAL: Duration = Duration::from_secs(300);

/// Sets the classes of a pool's groups as declared. Adds a line for each change.
pub(crate) fn set_classes(
    controller: &Controller,
    config: &Config,
    declared: &PoolConfig,
    done: &mut Vec<String>,
) -> Result<(), ControlError> {
    let place = ControlError::at(format!("pool {:?}", declared.name));
    let state = controller.state();
    let Some(pool) = state.pools.get(&declared.name) else { return Ok(()) };
    if state.config.pool(&declared.name).is_some_and(|p| p.placement != declared.placement) {
        let what = if declared.placement { "enabled" } else { "disabled" };
        done.push(format!("pool {}: placement {what}", declared.name));
    }
    let class_of =
        |config: &Config, name: &str| config.groups.iter().find(|g| g.name == name).map(|g| g.class);
    for space in pool.group_spaces() {
        let Some(class) = class_of(config, &space.name) else { continue };
        if class_of(&state.config, &space.name).is_some_and(|before| before != class) {
            let class = format!("{class:?}").to_lowercase();
            done.push(format!("group {}: class {class}", space.name));
        }
        if let Err(error) = pool.set_class(space.id, terms::class(class)) {
            return Err(place(&error));
        }
    }
    Ok(())
}

/// Ends intervals until the pool is released. While placement is off, or all groups are of one class, masu
/// counts heat and moves nothing.
pub(crate) async fn placement_task(controller: Rc<Controller>, pool: Pool, watch: Watch) {
    let name = pool.name().to_owned();
    loop {
        let slept = Box::pin(controller.world.sleep(PLACEMENT_INTERVAL));
        let Either::Left(_) = select(slept, Box::pin(watch.ended())).await else { return };
        let is_on = controller.config().pool(&name).is_some_and(|p| p.placement);
        if !is_on || pool.classes().len() < 2 {
            pool.end_interval().await;
            continue;
        }
        let (this, placed) = (controller.clone(), pool.clone());
        controller.jobs.begin((JobKind::Place, &name), 0, async move |job| {
            let pace = pace(&this, &placed, job, FOREGROUND_SHARE_PERCENT_DEFAULT);
            let outcome = placed.place(pace).await;
            let name = placed.name();
            match outcome {
                // Another job moves pages: the next interval tries again.
                Err(PoolError::Busy { .. }) => Ok(String::new()),
                Ok(moved) if moved.bytes == 0 => Ok(String::new()),
                Ok(m) => Ok(format!("pool {name}: {} pages promoted, {} demoted", m.promoted, m.demoted)),
                Err(error) => Err(format!("pool {name}: placement failed: {error}")),
            }
        });
    }
}
