//! Groups: opened from the drives that are available, or created if they are new.
//!
//! The labels determine the position of each drive. A spare that took a position keeps it after a restart,
//! and masu does not use the drive that it replaced.

use std::collections::BTreeMap;
use std::rc::Rc;

use raid::{Group, GroupError, GroupSpec, GroupState, Label, MissingCause, OnDrive, Overwrite};
use status::Reason;

use super::found::{FoundDrive, FoundDrives, find_drives, members};
use super::spares::spare_turn;
use super::upkeep::begin_upkeep;
use crate::config::{Config, GroupConfig};
use crate::control::ControlError;
use crate::controller::Controller;
use crate::event::Severity;
use crate::terms;
use crate::why::{Explains, Told};

/// The specification of a group, with its identity if known.
fn spec_of(controller: &Controller, config: &Config, group: &GroupConfig) -> GroupSpec {
    let state = controller.state();
    GroupSpec {
        name: group.name.clone(),
        level: terms::level(group.level),
        stripe_unit_bytes: group.stripe_unit_bytes,
        array_id: terms::array_id(config),
        id: state.made.groups.get(&group.name).and_then(|m| m.id).map(terms::group_id),
        ownership: state.nodes.ownership,
    }
}

/// Opens a declared group. A new group is created if its drives are blank. `unopened`: see [`open_at_once`].
///
/// [`open_at_once`]: super::open_at_once
pub(crate) async fn open_group(
    controller: &Rc<Controller>,
    config: &Config,
    (group, unopened): (&GroupConfig, &BTreeMap<String, String>),
    done: &mut Vec<String>,
) -> Result<(), ControlError> {
    if controller.state().groups.contains_key(&group.name) {
        return Ok(());
    }
    let place = || ControlError::at(format!("group {:?}", group.name));
    if let Some(cause) = controller.state().nodes.withheld.groups.get(&group.name) {
        return Err(place()(&Told::new(Reason::Unclaimed, cause)));
    }
    let made = controller.state().made.clone();
    let found = find_drives(controller, config, group, unopened).await?;
    // A drive of another array's group is erased if the operator has named it.
    let given_up = |f: &FoundDrive, label: &Label| {
        made.overwrite.contains(&f.name) && label.array_id != terms::array_id(config)
    };
    let has_data =
        |f: &FoundDrive| matches!(&f.found, OnDrive::Label(label) if label.epoch > 0 && !given_up(f, label));
    let (opened, how) = if made.has_group(&group.name) || found.drives.iter().any(has_data) {
        (open_found(controller, config, group, found).await?, "opened")
    } else if found.complaints.is_empty() {
        (create(controller, config, group, found).await?, "created")
    } else {
        return Err(place()(&found.complaints.join("; ")));
    };
    let state = opened.status().state;
    let named = format!("{state:?}").to_lowercase();
    done.push(format!("group {}: {how}, {named}", group.name));
    if state != GroupState::Optimal {
        let told = format!("group {}: starts {named}", group.name);
        if state == GroupState::Degraded {
            controller.events.warn(told)
        } else {
            controller.events.alarm(told)
        }
    }
    controller.state.borrow_mut().groups.insert(group.name.clone(), opened.clone());
    begin_upkeep(controller, &group.name, opened);
    Ok(())
}

/// Opens a group from its available drives. If that fails, masu writes nothing to any of them.
async fn open_found(
    controller: &Rc<Controller>,
    config: &Config,
    group: &GroupConfig,
    found: FoundDrives,
) -> Result<Group, ControlError> {
    let place = ControlError::at(format!("group {:?}", group.name));
    let made = controller.state().made.clone();
    let mut spec = spec_of(controller, config, group);
    if !made.has_group(&group.name) {
        // The labels come from an array without this state, or from an interrupted creation.
        spec.id = None;
    }
    let (drives, left_out) = members(config, (group, spec.id), found.drives);
    let complaints = [found.complaints, left_out].concat();
    complaints.iter().for_each(|c| {
        controller.events.once(Severity::Warning, format!("group {}: {c}; it is left out", group.name))
    });
    if drives.is_empty() {
        return Err(place(&Told::new(Reason::Away, unreadable(&complaints))));
    }
    let opened = match group.start_degraded {
        true => Group::open_degraded(controller.world.clone(), spec, drives).await,
        false => Group::open(controller.world.clone(), spec, drives).await,
    };
    if let Err(GroupError::LaterOwner { found, own, .. }) = &opened {
        // A queue that is full says enough already.
        if let Some(refused) = &controller.state().nodes.refused {
            let _ = refused.try_send(epoch_wanted(*found, *own));
        }
    }
    opened.map_err(|e| match complaints.is_empty() {
        true => place(&explain(e)),
        false => place(&explain(e).and(Told::from(&format!(" ({})", complaints.join("; "))))),
    })
}

/// The error for an existing group without any drive, and what to do.
fn unreadable(complaints: &[String]) -> String {
    let causes = complaints.join("; ");
    format!("no usable drive: {causes}. masu wrote nothing to them; reconnect them, and masu opens the group")
}

/// Creates a new group. masu writes to the drives only if all of them may be overwritten.
async fn create(
    controller: &Rc<Controller>,
    config: &Config,
    group: &GroupConfig,
    found: FoundDrives,
) -> Result<Group, ControlError> {
    let place = ControlError::at(format!("group {:?}", group.name));
    let made = controller.state().made.clone();
    let (named, others): (Vec<_>, Vec<_>) =
        found.drives.iter().partition(|f| made.overwrite.contains(&f.name));
    let overwrite = if named.is_empty() { Overwrite::Nothing } else { Overwrite::Foreign };
    // Only named drives may be overwritten. The others may carry labels of this same creation.
    let is_free = |f: &&FoundDrive| match &f.found {
        OnDrive::Blank => true,
        OnDrive::Label(l) => {
            l.epoch == 0 && l.array_id == terms::array_id(config) && l.group_name == group.name
        }
        _ => false,
    };
    if let Some(used) = others.into_iter().find(|f| !named.is_empty() && !is_free(f)) {
        return Err(place(&format!(
            "drive {} {}; refusing to overwrite it: not named with --overwrite",
            used.name, used.found
        )));
    }
    let _turn = spare_turn(controller).await;
    controller.state.borrow_mut().fresh.groups.push(group.name.clone());
    let drives = found.drives.into_iter().map(|f| f.drive).collect();
    let spec = spec_of(controller, config, group);
    let created = Group::create_over(controller.world.clone(), spec, drives, overwrite).await;
    created.map_err(|e| place(&explain(e)))
}

/// The highest epoch of an owner; cluster::EPOCH_MAX is the same.
const OWNER_EPOCH_MAX: u64 = 1 << 48;

/// To which epoch the registry's must be raised, so that the next owner is above that of the labels.
fn epoch_wanted(found: u64, own: u64) -> u64 {
    found.max(own + 1)
}

fn explain(error: GroupError) -> Told {
    let text = match &error {
        GroupError::Missing { cause: MissingCause::MayBeNewer, .. } => {
            format!("{error} (start_degraded = true in its declaration)")
        }
        GroupError::LaterOwner { found, own, .. } if epoch_wanted(*found, *own) >= OWNER_EPOCH_MAX => {
            format!(
                "{error}; no owner of an array has written that: epochs end at {OWNER_EPOCH_MAX}. Replace these drives, and \
             restore their data from a backup"
            )
        }
        GroupError::LaterOwner { found, own, .. } => format!(
            "{error}; the registry is older than the drives, or another one: restore that of the last owner, or take \
             this one with `masu node raise-epoch {}`",
            epoch_wanted(*found, *own)
        ),
        _ => error.to_string(),
    };
    Told::new(error.why(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_advised_about_labels_of_a_later_owner_can_be_done() {
        let advised = |found| explain(GroupError::LaterOwner { group: "g".into(), found, own: 3 }).text;
        // masu node raise-epoch takes what labels want, up to the last epoch but one.
        for found in [3, 4, OWNER_EPOCH_MAX - (1 << 32) + 1, OWNER_EPOCH_MAX - 1] {
            let wanted = found.max(4);
            assert!(advised(found).contains(&format!("raise-epoch {wanted}`")), "{}", advised(found));
        }
        for found in [OWNER_EPOCH_MAX, u64::MAX] {
            let text = advised(found);
            assert!(text.contains("Replace these drives") && !text.contains("raise-epoch"), "{text}");
        }
    }
}
