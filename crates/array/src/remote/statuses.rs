//! The status of a controller.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::caches::Caching;
use super::groups::GroupStanding;
use super::lists::lists;
use super::told::Happened;
use crate::config::Provisioning;
use crate::event::Event;
use crate::status::{
    BelowMinimum, CacheStatus, ControllerStatus, Counters, Drive, GroupStatus, HostServed, ImageFault,
    ImageStatus, Job, Mapping, Missing, Pool, PoolScheduler, Port, Refusals, ServedImage, Session,
    StageLatency, Unopened, VolumeQos, VolumeStatus,
};

#[derive(Serialize, Deserialize)]
#[serde(remote = "ControllerStatus")]
pub(super) struct Standing {
    index: usize,
    busy: Duration,
    age: Duration,
    drives: Vec<Drive>,
    #[serde(with = "groups")]
    groups: Vec<GroupStatus>,
    #[serde(with = "pools")]
    pools: Vec<Pool>,
    #[serde(with = "volumes")]
    volumes: Vec<VolumeStatus>,
    #[serde(with = "images")]
    images: Vec<ImageStatus>,
    #[serde(with = "caches")]
    cache: Option<CacheStatus>,
    schedulers: Vec<PoolScheduler>,
    below_minimum: Vec<BelowMinimum>,
    sessions: Vec<Session>,
    ports: Vec<Port>,
    refused: Vec<Refusals>,
    stages: Vec<StageLatency>,
    served: Vec<HostServed>,
    missing: Vec<Missing>,
    undeclared: Vec<(String, String)>,
    jobs: Vec<Job>,
    spares: Vec<String>,
    spare_faults: BTreeMap<String, String>,
    #[serde(with = "events")]
    events: Vec<Event>,
}

lists! {
    groups: Vec<GroupStatus> as "GroupStanding";
    pools: Vec<Pool> as "whole_pool";
    volumes: Vec<VolumeStatus> as "VolumeStanding";
    images: Vec<ImageStatus> as "ImageStanding";
    caches: Option<CacheStatus> as "Caching";
    events: Vec<Event> as "Happened";
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "VolumeStatus")]
struct VolumeStanding {
    name: String,
    pool: String,
    snapshot_of: Option<String>,
    len_bytes: u64,
    used_bytes: u64,
    shared_bytes: u64,
    exclusive_bytes: u64,
    provisioning: Provisioning,
    block_bytes: u32,
    naa: String,
    mapped_to: Vec<Mapping>,
    qos: VolumeQos,
    counters: Counters,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ImageStatus")]
struct ImageStanding {
    name: String,
    file: String,
    read_only: bool,
    mapped_to: Vec<Mapping>,
    #[serde(with = "ImageState")]
    state: Result<ServedImage, Unopened>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Result<ServedImage, Unopened>")]
#[expect(clippy::large_enum_variant, reason = "no value of a mirror is ever made")]
enum ImageState {
    Ok(#[serde(with = "Served")] ServedImage),
    Err(#[serde(with = "NotServed")] Unopened),
}

/// Of one of the formats that there are. (Written as a reference, serde would borrow it from the frame.)
type FormatName = &'static str;

#[derive(Serialize, Deserialize)]
#[serde(remote = "ServedImage")]
struct Served {
    #[serde(with = "format")]
    format: FormatName,
    trouble: Option<(ImageFault, String)>,
    parents: Vec<String>,
    len_bytes: u64,
    file_len_bytes: u64,
    block_bytes: u32,
    naa: String,
    qos: VolumeQos,
    counters: Counters,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Unopened")]
struct NotServed {
    cause: String,
    fault: ImageFault,
}

/// The name of a format.
mod format {
    use super::*;

    pub(super) fn serialize<S: Serializer>(format: &str, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(format)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<&'static str, D::Error> {
        let text = String::deserialize(deserializer)?;
        let known = vdisk::Format::ALL.iter().map(|format| format.name()).find(|name| *name == text);
        known.ok_or_else(|| serde::de::Error::custom("an image format that is not known"))
    }
}

/// A pool with what the API does not show of it.
mod whole_pool {
    use super::*;

    #[derive(Serialize)]
    struct Each<'a>(&'a Pool, &'a Option<String>, &'a Option<String>);

    #[derive(Deserialize)]
    struct One(Pool, Option<String>, Option<String>);

    pub(super) fn serialize<S: Serializer>(pool: &Pool, serializer: S) -> Result<S::Ok, S::Error> {
        Each(pool, &pool.no_room, &pool.refused_writes).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Pool, D::Error> {
        let One(pool, no_room, refused_writes) = One::deserialize(deserializer)?;
        Ok(Pool { no_room, refused_writes, ..pool })
    }
}
