//! A status in which every field has a value. Without `..`: whatever is in it crosses.

use std::time::Duration;

use cache::{CacheCounts, FrameCounts, SegmentCounts, UnitFrames};
use raid::{GroupId, GroupState, MemberState, MemberStatus, Progress};
use world::{DriveCounts, Silence};

use super::samples::all;
use crate::config::{CachePolicy, Class, Level, Provisioning};
use crate::event::{Event, Severity};
use crate::status::{
    BelowMinimum, CacheStatus, CachedStatus, ControllerStatus, Counters, Drive, GroupStatus, HostServed,
    ImageFault, ImageStatus, Job, JournalCounts, JournalStatus, Latencies, Latency, Mapping, Missing,
    PartitionCounts, PartitionStatus, PolicyPart, Pool, PoolScheduler, Port, Refusals, SecondCounts,
    ServedImage, Session, StageLatency, Traffic, UnitCounts, Unopened, VolumeQos, VolumeStatus,
};

fn text(of: &str) -> String {
    format!("{of} \"ö\"")
}

pub(super) fn status() -> ControllerStatus {
    let mut schedulers = vec![scheduler()];
    schedulers.push(PoolScheduler { pool: None, ..scheduler() });
    ControllerStatus {
        index: 5,
        busy: Duration::new(1, 2),
        age: Duration::new(3, 4),
        drives: vec![drive()],
        groups: groups(),
        pools: vec![pool()],
        volumes: vec![volume()],
        images: images(),
        cache: Some(cache()),
        schedulers,
        below_minimum: vec![BelowMinimum { object: text("o"), text: text("t") }],
        sessions: vec![session()],
        ports: vec![port()],
        refused: vec![refused()],
        stages: vec![StageLatency { stage: "raid".into(), object: text("g"), latency: latencies() }],
        served: vec![HostServed {
            host: text("h"),
            commands: 1,
            bytes_in: 2,
            bytes_out: 3,
            latency: latencies(),
        }],
        missing: vec![Missing {
            kind: "group".into(),
            name: text("g"),
            cause: text("c"),
            reason: status::Reason::JournalAway,
            medium: Some(text("m")),
        }],
        undeclared: vec![(text("p"), text("v"))],
        jobs: vec![Job {
            kind: "scrub".into(),
            object: text("g"),
            progress: status::Progress { done_bytes: 1, total_bytes: u64::MAX },
        }],
        spares: vec![text("s")],
        spare_faults: [(text("s"), text("f"))].into(),
        events: events(),
    }
}

pub(super) fn events() -> Vec<Event> {
    let event = |severity| Event { severity, object: text("o"), text: text("t"), who: Some(text("w")) };
    all(event(Severity::Info), |last| match last.severity {
        Severity::Info => Some(event(Severity::Warning)),
        Severity::Warning => Some(event(Severity::Error)),
        Severity::Error => None,
    })
}

fn latencies() -> Latencies {
    let of = |n| Latency { counts: [n; status::LATENCY_BUCKETS], sum_ns: n + 1 };
    Latencies { reads: of(1), writes: of(2), others: of(3) }
}

fn scheduler() -> PoolScheduler {
    PoolScheduler {
        pool: Some(text("p")),
        controller: 1,
        unit_bytes: 2,
        depth: 3,
        depth_limit: "setting".into(),
        depth_cost_permille: 4,
        in_flight: 5,
        waiting: 6,
        capacity_iops: 7,
        capacity_is_full: true,
        minimums_iops: 8,
        scale_permille: 9,
        background_bytes: 10,
        parts: vec![PolicyPart {
            policy: text("gold"),
            minimum_iops: 11,
            maximum_iops: Some(12),
            bandwidth_bytes_per_s: None,
        }],
    }
}

fn session() -> Session {
    Session {
        host: text("h"),
        initiator: text("i"),
        isid: "0123456789ab".into(),
        portal_group: 1,
        commands: 2,
        bytes: 3,
    }
}

fn port() -> Port {
    Port {
        listen: "[fe80::1]:3260".parse().expect("an address"),
        portal_group: 1,
        controller: 2,
        sessions: 3,
        commands: 4,
        bytes_in: 5,
        bytes_out: 6,
    }
}

fn refused() -> Refusals {
    Refusals { object: text("h"), is_host: true, logins: 1, login_status: Some(770), text: text("t") }
}

fn drive() -> Drive {
    Drive {
        name: text("d"),
        medium: text("m"),
        identity: Some(text("i")),
        size_bytes: 1,
        group: Some(text("g")),
        state: "active".into(),
        fault: Some(text("f")),
        reads: 2,
        read_bytes: 3,
        writes: 4,
        write_bytes: 5,
        zeros: 6,
        flushes: 7,
        health: Some(status::DriveHealth { wear_percent: Some(8), ..Default::default() }),
        health_unknown: Some(text("u")),
    }
}

/// Groups with members in every state, and of every level.
fn groups() -> Vec<GroupStatus> {
    let states = [GroupState::Optimal, GroupState::Degraded, GroupState::Failed];
    let levels = [Level::Raid0, Level::Raid1, Level::Raid10, Level::Raid5, Level::Raid6];
    let pairs = levels.into_iter().zip(raid::Level::ALL).zip(states.into_iter().cycle());
    pairs.map(|((level, of_raid), state)| group(level, raid_status(of_raid, state))).collect()
}

fn group(level: Level, raid: raid::GroupStatus) -> GroupStatus {
    GroupStatus {
        name: text("g"),
        level,
        drives: vec![text("d")],
        len_bytes: 1,
        raid,
        members: vec![None, Some(text("d"))],
        resync_waits: Some(text("r")),
        foreground_share_percent: 2,
        start_degraded: true,
        class: Class::Archive,
    }
}

fn raid_status(level: raid::Level, state: GroupState) -> raid::GroupStatus {
    let member = |state| MemberStatus {
        position: 1,
        drive: Some(text("m")),
        state,
        cause: Some(text("c")),
        counts: DriveCounts {
            reads: 1,
            read_bytes: 2,
            writes: 3,
            write_bytes: 4,
            zeros: 5,
            zero_bytes: 6,
            flushes: 7,
            silences: 8,
        },
        errors: 9,
        silence: Silence { slow: true, given_up: 10, given_up_bytes: 11 },
        dropped_silent: true,
        dropped_gone: true,
        latency_p99: Some(Duration::from_nanos(12)),
    };
    let members = all(member(MemberState::Active), |last| match last.state {
        MemberState::Active => Some(member(MemberState::Missing)),
        MemberState::Missing => Some(member(MemberState::Stale)),
        MemberState::Stale => Some(member(MemberState::Failed)),
        MemberState::Failed => Some(member(MemberState::Rebuilding)),
        MemberState::Rebuilding => None,
    });
    raid::GroupStatus {
        name: text("r"),
        id: GroupId([7; 16]),
        level,
        stripe_unit_bytes: 1,
        state,
        tolerates: 2,
        len_bytes: 3,
        epoch: 4,
        reads_pinned: true,
        repairs: 5,
        lost_ranges: 6,
        differing_blocks: 7,
        journal: raid::JournalCounts { batches: 8, frames: 9, bytes: 10, replayed: 11 },
        rebuild: Some(Progress { position: Some(12), done_bytes: 13, total_bytes: 14 }),
        scrub: Some(Progress { position: None, done_bytes: 15, total_bytes: 16 }),
        members,
    }
}

fn pool() -> Pool {
    Pool {
        name: text("p"),
        groups: vec![text("g")],
        page_bytes: 1,
        size_bytes: 2,
        used_bytes: 3,
        token_bytes: 4,
        full_in_s: Some(5),
        promised_bytes: 6,
        soft_threshold_percent: 7,
        critical_threshold_percent: 8,
        group_spaces: vec![status::PoolGroup {
            name: text("g"),
            size_bytes: 9,
            used_bytes: 10,
            evacuating: true,
        }],
        heat: status::Heat { placement: true, promoted: 11, ..Default::default() },
        controller: 12,
        no_room: Some(text("n")),
        refused_writes: Some(text("r")),
        refusing_medium: Some(text("m")),
        operations: 13,
    }
}

fn mapped() -> Vec<Mapping> {
    vec![Mapping { host: text("h"), lun: 16383 }]
}

fn counters() -> Counters {
    Counters {
        commands: [1, 2, 3, 4, 5, 6, 7],
        failed: 8,
        read_bytes: 9,
        written_bytes: 10,
        zeroed_bytes: 11,
        patterned_bytes: 12,
        moved_bytes: 13,
        shared_bytes: 14,
        reclaimed_bytes: 15,
        compare_misses: 16,
        reservation_conflicts: 17,
        latency: std::array::from_fn(|i| vec![(i as u64, u64::MAX), (18, 19)]),
        latency_sum_ns: [20, 21, 22, 23, 24, 25, u64::MAX],
    }
}

fn qos() -> VolumeQos {
    VolumeQos {
        policy: Some(text("p")),
        state: "below_minimum".into(),
        served_iops: Some(1),
        lacks: Some("capacity".into()),
        charged_bytes: 2,
        minimum_requests: 3,
        weight_requests: 4,
        waited_requests: 5,
        waited_us: 6,
    }
}

fn volume() -> VolumeStatus {
    VolumeStatus {
        name: text("v"),
        pool: text("p"),
        snapshot_of: Some(text("s")),
        len_bytes: 1,
        used_bytes: 2,
        shared_bytes: 3,
        exclusive_bytes: 4,
        provisioning: Provisioning::Thick,
        block_bytes: 5,
        naa: text("n"),
        mapped_to: mapped(),
        qos: qos(),
        counters: counters(),
    }
}

/// Images of every format, and one that is not open.
fn images() -> Vec<ImageStatus> {
    let image =
        |state| ImageStatus { name: text("i"), file: text("f"), read_only: true, mapped_to: mapped(), state };
    let served = |format: &vdisk::Format| ServedImage {
        format: format.name(),
        trouble: Some((ImageFault::NoRoom, text("t"))),
        parents: vec![text("p")],
        len_bytes: 1,
        file_len_bytes: 2,
        block_bytes: 3,
        naa: text("n"),
        qos: qos(),
        counters: counters(),
    };
    let open = vdisk::Format::ALL.iter().map(|format| image(Ok(served(format))));
    open.chain([image(Err(Unopened { cause: text("c"), fault: ImageFault::Parent }))]).collect()
}

fn cache() -> CacheStatus {
    let traffic = Traffic {
        read_bytes: 1,
        read_hit_bytes: 2,
        write_bytes: 3,
        write_hit_bytes: 4,
        destaged_bytes: 5,
        ahead_bytes: 6,
        ahead_used_bytes: 7,
    };
    let frames = PartitionCounts {
        frames: 1,
        frames_min: 2,
        dirty: 3,
        hits: 4,
        misses: 5,
        evictions: 6,
        ghost_hits: 7,
    };
    let of_all = FrameCounts {
        capacity: 1,
        clean: 2,
        dirty: 3,
        destaging: 4,
        rewritten: 5,
        evictions: 6,
        ghost_hits: 7,
    };
    let records =
        JournalCounts { records: 1, batches: 2, commits: 3, bytes: 4, live_bytes: 5, ring_bytes: 6 };
    CacheStatus {
        memory_bytes: 1,
        counts: CacheCounts { frames: of_all, pending_percent: 2, waits: 3 },
        second: Some(SecondCounts { capacity: 1, blocks: 2, hits: 3, misses: 4, written: 5, failed: true }),
        ssd: Some(text("s")),
        partitions: vec![PartitionStatus { name: text("p"), frames, traffic }],
        units: vec![CachedStatus {
            volume: text("v"),
            policy: CachePolicy::WriteBack,
            partition: text("p"),
            counts: unit(),
        }],
        journals: vec![JournalStatus {
            pool: text("p"),
            group: text("g"),
            failure: Some(text("f")),
            failed_medium: Some(text("m")),
            counts: records,
        }],
    }
}

fn unit() -> UnitCounts {
    UnitCounts {
        reads: 1,
        read_bytes: 2,
        read_hit_bytes: 3,
        writes: 4,
        write_bytes: 5,
        write_hit_bytes: 6,
        destages: 7,
        destaged_bytes: 8,
        destages_failed: 9,
        ahead: SegmentCounts { read_bytes: 1, used_bytes: 2, unused_bytes: 3, held_bytes: 4 },
        frames: UnitFrames { frames: 1, dirty: 2, in_flight: 3 },
    }
}
