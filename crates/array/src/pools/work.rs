//! Work on pools, as jobs: groups that leave, pages that move, space that is given back; and its pace beside
//! what hosts do.

use std::ops::ControlFlow;
use std::rc::Rc;

use lu::CommandContext;
use pool::Pool;
use raid::Throttle;

use crate::config::FOREGROUND_SHARE_PERCENT_DEFAULT;
use crate::control::ControlError;
use crate::controller::{Controller, Job, PoolService};
use crate::groups::{foreground_share_percent, wait_while_paused};
use crate::status::JobKind;

/// A pause between two steps of work on a pool: each step waits for its turn where volumes are promised
/// something, and elsewhere hosts keep their share of the time. The work ends when its job is stopped.
pub(super) fn pace(
    controller: &Rc<Controller>,
    pool: &Pool,
    job: Rc<Job>,
    foreground_share_percent: u8,
) -> impl AsyncFnMut(u64) -> ControlFlow<()> + use<> {
    let throttle = Throttle::new(controller.world.clone(), foreground_share_percent);
    let mut paced = pool.paced(throttle);
    let (controller, pool) = (controller.clone(), pool.name().to_owned());
    async move |bytes| {
        job.advance(bytes);
        let gate = controller.state().services.get(&pool).and_then(PoolService::background_if_closed);
        match gate {
            // What moves is read and written.
            Some(gate) => drop(gate.enter(CommandContext::DETACHED, 2 * bytes).await),
            None => drop(paced(bytes).await),
        }
        match job.is_stopped() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Stops the jobs of a pool, of its groups and of its volumes. Returns whether they stopped in time.
pub(super) async fn stop_jobs(controller: &Controller, pool: &Pool) -> bool {
    let groups = pool.groups();
    let on_it = |kind: JobKind, object: &str| match kind {
        JobKind::Scrub | JobKind::Evacuate => groups.iter().any(|g| g.name() == object),
        JobKind::Rebalance | JobKind::Place => object == pool.name(),
        JobKind::Reclaim => pool.volume(object).is_some(),
    };
    controller.jobs.stop(on_it).await
}

/// Moves all pages of a group away and takes it out of the pool, as a job.
pub(super) fn begin_leaving(controller: &Rc<Controller>, pool: &Pool, group: &str) {
    let Some(space) = pool.group_spaces().into_iter().find(|g| g.name == group) else { return };
    let (pool, this, name) = (pool.clone(), controller.clone(), group.to_owned());
    controller.jobs.begin((JobKind::Evacuate, group), space.used_bytes, async move |job| {
        let mut paced = pace(&this, &pool, job.clone(), foreground_share_percent(&this, &name));
        let (pausing, paused) = (this.clone(), name.clone());
        let pace = async move |bytes| {
            wait_while_paused(&pausing, &paused, &job).await;
            paced(bytes).await
        };
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
    let pool = pool.ok_or_else(|| place(&"no such pool on this controller"))?;
    let this = controller.clone();
    let begun = controller.jobs.begin((JobKind::Rebalance, name), 0, async move |job| {
        let pace = pace(&this, &pool, job, FOREGROUND_SHARE_PERCENT_DEFAULT);
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
    let lu = lu.ok_or_else(|| place()(&"no such volume on this controller"))?;
    let on_pool =
        lu.disk().below().volume().ok_or_else(|| place()(&"it is an image: masu vdisk compact does it"))?;
    let (pool, used_bytes) = (on_pool.pool(), on_pool.used_bytes());
    let unit = controller.state().units.get(&(pool.name().to_owned(), volume.to_owned())).cloned();
    let (this, name) = (controller.clone(), volume.to_owned());
    let begun = controller.jobs.begin((JobKind::Reclaim, volume), used_bytes, async move |job| {
        let pace = pace(&this, &pool, job, FOREGROUND_SHARE_PERCENT_DEFAULT);
        // A page that is zeros on the drives may be something else in the cache.
        let unit = unit.as_ref();
        let settle = async |range| match unit {
            Some(unit) => unit.settle(range).await.map(Some),
            None => Ok(None),
        };
        match pool.reclaim_behind(&name, settle, pace).await {
            Ok(r) => Ok(format!("volume {name}: {} of {} bytes released", r.released_bytes, r.scanned_bytes)),
            Err(e) => Err(format!("volume {name}: release of zeros ended: {e}")),
        }
    });
    let what = if begun { "search for zeros has begun" } else { "search for zeros is running already" };
    Ok(vec![format!("volume {volume}: {what}")])
}
