//! Pools: opened or created, groups added and removed.

use std::rc::Rc;

use futures::future::{Either, select};
use pool::{Pool, PoolError, PoolEvent, PoolSpec, Threshold};
use raid::Group;
use scsi::LogicalUnit;
use status::Reason;

use super::placement::placement_task;
use super::work::begin_leaving;
use crate::config::{Config, PoolConfig};
use crate::control::ControlError;
use crate::controller::{Controller, Watch};
use crate::journal_groups::refuse_needed;
use crate::policies::open_service;
use crate::why::Told;
use stack::Disk;

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
            group.ok_or_else(|| place()(&Told::new(Reason::Away, format!("group {name:?} is not open"))))
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
    // For this attempt alone: whoever opens it after that may find commits.
    let closed = controller.state.borrow_mut().brought_by(&declared.name).closed.take();
    let (pool, how) = match Pool::open_closed(controller.world.clone(), all, closed).await {
        Ok(pool) if pool.name() != declared.name => {
            return Err(place()(&format!("its groups hold pool {:?}", pool.name())));
        }
        Ok(pool) => (pool, "opened"),
        Err(PoolError::NoPool { .. } | PoolError::Unfinished { .. }) if !was_made => {
            for group in &groups {
                refuse_needed(controller, group).await?;
            }
            controller.state.borrow_mut().fresh.pools.push(declared.name.clone());
            (Pool::create(controller.world.clone(), spec, groups).await.map_err(|e| place()(&e))?, "created")
        }
        Err(PoolError::NoPool { .. } | PoolError::Unfinished { .. }) => {
            let cause = "its groups no longer hold a pool; masu wrote nothing to them; examine them with \
                `masu check`";
            return Err(place()(&cause));
        }
        Err(e) => return Err(place()(&e)),
    };
    done.push(format!("pool {}: {how}", declared.name));
    take_pool(controller, config, &pool);
    Ok(pool)
}

/// Gives an open pool its scheduler and its tasks, and the controller the pool.
pub(super) fn take_pool(controller: &Rc<Controller>, config: &Config, pool: &Pool) {
    let (name, watch) = (pool.name().to_owned(), Watch::default());
    controller.world.spawn(watch_pool_task(controller.clone(), pool.clone(), watch.clone()));
    controller.world.spawn(placement_task(controller.clone(), pool.clone(), watch.clone()));
    open_service(controller, &name, config, &watch);
    let mut state = controller.state.borrow_mut();
    state.pools.insert(name.clone(), pool.clone());
    state.pool_watches.insert(name, watch);
}

/// Removes the pool from the controller and ends its tasks. Returns the pool, which is still open.
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

/// Adds declared groups to the pool.
async fn add_groups(
    controller: &Controller,
    pool: &Pool,
    declared: &PoolConfig,
    done: &mut Vec<String>,
) -> Result<(), ControlError> {
    for name in &declared.groups {
        let group = controller.state().groups.get(name).cloned();
        let place = || ControlError::at(format!("pool {:?}: group {name:?}", declared.name));
        let group = group.ok_or_else(|| place()(&Told::new(Reason::Away, "not open")))?;
        match pool.group_spaces().iter().find(|g| g.id == group.id()) {
            Some(space) if space.evacuating => {
                pool.cancel_evacuation(group.id()).await.map_err(|e| place()(&e))?;
                done.push(format!("pool {}: group {name} stays in the pool", declared.name));
            }
            Some(_) => {}
            None => {
                refuse_needed(controller, &group).await?;
                let joins = (declared.name.clone(), name.clone(), group.id());
                controller.state.borrow_mut().fresh.joined.push(joins);
                pool.add_group(group).await.map_err(|e| place()(&e))?;
                done.push(format!("pool {}: group {name} added", declared.name));
            }
        }
    }
    Ok(())
}

/// Handles the events of a pool: an event in the log, a unit attention for the hosts.
async fn watch_pool_task(controller: Rc<Controller>, pool: Pool, watch: Watch) {
    let name = pool.name().to_owned();
    loop {
        let next = select(Box::pin(pool.next_event()), Box::pin(watch.ended())).await;
        let Either::Left((event, _)) = next else { return };
        match &event {
            PoolEvent::ThresholdCrossed { level, percent, used_bytes, total_bytes } => {
                let told = format!("{percent} % used: {used_bytes} of {total_bytes} bytes");
                match level {
                    Threshold::Soft => controller.events.warn(format!("pool {name}: warning: {told}")),
                    Threshold::Critical => controller.events.alarm(format!("pool {name}: critical: {told}")),
                }
            }
            PoolEvent::Full => {
                controller.events.alarm(format!("pool {name}: full: writes that need a new page fail"))
            }
        }
        if let PoolEvent::ThresholdCrossed { .. } = event {
            let state = controller.state();
            let on_pool =
                |lu: &LogicalUnit<Disk>| lu.disk().below().volume().is_some_and(|v| v.pool().name() == name);
            state.lus.values().filter(|lu| on_pool(lu)).for_each(|lu| lu.threshold_reached());
        }
    }
}
