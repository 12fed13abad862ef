//! The answer to `GET /v1/status`, made of what the controllers say. Most of it goes as it is; histograms and
//! frames become percentiles and bytes here, not on the threads that serve hosts.

mod images;
mod policies;

use std::collections::BTreeMap;

use array::status::{
    CacheStatus, CachedStatus, ControllerStatus, GroupStatus, JournalStatus, PartitionStatus, Traffic,
    VolumeStatus,
};
use array::{LatencyCounts, OpClass};
use status::{
    Cache, CachePartition, CacheTraffic, CachedVolume, Drive, Group, Host, HostLun, Job, Journal, Latencies,
    Load, Member, Progress, SecondLevel, Status, Volume, VolumeCounters,
};

/// What was interrupted, as the status has it.
pub(crate) fn unfinished(all: Vec<array::Unfinished>) -> Vec<(String, String, String)> {
    all.into_iter().map(|u| (u.object, u.text, u.to_do)).collect()
}

pub(crate) fn status_of(config: &array::Config, parts: Vec<ControllerStatus>, uptime_s: u64) -> Status {
    let mut status = Status {
        version: env!("CARGO_PKG_VERSION").into(),
        target: config.target.clone(),
        uptime_s,
        controllers: config.controllers,
        loads: vec![],
        failover: None,
        nodes: vec![],
        ports: vec![],
        drives: vec![],
        groups: vec![],
        pools: vec![],
        volumes: vec![],
        images: vec![],
        caches: vec![],
        policies: config.policies.iter().map(|p| policies::policy(p, config)).collect(),
        schedulers: vec![],
        hosts: config.hosts.iter().map(host).collect(),
        sessions: vec![],
        missing: vec![],
        jobs: vec![],
        under_way: None,
        events: vec![],
        trouble: vec![],
        below_minimum: vec![],
        refused: vec![],
        stages: vec![],
        served: vec![],
        undeclared: vec![],
        state_fault: None,
        unfinished: vec![],
    };
    let (mut spares, mut spare_faults) = (Vec::new(), BTreeMap::new());
    for part in parts {
        let controller = part.index;
        let ms = |time: std::time::Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        status.loads.push(Load { controller, busy_ms: ms(part.busy), up_ms: ms(part.age) });
        spares.extend(part.spares);
        spare_faults.extend(part.spare_faults);
        status.missing.extend(part.missing);
        status.undeclared.extend(part.undeclared);
        status.jobs.extend(part.jobs);
        status.ports.extend(part.ports);
        status.drives.extend(part.drives);
        status.groups.extend(part.groups.into_iter().map(group));
        status.pools.extend(part.pools);
        status.volumes.extend(part.volumes.into_iter().map(volume));
        status.images.extend(part.images.into_iter().map(|i| images::image(i, controller)));
        status.caches.extend(part.cache.map(|c| cache(c, controller)));
        status.schedulers.extend(part.schedulers);
        status.sessions.extend(part.sessions);
        status.stages.extend(part.stages);
        status.served.extend(part.served);
        status.below_minimum.extend(part.below_minimum);
        status.refused.extend(part.refused);
        status.events.extend(part.events.iter().map(ToString::to_string));
    }
    status.jobs.extend(status.groups.iter().filter_map(rebuild));
    place_drives(&mut status, config, &spares);
    status.drives.iter_mut().filter(|d| d.state == "spare").for_each(|drive| {
        drive.fault = spare_faults.remove(&drive.name);
    });
    status
}

/// Frames, in bytes.
fn frames(count: u32) -> u64 {
    u64::from(count) * array::FRAME_BYTES
}

fn cache(c: CacheStatus, controller: usize) -> Cache {
    let f = c.counts.frames;
    let pending = f.dirty + f.destaging + f.rewritten;
    let journal = |JournalStatus { pool, group, failure, failed_medium, counts: j }| Journal {
        pool,
        group,
        failure,
        failed_medium,
        records: j.records,
        commits: j.commits,
        bytes: j.bytes,
        live_bytes: j.live_bytes,
        size_bytes: j.ring_bytes,
    };
    Cache {
        controller,
        memory_bytes: c.memory_bytes,
        used_bytes: frames(f.clean + pending),
        pending_bytes: frames(pending),
        pending_percent: c.counts.pending_percent,
        waits: c.counts.waits,
        evictions: f.evictions,
        second: c.second.map(|counts| second(counts, c.ssd)),
        partitions: c.partitions.into_iter().map(partition).collect(),
        volumes: c.units.into_iter().map(cached).collect(),
        journals: c.journals.into_iter().map(journal).collect(),
    }
}

fn partition(p: PartitionStatus) -> CachePartition {
    CachePartition {
        name: p.name,
        minimum_bytes: frames(p.frames.frames_min),
        used_bytes: frames(p.frames.frames),
        pending_bytes: frames(p.frames.dirty),
        evictions: p.frames.evictions,
        traffic: traffic(p.traffic),
    }
}

fn cached(c: CachedStatus) -> CachedVolume {
    let u = c.counts;
    CachedVolume {
        volume: c.volume,
        policy: c.policy.to_string(),
        partition: c.partition,
        cached_bytes: frames(u.frames.frames),
        pending_bytes: frames(u.frames.dirty + u.frames.in_flight),
        traffic: traffic(u.into()),
        destages: u.destages,
        ahead_unused_bytes: u.ahead.unused_bytes,
    }
}

fn traffic(t: Traffic) -> CacheTraffic {
    CacheTraffic {
        read_bytes: t.read_bytes,
        read_hit_bytes: t.read_hit_bytes,
        write_bytes: t.write_bytes,
        write_hit_bytes: t.write_hit_bytes,
        destaged_bytes: t.destaged_bytes,
        ahead_bytes: t.ahead_bytes,
        ahead_used_bytes: t.ahead_used_bytes,
    }
}

fn second(s: array::status::SecondCounts, drive: Option<String>) -> SecondLevel {
    SecondLevel {
        drive,
        size_bytes: s.capacity * array::FRAME_BYTES,
        used_bytes: s.blocks * array::FRAME_BYTES,
        hits: s.hits,
        misses: s.misses,
        written_bytes: s.written * array::FRAME_BYTES,
        failed: s.failed,
    }
}

/// Says of every drive what it does. Declared drives that nobody could open are listed, too.
fn place_drives(status: &mut Status, config: &array::Config, spares: &[String]) {
    for declared in &config.drives {
        if !status.drives.iter().any(|d| d.name == declared.name) {
            status.drives.push(Drive {
                name: declared.name.clone(),
                medium: declared.spec.name(),
                state: "free".into(),
                ..Drive::default()
            });
        }
    }
    let Status { drives, groups, .. } = status;
    for drive in drives {
        let declared = config.groups.iter().find(|g| g.drives.contains(&drive.name));
        let member = |g: &Group| {
            let member = g.members.iter().find(|m| m.drive.as_ref() == Some(&drive.name))?;
            Some((g.name.clone(), member.state.clone()))
        };
        if let Some((group, state)) = groups.iter().find_map(member) {
            drive.group = Some(group);
            drive.state = state;
        } else if let Some(group) = declared {
            let all_there = |g: &Group| g.members.iter().all(|m| m.drive.is_some());
            let replaced = groups.iter().any(|g| g.name == group.name && all_there(g));
            drive.group = Some(group.name.clone());
            drive.state = if replaced { "replaced" } else { "missing" }.into();
        } else if spares.contains(&drive.name) {
            drive.state = "spare".into();
        }
    }
}

/// Says by what the block devices are known again.
pub(crate) fn tell_identities(status: &mut Status, known: &BTreeMap<String, String>) {
    status.drives.iter_mut().for_each(|drive| drive.identity = known.get(&drive.name).cloned());
}

fn lower(value: impl std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}

fn group(g: GroupStatus) -> Group {
    let names = g.members.into_iter().chain(std::iter::repeat(None));
    let members = g.raid.members.into_iter().zip(names).map(|(m, name)| Member {
        position: m.position,
        drive: name.or(m.drive),
        state: lower(m.state),
        cause: m.cause,
        slow: m.silence.slow,
        errors: m.errors,
        silences: m.counts.silences,
        p99_us: m.latency_p99.map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX)),
    });
    let members: Vec<Member> = members.collect();
    Group {
        name: g.name,
        level: lower(g.level),
        drives: members.iter().filter_map(|m| m.drive.clone()).collect(),
        size_bytes: g.len_bytes,
        state: lower(g.raid.state),
        tolerates: g.raid.tolerates,
        members,
        rebuild: g.raid.rebuild.map(|p| Progress { done_bytes: p.done_bytes, total_bytes: p.total_bytes }),
        scrub: g.raid.scrub.map(|p| Progress { done_bytes: p.done_bytes, total_bytes: p.total_bytes }),
        lost_ranges: g.raid.lost_ranges,
        differing_blocks: g.raid.differing_blocks,
        resync_waits: g.resync_waits,
        repairs: g.raid.repairs,
        foreground_share_percent: g.foreground_share_percent,
        class: lower(g.class),
        start_degraded: g.start_degraded,
    }
}

/// Rebuilds are begun by groups themselves, and are work like the rest.
fn rebuild(group: &Group) -> Option<Job> {
    Some(Job { kind: "rebuild".into(), object: group.name.clone(), progress: group.rebuild? })
}

fn counters(c: &array::status::Counters) -> VolumeCounters {
    VolumeCounters {
        commands: c.commands.iter().sum::<u64>() + c.failed,
        reads: c.commands[OpClass::Read as usize],
        writes: c.commands[OpClass::Write as usize],
        read_bytes: c.read_bytes,
        write_bytes: c.written_bytes,
        zeroed_bytes: c.zeroed_bytes,
        moved_bytes: c.moved_bytes,
        shared_bytes: c.shared_bytes,
        reclaimed_bytes: c.reclaimed_bytes,
        compare_misses: c.compare_misses,
        latency_p50_us: percentile_us(&c.latency, 50.0),
        latency_p99_us: percentile_us(&c.latency, 99.0),
        latency: latencies(c),
    }
}

/// The fine histograms of a LU in the buckets of metrics. The fine ones end at the same powers of two.
fn latencies(c: &array::status::Counters) -> Latencies {
    let mut all = Latencies::default();
    for (class, (buckets, sum_ns)) in c.latency.iter().zip(c.latency_sum_ns).enumerate() {
        let latency = match class {
            _ if class == OpClass::Read as usize => &mut all.reads,
            _ if class == OpClass::Write as usize => &mut all.writes,
            _ => &mut all.others,
        };
        let mut counts = LatencyCounts { counts: latency.counts, sum_ns: 0 };
        buckets.iter().for_each(|(top_ns, n)| counts.add(*top_ns, *n));
        latency.counts = counts.counts;
        latency.sum_ns = latency.sum_ns.wrapping_add(sum_ns);
    }
    all
}

fn volume(v: VolumeStatus) -> Volume {
    Volume {
        counters: counters(&v.counters),
        name: v.name,
        pool: v.pool,
        snapshot_of: v.snapshot_of,
        size_bytes: v.len_bytes,
        used_bytes: v.used_bytes,
        shared_bytes: v.shared_bytes,
        exclusive_bytes: v.exclusive_bytes,
        provisioning: format!("{:?}", v.provisioning).to_lowercase(),
        block_bytes: v.block_bytes,
        naa: v.naa,
        qos: v.qos,
        mapped_to: v.mapped_to,
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

fn host(h: &config::HostConfig) -> Host {
    let authentication = match (&h.chap, &h.mutual_chap) {
        (None, _) => "none",
        (Some(_), None) => "chap",
        (Some(_), Some(_)) => "mutual",
    };
    Host {
        name: h.name.clone(),
        initiator: h.initiator.clone(),
        authentication: authentication.into(),
        luns: h.luns.iter().map(|(lun, volume)| HostLun { lun: *lun, volume: volume.clone() }).collect(),
    }
}
