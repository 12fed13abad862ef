//! The drives of a controller: opened by their declared names, probed, and closed when unused.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{Either, select};
use futures::stream;
use raid::{Group, MemberState, MemberStatus, Overwrite};
use world::{Drive, DriveError, DriveSpec, World};

use super::found::cause_of;
use crate::config::{Config, DriveConfig};
use crate::control::ControlError;
use crate::controller::{Controller, State};

/// So many drives or images are opened at once. An RBD image takes about a second, and one whose cluster does
/// not answer 12 s: an array with many of either begins to serve the sooner.
pub(crate) const OPENING_MAX: usize = 8;

/// Marks a drive as being opened, until it is dropped.
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

/// Waits until no other task opens the drive of this name: a second open would fail.
async fn turn_to_open<'a>(controller: &'a Controller, name: &'a str) -> Opening<'a> {
    let opened = controller.state().opened.clone();
    let free = || controller.state.borrow_mut().opening.insert(name.to_owned()).then_some(());
    opened.wait_for(free).await;
    Opening { controller, name }
}

/// Refuses a drive in whose place another device is, or to which somebody else may still write.
fn refuse_foreign(controller: &Controller, name: &str) -> Result<(), ControlError> {
    match cause_of_foreign(&controller.state(), name) {
        Some(cause) => Err(ControlError::at(format!("drive {name:?}"))(cause)),
        None => Ok(()),
    }
}

/// Why a drive is not opened though it is there.
pub(super) fn cause_of_foreign<'a>(state: &'a State, name: &str) -> Option<&'a String> {
    state.made.displaced.get(name).or_else(|| state.nodes.withheld.drives.get(name))
}

/// Opens a declared drive, unless it is open. The file of a drive that existed before is not created again,
/// because an empty file could be mistaken for the drive.
pub(crate) async fn open_drive(
    controller: &Controller,
    config: &Config,
    name: &str,
) -> Result<Drive, ControlError> {
    refuse_foreign(controller, name)?;
    let existed = controller.state().made.drives.contains(name);
    open(controller, config, name, existed).await
}

/// Opens a drive that exists already, also for this very declaration: its file is never created.
pub(crate) async fn open_existing(
    controller: &Controller,
    config: &Config,
    name: &str,
) -> Result<Drive, ControlError> {
    refuse_foreign(controller, name)?;
    open(controller, config, name, true).await
}

/// Opens a drive whose content ends with the process. Its file is created if that was declared.
pub(crate) async fn open_emptied(
    controller: &Controller,
    config: &Config,
    name: &str,
) -> Result<Drive, ControlError> {
    refuse_foreign(controller, name)?;
    open(controller, config, name, false).await
}

/// Opens the drive that replaced another one of the same name. Its file is created if that was declared.
pub(crate) async fn open_exchanged(
    controller: &Controller,
    config: &Config,
    name: &str,
) -> Result<Drive, ControlError> {
    if let Some(cause) = controller.state().nodes.withheld.drives.get(name) {
        return Err(ControlError::at(format!("drive {name:?}"))(cause));
    }
    open(controller, config, name, false).await
}

/// Opens the drives that existed before of the groups that this controller is to open, several at once.
/// Returns why the others cannot be opened, by name. New drives are left to their groups, one after the
/// other: a declaration that is refused creates no file that it did not come to.
pub(crate) async fn open_at_once(controller: &Controller, config: &Config) -> BTreeMap<String, String> {
    let made = controller.state().made.clone();
    let is_to_open = |name: &str| {
        let state = controller.state();
        config.owner_of_group(name) == controller.index
            && !state.groups.contains_key(name)
            && !state.nodes.withheld.groups.contains_key(name)
    };
    let groups = config.groups.iter().filter(|group| is_to_open(&group.name));
    let members = groups.flat_map(|group| &group.drives);
    let existed = members.filter(|name| made.drives.contains(*name) && !made.displaced.contains_key(*name));
    let opened = stream::iter(existed.cloned().collect::<Vec<_>>());
    let opened = opened.map(|name| async {
        let opened = open_drive(controller, config, &name).await;
        opened.err().map(|error| (name, cause_of(error)))
    });
    opened.buffered(OPENING_MAX).filter_map(std::future::ready).collect().await
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
        return Err(place(&"not declared"));
    };
    let spec = if must_exist { &existing(spec) } else { spec };
    let drive = controller.world.open_drive(spec).await.map_err(|e| place(&e))?;
    drive.set_patience(config.patience_of(&drive.info().name));
    controller.state.borrow_mut().drives.insert(name.to_owned(), drive.clone());
    Ok(drive)
}

/// The specification for opening an existing drive.
pub(crate) fn existing(spec: &DriveSpec) -> DriveSpec {
    match spec {
        DriveSpec::File { path, .. } => DriveSpec::File { path: path.clone(), create_len_bytes: None },
        other => other.clone(),
    }
}

/// Probes a drive; an error says why it is not available. A drive that its group cannot do without may be
/// silent for longer than this waits.
pub(crate) async fn probe(world: &World, drive: &Drive) -> Result<(), DriveError> {
    let time = drive.patience().drop + Duration::from_secs(1);
    match select(drive.probe(), world.sleep(time)).await {
        Either::Left((outcome, _)) => outcome,
        Either::Right(_) => {
            Err(DriveError::Silent { drive: drive.info().name.clone(), secs: time.as_secs() })
        }
    }
}

/// The content of a drive that may be erased when the drive is used.
pub(crate) fn overwrite_of(controller: &Controller, name: &str) -> Overwrite {
    match controller.state().made.overwrite.contains(name) {
        true => Overwrite::Foreign,
        false => Overwrite::Nothing,
    }
}

/// Closes a spare that this controller cannot use, so that another controller can take it.
pub(crate) fn leave_to_others(controller: &Controller, spare: &str) {
    if controller.others().next().is_some() {
        controller.state.borrow_mut().drives.remove(spare);
    }
}

/// The names of the members of a group.
pub(crate) fn members_of(state: &State, group: &Group) -> Vec<String> {
    let members = group.status().members;
    let takes_part = |medium: &String| {
        let part = |m: &&MemberStatus| matches!(m.state, MemberState::Active | MemberState::Rebuilding);
        members.iter().filter(part).any(|m| m.drive.as_ref() == Some(medium))
    };
    let own = state.drives.iter().filter(|(_, drive)| takes_part(&drive.info().name));
    own.map(|(name, _)| name.clone()).collect()
}

/// Closes drives that are neither declared nor in a group.
pub(crate) fn close_drives(controller: &Controller, config: &Config) {
    let mut state = controller.state.borrow_mut();
    let members: Vec<String> = state.groups.values().flat_map(|g| members_of(&state, g)).collect();
    state.drives.retain(|name, _| members.contains(name) || config.drives.iter().any(|d| d.name == *name));
}

/// The position of a drive in a group.
pub(crate) fn position_of(controller: &Controller, group: &Group, drive: &str) -> Option<u32> {
    let state = controller.state();
    let medium = &state.drives.get(drive)?.info().name;
    let status = group.status();
    let member = status.members.iter().find(|m| m.drive.as_ref() == Some(medium))?;
    Some(member.position)
}
