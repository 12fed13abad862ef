//! Pools, as they are declared: opened or created, given groups, relieved of groups.

use std::rc::Rc;

use futures::future::{Either, select};
use pool::{Pool, PoolError, PoolEvent, PoolSpec, Threshold};
use raid::Group;
use scsi::LogicalUnit;

use crate::Disk;
use crate::config::{Config, FOREGROUND_SHARE_PERCENT_DEFAULT, PoolConfig};
use crate::control::ControlError;
use crate::controller::Controller;
use crate::guarantee::open_service;
use crate::jobs::{JobKind, begin};
use crate::placement::placement_task;
use crate::upkeep::foreground_share_percent;
use crate::watch::Watch;

pub(crate) async fn open_pool(
    controller: &Rc<Controller>,
    config: &Config,
    declared: &PoolConfig,
    done: &mut Vec<String>,
) -> Result<(), ControlError> {
    let known = controller.state().pools.get(&declared.name).cloned();
    let pool = match known {
        Some(pool) => pool,
        None => open_or_create(controller, config, declared, done).await?,
    };
    set_thresholds(&pool, declared).await?;
    add_groups(controller, &pool, declared, done).await?;
    for group in &declared.leaving {
        begin_leaving(controller, &pool, group);
    }
    Ok(())
}

async fn open_or_create(
    controller: &Rc<Controller>,
    config: &Config,
    declared: &PoolConfig,
    done: &mut Vec<String>,
) -> Result<Pool, ControlError> {
    let place = || ControlError::at(format!("pool {:?}", declared.name));
    let open_groups = |names: &mut dyn Iterator<Item = &String>| -> Result<Vec<Group>, ControlError> {
        let state = controller.state();
        let open = |name: &String| {
            let group = state.groups.get(name).cloned();
            group.ok_or_else(|| place()(&format!("group {name:?} is not open")))
        };
        names.map(open).collect()
    };
    let groups = open_groups(&mut declared.groups.iter())?;
    let all = open_groups(&mut declared.groups.iter().chain(&declared.leaving))?;
    let spec = PoolSpec {
        name: declared.name.clone(),
        page_bytes: declared.page_bytes,
        soft_threshold_percent: declared.soft_threshold_percent,
        critical_threshold_percent: declared.critical_threshold_percent,
    };
    let was_made = controller.state().made.pools.contains(&declared.name);
    let (pool, how) = match Pool::open(controller.world.clone(), all).await {
        Ok(pool) if pool.name() != declared.name => {
            return Err(place()(&format!("its groups hold pool {:?}", pool.name())));
        }
        Ok(pool) => (pool, "opened"),
        Err(PoolError::NoPool { .. } | PoolError::Unfinished { .. }) if !was_made => {
            controller.state.borrow_mut().fresh.pools.push(declared.name.clone());
            (Pool::create(controller.world.clone(), spec, groups).await.map_err(|e| place()(&e))?, "created")
        }
        Err(PoolError::NoPool { .. } | PoolError::Unfinished { .. }) => {
            let cause = "its groups hold no pool any more; nothing was written to them: look at them with `masu check`";
            return Err(place()(&cause));
        }
        Err(e) => return Err(place()(&e)),
    };
    done.push(format!("pool {}: {how}", declared.name));
    let watch = Watch::default();
    controller.world.spawn(watch_pool_task(controller.clone(), pool.clone(), watch.clone()));
    controller.world.spawn(placement_task(controller.clone(), pool.clone(), watch.clone()));
    open_service(controller, &declared.name, config, &watch);
    let mut state = controller.state.borrow_mut();
    state.pools.insert(declared.name.clone(), pool.clone());
    state.pool_watches.insert(declared.name.clone(), watch);
    drop(state);
    Ok(pool)
}

/// The controller has the pool no more, and does nothing for it. Gives the pool, which is still open.
pub(crate) async fn drop_pool(controller: &Controller, name: &str) -> Option<Pool> {
    let (pool, watch) = {
        let mut state = controller.state.borrow_mut();
        state.services.remove(name);
        (state.pools.remove(name), state.pool_watches.remove(name))
    };
    if let Some(watch) = watch {
        watch.let_go(&controller.world).await;
    }
    pool
}

async fn set_thresholds(pool: &Pool, declared: &PoolConfig) -> Result<(), ControlError> {
    let (soft, critical) = (declared.soft_threshold_percent, declared.critical_threshold_percent);
    let space = pool.space();
    if (space.soft_threshold_percent, space.critical_threshold_percent) == (soft, critical) {
        return Ok(());
    }
    let place = ControlError::at(format!("pool {:?}", declared.name));
    pool.set_thresholds(soft, critical).await.map_err(|e| place(&e))
}

/// Groups that are declared and not in the pool join it.
async fn add_groups(
    controller: &Controller,
    pool: &Pool,
    declared: &PoolConfig,
    done: &mut Vec<String>,
) -> Result<(), ControlError> {
    for name in &declared.groups {
        let group = controller.state().groups.get(name).cloned();
        let place = || ControlError::at(format!("pool {:?}: group {name:?}", declared.name));
        let group = group.ok_or_else(|| place()(&"is not open"))?;
        match pool.group_spaces().iter().find(|g| g.id == group.id()) {
            Some(space) if space.evacuating => {
                pool.cancel_evacuation(group.id()).await.map_err(|e| place()(&e))?;
                done.push(format!("pool {}: group {name} stays", declared.name));
            }
            Some(_) => {}
            None => {
                pool.add_group(group).await.map_err(|e| place()(&e))?;
                done.push(format!("pool {}: group {name} added", declared.name));
            }
        }
    }
    Ok(())
}

/// Moves all pages of a group away and takes it out of the pool, as a job.
fn begin_leaving(controller: &Rc<Controller>, pool: &Pool, group: &str) {
    let Some(space) = pool.group_spaces().into_iter().find(|g| g.name == group) else { return };
    let (pool, this, name) = (pool.clone(), controller.clone(), group.to_owned());
    begin(controller, (JobKind::Evacuate, group), space.used_bytes, async move |job| {
        let pace = job.pace(&this, &pool, foreground_share_percent(&this, &name));
        let moved = match pool.evacuate(space.id, pace).await {
            Ok(moved) if !moved.complete => {
                let (pool, bytes) = (pool.name(), moved.bytes);
                return Ok(format!("pool {pool}: group {name}: stopped, {bytes} bytes moved"));
            }
            Ok(moved) => moved,
            Err(e) => return Err(format!("pool {}: group {name} cannot leave: {e}", pool.name())),
        };
        match pool.remove_group(space.id).await {
            Ok(_) => Ok(format!("pool {}: group {name} has left, {} bytes moved", pool.name(), moved.bytes)),
            Err(e) => Err(format!("pool {}: group {name} cannot leave: {e}", pool.name())),
        }
    });
}

/// Moves pages from full groups to emptier ones, as a job.
pub(crate) fn rebalance(controller: &Rc<Controller>, name: &str) -> Result<Vec<String>, ControlError> {
    let place = ControlError::at(format!("pool {name:?}"));
    let pool = controller.state().pools.get(name).cloned();
    let pool = pool.ok_or_else(|| place(&"there is no such pool here"))?;
    let this = controller.clone();
    let begun = begin(controller, (JobKind::Rebalance, name), 0, async move |job| {
        let pace = job.pace(&this, &pool, FOREGROUND_SHARE_PERCENT_DEFAULT);
        match pool.rebalance(pace).await {
            Ok(moved) => Ok(format!("pool {}: rebalanced, {} bytes moved", pool.name(), moved.bytes)),
            Err(e) => Err(format!("pool {}: not rebalanced: {e}", pool.name())),
        }
    });
    let what = if begun { "is being rebalanced" } else { "is being rebalanced already" };
    Ok(vec![format!("pool {name}: {what}")])
}

/// Gives back pages of zeros, as a job.
pub(crate) fn reclaim(controller: &Rc<Controller>, volume: &str) -> Result<Vec<String>, ControlError> {
    let place = || ControlError::at(format!("volume {volume:?}"));
    let lu = controller.state().lus.get(volume).cloned();
    let lu = lu.ok_or_else(|| place()(&"there is no such volume here"))?;
    let on_pool =
        lu.medium().volume().ok_or_else(|| place()(&"it is an image: masu vdisk compact does it"))?;
    let (pool, used_bytes) = (on_pool.pool(), on_pool.used_bytes());
    let unit = controller.state().units.get(volume).cloned();
    let (this, name) = (controller.clone(), volume.to_owned());
    let begun = begin(controller, (JobKind::Reclaim, volume), used_bytes, async move |job| {
        let pace = job.pace(&this, &pool, FOREGROUND_SHARE_PERCENT_DEFAULT);
        // A page that is zeros on the drives may be something else in the cache.
        let unit = unit.as_ref();
        let settle = async |range| match unit {
            Some(unit) => unit.settle(range).await.map(Some),
            None => Ok(None),
        };
        match pool.reclaim_behind(&name, settle, pace).await {
            Ok(r) => {
                Ok(format!("volume {name}: {} of {} bytes given back", r.released_bytes, r.scanned_bytes))
            }
            Err(e) => Err(format!("volume {name}: nothing more is given back: {e}")),
        }
    });
    let what = if begun { "is searched for zeros" } else { "is searched for zeros already" };
    Ok(vec![format!("volume {volume}: {what}")])
}

/// Passes on what a pool says: an event for the status, a unit attention for the hosts.
async fn watch_pool_task(controller: Rc<Controller>, pool: Pool, watch: Watch) {
    let name = pool.name().to_owned();
    loop {
        let next = select(Box::pin(pool.next_event()), Box::pin(watch.ended())).await;
        let Either::Left((event, _)) = next else { return };
        match &event {
            PoolEvent::ThresholdCrossed { level, percent, used_bytes, total_bytes } => {
                let told = format!("{percent} % are used: {used_bytes} of {total_bytes} bytes");
                match level {
                    Threshold::Soft => controller.warn(format!("pool {name}: warning: {told}")),
                    Threshold::Critical => controller.alarm(format!("pool {name}: critical: {told}")),
                }
            }
            PoolEvent::Full => {
                controller.alarm(format!("pool {name}: full: writes that need a page are refused"))
            }
        }
        if let PoolEvent::ThresholdCrossed { .. } = event {
            let state = controller.state();
            let on_pool =
                |lu: &LogicalUnit<Disk>| lu.medium().volume().is_some_and(|v| v.pool().name() == name);
            state.lus.values().filter(|lu| on_pool(lu)).for_each(|lu| lu.threshold_reached());
        }
    }
}
