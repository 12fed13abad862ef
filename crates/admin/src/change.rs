//! What a change means for the declaration: pure, from one [`Config`] to the next.

use std::path::{Path, PathBuf};

use array::config::{
    ChapConfig, Config, DriveConfig, GroupConfig, HostConfig, LUN_MAX, Level, PoolConfig, Provisioning,
    VolumeConfig,
};
use array::{DriveSpec, Lun};

use crate::api::Change;

/// The next declaration, or one line that says why not. Deleting and cloning volumes are not declarations: see `server`.
pub(crate) fn next(config: &Config, change: &Change, data_dir: &Path) -> Result<Config, String> {
    let mut next = config.clone();
    match change {
        Change::PoolCreate { name, groups, page_bytes, soft_threshold_percent } => {
            next.pools.push(PoolConfig {
                name: name.clone(),
                groups: groups.clone(),
                page_bytes: *page_bytes,
                soft_threshold_percent: *soft_threshold_percent,
                controller: config.pools.len() % config.controllers,
            })
        }
        Change::PoolThreshold { name, soft_threshold_percent } => {
            let pool = next.pools.iter_mut().find(|p| p.name == *name);
            pool.ok_or(format!("there is no pool {name:?}"))?.soft_threshold_percent =
                *soft_threshold_percent;
        }
        Change::GroupCreate { name, level, drives, drive_bytes } => {
            add_group(&mut next, name, level, drives, *drive_bytes, data_dir)?;
        }
        Change::VolumeCreate { name, pool, size_bytes, thick, block_bytes } => {
            next.volumes.push(VolumeConfig {
                name: name.clone(),
                pool: pool.clone().map_or_else(|| only_pool(config), Ok)?,
                len_bytes: *size_bytes,
                provisioning: if *thick { Provisioning::Thick } else { Provisioning::Thin },
                block_bytes: *block_bytes,
                physical_block_bytes: 4096,
                read_only: false,
            })
        }
        Change::VolumeGrow { name, size_bytes } => {
            let volume = next.volumes.iter_mut().find(|v| v.name == *name);
            let volume = volume.ok_or(format!("there is no volume {name:?}"))?;
            if *size_bytes < volume.len_bytes {
                return Err(format!(
                    "volume {name:?} has {} bytes: a volume does not shrink",
                    volume.len_bytes
                ));
            }
            volume.len_bytes = *size_bytes;
        }
        Change::HostSet { .. } | Change::HostDelete { .. } | Change::Map { .. } | Change::Unmap { .. } => {
            change_hosts(&mut next, change)?;
        }
        Change::VolumeDelete { .. } | Change::SnapshotCreate { .. } => return Err("is no declaration".into()),
    }
    next.check().map_err(|e| e.to_string())?;
    Ok(next)
}

/// The part of [`next`] that is about hosts and what they see.
fn change_hosts(next: &mut Config, change: &Change) -> Result<(), String> {
    match change {
        Change::HostSet { name, initiator, chap, mutual_chap } => {
            let pair = |c: &(String, String)| ChapConfig { name: c.0.clone(), secret: c.1.clone() };
            let luns =
                next.hosts.iter().find(|h| h.name == *name).map(|h| h.luns.clone()).unwrap_or_default();
            next.hosts.retain(|h| h.name != *name);
            next.hosts.push(HostConfig {
                name: name.clone(),
                initiator: initiator.clone(),
                chap: chap.as_ref().map(pair),
                mutual_chap: mutual_chap.as_ref().map(pair),
                luns,
            });
        }
        Change::HostDelete { name } => {
            host(next, name)?;
            next.hosts.retain(|h| h.name != *name);
        }
        Change::Map { host: name, volume, lun } => {
            let host = host(next, name)?;
            let lun = match lun {
                Some(n) => Lun(*n),
                None => {
                    (0..=LUN_MAX).map(Lun).find(|l| !host.luns.contains_key(l)).ok_or("every LUN is taken")?
                }
            };
            if let Some(other) = host.luns.insert(lun, volume.clone()) {
                return Err(format!("LUN {} of host {name:?} is volume {other:?} already", lun.0));
            }
        }
        Change::Unmap { host: name, volume } => {
            let host = host(next, name)?;
            let before = host.luns.len();
            host.luns.retain(|_, v| v != volume);
            if host.luns.len() == before {
                return Err(format!("host {name:?} does not see volume {volume:?}"));
            }
        }
        _ => return Err("is no change of a host".into()),
    }
    Ok(())
}

fn only_pool(config: &Config) -> Result<String, String> {
    match config.pools.as_slice() {
        [pool] => Ok(pool.name.clone()),
        [] => Err("there is no pool: create one first".into()),
        _ => Err("there is more than one pool: name one".into()),
    }
}

fn host<'a>(config: &'a mut Config, name: &str) -> Result<&'a mut HostConfig, String> {
    config.hosts.iter_mut().find(|h| h.name == name).ok_or(format!("there is no host {name:?}"))
}

fn add_group(
    config: &mut Config,
    name: &str,
    level: &str,
    drives: &[String],
    drive_bytes: Option<u64>,
    data_dir: &Path,
) -> Result<(), String> {
    let level = match level {
        "raid0" => Level::Raid0,
        "raid1" => Level::Raid1,
        other => return Err(format!("{other:?} is no RAID level here: raid0 or raid1")),
    };
    let mut names = Vec::new();
    for (i, path) in drives.iter().enumerate() {
        let drive = format!("{name}-{i}");
        let spec = if path.starts_with("/dev/") {
            DriveSpec::Device { path: PathBuf::from(path) }
        } else {
            DriveSpec::File { path: data_dir.join(path), create_len_bytes: drive_bytes }
        };
        config.drives.push(DriveConfig { name: drive.clone(), spec });
        names.push(drive);
    }
    config.groups.push(GroupConfig { name: name.into(), level, drives: names, stripe_unit_bytes: 64 << 10 });
    Ok(())
}
