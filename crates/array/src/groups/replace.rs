//! Drives that an administrator replaces.

use std::rc::Rc;

use raid::{MemberState, Overwrite};
use world::Drive;

use super::drives::{open_drive, open_exchanged, position_of, probe};
use super::spares::spare_turn;
use crate::config::Config;
use crate::control::ControlError;
use crate::controller::Controller;

/// Replaces the drive `old` in a group by the drive `new`, which may be the same name with another medium
/// behind it. The old one leaves only when the new one can take its position.
pub(crate) async fn replace_drive(
    controller: &Rc<Controller>,
    (group_name, old, new): (&str, &str, &str),
    overwrite: Overwrite,
) -> Result<Vec<String>, ControlError> {
    let place = || ControlError::at(format!("group {group_name:?}"));
    let group = controller.state().groups.get(group_name).cloned();
    let group = group.ok_or_else(|| place()(&"not open"))?;
    let config = controller.config();
    let declared = config.groups.iter().find(|g| g.name == group_name);
    let index = declared.and_then(|g| g.drives.iter().position(|d| d == old));
    let position = position_of(controller, &group, old).or(index.map(|i| i as u32));
    let position = position.ok_or_else(|| place()(&format!("drive {old:?} is not a member")))?;
    let serves = group.status().members[position as usize].state == MemberState::Active;
    if serves && group.status().tolerates == 0 {
        return Err(place()(&format!("no redundancy left to replace drive {old:?}")));
    }
    let _turn = spare_turn(controller).await;
    let drive = match old == new {
        true => exchanged(controller, &config, old, serves).await?,
        false => open_drive(controller, &config, new).await?,
    };
    if let Err(error) = group.check_replacement(position, &drive, overwrite).await {
        // Nothing stays open after a refused attempt.
        if old != new {
            controller.state.borrow_mut().drives.remove(new);
        }
        return Err(place()(&error));
    }
    controller.state.borrow_mut().replacing.insert(group_name.to_owned());
    let replaced = match group.fail(position, "replaced by an administrator").await {
        Ok(()) => group.replace_over(position, drive, overwrite).await.map_err(|e| place()(&e)),
        Err(error) => Err(place()(&error)),
    };
    controller.state.borrow_mut().replacing.remove(group_name);
    replaced?;
    let mut state = controller.state.borrow_mut();
    state.spares.retain(|s| s != new);
    if old != new {
        state.drives.remove(old);
    }
    Ok(vec![format!("group {group_name}: drive {new} replaces {old}; rebuild started")])
}

/// The drive of a name, reopened if the open one is gone.
async fn exchanged(
    controller: &Controller,
    config: &Config,
    name: &str,
    serves: bool,
) -> Result<Drive, ControlError> {
    let known = controller.state().drives.get(name).cloned();
    if let Some(known) = known
        && probe(&controller.world, &known).await.is_ok()
    {
        if serves {
            return Err(ControlError::at(format!("drive {name:?}"))(
                &"in use, and the medium was not exchanged",
            ));
        }
        return Ok(known);
    }
    controller.state.borrow_mut().drives.remove(name);
    open_exchanged(controller, config, name).await
}
