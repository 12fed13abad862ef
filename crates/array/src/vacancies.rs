//! Places of groups that a spare may take, at controllers that take none by themselves.

use raid::MemberState;

use crate::config::Config;
use crate::status::{ControllerStatus, GroupStatus, ImageStatus};

/// A place without a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Vacancy {
    pub(crate) group: String,
    /// The declared drive that has left.
    pub(crate) drive: String,
}

/// Whether a group of a controller lacks a drive and could get one by [`crate::Array::give_spares`].
pub fn lacks_drives(config: &Config, status: &ControllerStatus) -> bool {
    !vacancies(config, status).is_empty()
}

/// The first place without a drive of each group of a controller. One of which the declaration does not say
/// which drive has left is not among them.
pub(crate) fn vacancies(config: &Config, status: &ControllerStatus) -> Vec<Vacancy> {
    status.groups.iter().filter_map(|group| vacancy(config, group)).collect()
}

fn vacancy(config: &Config, group: &GroupStatus) -> Option<Vacancy> {
    let declared = config.groups.iter().find(|declared| declared.name == group.name)?;
    let is_empty = |m: &&raid::MemberStatus| matches!(m.state, MemberState::Missing | MemberState::Failed);
    let place = group.raid.members.iter().find(is_empty)?.position as usize;
    let takes_part = |drive: &String| {
        let states = group.raid.members.iter().map(|m| m.state);
        let mut members = group.members.iter().zip(states);
        members.any(|(name, state)| {
            name.as_ref() == Some(drive) && !matches!(state, MemberState::Missing | MemberState::Failed)
        })
    };
    let left = group.members.get(place).cloned().flatten().or_else(|| declared.drives.get(place).cloned())?;
    let is_left = declared.drives.contains(&left) && !takes_part(&left);
    is_left.then(|| Vacancy { group: group.name.clone(), drive: left })
}

/// Why a controller is not run by another node now: what is missing would be looked for there, and of drives
/// that a group has and the declaration does not yet have nobody would know there.
pub fn cannot_leave(config: &Config, status: &ControllerStatus) -> Option<String> {
    if let Some(missing) = status.missing.first() {
        return Some(format!("{} {:?} is missing", missing.kind, missing.name));
    }
    let is_closed = |image: &&ImageStatus| image.state.is_err();
    if let Some(image) = status.images.iter().find(is_closed) {
        return Some(format!("image {:?} is not served", image.name));
    }
    let undeclared = |group: &GroupStatus| {
        let declared = config.groups.iter().find(|declared| declared.name == group.name)?;
        let is_known = |drive: &String| config.drives.iter().any(|known| known.name == *drive);
        let mut members = group.members.iter().flatten();
        let drive = members.find(|drive| !declared.drives.contains(drive) && is_known(drive))?;
        let name = &group.name;
        Some(format!("drive {drive:?} has taken a place in group {name:?}, and is not declared there yet"))
    };
    status.groups.iter().find_map(undeclared)
}
