//! The drives of a controller: opened by their declared names, asked whether they are there, closed when nobody wants them.

use std::time::Duration;

use futures::future::{Either, select};
use raid::{Group, MemberState, MemberStatus, Overwrite};
use world::{Drive, DriveError, DriveSpec, World};

use crate::config::{Config, DriveConfig};
use crate::control::ControlError;
use crate::controller::{Controller, State};

/// A name whose drive is being opened, until this is dropped.
struct Opening<'a> {
    controller: &'a Controller,
    name: &'a str,
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        let mut state = self.controller.state.borrow_mut();
        state.opening.remove(self.name);
        state.opened.wake_all();
    }
}

/// Waits until nobody else opens the drive of this name: a second opening would be refused.
async fn turn_to_open<'a>(controller: &'a Controller, name: &'a str) -> Opening<'a> {
    let opened = controller.state().opened.clone();
    let free = || controller.state.borrow_mut().opening.insert(name.to_owned()).then_some(());
    opened.wait_for(free).await;
    Opening { controller, name }
}

/// Opens a declared drive, unless it is open. The file of one that was there before is not made again: an empty one in its place would
/// be taken for it.
pub(crate) async fn open_drive(
    controller: &Controller,
    config: &Config,
    name: &str,
) -> Result<Drive, ControlError> {
    let made = controller.state().made.clone();
    if let Some(cause) = made.displaced.get(name) {
        return Err(ControlError::at(format!("drive {name:?}"))(cause));
    }
    open(controller, config, name, made.drives.contains(name)).await
}

/// Opens a drive that is declared and was opened before, also for this very declaration: its file is never made.
pub(crate) async fn open_existing(
    controller: &Controller,
    config: &Config,
    name: &str,
) -> Result<Drive, ControlError> {
    if let Some(cause) = controller.state().made.displaced.get(name) {
        return Err(ControlError::at(format!("drive {name:?}"))(cause));
    }
    open(controller, config, name, true).await
}

/// Opens the drive that was put in the place of one of the same name; its file is made where that was declared.
pub(crate) async fn open_exchanged(
    controller: &Controller,
    config: &Config,
    name: &str,
) -> Result<Drive, ControlError> {
    open(controller, config, name, false).await
}

async fn open(
    controller: &Controller,
    config: &Config,
    name: &str,
    must_exist: bool,
) -> Result<Drive, ControlError> {
    let _opening = turn_to_open(controller, name).await;
    if let Some(drive) = controller.state().drives.get(name) {
        return Ok(drive.clone());
    }
    let place = ControlError::at(format!("drive {name:?}"));
    let Some(DriveConfig { spec, .. }) = config.drives.iter().find(|d| d.name == name) else {
        return Err(place(&"is not declared"));
    };
    let spec = if must_exist { &existing(spec) } else { spec };
    let drive = controller.world.open_drive(spec).await.map_err(|e| place(&e))?;
    drive.set_patience(config.patience());
    controller.state.borrow_mut().drives.insert(name.to_owned(), drive.clone());
    Ok(drive)
}

/// The drive as it is to be opened when it must be there.
pub(crate) fn existing(spec: &DriveSpec) -> DriveSpec {
    match spec {
        DriveSpec::File { path, .. } => DriveSpec::File { path: path.clone(), create_len_bytes: None },
        other => other.clone(),
    }
}

/// Whether a drive is there; why not. One that its group cannot do without may be silent for longer than it is waited for here.
pub(crate) async fn probe(world: &World, drive: &Drive) -> Result<(), DriveError> {
    let time = drive.patience().drop + Duration::from_secs(1);
    match select(drive.probe(), world.sleep(time)).await {
        Either::Left((outcome, _)) => outcome,
        Either::Right(_) => {
            Err(DriveError::Silent { drive: drive.info().name.clone(), secs: time.as_secs() })
        }
    }
}

/// What of a drive may be erased when it is taken.
pub(crate) fn overwrite_of(controller: &Controller, name: &str) -> Overwrite {
    match controller.state().made.overwrite.contains(name) {
        true => Overwrite::Foreign,
        false => Overwrite::Nothing,
    }
}

/// Where there are other controllers, a spare that is of no use here is closed: one of them may want it.
pub(crate) fn leave_to_others(controller: &Controller, spare: &str) {
    if controller.others().next().is_some() {
        controller.state.borrow_mut().drives.remove(spare);
    }
}

/// The names of the drives that take part in a group.
pub(crate) fn members_of(state: &State, group: &Group) -> Vec<String> {
    let members = group.status().members;
    let takes_part = |medium: &String| {
        let part = |m: &&MemberStatus| matches!(m.state, MemberState::Active | MemberState::Rebuilding);
        members.iter().filter(part).any(|m| m.drive.as_ref() == Some(medium))
    };
    let own = state.drives.iter().filter(|(_, drive)| takes_part(&drive.info().name));
    own.map(|(name, _)| name.clone()).collect()
}

/// Closes drives that are declared no longer and in no group.
pub(crate) fn close_drives(controller: &Controller, config: &Config) {
    let mut state = controller.state.borrow_mut();
    let members: Vec<String> = state.groups.values().flat_map(|g| members_of(&state, g)).collect();
    state.drives.retain(|name, _| members.contains(name) || config.drives.iter().any(|d| d.name == *name));
}

/// The place of a drive that the group holds.
pub(crate) fn position_of(controller: &Controller, group: &Group, drive: &str) -> Option<u32> {
    let state = controller.state();
    let medium = &state.drives.get(drive)?.info().name;
    let status = group.status();
    let member = status.members.iter().find(|m| m.drive.as_ref() == Some(medium))?;
    Some(member.position)
}
