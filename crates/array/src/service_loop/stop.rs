//! The end of a controller: hosts are told, work ends, everything is made durable and closed.

use std::rc::Rc;
use std::time::Duration;

use pool::Pool;
use raid::Group;

use crate::cached::{close_journals, let_go};
use crate::control::{ControlError, Reply};
use crate::controller::{Controller, Watch};
use crate::images::{all_images, close_images};
use crate::status::JobKind;

/// How long the commands of sessions that were dropped may take: longer than it takes to give up a drive that
/// does not answer.
const COMMANDS_END: Duration = Duration::from_secs(15);

/// Between two looks whether they have ended.
const COMMANDS_LOOK: Duration = Duration::from_millis(10);

/// Ends the sessions at the ports of a controller; hosts get so long to log out.
pub(super) async fn end_sessions(controller: &Controller, grace: Duration) {
    controller.stopping.set(true);
    let world = &controller.world;
    let ports = controller.state().ports.clone();
    ports.iter().for_each(|port| port.front_end.stop());
    if !nexuses_ended(controller, grace).await {
        // Hosts that do not log out when they are asked to. What they wait for is completed.
        ports.iter().for_each(|port| port.front_end.disconnect(world, &|_| true));
        nexuses_ended(controller, COMMANDS_END).await;
    }
}

/// Stops a controller; hosts get so long to log out.
pub(super) async fn stop(controller: &Controller, grace: Duration) -> Result<Reply, ControlError> {
    end_sessions(controller, grace).await;
    end_carried(controller).await;
    controller.state().group_watches.values().for_each(Watch::end);
    controller.state().pool_watches.values().for_each(Watch::end);
    controller.state().image_watch.end();
    controller.state().spare_watch.end();
    // A scrub ends with the process: it leaves nothing half done.
    controller.jobs.stop(|kind, _| kind != JobKind::Scrub).await;
    close_all(controller).await.map(|()| Reply::Done(vec![]))
}

/// Waits for what hosts have sent at the ports of other controllers: it would write to what is closed next,
/// and would hold the drives. What waits for a move, of which nobody here hears any more, is to be sent
/// again.
async fn end_carried(controller: &Controller) {
    controller.state().nexuses.iter().for_each(|seen| seen.view.stop_holding());
    let deadline = controller.world.now() + COMMANDS_END;
    while Rc::strong_count(&controller.carried) > 1 && controller.world.now() < deadline {
        controller.world.sleep(COMMANDS_LOOK).await;
    }
}

/// Waits until no host has a session; whether it is so.
async fn nexuses_ended(controller: &Controller, within: Duration) -> bool {
    let deadline = controller.world.now() + within;
    let any = || controller.state().nexuses.iter().any(|seen| seen.local);
    while any() && controller.world.now() < deadline {
        controller.world.sleep(COMMANDS_LOOK).await;
    }
    !any()
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
        outcome = outcome.and(pool.close().await.map(drop).map_err(|e| place(&e)));
    }
    let groups: Vec<Group> = controller.state().groups.values().cloned().collect();
    for group in groups.into_iter().filter(|g| !in_pools.contains(&g.id())) {
        let place = ControlError::at(format!("group {:?}", group.name()));
        outcome = outcome.and(group.close().await.map_err(|e| place(&e)));
    }
    outcome
}
