//! What a declaration must hold to: checked as a whole, before anything is touched.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use serde::Serialize;
use world::DriveSpec;

use crate::array::{CONTROLLERS_MAX, DRIVE_DROP_MS_MAX, DRIVE_SLOW_MS};
use crate::caching::{CACHE_BYTES_MIN, FRAME_BYTES, PARTITION_DEFAULT, PARTITION_NONE, PARTITIONS_MAX};
use crate::drives::{DriveConfig, FOREGROUND_SHARE_PERCENT, GroupConfig};
use crate::hosts::{LUN_MAX, SECRET_LEN, one_socket};
use crate::pools::PAGE_BYTES;
use crate::schema::NAME_LEN_MAX;
use crate::{Config, Level, names};

/// The memory holds so many writes of the largest size that it takes, at least: they are to wait for each
/// other's destage, not for their own.
const DIRECT_PARTS_MIN: u64 = 8;

/// The largest number that a declaration can have: integers of TOML are signed.
const NUMBER_MAX: u64 = i64::MAX as u64;
/// As of `--node`.
const NODE_NAME_LEN_MAX: usize = 128;
/// What a group can be made of, and a pool: the layers below refuse anything else (`raid/src/spec.rs`,
/// `pool/src/create.rs`).
const GROUP_DRIVES_MAX: usize = 32;
const STRIPE_UNIT_BYTES: RangeInclusive<u32> = 4 << 10..=4 << 20;
/// A drive in memory has whole blocks, so many bytes of them at most (`world_real/src/memory_drive.rs`).
const MEMORY_BLOCK_BYTES: u64 = 512;
const MEMORY_DRIVE_BYTES_MAX: u64 = 1 << 46;

/// Why a declaration is refused: what and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {cause}")]
pub struct ConfigError {
    /// Which object and key, as in `volume "v0": pool`.
    pub place: String,
    /// What is wrong.
    pub cause: String,
}

impl Config {
    /// Checks that names are good and unique, that every reference leads somewhere, and that nothing is used
    /// twice.
    ///
    /// # Errors
    ///
    /// The first fault, with the object that has it.
    pub fn check(&self) -> Result<(), ConfigError> {
        if !self.target.starts_with("iqn.")
            && !self.target.starts_with("eui.")
            && !self.target.starts_with("naa.")
        {
            return refuse(
                "target",
                format!("invalid iSCSI name {:?}: must begin with iqn., eui. or naa.", self.target),
            );
        }
        if self.controllers == 0 || self.controllers > CONTROLLERS_MAX {
            return refuse("controllers", format!("between 1 and {CONTROLLERS_MAX}"));
        }
        self.check_nodes()?;
        self.check_cache()?;
        self.traces.iter().try_for_each(|traces| traces.check().or_else(|cause| refuse("traces", cause)))?;
        self.check_portals()?;
        self.check_drives_and_groups()?;
        self.check_pools()?;
        self.check_policies()?;
        self.check_volumes()?;
        self.check_images()?;
        self.check_hosts()?;
        check_numbers("cache", self.cache.as_slice())?;
        check_numbers("drive", &self.drives)?;
        check_numbers("pool", &self.pools)?;
        check_numbers("policy", &self.policies)
    }

    fn check_nodes(&self) -> Result<(), ConfigError> {
        let (nodes, controllers) = (&self.controller_nodes, self.controllers);
        if nodes.len() > controllers {
            let cause =
                format!("{} nodes, and {controllers} controllers: a controller has one node", nodes.len());
            return refuse("controller_nodes", cause);
        }
        for name in nodes.iter().filter(|name| !name.is_empty()) {
            if let Err(cause) = new_name(name, NODE_NAME_LEN_MAX) {
                return refuse("controller_nodes", cause);
            }
        }
        Ok(())
    }

    fn check_cache(&self) -> Result<(), ConfigError> {
        let Some(cache) = &self.cache else { return Ok(()) };
        if cache.memory_bytes < CACHE_BYTES_MIN {
            return refuse("cache", format!("memory is {CACHE_BYTES_MIN} bytes at least"));
        }
        let most = cache.frames_bytes() / DIRECT_PARTS_MIN;
        if !(FRAME_BYTES..=most).contains(&cache.direct_bytes) {
            let cause = format!(
                "direct is {} bytes, and must be {FRAME_BYTES} at least and {most} at most: one write is to be a small part of the memory",
                cache.direct_bytes
            );
            return refuse("cache", cause);
        }
        check_names("partition", cache.partitions.iter().map(|p| &p.name))?;
        let room = cache.frames_bytes();
        let mut claimed = 0_u64;
        for (i, partition) in cache.partitions.iter().enumerate() {
            let place = format!("partition {:?}", partition.name);
            if [PARTITION_DEFAULT, PARTITION_NONE].contains(&partition.name.as_str()) {
                return refuse(
                    place,
                    "is what volumes are in that are in no other: it is always there".into(),
                );
            }
            if i + 1 >= usize::from(PARTITIONS_MAX) {
                return refuse(place, format!("there are {} partitions at most", PARTITIONS_MAX - 1));
            }
            claimed = claimed.saturating_add(partition.minimum_bytes);
            if claimed > room {
                let cause = format!(
                    "with it the minimums are {claimed} bytes together; the cache has {room}, the rest is for read-ahead"
                );
                return refuse(place, cause);
            }
        }
        Ok(())
    }

    fn check_portals(&self) -> Result<(), ConfigError> {
        for (i, portal) in self.portals.iter().enumerate() {
            let place = format!("portal {}", portal.listen);
            if portal.controller >= self.controllers {
                return refuse(place, no_controller(portal.controller, self.controllers));
            }
            match self.portals[..i].iter().find(|earlier| one_socket(earlier.listen, portal.listen)) {
                Some(earlier) if earlier.listen == portal.listen => {
                    return refuse(place, "declared twice".into());
                }
                Some(earlier) => {
                    let cause = format!("portal {} listens there, too: choose another port", earlier.listen);
                    return refuse(place, cause);
                }
                None => {}
            }
        }
        Ok(())
    }

    fn check_drives_and_groups(&self) -> Result<(), ConfigError> {
        let (slow, drop) = (self.drive_slow_ms, self.least_drop_ms());
        if !DRIVE_SLOW_MS.contains(&slow) {
            let (least, most) = (DRIVE_SLOW_MS.start(), DRIVE_SLOW_MS.end());
            return refuse("drive_slow_ms", format!("{slow} is not between {least} and {most}"));
        }
        if drop < 2 * slow || drop > DRIVE_DROP_MS_MAX {
            let cause =
                format!("{drop} is not between twice drive_slow_ms, {}, and {DRIVE_DROP_MS_MAX}", 2 * slow);
            return refuse("drive_drop_ms", cause);
        }
        check_names("drive", self.drives.iter().map(|d| &d.name))?;
        self.drives.iter().try_for_each(check_memory)?;
        check_names("group", self.groups.iter().map(|g| &g.name))?;
        let drives: BTreeSet<&str> = self.drives.iter().map(|d| d.name.as_str()).collect();
        let mut taken: BTreeMap<&str, &str> = BTreeMap::new();
        for group in &self.groups {
            let place = format!("group {:?}: drives", group.name);
            for drive in &group.drives {
                if !drives.contains(drive.as_str()) {
                    return refuse(place, format!("no drive {drive:?} is declared"));
                }
                if let Some(other) = taken.insert(drive, &group.name) {
                    return refuse(place, format!("drive {drive:?} is in group {other:?} already"));
                }
            }
            check_group(group)?;
        }
        check_names("spare", self.spares.iter())?;
        for spare in &self.spares {
            let place = format!("spare {spare:?}");
            if !drives.contains(spare.as_str()) {
                return refuse(place, format!("no drive {spare:?} is declared"));
            }
            if let Some(group) = taken.get(spare.as_str()) {
                return refuse(place, format!("the drive is in group {group:?}"));
            }
        }
        let ssds = self.cache.iter().flat_map(|c| &c.ssds);
        check_names("ssd", ssds.clone())?;
        for ssd in ssds {
            let place = "cache: ssds";
            if !drives.contains(ssd.as_str()) {
                return refuse(place, format!("no drive {ssd:?} is declared"));
            }
            if let Some(group) = taken.get(ssd.as_str()) {
                return refuse(place, format!("drive {ssd:?} is in group {group:?}"));
            }
            if self.spares.contains(ssd) {
                return refuse(place, format!("drive {ssd:?} is a spare"));
            }
        }
        Ok(())
    }

    fn check_pools(&self) -> Result<(), ConfigError> {
        check_names("pool", self.pools.iter().map(|p| &p.name))?;
        let groups: BTreeSet<&str> = self.groups.iter().map(|g| g.name.as_str()).collect();
        let mut taken: BTreeMap<&str, &str> = BTreeMap::new();
        for pool in &self.pools {
            let place = format!("pool {:?}", pool.name);
            if pool.groups.is_empty() {
                return refuse(place, "needs at least one group".into());
            }
            for group in pool.groups.iter().chain(&pool.leaving) {
                if !groups.contains(group.as_str()) {
                    return refuse(place, format!("no group {group:?} is declared"));
                }
                if let Some(other) = taken.insert(group, &pool.name) {
                    return refuse(
                        place,
                        format!("group {group:?} is in pool {other:?} already, or leaves it"),
                    );
                }
            }
            if let Some(journal) = &pool.journal {
                let place = format!("pool {:?}: journal", pool.name);
                if !groups.contains(journal.as_str()) {
                    return refuse(place, format!("no group {journal:?} is declared"));
                }
                if let Some(other) = taken.insert(journal, &pool.name) {
                    return refuse(place, format!("group {journal:?} is pool {other:?}'s already"));
                }
                if self.cache.is_none() {
                    return refuse(place, "needs a cache: [cache] memory = \"256MiB\"".into());
                }
            }
            if !pool.page_bytes.is_power_of_two() || !PAGE_BYTES.contains(&pool.page_bytes) {
                let place = format!("pool {:?}: page", pool.name);
                let cause = format!("{} bytes is not a power of two from 64 KiB to 16 MiB", pool.page_bytes);
                return refuse(place, cause);
            }
            if pool.controller >= self.controllers {
                return refuse(place, no_controller(pool.controller, self.controllers));
            }
            if !(1..=100).contains(&pool.soft_threshold_percent) {
                return refuse(place, "soft_threshold_percent is between 1 and 100".into());
            }
            if !(pool.soft_threshold_percent..=100).contains(&pool.critical_threshold_percent) {
                return refuse(
                    place,
                    "critical_threshold_percent is between soft_threshold_percent and 100".into(),
                );
            }
        }
        Ok(())
    }

    fn check_volumes(&self) -> Result<(), ConfigError> {
        check_names("volume", self.volumes.iter().map(|v| &v.name))?;
        let pools: BTreeSet<&str> = self.pools.iter().map(|p| p.name.as_str()).collect();
        let partitions = self.cache.iter().flat_map(|c| &c.partitions);
        let partitions: BTreeSet<&str> = partitions.map(|p| p.name.as_str()).collect();
        for volume in &self.volumes {
            let place = format!("volume {:?}", volume.name);
            if !pools.contains(volume.pool.as_str()) {
                return refuse(place, format!("no pool {:?} is declared", volume.pool));
            }
            if volume.block_bytes != 512 && volume.block_bytes != 4096 {
                let cause = format!("invalid block {}: must be 512 or 4096", volume.block_bytes);
                return refuse(place, cause);
            }
            if ![512, 4096].contains(&volume.physical_block_bytes)
                || volume.physical_block_bytes < volume.block_bytes
            {
                let cause = format!(
                    "invalid physical_block {}: must be 512 or 4096, and no less than block",
                    volume.physical_block_bytes
                );
                return refuse(place, cause);
            }
            if let Some(partition) = &volume.partition
                && !partitions.contains(partition.as_str())
            {
                return refuse(place, format!("no cache partition {partition:?} is declared"));
            }
            if volume.len_bytes > NUMBER_MAX {
                let cause = format!("size {} is too large: at most {NUMBER_MAX} bytes", volume.len_bytes);
                return refuse(place, cause);
            }
            if volume.len_bytes == 0 || !volume.len_bytes.is_multiple_of(4096) {
                let cause =
                    format!("invalid size {}: must be a positive multiple of 4096 bytes", volume.len_bytes);
                return refuse(place, cause);
            }
        }
        Ok(())
    }

    fn check_images(&self) -> Result<(), ConfigError> {
        let volumes = self.volumes.iter().map(|v| &v.name);
        check_names("image", volumes.chain(self.images.iter().map(|i| &i.name)))?;
        let mut files = BTreeSet::new();
        for image in &self.images {
            let place = format!("image {:?}", image.name);
            if image.controller >= self.controllers {
                return refuse(place, format!("unknown controller {}", image.controller));
            }
            if !files.insert(image.file()) {
                return refuse(place, "its file is another image's already".into());
            }
        }
        Ok(())
    }

    fn check_hosts(&self) -> Result<(), ConfigError> {
        check_names("host", self.hosts.iter().map(|h| &h.name))?;
        let volumes = self.volumes.iter().map(|v| v.name.as_str());
        let disks: BTreeSet<&str> = volumes.chain(self.images.iter().map(|i| i.name.as_str())).collect();
        let mut initiators = BTreeSet::new();
        for host in &self.hosts {
            let place = format!("host {:?}", host.name);
            if host.initiator != "*"
                && let Err(cause) = names::check(&host.initiator)
            {
                return refuse(place, format!("initiator {:?}: {cause}", host.initiator));
            }
            if !initiators.insert(&host.initiator) {
                return refuse(place, format!("initiator {:?} is another host's already", host.initiator));
            }
            if host.mutual_chap.is_some() && host.chap.is_none() {
                return refuse(place, "mutual_chap needs chap".into());
            }
            for chap in host.chap.iter().chain(&host.mutual_chap) {
                if !SECRET_LEN.contains(&chap.secret.len()) {
                    return refuse(
                        place,
                        format!(
                            "a CHAP secret has 12 to 255 bytes, {:?}'s has {}",
                            chap.name,
                            chap.secret.len()
                        ),
                    );
                }
            }
            if let (Some(own), Some(mutual)) = (&host.chap, &host.mutual_chap)
                && own.secret == mutual.secret
            {
                return refuse(place, "chap and mutual_chap must not share a secret (RFC 7143 9.2.1)".into());
            }
            for (lun, volume) in &host.luns {
                if *lun > LUN_MAX {
                    return refuse(place, format!("invalid LUN {lun}: must be at most {LUN_MAX}"));
                }
                if !disks.contains(volume.as_str()) {
                    return refuse(place, format!("LUN {lun}: no volume or image {volume:?} is declared"));
                }
            }
        }
        Ok(())
    }
}

/// Refuses what cannot be written down: a number above [`NUMBER_MAX`].
fn check_numbers<T: Serialize>(kind: &str, objects: &[T]) -> Result<(), ConfigError> {
    match objects.iter().try_for_each(|object| toml::Value::try_from(object).map(drop)) {
        Ok(()) => Ok(()),
        Err(_) => refuse(kind, format!("a number is too large: at most {NUMBER_MAX}")),
    }
}

/// The size of a drive in memory.
fn check_memory(drive: &DriveConfig) -> Result<(), ConfigError> {
    let DriveSpec::Memory { len_bytes, .. } = drive.spec else { return Ok(()) };
    let is_whole = len_bytes > 0 && len_bytes.is_multiple_of(MEMORY_BLOCK_BYTES);
    if !is_whole || len_bytes > MEMORY_DRIVE_BYTES_MAX {
        let place = format!("drive {:?}: size", drive.name);
        let cause =
            format!("{len_bytes} bytes in memory: must be whole blocks of 512 bytes, and 64 TiB at most");
        return refuse(place, cause);
    }
    Ok(())
}

/// The level, width and sizes of a group.
fn check_group(group: &GroupConfig) -> Result<(), ConfigError> {
    let place = format!("group {:?}: drives", group.name);
    let (least, n) = (group.level.drives_min(), group.drives.len());
    if n < least {
        return refuse(place, format!("{} needs at least {least} drives, not {n}", group.level));
    }
    if n > GROUP_DRIVES_MAX {
        return refuse(place, format!("a group has {GROUP_DRIVES_MAX} drives at most, not {n}"));
    }
    let unit = group.stripe_unit_bytes;
    if !unit.is_power_of_two() || !STRIPE_UNIT_BYTES.contains(&unit) {
        let place = format!("group {:?}: stripe_unit", group.name);
        return refuse(place, format!("{unit} bytes is not a power of two from 4 KiB to 4 MiB"));
    }
    if !FOREGROUND_SHARE_PERCENT.contains(&group.foreground_share_percent) {
        let (least, most) = (FOREGROUND_SHARE_PERCENT.start(), FOREGROUND_SHARE_PERCENT.end());
        return refuse(place, format!("foreground_share is between {least} and {most} percent"));
    }
    if group.level == Level::Raid10 && !n.is_multiple_of(2) {
        return refuse(place, format!("{} takes pairs of drives, not {n}", group.level));
    }
    Ok(())
}

/// Refuses names that no object may have, and those that stand there twice.
///
/// # Errors
/// The first of them.
pub fn check_names<'a>(kind: &str, names: impl Iterator<Item = &'a String>) -> Result<(), ConfigError> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !has_form(name, NAME_LEN_MAX) {
            let cause =
                format!("invalid name: must have 1 to {NAME_LEN_MAX} letters, digits, '-', '_' or '.'");
            return refuse(format!("{kind} {name:?}"), cause);
        }
        if !seen.insert(name) {
            return refuse(format!("{kind} {name:?}"), "declared twice".into());
        }
    }
    Ok(())
}

fn has_form(name: &str, len_max: usize) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && name.len() <= len_max && name.chars().all(good)
}

/// Whether something new may have this name: a volume, a pool, a node, whatever has one. A name is typed in
/// commands, where one with a hyphen at its begin is an option, and is a part of paths, where `.` and `..`
/// are directories. What has such a name from an earlier version keeps it.
///
/// # Errors
/// What a name must be.
pub fn new_name(name: &str, len_max: usize) -> Result<(), String> {
    if !has_form(name, len_max) {
        return Err(format!("invalid name: must have 1 to {len_max} letters, digits, '-', '_' or '.'"));
    }
    match name {
        "." | ".." => Err("a name, and not a directory, is needed".into()),
        _ if name.starts_with('-') => {
            Err("a name begins with a letter, a digit, '_' or '.': one with '-' would be an option".into())
        }
        _ => Ok(()),
    }
}

/// The names of all objects, each with its kind.
fn names_of(config: &Config) -> BTreeSet<(&'static str, &str)> {
    all_names_of(config).into_iter().collect()
}

/// The same, each as often as it is there.
fn all_names_of(config: &Config) -> Vec<(&'static str, &str)> {
    let partitions = config.cache.iter().flat_map(|c| &c.partitions).map(|p| ("partition", p.name.as_str()));
    let storage = config.drives.iter().map(|d| ("drive", d.name.as_str()));
    let storage = storage.chain(config.groups.iter().map(|g| ("group", g.name.as_str())));
    let storage = storage.chain(config.pools.iter().map(|p| ("pool", p.name.as_str())));
    let disks = config.volumes.iter().map(|v| ("volume", v.name.as_str()));
    let disks = disks.chain(config.images.iter().map(|i| ("image", i.name.as_str())));
    let others = config.hosts.iter().map(|h| ("host", h.name.as_str()));
    let others = others.chain(config.policies.iter().map(|p| ("policy", p.name.as_str())));
    storage.chain(disks).chain(others).chain(partitions).collect()
}

/// The names of all objects that the next declaration has once more than this one has them: each with its
/// kind.
fn taken(config: &Config, next: &Config) -> Option<(&'static str, String)> {
    let mut before = names_of(config);
    before.extend(config.volumes.iter().map(|v| ("image", v.name.as_str())));
    before.extend(config.images.iter().map(|i| ("volume", i.name.as_str())));
    let mut seen = BTreeSet::new();
    let next = all_names_of(next);
    // Volumes and images are LUs: they share their names.
    let shared = |kind: &'static str| if kind == "image" { "volume" } else { kind };
    let twice = next.into_iter().find(|(kind, name)| !seen.insert((shared(kind), *name)));
    twice.filter(|named| before.contains(named)).map(|(kind, name)| (kind, name.to_owned()))
}

impl Config {
    /// Checks a declaration that a command makes of this one: what it creates has a name that nothing has.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn check_next(&self, next: &Config) -> Result<(), ConfigError> {
        if let Some((kind, name)) = taken(self, next) {
            return refuse(format!("{kind} {name:?}"), "exists already; choose another name".into());
        }
        next.check()?;
        self.check_new_names(next)
    }

    /// Refuses names that the next declaration gives and that nothing new may have.
    ///
    /// # Errors
    /// The first of them.
    pub fn check_new_names(&self, next: &Config) -> Result<(), ConfigError> {
        let known = names_of(self);
        for (kind, name) in names_of(next).difference(&known) {
            new_name(name, NAME_LEN_MAX).or_else(|cause| refuse(format!("{kind} {name:?}"), cause))?;
        }
        Ok(())
    }
}

pub(crate) fn refuse<T>(place: impl Into<String>, cause: String) -> Result<T, ConfigError> {
    Err(ConfigError { place: place.into(), cause })
}

/// Why a number names no controller of so many.
fn no_controller(number: usize, of: usize) -> String {
    format!("controller {number} does not exist: there are {of}, counted from 0")
}
