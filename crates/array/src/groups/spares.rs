//! Spares. Each carries a label of the array from its declaration on and is checked every minute. A spare
//! that cannot be opened or read, or has changed, cannot be used, and the status says so.
//!
//! Only the holder of the permit writes labels on spares, so no group takes a spare while it is checked.

use std::rc::Rc;
use std::time::Duration;

use futures::future::{Either, select};
use raid::{Group, OnDrive, Overwrite, TO_ERASE, erase_array_label, examine, label_spare};
use world::sync::Permit;
use world::{Drive, DriveError};

use super::drives::{leave_to_others, members_of, open_drive, open_existing, overwrite_of, probe};
use super::found::cause_of;
use crate::config::Config;
use crate::control::ControlError;
use crate::controller::{Controller, Watch};
use crate::terms;

const LOOK_INTERVAL: Duration = Duration::from_secs(60);
/// Another controller may have opened a spare to see whether it fits: masu tries again a little later.
const OPEN_ATTEMPTS: usize = 3;
const OPEN_PAUSE: Duration = Duration::from_secs(1);

/// Acquires the permit to write labels on spares.
pub(super) async fn spare_turn(controller: &Controller) -> Permit {
    let turn = controller.state().spare_turn.clone();
    turn.take(1).await
}

/// The declared spares that no group of this controller has taken.
pub(crate) fn free_spares(controller: &Controller, config: &Config) -> Vec<String> {
    let state = controller.state();
    let taken: Vec<String> = state.groups.values().flat_map(|g| members_of(&state, g)).collect();
    config.spares.iter().filter(|s| !taken.contains(s)).cloned().collect()
}

/// Whether this controller checks the spares, labels them, and looks after them.
pub(crate) fn keeps_spares(controller: &Controller) -> bool {
    controller.state().nodes.keeps_spares == Some(controller.index)
}

/// Whether the groups of this controller take spares by themselves. At a node that runs it for the owner they
/// get them from the owner ([`crate::Array::give_spares`]).
pub(super) fn takes_spares(controller: &Controller) -> bool {
    controller.state().nodes.keeps_spares.is_some()
}

/// The free spares, opened, the smallest first.
pub(crate) async fn spares_by_size(controller: &Controller) -> Vec<(u64, String, Drive)> {
    if !takes_spares(controller) {
        return Vec::new();
    }
    let (spares, config) = (controller.state().spares.clone(), controller.config());
    let mut open = Vec::new();
    for name in spares {
        if let Ok(drive) = open_existing(controller, &config, &name).await {
            open.push((drive.info().len_bytes, name, drive));
        }
    }
    open.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    open
}

/// Checks new spares: each must be available, blank (or erasable) and at least as large as the smallest drive
/// of some group. An erasable spare is labelled at once, the others when the declaration is in force.
pub(crate) async fn check_spares(controller: &Controller, config: &Config) -> Result<(), ControlError> {
    let made = controller.state().made.clone();
    let mut known: Vec<&String> = config.spares.iter().filter(|name| made.drives.contains(*name)).collect();
    for name in &config.spares {
        let (is_new, may_be_erased) = (!made.drives.contains(name), made.overwrite.contains(name));
        if !is_new && !may_be_erased {
            continue;
        }
        match check_spare(controller, config, name).await {
            Err(error) if is_new => return Err(error),
            Ok(()) if is_new => {
                refuse_same_medium(controller, config, (name, &known)).await?;
                known.push(name);
            }
            // The next check reports what is wrong.
            Ok(()) | Err(_) => {}
        }
        leave_to_others(controller, name);
    }
    Ok(())
}

/// Refuses a new spare that is the medium of another one, by another path: two spares would be one. Its label
/// is written, or erased if it has one, and put back: who shows the same change is the same medium. After a
/// crash meanwhile it is blank or a spare, as it may be anyway.
async fn refuse_same_medium(
    controller: &Controller,
    config: &Config,
    (name, known): (&String, &[&String]),
) -> Result<(), ControlError> {
    let place = || ControlError::at(format!("spare {name:?}"));
    let _turn = spare_turn(controller).await;
    let mut others = Vec::new();
    for other in known.iter().filter(|other| **other != name) {
        if let Ok(drive) = open_existing(controller, config, other).await
            && let Ok(found) = examine(&drive).await
            && is_spare(&found).is_some()
        {
            others.push((*other, drive, found));
        }
    }
    if others.is_empty() {
        return Ok(());
    }
    let drive = open_existing(controller, config, name).await?;
    let found = examine(&drive).await.map_err(|e| place()(&e))?;
    let Some(is_labelled) = is_spare(&found) else { return Ok(()) };
    set_spare(&drive, config, !is_labelled).await.map_err(|e| place()(&e))?;
    let mut same = None;
    for (other, of_other, before) in &others {
        if examine(of_other).await.is_ok_and(|after| after != *before) {
            same = Some(*other);
        }
    }
    set_spare(&drive, config, is_labelled).await.map_err(|e| place()(&e))?;
    others.iter().for_each(|(other, ..)| leave_to_others(controller, other));
    let Some(other) = same else { return Ok(()) };
    leave_to_others(controller, name);
    Err(place()(&format!(
        "it and spare {other:?} are one medium: what is written to the one is read from the other; name another drive"
    )))
}

/// Whether what was found is the label of a spare; none: neither that nor blank.
fn is_spare(found: &OnDrive) -> Option<bool> {
    match found {
        OnDrive::Blank => Some(false),
        OnDrive::Spare { .. } => Some(true),
        _ => None,
    }
}

async fn set_spare(drive: &Drive, config: &Config, is_labelled: bool) -> Result<(), DriveError> {
    match is_labelled {
        true => label_spare(drive, terms::array_id(config)).await,
        false => erase_array_label(drive).await,
    }
}

async fn check_spare(controller: &Controller, config: &Config, name: &str) -> Result<(), ControlError> {
    let place = || ControlError::at(format!("spare {name:?}"));
    let _turn = spare_turn(controller).await;
    let drive = open_drive(controller, config, name).await?;
    let found = examine(&drive).await.map_err(|e| place()(&e))?;
    let (len, needed) = (drive.info().len_bytes, smallest_member(controller));
    if let Some(needed) = needed.filter(|needed| len < *needed) {
        return Err(place()(&format!(
            "too small: it has {len} bytes, the smallest drive of a group has \
            {needed}"
        )));
    }
    match (found, overwrite_of(controller, name)) {
        (OnDrive::Blank, _) => Ok(()),
        (OnDrive::Label(label), _) if label.array_id == terms::array_id(config) => Ok(()),
        (OnDrive::Spare { array_id }, _) if array_id == terms::array_id(config) => Ok(()),
        (found @ OnDrive::NewerFormat { .. }, _) => Err(place()(&format!("the drive {found}"))),
        (_, Overwrite::Foreign) => {
            controller.state.borrow_mut().fresh.labelled.push(drive.clone());
            label_spare(&drive, terms::array_id(config)).await.map_err(|e| place()(&e))
        }
        (OnDrive::NotBlank { at }, _) => Err(place()(&format!("not blank: data at byte {at}; {TO_ERASE}"))),
        (OnDrive::Label(label), _) => Err(place()(&format!("already belongs to {label}; {TO_ERASE}"))),
        (found, _) => Err(place()(&format!("the drive {found}; {TO_ERASE}"))),
    }
}

/// The size of the smallest drive of the groups of this controller.
fn smallest_member(controller: &Controller) -> Option<u64> {
    let state = controller.state();
    let drives = state.groups.values().flat_map(Group::drives);
    drives.map(|drive| drive.info().len_bytes).min()
}

/// Erases the labels of spares whose declaration was refused.
pub(crate) async fn take_back_spares(spares: Vec<Drive>) {
    for drive in spares {
        // If that fails, the drive remains a spare of this array and can be declared again.
        let _ = erase_array_label(&drive).await;
    }
}

/// Erases the labels of drives that are no longer spares and in no group. An unavailable drive keeps its
/// label.
pub(crate) async fn release_spares(controller: &Controller, before: &Config, config: &Config) {
    let used = |name: &String| {
        let ssds = config.cache.iter().flat_map(|c| &c.ssds);
        config.groups.iter().flat_map(|g| &g.drives).chain(&config.spares).chain(ssds).any(|n| n == name)
    };
    for name in before.spares.iter().filter(|name| !used(name)) {
        let _turn = spare_turn(controller).await;
        let released = match open_existing(controller, before, name).await {
            Ok(drive) => release_spare(&drive, before).await.map_err(|e| e.to_string()),
            Err(error) => Err(cause_of(error)),
        };
        if let Err(cause) = released {
            controller
                .events
                .warn(format!("drive {name}: no longer a spare; its label could not be erased: {cause}"));
        }
    }
}

async fn release_spare(drive: &Drive, config: &Config) -> Result<(), DriveError> {
    match examine(drive).await? {
        OnDrive::Spare { array_id } if array_id == terms::array_id(config) => erase_array_label(drive).await,
        _ => Ok(()),
    }
}

/// Starts the monitoring of the declared spares and ends the previous one. One controller does this for all.
pub(crate) fn begin_spare_watch(controller: &Rc<Controller>) {
    let watch = Watch::default();
    {
        let mut state = controller.state.borrow_mut();
        let spares = state.config.spares.clone();
        state.spare_faults.retain(|name, _| spares.contains(name));
        std::mem::replace(&mut state.spare_watch, watch.clone()).end();
    }
    if !controller.config().spares.is_empty() {
        controller.world.spawn(look_task(controller.clone(), watch));
    }
}

async fn look_task(controller: Rc<Controller>, watch: Watch) {
    while !watch.has_ended() {
        for name in free_spares(&controller, &controller.config()) {
            if let Some(outcome) = look_again_at(&controller, &watch, &name).await {
                let mut state = controller.state.borrow_mut();
                match outcome {
                    Ok(()) => state.spare_faults.remove(&name),
                    Err(fault) => state.spare_faults.insert(name, fault),
                };
            }
        }
        match select(controller.world.sleep(LOOK_INTERVAL), Box::pin(watch.ended())).await {
            Either::Left(_) => {}
            Either::Right(_) => return,
        }
    }
}

/// The trouble of a spare; `None` if it is no longer a spare.
async fn look_again_at(controller: &Controller, watch: &Watch, name: &str) -> Option<Result<(), String>> {
    let mut outcome = Ok(());
    let attempts = if controller.others().next().is_some() { OPEN_ATTEMPTS } else { 1 };
    for attempt in 0..attempts {
        if attempt > 0 {
            controller.world.sleep(OPEN_PAUSE).await;
        }
        let _turn = spare_turn(controller).await;
        let config = controller.config();
        if watch.has_ended() || !free_spares(controller, &config).iter().any(|free| free == name) {
            return None;
        }
        outcome = look_at(controller, &config, name).await;
        leave_to_others(controller, name);
        if outcome.is_ok() {
            break;
        }
    }
    Some(outcome)
}

/// The trouble of a spare. A blank one is labelled: an older masu left it blank, or the drive was exchanged.
async fn look_at(controller: &Controller, config: &Config, name: &str) -> Result<(), String> {
    let known = controller.state().drives.get(name).cloned();
    if let Some(known) = known
        && let Err(error) = probe(&controller.world, &known).await
    {
        if let DriveError::Silent { secs, .. } = error {
            return Err(format!("does not answer for {secs} s"));
        }
        // Examine the current content.
        controller.state.borrow_mut().drives.remove(name);
    }
    let opened = open_existing(controller, config, name).await;
    let drive = opened.map_err(|e| format!("cannot be opened ({})", cause_of(e)))?;
    match examine(&drive).await.map_err(|e| format!("cannot be read ({e})"))? {
        OnDrive::Spare { array_id } if array_id == terms::array_id(config) => Ok(()),
        OnDrive::Blank => {
            let labelled = label_spare(&drive, terms::array_id(config)).await;
            labelled.map_err(|e| format!("cannot be labelled ({e})"))
        }
        found => Err(found.to_string()),
    }
}
