//! Deleting pools and groups. A record is stored before anything is erased, so that the next start completes
//! a deletion that a crash interrupts.
//!
//! | | a pool | a group |
//! |---|---|---|
//! | 1 | the record is stored | the record is stored, together with a declaration without the group and its drives |
//! | 2 | its owner closes it and erases its superblocks | its owner closes it and erases the labels of its drives |
//! | 3 | a declaration without the pool takes effect, and the record with it | the record is removed |
//!
//! A pool stays declared until its superblocks are erased: until then its groups belong to its controller.

use super::pools::without_groups;
use super::{Array, refusals};
use crate::config::DeletedGroup;
use crate::control::{Control, ControlError};

impl Array {
    /// Deletes a pool without volumes. Its groups stay, and are in no pool.
    ///
    /// # Errors
    ///
    /// No such pool, or a volume is in it: nothing was changed then. If the state cannot be stored, the next
    /// start completes it.
    pub async fn delete_pool(&mut self, name: &str) -> Result<Vec<String>, ControlError> {
        let owner = refusals::deletable_pool(&self.config, name)?.controller;
        self.made.deleted_pools.insert(name.into());
        let mut done = match self.keep_made() {
            Ok(()) => self.ask(owner, Control::DeletePool(name.into())).await,
            Err(error) => Err(error),
        };
        if done.is_err() {
            self.made.deleted_pools.remove(name);
            self.keep_made()?;
        }
        let mut config = self.config.clone();
        config.pools.retain(|p| p.name != name);
        if let Ok(lines) = &mut done {
            lines.extend(self.apply(config).await?);
        }
        done
    }

    /// Deletes a group that no pool uses. Its drives are no longer declared, and blank.
    ///
    /// # Errors
    ///
    /// No such group, a pool uses it, or work on it runs: nothing was changed then.
    pub async fn delete_group(&mut self, name: &str) -> Result<Vec<String>, ControlError> {
        refusals::deletable_group(&self.config, name)?;
        // Before it is recorded: a start completes a deletion without asking.
        let owner = self.config.owner_of_group(name);
        self.ask(owner, Control::MayDeleteGroup(name.into())).await?;
        let parts = self.status().await?;
        let (before, mut config) = (self.config.clone(), self.config.clone());
        let drives = without_groups(&mut config, &parts, |group| group == name);
        let deleted = DeletedGroup {
            id: self.made.groups.get(name).and_then(|made| made.id),
            drives: drives.into_iter().map(|drive| (drive.name.clone(), drive)).collect(),
        };
        self.made.deleted_groups.insert(name.into(), deleted.clone());
        if let Err(error) = self.apply(config).await {
            self.made.deleted_groups.remove(name);
            return Err(error);
        }
        let owner = before.owner_of_group(name);
        let done = self.ask(owner, Control::DeleteGroup { name: name.into(), deleted }).await;
        self.made.deleted_groups.remove(name);
        match done {
            Ok(_) => self.keep_made()?,
            // The group stays, as it was declared.
            Err(_) => _ = self.apply(before).await?,
        }
        done
    }

    /// Completes deletions of volumes, pools and groups that were interrupted, in an earlier life or by a
    /// state that could not be stored, or that wait for a pool.
    ///
    /// # Errors
    /// If one cannot be completed now, for example while a group is resynced; to be tried again.
    pub async fn finish_deletions(&mut self) -> Result<Vec<String>, ControlError> {
        let mut done = self.delete_discarded().await?;
        for name in self.made.deleted_pools.clone() {
            let Some(owner) = self.config.pool(&name).map(|p| p.controller) else { continue };
            done.extend(self.ask(owner, Control::DeletePool(name.clone())).await?);
            let mut config = self.config.clone();
            config.pools.retain(|p| p.name != name);
            done.extend(self.apply(config).await?);
        }
        for (name, deleted) in self.made.deleted_groups.clone() {
            let owner = self.config.owner_of_group(&name);
            let delete = Control::DeleteGroup { name: name.clone(), deleted };
            done.extend(self.ask(owner, delete).await?);
            self.made.deleted_groups.remove(&name);
            self.keep_made()?;
        }
        Ok(done)
    }
}
