//! Examines the drives of a declared group before it is opened.

use std::collections::BTreeMap;

use raid::{Label, OnDrive, examine};
use world::Drive;

use super::drives::{leave_to_others, open_drive};
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
/// not be opened a moment ago, by name, are not tried again.
pub(super) async fn find_drives(
    controller: &Controller,
    config: &Config,
    group: &GroupConfig,
    unopened: &BTreeMap<String, String>,
) -> Result<FoundDrives, ControlError> {
    let mut found = FoundDrives { drives: Vec::new(), complaints: Vec::new() };
    for name in group.drives.iter().chain(&config.spares) {
        let is_spare = !group.drives.contains(name);
        let opened = match unopened.get(name) {
            Some(cause) => Err(cause.clone()),
            None => open_drive(controller, config, name).await.map_err(cause_of),
        };
        let on_drive = match opened {
            Ok(drive) => examine(&drive).await.map(|on| (drive, on)).map_err(|e| e.to_string()),
            Err(cause) => Err(cause),
        };
        match on_drive {
            Ok((_, OnDrive::Label(label))) if is_spare && !is_of(&label, config, group) => {
                leave_to_others(controller, name);
            }
            Ok((drive, OnDrive::Label(label))) => {
                found.drives.push(FoundDrive { name: name.clone(), drive, found: OnDrive::Label(label) });
            }
            Ok(_) if is_spare => leave_to_others(controller, name),
            Ok((drive, on)) => found.drives.push(FoundDrive { name: name.clone(), drive, found: on }),
            Err(_) if is_spare => {}
            Err(cause) => found.complaints.push(format!("drive {name:?}: {cause}")),
        }
    }
    Ok(found)
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
/// position, the one with the older label; drives without a label.
pub(super) fn members(
    config: &Config,
    group: &GroupConfig,
    found: Vec<FoundDrive>,
) -> (Vec<Drive>, Vec<String>) {
    let mut left_out: Vec<String> = Vec::new();
    let mut note = |text: String| left_out.push(text);
    let mut taken: Vec<FoundDrive> = Vec::new();
    for new in found {
        let Some(label) = new.label() else {
            note(format!("drive {:?} {}", new.name, new.found));
            continue;
        };
        let same = |f: &&mut FoundDrive| {
            let other = f.label();
            is_of(label, config, group)
                && other.is_some_and(|o| o.group_id == label.group_id && o.position == label.position)
        };
        let age = |l: &Label| (l.epoch, l.version);
        match taken.iter_mut().find(same) {
            Some(old) if old.label().map(age) < Some(age(label)) => {
                note(format!(
                    "drive {:?} has an older label of the position of drive {:?}",
                    old.name, new.name
                ));
                *old = new;
            }
            Some(old) => {
                note(format!(
                    "drive {:?} has a label of the position of drive {:?}, a copy",
                    new.name, old.name
                ));
            }
            None => taken.push(new),
        }
    }
    (taken.into_iter().map(|f| f.drive).collect(), left_out)
}
