//! Drives and groups, as they are declared and as their labels say.
//!
//! The labels decide which drive has which place: a spare that took a place has it after a restart, too, and the drive whose
//! place it took is left aside.

use std::rc::Rc;

use raid::{Group, GroupError, GroupSpec, Label, inspect};
use world::Drive;

use crate::config::{Config, DriveConfig, GroupConfig};
use crate::control::ControlError;
use crate::controller::Controller;
use crate::upkeep::begin_upkeep;

/// The controller of the pool that a group is in or leaves; controller 0 keeps those that are in none.
pub(crate) fn owner_of_group(config: &Config, group: &str) -> usize {
    let of = |p: &&crate::config::PoolConfig| p.groups.iter().chain(&p.leaving).any(|g| g == group);
    config.pools.iter().find(of).map_or(0, |p| p.controller)
}

/// A group that waited for a pool may now belong to another controller: its drives are closed here first.
pub(crate) fn release_what_others_own(controller: &Controller, config: &Config) {
    let mut state = controller.state.borrow_mut();
    let elsewhere = |name: &String| owner_of_group(config, name) != controller.index;
    let gone: Vec<String> = state.groups.keys().filter(|g| elsewhere(g)).cloned().collect();
    for group in gone {
        state.groups.remove(&group);
        if let Some(declared) = config.groups.iter().find(|g| g.name == group) {
            declared.drives.iter().for_each(|d| {
                state.drives.remove(d);
            });
        }
    }
}

pub(crate) fn spec_of(config: &Config, group: &GroupConfig) -> GroupSpec {
    GroupSpec {
        name: group.name.clone(),
        level: group.level,
        stripe_unit_bytes: group.stripe_unit_bytes,
        array_id: config.id,
    }
}

pub(crate) async fn open_group(
    controller: &Rc<Controller>,
    config: &Config,
    group: &GroupConfig,
    done: &mut Vec<String>,
) -> Result<(), ControlError> {
    if controller.state().groups.contains_key(&group.name) {
        return Ok(());
    }
    let place = || ControlError::at(format!("group {:?}", group.name));
    let (world, spec) = (controller.world.clone(), spec_of(config, group));
    let found = find_drives(controller, config, group).await?;
    let labelled = |f: &&FoundDrive| f.label.as_ref().is_some_and(|l| l.epoch > 0);
    let (opened, how) = match found.drives.iter().any(|f| labelled(&f)) {
        // Creation refuses drives with a label, unless it is that of a creation which a power cut interrupted.
        false if found.complaints.is_empty() => {
            let drives = found.drives.into_iter().map(|f| f.drive).collect();
            (Group::create(world, spec, drives).await, "created")
        }
        false => return Err(place()(&found.complaints.join("; "))),
        true => {
            found.complaints.iter().for_each(|c| controller.note(format!("group {}: {c}", group.name)));
            let drives = members(controller, config, group, found.drives);
            let opened = match group.start_degraded {
                true => Group::open_degraded(world, spec, drives).await,
                false => Group::open(world, spec, drives).await,
            };
            (opened, "opened")
        }
    };
    let opened = opened.map_err(|e| place()(&explain(e)))?;
    done.push(format!("group {}: {how}, {:?}", group.name, opened.status().state));
    controller.state.borrow_mut().groups.insert(group.name.clone(), opened.clone());
    begin_upkeep(controller, &group.name, opened);
    Ok(())
}

fn explain(error: GroupError) -> String {
    match &error {
        GroupError::Missing { cause, .. } if cause.contains("start degraded") => {
            format!("{error} (start_degraded = true in its declaration)")
        }
        _ => error.to_string(),
    }
}

struct FoundDrive {
    name: String,
    drive: Drive,
    label: Option<Label>,
}

struct FoundDrives {
    drives: Vec<FoundDrive>,
    /// Declared drives that cannot be opened or read.
    complaints: Vec<String>,
}

/// The declared drives of a group that can be opened, and the spares that carry its label.
async fn find_drives(
    controller: &Controller,
    config: &Config,
    group: &GroupConfig,
) -> Result<FoundDrives, ControlError> {
    let mut found = FoundDrives { drives: Vec::new(), complaints: Vec::new() };
    for name in group.drives.iter().chain(&config.spares) {
        let is_spare = !group.drives.contains(name);
        let label = match open_drive(controller, config, name) {
            Ok(drive) => inspect(&drive).await.map(|label| (drive, label)).map_err(|e| e.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match label {
            Ok((_, None)) if is_spare => {}
            Ok((_, Some(label))) if is_spare && !is_of(&label, config, group) => {}
            Ok((drive, label)) => found.drives.push(FoundDrive { name: name.clone(), drive, label }),
            Err(_) if is_spare => {}
            Err(cause) => found.complaints.push(format!("drive {name}: {cause}")),
        }
    }
    Ok(found)
}

fn is_of(label: &Label, config: &Config, group: &GroupConfig) -> bool {
    label.array_id == config.id && label.group_name == group.name && label.epoch > 0
}

/// The drives with which a group that exists is opened: of two for one place the one with the newer label, none without a
/// label.
fn members(
    controller: &Controller,
    config: &Config,
    group: &GroupConfig,
    found: Vec<FoundDrive>,
) -> Vec<Drive> {
    let note = |text: String| controller.note(format!("group {}: {text}", group.name));
    let mut taken: Vec<FoundDrive> = Vec::new();
    for new in found {
        let Some(label) = &new.label else {
            note(format!("drive {} carries no label: it is left out until it replaces a drive", new.name));
            continue;
        };
        let same = |f: &&mut FoundDrive| {
            let other = f.label.as_ref();
            is_of(label, config, group)
                && other.is_some_and(|o| o.group_id == label.group_id && o.position == label.position)
        };
        let age = |l: &Label| (l.epoch, l.version);
        match taken.iter_mut().find(same) {
            Some(old) if old.label.as_ref().map(age) < Some(age(label)) => {
                note(format!("drive {} has the place of drive {}", new.name, old.name));
                *old = new;
            }
            Some(old) => note(format!("drive {} has the place of drive {}", old.name, new.name)),
            None => taken.push(new),
        }
    }
    taken.into_iter().map(|f| f.drive).collect()
}

/// Opens a declared drive, unless it is open.
pub(crate) fn open_drive(
    controller: &Controller,
    config: &Config,
    name: &str,
) -> Result<Drive, ControlError> {
    if let Some(drive) = controller.state().drives.get(name) {
        return Ok(drive.clone());
    }
    let place = ControlError::at(format!("drive {name:?}"));
    let Some(DriveConfig { spec, .. }) = config.drives.iter().find(|d| d.name == name) else {
        return Err(place(&"is not declared"));
    };
    let drive = controller.world.open_drive(spec).map_err(|e| place(&e))?;
    controller.state.borrow_mut().drives.insert(name.to_owned(), drive.clone());
    Ok(drive)
}

/// Gives the place of the drive `old` in a group to the drive `new`, which may be the same name with another medium behind it.
pub(crate) async fn replace_drive(
    controller: &Rc<Controller>,
    config: &Config,
    (group_name, old, new): (&str, &str, &str),
) -> Result<Vec<String>, ControlError> {
    let place = || ControlError::at(format!("group {group_name:?}"));
    let group = controller.state().groups.get(group_name).cloned();
    let group = group.ok_or_else(|| place()(&"there is no such group here"))?;
    let declared = config.groups.iter().find(|g| g.name == group_name);
    let index = declared.and_then(|g| g.drives.iter().position(|d| d == old));
    let position = position_of(controller, &group, old).or(index.map(|i| i as u32));
    let position = position.ok_or_else(|| place()(&format!("drive {old:?} has no place in it")))?;
    let state = group.status().members[position as usize].state;
    if state == raid::MemberState::Active {
        if group.status().tolerates == 0 {
            return Err(place()(&format!("without drive {old:?} there is no data: nothing replaces it")));
        }
        group.fail(position, "replaced by hand").await.map_err(|e| place()(&e))?;
    }
    if old == new {
        controller.state.borrow_mut().drives.remove(old);
    }
    let drive = open_drive(controller, config, new)?;
    group.replace(position, drive).await.map_err(|e| place()(&e))?;
    if old != new {
        controller.state.borrow_mut().drives.remove(old);
    }
    Ok(vec![format!("group {group_name}: drive {new} takes the place of {old}, its rebuild begins")])
}

/// The place of a drive that the group holds.
pub(crate) fn position_of(controller: &Controller, group: &Group, drive: &str) -> Option<u32> {
    let state = controller.state();
    let medium = &state.drives.get(drive)?.info().name;
    let status = group.status();
    let member = status.members.iter().find(|m| m.drive.as_ref() == Some(medium))?;
    Some(member.position)
}
