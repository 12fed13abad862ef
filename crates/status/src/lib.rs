//! The status of an array: one struct per object, which controllers fill, the API serves as JSON and commands
//! print.

mod caching;
mod drives;
mod events;
mod failover;
mod hosts;
mod jobs;
mod latency;
mod lus;
mod missing;
mod nodes;
mod pools;
mod qos;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use caching::{Cache, CachePartition, CacheTraffic, CachedVolume, Journal, SecondLevel};
pub use drives::{Drive, DriveHealth, Group, Member};
pub use events::{BelowMinimum, EventRecord, Events, Refusals, Trouble};
pub use failover::{Failover, LastFailover};
pub use hosts::{Host, HostLun, Port, Session};
pub use jobs::{Job, Progress, UnderWay};
pub use latency::{Histograms, HostServed, LATENCY_BUCKETS, Latencies, Latency, LuLatency, StageLatency};
pub use lus::{Image, Mapping, Volume, VolumeCounters};
pub use missing::{ImageFault, Missing, Reason};
pub use nodes::Node;
pub use pools::{ClassHeat, Decision, Heat, Pool, PoolGroup};
pub use qos::{Policy, PolicyPart, PoolScheduler, VolumeQos};

/// `GET /v1/status`: the array.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct Status {
    /// The version of masu.
    pub version: String,
    /// The target's iSCSI name.
    pub target: String,
    /// Seconds since the start.
    pub uptime_s: u64,
    /// How many there are, each a thread.
    pub controllers: usize,
    /// How busy each of them is.
    #[serde(default)]
    pub loads: Vec<Load>,
    /// What would happen if this node failed now, of an array of several nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<Failover>,
    /// The nodes of the array.
    #[serde(default)]
    pub nodes: Vec<Node>,
    /// iSCSI portals of all controllers.
    pub ports: Vec<Port>,
    /// Members, spares and free drives, also those that are missing.
    pub drives: Vec<Drive>,
    /// RAID groups.
    pub groups: Vec<Group>,
    /// Those that are open.
    pub pools: Vec<Pool>,
    /// Those that are open, snapshots among them.
    pub volumes: Vec<Volume>,
    /// Virtual disks in files.
    #[serde(default)]
    pub images: Vec<Image>,
    /// Caches, one for each controller that has one.
    #[serde(default)]
    pub caches: Vec<Cache>,
    /// As declared.
    #[serde(default)]
    pub policies: Vec<Policy>,
    /// Schedulers of the pools in which a policy is in force.
    #[serde(default)]
    pub schedulers: Vec<PoolScheduler>,
    /// As declared, with what is mapped to them.
    pub hosts: Vec<Host>,
    /// Logged in now.
    pub sessions: Vec<Session>,
    /// What was made and cannot be opened: it is not served, and nothing is written to it.
    #[serde(default)]
    pub missing: Vec<Missing>,
    /// Long work that runs now.
    pub jobs: Vec<Job>,
    /// The change that is being made: what follows waits for it. What is declared is as it was before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub under_way: Option<UnderWay>,
    /// The last events since the start, oldest first: what `masu status` shows. `GET /v1/events` has those
    /// that are kept.
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
    /// How long operations took, layer by layer.
    #[serde(skip)]
    pub stages: Vec<StageLatency>,
    /// Pool and name of volumes that are declared by nobody.
    #[serde(skip)]
    pub undeclared: Vec<(String, String)>,
    /// Why the state cannot be saved, and whether something else is stored than what is in force.
    #[serde(skip)]
    pub state_fault: Option<(String, bool)>,
    /// Exports and imports that were interrupted and are not complete: the object, what is so, what to do.
    #[serde(skip)]
    pub unfinished: Vec<(String, String, String)>,
    /// What hosts were served; a host of several controllers more than once.
    #[serde(skip)]
    pub served: Vec<HostServed>,
}

/// How busy a controller is: two answers tell what it was between them.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, ToSchema)]
pub struct Load {
    /// Its number, from 0.
    pub controller: usize,
    /// Milliseconds of processor time that it used since it started.
    pub busy_ms: u64,
    /// Milliseconds since it started.
    pub up_ms: u64,
}
