//! The API's answer to `GET /v1/status`: what goes over HTTP as JSON. `convert` makes it of `array`'s plain values.

use serde::{Deserialize, Serialize};

/// `GET /v1/status`: the array.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// The version of masu.
    pub version: String,
    /// The target's iSCSI name.
    pub target: String,
    /// Seconds since the start.
    pub uptime_s: u64,
    /// Controllers.
    pub controllers: usize,
    /// How busy each of them is.
    #[serde(default)]
    pub loads: Vec<Load>,
    /// Ports.
    pub ports: Vec<Port>,
    /// Drives.
    pub drives: Vec<Drive>,
    /// RAID groups.
    pub groups: Vec<Group>,
    /// Pools.
    pub pools: Vec<Pool>,
    /// Volumes.
    pub volumes: Vec<Volume>,
    /// Virtual disks in files.
    #[serde(default)]
    pub images: Vec<Image>,
    /// Caches, one for each controller that has one.
    #[serde(default)]
    pub caches: Vec<Cache>,
    /// Policies.
    #[serde(default)]
    pub policies: Vec<Policy>,
    /// Schedulers of the pools in which a policy is in force.
    #[serde(default)]
    pub schedulers: Vec<PoolScheduler>,
    /// Hosts.
    pub hosts: Vec<Host>,
    /// Sessions.
    pub sessions: Vec<Session>,
    /// What was made and cannot be opened: it is not served, and nothing is written to it.
    #[serde(default)]
    pub missing: Vec<Missing>,
    /// Long work that runs now.
    pub jobs: Vec<Job>,
    /// The last events since the start, oldest first: what `masu status` shows. `GET /v1/events` has those that are kept.
    pub events: Vec<String>,
    /// What is wrong, the worst first.
    #[serde(default)]
    pub trouble: Vec<Trouble>,
    /// Volumes and images that get less than their policy promises.
    #[serde(default)]
    pub below_minimum: Vec<BelowMinimum>,
    /// Who was refused repeatedly in the last 15 minutes.
    #[serde(default)]
    pub refused: Vec<Refusals>,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// `warning`, or `error` where something is not served or data are in danger.
    pub severity: String,
    /// What has it, as in `group g0`.
    pub object: String,
    /// Which of its troubles: the same word as long as it lasts.
    pub kind: String,
    /// What is wrong.
    pub text: String,
    /// What to do.
    pub to_do: String,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
}

/// Somebody whose logins are refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusals {
    /// Who, as in `host h1`: an initiator whose name no host has, or a port where no name was given.
    pub object: String,
    /// Whether it is a declared host.
    pub is_host: bool,
    /// How often, since there was no refusal for 15 minutes.
    pub logins: u64,
    /// The last one.
    pub text: String,
}

/// A promise that is not kept now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BelowMinimum {
    /// Whose, as in `volume v1`.
    pub object: String,
    /// What it gets of what.
    pub text: String,
}

/// An event, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRecord {
    /// Its number: higher than those of all events before it.
    pub number: u64,
    /// When, in milliseconds since 1970.
    pub unix_ms: u64,
    /// `info`, `warning` or `error`.
    pub severity: String,
    /// What it happened to, as in `group g0`.
    pub object: String,
    /// What happened.
    pub text: String,
    /// Who did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub who: Option<String>,
}

/// `GET /v1/events`: kept events, the oldest first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Events {
    /// The events.
    pub events: Vec<EventRecord>,
}

/// An object that was made and cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missing {
    /// `group`, `pool` or `volume`.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Why.
    pub cause: String,
}

/// How busy a controller is: two answers tell what it was between them.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Load {
    /// The controller.
    pub controller: usize,
    /// Milliseconds of processor time that it used since it started.
    pub busy_ms: u64,
    /// Milliseconds since it started.
    pub up_ms: u64,
}

/// A port.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Port {
    /// Address and port number.
    pub listen: String,
    /// Portal group tag.
    pub portal_group: u16,
    /// Its controller.
    pub controller: usize,
    /// Sessions now.
    pub sessions: usize,
    /// Commands executed.
    pub commands: u64,
    /// Bytes from hosts.
    pub bytes_in: u64,
    /// Bytes to hosts.
    pub bytes_out: u64,
}

/// A drive.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Drive {
    /// Name.
    pub name: String,
    /// Path or kind.
    pub medium: String,
    /// Size; 0 while it is not open.
    pub size_bytes: u64,
    /// The group it is in.
    pub group: Option<String>,
    /// `active`, `rebuilding`, `missing`, `stale`, `failed`; `spare`, or `free` outside of groups.
    pub state: String,
    /// Read operations.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Write operations.
    pub writes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Discards.
    pub zeros: u64,
    /// Flushes.
    pub flushes: u64,
}

/// A RAID group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Group {
    /// Name.
    pub name: String,
    /// Level.
    pub level: String,
    /// Drives.
    pub drives: Vec<String>,
    /// Usable size.
    pub size_bytes: u64,
    /// `optimal`, `degraded` or `failed`.
    pub state: String,
    /// How many more drives may fail, whichever they are.
    pub tolerates: u32,
    /// The places of its drives.
    pub members: Vec<Member>,
    /// How far a rebuild is.
    pub rebuild: Option<Progress>,
    /// How far a scrub is.
    pub scrub: Option<Progress>,
    /// Ranges that cannot be read until they are written again.
    pub lost_ranges: usize,
    /// Blocks that the last scrub found to differ between drives, and could not repair.
    #[serde(default)]
    pub differing_blocks: u64,
    /// Places written again after a medium error.
    pub repairs: u64,
    /// What of the time hosts keep while a rebuild or scrub runs.
    pub foreground_share_percent: u8,
    /// `fast`, `capacity` or `archive`.
    #[serde(default)]
    pub class: String,
}

/// A place in a group.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Member {
    /// Its number.
    pub position: u32,
    /// The drive in it.
    pub drive: Option<String>,
    /// `active`, `missing`, `stale`, `failed` or `rebuilding`.
    pub state: String,
    /// Why the drive was dropped, when it was.
    pub cause: Option<String>,
    /// Whether its drive does not answer at the moment, and is read around.
    #[serde(default)]
    pub slow: bool,
    /// Operations of the drives in this place that failed, since the group was opened.
    #[serde(default)]
    pub errors: u64,
    /// Operations that were given up because the drive did not answer in time, since it was opened.
    #[serde(default)]
    pub silences: u64,
    /// What 99 of 100 of its reads and writes of the last whole minute did not exceed, in microseconds; none where there were few.
    #[serde(default)]
    pub p99_us: Option<u64>,
}

/// How far long work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Bytes that are done.
    pub done_bytes: u64,
    /// All bytes; 0 while nobody knows.
    pub total_bytes: u64,
}

/// Long work: it runs in the array, whoever asked for it, and goes on after a restart where it says so.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// `rebuild`, `scrub`, `resync`, `evacuate`, `rebalance`, `reclaim` or `place`.
    pub kind: String,
    /// The group, pool or volume.
    pub object: String,
    /// How far it is.
    pub progress: Progress,
}

/// A pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pool {
    /// Name.
    pub name: String,
    /// Groups.
    pub groups: Vec<String>,
    /// Page.
    pub page_bytes: u64,
    /// Size.
    pub size_bytes: u64,
    /// Used.
    pub used_bytes: u64,
    /// Promised to hosts.
    pub promised_bytes: u64,
    /// Soft threshold.
    pub soft_threshold_percent: u8,
    /// Critical threshold.
    pub critical_threshold_percent: u8,
    /// The space of each group.
    pub group_spaces: Vec<PoolGroup>,
    /// How it is used, and what moved because of that.
    #[serde(default)]
    pub heat: Heat,
    /// Owning controller.
    pub controller: usize,
}

/// How often the pages of a pool are used, and what moved between its classes of groups because of that.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Heat {
    /// Whether pages move.
    pub placement: bool,
    /// Intervals that ended since the start.
    pub intervals: u64,
    /// The classes, the fastest first, in the last interval.
    pub classes: Vec<ClassHeat>,
    /// Pages that came to a faster class since the start.
    pub promoted: u64,
    /// Pages that went to a slower one.
    pub demoted: u64,
    /// Bytes of both.
    pub moved_bytes: u64,
    /// The last decisions, the newest first.
    pub decisions: Vec<Decision>,
}

/// A class of groups in the last interval.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ClassHeat {
    /// `fast`, `capacity` or `archive`.
    pub class: String,
    /// Bytes in pages.
    pub size_bytes: u64,
    /// Bytes of pages that are used.
    pub used_bytes: u64,
    /// Reads; one of more than 64 KiB counts for each 64 KiB.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Its share of all of them.
    pub share_percent: f64,
    /// Accesses of its hottest page: of the last interval, half of the one before, and so on.
    pub hottest: u32,
    /// Accesses of its coldest page.
    pub coldest: u32,
    /// What a page of the next class must have to come here; 0 when there is none.
    pub threshold: u32,
}

/// What was decided between two classes after an interval.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Decision {
    /// The interval's number.
    pub interval: u64,
    /// The faster class.
    pub upper: String,
    /// The slower one.
    pub lower: String,
    /// `room`, `exchange`, `too_full`, `settled` or `no_room_below`.
    pub reason: String,
    /// Accesses of the hottest page of the slower class.
    pub hottest_below: u32,
    /// Accesses of the coldest page of the faster class.
    pub coldest_above: u32,
    /// What a page had to have to come up.
    pub threshold: u32,
    /// Pages that were to come up.
    pub promote: u32,
    /// Pages that were to go down.
    pub demote: u32,
}

/// A group's part of a pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PoolGroup {
    /// The group.
    pub name: String,
    /// Bytes for data.
    pub size_bytes: u64,
    /// Bytes in pages that are taken.
    pub used_bytes: u64,
    /// Its pages are being moved away.
    pub evacuating: bool,
}

/// A volume.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Volume {
    /// Name.
    pub name: String,
    /// Pool.
    pub pool: String,
    /// The volume of which it is a snapshot; that one may be deleted by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_of: Option<String>,
    /// Size.
    pub size_bytes: u64,
    /// Used.
    pub used_bytes: u64,
    /// Of these, in pages that other volumes use, too.
    pub shared_bytes: u64,
    /// Of these, in pages that nobody else uses: what deleting the volume gives back.
    pub exclusive_bytes: u64,
    /// `thin` or `thick`.
    pub provisioning: String,
    /// Logical block length.
    pub block_bytes: u32,
    /// NAA identifier.
    pub naa: String,
    /// Hosts and LUNs.
    pub mapped_to: Vec<Mapping>,
    /// How the service stands that it is promised.
    #[serde(default)]
    pub qos: VolumeQos,
    /// What was done with it.
    pub counters: VolumeCounters,
}

/// A virtual disk in a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Image {
    /// Name.
    pub name: String,
    /// File.
    pub file: String,
    /// The controller that serves it.
    pub controller: usize,
    /// Hosts may read it only.
    pub read_only: bool,
    /// Hosts and LUNs.
    pub mapped_to: Vec<Mapping>,
    /// Why it is not served; nothing while it is.
    pub error: Option<String>,
    /// What is wrong with it while it is served.
    #[serde(default)]
    pub trouble: Option<String>,
    /// Its format, as in `vhdx, dynamic`; empty while it is not open, and what follows is 0 then.
    pub format: String,
    /// The files of its parents, the nearest first.
    pub parents: Vec<String>,
    /// Size of the disk.
    pub size_bytes: u64,
    /// Length of the file.
    pub file_bytes: u64,
    /// Logical block length.
    pub block_bytes: u32,
    /// NAA identifier.
    pub naa: String,
    /// How the service stands that it is promised.
    #[serde(default)]
    pub qos: VolumeQos,
    /// What was done with it.
    pub counters: VolumeCounters,
}

/// A policy: normalised IOPS.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// What a volume gets when it asks for it; 0: nothing is promised.
    pub minimum_iops: u64,
    /// What it gets at most.
    pub maximum_iops: Option<u64>,
    /// Bytes per second that it gets at most.
    pub bandwidth_bytes_per_s: Option<u64>,
    /// Its part of what is left.
    pub weight: u32,
    /// Units that it may be ahead after it was idle.
    pub burst_units: u64,
    /// `dedicated` or `aggregated`.
    pub sharing: String,
    /// The volumes and images that have it.
    pub volumes: Vec<String>,
}

/// The scheduler of a pool, or of the images of a controller.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PoolScheduler {
    /// The pool; none: that of the images.
    pub pool: Option<String>,
    /// The controller.
    pub controller: usize,
    /// What counts as one.
    pub unit_bytes: u64,
    /// Requests that the pool works on at once at most, now.
    pub depth: u32,
    /// Those that it works on.
    pub in_flight: u32,
    /// Those that wait.
    pub waiting: u32,
    /// Normalised IOPS that the pool was seen to do; 0: nothing yet.
    pub capacity_iops: u64,
    /// Whether somebody waited all along then, so that it was all that the pool could do.
    pub capacity_is_full: bool,
    /// What is promised in sum.
    pub minimums_iops: u64,
    /// What of it could be given in the last 5 s: less than 1000 where more is promised than there is.
    pub scale_permille: u32,
    /// Bytes of drive I/O of work in the background that had its turns here.
    pub background_bytes: u64,
}

/// How the service stands that a volume or an image is promised.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct VolumeQos {
    /// Its policy.
    pub policy: Option<String>,
    /// `ok`, `below_minimum` or `unknown_policy`.
    pub state: String,
    /// Normalised IOPS of the last 5 s, while it is below its minimum.
    pub served_iops: Option<u64>,
    /// Bytes that its requests were charged.
    pub charged_bytes: u64,
    /// Requests served because the minimum was due.
    pub minimum_requests: u64,
    /// Requests served by weight.
    pub weight_requests: u64,
    /// Requests that waited.
    pub waited_requests: u64,
    /// How long they waited, in microseconds.
    pub waited_us: u64,
}

/// A controller's cache.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Cache {
    /// The controller.
    pub controller: usize,
    /// Memory for content.
    pub memory_bytes: u64,
    /// Of it, what holds content.
    pub used_bytes: u64,
    /// What is not on the drives yet.
    pub pending_bytes: u64,
    /// The same as a share of all frames.
    pub pending_percent: u8,
    /// Times a write had to wait because too much was pending.
    pub waits: u64,
    /// Frames given up.
    pub evictions: u64,
    /// The SSD behind the memory, if there is one.
    #[serde(default)]
    pub second: Option<SecondLevel>,
    /// Partitions; the first one is that of all volumes which are in no other.
    #[serde(default)]
    pub partitions: Vec<CachePartition>,
    /// Cached volumes.
    pub volumes: Vec<CachedVolume>,
    /// Journals of pools.
    pub journals: Vec<Journal>,
}

/// A partition of a cache.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CachePartition {
    /// Its name.
    pub name: String,
    /// What others leave to its volumes when they need it.
    pub minimum_bytes: u64,
    /// Bytes in its frames.
    pub used_bytes: u64,
    /// Of these, bytes that are not on the drives yet.
    pub pending_bytes: u64,
    /// Frames it gave up.
    pub evictions: u64,
    /// What volumes did while they were in it.
    #[serde(flatten)]
    pub traffic: CacheTraffic,
}

/// What one volume, or the volumes of a partition, did with a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheTraffic {
    /// Bytes read by hosts.
    pub read_bytes: u64,
    /// Of these, bytes that were in memory.
    pub read_hit_bytes: u64,
    /// Bytes written by hosts.
    pub write_bytes: u64,
    /// Of these, bytes that were acknowledged from the cache.
    pub write_hit_bytes: u64,
    /// Bytes written to the pool by destages.
    pub destaged_bytes: u64,
    /// Bytes read ahead.
    pub ahead_bytes: u64,
    /// Of these, bytes that were asked for.
    pub ahead_used_bytes: u64,
}

/// The SSD behind a cache's memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SecondLevel {
    /// Room for content.
    pub size_bytes: u64,
    /// Content.
    pub used_bytes: u64,
    /// Blocks that were found.
    pub hits: u64,
    /// Blocks that were not.
    pub misses: u64,
    /// Bytes written to it.
    pub written_bytes: u64,
    /// It is off, because its drive failed.
    pub failed: bool,
}

/// A volume under a cache.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CachedVolume {
    /// Its name.
    pub volume: String,
    /// `write-back`, `write-through` or `off`.
    #[serde(default)]
    pub policy: String,
    /// The partition it is in.
    #[serde(default)]
    pub partition: String,
    /// Bytes in frames.
    pub cached_bytes: u64,
    /// Of these, bytes that are not on the drives yet.
    pub pending_bytes: u64,
    /// What hosts did, and what became of it.
    #[serde(flatten)]
    pub traffic: CacheTraffic,
    /// Writes to the pool that destages made.
    pub destages: u64,
    /// Bytes that were read ahead and went away unused.
    pub ahead_unused_bytes: u64,
}

/// The journal of a pool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Journal {
    /// The pool.
    pub pool: String,
    /// Records taken.
    pub records: u64,
    /// Commits: one flush each.
    pub commits: u64,
    /// Bytes written to it.
    pub bytes: u64,
    /// Bytes that a replay would read.
    pub live_bytes: u64,
    /// Its size.
    pub size_bytes: u64,
}

/// A LUN mapping.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mapping {
    /// Host.
    pub host: String,
    /// LUN.
    pub lun: u16,
}

/// A LU's counters: how much was done, and how much of it by offload.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct VolumeCounters {
    /// All commands.
    pub commands: u64,
    /// Of these, reads.
    #[serde(default)]
    pub reads: u64,
    /// Of these, writes.
    #[serde(default)]
    pub writes: u64,
    /// Bytes read by hosts.
    pub read_bytes: u64,
    /// Bytes written by hosts.
    pub write_bytes: u64,
    /// Bytes zeroed by WRITE SAME.
    pub zeroed_bytes: u64,
    /// Bytes copied by moving them inside the array.
    pub moved_bytes: u64,
    /// Bytes copied by sharing pages.
    pub shared_bytes: u64,
    /// Bytes reclaimed by UNMAP.
    pub reclaimed_bytes: u64,
    /// COMPARE AND WRITE commands that missed.
    pub compare_misses: u64,
    /// Median latency in microseconds.
    pub latency_p50_us: f64,
    /// 99th percentile of latency in microseconds.
    pub latency_p99_us: f64,
}

/// A host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Host {
    /// Name.
    pub name: String,
    /// iSCSI name.
    pub initiator: String,
    /// `none`, `chap` or `mutual`.
    pub authentication: String,
    /// What it sees.
    pub luns: Vec<HostLun>,
}

/// What a host sees under a number.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostLun {
    /// LUN.
    pub lun: u16,
    /// Volume.
    pub volume: String,
}

/// A session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Session {
    /// Host.
    pub host: String,
    /// iSCSI name.
    pub initiator: String,
    /// ISID.
    pub isid: String,
    /// Commands.
    pub commands: u64,
    /// Bytes both ways.
    pub bytes: u64,
}
