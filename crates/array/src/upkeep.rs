//! What keeps groups whole: drives are asked whether they are there, spares take the places of those that are not, what is to be
//! filled is filled.

use std::rc::Rc;
use std::time::Duration;

use futures::future::{Either, select};
use raid::{Group, GroupEvent, MemberState, Throttle};

use crate::config::FOREGROUND_SHARE_PERCENT_DEFAULT;
use crate::controller::Controller;
use crate::groups::open_drive;

/// Drives are asked this often: a drive that is gone is found by its I/O, an idle one by this.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// A drive that does not answer for this long is taken to be gone.
const PROBE_TIME_MAX: Duration = Duration::from_secs(5);

/// Begins the upkeep of a group that was opened.
pub(crate) fn begin_upkeep(controller: &Rc<Controller>, name: &str, group: Group) {
    controller.world.spawn(resync_task(controller.clone(), name.to_owned(), group.clone()));
    controller.world.spawn(upkeep_task(controller.clone(), name.to_owned(), group));
}

pub(crate) fn throttle(controller: &Controller, group: &str) -> Throttle {
    let state = controller.state();
    let declared = state.config.groups.iter().find(|g| g.name == group);
    let share = declared.map_or(FOREGROUND_SHARE_PERCENT_DEFAULT, |g| g.foreground_share_percent);
    Throttle::new(controller.world.clone(), share)
}

/// Whether the controller still has this group.
fn is_there(controller: &Controller, name: &str, group: &Group) -> bool {
    controller.state().groups.get(name).is_some_and(|g| g.id() == group.id())
}

/// Brings mirrors together again that a power cut may have left different.
async fn resync_task(controller: Rc<Controller>, name: String, group: Group) {
    if !group.status().reads_pinned {
        return;
    }
    controller.note(format!("group {name}: mirrors are compared after an unclean stop"));
    let ended = group.resync(&throttle(&controller, &name)).await;
    controller.note(match ended {
        Ok(written) => format!("group {name}: mirrors are equal again, {written} bytes differed"),
        Err(e) => format!("group {name}: mirrors could not be compared: {e}"),
    });
}

/// Listens to a group and looks after its drives, as long as the controller has it.
async fn upkeep_task(controller: Rc<Controller>, name: String, group: Group) {
    take_back_stale(&controller, &name, &group).await;
    begin_rebuild(&controller, &name, &group);
    while is_there(&controller, &name, &group) {
        let event = Box::pin(group.next_event());
        match select(event, controller.world.sleep(PROBE_INTERVAL)).await {
            Either::Left((event, _)) => heed(&controller, &name, &group, event).await,
            Either::Right(_) => {
                probe(&controller, &group).await;
                fill_places(&controller, &name, &group).await;
            }
        }
    }
}

async fn heed(controller: &Rc<Controller>, name: &str, group: &Group, event: GroupEvent) {
    match event {
        GroupEvent::DriveFailed { position, drive, cause } => {
            let state = format!("{:?}", group.status().state).to_lowercase();
            controller
                .note(format!("group {name}: drive {drive} at position {position} failed: {cause}; {state}"));
            fill_places(controller, name, group).await;
        }
        GroupEvent::DriveReplaced { position, drive } => {
            controller.note(format!("group {name}: drive {drive} takes position {position}, it is rebuilt"));
            begin_rebuild(controller, name, group);
        }
        GroupEvent::Rebuilt { position } => {
            controller.note(format!("group {name}: position {position} is whole again"));
        }
        GroupEvent::Lost { at, len } => controller
            .note(format!("group {name}: {len} bytes at {at} are lost until they are written again")),
    }
}

/// Asks every drive of the group whether it is there.
async fn probe(controller: &Controller, group: &Group) {
    let status = group.status();
    for member in &status.members {
        if !matches!(member.state, MemberState::Active | MemberState::Rebuilding) {
            continue;
        }
        let drive = {
            let state = controller.state();
            state.drives.values().find(|d| Some(&d.info().name) == member.drive.as_ref()).cloned()
        };
        let Some(drive) = drive else { continue };
        let cause = match select(drive.probe(), controller.world.sleep(PROBE_TIME_MAX)).await {
            Either::Left((Ok(()), _)) => continue,
            Either::Left((Err(error), _)) => error.to_string(),
            Either::Right(_) => format!("does not answer for {} s", PROBE_TIME_MAX.as_secs()),
        };
        // The group tells when it cannot go on without it.
        let _ = group.fail(member.position, &cause).await;
    }
}

/// A drive of the group that missed changes while it was away takes its place again.
async fn take_back_stale(controller: &Controller, name: &str, group: &Group) {
    for member in group.status().members.iter().filter(|m| m.state == MemberState::Stale) {
        let drive = {
            let state = controller.state();
            state.drives.values().find(|d| Some(&d.info().name) == member.drive.as_ref()).cloned()
        };
        let Some(drive) = drive else { continue };
        if let Err(error) = group.replace(member.position, drive).await {
            controller.note(format!("group {name}: position {} stays empty: {error}", member.position));
        }
    }
}

/// Gives places without a drive to spares: of those that fit the smallest.
async fn fill_places(controller: &Rc<Controller>, name: &str, group: &Group) {
    for member in group.status().members {
        if !matches!(member.state, MemberState::Missing | MemberState::Failed) {
            continue;
        }
        for spare in spares_by_size(controller) {
            let Some(drive) = controller.state().drives.get(&spare).cloned() else { continue };
            // Whoever is second to ask for a spare finds it labelled, and is refused.
            match group.replace(member.position, drive).await {
                Ok(()) => {
                    controller.state.borrow_mut().spares.retain(|s| *s != spare);
                    controller
                        .note(format!("group {name}: spare {spare} takes position {}", member.position));
                    break;
                }
                Err(error) => {
                    controller.note_once(format!("group {name}: spare {spare} does not fit: {error}"))
                }
            }
        }
    }
}

/// The spares that nobody took, opened, the smallest first.
fn spares_by_size(controller: &Controller) -> Vec<String> {
    let (spares, config) = (controller.state().spares.clone(), controller.config());
    let open = |name: String| {
        let drive = open_drive(controller, &config, &name).ok()?;
        Some((drive.info().len_bytes, name))
    };
    let mut open: Vec<(u64, String)> = spares.into_iter().filter_map(open).collect();
    open.sort();
    open.into_iter().map(|(_, name)| name).collect()
}

/// Fills what is to be filled. A rebuild that runs takes up what comes meanwhile.
fn begin_rebuild(controller: &Rc<Controller>, name: &str, group: &Group) {
    let (controller, name, group) = (controller.clone(), name.to_owned(), group.clone());
    controller.world.clone().spawn(async move {
        if let Err(error) = group.rebuild(&throttle(&controller, &name)).await {
            controller.note(format!("group {name}: the rebuild ended: {error}"));
        }
    });
}
