//! How things stand: plain values for the API, the terminal and the laboratory.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::config::{CachePolicy, Class, Level, Provisioning, RAW_FILE_TO_DO};
use crate::event::Event;
pub use cache::{JournalCounts, PartitionCounts, SecondCounts, Traffic, UnitCounts};
pub use scsi::Counters;
pub use status::{
    BelowMinimum, Drive, HostServed, ImageFault, Job, Latencies, Latency, Mapping, Missing, PolicyPart, Pool,
    PoolScheduler, Port, Refusals, Session, StageLatency, VolumeQos,
};

/// One controller's part of the array.
#[derive(Clone, Debug, Default)]
pub struct ControllerStatus {
    /// Its number.
    pub index: usize,
    /// Processor time that it used since it started.
    pub busy: Duration,
    /// How long ago that was: `busy` of `age` is its utilisation.
    pub age: Duration,
    /// Those that this controller has open.
    pub drives: Vec<Drive>,
    /// RAID groups.
    pub groups: Vec<GroupStatus>,
    /// Those that this controller owns.
    pub pools: Vec<Pool>,
    /// Volumes, each with its LU's counters.
    pub volumes: Vec<VolumeStatus>,
    /// Images, each with its LU's counters.
    pub images: Vec<ImageStatus>,
    /// The cache, if there is one.
    pub cache: Option<CacheStatus>,
    /// Schedulers of the pools in which a policy is in force.
    pub schedulers: Vec<PoolScheduler>,
    /// Volumes, images and shared policies whose minimum is not kept.
    pub below_minimum: Vec<BelowMinimum>,
    /// Sessions of hosts at this controller's ports.
    pub sessions: Vec<Session>,
    /// Those that this controller has open.
    pub ports: Vec<Port>,
    /// Who was refused repeatedly in the last minutes.
    pub refused: Vec<Refusals>,
    /// How long operations took, layer by layer; only in the whole status, as what follows.
    pub stages: Vec<StageLatency>,
    /// What hosts were served by this controller.
    pub served: Vec<HostServed>,
    /// Objects that were made and cannot be opened.
    pub missing: Vec<Missing>,
    /// Pool and name of volumes that are declared by nobody.
    pub undeclared: Vec<(String, String)>,
    /// Long work that runs.
    pub jobs: Vec<Job>,
    /// Spares that nobody has taken.
    pub spares: Vec<String>,
    /// What is wrong with spares, by their names: no group can take them.
    pub spare_faults: BTreeMap<String, String>,
    /// Events since the start, oldest first, bounded.
    pub events: Vec<Event>,
}

/// A RAID group.
#[derive(Clone, Debug)]
pub struct GroupStatus {
    /// As declared.
    pub name: String,
    /// RAID level.
    pub level: Level,
    /// Names of its drives.
    pub drives: Vec<String>,
    /// Usable size in bytes.
    pub len_bytes: u64,
    /// How it is, with its members, as `raid` says.
    pub raid: raid::GroupStatus,
    /// The declared names of the drives in its places.
    pub members: Vec<Option<String>>,
    /// Why its mirrors, which may differ since an unclean end, are not made equal yet.
    pub resync_waits: Option<String>,
    /// What hosts keep of the drives' time while it is rebuilt or scrubbed.
    pub foreground_share_percent: u8,
    /// Its declaration lets it open although drives are missing that may hold later writes.
    pub start_degraded: bool,
    /// How fast it is declared to be.
    pub class: Class,
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobKind {
    /// A group is read and compared.
    Scrub,
    /// A group's pages move to the others of its pool.
    Evacuate,
    /// Pages move from full groups to emptier ones.
    Rebalance,
    /// Pages of zeros of a volume are given back.
    Reclaim,
    /// Pages of a pool move between groups of different classes.
    Place,
}

/// A volume and its LU.
#[derive(Clone, Debug)]
pub struct VolumeStatus {
    /// As declared.
    pub name: String,
    /// The pool that its pages come from.
    pub pool: String,
    /// The volume of which it is a snapshot.
    pub snapshot_of: Option<String>,
    /// Size in bytes.
    pub len_bytes: u64,
    /// Bytes in pages that it uses.
    pub used_bytes: u64,
    /// Of these, bytes in pages that others use, too.
    pub shared_bytes: u64,
    /// Of these, bytes in pages that nobody else uses.
    pub exclusive_bytes: u64,
    /// Thin or thick.
    pub provisioning: Provisioning,
    /// Logical block length.
    pub block_bytes: u32,
    /// NAA identifier, 32 hexadecimal digits (SPC-5 7.7.6.6.5).
    pub naa: String,
    /// Which hosts see it, as which LUN.
    pub mapped_to: Vec<Mapping>,
    /// How the service stands that it is promised.
    pub qos: VolumeQos,
    /// What was done with it since the start.
    pub counters: Counters,
}

/// A virtual disk in a file and its LU.
#[derive(Clone, Debug)]
pub struct ImageStatus {
    /// As declared.
    pub name: String,
    /// Path of the file that holds it.
    pub file: String,
    /// Hosts may read it only.
    pub read_only: bool,
    /// Which hosts see it, as which LUN.
    pub mapped_to: Vec<Mapping>,
    /// What is served; or why nothing is.
    pub state: Result<ServedImage, Unopened>,
}

/// Why an image is not open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unopened {
    /// In words.
    pub cause: String,
    /// Of what kind it is.
    pub fault: ImageFault,
}

impl fmt::Display for Unopened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cause)?;
        match self.fault {
            ImageFault::Replaced => write!(f, "; {RAW_FILE_TO_DO}"),
            _ => Ok(()),
        }
    }
}

impl Default for Unopened {
    fn default() -> Unopened {
        Unopened { cause: "is not open".into(), fault: ImageFault::Unknown }
    }
}

/// An image that is open.
#[derive(Clone, Debug)]
pub struct ServedImage {
    /// `vhd`, `vhdx`, `qcow2`, `vmdk` or `raw`.
    pub format: &'static str,
    /// What is wrong with it: it is only read since a change of its metadata failed, or its file system has
    /// no room.
    pub trouble: Option<(ImageFault, String)>,
    /// The files of its parents, the nearest first.
    pub parents: Vec<String>,
    /// Size of the disk.
    pub len_bytes: u64,
    /// Length of its file.
    pub file_len_bytes: u64,
    /// Logical block length.
    pub block_bytes: u32,
    /// NAA identifier, 32 hexadecimal digits.
    pub naa: String,
    /// How the service stands that it is promised.
    pub qos: VolumeQos,
    /// What was done with it since the start.
    pub counters: Counters,
}

/// A controller's cache.
#[derive(Clone, Debug, Default)]
pub struct CacheStatus {
    /// Memory for content.
    pub memory_bytes: u64,
    /// Frames and what is pending.
    pub counts: cache::CacheCounts,
    /// The second level, if there is one.
    pub second: Option<cache::SecondCounts>,
    /// Its drive.
    pub ssd: Option<String>,
    /// Partitions; the first one is that of volumes which are in no other.
    pub partitions: Vec<PartitionStatus>,
    /// Cached volumes.
    pub units: Vec<CachedStatus>,
    /// Those of its pools.
    pub journals: Vec<JournalStatus>,
}

/// The journal of a pool.
#[derive(Clone, Debug)]
pub struct JournalStatus {
    /// Whose it is.
    pub pool: String,
    /// The group that it is on.
    pub group: String,
    /// Why it takes no writes any more.
    pub failure: Option<String>,
    /// The medium of the drive that failed.
    pub failed_medium: Option<String>,
    /// What it has taken.
    pub counts: cache::JournalCounts,
}

/// A partition of a cache.
#[derive(Clone, Debug)]
pub struct PartitionStatus {
    /// As declared.
    pub name: String,
    /// What it holds, counted in cache frames.
    pub frames: PartitionCounts,
    /// What volumes did while they were in it.
    pub traffic: Traffic,
}

/// A volume under a cache.
#[derive(Clone, Debug)]
pub struct CachedStatus {
    /// Its name.
    pub volume: String,
    /// What becomes of its writes.
    pub policy: CachePolicy,
    /// The partition whose frames it uses.
    pub partition: String,
    /// What it has and did.
    pub counts: UnitCounts,
}
