//! What an array is declared to be: plain values, made from `array.toml` or the API at the edge, checked as a whole
//! before anything is touched.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use scsi::Lun;
use world::DriveSpec;

pub use pool::Provisioning;
pub use raid::{ArrayId, Level};

/// The declared array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The array's identity, on the label of every drive it owns; random, made once.
    pub id: ArrayId,
    /// The iSCSI name of the target.
    pub target: String,
    /// How many controllers (threads) share the work.
    pub controllers: usize,
    /// Where hosts connect.
    pub portals: Vec<PortalConfig>,
    /// The drives.
    pub drives: Vec<DriveConfig>,
    /// RAID groups of drives.
    pub groups: Vec<GroupConfig>,
    /// Pools of groups.
    pub pools: Vec<PoolConfig>,
    /// Volumes in pools.
    pub volumes: Vec<VolumeConfig>,
    /// Hosts and what each sees.
    pub hosts: Vec<HostConfig>,
}

/// A listening address; it belongs to one controller and is a portal group of its own (tag = controller + 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortalConfig {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Which controller serves it.
    pub controller: usize,
    /// The largest TCP segment in bytes for its connections, when packets are to count as on Ethernet.
    pub segment_bytes_max: Option<u16>,
}

/// A drive by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveConfig {
    /// Its name in the array.
    pub name: String,
    /// What to open.
    pub spec: DriveSpec,
}

/// A RAID group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupConfig {
    /// Its name.
    pub name: String,
    /// RAID level.
    pub level: Level,
    /// Names of its drives, in order.
    pub drives: Vec<String>,
    /// Stripe unit in bytes.
    pub stripe_unit_bytes: u32,
}

/// A thin pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolConfig {
    /// Its name.
    pub name: String,
    /// Names of its groups.
    pub groups: Vec<String>,
    /// Size of a page.
    pub page_bytes: u64,
    /// Used share at which a warning is raised.
    pub soft_threshold_percent: u8,
    /// The controller that owns it and every LU on it.
    pub controller: usize,
}

/// A volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeConfig {
    /// Its name.
    pub name: String,
    /// The pool it lies in.
    pub pool: String,
    /// Size in bytes.
    pub len_bytes: u64,
    /// Thin or thick.
    pub provisioning: Provisioning,
    /// Logical block length that hosts see: 512 or 4096.
    pub block_bytes: u32,
    /// Physical block length that hosts are told, so that they align: 512 or 4096, no less than the logical one.
    pub physical_block_bytes: u32,
    /// Hosts may read it only.
    pub read_only: bool,
}

/// A host and what it sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostConfig {
    /// Its name in the array.
    pub name: String,
    /// Its iSCSI name; `*` for any initiator that no other host names.
    pub initiator: String,
    /// What it must prove.
    pub chap: Option<ChapConfig>,
    /// What the target proves to it.
    pub mutual_chap: Option<ChapConfig>,
    /// Which volume it sees under which number.
    pub luns: BTreeMap<Lun, String>,
}

/// A CHAP name and secret.
#[derive(Clone, PartialEq, Eq)]
pub struct ChapConfig {
    /// The name.
    pub name: String,
    /// The secret.
    pub secret: String,
}

impl std::fmt::Debug for ChapConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ChapConfig({}, secret not shown)", self.name)
    }
}

/// Why a declaration is refused: what and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {cause}")]
pub struct ConfigError {
    /// Which object and key, as in `volume "v0": pool`.
    pub place: String,
    /// What is wrong.
    pub cause: String,
}

/// The longest name of an object.
pub const NAME_LEN_MAX: usize = 64;
/// RFC 3720's recommendation for CHAP secrets is 12 bytes or more (RFC 7143 9.2.1 keeps it); longer than 255 no peer takes.
pub const SECRET_LEN: std::ops::RangeInclusive<usize> = 12..=255;
/// Hosts address LUs single-level (SAM-5 4.7.5.3): 0 to 255.
pub const LUN_MAX: u16 = 255;

impl Config {
    /// An array with nothing in it.
    pub fn empty(target: &str) -> Config {
        Config {
            id: ArrayId::default(),
            target: target.into(),
            controllers: 1,
            portals: vec![],
            drives: vec![],
            groups: vec![],
            pools: vec![],
            volumes: vec![],
            hosts: vec![],
        }
    }

    /// This declaration with another laid over it: objects of the same name become the other's, what the other does not
    /// name stays; target, controllers and portals are the other's.
    pub fn overlaid_with(self, other: Config) -> Config {
        Config {
            id: self.id,
            target: other.target,
            controllers: other.controllers,
            portals: if other.portals.is_empty() { self.portals } else { other.portals },
            drives: overlay(self.drives, other.drives, |d| &d.name),
            groups: overlay(self.groups, other.groups, |g| &g.name),
            pools: overlay(self.pools, other.pools, |p| &p.name),
            volumes: overlay(self.volumes, other.volumes, |v| &v.name),
            hosts: overlay(self.hosts, other.hosts, |h| &h.name),
        }
    }

    /// The volume of that name.
    pub fn volume(&self, name: &str) -> Option<&VolumeConfig> {
        self.volumes.iter().find(|v| v.name == name)
    }

    /// The pool of that name.
    pub fn pool(&self, name: &str) -> Option<&PoolConfig> {
        self.pools.iter().find(|p| p.name == name)
    }

    /// The host that an initiator is: the one that names it, else the one declared for `*`.
    pub fn host_of(&self, initiator: &str) -> Option<&HostConfig> {
        let named = self.hosts.iter().find(|h| h.initiator == initiator);
        named.or_else(|| self.hosts.iter().find(|h| h.initiator == "*"))
    }

    /// The controller that owns a volume.
    pub fn owner_of(&self, volume: &str) -> Option<usize> {
        Some(self.pool(&self.volume(volume)?.pool)?.controller)
    }

    /// Checks that names are good and unique, that every reference leads somewhere, and that nothing is used twice.
    pub fn check(&self) -> Result<(), ConfigError> {
        if !self.target.starts_with("iqn.")
            && !self.target.starts_with("eui.")
            && !self.target.starts_with("naa.")
        {
            return refuse(
                "target",
                format!("{:?} is no iSCSI name: it begins with iqn., eui. or naa.", self.target),
            );
        }
        if self.controllers == 0 || self.controllers > 64 {
            return refuse("controllers", "between 1 and 64".into());
        }
        self.check_portals()?;
        self.check_drives_and_groups()?;
        self.check_pools()?;
        self.check_volumes()?;
        self.check_hosts()
    }

    fn check_portals(&self) -> Result<(), ConfigError> {
        for (i, portal) in self.portals.iter().enumerate() {
            let place = format!("portal {}", portal.listen);
            if portal.controller >= self.controllers {
                return refuse(
                    place,
                    format!("controller {} of {} does not exist", portal.controller, self.controllers),
                );
            }
            if portal.listen.port() != 0 && self.portals[..i].iter().any(|p| p.listen == portal.listen) {
                return refuse(place, "declared twice".into());
            }
        }
        Ok(())
    }

    fn check_drives_and_groups(&self) -> Result<(), ConfigError> {
        check_names("drive", self.drives.iter().map(|d| &d.name))?;
        check_names("group", self.groups.iter().map(|g| &g.name))?;
        let mut taken: BTreeMap<&str, &str> = BTreeMap::new();
        for group in &self.groups {
            let place = format!("group {:?}: drives", group.name);
            for drive in &group.drives {
                if !self.drives.iter().any(|d| d.name == *drive) {
                    return refuse(place, format!("no drive {drive:?} is declared"));
                }
                if let Some(other) = taken.insert(drive, &group.name) {
                    return refuse(place, format!("drive {drive:?} is in group {other:?} already"));
                }
            }
            let (least, n) = (group.level.drives_min(), group.drives.len());
            if n < least {
                return refuse(place, format!("{} needs at least {least} drives, not {n}", group.level));
            }
            if group.level == Level::Raid10 && !n.is_multiple_of(2) {
                return refuse(place, format!("{} takes pairs of drives, not {n}", group.level));
            }
        }
        Ok(())
    }

    fn check_pools(&self) -> Result<(), ConfigError> {
        check_names("pool", self.pools.iter().map(|p| &p.name))?;
        let mut taken: BTreeMap<&str, &str> = BTreeMap::new();
        for pool in &self.pools {
            let place = format!("pool {:?}", pool.name);
            if pool.groups.is_empty() {
                return refuse(place, "needs at least one group".into());
            }
            for group in &pool.groups {
                if !self.groups.iter().any(|g| g.name == *group) {
                    return refuse(place, format!("no group {group:?} is declared"));
                }
                if let Some(other) = taken.insert(group, &pool.name) {
                    return refuse(place, format!("group {group:?} is in pool {other:?} already"));
                }
            }
            if pool.controller >= self.controllers {
                return refuse(
                    place,
                    format!("controller {} of {} does not exist", pool.controller, self.controllers),
                );
            }
            if !(1..=100).contains(&pool.soft_threshold_percent) {
                return refuse(place, "soft_threshold_percent is between 1 and 100".into());
            }
        }
        Ok(())
    }

    fn check_volumes(&self) -> Result<(), ConfigError> {
        check_names("volume", self.volumes.iter().map(|v| &v.name))?;
        for volume in &self.volumes {
            let place = format!("volume {:?}", volume.name);
            if self.pool(&volume.pool).is_none() {
                return refuse(place, format!("no pool {:?} is declared", volume.pool));
            }
            if volume.block_bytes != 512 && volume.block_bytes != 4096 {
                return refuse(place, "block is 512 or 4096".into());
            }
            if ![512, 4096].contains(&volume.physical_block_bytes)
                || volume.physical_block_bytes < volume.block_bytes
            {
                return refuse(place, "physical_block is 512 or 4096, and no less than block".into());
            }
            if volume.len_bytes == 0 || !volume.len_bytes.is_multiple_of(4096) {
                return refuse(
                    place,
                    format!("size {} is not a positive multiple of 4096 bytes", volume.len_bytes),
                );
            }
        }
        Ok(())
    }

    fn check_hosts(&self) -> Result<(), ConfigError> {
        check_names("host", self.hosts.iter().map(|h| &h.name))?;
        for (i, host) in self.hosts.iter().enumerate() {
            let place = format!("host {:?}", host.name);
            if self.hosts[..i].iter().any(|h| h.initiator == host.initiator) {
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
                if lun.0 > LUN_MAX {
                    return refuse(place, format!("LUN {} is over {LUN_MAX}", lun.0));
                }
                if self.volume(volume).is_none() {
                    return refuse(place, format!("LUN {}: no volume {volume:?} is declared", lun.0));
                }
            }
        }
        Ok(())
    }
}

fn overlay<T>(mut kept: Vec<T>, declared: Vec<T>, name: impl Fn(&T) -> &String) -> Vec<T> {
    for new in declared {
        match kept.iter_mut().find(|old| name(old) == name(&new)) {
            Some(old) => *old = new,
            None => kept.push(new),
        }
    }
    kept
}

fn check_names<'a>(kind: &str, names: impl Iterator<Item = &'a String>) -> Result<(), ConfigError> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        let good = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if name.is_empty() || name.len() > NAME_LEN_MAX || !name.chars().all(good) {
            let cause = format!("a name has 1 to {NAME_LEN_MAX} letters, digits, '-', '_' or '.'");
            return refuse(format!("{kind} {name:?}"), cause);
        }
        if !seen.insert(name) {
            return refuse(format!("{kind} {name:?}"), "declared twice".into());
        }
    }
    Ok(())
}

fn refuse<T>(place: impl Into<String>, cause: String) -> Result<T, ConfigError> {
    Err(ConfigError { place: place.into(), cause })
}
