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
use super::stored::also;
use super::{Array, refusals};
use crate::config::DeletedGroup;
use crate::control::{Control, ControlError};

impl Array {
    /// Deletes a pool without volumes. Its groups stay, and are in no pool.
    ///
    /// # Errors
    ///
    /// No such pool, or a volume is in it, or the state cannot be stored: nothing was changed then.
    pub async fn delete_pool(&mut self, name: &str) -> Result<Vec<String>, ControlError> {
        let owner = refusals::deletable_pool(&self.config, name)?.controller;
        let before = self.made.clone();
        let mut made = self.made.clone();
        made.deleted_pools.insert(name.into());
        self.keep_made(made)?;
        match self.ask(owner, Control::DeletePool(name.into())).await {
            Ok(lines) => Ok(self.without_pool(name, lines).await),
            Err(error) => {
                // It stays, and nothing of it was erased.
                self.made = before;
                let later = self.stored.in_force_already(&self.config, &self.made);
                Err(match later {
                    None => error,
                    Some(later) => also(error, &later),
                })
            }
        }
    }

    /// The end of a deletion: the pool is erased. If the state cannot be stored, it stays recorded, and that
    /// is tried again.
    async fn without_pool(&mut self, name: &str, mut done: Vec<String>) -> Vec<String> {
        let mut config = self.config.clone();
        config.pools.retain(|p| p.name != name);
        match self.apply(config).await {
            Ok(lines) => done.extend(lines),
            Err(error) => done.push(format!("pool {name}: is declared until that can be saved: {error}")),
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
        let mut made = self.made.clone();
        made.deleted_groups.insert(name.into(), deleted.clone());
        self.apply_with(config, made).await?;
        let owner = before.owner_of_group(name);
        match self.ask(owner, Control::DeleteGroup { name: name.into(), deleted }).await {
            Ok(mut done) => {
                done.extend(self.forget_group(name));
                Ok(done)
            }
            // The group stays, as it was declared.
            Err(error) => {
                let mut made = self.made.clone();
                made.deleted_groups.remove(name);
                Err(match self.apply_with(before, made).await {
                    Ok(_) => error,
                    Err(left) => also(error, &format!("its deletion is completed later: {left}")),
                })
            }
        }
    }

    /// The end of a group's deletion. Returns a line if that is saved later.
    fn forget_group(&mut self, name: &str) -> Option<String> {
        self.made.deleted_groups.remove(name);
        self.stored.in_force_already(&self.config, &self.made)
    }

    /// Completes what was interrupted, in an earlier life or by a state that could not be stored: exports and
    /// imports of pools, and deletions of volumes, pools and groups, also those that wait for a pool.
    ///
    /// # Errors
    /// If one cannot be completed now, for example while a group is resynced; to be tried again.
    pub async fn finish_interrupted(&mut self) -> Result<Vec<String>, ControlError> {
        let mut done = self.finish_travels().await?;
        done.extend(self.finish_deletions().await?);
        Ok(done)
    }

    async fn finish_deletions(&mut self) -> Result<Vec<String>, ControlError> {
        let mut done = self.delete_discarded().await?;
        for name in self.made.deleted_pools.clone() {
            let Some(owner) = self.config.pool(&name).map(|p| p.controller) else { continue };
            let lines = self.ask(owner, Control::DeletePool(name.clone())).await?;
            let mut config = self.config.clone();
            config.pools.retain(|p| p.name != name);
            let applied = self.apply(config).await?;
            done.extend(lines.into_iter().chain(applied));
        }
        for (name, deleted) in self.made.deleted_groups.clone() {
            let owner = self.config.owner_of_group(&name);
            let delete = Control::DeleteGroup { name: name.clone(), deleted };
            done.extend(self.ask(owner, delete).await?);
            done.extend(self.forget_group(&name));
        }
        Ok(done)
    }
}
