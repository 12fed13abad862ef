//! The API's types: what goes over HTTP as JSON, converted from `array`'s plain values.

use array::status::{
    ControllerStatus, DriveStatus, GroupStatus, PoolStatus, PortStatus, SessionStatus, VolumeStatus,
};
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
    /// Hosts.
    pub hosts: Vec<Host>,
    /// Sessions.
    pub sessions: Vec<Session>,
    /// Events since the start, oldest first.
    pub events: Vec<String>,
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
    /// Size.
    pub size_bytes: u64,
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
    /// State.
    pub state: String,
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
    /// Owning controller.
    pub controller: usize,
}

/// A volume.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Volume {
    /// Name.
    pub name: String,
    /// Pool.
    pub pool: String,
    /// Size.
    pub size_bytes: u64,
    /// Used.
    pub used_bytes: u64,
    /// Shared with others.
    pub shared_bytes: u64,
    /// `thin` or `thick`.
    pub provisioning: String,
    /// Logical block length.
    pub block_bytes: u32,
    /// NAA identifier.
    pub naa: String,
    /// Hosts and LUNs.
    pub mapped_to: Vec<Mapping>,
    /// What was done with it.
    pub counters: VolumeCounters,
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

/// One change of the array: `POST /v1/change`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    /// A new pool over existing drives' groups.
    PoolCreate {
        /// Its name.
        name: String,
        /// Its groups.
        groups: Vec<String>,
        /// Page size.
        page_bytes: u64,
        /// Soft threshold.
        soft_threshold_percent: u8,
    },
    /// Another soft threshold.
    PoolThreshold {
        /// The pool.
        name: String,
        /// Percent.
        soft_threshold_percent: u8,
    },
    /// A new group of new file drives or devices.
    GroupCreate {
        /// Its name.
        name: String,
        /// `raid0` or `raid1`.
        level: String,
        /// Paths: a device under /dev, else a file, made with `drive_bytes` when it is not there.
        drives: Vec<String>,
        /// Size of a file drive that is to be made.
        drive_bytes: Option<u64>,
    },
    /// A new volume.
    VolumeCreate {
        /// Its name.
        name: String,
        /// Its pool; the only one when not given.
        pool: Option<String>,
        /// Size.
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
    /// A volume and its data are deleted.
    VolumeDelete {
        /// The volume.
        name: String,
    },
    /// A volume that shares the pages of another.
    SnapshotCreate {
        /// The volume.
        volume: String,
        /// The new one.
        name: String,
    },
    /// A new host, or other secrets for it.
    HostSet {
        /// Its name.
        name: String,
        /// iSCSI name.
        initiator: String,
        /// CHAP name and secret.
        chap: Option<(String, String)>,
        /// The target's CHAP name and secret.
        mutual_chap: Option<(String, String)>,
    },
    /// A host is forgotten.
    HostDelete {
        /// The host.
        name: String,
    },
    /// A host sees a volume.
    Map {
        /// The host.
        host: String,
        /// The volume.
        volume: String,
        /// The LUN; the first free one when not given.
        lun: Option<u16>,
    },
    /// A host sees a volume no longer.
    Unmap {
        /// The host.
        host: String,
        /// The volume.
        volume: String,
    },
}

/// What a change did, a line each.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done {
    /// What was made or changed.
    pub done: Vec<String>,
}

/// Why a request was refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Refused {
    /// One line: cause and place.
    pub error: String,
}

impl Status {
    pub(crate) fn of(config: &array::Config, parts: Vec<ControllerStatus>, uptime_s: u64) -> Status {
        let mut status = Status {
            version: env!("CARGO_PKG_VERSION").into(),
            target: config.target.clone(),
            uptime_s,
            controllers: config.controllers,
            ports: vec![],
            drives: vec![],
            groups: vec![],
            pools: vec![],
            volumes: vec![],
            hosts: config.hosts.iter().map(Host::of).collect(),
            sessions: vec![],
            events: vec![],
        };
        for part in parts {
            let controller = part.index;
            status.ports.extend(part.ports.into_iter().map(|p| Port::of(p, controller)));
            status.drives.extend(part.drives.into_iter().map(Drive::of));
            status.groups.extend(part.groups.into_iter().map(Group::of));
            status.pools.extend(part.pools.into_iter().map(|p| Pool::of(p, controller)));
            status.volumes.extend(part.volumes.into_iter().map(Volume::of));
            status.sessions.extend(part.sessions.into_iter().map(Session::of));
            status.events.extend(part.events);
        }
        status
    }
}

impl Port {
    fn of(p: PortStatus, controller: usize) -> Port {
        Port {
            listen: p.listen.to_string(),
            portal_group: p.portal_group,
            controller,
            sessions: p.sessions,
            commands: p.commands,
            bytes_in: p.bytes_in,
            bytes_out: p.bytes_out,
        }
    }
}

impl Drive {
    fn of(d: DriveStatus) -> Drive {
        Drive {
            name: d.name,
            medium: d.medium,
            size_bytes: d.len_bytes,
            reads: d.counts.reads,
            read_bytes: d.counts.read_bytes,
            writes: d.counts.writes,
            write_bytes: d.counts.write_bytes,
            zeros: d.counts.zeros,
            flushes: d.counts.flushes,
        }
    }
}

impl Group {
    fn of(g: GroupStatus) -> Group {
        let level = format!("{:?}", g.level).to_lowercase();
        Group { name: g.name, level, drives: g.drives, size_bytes: g.len_bytes, state: g.state }
    }
}

impl Pool {
    fn of(p: PoolStatus, controller: usize) -> Pool {
        Pool {
            name: p.name,
            groups: p.groups,
            page_bytes: p.page_bytes,
            size_bytes: p.len_bytes,
            used_bytes: p.used_bytes,
            promised_bytes: p.promised_bytes,
            soft_threshold_percent: p.soft_threshold_percent,
            controller,
        }
    }
}

impl Volume {
    fn of(v: VolumeStatus) -> Volume {
        let c = &v.counters;
        Volume {
            counters: VolumeCounters {
                commands: c.commands.iter().sum::<u64>() + c.failed,
                read_bytes: c.read_bytes,
                write_bytes: c.written_bytes,
                zeroed_bytes: c.zeroed_bytes,
                moved_bytes: c.moved_bytes,
                shared_bytes: c.shared_bytes,
                reclaimed_bytes: c.reclaimed_bytes,
                compare_misses: c.compare_misses,
                latency_p50_us: percentile_us(&c.latency, 50.0),
                latency_p99_us: percentile_us(&c.latency, 99.0),
            },
            name: v.name,
            pool: v.pool,
            size_bytes: v.len_bytes,
            used_bytes: v.used_bytes,
            shared_bytes: v.shared_bytes,
            provisioning: format!("{:?}", v.provisioning).to_lowercase(),
            block_bytes: v.block_bytes,
            naa: v.naa,
            mapped_to: v.mapped_to.into_iter().map(|(host, lun)| Mapping { host, lun: lun.0 }).collect(),
        }
    }
}

/// A percentile over the latency histograms of all classes: the largest value of the bucket it falls into.
fn percentile_us(classes: &[Vec<(u64, u64)>], percent: f64) -> f64 {
    let mut buckets: Vec<(u64, u64)> = classes.iter().flatten().copied().collect();
    buckets.sort_unstable();
    let total: u64 = buckets.iter().map(|(_, n)| n).sum();
    let rank = (total as f64 * percent / 100.0).ceil() as u64;
    let mut seen = 0;
    let reached = buckets.iter().find(|(_, n)| {
        seen += n;
        seen >= rank
    });
    reached.map_or(0.0, |(top_ns, _)| *top_ns as f64 / 1e3)
}

impl Host {
    fn of(h: &array::config::HostConfig) -> Host {
        let authentication = match (&h.chap, &h.mutual_chap) {
            (None, _) => "none",
            (Some(_), None) => "chap",
            (Some(_), Some(_)) => "mutual",
        };
        Host {
            name: h.name.clone(),
            initiator: h.initiator.clone(),
            authentication: authentication.into(),
            luns: h.luns.iter().map(|(lun, volume)| HostLun { lun: lun.0, volume: volume.clone() }).collect(),
        }
    }
}

impl Session {
    fn of(s: SessionStatus) -> Session {
        Session { host: s.host, initiator: s.initiator, isid: s.isid, commands: s.commands, bytes: s.bytes }
    }
}
