//! What a change would do, without doing it: the checks of its declaration, of the drives that it takes, and
//! of what refuses a deletion. What only the engine finds out (a thick volume that finds no space, a drive
//! that cannot be opened) is found out when the change is made.

use std::path::Path;
use std::sync::Arc;

use array::{Array, refusals};
use config::Config;

use crate::change;
use crate::drift::changes;
use crate::own_files::refuse_own_files;
use crate::perform;
use crate::request::{Change, Work};
use crate::takeover;

/// A line for each thing that would be done, or one line that says why nothing would be.
pub(crate) async fn preview(array: &mut Array, change: &Change, dir: &Path) -> Result<Vec<String>, String> {
    let config = array.config();
    match change {
        Change::DryRun { .. } => Err("a dry run of a dry run".into()),
        Change::VolumeDelete { name } if config.volume(name).is_none() => {
            let found = array.undeclared(name).await.map_err(|e| e.to_string())?;
            found.map_or_else(|| delete_volume(config, name), |_| Ok(deleted(name)))
        }
        Change::VolumeDelete { name } => delete_volume(config, name),
        Change::SnapshotDelete { name } => {
            refusals::must_be_snapshot(config, name).map_err(|e| e.to_string())?;
            delete_volume(config, name)
        }
        Change::SnapshotCreate { volume, name } => {
            let lines = snapshot(config, volume, name)?;
            array.refuse_undeclared(name).await.map_err(|e| e.to_string())?;
            Ok(lines)
        }
        Change::GroupScrub { name } => of_group(config, name, "scrubbed"),
        Change::GroupWork { name, work } => {
            let what = match work {
                Work::Pause => "told to pause its work",
                Work::Resume => "told to go on with its work",
                Work::StopScrub => "told to stop its scrub",
            };
            of_group(config, name, what)
        }
        Change::VolumeReclaim { name } => match config.volume(name) {
            Some(_) => Ok(vec![format!("volume {name}: its pages of zeros would be released")]),
            None => Err(format!("volume {name:?}: not found")),
        },
        Change::PoolRebalance { name } => match config.pool(name) {
            Some(_) => Ok(vec![format!("pool {name}: its pages would be spread over its groups")]),
            None => Err(format!("pool {name:?}: not found")),
        },
        Change::PoolMove { name, controller } => move_pool(config, name, *controller),
        Change::PoolRemoveGroup { pool, group } => remove_group(config, pool, group),
        Change::PoolDelete { name } => delete_pool(config, name),
        Change::GroupDelete { name } => delete_group(config, name),
        Change::PoolExport { name } => export(config, name),
        Change::PoolImport { drives, .. } => {
            drives.iter().try_for_each(|path| change::drive_spec(path, None, dir).map(|_| ()))?;
            Ok(vec!["the pool on these drives would be imported, if they hold a whole one".into()])
        }
        Change::ConfigImport { text, .. } => perform::import(array, text, true, dir).await,
        Change::DriveReplace { group, old, new, drive_bytes, overwrite } => {
            let (next, new) = change::replacement(config, (group, old, new), *drive_bytes, dir)?;
            let mut lines = declared(array, &next, (*overwrite, dir)).await?;
            lines.push(format!("group {group}: drive {new} would replace {old}, and be rebuilt"));
            Ok(lines)
        }
        simple => {
            if let Some(line) = change::hosts::mapped_already(config, simple) {
                return Ok(vec![line]);
            }
            let next = change::next(config, simple, dir)?;
            if let Change::VolumeCreate { name, .. } = simple {
                array.refuse_undeclared(name).await.map_err(|e| e.to_string())?;
            }
            declared(array, &next, (change::overwrites(simple), dir)).await
        }
    }
}

/// What the next declaration changes; it is refused where a drive that it takes is in use otherwise.
async fn declared(
    array: &Array,
    next: &Config,
    (overwrite, dir): (bool, &Path),
) -> Result<Vec<String>, String> {
    refuse_own_files(array.config(), next, dir).await?;
    let mut lines = changes(array.config(), next);
    lines.extend(later(array, next).await?);
    let new = takeover::new_drives(array, next);
    match overwrite {
        true => lines
            .extend(new.iter().map(|drive| format!("drive {}: what is on it would be erased", drive.name))),
        false => takeover::refuse_used(&new).await?,
    }
    Ok(lines)
}

/// What of the next declaration only the next start would put in force, beside what is so already.
pub(crate) async fn later(array: &Array, next: &Config) -> Result<Vec<String>, String> {
    let of = async |config: &Config| {
        let config = Arc::new(config.clone());
        array::at_next_start(array.controllers(), &config).await.map_err(|e| e.to_string())
    };
    let known = of(array.config()).await?;
    Ok(of(next).await?.into_iter().filter(|line| !known.contains(line)).collect())
}

fn delete_volume(config: &Config, name: &str) -> Result<Vec<String>, String> {
    refusals::deletable(config, name).map_err(|e| e.to_string())?;
    Ok(deleted(name))
}

fn deleted(name: &str) -> Vec<String> {
    vec![format!("volume {name}: it and its data would be deleted")]
}

fn delete_pool(config: &Config, name: &str) -> Result<Vec<String>, String> {
    let pool = refusals::deletable_pool(config, name).map_err(|e| e.to_string())?;
    let groups: Vec<&str> = pool.groups.iter().chain(&pool.leaving).map(String::as_str).collect();
    Ok(vec![format!("pool {name}: would be deleted; group {} would be in no pool", groups.join(", "))])
}

fn delete_group(config: &Config, name: &str) -> Result<Vec<String>, String> {
    let group = refusals::deletable_group(config, name).map_err(|e| e.to_string())?;
    Ok(vec![format!("group {name}: would be deleted; drive {} would be erased", group.drives.join(", "))])
}

fn snapshot(config: &Config, volume: &str, name: &str) -> Result<Vec<String>, String> {
    refusals::with_clone(config, volume, name).map_err(|e| e.to_string())?;
    Ok(vec![format!("volume {name}: would be created as a snapshot of {volume}")])
}

fn of_group(config: &Config, name: &str, what: &str) -> Result<Vec<String>, String> {
    match config.groups.iter().any(|group| group.name == name) {
        true => Ok(vec![format!("group {name}: would be {what}")]),
        false => Err(format!("group {name:?}: not found")),
    }
}

fn remove_group(config: &Config, pool: &str, group: &str) -> Result<Vec<String>, String> {
    let next = refusals::with_leaving(config, pool, group).map_err(|e| e.to_string())?;
    next.check().map_err(|e| e.to_string())?;
    Ok(vec![format!("pool {pool}: group {group} would be evacuated, and leave the pool afterwards")])
}

fn move_pool(config: &Config, name: &str, controller: usize) -> Result<Vec<String>, String> {
    refusals::with_controller(config, name, controller).map_err(|e| e.to_string())?;
    let from = config.pool(name).map_or(controller, |pool| pool.controller);
    Ok(vec![match from == controller {
        true => format!("pool {name}: controller {controller} has it already"),
        false => format!("pool {name}: would move from controller {from} to controller {controller}"),
    }])
}

fn export(config: &Config, name: &str) -> Result<Vec<String>, String> {
    refusals::exportable(config, name).map_err(|e| e.to_string())?;
    Ok(vec![format!("pool {name}: it, its groups and its volumes would leave this array")])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let text = "[[drive]]\nname = \"d0\"\nfile = \"d0.img\"\nsize = \"1GiB\"\n\
            [[group]]\nname = \"g0\"\nlevel = \"raid0\"\ndrives = [\"d0\"]\n\
            [[pool]]\nname = \"p0\"\ngroups = [\"g0\"]\n\
            [[volume]]\nname = \"v0\"\npool = \"p0\"\nsize = \"8MiB\"\n\
            [[volume]]\nname = \"v1\"\npool = \"p0\"\nsize = \"8MiB\"\n\
            [[host]]\nname = \"h0\"\ninitiator = \"*\"\nluns = { 0 = \"v0\" }\n";
        Config::parse(text, "array.toml", Path::new("/data")).expect("good")
    }

    #[test]
    fn what_would_refuse_a_change_is_said() {
        let config = config();
        let refused = |outcome: Result<Vec<String>, String>, says: &str| {
            let error = outcome.expect_err("refused");
            assert!(error.contains(says), "{error}");
        };
        refused(delete_volume(&config, "v0"), "mapped to host \"h0\"");
        refused(delete_volume(&config, "v9"), "not found");
        refused(delete_pool(&config, "p0"), "volume \"v0\", \"v1\"; delete its volumes first");
        refused(delete_group(&config, "g0"), "in use by pool \"p0\"");
        refused(snapshot(&config, "v9", "s"), "not found");
        refused(snapshot(&config, "v0", "v1"), "volume \"v1\": exists already; choose another name");
        refused(remove_group(&config, "p0", "g9"), "not in this pool");
        refused(export(&config, "p0"), "mapped to host");
        refused(of_group(&config, "g9", "scrubbed"), "not found");
    }

    #[test]
    fn what_would_be_done_is_said() {
        let config = config();
        assert_eq!(delete_volume(&config, "v1").expect("a line").len(), 1);
        let empty = Config { volumes: vec![], hosts: vec![], ..config.clone() };
        let pool = delete_pool(&empty, "p0").expect("a line");
        assert_eq!(pool, ["pool p0: would be deleted; group g0 would be in no pool"]);
        let group = delete_group(&Config { pools: vec![], ..empty }, "g0").expect("a line");
        assert_eq!(group, ["group g0: would be deleted; drive d0 would be erased"]);
        assert_eq!(snapshot(&config, "v0", "s").expect("a line").len(), 1);
        assert_eq!(of_group(&config, "g0", "scrubbed").expect("a line"), ["group g0: would be scrubbed"]);
    }
}
