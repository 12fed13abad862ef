//! Pools that leave for another array, and that come from one. A record is stored before a label changes, so
//! that the next start completes an export or an import that a crash interrupts.
//!
//! | | an export | an import |
//! |---|---|---|
//! | 1 | the record is stored, and the pool stays declared in what is stored | the record is stored: the drives |
//! | 2 | the pool is closed | its owner opens the pool, closes it and labels its drives as its own |
//! | 3 | its drives are labelled as owned by no array | the declaration with the pool takes effect |
//! | 4 | a declaration without the pool is stored, and the record with it | the record is removed |
//!
//! A start that finds the record of an export before step 3 opens the pool as ever, its journal with it, and
//! exports it again. During step 3 some labels name no array any more, so the pool was closed, and what is
//! left is to write the others.

use std::collections::BTreeMap;

use world::DriveSpec;

use super::pools::without_groups;
use super::stored::also;
use super::unfinished::Unfinished;
use super::{Array, refusals};
use crate::config::{Config, DriveConfig, ImportedDrives, Made};
use crate::control::{Control, ControlError, Reply};

impl Array {
    /// Exports a pool: its volumes (which must not be mapped), groups and drives are no longer declared, and
    /// no array owns the drives.
    ///
    /// # Errors
    ///
    /// No such pool, or a volume of it is mapped, or the state cannot be stored. Nothing was changed then.
    pub async fn export_pool(&mut self, pool: &str) -> Result<Vec<String>, ControlError> {
        refusals::exportable(&self.config, pool)?;
        let before = (self.config.clone(), self.made.clone());
        let mut made = self.made.clone();
        made.exported_pools.insert(pool.into());
        self.keep_made(made)?;
        self.stored.pin();
        let exported = self.export_recorded(pool).await;
        self.stored.unpin();
        match exported {
            Ok(mut done) => {
                done.extend(self.stored.in_force_already(&self.config, &self.made));
                Ok(done)
            }
            Err(error) => Err(self.not_exported(before, error).await),
        }
    }

    /// The part of an export that only counts as a whole.
    async fn export_recorded(&mut self, pool: &str) -> Result<Vec<String>, ControlError> {
        let owner = refusals::exportable(&self.config, pool)?.controller;
        self.apply(self.without_exported(pool).await?).await?;
        self.ask(owner, Control::ExportPool(pool.into())).await
    }

    /// The declaration without a pool, its volumes, groups and drives.
    async fn without_exported(&self, pool: &str) -> Result<Config, ControlError> {
        // A group may have left.
        let parts = self.status().await?;
        let pools = parts.iter().flat_map(|part| &part.pools).filter(|p| p.name == pool);
        let open: Vec<&String> = pools.flat_map(|p| &p.group_spaces).map(|g| &g.name).collect();
        let declared: Vec<&String> = self.config.pool(pool).iter().flat_map(|p| &p.groups).collect();
        let groups = if open.is_empty() { declared } else { open };
        let mut config = self.config.clone();
        config.volumes.retain(|v| v.pool != pool);
        config.pools.retain(|p| p.name != pool);
        without_groups(&mut config, &parts, |name| groups.contains(&name));
        Ok(config)
    }

    /// The pool stays, as it was declared.
    async fn not_exported(&mut self, before: (Config, Made), error: ControlError) -> ControlError {
        let (config, made) = before;
        let restored = match self.config == config {
            true => self.keep_made(made),
            false => self.apply_with(config, made).await.map(drop),
        };
        match restored {
            Ok(()) => error,
            Err(left) => also(error, &format!("it is not served until a restart, and not exported: {left}")),
        }
    }

    /// Imports the pool on these drives, and declares drives, groups, pool and volumes as found.
    ///
    /// # Errors
    ///
    /// The drives hold no whole pool, or another array owns it (see `force`), or a name is already in use
    /// here, or the state cannot be stored. Nothing was changed then.
    pub async fn import_pool(
        &mut self,
        drives: Vec<DriveSpec>,
        force: bool,
    ) -> Result<Vec<String>, ControlError> {
        let key = drives.first().map(DriveSpec::name).unwrap_or_default();
        let named = drives.iter().map(|spec| (spec.name(), spec));
        let record = ImportedDrives {
            drives: named
                .map(|(name, spec)| (name.clone(), DriveConfig { name, spec: spec.clone() }))
                .collect(),
        };
        let mut made = self.made.clone();
        made.importing.insert(key.clone(), record);
        self.keep_made(made)?;
        let imported = self.import_recorded(drives, force, &key).await;
        match imported {
            Ok(done) => {
                self.unfinished.retain(|u| u.object != import_of(&key));
                Ok(done)
            }
            Err(error) => {
                self.made.importing.remove(&key);
                Err(match self.stored.in_force_already(&self.config, &self.made) {
                    None => error,
                    Some(later) => also(error, &later),
                })
            }
        }
    }

    /// An import whose record is stored; the record goes when the pool is declared.
    async fn import_recorded(
        &mut self,
        drives: Vec<DriveSpec>,
        force: bool,
        key: &str,
    ) -> Result<Vec<String>, ControlError> {
        let owner = self.config.pools.len() % self.controllers.len();
        let import = Control::ImportPool { drives: drives.clone(), force };
        let Reply::Imported(imported) = self.controllers[owner].ask(import).await? else { return Ok(vec![]) };
        let mut done = vec![format!("pool {}: imported", imported.pool.name)];
        let mut made = self.made.clone();
        made.importing.remove(key);
        match self.apply_with(imported.joined_to(&self.config), made).await {
            Ok(lines) => done.extend(lines),
            Err(error) => {
                let owners = imported.owners.clone();
                return Err(match self.ask(owner, Control::GiveBack { drives, owners }).await {
                    Ok(_) => error,
                    Err(left) => {
                        also(error, &format!("its drives may name this array as their owner: {left}"))
                    }
                });
            }
        }
        Ok(done)
    }

    /// Completes exports and imports that were interrupted in an earlier life.
    ///
    /// # Errors
    /// If an export cannot be completed now, for example while a group is resynced; to be tried again.
    pub(super) async fn finish_travels(&mut self) -> Result<Vec<String>, ControlError> {
        let mut done = Vec::new();
        for (key, record) in std::mem::take(&mut self.made.importing) {
            done.extend(self.finish_import(&key, &record.drives).await);
        }
        for name in self.made.exported_pools.clone() {
            done.extend(self.finish_export(&name).await?);
        }
        Ok(done)
    }

    async fn finish_import(&mut self, key: &str, drives: &BTreeMap<String, DriveConfig>) -> Vec<String> {
        // Never with force: whose the drives are by now is not known.
        let specs = drives.values().map(|drive| drive.spec.clone()).collect();
        match self.import_pool(specs, false).await {
            Ok(done) => done,
            Err(error) => {
                let paths: Vec<&str> = drives.keys().map(String::as_str).collect();
                self.unfinished.push(Unfinished {
                    object: import_of(key),
                    text: format!(
                        "was interrupted and is not complete, and its drives may name this array as their owner: {error}"
                    ),
                    to_do: format!("repair what that says and type it again: masu pool import {}", paths.join(" ")),
                });
                vec![]
            }
        }
    }

    async fn finish_export(&mut self, name: &str) -> Result<Vec<String>, ControlError> {
        let owner = match refusals::exportable(&self.config, name) {
            Ok(declared) => declared.controller,
            // It was declared otherwise since.
            Err(error) => {
                let mut made = self.made.clone();
                made.exported_pools.remove(name);
                self.keep_made(made)?;
                return Ok(vec![format!(
                    "pool {name}: its export, which was interrupted, is given up: {error}"
                )]);
            }
        };
        let parts = self.overview().await?;
        if parts.iter().flat_map(|part| &part.pools).any(|p| p.name == name) {
            return self.export_pool(name).await;
        }
        let next = self.without_exported(name).await?;
        let leaves = |d: &&DriveConfig| !next.drives.contains(d);
        let drives = self.config.drives.iter().filter(leaves).cloned().collect();
        let mut done = self.ask(owner, Control::FinishExport { name: name.into(), drives }).await?;
        // The record goes with the pool.
        done.extend(self.apply(next).await?);
        Ok(done)
    }

    /// What was interrupted and is not complete.
    pub fn unfinished(&self) -> Vec<Unfinished> {
        let exports = self.made.exported_pools.iter().map(|pool| Unfinished {
            object: format!("pool {pool}"),
            text: "its export was interrupted and is not complete".into(),
            to_do:
                "bring back its drives, or wait for the work on its groups: it is completed then by itself"
                    .into(),
        });
        exports.chain(self.unfinished.iter().cloned()).collect()
    }
}

fn import_of(first_drive: &str) -> String {
    format!("import of {first_drive}")
}
