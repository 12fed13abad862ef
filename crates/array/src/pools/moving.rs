//! Pools that move to another controller of the array while hosts use them.
//!
//! ```text
//!   owner       make ready: refuse what cannot move, destage while hosts write
//!   all         hold: commands on the pool's LUs wait at the views (hosts::hold)
//!   owner       release: LUs leave the views, running commands end, the cache is destaged, the pool is closed
//!   new owner   prepare: drives, groups, pool, journal and volumes are opened; LUs begin with the state they had
//!   all         commit: views show where the LUs are; then nothing is held any more
//! ```

use std::rc::Rc;
use std::time::Duration;

use raid::Group;
use scsi::LogicalUnit;
use stack::{CachedVolume, Disk};
use world::World;

use super::open::{drop_pool, take_pool};
use super::work::stop_jobs;
use crate::cached::{close_journals, let_go};
use crate::control::{ControlError, MovedLu, Released};
use crate::controller::Controller;
use crate::groups::{begin_upkeep, end_upkeep, forget, refuse_busy};

/// Commands that run when the move begins end in this time, or the pool stays.
const END_TIME_MAX: Duration = Duration::from_secs(5);
const END_PAUSE: Duration = Duration::from_millis(1);

/// Passes over what is dirty before hosts are held: on busy drives the first one takes seconds, in which
/// hosts write on. A third would leave little less than the second, and takes as long.
const PASSES: u32 = 2;

type Lus = Vec<(String, Rc<LogicalUnit<Disk>>)>;

/// Refuses what cannot move, and destages while hosts go on, so that they wait for little.
///
/// # Errors
/// The pool is not open, or work on it runs that only its own end interrupts.
pub(crate) async fn make_ready(controller: &Rc<Controller>, name: &str) -> Result<(), ControlError> {
    let place = || ControlError::at(format!("pool {name:?}"));
    let pool = controller.state().pools.get(name).cloned();
    let pool = pool.ok_or_else(|| place()(&"it is not served: a pool moves when it is open"))?;
    pool.groups().iter().chain(&journal_group(controller, name)).try_for_each(refuse_busy)?;
    if !stop_jobs(controller, &pool).await {
        return Err(place()(&"a job of the pool does not end"));
    }
    // Before hosts are held: while they are, it would cost all of them the time, and fail.
    if !ends(&controller.world, || lus_of(controller, name).iter().any(|(_, lu)| lu.is_copying())).await {
        return Err(place()(
            &"hosts' copies on it (EXTENDED COPY, WRITE USING TOKEN) do not end; move it later",
        ));
    }
    for (volume, lu) in lus_of(controller, name) {
        if !lu.may_move() {
            return Err(place()(&format!("volume {volume:?} is being sanitized; wait until this ends")));
        }
    }
    for _ in 0..PASSES {
        destage(controller, name).await?;
    }
    Ok(())
}

/// Destages what of a pool is dirty now.
async fn destage(controller: &Controller, name: &str) -> Result<(), ControlError> {
    let units: Vec<CachedVolume> = {
        let state = controller.state();
        state.units.iter().filter(|((pool, _), _)| pool == name).map(|(_, unit)| unit.clone()).collect()
    };
    for unit in units {
        unit.destage().await.map_err(|e| ControlError::at(format!("pool {name:?}"))(&e))?;
    }
    Ok(())
}

/// Closes a pool whose LUs are held, and gives what it takes along.
///
/// # Errors
/// A command does not end: then everything is as it was but for the views. Or something cannot be closed: the
/// controller opens the rest again when it is told to prepare the declaration that was in force.
pub(crate) async fn release_pool(controller: &Rc<Controller>, name: &str) -> Result<Released, ControlError> {
    let place = || ControlError::at(format!("pool {name:?}"));
    let pool = controller.state().pools.get(name).cloned().ok_or_else(|| place()(&"not open"))?;
    let found = controller.state().services.get(name).and_then(|of| of.service.found());
    if !stop_jobs(controller, &pool).await {
        return Err(place()(&"a job of the pool does not end"));
    }
    let moved = take_lus(controller, name).await?;
    let_go(controller, |(pool, _)| pool == name).await?;
    close_journals(controller, |journal| journal == name).await?;
    let groups = pool.groups();
    end_upkeep(controller, &groups).await?;
    drop_pool(controller, name).await;
    // From here on nothing but what was under way can reach the drives through this pool.
    if !ends(&controller.world, || pool.is_used_elsewhere()).await {
        // It stays as it is: opened twice, it would be written twice.
        take_pool(controller, &controller.config(), &pool);
        groups.iter().for_each(|group| begin_upkeep(controller, group.name(), group.clone()));
        return Err(place()(&"a copy of its data does not end"));
    }
    forget(controller, &groups);
    let closed = pool.close().await.map_err(|e| place()(&e))?;
    controller.state.borrow_mut().brought_by(name).found = found;
    Ok(Released { lus: moved, closed, found })
}

/// Takes the LUs of a pool out of all views, and waits until their commands have ended.
async fn take_lus(controller: &Rc<Controller>, name: &str) -> Result<Vec<MovedLu>, ControlError> {
    let lus = lus_of(controller, name);
    for seen in controller.state().nexuses.iter() {
        let mapped = seen.view.mapped();
        mapped.iter().filter(|(_, lu)| is_on(lu, name)).for_each(|(lun, _)| seen.view.move_out(*lun));
    }
    controller.state.borrow_mut().lus.retain(|_, lu| !is_on(lu, name));
    for (volume, lu) in &lus {
        if !ends(&controller.world, || Rc::strong_count(lu) > 1).await {
            let place = ControlError::at(format!("volume {volume:?}"));
            let error = place(&"a command on it does not end, so its pool cannot move");
            controller.state.borrow_mut().lus.extend(lus);
            return Err(error);
        }
    }
    let naas: Vec<[u8; 16]> = lus.iter().map(|(_, lu)| lu.identity().naa).collect();
    controller.tokens.forget(|naa| naas.contains(naa));
    let moved: Vec<MovedLu> =
        lus.iter().map(|(volume, lu)| MovedLu { volume: volume.clone(), state: lu.move_out() }).collect();
    // For the case that the pool comes back.
    expect_lus(controller, moved.clone());
    Ok(moved)
}

/// The state with which LUs begin when their volumes are opened.
pub(crate) fn expect_lus(controller: &Controller, moved: Vec<MovedLu>) {
    let moved = moved.into_iter().map(|lu| (lu.volume, lu.state));
    controller.state.borrow_mut().arriving.extend(moved);
}

/// The move is over, also where it has failed: nothing of it is left behind.
pub(crate) fn arrived(controller: &Controller) {
    let held = controller.state().held.clone();
    controller.state().lus.iter().filter(|(name, _)| held.contains(*name)).for_each(|(_, lu)| lu.arrived());
    let mut state = controller.state.borrow_mut();
    state.arriving.clear();
    state.brought.clear();
}

/// Waits until `goes_on` is false. Returns whether that happened in time.
async fn ends(world: &World, goes_on: impl Fn() -> bool) -> bool {
    let deadline = world.now() + END_TIME_MAX;
    while goes_on() && world.now() < deadline {
        world.sleep(END_PAUSE).await;
    }
    !goes_on()
}

fn lus_of(controller: &Controller, pool: &str) -> Lus {
    let state = controller.state();
    let own = state.lus.iter().filter(|(_, lu)| is_on(lu, pool));
    own.map(|(name, lu)| (name.clone(), lu.clone())).collect()
}

fn is_on(lu: &LogicalUnit<Disk>, pool: &str) -> bool {
    lu.disk().below().volume().is_some_and(|volume| volume.pool().name() == pool)
}

/// The group with the journal of a pool.
fn journal_group(controller: &Controller, pool: &str) -> Option<Group> {
    let config = controller.config();
    let journal = config.pool(pool)?.journal.as_ref()?;
    controller.state().groups.get(journal).cloned()
}
