//! One of each message. Each list goes from one variant to the next by a `match` without a wildcard: the
//! compiler asks for a new one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use block::Pieces;
use pool::Closed;
use qos::{Found, FoundRate, FoundShallower, Part, PartUse, Room, Slice};
use scsi::error::TokenFault;
use scsi::sense::Asc;
use scsi::{
    Arrival as Arrived, CopyAnswer, CopyEnd, CopyRequest, InitiatorPort, Lun, NexusId, Request,
    TaskAttribute, TaskFunction, VolatileState,
};
use world::{DriveSpec, ImageAccess, RbdImage};

use super::standing;
use crate::config::{
    Config, ConfigError, DeletedGroup, DriveConfig, FileFormat, GroupConfig, GroupId, HostConfig, Identities,
    ImportedDrives, Level, Made, MadeGroup, NotOpen, PoolConfig, RawFile, VolumeConfig,
};
use crate::control::{
    Arrival, Control, ControlError, Imported, MovedLu, PlaceDemand, PlaceParts, PoolFound, Released, Reply,
    Steer,
};
use crate::nexus::{RemoteNexus, target_port};
use crate::nodes::Nodes;
use crate::place::Place;
use crate::why::Why;

/// All of a list in which each one leads to the next.
pub(super) fn all<T>(first: T, next: impl Fn(&T) -> Option<T>) -> Vec<T> {
    let mut all = vec![first];
    while let Some(more) = next(all.last().expect("the first one")) {
        all.push(more);
    }
    all
}

pub(super) fn nexus() -> RemoteNexus {
    let initiator = InitiatorPort { name: "iqn.2026-11.test:host".into(), isid: [1, 2, 3, 4, 5, 6] };
    RemoteNexus { id: NexusId(u64::MAX - 1), initiator, port: target_port("iqn.2026-11.test:array", 7) }
}

/// Bytes over several buffers.
pub(super) fn data() -> Pieces {
    let mut data = Pieces::copy_of(b"\0\x01{}\"\xff");
    data.push_zeros(3 << 20);
    data.append(Pieces::copy_of(&[0xa5; 513]));
    data
}

pub(super) fn request() -> Request {
    let cdb = *b"\x8a123456789abcdef";
    let request = Request::new(cdb, data(), 1 << 31);
    let arrival = request.arrival;
    Request { attribute: TaskAttribute::Ordered, data_out_max: u32::MAX, tag: u64::MAX, arrival, ..request }
}

pub(super) fn functions() -> Vec<TaskFunction> {
    all(TaskFunction::AbortTask(Lun(3), u64::MAX), |function| match function {
        TaskFunction::AbortTask(..) => Some(TaskFunction::AbortTaskSet(Lun(4))),
        TaskFunction::AbortTaskSet(_) => Some(TaskFunction::ClearTaskSet(Lun(5))),
        TaskFunction::ClearTaskSet(_) => Some(TaskFunction::LunReset(Lun(6))),
        TaskFunction::LunReset(_) => Some(TaskFunction::TargetReset),
        TaskFunction::TargetReset => None,
    })
}

fn copy_end() -> CopyEnd {
    CopyEnd { lun: Lun(9), naa: [0x6a; 16], block_bytes: 4096, len_bytes: 1 << 50 }
}

pub(super) fn copies() -> Vec<CopyRequest> {
    let token = || Box::new(std::array::from_fn(|i| i as u8));
    let (end, arrival) = (copy_end(), Arrived::now());
    all(CopyRequest::Find([7; 16]), |request| match request {
        CopyRequest::Find(_) => Some(CopyRequest::Read { end, at: 4096, len: 16 << 20 }),
        CopyRequest::Read { .. } => Some(CopyRequest::FindToken(token())),
        CopyRequest::FindToken(_) => Some(CopyRequest::ReadToken { token: token(), at: 512, len: 8192 }),
        CopyRequest::ReadToken { .. } => Some(CopyRequest::DeleteToken(token())),
        CopyRequest::DeleteToken(_) => Some(CopyRequest::Write { end, at: 8192, data: data(), arrival }),
        CopyRequest::Write { .. } => None,
    })
}

pub(super) fn copied() -> Vec<CopyAnswer> {
    all(CopyAnswer::End(Some(copy_end())), |answer| match answer {
        CopyAnswer::End(Some(_)) => Some(CopyAnswer::End(None)),
        CopyAnswer::End(None) => Some(CopyAnswer::Token(Ok(u64::MAX))),
        CopyAnswer::Token(Ok(_)) => Some(CopyAnswer::Token(Err(TokenFault::Expired))),
        CopyAnswer::Token(Err(_)) => Some(CopyAnswer::Done(data())),
        CopyAnswer::Done(_) => Some(CopyAnswer::Refused(Asc(0x2612))),
        CopyAnswer::Refused(_) => None,
    })
}

/// Drives of every kind.
pub(super) fn specs() -> Vec<DriveSpec> {
    let path = || "/srv/d 0".into();
    let rbd = RbdImage { user: Some("u".into()), conf: Some("c".into()), ..named("rbd/i") };
    let first = DriveSpec::File { path: path(), create_len_bytes: Some(u64::MAX) };
    all(first, |spec| match spec {
        DriveSpec::File { .. } => Some(DriveSpec::Image { path: path(), access: ImageAccess::Create }),
        DriveSpec::Image { access: ImageAccess::Create, .. } => {
            Some(DriveSpec::Image { path: path(), access: ImageAccess::Read })
        }
        DriveSpec::Image { access: ImageAccess::Read, .. } => {
            Some(DriveSpec::Image { path: path(), access: ImageAccess::Write })
        }
        DriveSpec::Image { access: ImageAccess::Write, .. } => {
            Some(DriveSpec::ImageWithin { folder: "f".into(), path: path() })
        }
        DriveSpec::ImageWithin { .. } => Some(DriveSpec::Device { path: "/dev/none".into() }),
        DriveSpec::Device { .. } => Some(DriveSpec::ReadOnly { path: path() }),
        DriveSpec::ReadOnly { .. } => Some(DriveSpec::Rbd(rbd.clone())),
        DriveSpec::Rbd(_) => Some(DriveSpec::Memory { name: "other".into(), len_bytes: 5 }),
        DriveSpec::Memory { .. } => Some(DriveSpec::Modelled { name: "m".into() }),
        DriveSpec::Modelled { .. } => None,
    })
}

fn named(image: &str) -> RbdImage {
    RbdImage::named(image).expect("an image")
}

fn drives() -> Vec<DriveConfig> {
    (0..).zip(specs()).map(|(i, spec)| DriveConfig { name: format!("d{i}"), spec }).collect()
}

fn by_name() -> BTreeMap<String, DriveConfig> {
    drives().into_iter().map(|drive| (drive.name.clone(), drive)).collect()
}

fn config() -> Arc<Config> {
    let names = drives().into_iter().map(|drive| drive.name).collect();
    Arc::new(Config {
        drives: drives(),
        groups: vec![GroupConfig::new("g".into(), Level::Raid6, names)],
        pools: vec![PoolConfig::new("p".into(), vec!["g".into()])],
        volumes: vec![VolumeConfig::new("v".into(), "p".into(), u64::MAX >> 1)],
        hosts: vec![HostConfig::new("h".into(), "iqn.2026-11.test:h".into(), [(3, "v".into())].into())],
        ..Config::empty("iqn.2026-11.test:array")
    })
}

/// Without `..`: whatever is in it crosses.
fn made() -> Arc<Made> {
    let names = |name: &str| BTreeSet::from([name.to_owned()]);
    let texts = |name: &str| BTreeMap::from([(name.to_owned(), format!("of {name}"))]);
    let file = RawFile { len_bytes: 4096, file: Some(u64::MAX) };
    Arc::new(Made {
        drives: names("d0"),
        pools: names("p"),
        volumes: names("v"),
        lu_numbers: [("v".to_owned(), u64::MAX)].into(),
        images: [("i".to_owned(), file)].into(),
        overwrite: names("d1"),
        discarded: texts("w"),
        deleted_pools: names("q"),
        exported_pools: names("r"),
        devices: texts("d2"),
        displaced: texts("d3"),
        is_first: true,
        groups: [("g".to_owned(), MadeGroup { id: Some(GroupId([9; 16])), ready: false })].into(),
        deleted_groups: [("g1".to_owned(), deleted())].into(),
        importing: [("/srv/d 0".to_owned(), ImportedDrives { drives: by_name() })].into(),
    })
}

fn deleted() -> DeletedGroup {
    DeletedGroup { id: Some(GroupId([8; 16])), drives: by_name() }
}

/// Reservations, attentions, counters and events. No test can make one but by what crosses: `scsi` tests that
/// this is what a logical unit has.
pub(super) fn state() -> VolatileState {
    let port = serde_json::json!({"name": "iqn.2026-11.test:h", "isid": [0, 1, 2, 3, 4, 5]});
    let nexus = serde_json::json!({"initiator": port, "port": 3});
    let abort = |at: u64| serde_json::json!({"at": at, "by": 77, "lun": 4, "told": true, "clears": true});
    let histogram = |i: u64| serde_json::json!({"buckets": [[i, i + 1], [287, 9]], "sum_ns": u64::MAX - i});
    let state = serde_json::json!({
        "modes": {"d_sense": true, "swp": false, "tas": true, "write_through": true},
        "reservations": {
            "registrants": [[nexus, u64::MAX]],
            "held": {"kind": "WriteExclusiveRegistrantsOnly", "by": nexus},
            "generation": 5,
            "survives_power_loss": true,
            "legacy": nexus,
        },
        "attentions": [{"nexus": 77, "attentions": 0x1fff}],
        "counting": {
            "commands": [1, 2, 3, 4, 5, 6, 7],
            "failed": 8,
            "read_bytes": 9,
            "written_bytes": 10,
            "zeroed_bytes": 11,
            "patterned_bytes": 12,
            "moved_bytes": 13,
            "shared_bytes": 14,
            "reclaimed_bytes": 15,
            "compare_misses": 16,
            "reservation_conflicts": 17,
            "read_errors": 18,
            "write_errors": 19,
            "latency": (0..7).map(histogram).collect::<Vec<_>>(),
        },
        "history": {
            "latest": 24,
            "began": 20,
            "all": abort(24),
            "preempted": [[nexus, abort(23)]],
            "sanitized": 22,
        },
    });
    serde_json::from_value(state).expect("a state")
}

fn closed(generation: u64) -> Closed {
    Closed { generation, sequence: 3 * generation }
}

fn lus() -> Vec<MovedLu> {
    ["v", "w"].map(|volume| MovedLu { volume: volume.into(), state: state() }).into()
}

fn part() -> Part {
    let slice = |bytes_per_s| Slice { bytes_per_s, window_bytes: 5 * bytes_per_s };
    Part { minimum_bytes_per_s: 3, maximum: Some(slice(7)), bandwidth: None, is_met: true }
}

fn found() -> Found {
    Found {
        depth_max: 64,
        depth: 25,
        too_shallow: 23,
        cost_permille: 17,
        rate: Some(FoundRate { kb_per_s: u64::MAX, request_bytes: 1 << 20 }),
        shallower: Some(FoundShallower { depth: 16, of: 33, kept_permille: 910 }),
    }
}

fn parts() -> Vec<PlaceParts> {
    let parts = vec![("gold".into(), Some(part())), ("tin".into(), None)];
    vec![PlaceParts { place: Place::Pool("p".into()), parts, found: Some(found()) }]
}

fn demand() -> Vec<PlaceDemand> {
    let used = PartUse {
        part: Some(part()),
        served_bytes_per_s: 11,
        asking: 2,
        is_hungry: true,
        ..PartUse::default()
    };
    let uses = vec![("gold".into(), Some(used)), ("tin".into(), None)];
    let room = Room { capacity_bytes_per_s: Some(13), claimed_bytes_per_s: 17 };
    vec![PlaceDemand { place: Place::Images(1), room, uses, found: None }]
}

/// All requests of the control plane.
pub(super) fn controls() -> Vec<Control> {
    let (name, other) = (|| "a \"name\"".to_owned(), || "ö".to_owned());
    let owners = || vec![(name(), raid::ArrayId([3; 16]))];
    all(Control::Nodes(Arc::new(Nodes::default())), |control| match control {
        Control::Nodes(_) => Some(Control::MakeReady(name())),
        Control::MakeReady(_) => Some(Control::Hold(Arc::new([name(), other()].into()))),
        Control::Hold(_) => Some(Control::Announce(3)),
        Control::Announce(_) => Some(Control::Arrived),
        Control::Arrived => Some(Control::ReleasePool(name())),
        Control::ReleasePool(_) => Some(Control::Release(config())),
        Control::Release(_) => {
            let closed = vec![(name(), closed(7)), (other(), closed(1 << 40))];
            let found = vec![PoolFound { pool: name(), found: found() }];
            let arrival = Arrival { pool: name(), lus: lus(), closed, found };
            Some(Control::Prepare { config: config(), made: made(), arrival: Some(arrival) })
        }
        Control::Prepare { .. } => Some(Control::Commit(config())),
        Control::Commit(_) => Some(Control::Undo(config())),
        Control::Undo(_) => Some(Control::AtNextStart(config())),
        Control::AtNextStart(_) => Some(Control::GroupIds(vec![name(), other()])),
        Control::GroupIds(_) => Some(Control::ImageFormats(config())),
        Control::ImageFormats(_) => Some(Control::DeleteVolume { pool: name(), name: other() }),
        Control::DeleteVolume { .. } => Some(Control::CloneVolume { from: name(), to: other() }),
        Control::CloneVolume { .. } => {
            Some(Control::ReplaceDrive { group: name(), old: other(), new: "n".into(), overwrite: true })
        }
        Control::ReplaceDrive { .. } => Some(Control::Scrub(name())),
        Control::Scrub(_) => Some(Control::SteerWork { group: name(), steer: Steer::Pause }),
        Control::SteerWork { steer: Steer::Pause, .. } => {
            Some(Control::SteerWork { group: name(), steer: Steer::Resume })
        }
        Control::SteerWork { steer: Steer::Resume, .. } => {
            Some(Control::SteerWork { group: name(), steer: Steer::StopScrub })
        }
        Control::SteerWork { steer: Steer::StopScrub, .. } => Some(Control::Rebalance(name())),
        Control::Rebalance(_) => Some(Control::Reclaim(name())),
        Control::Reclaim(_) => Some(Control::StopJobs),
        Control::StopJobs => Some(Control::ExportPool(name())),
        Control::ExportPool(_) => Some(Control::DeletePool(name())),
        Control::DeletePool(_) => Some(Control::MayDeleteGroup(name())),
        Control::MayDeleteGroup(_) => Some(Control::DeleteGroup { name: name(), deleted: deleted() }),
        Control::DeleteGroup { .. } => Some(Control::ImportPool { drives: specs(), force: true }),
        Control::ImportPool { .. } => Some(Control::FinishExport { name: name(), drives: drives() }),
        Control::FinishExport { .. } => Some(Control::GiveBack { drives: specs(), owners: owners() }),
        Control::GiveBack { .. } => Some(Control::Forget(2)),
        Control::Forget(_) => Some(Control::PolicyParts(parts())),
        Control::PolicyParts(_) => Some(Control::Ping),
        Control::Ping => Some(Control::Status),
        Control::Status => Some(Control::Overview),
        Control::Overview => Some(Control::EndSessions { grace: Duration::new(7, 9) }),
        Control::EndSessions { .. } => Some(Control::Stop { grace: Duration::new(3, 5) }),
        Control::Stop { .. } => None,
    })
}

/// All replies.
pub(super) fn replies() -> Vec<Reply> {
    let lines = || vec!["pool p: made".to_owned(), String::new()];
    let names = |name: &str| BTreeSet::from([name.to_owned()]);
    all(Reply::Done(lines()), |reply| match reply {
        Reply::Done(_) => {
            let file = RawFile { len_bytes: 1, file: None };
            let ids = Identities {
                groups: [("g".to_owned(), GroupId([1; 16]))].into(),
                lu_numbers: [("v".to_owned(), 7)].into(),
                images: [("i".to_owned(), file)].into(),
            };
            let not_open = NotOpen { groups: names("g"), pools: names("p"), volumes: names("v") };
            Some(Reply::Prepared(lines(), ids, not_open))
        }
        Reply::Prepared(..) => Some(Reply::Status(Box::new(standing::status()))),
        Reply::Status(_) => {
            let config = Arc::unwrap_or_clone(config());
            Some(Reply::Imported(Box::new(Imported {
                drives: drives(),
                groups: config.groups,
                pool: config.pools[0].clone(),
                volumes: config.volumes,
                owners: vec![("g".into(), raid::ArrayId([4; 16]))],
            })))
        }
        Reply::Imported(_) => {
            let formats = [FileFormat::Raw, FileFormat::VhdDifferencing, FileFormat::Vhdx];
            Some(Reply::Formats(formats.map(|format| (format!("{format:?}"), format)).into()))
        }
        Reply::Formats(_) => Some(Reply::PolicyDemand(demand())),
        Reply::PolicyDemand(_) => {
            Some(Reply::Released(Released { lus: lus(), closed: closed(7), found: Some(found()) }))
        }
        Reply::Released(_) => None,
    })
}

/// All errors.
pub(super) fn failures() -> Vec<ControlError> {
    let text = || "in words".to_owned();
    let first = ControlError::Config(ConfigError { place: "volume \"v\"".into(), cause: text() });
    all(first, |error| match error {
        ControlError::Config(_) => {
            let why = Why { reason: status::Reason::NoRoom, drive: Some("/srv/d0".into()) };
            Some(ControlError::Failed { place: "group \"g\"".into(), cause: text(), why })
        }
        ControlError::Failed { .. } => Some(ControlError::Stopped(7)),
        ControlError::Stopped(_) => None,
    })
}
