//! Pools: remove a group, rebalance.

use std::collections::BTreeSet;

use super::{Array, refusals};
use crate::config::{Config, DriveConfig};
use crate::control::{Control, ControlError};
use crate::status::{ControllerStatus, Pool};

impl Array {
    /// Evacuates a group in the background, then removes it from its pool.
    ///
    /// # Errors
    ///
    /// No such pool or group, the group is the pool's last, or the others have no room for its pages.
    pub async fn remove_group(&mut self, pool: &str, group: &str) -> Result<Vec<String>, ControlError> {
        let config = refusals::with_leaving(&self.config, pool, group)?;
        let parts = self.status().await?;
        if let Some(status) = parts.iter().flat_map(|part| &part.pools).find(|p| p.name == pool) {
            refuse_without_room(status, group)?;
        }
        let mut done = self.apply(config).await?;
        done.push(format!("pool {pool}: evacuating group {group}; it leaves the pool afterwards"));
        Ok(done)
    }

    /// Rebalances a pool in the background.
    ///
    /// # Errors
    ///
    /// No such pool, or it is not open. What goes wrong later is an event.
    pub async fn rebalance(&self, pool: &str) -> Result<Vec<String>, ControlError> {
        let fail = ControlError::at(format!("pool {pool:?}"));
        let declared = self.config.pool(pool).ok_or_else(|| fail(&"not found"))?;
        self.ask(declared.controller, Control::Rebalance(pool.into())).await
    }
}

/// Removes groups from a declaration, and their drives, which it returns: those that are declared, and the
/// current members, because a spare may have replaced a drive.
pub(super) fn without_groups(
    config: &mut Config,
    parts: &[ControllerStatus],
    leaves: impl Fn(&String) -> bool,
) -> Vec<DriveConfig> {
    let own = parts.iter().flat_map(|part| &part.groups).filter(|g| leaves(&g.name));
    let members = own.flat_map(|g| g.drives.iter().chain(g.members.iter().flatten()));
    let declared = config.groups.iter().filter(|g| leaves(&g.name)).flat_map(|g| &g.drives);
    let drives: BTreeSet<String> = members.chain(declared).cloned().collect();
    config.groups.retain(|g| !leaves(&g.name));
    config.spares.retain(|s| !drives.contains(s));
    config.drives.extract_if(.., |d| drives.contains(&d.name)).collect()
}

/// Checks that the other groups have room for the used pages of a group.
fn refuse_without_room(pool: &Pool, group: &str) -> Result<(), ControlError> {
    let used: u64 = pool.group_spaces.iter().filter(|g| g.name == group).map(|g| g.used_bytes).sum();
    let others = pool.group_spaces.iter().filter(|g| g.name != group && !g.evacuating);
    let free: u64 = others.map(|g| g.size_bytes - g.used_bytes).sum();
    if used <= free {
        return Ok(());
    }
    let place = ControlError::at(format!("pool {:?}", pool.name));
    Err(place(&format!(
        "no room to evacuate group {group:?}: it has {used} bytes in use, the other groups \
        have {free} bytes free"
    )))
}
