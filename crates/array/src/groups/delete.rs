//! Deleting a group: its drives lose their labels, so that no start and no other array finds it again.

use std::rc::Rc;

use futures::{StreamExt, stream};
use pool::Pool;
use raid::{Group, OnDrive, erase_label, examine};
use world::Drive;

use super::close::{end_upkeep, forget, refuse_busy};
use super::drives::{OPENING_MAX, existing};
use crate::config::{DeletedGroup, DriveConfig};
use crate::control::ControlError;
use crate::controller::Controller;
use crate::journal_groups::refuse_needed;
use crate::terms;

/// Closes a group that is no longer declared, if it is open, and erases the labels of its drives. A drive
/// that cannot be erased keeps its label; a warning says why.
///
/// # Errors
/// Work on the group runs, or a drive does not answer. Nothing was erased then.
pub(crate) async fn delete(
    controller: &Rc<Controller>,
    name: &str,
    deleted: &DeletedGroup,
) -> Result<Vec<String>, ControlError> {
    let is_it = |group: &&Group| deleted.id.is_none_or(|id| terms::group_id(id) == group.id());
    let open = controller.state().groups.get(name).filter(is_it).cloned();
    let mut known: Vec<(String, Drive)> = Vec::new();
    if let Some(group) = open {
        let place = || ControlError::at(format!("group {name:?}"));
        if controller.config().groups.iter().any(|g| g.name == name) {
            return Err(place()(&"still declared"));
        }
        may_be_deleted(controller, &group).await?;
        end_upkeep(controller, std::slice::from_ref(&group)).await?;
        known = controller.state().drives.iter().map(|(n, d)| (n.clone(), d.clone())).collect();
        forget(controller, std::slice::from_ref(&group));
        // It is erased next: what cannot be closed does not matter.
        let _ = group.close().await;
    }
    let erased = stream::iter(deleted.drives.values()).map(|drive| {
        let known = known.iter().find(|(name, _)| *name == drive.name).map(|(_, drive)| drive.clone());
        async move { (&drive.name, erase(controller, (name, deleted), drive, known).await) }
    });
    let erased: Vec<(&String, Result<(), String>)> = erased.buffered(OPENING_MAX).collect().await;
    let mut kept = Vec::new();
    for (drive, outcome) in erased {
        if let Err(cause) = outcome {
            controller.events.warn(format!("group {name}: drive {drive} keeps its label: {cause}"));
            kept.push(drive.as_str());
        }
    }
    Ok(vec![match kept.is_empty() {
        true => format!("group {name}: deleted"),
        false => format!("group {name}: deleted; not erased: drive {}", kept.join(", ")),
    }])
}

/// Refuses to delete a group that an open pool has, that is worked on, or that has a journal which is needed,
/// whatever is declared.
///
/// # Errors
/// Why not.
async fn may_be_deleted(controller: &Controller, group: &Group) -> Result<(), ControlError> {
    let pools: Vec<Pool> = controller.state().pools.values().cloned().collect();
    let has = |pool: &&Pool| pool.group_spaces().iter().any(|space| space.id == group.id());
    if let Some(pool) = pools.iter().find(has) {
        let place = ControlError::at(format!("group {:?}", group.name()));
        return Err(place(&format!("in use by pool {:?}", pool.name())));
    }
    if !controller.state().resync_waits.contains_key(group.name()) {
        refuse_busy(group)?;
    }
    refuse_needed(controller, group).await
}

/// Whether a group may be deleted; one that is not open may.
///
/// # Errors
/// Why not.
pub(crate) async fn may_delete(controller: &Controller, name: &str) -> Result<Vec<String>, ControlError> {
    let open = controller.state().groups.get(name).cloned();
    match open {
        Some(group) => may_be_deleted(controller, &group).await.map(|()| vec![]),
        None => Ok(vec![]),
    }
}

/// Erases a drive if it carries a label of the group.
async fn erase(
    controller: &Controller,
    (name, deleted): (&str, &DeletedGroup),
    declared: &DriveConfig,
    known: Option<Drive>,
) -> Result<(), String> {
    let config = controller.config();
    let drive = match known {
        Some(drive) => drive,
        None => {
            if let Some(cause) = controller.state().nodes.withheld.drives.get(&declared.name) {
                return Err(cause.clone());
            }
            let opened = controller.world.open_drive(&existing(&declared.spec)).await;
            let drive = opened.map_err(|e| e.to_string())?;
            drive.set_patience(config.patience_of(&drive.info().name));
            drive
        }
    };
    match examine(&drive).await.map_err(|e| e.to_string())? {
        OnDrive::Label(label) => {
            let is_of = match deleted.id {
                Some(id) => label.group_id == terms::group_id(id),
                None => label.array_id == terms::array_id(&config) && label.group_name == name,
            };
            match is_of {
                true => erase_label(&drive).await.map_err(|e| e.to_string()),
                // The drive is in another group by now.
                false => Ok(()),
            }
        }
        found @ (OnDrive::NewerFormat { .. } | OnDrive::DamagedLabel) => Err(found.to_string()),
        OnDrive::Spare { .. } | OnDrive::Cache { .. } | OnDrive::Blank | OnDrive::NotBlank { .. } => Ok(()),
    }
}
