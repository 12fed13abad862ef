//! The answer to `GET /v1/status`, made of what the controllers say.

use array::status::{
    ControllerStatus, DriveStatus, GroupStatus, PoolStatus, PortStatus, SessionStatus, VolumeStatus,
};

use crate::api::{Drive, Group, Host, HostLun, Mapping, Pool, Port, Session, Status, Volume, VolumeCounters};

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
            jobs: vec![],
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
            group: None,
            state: String::new(),
        }
    }
}

impl Group {
    fn of(g: GroupStatus) -> Group {
        let level = format!("{:?}", g.level).to_lowercase();
        Group {
            name: g.name,
            level,
            drives: g.drives,
            size_bytes: g.len_bytes,
            state: format!("{:?}", g.raid.state).to_lowercase(),
            tolerates: 0,
            members: vec![],
            rebuild: None,
            scrub: None,
            lost_ranges: 0,
            repairs: 0,
            foreground_share_percent: 70,
        }
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
            critical_threshold_percent: 95,
            group_spaces: vec![],
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
            exclusive_bytes: v.used_bytes - v.shared_bytes,
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
