//! What clients send: an object that is to be made, or what is to change of one. Each becomes changes, which
//! commands send as such.

use config::{CachePolicy, Class};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::request::{Change, Terms};

/// A new volume.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct VolumeCreate {
    /// Unique among volumes and images.
    #[schema(min_length = 1, max_length = 64)]
    name: String,
    /// Its pool; the only one when not given.
    #[serde(default)]
    pub(super) pool: Option<String>,
    /// Capacity that hosts see, a multiple of `block_bytes`.
    size_bytes: u64,
    /// All space is taken at once.
    #[serde(default)]
    thick: bool,
    /// Logical block length: 512 or 4096.
    #[serde(default = "block_bytes")]
    block_bytes: u32,
}

fn block_bytes() -> u32 {
    config::BLOCK_BYTES_DEFAULT
}

/// What changes of a volume; what is not given stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct VolumeSet {
    /// The new size; a volume does not shrink.
    #[serde(default)]
    size_bytes: Option<u64>,
    /// `write-back`, `write-through` or `off`.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    cache: Option<CachePolicy>,
    /// The partition of the cache; `none`: that of volumes which are in no other.
    #[serde(default)]
    partition: Option<String>,
    /// Its policy; empty: none any more.
    #[serde(default)]
    pub(super) policy: Option<String>,
}

/// A new snapshot.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SnapshotCreate {
    /// Unique among volumes and images.
    #[schema(min_length = 1, max_length = 64)]
    name: String,
    /// The volume whose state is kept.
    pub(super) volume: String,
}

/// A new pool.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PoolCreate {
    /// Unique among pools.
    #[schema(min_length = 1, max_length = 64)]
    name: String,
    /// Groups that no pool has.
    pub(super) groups: Vec<String>,
    /// The unit of allocation.
    #[serde(default = "page_bytes")]
    page_bytes: u64,
}

fn page_bytes() -> u64 {
    config::PAGE_BYTES_DEFAULT
}

/// What changes of a pool; what is not given stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PoolSet {
    /// Used space above which masu warns, in percent.
    #[serde(default)]
    soft_threshold_percent: Option<u8>,
    /// Used space above which the warning is critical, in percent.
    #[serde(default)]
    critical_threshold_percent: Option<u8>,
    /// Whether hot pages move to faster groups.
    #[serde(default)]
    placement: Option<bool>,
    /// The controller that is to serve it: it moves there while hosts wait.
    #[serde(default)]
    #[schema(maximum = 63)]
    controller: Option<usize>,
    /// A group that no pool has, which this one gets.
    #[serde(default)]
    pub(super) add_group: Option<String>,
}

/// A new group.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupCreate {
    /// Unique among groups.
    #[schema(min_length = 1, max_length = 64)]
    name: String,
    /// `raid0`, `raid1`, `raid10`, `raid5` or `raid6`.
    level: String,
    /// Paths: a device under /dev, `rbd:POOL/IMAGE`, else a file, made with `drive_bytes` if it is missing.
    drives: Vec<String>,
    /// Size of files that are made.
    #[serde(default)]
    drive_bytes: Option<u64>,
    /// What suits level and width when not given.
    #[serde(default)]
    stripe_unit_bytes: Option<u64>,
    /// Erase what is on the drives.
    #[serde(default)]
    overwrite: bool,
}

/// What changes of a group; what is not given stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupSet {
    /// What of the time hosts keep while a rebuild or scrub runs.
    #[serde(default)]
    foreground_share_percent: Option<u8>,
    /// `fast`, `capacity` or `archive`.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    class: Option<Class>,
}

/// A new spare.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DriveCreate {
    /// Unique among drives.
    #[schema(min_length = 1, max_length = 64)]
    name: String,
    /// A device under /dev, `rbd:POOL/IMAGE`, else a file, made with `drive_bytes` if it is missing.
    path: String,
    /// Size of a file that is made.
    #[serde(default)]
    drive_bytes: Option<u64>,
    /// Erase what is on it.
    #[serde(default)]
    overwrite: bool,
}

/// CHAP name and secret.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Chap {
    /// The CHAP name.
    name: String,
    /// 12 to 255 bytes; it is never shown again.
    secret: String,
}

/// A new host.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostCreate {
    /// Unique among hosts.
    #[schema(min_length = 1, max_length = 64)]
    name: String,
    /// iSCSI name, or `*` for every initiator without a host of its own.
    initiator: String,
    /// What the host must prove.
    #[serde(default)]
    chap: Option<Chap>,
    /// What the array proves to it.
    #[serde(default)]
    mutual_chap: Option<Chap>,
}

/// What changes of a host; what is not given stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostSet {
    /// iSCSI name.
    #[serde(default)]
    initiator: Option<String>,
    /// What the host must prove.
    #[serde(default)]
    chap: Option<Chap>,
    /// What the array proves to it.
    #[serde(default)]
    mutual_chap: Option<Chap>,
    /// It proves nothing any more.
    #[serde(default)]
    no_chap: bool,
}

/// A volume, a snapshot or an image that a host is to see.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LunCreate {
    /// Its name.
    pub(super) volume: String,
    /// The number by which the host addresses it; the first free one when not given.
    #[serde(default)]
    lun: Option<u16>,
}

/// A new policy.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyCreate {
    /// Unique among policies.
    #[schema(min_length = 1, max_length = 64)]
    name: String,
    /// What it promises; what is not given is not promised.
    #[serde(default)]
    terms: Terms,
}

/// A new image: a file with a virtual disk becomes a LU.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ImageCreate {
    /// Unique among volumes and images.
    #[schema(min_length = 1, max_length = 64)]
    name: String,
    /// Path of the VHD, VHDX, QCOW2, VMDK or raw file.
    file: String,
    /// Hosts may read it only.
    #[serde(default)]
    read_only: bool,
    /// The controller that serves it.
    #[serde(default)]
    controller: usize,
}

/// Work that is to begin.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobCreate {
    /// What is to be done.
    pub(super) kind: JobKind,
    /// The group (scrub), volume (reclaim) or pool (rebalance).
    pub(super) object: String,
}

/// Work that can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum JobKind {
    /// A group is read and compared.
    Scrub,
    /// Pages of zeros of a volume are given back.
    Reclaim,
    /// Pages move from full groups of a pool to emptier ones.
    Rebalance,
}

impl JobKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            JobKind::Scrub => "scrub",
            JobKind::Reclaim => "reclaim",
            JobKind::Rebalance => "rebalance",
        }
    }
}

/// An object that is to be made: its name, and the change that makes it.
pub(crate) trait Create {
    fn into_change(self) -> (String, Change);
}

/// What is to change of the object of this name, in order; none: nothing was given.
pub(crate) trait Set {
    fn into_changes(self, name: &str) -> Vec<Change>;
}

impl Create for VolumeCreate {
    fn into_change(self) -> (String, Change) {
        let VolumeCreate { name, pool, size_bytes, thick, block_bytes } = self;
        (name.clone(), Change::VolumeCreate { name, pool, size_bytes, thick, block_bytes })
    }
}

impl Set for VolumeSet {
    fn into_changes(self, name: &str) -> Vec<Change> {
        let VolumeSet { size_bytes, cache, partition, policy } = self;
        let name = name.to_owned();
        let mut all = Vec::new();
        all.extend(size_bytes.map(|size_bytes| Change::VolumeGrow { name: name.clone(), size_bytes }));
        if cache.is_some() || partition.is_some() {
            all.push(Change::VolumeSet { name: name.clone(), cache, partition });
        }
        all.extend(policy.map(|policy| match policy.is_empty() {
            true => Change::PolicyDetach { volumes: vec![name] },
            false => Change::PolicyAttach { name: policy, volumes: vec![name] },
        }));
        all
    }
}

impl Create for SnapshotCreate {
    fn into_change(self) -> (String, Change) {
        let SnapshotCreate { name, volume } = self;
        (name.clone(), Change::SnapshotCreate { volume, name })
    }
}

impl Create for PoolCreate {
    fn into_change(self) -> (String, Change) {
        let PoolCreate { name, groups, page_bytes } = self;
        let change = Change::PoolCreate {
            name: name.clone(),
            groups,
            page_bytes,
            soft_threshold_percent: config::SOFT_THRESHOLD_PERCENT_DEFAULT,
            critical_threshold_percent: config::CRITICAL_THRESHOLD_PERCENT_DEFAULT,
        };
        (name, change)
    }
}

impl PoolSet {
    /// Thresholds are set together: the one that is not given is as it is now.
    pub(super) fn with_thresholds_of(mut self, now: Option<&config::PoolConfig>) -> PoolSet {
        if self.critical_threshold_percent.is_some() {
            self.soft_threshold_percent =
                self.soft_threshold_percent.or(now.map(|pool| pool.soft_threshold_percent));
        }
        self
    }
}

impl Set for PoolSet {
    fn into_changes(self, name: &str) -> Vec<Change> {
        let PoolSet { soft_threshold_percent, critical_threshold_percent, placement, controller, add_group } =
            self;
        let name = name.to_owned();
        let mut all = Vec::new();
        all.extend(soft_threshold_percent.map(|soft_threshold_percent| Change::PoolThreshold {
            name: name.clone(),
            soft_threshold_percent,
            critical_threshold_percent,
        }));
        all.extend(placement.map(|on| Change::PoolPlacement { name: name.clone(), on }));
        all.extend(add_group.map(|group| Change::PoolAddGroup { pool: name.clone(), group }));
        // What else is asked for is refused before hosts wait for anything.
        all.extend(controller.map(|controller| Change::PoolMove { name, controller }));
        all
    }
}

impl Create for GroupCreate {
    fn into_change(self) -> (String, Change) {
        let GroupCreate { name, level, drives, drive_bytes, stripe_unit_bytes, overwrite } = self;
        let change = Change::GroupCreate {
            name: name.clone(),
            level,
            drives,
            drive_bytes,
            stripe_unit_bytes,
            foreground_share_percent: None,
            overwrite,
        };
        (name, change)
    }
}

impl Set for GroupSet {
    fn into_changes(self, name: &str) -> Vec<Change> {
        let name = || name.to_owned();
        let share = self.foreground_share_percent;
        let share = share.map(|percent| Change::GroupForegroundShare { name: name(), percent });
        let class = self.class.map(|class| Change::GroupClass { name: name(), class });
        share.into_iter().chain(class).collect()
    }
}

impl Create for DriveCreate {
    fn into_change(self) -> (String, Change) {
        let DriveCreate { name, path, drive_bytes, overwrite } = self;
        (name.clone(), Change::SpareAdd { name, path, drive_bytes, overwrite })
    }
}

fn pair(chap: Option<Chap>) -> Option<(String, String)> {
    chap.map(|chap| (chap.name, chap.secret))
}

impl Create for HostCreate {
    fn into_change(self) -> (String, Change) {
        let HostCreate { name, initiator, chap, mutual_chap } = self;
        let change = Change::HostSet {
            name: name.clone(),
            initiator: Some(initiator),
            chap: pair(chap),
            mutual_chap: pair(mutual_chap),
            no_chap: false,
            no_mutual_chap: false,
        };
        (name, change)
    }
}

impl Set for HostSet {
    fn into_changes(self, name: &str) -> Vec<Change> {
        let HostSet { initiator, chap, mutual_chap, no_chap } = self;
        if initiator.is_none() && chap.is_none() && mutual_chap.is_none() && !no_chap {
            return Vec::new();
        }
        vec![Change::HostSet {
            name: name.into(),
            initiator,
            chap: pair(chap),
            mutual_chap: pair(mutual_chap),
            no_chap,
            no_mutual_chap: no_chap,
        }]
    }
}

impl Create for PolicyCreate {
    fn into_change(self) -> (String, Change) {
        (self.name.clone(), Change::PolicyCreate { name: self.name, terms: self.terms })
    }
}

impl Set for Terms {
    fn into_changes(self, name: &str) -> Vec<Change> {
        match self == Terms::default() {
            true => Vec::new(),
            false => vec![Change::PolicySet { name: name.into(), terms: self }],
        }
    }
}

impl Create for ImageCreate {
    fn into_change(self) -> (String, Change) {
        let ImageCreate { name, file, read_only, controller } = self;
        let change = Change::ImageAdd {
            name: name.clone(),
            file,
            read_only,
            controller,
            format: None,
            parents_in: Vec::new(),
        };
        (name, change)
    }
}

impl LunCreate {
    pub(super) fn into_change(self, host: &str) -> Change {
        Change::Map { host: host.into(), volume: self.volume, lun: self.lun, again: false }
    }
}

impl JobCreate {
    pub(super) fn into_change(self) -> Change {
        let name = self.object;
        match self.kind {
            JobKind::Scrub => Change::GroupScrub { name },
            JobKind::Reclaim => Change::VolumeReclaim { name },
            JobKind::Rebalance => Change::PoolRebalance { name },
        }
    }
}
