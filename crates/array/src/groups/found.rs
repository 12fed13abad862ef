//! Examines the drives of a declared group before it is opened.

use std::collections::BTreeMap;

use futures::future::join_all;
use raid::{GroupId, Label, OnDrive, examine};
use world::Drive;

use super::drives::{leave_to_others, open_drive, open_existing};
use super::spares::{spare_turn, takes_spares};
use crate::config::{Config, GroupConfig};
use crate::control::ControlError;
use crate::controller::Controller;
use crate::terms;

pub(super) struct FoundDrive {
    pub(super) name: String,
    pub(super) drive: Drive,
    pub(super) found: OnDrive,
}

impl FoundDrive {
    fn label(&self) -> Option<&Label> {
        match &self.found {
            OnDrive::Label(label) => Some(label),
            _ => None,
        }
    }
}

pub(super) struct FoundDrives {
    pub(super) drives: Vec<FoundDrive>,
    /// Declared drives that cannot be opened or read, with the reason.
    pub(super) complaints: Vec<String>,
}

/// The declared drives of a group that can be opened, and the spares that carry its label. Those that could
/// not be opened a moment ago, by name, are not tried again. At a node that runs the controller for the owner
/// the declaration has all of them, and nothing else is opened there.
pub(super) async fn find_drives(
    controller: &Controller,
    config: &Config,
    group: &GroupConfig,
    unopened: &BTreeMap<String, String>,
) -> Result<FoundDrives, ControlError> {
    let mut found = FoundDrives { drives: Vec::new(), complaints: Vec::new() };
    let open = async |name: &String| match unopened.get(name) {
        Some(cause) => Err(cause.clone()),
        None => open_drive(controller, config, name).await.map_err(cause_of),
    };
    let look = async |opened: Result<Drive, String>| {
        let drive = opened?;
        examine(&drive).await.map(|on| (drive, on)).map_err(|e| e.to_string())
    };
    let mut members = Vec::new();
    for name in &group.drives {
        members.push(open(name).await);
    }
    // All at once: a hard disk without a label takes seconds.
    let members = join_all(members.into_iter().map(look)).await;
    for (name, on_drive) in group.drives.iter().zip(members) {
        match on_drive {
            Ok((drive, on)) => found.drives.push(FoundDrive { name: name.clone(), drive, found: on }),
            Err(cause) => found.complaints.push(format!("drive {name:?}: {cause}")),
        }
    }
    if !takes_spares(controller) {
        return Ok(found);
    }
    // Groups that are opened at once look at the same drives: one closes what another one is about to read.
    let _turn = spare_turn(controller).await;
    for name in &config.spares {
        match look(open(name).await).await {
            Ok((drive, OnDrive::Label(label))) if is_of(&label, config, group) => {
                found.drives.push(FoundDrive { name: name.clone(), drive, found: OnDrive::Label(label) });
            }
            Ok(_) => leave_to_others(controller, name),
            Err(_) => {}
        }
    }
    if controller.state().made.has_group(&group.name) {
        find_replacements(controller, config, group, &mut found).await;
    }
    Ok(found)
}

/// Adds drives without a declared use that carry the group's label: one of them replaced another, and the
/// process ended before that could be stored.
async fn find_replacements(
    controller: &Controller,
    config: &Config,
    group: &GroupConfig,
    found: &mut FoundDrives,
) {
    let ssds = config.cache.iter().flat_map(|cache| &cache.ssds);
    let used: Vec<&String> =
        config.groups.iter().flat_map(|g| &g.drives).chain(&config.spares).chain(ssds).collect();
    for name in config.drives.iter().map(|drive| &drive.name).filter(|name| !used.contains(name)) {
        let Ok(drive) = open_existing(controller, config, name).await else { continue };
        match examine(&drive).await {
            Ok(OnDrive::Label(label)) if is_of(&label, config, group) => {
                found.drives.push(FoundDrive { name: name.clone(), drive, found: OnDrive::Label(label) });
            }
            _ => _ = controller.state.borrow_mut().drives.remove(name),
        }
    }
}

pub(super) fn cause_of(error: ControlError) -> String {
    match error {
        ControlError::Failed { cause, .. } => cause,
        other => other.to_string(),
    }
}

fn is_of(label: &Label, config: &Config, group: &GroupConfig) -> bool {
    label.array_id == terms::array_id(config) && label.group_name == group.name && label.epoch > 0
}

/// The drives for opening an existing group, and why the others are not used: of two drives with one
/// position, the one with the older label, or the one that is not declared there; drives without a label; and
/// beside drives of this group, those of another one, and those that are too small. A group with redundancy
/// is then degraded, as if they were not connected.
pub(super) fn members(
    config: &Config,
    (group, id): (&GroupConfig, Option<GroupId>),
    found: Vec<FoundDrive>,
) -> (Vec<Drive>, Vec<String>) {
    let mut left_out: Vec<String> = Vec::new();
    let mut note = |text: String| left_out.push(text);
    let (labelled, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|f| f.label().is_some());
    others.iter().for_each(|f| note(format!("drive {:?} {}", f.name, f.found)));
    let why_not = |f: &FoundDrive| f.label().and_then(|label| stranger(label, &f.drive, config, (group, id)));
    let any_own = labelled.iter().any(|f| why_not(f).is_none());
    let mut taken: Vec<FoundDrive> = Vec::new();
    for new in labelled {
        if let Some(cause) = why_not(&new).filter(|_| any_own) {
            note(format!("drive {:?} {cause}", new.name));
            continue;
        }
        match taken.iter_mut().find(|old| have_one_place(old, &new, config, group)) {
            Some(old) if rank(old, group) < rank(&new, group) => {
                note(less(old, &new));
                *old = new;
            }
            Some(old) => note(less(&new, old)),
            None => taken.push(new),
        }
    }
    (taken.into_iter().map(|f| f.drive).collect(), left_out)
}

/// Why a drive with this label is not one of the group's.
fn stranger(
    label: &Label,
    drive: &Drive,
    config: &Config,
    (group, id): (&GroupConfig, Option<GroupId>),
) -> Option<String> {
    let is_own = label.array_id == terms::array_id(config)
        && label.group_name == group.name
        && id.is_none_or(|id| id == label.group_id);
    let (has, needs) = (drive.info().len_bytes, label.data_offset.saturating_add(label.data_len));
    match () {
        () if !is_own => Some(format!("has the label of {label}")),
        () if has < needs => Some(format!("is too small: has {has} bytes, its label says {needs}")),
        () => None,
    }
}

fn have_one_place(old: &FoundDrive, new: &FoundDrive, config: &Config, group: &GroupConfig) -> bool {
    let (Some(old), Some(new)) = (old.label(), new.label()) else { return false };
    is_of(new, config, group) && old.group_id == new.group_id && old.position == new.position
}

/// The greater one is used: the newer label, and of equal ones that of the drive which is declared at its
/// position. The other one is a copy, which may be older than its label tells.
fn rank(f: &FoundDrive, group: &GroupConfig) -> (Option<(u64, u64)>, bool) {
    let is_home = |label: &Label| group.drives.get(label.position as usize) == Some(&f.name);
    (f.label().map(|label| (label.epoch, label.version)), f.label().is_some_and(is_home))
}

/// That one drive is left out for another.
fn less(left_out: &FoundDrive, used: &FoundDrive) -> String {
    let age = |f: &FoundDrive| f.label().map(|label| (label.epoch, label.version));
    let (left, used_name) = (&left_out.name, &used.name);
    match age(left_out) < age(used) {
        true => format!("drive {left:?} has an older label of the position of drive {used_name:?}"),
        false => format!("drive {left:?} has a label of the position of drive {used_name:?}, a copy"),
    }
}
