//! The resync of mirrors after an unclean end. It copies the mirror that is read over the others, and
//! recovery may need what only another one has (a frame, a checkpoint, a batch). So it begins when what lies
//! on the group has been recovered, and not at all where that fails: the other mirror can be read then, once
//! somebody has looked.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use cache::journal_with_records;
use futures::future::{Either, select};
use pool::{Pool, pool_on};
use raid::{Group, Turns, resync_pause};

use super::upkeep::Kept;
use super::work::{background_of_group, throttle, turn};
use crate::config::PoolConfig;
use crate::controller::{Controller, ResyncWait};
use crate::event::Severity;

/// How soon a group that waits is looked at again: pools are opened right after their groups.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// The same where its content was read for that: a journal is long.
const READ_INTERVAL: Duration = Duration::from_secs(5);
/// Nobody is told of a wait that is this short: pools are being opened.
const TOLD_AFTER: Duration = Duration::from_secs(5);

/// What hosts keep of the time beside a resync while they wait for drives: it repairs nothing that is lost.
/// With 70 % it took 6 % of the throughput of saturated drives with platters, with 95 % 1 %
/// (docs/verify_sanboot.md).
const HOSTS_SHARE_PERCENT: u8 = 95;

/// Why the resync of a group waits.
struct Waits {
    cause: String,
    look_again: Duration,
}

/// Resyncs mirrors after an unclean end, once what lies on them has been recovered.
pub(super) async fn resync_task(kept: Kept) {
    let Kept { controller, name, group, .. } = &kept;
    if !group.status().reads_pinned {
        return;
    }
    let recovered = kept.is_recovered().await;
    controller.state.borrow_mut().resync_waits.remove(name);
    if !recovered {
        return;
    }
    kept.recovered.set(true);
    controller.events.note(format!("group {name}: resync started after an unclean shutdown"));
    let throttle = throttle(controller, name).with_resync_share(HOSTS_SHARE_PERCENT).with_turns(turns(&kept));
    let ended = group.resync(&throttle).await;
    match ended {
        Ok(written) => {
            controller.events.note(format!("group {name}: resync finished, {written} bytes differed"))
        }
        Err(e) => controller.events.warn(format!("group {name}: resync failed: {e}")),
    }
}

/// The turns of a resync while a policy is in force: those of background work, but it leaves hosts as much of
/// the time as it does without a policy. Not while a drive is to be rebuilt, since that waits for the resync.
fn turns(kept: &Kept) -> Turns {
    let (controller, name, group) = (kept.controller.clone(), kept.name.clone(), kept.group.clone());
    let began = Rc::new(Cell::new(controller.world.now()));
    Rc::new(move |bytes| {
        let gate = background_of_group(&controller, &name)?;
        let world = controller.world.clone();
        let yields = gate.others_ask() && group.status().rebuild.is_none();
        let pause = match yields {
            true => resync_pause(world.now().since(began.get()), HOSTS_SHARE_PERCENT),
            false => Duration::ZERO,
        };
        let began = began.clone();
        Some(Box::pin(async move {
            if !pause.is_zero() {
                world.sleep(pause).await;
            }
            turn(gate, bytes).await;
            began.set(world.now());
        }))
    })
}

impl Kept {
    /// Waits until what lies on the group has been recovered; `false`: the controller lets go of the group.
    async fn is_recovered(&self) -> bool {
        let Kept { controller, name, group, .. } = self;
        let began = controller.world.now();
        while let Some(Waits { cause, look_again }) = waits(controller, name, group).await {
            let is_long = controller.world.now() - began >= TOLD_AFTER;
            if is_long {
                let told = format!("group {name}: the resync of its mirrors waits: {cause}");
                controller.events.once(Severity::Warning, told);
            }
            controller.state.borrow_mut().resync_waits.insert(name.clone(), ResyncWait { cause, is_long });
            let pause = controller.world.sleep(look_again);
            if let Either::Right(_) = select(pause, Box::pin(self.watch.ended())).await {
                return false;
            }
        }
        !self.watch.has_ended()
    }
}

/// Why the mirrors of a group must stay as they are; none: nothing on it is still to be recovered.
async fn waits(controller: &Controller, name: &str, group: &Group) -> Option<Waits> {
    let soon = |cause: String| Some(Waits { cause, look_again: LOOK_INTERVAL });
    {
        let state = controller.state();
        let has = |pool: &Pool| pool.group_spaces().iter().any(|space| space.id == group.id());
        if state.pools.values().any(has) || state.journals.values().any(|j| j.device().id() == group.id()) {
            return None;
        }
        if state.config.groups.iter().all(|g| g.name != name) {
            // Its pool is opened for the declaration that is being prepared.
            return soon("its declaration is not in force yet".to_owned());
        }
        let uses = |pool: &&PoolConfig| pool.all_groups().any(|group| group == name);
        let unopened = |pool: &&PoolConfig| !state.pools.contains_key(&pool.name);
        if let Some(pool) = state.config.pools.iter().filter(uses).find(unopened) {
            let pool = &pool.name;
            return match state.made.deleted_pools.contains(pool) {
                true => None,
                false => soon(format!("pool {pool:?} is to be recovered from them, and is not open")),
            };
        }
    }
    let later = |cause: String| Some(Waits { cause, look_again: READ_INTERVAL });
    match pool_on(group).await {
        Ok(None) => {}
        Ok(Some(pool)) => return later(format!("they hold pool {pool:?}, which is not open")),
        Err(error) => return later(error.to_string()),
    }
    match journal_with_records(group).await {
        Ok(None) => None,
        Ok(Some(_)) => {
            later("they hold a journal with acknowledged writes, and its pool is not open".to_owned())
        }
        Err(error) => later(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_nineteen_twentieths_of_the_time_but_a_step_comes_each_second() {
        let ms = Duration::from_millis;
        for (took, pauses) in [(0, 0), (1, 19), (20, 380), (52, 988), (53, 1000), (60_000, 1000)] {
            assert_eq!(resync_pause(ms(took), HOSTS_SHARE_PERCENT), ms(pauses), "after {took} ms");
        }
    }
}
