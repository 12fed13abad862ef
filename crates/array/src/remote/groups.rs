//! The status of RAID groups.

use std::time::Duration;

use raid::{GroupId, GroupState, JournalCounts, MemberState, MemberStatus, Progress};
use serde::{Deserialize, Serialize};
use world::{DriveCounts, Silence};

use super::lists::lists;
use crate::config::{Class, Level};
use crate::status::GroupStatus;

#[derive(Serialize, Deserialize)]
#[serde(remote = "GroupStatus")]
pub(super) struct GroupStanding {
    name: String,
    level: Level,
    drives: Vec<String>,
    len_bytes: u64,
    #[serde(with = "Raid")]
    raid: raid::GroupStatus,
    members: Vec<Option<String>>,
    resync_waits: Option<String>,
    foreground_share_percent: u8,
    start_degraded: bool,
    class: Class,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "raid::GroupStatus")]
struct Raid {
    name: String,
    #[serde(with = "Id")]
    id: GroupId,
    #[serde(with = "RaidLevel")]
    level: raid::Level,
    stripe_unit_bytes: u32,
    #[serde(with = "State")]
    state: GroupState,
    tolerates: u32,
    len_bytes: u64,
    epoch: u64,
    reads_pinned: bool,
    repairs: u64,
    lost_ranges: usize,
    differing_blocks: u64,
    #[serde(with = "Journal")]
    journal: JournalCounts,
    #[serde(with = "progress")]
    rebuild: Option<Progress>,
    #[serde(with = "progress")]
    scrub: Option<Progress>,
    #[serde(with = "members")]
    members: Vec<MemberStatus>,
}

lists! {
    progress: Option<Progress> as "Far";
    members: Vec<MemberStatus> as "Member";
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "GroupId")]
struct Id([u8; 16]);

#[derive(Serialize, Deserialize)]
#[serde(remote = "raid::Level")]
enum RaidLevel {
    Raid0,
    Raid1,
    Raid10,
    Raid5,
    Raid6,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "GroupState")]
enum State {
    Optimal,
    Degraded,
    Failed,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "JournalCounts")]
struct Journal {
    batches: u64,
    frames: u64,
    bytes: u64,
    replayed: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Progress")]
struct Far {
    position: Option<u32>,
    done_bytes: u64,
    total_bytes: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "MemberStatus")]
struct Member {
    position: u32,
    drive: Option<String>,
    #[serde(with = "Place")]
    state: MemberState,
    cause: Option<String>,
    #[serde(with = "Counts")]
    counts: DriveCounts,
    errors: u64,
    #[serde(with = "Quiet")]
    silence: Silence,
    dropped_silent: bool,
    dropped_gone: bool,
    latency_p99: Option<Duration>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "MemberState")]
enum Place {
    Active,
    Missing,
    Stale,
    Failed,
    Rebuilding,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "DriveCounts")]
struct Counts {
    reads: u64,
    read_bytes: u64,
    writes: u64,
    write_bytes: u64,
    zeros: u64,
    zero_bytes: u64,
    flushes: u64,
    silences: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Silence")]
struct Quiet {
    slow: bool,
    given_up: u32,
    given_up_bytes: u64,
}
