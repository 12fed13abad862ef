//! How a change is made: work is asked for, what is declared becomes the next declaration. The array keeps it before it takes effect,
//! and takes back what a failure leaves.

use std::path::Path;

use array::{Array, DriveSpec, Steer};

use crate::change;
use crate::declaration::Declaration;
use crate::drift::{changes, merged};
use crate::request::{Change, Work};
use crate::takeover;

/// Makes a change; gives a line for each thing that was done, or one line that says why nothing was.
pub(crate) async fn perform(array: &mut Array, change: &Change, dir: &Path) -> Result<Vec<String>, String> {
    let done = match change {
        Change::VolumeDelete { name } => array.delete_volume(name).await,
        Change::SnapshotDelete { name } => array.delete_snapshot(name).await,
        Change::SnapshotCreate { volume, name } => array.clone_volume(volume, name).await,
        Change::GroupScrub { name } => array.scrub(name).await,
        Change::GroupWork { name, work } => array.steer_work(name, steer_of(*work)).await,
        Change::VolumeReclaim { name } => array.reclaim(name).await,
        Change::PoolRebalance { name } => array.rebalance(name).await,
        Change::PoolRemoveGroup { pool, group } => array.remove_group(pool, group).await,
        Change::PoolExport { name } => array.export_pool(name).await,
        Change::PoolImport { drives, force } => {
            let drives: Vec<DriveSpec> =
                drives.iter().map(|path| change::drive_spec(path, None, dir)).collect();
            array.import_pool(drives, *force).await
        }
        Change::ConfigImport { text, plan } => return import(array, text, *plan, dir).await,
        Change::DriveReplace { .. } => return replace(array, change, dir).await,
        declared => {
            if let Some(line) = change::hosts::mapped_already(array.config(), declared) {
                return Ok(vec![line]);
            }
            let next = change::next(array.config(), declared, dir)?;
            let new = takeover::new_drives(array, &next);
            if !change::overwrites(declared) {
                takeover::refuse_used(&new).await?;
                array.apply(next).await
            } else {
                let names: Vec<String> = new.into_iter().map(|drive| drive.name).collect();
                array.apply_over(next, &names).await
            }
        }
    };
    done.map_err(|e| e.to_string())
}

fn steer_of(work: Work) -> Steer {
    match work {
        Work::Pause => Steer::Pause,
        Work::Resume => Steer::Resume,
        Work::StopScrub => Steer::StopScrub,
    }
}

/// Puts a declaration in force; or says in what the array would differ from what it is now.
async fn import(array: &mut Array, text: &str, plan: bool, dir: &Path) -> Result<Vec<String>, String> {
    let declared = Declaration::parse(text, "the declaration", dir).map_err(|e| e.to_string())?;
    // What the array is now is the base: whatever the declaration says otherwise counts.
    let now = array.config().clone();
    let next = merged(&now, &now, &declared, dir).map_err(|e| e.to_string())?;
    if plan {
        return Ok(changes(&now, &next));
    }
    takeover::refuse_used(&takeover::new_drives(array, &next)).await?;
    array.apply(next).await.map_err(|e| e.to_string())
}

async fn replace(array: &mut Array, change: &Change, dir: &Path) -> Result<Vec<String>, String> {
    let Change::DriveReplace { group, old, new, drive_bytes, overwrite } = change else {
        return Err("is no replacement of a drive".into());
    };
    let (next, new) = change::replacement(array.config(), (group, old, new), *drive_bytes, dir)?;
    if !overwrite {
        takeover::refuse_used(&takeover::new_drives(array, &next)).await?;
    }
    let before = array.config().clone();
    let mut done = array.apply(next).await.map_err(|e| e.to_string())?;
    match array.replace_drive(group, old, &new, *overwrite).await {
        Ok(lines) => done.extend(lines),
        Err(error) => {
            // The drive that did not fit is declared no longer.
            array.apply(before).await.map_err(|e| e.to_string())?;
            return Err(error.to_string());
        }
    }
    Ok(done)
}
