//! Deleting a pool: its groups stay, and are in no pool.

use std::rc::Rc;

use cache::erase_journal;
use pool::{Pool, erase_superblocks};
use raid::Group;

use super::open::drop_pool;
use super::work::stop_jobs;
use crate::cached::close_journals;
use crate::control::ControlError;
use crate::controller::Controller;
use crate::groups::refuse_busy;

/// Why a pool with an interrupted deletion is not open.
pub(crate) const DELETING: &str =
    "its deletion was interrupted, and is completed when no work on its groups runs";

/// Closes a pool without volumes, if it is open, and erases its journal and its superblocks. A group on which
/// that fails, or that is not open, keeps them; a warning says why. It is still declared.
///
/// # Errors
/// A volume is on the pool, or work on it does not end. Nothing was erased then.
pub(crate) async fn delete(controller: &Rc<Controller>, name: &str) -> Result<Vec<String>, ControlError> {
    let place = || ControlError::at(format!("pool {name:?}"));
    let config = controller.config();
    let declared = config.pool(name).ok_or_else(|| place()(&"not declared"))?;
    let open = controller.state().pools.get(name).cloned();
    if let Some(pool) = &open {
        refuse_used(controller, pool)?;
        if !stop_jobs(controller, pool).await {
            return Err(place()(&"a job of the pool does not end"));
        }
        drop_pool(controller, name).await;
        // From here on it is deleted, whatever fails.
        let closed = close_journals(controller, |pool| pool == name).await;
        let closed = closed.and(pool.close().await.map_err(|e| place()(&e)));
        if let Err(error) = closed {
            controller
                .events
                .warn(format!("pool {name}: was not closed cleanly before it is deleted: {error}"));
        }
    }
    if let Some(journal) = &declared.journal {
        let erased = match open_group(controller, journal) {
            Ok(group) => erase_journal(&group).await.map_err(|e| e.to_string()),
            Err(cause) => Err(cause),
        };
        told(controller, name, journal, erased);
    }
    for group in declared.groups.iter().chain(&declared.leaving) {
        let erased = match open_group(controller, group) {
            Ok(open) => erase_superblocks(&open, name).await.map_err(|e| e.to_string()),
            Err(cause) => Err(cause),
        };
        told(controller, name, group, erased);
    }
    Ok(vec![format!("pool {name}: deleted")])
}

/// Refuses while a volume is on the pool that nobody declares, and while work on a group runs that keeps it
/// from going to the first controller, which has the groups without a pool.
fn refuse_used(controller: &Controller, pool: &Pool) -> Result<(), ControlError> {
    if let Some(volume) = pool.volumes().first() {
        let cause =
            format!("volume {:?} is on it, and not declared; declare it, or delete it first", volume.name());
        return Err(ControlError::at(format!("pool {:?}", pool.name()))(&cause));
    }
    match controller.index {
        0 => Ok(()),
        _ => pool.groups().iter().try_for_each(refuse_busy),
    }
}

fn open_group(controller: &Controller, name: &str) -> Result<Group, String> {
    controller.state().groups.get(name).cloned().ok_or_else(|| "the group is not open".to_owned())
}

fn told(controller: &Controller, pool: &str, group: &str, erased: Result<(), String>) {
    if let Err(cause) = erased {
        controller.events.warn(format!(
            "pool {pool}: deleted, but group {group} still carries its metadata: {cause}; delete the group, too"
        ));
    }
}
