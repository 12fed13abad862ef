//! The end of a controller: hosts are told, work ends, everything is made durable and closed.

use std::time::Duration;

use pool::Pool;
use raid::Group;

use crate::cached::{close_journals, let_go};
use crate::control::{ControlError, Reply};
use crate::controller::{Controller, Watch};
use crate::images::{all_images, close_images};
use crate::status::JobKind;

/// Stops a controller; hosts get so long to log out.
pub(super) async fn stop(controller: &Controller, grace: Duration) -> Result<Reply, ControlError> {
    controller.stopping.set(true);
    let world = &controller.world;
    let ports = controller.state().ports.clone();
    ports.iter().for_each(|port| port.front_end.stop());
    let deadline = world.now() + grace;
    while controller.state().nexuses.iter().any(|seen| seen.local) && world.now() < deadline {
        world.sleep(Duration::from_millis(10)).await;
    }
    controller.state().group_watches.values().for_each(Watch::end);
    controller.state().pool_watches.values().for_each(Watch::end);
    controller.state().image_watch.end();
    controller.state().spare_watch.end();
    // A scrub ends with the process: it leaves nothing half done.
    controller.jobs.stop(|kind, _| kind != JobKind::Scrub).await;
    close_all(controller).await.map(|()| Reply::Done(vec![]))
}

/// Makes everything durable and says so on the drives. What fails does not keep the rest from it.
async fn close_all(controller: &Controller) -> Result<(), ControlError> {
    let mut outcome = close_images(all_images(controller)).await;
    outcome = outcome.and(let_go(controller, |_| true).await);
    if outcome.is_ok() {
        outcome = close_journals(controller, |_| true).await;
    }
    let pools: Vec<Pool> = controller.state().pools.values().cloned().collect();
    let in_pools: Vec<_> = pools.iter().flat_map(|p| p.group_spaces()).map(|g| g.id).collect();
    for pool in pools {
        let place = ControlError::at(format!("pool {:?}", pool.name()));
        outcome = outcome.and(pool.close().await.map_err(|e| place(&e)));
    }
    let groups: Vec<Group> = controller.state().groups.values().cloned().collect();
    for group in groups.into_iter().filter(|g| !in_pools.contains(&g.id())) {
        let place = ControlError::at(format!("group {:?}", group.name()));
        outcome = outcome.and(group.close().await.map_err(|e| place(&e)));
    }
    outcome
}
