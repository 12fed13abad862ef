//! What the declaration says against a change of volumes and pools that the engine makes: the same for the
//! change and for its dry run. Pure.

use crate::config::{Config, GroupConfig, PoolConfig, VolumeConfig};
use world::DriveSpec;

use crate::control::ControlError;

/// A volume that may be deleted, with the controller that owns it.
///
/// # Errors
/// No such volume, or it is mapped to a host.
pub fn deletable<'a>(config: &'a Config, name: &str) -> Result<(&'a VolumeConfig, usize), ControlError> {
    let fail = ControlError::at(format!("volume {name:?}"));
    let (Some(owner), Some(volume)) = (config.owner_of(name), config.volume(name)) else {
        return Err(fail(&"not found"));
    };
    match config.hosts.iter().find(|h| h.luns.values().any(|v| v == name)) {
        Some(host) => Err(fail(&format!("mapped to host {:?}; unmap it first", host.name))),
        None => Ok((volume, owner)),
    }
}

/// Refuses what is not a snapshot.
///
/// # Errors
/// No such snapshot, or it is a volume.
pub fn must_be_snapshot(config: &Config, name: &str) -> Result<(), ControlError> {
    let fail = ControlError::at(format!("snapshot {name:?}"));
    match config.volume(name) {
        None => Err(fail(&"not found")),
        Some(volume) if volume.snapshot_of.is_none() => {
            Err(fail(&"not a snapshot but a volume; `masu volume delete` deletes a volume with its data"))
        }
        Some(_) => Ok(()),
    }
}

/// The declaration with a volume that shares the pages of another.
///
/// # Errors
/// No such volume, or the name is in use.
pub fn with_clone(config: &Config, from: &str, to: &str) -> Result<Config, ControlError> {
    let fail = ControlError::at(format!("volume {from:?}"));
    let source = config.volume(from).ok_or_else(|| fail(&"not found"))?;
    let mut next = config.clone();
    let snapshot_of = Some(from.to_owned());
    next.volumes.push(VolumeConfig { name: to.into(), snapshot_of, ..source.clone() });
    config.check_next(&next)?;
    Ok(next)
}

/// The declaration with a pool at another controller.
///
/// # Errors
/// No such pool or controller, or the pool is on memory drives.
pub fn with_controller(config: &Config, pool: &str, controller: usize) -> Result<Config, ControlError> {
    let fail = ControlError::at(format!("pool {pool:?}"));
    let mut next = config.clone();
    let Some(declared) = next.pools.iter_mut().find(|p| p.name == pool) else {
        return Err(fail(&"not found"));
    };
    declared.controller = controller;
    let used: Vec<&String> = declared.all_groups().collect();
    let drives = config.groups.iter().filter(|g| used.contains(&&g.name)).flat_map(|g| &g.drives);
    let is_memory = |name: &&String| {
        config.drives.iter().any(|d| d.name == **name && matches!(d.spec, DriveSpec::Memory { .. }))
    };
    if let Some(drive) = drives.into_iter().find(is_memory) {
        return Err(fail(&format!(
            "drive {drive:?} is a memory drive: another controller would find it empty"
        )));
    }
    next.check()?;
    Ok(next)
}

/// The declaration with a group that leaves its pool.
///
/// # Errors
/// No such pool, or the group is not in it.
pub fn with_leaving(config: &Config, pool: &str, group: &str) -> Result<Config, ControlError> {
    let fail = ControlError::at(format!("pool {pool:?}"));
    let mut next = config.clone();
    let Some(declared) = next.pools.iter_mut().find(|p| p.name == pool) else {
        return Err(fail(&"not found"));
    };
    if !declared.groups.iter().any(|g| g == group) {
        return Err(fail(&format!("group {group:?} is not in this pool")));
    }
    declared.groups.retain(|g| g != group);
    declared.leaving.push(group.into());
    Ok(next)
}

/// So many volumes of a pool are named in a refusal.
const NAMED_MAX: usize = 3;

/// A pool that has no volumes.
///
/// # Errors
/// No such pool, or volumes or snapshots are in it.
pub fn deletable_pool<'a>(config: &'a Config, name: &str) -> Result<&'a PoolConfig, ControlError> {
    let fail = ControlError::at(format!("pool {name:?}"));
    let Some(declared) = config.pool(name) else { return Err(fail(&"not found")) };
    let own = || config.volumes.iter().filter(|v| v.pool == name);
    let named: Vec<String> = own().take(NAMED_MAX).map(|v| format!("{:?}", v.name)).collect();
    let more = match own().count() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match named.is_empty() {
        true => Ok(declared),
        false => Err(fail(&format!("in use by volume {}{more}; delete its volumes first", named.join(", ")))),
    }
}

/// A group that no pool uses.
///
/// # Errors
/// No such group, or it is a part of a pool, or the journal of one.
pub fn deletable_group<'a>(config: &'a Config, name: &str) -> Result<&'a GroupConfig, ControlError> {
    let fail = ControlError::at(format!("group {name:?}"));
    let Some(declared) = config.groups.iter().find(|g| g.name == name) else {
        return Err(fail(&"not found"));
    };
    let is = |group: &String| group == name;
    for pool in &config.pools {
        let cause = match () {
            () if pool.groups.iter().any(is) => {
                format!(
                    "in use by pool {0:?}; delete the pool, or move its pages away first: \
                    masu pool remove-group {0} {name}",
                    pool.name
                )
            }
            () if pool.leaving.iter().any(is) => {
                format!("still leaving pool {:?}; wait until it has left", pool.name)
            }
            () if pool.journal.iter().any(is) => {
                format!("in use as the journal of pool {:?}; delete the pool first", pool.name)
            }
            () => continue,
        };
        return Err(fail(&cause));
    }
    Ok(declared)
}

/// A pool whose volumes no host sees.
///
/// # Errors
/// No such pool, or a volume of it is mapped.
pub fn exportable<'a>(config: &'a Config, pool: &str) -> Result<&'a PoolConfig, ControlError> {
    let fail = || ControlError::at(format!("pool {pool:?}"));
    let declared = config.pool(pool).ok_or_else(|| fail()(&"not found"))?;
    let on_it = |v: &str| config.volume(v).is_some_and(|v| v.pool == pool);
    for host in &config.hosts {
        if let Some(volume) = host.luns.values().find(|v| on_it(v)) {
            let cause = format!("volume {volume:?} is mapped to host {:?}; unmap it first", host.name);
            return Err(fail()(&cause));
        }
    }
    Ok(declared)
}
