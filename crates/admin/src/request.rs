//! Requests of the API and what answers them.

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use config::{CachePolicy, Class, FileFormat};

/// What is declared: the answer to `GET /v1/config`.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Declared {
    /// The declaration of the array as it is now, as TOML; secrets are in it.
    pub text: String,
    /// In what the array differs from the declaration that was applied last, a line each; none when it was
    /// started without one.
    pub drift: Option<Vec<String>>,
    /// What is declared and only the next start puts in force, a line each.
    #[serde(default)]
    pub at_next_start: Vec<String>,
}

/// One change of the array: `POST /v1/change`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// A declaration is put in force: what it names becomes as it says, what it does not name stays.
    ConfigImport {
        /// The TOML text.
        text: String,
        /// Only say what would change.
        plan: bool,
    },
    /// Only say what a change would do, or what refuses it.
    DryRun {
        /// The change.
        of: Box<Change>,
    },
    /// A new pool over existing drives' groups.
    PoolCreate {
        /// Unique among pools; 1 to 64 characters.
        name: String,
        /// Declared groups that no pool has.
        groups: Vec<String>,
        /// Page size.
        page_bytes: u64,
        /// Used space, in percent, above which masu warns and hosts get a unit attention.
        soft_threshold_percent: u8,
        /// Used space, in percent, above which the warning becomes critical.
        critical_threshold_percent: u8,
    },
    /// Other thresholds.
    PoolThreshold {
        /// The pool.
        name: String,
        /// Percent of the space, 1 to 100.
        soft_threshold_percent: u8,
        /// Percent; as it is when not given.
        critical_threshold_percent: Option<u8>,
    },
    /// A pool gets another group.
    PoolAddGroup {
        /// The pool that grows.
        pool: String,
        /// A group that no pool has.
        group: String,
    },
    /// All pages leave a group, then it leaves the pool. Answered when the moving has begun.
    PoolRemoveGroup {
        /// The pool that shrinks.
        pool: String,
        /// One of its groups; the others must have room for its pages.
        group: String,
    },
    /// Pages move from full groups to empty ones. Answered when it has begun.
    PoolRebalance {
        /// The pool.
        name: String,
    },
    /// A pool moves to another controller. Commands of hosts wait meanwhile.
    PoolMove {
        /// The pool.
        name: String,
        /// The controller that is to serve it.
        controller: usize,
    },
    /// Hot pages move to faster groups, or no longer.
    PoolPlacement {
        /// The pool.
        name: String,
        /// Whether they do.
        on: bool,
    },
    /// A pool without volumes is deleted. Its groups stay.
    PoolDelete {
        /// The pool.
        name: String,
    },
    /// A pool leaves this array: its drives can go to another one.
    PoolExport {
        /// The pool.
        name: String,
    },
    /// An exported pool on these drives becomes part of this array.
    PoolImport {
        /// Paths of the drives: devices, RBD images (`rbd:POOL/IMAGE`), or files (relative to the data
        /// directory).
        drives: Vec<String>,
        /// Also when another array seems to own it.
        force: bool,
    },
    /// A group that no pool uses is deleted: its drives are erased, and no longer declared.
    GroupDelete {
        /// The group.
        name: String,
    },
    /// A new group of new file drives or devices.
    GroupCreate {
        /// Unique among groups; 1 to 64 characters.
        name: String,
        /// `raid0`, `raid1`, `raid10`, `raid5` or `raid6`.
        level: String,
        /// Paths: a device under /dev, an RBD image (`rbd:POOL/IMAGE`), else a file, made with `drive_bytes`
        /// when it is not there.
        drives: Vec<String>,
        /// Size of a file drive that is to be made.
        drive_bytes: Option<u64>,
        /// Stripe unit; what suits the level and the number of drives when not given.
        stripe_unit_bytes: Option<u64>,
        /// What of the time hosts keep while a rebuild or scrub runs; 70 when not given.
        foreground_share_percent: Option<u8>,
        /// Erase what is on the drives.
        #[serde(default)]
        overwrite: bool,
    },
    /// What of the time hosts keep while a rebuild or scrub runs.
    GroupForegroundShare {
        /// The group.
        name: String,
        /// Share of the time, 1 to 99.
        percent: u8,
    },
    /// How fast a group is beside the others of its pool.
    GroupClass {
        /// The group.
        name: String,
        /// `fast`, `capacity` or `archive`.
        class: Class,
    },
    /// Everything on a group is read and compared. Answered when it has begun.
    GroupScrub {
        /// The group.
        name: String,
    },
    /// The rebuild and the scrub of a group wait, go on, or (a scrub) end.
    GroupWork {
        /// The group.
        name: String,
        /// What becomes of them.
        work: Work,
    },
    /// Another drive takes the place of one. Answered when its rebuild has begun.
    DriveReplace {
        /// The group with the drive `old`.
        group: String,
        /// The drive that leaves.
        old: String,
        /// The drive that comes: a declared one that is in no group, or a path.
        new: String,
        /// Size of a file drive that is to be made; that of the old one when not given.
        drive_bytes: Option<u64>,
        /// Erase what is on the drive that comes.
        #[serde(default)]
        overwrite: bool,
    },
    /// A new drive that any group may take when it loses one.
    SpareAdd {
        /// Unique among drives.
        name: String,
        /// A device under /dev, an RBD image (`rbd:POOL/IMAGE`), else a file, made with `drive_bytes` when it
        /// is not there.
        path: String,
        /// Size of a file drive that is to be made.
        drive_bytes: Option<u64>,
        /// Erase what is on it.
        #[serde(default)]
        overwrite: bool,
    },
    /// A drive is no spare any more, and forgotten.
    SpareRemove {
        /// The spare, as declared.
        name: String,
    },
    /// A drive that no group uses is declared no longer: a spare, or one that was replaced, also where it is
    /// not there any more.
    DriveForget {
        /// The drive, as declared.
        name: String,
    },
    /// A new volume.
    VolumeCreate {
        /// Unique among volumes and images; 1 to 64 characters.
        name: String,
        /// Its pool; the only one when not given.
        pool: Option<String>,
        /// Capacity that hosts see, a multiple of `block_bytes`.
        size_bytes: u64,
        /// Thick instead of thin.
        thick: bool,
        /// Logical block length.
        block_bytes: u32,
    },
    /// A larger size.
    VolumeGrow {
        /// The volume.
        name: String,
        /// The new size.
        size_bytes: u64,
    },
    /// How a volume is cached. What is not given stays.
    VolumeSet {
        /// The volume.
        name: String,
        /// What becomes of its writes.
        cache: Option<CachePolicy>,
        /// The partition of the cache; `none`: the one of all volumes that are in no other.
        partition: Option<String>,
    },
    /// A virtual disk in a file, that hosts can see like a volume.
    ImageAdd {
        /// Unique among volumes and images; 1 to 64 characters.
        name: String,
        /// Path of the VHD, VHDX, QCOW2, VMDK or raw file.
        file: String,
        /// Hosts may read it only.
        read_only: bool,
        /// The controller that serves it.
        controller: usize,
        /// What kind of file it is; nothing: what it looks like, which is kept.
        #[serde(default)]
        format: Option<FileFormat>,
        /// Directories in which its parents may lie, beside its own.
        #[serde(default)]
        parents_in: Vec<String>,
    },
    /// An image is served no longer. Its file stays.
    ImageRemove {
        /// The image, as declared.
        name: String,
    },
    /// A volume and its data are deleted.
    VolumeDelete {
        /// The volume.
        name: String,
    },
    /// A snapshot and its data are deleted. A volume that is none is refused.
    SnapshotDelete {
        /// The snapshot.
        name: String,
    },
    /// Pages of a volume that hold only zeros are given back. Answered when it has begun.
    VolumeReclaim {
        /// The volume.
        name: String,
    },
    /// A volume that shares the pages of another.
    SnapshotCreate {
        /// The volume whose state is kept.
        volume: String,
        /// The new one.
        name: String,
    },
    /// A new partition of the cache, or another minimum for it.
    CachePartitionSet {
        /// The partition; a new one when there is none of this name.
        name: String,
        /// What others leave to its volumes when they need it, on each controller.
        minimum_bytes: u64,
    },
    /// A partition of the cache is removed.
    CachePartitionRemove {
        /// The partition; no volume may be in it any more.
        name: String,
    },
    /// A new policy.
    PolicyCreate {
        /// The partition, as declared.
        name: String,
        /// What it promises; what is not given is not promised.
        terms: Terms,
    },
    /// A policy promises something else, to all volumes that have it, at once.
    PolicySet {
        /// The policy.
        name: String,
        /// What changes; what is not given stays.
        terms: Terms,
    },
    /// Volumes and images get a policy instead of the one that they had.
    PolicyAttach {
        /// The policy.
        name: String,
        /// The volumes and images.
        volumes: Vec<String>,
    },
    /// Volumes and images have no policy any more.
    PolicyDetach {
        /// The volumes and images.
        volumes: Vec<String>,
    },
    /// A policy is forgotten.
    PolicyDelete {
        /// The policy.
        name: String,
    },
    /// A new host, or another initiator or other secrets for it. What is not given stays.
    HostSet {
        /// Unique among hosts; 1 to 64 characters.
        name: String,
        /// iSCSI name; a new host needs one.
        #[serde(default)]
        initiator: Option<String>,
        /// CHAP name and secret.
        #[serde(default)]
        chap: Option<(String, String)>,
        /// The target's CHAP name and secret.
        #[serde(default)]
        mutual_chap: Option<(String, String)>,
        /// The host proves nothing any more, and nothing is proved to it.
        #[serde(default)]
        no_chap: bool,
        /// Nothing is proved to the host any more.
        #[serde(default)]
        no_mutual_chap: bool,
    },
    /// A host is forgotten.
    HostDelete {
        /// The host.
        name: String,
    },
    /// A host sees a volume.
    Map {
        /// The host that is to see it.
        host: String,
        /// A volume, a snapshot or an image.
        volume: String,
        /// The LUN; the first free one when not given.
        lun: Option<u16>,
        /// Also when the host sees the volume already, under another LUN.
        #[serde(default)]
        again: bool,
    },
    /// A host sees a volume no longer.
    Unmap {
        /// The host that sees it.
        host: String,
        /// A volume, a snapshot or an image.
        volume: String,
    },
}

impl Change {
    /// Whether it only asks what would be, and changes nothing.
    pub(crate) fn is_a_question(&self) -> bool {
        matches!(self, Change::ConfigImport { plan: true, .. } | Change::DryRun { .. })
    }
}

/// What a policy promises: normalised IOPS are requests of which a long one counts once for each unit of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Terms {
    /// Normalised IOPS that a volume gets when it asks for them; 0: none.
    pub minimum_iops: Option<u64>,
    /// Normalised IOPS that it gets at most; null: as many as there are; not given: as before.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, minimum = 1)]
    pub maximum_iops: Option<Limit>,
    /// Bytes per second that it gets at most; null: as many as there are; not given: as before.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<u64>, minimum = 1)]
    pub bandwidth_bytes_per_s: Option<Limit>,
    /// Its part of what is left; 100 is that of a volume without a policy.
    pub weight: Option<u32>,
    /// Units that it may be ahead of others after it was idle.
    pub burst_units: Option<u64>,
    /// Whether the volumes of a pool that have it share it.
    pub aggregated: Option<bool>,
}

/// A limit to set. Zero is refused where policies are checked: who gives it means "nothing", and none is the
/// opposite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Option<u64>", into = "Option<u64>")]
pub enum Limit {
    /// None any more.
    None,
    /// So much.
    Of(u64),
}

impl From<Option<u64>> for Limit {
    fn from(limit: Option<u64>) -> Limit {
        limit.map_or(Limit::None, Limit::Of)
    }
}

impl From<Limit> for Option<u64> {
    fn from(limit: Limit) -> Option<u64> {
        match limit {
            Limit::None => None,
            Limit::Of(limit) => Some(limit),
        }
    }
}

/// A key that is there says something, also when it is null.
fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Limit>, D::Error> {
    Limit::deserialize(from).map(Some)
}

/// What a change did, a line each.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Done {
    /// What was made or changed.
    pub done: Vec<String>,
}

/// What becomes of the work on a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// It waits.
    Pause,
    /// It goes on.
    Resume,
    /// Its scrub ends.
    StopScrub,
}
