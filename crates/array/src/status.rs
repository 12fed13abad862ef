//! How things stand: plain values for the API, the terminal and the laboratory.

use std::collections::BTreeMap;
use std::time::Duration;

use scsi::Lun;
use world::DriveCounts;

use crate::config::{CachePolicy, Class, Level, Provisioning};
use crate::event::Event;
pub use cache::{JournalCounts, PartitionCounts, SecondCounts, Traffic, UnitCounts};
pub use pool::{ClassHeat, Decision, HeatReport, Reason};
pub use qos::{Capacity, ClientCounts};
pub use scsi::Counters;

/// One controller's part of the array.
#[derive(Clone, Debug, Default)]
pub struct ControllerStatus {
    /// Its number.
    pub index: usize,
    /// Processor time that it used since it started.
    pub busy: Duration,
    /// How long ago that was: `busy` of `age` is its utilisation.
    pub age: Duration,
    /// Drives.
    pub drives: Vec<DriveStatus>,
    /// RAID groups.
    pub groups: Vec<GroupStatus>,
    /// Pools.
    pub pools: Vec<PoolStatus>,
    /// Volumes, each with its LU's counters.
    pub volumes: Vec<VolumeStatus>,
    /// Images, each with its LU's counters.
    pub images: Vec<ImageStatus>,
    /// The cache, if there is one.
    pub cache: Option<CacheStatus>,
    /// Schedulers of the pools in which a policy is in force.
    pub schedulers: Vec<SchedulerStatus>,
    /// Volumes, images and shared policies whose minimum is not kept, and what they get.
    pub below_minimum: Vec<(String, String)>,
    /// Sessions of hosts at this controller's ports.
    pub sessions: Vec<SessionStatus>,
    /// Ports.
    pub ports: Vec<PortStatus>,
    /// Who was refused repeatedly in the last minutes.
    pub refused: Vec<RefusedStatus>,
    /// Objects that were made and cannot be opened.
    pub missing: Vec<MissingStatus>,
    /// Long work that runs.
    pub jobs: Vec<JobStatus>,
    /// Spares that nobody has taken.
    pub spares: Vec<String>,
    /// What is wrong with spares, by their names: no group can take them.
    pub spare_faults: BTreeMap<String, String>,
    /// Events since the start, oldest first, bounded.
    pub events: Vec<Event>,
}

/// Somebody whose logins are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedStatus {
    /// Who, as in `host h`: an initiator whose name no host has, or a port where it did not come to a name.
    pub object: String,
    /// Whether it is a declared host.
    pub is_host: bool,
    /// How often, since there was none for a while.
    pub count: u64,
    /// Why, the last time.
    pub why: String,
}

/// An object that is declared, was made and cannot be opened: it is not served, and nothing is written to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingStatus {
    /// `group`, `pool` or `volume`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Why, and what to do.
    pub cause: String,
}

/// A drive.
#[derive(Clone, Debug)]
pub struct DriveStatus {
    /// Its name in the array.
    pub name: String,
    /// The path or kind.
    pub medium: String,
    /// Size in bytes.
    pub len_bytes: u64,
    /// How often it was used since the start.
    pub counts: DriveCounts,
}

/// A RAID group.
#[derive(Clone, Debug)]
pub struct GroupStatus {
    /// Its name.
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
    /// What hosts keep of the drives' time while it is rebuilt or scrubbed.
    pub foreground_share_percent: u8,
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

/// A job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobStatus {
    /// What is done.
    pub kind: JobKind,
    /// To which group, pool or volume.
    pub object: String,
    /// Bytes that are done.
    pub done_bytes: u64,
    /// All bytes; 0 when nobody knows.
    pub total_bytes: u64,
}

/// A pool.
#[derive(Clone, Debug)]
pub struct PoolStatus {
    /// Its name.
    pub name: String,
    /// Names of its groups.
    pub groups: Vec<String>,
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// Bytes for data.
    pub len_bytes: u64,
    /// Bytes in pages that are taken.
    pub used_bytes: u64,
    /// Bytes that volumes promise to hosts.
    pub promised_bytes: u64,
    /// Soft threshold in percent.
    pub soft_threshold_percent: u8,
    /// Critical threshold in percent.
    pub critical_threshold_percent: u8,
    /// The space of each group.
    pub group_spaces: Vec<pool::GroupSpace>,
    /// Whether hot pages move to faster groups.
    pub placement: bool,
    /// How it is used, and what moved because of that.
    pub heat: pool::HeatReport,
}

/// A volume and its LU.
#[derive(Clone, Debug)]
pub struct VolumeStatus {
    /// Its name.
    pub name: String,
    /// Its pool.
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
    pub mapped_to: Vec<(String, Lun)>,
    /// How the service stands that it is promised.
    pub qos: VolumeQos,
    /// What was done with it since the start.
    pub counters: Counters,
}

/// A virtual disk in a file and its LU.
#[derive(Clone, Debug)]
pub struct ImageStatus {
    /// Its name.
    pub name: String,
    /// Its file.
    pub file: String,
    /// Hosts may read it only.
    pub read_only: bool,
    /// Which hosts see it, as which LUN.
    pub mapped_to: Vec<(String, Lun)>,
    /// What is served; or why nothing is.
    pub state: Result<ServedImage, String>,
}

/// An image that is open.
#[derive(Clone, Debug)]
pub struct ServedImage {
    /// Its format.
    pub format: &'static str,
    /// What is wrong with it: it is only read since a change of its metadata failed, or its file system has
    /// no room.
    pub trouble: Option<String>,
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

/// How the service stands that a volume or an image is promised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeQos {
    /// Its policy.
    pub policy: Option<String>,
    /// Whether it is kept.
    pub state: QosState,
    /// What the scheduler did for it.
    pub counts: ClientCounts,
}

/// Whether a promise is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QosState {
    /// It is, or nothing is promised.
    Ok,
    /// The volume is asked for its minimum and does not give it. Normalised IOPS.
    BelowMinimum {
        /// What is promised.
        minimum_iops: u64,
        /// What it gave in the last 5 s.
        served_iops: u64,
    },
    /// Its policy is not declared: nothing is promised.
    UnknownPolicy,
}

/// The scheduler of a pool, or of the images of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerStatus {
    /// The pool; none: that of the images.
    pub pool: Option<String>,
    /// What counts as one.
    pub unit_bytes: u64,
    /// Requests that the pool works on at once at most, now.
    pub depth: u32,
    /// Those that it works on.
    pub in_flight: u32,
    /// Those that wait.
    pub waiting: u32,
    /// What the pool was seen to do.
    pub capacity: Capacity,
    /// What is promised in sum.
    pub minimums_iops: u64,
    /// What of it could be given in the last 5 s, in thousandths.
    pub scale_permille: u32,
    /// What was done for work in the background.
    pub background: ClientCounts,
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
    /// Partitions; the first one is that of volumes which are in no other.
    pub partitions: Vec<PartitionStatus>,
    /// Cached volumes.
    pub units: Vec<CachedStatus>,
    /// Journals, by the name of their pool.
    pub journals: Vec<(String, cache::JournalCounts)>,
}

/// A partition of a cache.
#[derive(Clone, Debug)]
pub struct PartitionStatus {
    /// Its name.
    pub name: String,
    /// Its frames.
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
    /// The partition it is in.
    pub partition: String,
    /// What it has and did.
    pub counts: UnitCounts,
}

/// A session of a host.
#[derive(Clone, Debug)]
pub struct SessionStatus {
    /// The host's name in the array.
    pub host: String,
    /// The initiator's iSCSI name.
    pub initiator: String,
    /// ISID in hexadecimal.
    pub isid: String,
    /// Commands executed in this session.
    pub commands: u64,
    /// Bytes in both directions.
    pub bytes: u64,
}

/// A port.
#[derive(Clone, Debug)]
pub struct PortStatus {
    /// Where it listens, with the port number that the system chose.
    pub listen: std::net::SocketAddr,
    /// Portal group tag.
    pub portal_group: u16,
    /// Sessions logged in now.
    pub sessions: usize,
    /// Commands executed.
    pub commands: u64,
    /// Bytes of data from hosts.
    pub bytes_in: u64,
    /// Bytes of data to hosts.
    pub bytes_out: u64,
}
