//! What an array is declared to be: plain values, made from `array.toml` or the API at the edge, checked as a whole
//! before anything is touched.

mod change;
mod check;
mod defaults;
mod made;
mod qos_settings;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use scsi::Lun;
use world::{DriveSpec, Patience};

pub use defaults::{
    BLOCK_BYTES_DEFAULT, CRITICAL_THRESHOLD_PERCENT_DEFAULT, DIRECT_BYTES_DEFAULT,
    FOREGROUND_SHARE_PERCENT_DEFAULT, PHYSICAL_BLOCK_BYTES_DEFAULT, READ_AHEAD_BYTES_DEFAULT,
    SOFT_THRESHOLD_PERCENT_DEFAULT,
};
pub use iscsi::name::normalised as normalised_name;
pub use made::{Keeper, Made, MadeGroup};
pub use pool::{Class, PAGE_BYTES_DEFAULT, Provisioning};
pub use qos::Policy;
pub use qos_settings::{PolicyConfig, QosSettings, Sharing};
pub use raid::{ArrayId, GroupId, Level, stripe_unit_bytes_default};
pub use vdisk::FileFormat;

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
    /// Whether a host that has a secret must prove it before it is told the target's name and portals.
    pub discovery_chap: bool,
    /// How long drives may be silent.
    pub patience: Patience,
    /// The drives.
    pub drives: Vec<DriveConfig>,
    /// Names of drives in no group: one that fits takes the place of a drive that fails.
    pub spares: Vec<String>,
    /// What holds for all policies.
    pub qos: QosSettings,
    /// Services that volumes are promised.
    pub policies: Vec<PolicyConfig>,
    /// The cache of each controller; none: volumes are read and written as they are asked for.
    pub cache: Option<CacheSettings>,
    /// RAID groups of drives.
    pub groups: Vec<GroupConfig>,
    /// Pools of groups.
    pub pools: Vec<PoolConfig>,
    /// Volumes in pools.
    pub volumes: Vec<VolumeConfig>,
    /// Virtual disks in files, which hosts see like volumes.
    pub images: Vec<ImageConfig>,
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
    /// What hosts keep of the drives' time while it is rebuilt or scrubbed, in percent.
    pub foreground_share_percent: u8,
    /// Somebody vouches that drives which are missing have nothing later than those that are there.
    pub start_degraded: bool,
    /// How fast its drives are beside the other groups of its pool.
    pub class: Class,
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
    /// Groups that it had and that are to leave it: their pages move to the others.
    pub leaving: Vec<String>,
    /// Whether hot pages move to faster groups, when its groups are of more than one class.
    pub placement: bool,
    /// Used share at which a warning is raised.
    pub soft_threshold_percent: u8,
    /// Used share at which space is about to run out.
    pub critical_threshold_percent: u8,
    /// A group in no pool, on which writes are durable before they are in place; none: the write cache is volatile.
    pub journal: Option<String>,
    /// The controller that owns it and every LU on it.
    pub controller: usize,
}

/// The cache of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheSettings {
    /// Memory for content.
    pub memory_bytes: u64,
    /// What is read ahead of one sequential reader at most; 0: nothing.
    pub read_ahead_bytes: u64,
    /// Reads and writes of this size and more pass by the memory: drives are good at them, and they would displace what is read again. A larger one
    /// lets writes of many hosts wait for the drives together, sorted, instead of each at the drives by itself.
    pub direct_bytes: u64,
    /// Drives in no group that keep what the memory gives up: the first one that of controller 0, and so on. Their content is lost.
    pub ssds: Vec<String>,
    /// Parts of the memory that belong to some volumes. What is not claimed by a minimum is shared.
    pub partitions: Vec<PartitionConfig>,
}

/// A partition of the cache of each controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionConfig {
    /// Its name; [`PARTITION_DEFAULT`] and [`PARTITION_NONE`] are taken.
    pub name: String,
    /// Memory that others leave to it when its volumes need it.
    pub minimum_bytes: u64,
}

/// What becomes of the writes of a volume, where there is a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CachePolicy {
    /// They are acknowledged from the cache.
    #[default]
    WriteBack,
    /// They are on the drives before they are acknowledged; reads are cached.
    WriteThrough,
    /// Nothing is cached.
    Off,
}

impl std::fmt::Display for CachePolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            CachePolicy::WriteBack => "write-back",
            CachePolicy::WriteThrough => "write-through",
            CachePolicy::Off => "off",
        })
    }
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
    /// What becomes of its writes.
    pub cache: CachePolicy,
    /// The partition of the cache that it is in; none: the one of all that are in no other.
    pub partition: Option<String>,
    /// The service that it is promised; none: its part of what is left. One that is not declared is said in the status, and promises nothing.
    pub policy: Option<String>,
    /// Hosts may read it only.
    pub read_only: bool,
    /// The volume of which it is a snapshot. It goes on being one when that volume is deleted.
    pub snapshot_of: Option<String>,
}

/// A virtual disk in a file (VHD or VHDX, with its parents), which hosts see as they see a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageConfig {
    /// Its name; no volume has it.
    pub name: String,
    /// What it is opened from: an image file, or a drive of the model.
    pub spec: DriveSpec,
    /// Hosts may read it only.
    pub read_only: bool,
    /// The controller that serves it.
    pub controller: usize,
    /// The service that it is promised among the images of its controller; as of a volume.
    pub policy: Option<String>,
    /// What kind of file it is. None: it is found out when the image is declared, or opened for the first time, and fixed from then on: what a guest
    /// writes to its disk never makes another one of it.
    pub format: Option<FileFormat>,
    /// Directories in which its parents may lie, beside its own.
    pub parents_in: Vec<PathBuf>,
}

impl ImageConfig {
    /// An image that is read and written by controller 0, of a format that is found out.
    pub fn new(name: String, spec: DriveSpec) -> ImageConfig {
        let (policy, format, parents_in) = Default::default();
        ImageConfig { name, spec, read_only: false, controller: 0, policy, format, parents_in }
    }

    /// Takes the format of what was declared before, where this is the same image and says none.
    pub(crate) fn keep_format(&mut self, before: &Config) {
        let known = before.image(&self.name).filter(|old| old.file() == self.file());
        self.format = self.format.or(known.and_then(|old| old.format));
    }

    /// The file; of an image of the model, the name of its drive.
    pub fn file(&self) -> PathBuf {
        match &self.spec {
            DriveSpec::Image { path, .. } | DriveSpec::File { path, .. } | DriveSpec::Device { path } => {
                path.clone()
            }
            DriveSpec::ImageWithin { folder, path } => folder.join(path),
            DriveSpec::Memory { name, .. } | DriveSpec::Modelled { name } => PathBuf::from(name),
        }
    }
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
    /// Which volume or image it sees under which number.
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

/// Less is no cache.
pub const CACHE_BYTES_MIN: u64 = 8 << 20;
/// What the partition of volumes that are in no other is called.
pub const PARTITION_DEFAULT: &str = "default";
/// What is said instead of a partition to have a volume in the default one.
pub const PARTITION_NONE: &str = "none";
/// The longest name of an object.
pub const NAME_LEN_MAX: usize = 64;
/// RFC 3720's recommendation for CHAP secrets is 12 bytes or more (RFC 7143 9.2.1 keeps it); longer than 255 no peer takes.
pub const SECRET_LEN: std::ops::RangeInclusive<usize> = 12..=255;
/// Hosts address LUs single-level (SAM-5 4.7.3): peripheral device addressing below 256, flat space addressing above.
pub const LUN_MAX: u16 = (1 << 14) - 1;

impl Config {
    /// An array with nothing in it.
    pub fn empty(target: &str) -> Config {
        Config {
            id: ArrayId::default(),
            target: target.into(),
            controllers: 1,
            portals: vec![],
            discovery_chap: false,
            patience: Patience::default(),
            drives: vec![],
            spares: vec![],
            qos: QosSettings::default(),
            policies: vec![],
            cache: None,
            groups: vec![],
            pools: vec![],
            volumes: vec![],
            images: vec![],
            hosts: vec![],
        }
    }

    /// This declaration with another laid over it: objects of the same name become the other's, what the other does not
    /// name stays; target, controllers and portals are the other's.
    pub fn overlaid_with(self, mut other: Config) -> Config {
        other.images.iter_mut().for_each(|image| image.keep_format(&self));
        // Who is declared without a policy keeps the one that it was given.
        for (kind, name, policy) in other.promised_mut().filter(|(_, _, policy)| policy.is_none()) {
            *policy = self.policy_of(kind, name).cloned();
        }
        Config {
            id: self.id,
            target: other.target,
            controllers: other.controllers,
            portals: if other.portals.is_empty() { self.portals } else { other.portals },
            discovery_chap: other.discovery_chap,
            patience: other.patience,
            drives: overlay(self.drives, other.drives, |d| &d.name),
            spares: overlay(self.spares, other.spares, |s| s),
            qos: other.qos,
            policies: overlay(self.policies, other.policies, |p| &p.name),
            cache: overlay_cache(self.cache, other.cache),
            groups: overlay(self.groups, other.groups, |g| &g.name),
            pools: overlay(self.pools, other.pools, |p| &p.name),
            volumes: overlay(self.volumes, other.volumes, |v| &v.name),
            images: overlay(self.images, other.images, |i| &i.name),
            hosts: overlay(self.hosts, other.hosts, |h| &h.name),
        }
    }

    /// The volume of that name.
    pub fn volume(&self, name: &str) -> Option<&VolumeConfig> {
        self.volumes.iter().find(|v| v.name == name)
    }

    /// The image of that name.
    pub fn image(&self, name: &str) -> Option<&ImageConfig> {
        self.images.iter().find(|i| i.name == name)
    }

    /// The pool of that name.
    pub fn pool(&self, name: &str) -> Option<&PoolConfig> {
        self.pools.iter().find(|p| p.name == name)
    }

    /// The policy of that name.
    pub fn policy(&self, name: &str) -> Option<&PolicyConfig> {
        self.policies.iter().find(|p| p.name == name)
    }

    /// All that can be promised something, volumes and images: which of the two it is, in a word, its name, and the policy that is declared for it.
    pub fn promised(&self) -> impl Iterator<Item = (&'static str, &String, Option<&String>)> {
        let volumes = self.volumes.iter().map(|v| ("volume", &v.name, v.policy.as_ref()));
        volumes.chain(self.images.iter().map(|i| ("image", &i.name, i.policy.as_ref())))
    }

    /// The same, to promise them something else.
    pub fn promised_mut(&mut self) -> impl Iterator<Item = (&'static str, &String, &mut Option<String>)> {
        let volumes = self.volumes.iter_mut().map(|v| ("volume", &v.name, &mut v.policy));
        volumes.chain(self.images.iter_mut().map(|i| ("image", &i.name, &mut i.policy)))
    }

    /// The policy that is declared for the volume or image of that name.
    fn policy_of(&self, kind: &str, name: &str) -> Option<&String> {
        self.promised().find(|(what, owner, _)| *what == kind && *owner == name)?.2
    }

    /// The host that an initiator is: the one that names it, else the one declared for `*`.
    pub fn host_of(&self, initiator: &str) -> Option<&HostConfig> {
        let named = self.hosts.iter().find(|h| h.initiator == initiator);
        named.or_else(|| self.hosts.iter().find(|h| h.initiator == "*"))
    }

    /// The controller that owns a volume or an image.
    pub fn owner_of(&self, volume: &str) -> Option<usize> {
        if let Some(image) = self.image(volume) {
            return Some(image.controller);
        }
        Some(self.pool(&self.volume(volume)?.pool)?.controller)
    }

    /// The controller of the pool that a group is in or leaves; controller 0 keeps those that are in none.
    pub fn owner_of_group(&self, group: &str) -> usize {
        let of = |p: &&PoolConfig| p.groups.iter().chain(&p.leaving).chain(&p.journal).any(|g| g == group);
        self.pools.iter().find(of).map_or(0, |p| p.controller)
    }
}

fn overlay_cache(kept: Option<CacheSettings>, declared: Option<CacheSettings>) -> Option<CacheSettings> {
    let Some(mut declared) = declared else { return kept };
    let kept = kept.map(|c| c.partitions).unwrap_or_default();
    declared.partitions = overlay(kept, declared.partitions, |p| &p.name);
    Some(declared)
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
