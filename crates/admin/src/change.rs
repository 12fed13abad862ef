//! What a change means for the declaration: pure, from one [`Config`] to the next.

mod caching;
pub(crate) mod hosts;
mod images;
mod policies;

use std::path::{Path, PathBuf};

use array::{DriveSpec, RbdImage};
use config::{
    Config, DriveConfig, FOREGROUND_SHARE_PERCENT_DEFAULT, GroupConfig, Level, PoolConfig, Provisioning,
    VolumeConfig, stripe_unit_bytes_default,
};

use crate::request::Change;

/// The next declaration, or one line that says why not. Work and what moves data are no declarations: see
/// `server`.
pub(crate) fn next(config: &Config, change: &Change, data_dir: &Path) -> Result<Config, String> {
    let mut next = config.clone();
    match change {
        Change::PoolCreate { .. }
        | Change::PoolThreshold { .. }
        | Change::PoolPlacement { .. }
        | Change::PoolAddGroup { .. } => {
            change_pools(&mut next, change)?;
        }
        Change::GroupCreate { .. }
        | Change::GroupForegroundShare { .. }
        | Change::GroupClass { .. }
        | Change::SpareAdd { .. }
        | Change::SpareRemove { .. }
        | Change::DriveForget { .. } => change_drives(&mut next, change, data_dir)?,
        Change::VolumeCreate { name, pool, size_bytes, thick, block_bytes } => {
            next.volumes.push(VolumeConfig {
                provisioning: if *thick { Provisioning::Thick } else { Provisioning::Thin },
                block_bytes: *block_bytes,
                ..VolumeConfig::new(
                    name.clone(),
                    pool.clone().map_or_else(|| only_pool(config), Ok)?,
                    *size_bytes,
                )
            })
        }
        Change::VolumeGrow { name, size_bytes } => {
            let volume = next.volumes.iter_mut().find(|v| v.name == *name);
            let volume = volume.ok_or(format!("unknown volume {name:?}"))?;
            if *size_bytes < volume.len_bytes {
                return Err(format!(
                    "volume {name:?} has {} bytes: a volume does not shrink",
                    volume.len_bytes
                ));
            }
            volume.len_bytes = *size_bytes;
        }
        Change::VolumeSet { .. } | Change::CachePartitionSet { .. } | Change::CachePartitionRemove { .. } => {
            caching::change(&mut next, change)?;
        }
        Change::PolicyCreate { .. }
        | Change::PolicySet { .. }
        | Change::PolicyAttach { .. }
        | Change::PolicyDetach { .. }
        | Change::PolicyDelete { .. } => policies::change(&mut next, change)?,
        Change::ImageAdd { .. } | Change::ImageRemove { .. } => images::change(&mut next, change, data_dir)?,
        Change::HostSet { .. } | Change::HostDelete { .. } | Change::Map { .. } | Change::Unmap { .. } => {
            hosts::change(&mut next, change)?;
        }
        _ => return Err("not a declaration".into()),
    }
    config.check_next(&next).map_err(|e| e.to_string())?;
    Ok(next)
}

/// Whether a change says that what is on the drives it takes may be erased.
pub(crate) fn overwrites(change: &Change) -> bool {
    matches!(change, Change::GroupCreate { overwrite: true, .. } | Change::SpareAdd { overwrite: true, .. })
}

fn only_pool(config: &Config) -> Result<String, String> {
    match config.pools.as_slice() {
        [pool] => Ok(pool.name.clone()),
        [] => Err("no pool: create one first".into()),
        _ => Err("there is more than one pool: name one".into()),
    }
}

/// The part of [`next`] that is about pools.
fn change_pools(next: &mut Config, change: &Change) -> Result<(), String> {
    match change {
        Change::PoolCreate {
            name,
            groups,
            page_bytes,
            soft_threshold_percent,
            critical_threshold_percent,
        } => next.pools.push(PoolConfig {
            page_bytes: *page_bytes,
            soft_threshold_percent: *soft_threshold_percent,
            critical_threshold_percent: *critical_threshold_percent,
            controller: next.pools.len() % next.controllers,
            ..PoolConfig::new(name.clone(), groups.clone())
        }),
        Change::PoolThreshold { name, soft_threshold_percent, critical_threshold_percent } => {
            let pool = pool(next, name)?;
            pool.soft_threshold_percent = *soft_threshold_percent;
            if let Some(critical) = critical_threshold_percent {
                pool.critical_threshold_percent = *critical;
            }
        }
        Change::PoolPlacement { name, on } => pool(next, name)?.placement = *on,
        Change::PoolAddGroup { pool: name, group } => {
            if !next.groups.iter().any(|g| g.name == *group) {
                return Err(format!("unknown group {group:?}: create it first"));
            }
            let pool = pool(next, name)?;
            if pool.groups.contains(group) {
                return Err(format!("group {group:?} is in pool {name:?} already"));
            }
            // A group that was leaving stays.
            pool.leaving.retain(|g| g != group);
            pool.groups.push(group.clone());
        }
        _ => return Err("not a change of a pool".into()),
    }
    Ok(())
}

fn pool<'a>(config: &'a mut Config, name: &str) -> Result<&'a mut PoolConfig, String> {
    config.pools.iter_mut().find(|p| p.name == name).ok_or(format!("unknown pool {name:?}"))
}

/// The part of [`next`] that is about drives and groups.
fn change_drives(next: &mut Config, change: &Change, data_dir: &Path) -> Result<(), String> {
    match change {
        Change::GroupCreate { name, level, drives, drive_bytes, .. } => {
            let level = Level::named(level)?;
            let names: Vec<String> = (0..drives.len()).map(|i| format!("{name}-{i}")).collect();
            for (drive, path) in names.iter().zip(drives) {
                next.drives.push(drive_at(drive, path, *drive_bytes, data_dir)?);
            }
            add_group(next, change, level, names)?;
        }
        Change::GroupForegroundShare { name, percent } => {
            let group = next.groups.iter_mut().find(|g| g.name == *name);
            group.ok_or(format!("unknown group {name:?}"))?.foreground_share_percent = *percent;
        }
        Change::GroupClass { name, class } => {
            let group = next.groups.iter_mut().find(|g| g.name == *name);
            group.ok_or(format!("unknown group {name:?}"))?.class = *class;
        }
        Change::SpareAdd { name, path, drive_bytes, .. } => {
            next.drives.push(drive_at(name, path, *drive_bytes, data_dir)?);
            next.spares.push(name.clone());
        }
        Change::SpareRemove { name } => {
            if !next.spares.contains(name) {
                return Err(format!("drive {name:?} is not a spare"));
            }
            forget_drive(next, name)?;
        }
        Change::DriveForget { name } => forget_drive(next, name)?,
        _ => return Err("not a change of a drive".into()),
    }
    Ok(())
}

/// The declaration without a drive that is in no group and no cache.
fn forget_drive(next: &mut Config, name: &str) -> Result<(), String> {
    if !next.drives.iter().any(|d| d.name == name) {
        return Err(format!("unknown drive {name:?}"));
    }
    if let Some(group) = next.groups.iter().find(|g| g.drives.iter().any(|d| d == name)) {
        let group = &group.name;
        return Err(format!(
            "drive {name:?} has a place in group {group:?}: give it to another one first, masu group replace {group} {name} NEW"
        ));
    }
    if next.cache.as_ref().is_some_and(|c| c.ssds.iter().any(|ssd| ssd == name)) {
        return Err(format!("drive {name:?} is an SSD of the cache: declare the cache without it first"));
    }
    next.spares.retain(|s| s != name);
    next.drives.retain(|d| d.name != name);
    Ok(())
}

fn add_group(next: &mut Config, change: &Change, level: Level, drives: Vec<String>) -> Result<(), String> {
    let Change::GroupCreate { name, stripe_unit_bytes, foreground_share_percent, .. } = change else {
        return Err("not a new group".into());
    };
    let unit = match stripe_unit_bytes {
        Some(bytes) => u32::try_from(*bytes).map_err(|_| "the stripe unit is too large".to_owned())?,
        None => stripe_unit_bytes_default(level, drives.len()),
    };
    next.groups.push(GroupConfig {
        stripe_unit_bytes: unit,
        foreground_share_percent: foreground_share_percent.unwrap_or(FOREGROUND_SHARE_PERCENT_DEFAULT),
        ..GroupConfig::new(name.clone(), level, drives)
    });
    Ok(())
}

fn drive_at(
    name: &str,
    path: &str,
    drive_bytes: Option<u64>,
    data_dir: &Path,
) -> Result<DriveConfig, String> {
    Ok(DriveConfig { name: name.into(), spec: drive_spec(path, drive_bytes, data_dir)? })
}

/// What is at a path: a device, a Ceph RBD image, or a file that is made with `drive_bytes` when it is not
/// there.
///
/// # Errors
/// It begins as the name of an RBD image, and is none.
pub(crate) fn drive_spec(path: &str, drive_bytes: Option<u64>, data_dir: &Path) -> Result<DriveSpec, String> {
    if RbdImage::is_named_by(path) {
        let image: RbdImage = path.parse()?;
        let conf = image.conf.as_ref().map(|conf| data_dir.join(conf));
        return Ok(DriveSpec::Rbd(RbdImage { conf, ..image }));
    }
    Ok(match path.starts_with("/dev/") {
        true => DriveSpec::Device { path: PathBuf::from(path) },
        false => DriveSpec::File { path: data_dir.join(path), create_len_bytes: drive_bytes },
    })
}

/// The declaration with the drive that is to replace `old` in it, and that drive's name: a declared one, or a
/// new one at the path.
pub(crate) fn replacement(
    config: &Config,
    (group, old, new): (&str, &str, &str),
    drive_bytes: Option<u64>,
    data_dir: &Path,
) -> Result<(Config, String), String> {
    let mut next = config.clone();
    let members = config.groups.iter().find(|g| g.name == group);
    let members = &members.ok_or(format!("unknown group {group:?}"))?.drives;
    if !members.iter().any(|d| d == old) {
        return Err(format!("group {group:?} has no drive {old:?}: it has {}", members.join(", ")));
    }
    // The same name: the medium behind it was exchanged.
    if config.drives.iter().any(|d| d.name == new) {
        if new != old
            && let Some(owner) = config.groups.iter().find(|g| g.drives.iter().any(|d| d == new))
        {
            return Err(format!("drive {new:?} is in group {:?} already", owner.name));
        }
        return Ok((next, new.into()));
    }
    let like_old = config.drives.iter().find(|d| d.name == old).and_then(|d| match &d.spec {
        DriveSpec::File { create_len_bytes, .. } => *create_len_bytes,
        _ => None,
    });
    let taken = |name: &String| config.drives.iter().any(|d| d.name == *name);
    let name = (0..).map(|i| format!("{group}-{i}")).find(|name| !taken(name)).unwrap_or_default();
    next.drives.push(drive_at(&name, new, drive_bytes.or(like_old), data_dir)?);
    next.check().map_err(|e| e.to_string())?;
    Ok((next, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let mut text = String::from("spares = [\"s0\"]\n");
        for drive in ["d0", "d1", "d2", "s0", "other"] {
            text += &format!("[[drive]]\nname = \"{drive}\"\nfile = \"{drive}.img\"\nsize = \"1GiB\"\n");
        }
        text += "[[group]]\nname = \"g0\"\nlevel = \"raid5\"\ndrives = [\"d0\", \"d1\", \"d2\"]\n\
            [[pool]]\nname = \"p0\"\ngroups = [\"g0\"]\n";
        Config::parse(&text, "array.toml", Path::new("/data")).expect("good")
    }

    fn check_replacement(new: &str, expected: Result<&str, &str>) {
        let before = config();
        match (replacement(&before, ("g0", "d1", new), None, Path::new("/data")), expected) {
            (Ok((_, name)), Ok(expected)) => assert_eq!(name, expected),
            (Err(text), Err(expected)) => {
                assert!(text.contains(expected), "{text:?} does not say {expected:?}")
            }
            (found, expected) => panic!("{new}: {found:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn a_drive_is_replaced_by_a_declared_one_or_by_one_at_a_path() {
        check_replacement("s0", Ok("s0"));
        check_replacement("d1", Ok("d1"));
        check_replacement("d0", Err("is in group \"g0\" already"));
        check_replacement("new.img", Ok("g0-0"));
        let (next, name) =
            replacement(&config(), ("g0", "d1", "new.img"), None, Path::new("/data")).expect("a new one");
        let spec = &next.drives.iter().find(|d| d.name == name).expect("declared").spec;
        let expected =
            DriveSpec::File { path: PathBuf::from("/data/new.img"), create_len_bytes: Some(1 << 30) };
        assert_eq!(*spec, expected, "as large as the one that leaves");
        assert!(replacement(&config(), ("g0", "d9", "s0"), None, Path::new("/data")).is_err());
    }

    #[test]
    fn a_path_may_name_an_image_of_a_ceph_cluster() {
        let spec = |path: &str| drive_spec(path, Some(1 << 30), Path::new("/data"));
        let Ok(DriveSpec::Rbd(image)) = spec("rbd:vms/d0:id=masu:conf=b.conf") else { panic!("an image") };
        assert_eq!((image.path().as_str(), image.user.as_deref()), ("vms/d0", Some("masu")));
        assert_eq!(image.conf, Some("/data/b.conf".into()), "as files are");
        let refused = spec("rbd:vms").expect_err("no image");
        assert!(refused.contains("must be POOL/IMAGE"), "{refused}");
        check_replacement("rbd:vms/d0:x", Err("invalid option"));
    }

    #[test]
    fn spares_and_groups_come_and_go_in_the_declaration() {
        let dir = Path::new("/data");
        let spare = Change::SpareAdd {
            name: "s1".into(),
            path: "/dev/sdx".into(),
            drive_bytes: None,
            overwrite: false,
        };
        let with = next(&config(), &spare, dir).expect("a spare");
        assert_eq!(with.spares, ["s0", "s1"]);
        let without = next(&with, &Change::SpareRemove { name: "s1".into() }, dir).expect("removed");
        assert_eq!(without, config());
        assert!(next(&config(), &Change::SpareRemove { name: "d0".into() }, dir).is_err());
        let forget = |name: &str| next(&with, &Change::DriveForget { name: name.into() }, dir);
        assert_eq!(forget("s1"), Ok(without));
        let refused = forget("d0").expect_err("a group uses it");
        assert!(refused.contains("masu group replace g0 d0 NEW"), "{refused}");
        assert_eq!(forget("x"), Err("unknown drive \"x\"".into()));
        let again = Change::PoolAddGroup { pool: "p0".into(), group: "g0".into() };
        assert!(next(&config(), &again, dir).is_err(), "it is in it");
    }

    /// `--help` could be created, and no command could name it.
    #[test]
    fn what_would_be_an_option_or_a_directory_is_no_name() {
        let create = |name: &str| Change::VolumeCreate {
            name: name.into(),
            pool: None,
            size_bytes: 8 << 20,
            thick: false,
            block_bytes: 512,
        };
        for name in ["--help", "-v", ".", "..", "a\nb", "a b", ""] {
            let refused = next(&config(), &create(name), Path::new("/data")).expect_err(name);
            assert!(["invalid name", "a name"].iter().any(|said| refused.contains(said)), "{refused}");
        }
        for name in ["v", ".v", "_v", "0", "a-b"] {
            next(&config(), &create(name), Path::new("/data")).expect(name);
        }
        // An earlier version took it: what is in force stays, and can be changed.
        let mut old = config();
        old.hosts.push(config::HostConfig::new("-h".into(), "*".into(), [].into()));
        next(&old, &create("v"), Path::new("/data")).expect("beside it");
    }
}
