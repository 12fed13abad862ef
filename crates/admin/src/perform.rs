//! How a change is made: work is asked for, what is declared becomes the next declaration. The array keeps it
//! before it takes effect, and takes back what a failure leaves.

use std::path::Path;

use array::{Array, ControlError, DriveSpec, Steer};
use config::{ArrayId, Config, Made};

use crate::change;
use crate::drift::{changes, merged};
use crate::own_files::refuse_own_files;
use crate::preview::{later, preview};
use crate::request::{Change, Work};
use crate::takeover::{self, NewFiles};

/// Why nothing was done, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PerformError {
    /// What is asked for cannot be, whatever the array is.
    Invalid(String),
    /// The array, or what it has, refuses it.
    Refused(String),
}

impl From<String> for PerformError {
    fn from(text: String) -> PerformError {
        PerformError::Refused(text)
    }
}

/// Makes a change; gives a line for each thing that was done, or one line that says why nothing was.
pub(crate) async fn perform(
    array: &mut Array,
    change: &Change,
    dir: &Path,
) -> Result<Vec<String>, PerformError> {
    let done = match change {
        Change::VolumeDelete { name } => array.delete_volume(name).await,
        Change::SnapshotDelete { name } => array.delete_snapshot(name).await,
        Change::SnapshotCreate { volume, name } => array.clone_volume(volume, name).await,
        Change::GroupScrub { name } => array.scrub(name).await,
        Change::GroupWork { name, work } => array.steer_work(name, steer_of(*work)).await,
        Change::VolumeReclaim { name } => array.reclaim(name).await,
        Change::PoolRebalance { name } => array.rebalance(name).await,
        Change::PoolMove { name, controller } => array.move_pool(name, *controller).await,
        Change::PoolRemoveGroup { pool, group } => array.remove_group(pool, group).await,
        Change::PoolDelete { name } => array.delete_pool(name).await,
        Change::GroupDelete { name } => array.delete_group(name).await,
        Change::PoolExport { name } => array.export_pool(name).await,
        Change::PoolImport { drives, force } => {
            let drives: Result<Vec<DriveSpec>, String> =
                drives.iter().map(|path| change::drive_spec(path, None, dir)).collect();
            array.import_pool(drives?, *force).await
        }
        Change::ConfigImport { text, plan } => return Ok(import(array, text, *plan, dir).await?),
        Change::DryRun { of } => return Ok(preview(array, of, dir).await?),
        Change::DriveReplace { .. } => return Ok(replace(array, change, dir).await?),
        declared => {
            if let Some(line) = change::hosts::mapped_already(array.config(), declared) {
                return Ok(vec![line]);
            }
            let next = change::next(array.config(), declared, dir).map_err(PerformError::Invalid)?;
            refuse_own_files(array.config(), &next, dir).await?;
            if let Change::VolumeCreate { name, .. } = declared {
                array.refuse_undeclared(name).await.map_err(|e| PerformError::Refused(e.to_string()))?;
            }
            let new = takeover::new_drives(array, &next);
            let names: Vec<String> = match change::overwrites(declared) {
                true => new.iter().map(|drive| drive.name.clone()).collect(),
                false => Vec::new(),
            };
            if names.is_empty() {
                takeover::refuse_used(&new).await?;
            }
            let (files, before) = (NewFiles::of(&new).await, array.config().clone());
            let applied = array.apply_over(next, &names).await;
            if applied.is_err() {
                files.remove(array.config()).await;
            }
            // What only the declaration has is told, too.
            applied.map(|done| if done.is_empty() { changes(&before, array.config()) } else { done })
        }
    };
    done.map_err(|e| PerformError::Refused(e.to_string()))
}

fn steer_of(work: Work) -> Steer {
    match work {
        Work::Pause => Steer::Pause,
        Work::Resume => Steer::Resume,
        Work::StopScrub => Steer::StopScrub,
    }
}

/// Puts a declaration in force; or says in what the array would differ from what it is now.
pub(crate) async fn import(
    array: &mut Array,
    text: &str,
    plan: bool,
    dir: &Path,
) -> Result<Vec<String>, String> {
    let declared = Config::parse(text, "the declaration", dir).map_err(|e| e.to_string())?;
    // What the array is now is the base: whatever the declaration says otherwise counts.
    let now = array.config().clone();
    let mut next = merged(&now, &now, &declared, dir).map_err(|e| e.to_string())?;
    // An array with nothing of its own becomes the one that was exported: its drives know it by its id.
    let becomes = now.drives.is_empty() && now.images.is_empty() && declared.id != ArrayId::default();
    if becomes {
        next.id = declared.id;
    }
    if plan {
        let mut lines = changes(&now, &next);
        refuse_own_files(&now, &next, dir).await?;
        if !becomes {
            now.check_new_names(&next).map_err(|e| e.to_string())?;
        }
        lines.extend(later(array, &next).await?);
        lines.extend(found_with_data(array, &next).await?);
        if !becomes {
            takeover::refuse_used(&takeover::new_drives(array, &next)).await?;
        }
        return Ok(lines);
    }
    if becomes {
        array.adopt(Made::all_of(&next));
        let applied = array.apply(next).await;
        if applied.is_err() {
            array.adopt(Made::default());
        }
        return applied.map_err(|e| e.to_string());
    }
    now.check_new_names(&next).map_err(|e| e.to_string())?;
    refuse_own_files(&now, &next, dir).await?;
    let new = takeover::new_drives(array, &next);
    takeover::refuse_used(&new).await?;
    let files = NewFiles::of(&new).await;
    let applied = array.apply(next).await;
    if applied.is_err() {
        files.remove(array.config()).await;
    }
    applied.map_err(|e| e.to_string())
}

/// The volumes of a declaration that its pools have already, which no declaration had.
async fn found_with_data(array: &Array, next: &Config) -> Result<Vec<String>, String> {
    let parts = array.overview().await.map_err(|e| e.to_string())?;
    let found = parts.iter().flat_map(|part| &part.undeclared);
    let found = found.filter(|(pool, name)| next.volume(name).is_some_and(|v| v.pool == *pool));
    let line = |(pool, name): &(String, String)| {
        format!("volume {name}: is in pool {pool} already: it would be opened with its data")
    };
    Ok(found.map(line).collect())
}

async fn replace(array: &mut Array, change: &Change, dir: &Path) -> Result<Vec<String>, String> {
    let Change::DriveReplace { group, old, new, drive_bytes, overwrite } = change else {
        return Err("not a replacement of a drive".into());
    };
    let (next, new) = change::replacement(array.config(), (group, old, new), *drive_bytes, dir)?;
    refuse_own_files(array.config(), &next, dir).await?;
    let taken = takeover::new_drives(array, &next);
    if !overwrite {
        takeover::refuse_used(&taken).await?;
    }
    let files = NewFiles::of(&taken).await;
    let before = array.config().clone();
    let replaced = match array.apply(next).await {
        Ok(mut done) => match array.replace_drive(group, old, &new, *overwrite).await {
            Ok(lines) => {
                done.extend(lines);
                // What is behind the name is another device from now on.
                done.extend(array.forget_device(&new));
                Ok(done)
            }
            // The drive that did not fit is declared no longer.
            Err(error) => Err(match array.apply(before).await {
                Ok(_) => error.to_string(),
                Err(left) => still_declared(&error, &new, &left),
            }),
        },
        Err(error) => Err(error.to_string()),
    };
    if replaced.is_err() {
        files.remove(array.config()).await;
    }
    replaced
}

/// Why a drive was not replaced, and why the one that did not fit is still declared.
fn still_declared(refused: &ControlError, new: &str, left: &ControlError) -> String {
    format!("{refused}; drive {new} is still declared, and of no group ({left}): masu drive forget {new}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replacement_that_cannot_be_taken_back_says_both_why() {
        let failed = |place: &str, cause: &str| ControlError::failed(place, cause);
        let said = still_declared(&failed("group \"g\"", "too small"), "n", &failed("state", "no space"));
        for part in ["group \"g\": too small", "drive n is still declared", "state: no space", "forget n"] {
            assert!(said.contains(part), "{said}");
        }
    }
}
