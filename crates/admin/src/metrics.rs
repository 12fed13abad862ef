//! The status as metrics in the Prometheus text format.

use std::fmt::Write;

use status::{
    Cache, CachePartition, CacheTraffic, Journal, PoolScheduler, Status, VolumeCounters, VolumeQos,
};

/// The text of `GET /metrics`.
pub(crate) fn text(status: &Status) -> String {
    let mut out = String::new();
    gauge(&mut out, "masu_uptime_seconds", "Seconds since the start", [(String::new(), status.uptime_s)]);
    trouble(&mut out, status);
    let busy = status.loads.iter().map(|l| (format!("controller=\"{}\"", l.controller), l.busy_ms));
    let help = "Processor time that a controller used; a second of it in a second is all there is";
    family(&mut out, "masu_controller_busy_milliseconds_total", help, "counter", busy);
    let pools =
        |f: fn(&status::Pool) -> u64| status.pools.iter().map(move |p| (format!("pool={:?}", p.name), f(p)));
    gauge(&mut out, "masu_pool_size_bytes", "Size of a pool", pools(|p| p.size_bytes));
    gauge(&mut out, "masu_pool_used_bytes", "Bytes in pages that are taken", pools(|p| p.used_bytes));
    gauge(
        &mut out,
        "masu_pool_promised_bytes",
        "Bytes that volumes promise to hosts",
        pools(|p| p.promised_bytes),
    );
    let used = status.volumes.iter().map(|v| (format!("volume={:?}", v.name), v.used_bytes));
    gauge(&mut out, "masu_volume_used_bytes", "Bytes in pages that a volume uses", used);
    let files = status.images.iter().map(|i| (format!("image={:?}", i.name), i.file_bytes));
    gauge(&mut out, "masu_image_file_bytes", "Length of the file of an image", files);
    let troubled = |i: &crate::Image| u64::from(i.error.is_some() || i.trouble.is_some());
    let trouble = status.images.iter().map(|i| (format!("image={:?}", i.name), troubled(i)));
    gauge(&mut out, "masu_image_trouble", "An image that is not served, or not written: 1", trouble);
    for (name, help, value) in VOLUME_COUNTERS {
        family(&mut out, name, help, "counter", lus(status).map(|lu| (lu.label, value(lu.counters))));
    }
    caches(&mut out, status);
    services(&mut out, status);
    let groups = |f: fn(&status::Group) -> u64| {
        status.groups.iter().map(move |g| (format!("group={:?}", g.name), f(g)))
    };
    for (name, help, value) in GROUP_GAUGES {
        gauge(&mut out, name, help, groups(*value));
    }
    members(&mut out, status);
    let drives = |f: fn(&status::Drive) -> u64| {
        status.drives.iter().map(move |d| (format!("drive={:?}", d.name), f(d)))
    };
    family(&mut out, "masu_drive_reads_total", "Read operations of a drive", "counter", drives(|d| d.reads));
    family(
        &mut out,
        "masu_drive_writes_total",
        "Write operations of a drive",
        "counter",
        drives(|d| d.writes),
    );
    family(
        &mut out,
        "masu_drive_read_bytes_total",
        "Bytes read from a drive",
        "counter",
        drives(|d| d.read_bytes),
    );
    family(
        &mut out,
        "masu_drive_written_bytes_total",
        "Bytes written to a drive",
        "counter",
        drives(|d| d.write_bytes),
    );
    let ports = status.ports.iter().map(|p| (format!("port=\"{}\"", p.listen), p.sessions as u64));
    gauge(&mut out, "masu_port_sessions", "Sessions logged in", ports);
    out
}

/// The drives in their places.
fn members(out: &mut String, status: &Status) {
    for (name, kind, help, value) in MEMBER_FAMILIES {
        let mut members = Vec::new();
        for group in &status.groups {
            for m in &group.members {
                let drive = m.drive.as_deref().unwrap_or_default();
                let label = format!("group={:?},position=\"{}\",drive={drive:?}", group.name, m.position);
                members.extend(value(m).map(|value| (label, value)));
            }
        }
        family(out, name, help, kind, members);
    }
}

/// What is wrong: a sample for each, and how many there are, so that none is a sample, too.
fn trouble(out: &mut String, status: &Status) {
    let labels = |t: &status::Trouble| {
        (format!("severity={:?},object={:?},kind={:?}", t.severity, t.object, t.kind), 1)
    };
    gauge(out, "masu_trouble", "Something that is wrong: 1", status.trouble.iter().map(labels));
    let count = |severity: &str| {
        let n = status.trouble.iter().filter(|t| t.severity == severity).count() as u64;
        (format!("severity={severity:?}"), n)
    };
    gauge(out, "masu_troubles", "How much is wrong", ["warning", "error"].map(count));
}

/// What caches and journals hold and do.
fn caches(out: &mut String, status: &Status) {
    let caches = |f: fn(&Cache) -> u64| {
        status.caches.iter().map(move |c| (format!("controller=\"{}\"", c.controller), f(c)))
    };
    gauge(out, "masu_cache_used_bytes", "Bytes in frames of a cache", caches(|c| c.used_bytes));
    gauge(
        out,
        "masu_cache_pending_bytes",
        "Bytes that are not on the drives yet",
        caches(|c| c.pending_bytes),
    );
    for (name, help, value) in CACHED_COUNTERS {
        let cached = status.caches.iter().flat_map(|c| &c.volumes);
        let values = cached.map(|v| (format!("volume={:?}", v.volume), value(&v.traffic)));
        family(out, &format!("masu_cache_{name}"), help, "counter", values);
    }
    let volumes = status
        .caches
        .iter()
        .flat_map(|c| &c.volumes)
        .map(|v| (format!("volume={:?},policy={:?},partition={:?}", v.volume, v.policy, v.partition), 1));
    gauge(out, "masu_cache_volume_info", "How a volume is cached: 1", volumes);
    partitions(out, status);
    let journals = |f: fn(&Journal) -> u64| {
        let all = status.caches.iter().flat_map(|c| &c.journals);
        all.map(move |j| (format!("pool={:?}", j.pool), f(j)))
    };
    gauge(out, "masu_journal_live_bytes", "Bytes that a replay would read", journals(|j| j.live_bytes));
    gauge(out, "masu_journal_size_bytes", "Size of a journal", journals(|j| j.size_bytes));
    family(out, "masu_journal_records_total", "Records of a journal", "counter", journals(|j| j.records));
    family(out, "masu_journal_commits_total", "Commits of a journal", "counter", journals(|j| j.commits));
}

/// A volume or an image, as metrics name it.
struct Lu<'a> {
    label: String,
    counters: &'a VolumeCounters,
    qos: &'a VolumeQos,
}

fn lus(status: &Status) -> impl Iterator<Item = Lu<'_>> {
    let volumes = status.volumes.iter().map(|v| (format!("volume={:?}", v.name), &v.counters, &v.qos));
    let images = status.images.iter().map(|i| (format!("image={:?}", i.name), &i.counters, &i.qos));
    volumes.chain(images).map(|(label, counters, qos)| Lu { label, counters, qos })
}

/// What volumes and images are promised, and what becomes of it.
fn services(out: &mut String, status: &Status) {
    let info = lus(status).filter_map(|lu| {
        let policy = lu.qos.policy.as_ref()?;
        Some((format!("{},policy={policy:?},state={:?}", lu.label, lu.qos.state), 1))
    });
    gauge(
        out,
        "masu_volume_policy_info",
        "The policy of a volume or an image, and whether it is kept: 1",
        info,
    );
    let below = lus(status).filter(|lu| lu.qos.policy.is_some());
    let below = below.map(|lu| (lu.label, (lu.qos.state == "below_minimum").into()));
    gauge(
        out,
        "masu_volume_below_minimum",
        "1 while a volume does not get the minimum that it asks for",
        below,
    );
    for (name, help, value) in SERVICE_COUNTERS {
        let values = lus(status).map(|lu| (lu.label, value(lu.qos)));
        family(out, name, help, "counter", values);
    }
    for (name, help, value) in SCHEDULER_GAUGES {
        let label = |s: &PoolScheduler| match &s.pool {
            Some(pool) => format!("pool={pool:?}"),
            None => format!("images_of_controller=\"{}\"", s.controller),
        };
        let values = status.schedulers.iter().map(|s| (label(s), value(s)));
        gauge(out, name, help, values);
    }
}

type ServiceCounter = (&'static str, &'static str, fn(&VolumeQos) -> u64);

const SERVICE_COUNTERS: &[ServiceCounter] = &[
    ("masu_volume_charged_bytes_total", "What the requests of a volume were charged", |q| q.charged_bytes),
    ("masu_volume_minimum_requests_total", "Requests served because the minimum was due", |q| {
        q.minimum_requests
    }),
    ("masu_volume_weight_requests_total", "Requests served by weight", |q| q.weight_requests),
    ("masu_volume_waited_requests_total", "Requests that waited for their turn", |q| q.waited_requests),
    ("masu_volume_waited_microseconds_total", "How long they waited", |q| q.waited_us),
];

type SchedulerGauge = (&'static str, &'static str, fn(&PoolScheduler) -> u64);

const SCHEDULER_GAUGES: &[SchedulerGauge] = &[
    ("masu_scheduler_depth", "Requests that a pool works on at once at most", |s| s.depth.into()),
    ("masu_scheduler_depth_cost_permille", "Throughput that the depth costs against the deepest", |s| {
        s.depth_cost_permille.into()
    }),
    ("masu_scheduler_in_flight", "Requests that a pool works on", |s| s.in_flight.into()),
    ("masu_scheduler_waiting", "Requests that wait for their turn", |s| s.waiting.into()),
    ("masu_scheduler_capacity_iops", "Normalised IOPS that a pool was seen to do", |s| s.capacity_iops),
    ("masu_scheduler_minimums_iops", "Normalised IOPS that are promised in sum", |s| s.minimums_iops),
    ("masu_scheduler_scale_permille", "What of the minimums could be given", |s| s.scale_permille.into()),
];

/// What the partitions of caches have and do.
fn partitions(out: &mut String, status: &Status) {
    let partitions = || {
        let all = status.caches.iter().flat_map(|c| c.partitions.iter().map(move |p| (c.controller, p)));
        all.map(|(controller, p)| (format!("controller=\"{controller}\",partition={:?}", p.name), p))
    };
    for (name, help, value) in PARTITION_GAUGES {
        let values = partitions().map(|(label, p)| (label, value(p)));
        gauge(out, &format!("masu_cache_partition_{name}"), help, values);
    }
    for (name, help, value) in CACHED_COUNTERS {
        let values = partitions().map(|(label, p)| (label, value(&p.traffic)));
        family(out, &format!("masu_cache_partition_{name}"), help, "counter", values);
    }
}

type MemberFamily = (&'static str, &'static str, &'static str, fn(&status::Member) -> Option<u64>);

const MEMBER_FAMILIES: &[MemberFamily] = &[
    ("masu_member_active", "gauge", "1 while the drive in a place of a group serves", |m| {
        Some((m.state == "active").into())
    }),
    ("masu_member_silent", "gauge", "1 while the drive in a place does not answer", |m| Some(m.slow.into())),
    ("masu_member_errors_total", "counter", "Operations of the drives in a place that failed", |m| {
        Some(m.errors)
    }),
    (
        "masu_member_unanswered_total",
        "counter",
        "Operations that were given up because the drive in a place did not answer",
        |m| Some(m.silences),
    ),
    (
        "masu_member_p99_microseconds",
        "gauge",
        "What 99 of 100 reads and writes of the last minute did not exceed",
        |m| m.p99_us,
    ),
];

type GroupGauge = (&'static str, &'static str, fn(&status::Group) -> u64);

const GROUP_GAUGES: &[GroupGauge] = &[
    ("masu_group_optimal", "1 while all drives of a group serve", |g| (g.state == "optimal").into()),
    ("masu_group_may_fail", "How many more drives may fail", |g| g.tolerates.into()),
    ("masu_group_lost_ranges", "Ranges that cannot be read until they are written again", |g| {
        g.lost_ranges as u64
    }),
    (
        "masu_group_differing_blocks",
        "Blocks that differ between drives since the last scrub, not repaired",
        |g| g.differing_blocks,
    ),
    ("masu_group_rebuild_left_bytes", "Bytes of a drive that are still to be rebuilt", |g| {
        g.rebuild.map_or(0, |p| p.total_bytes - p.done_bytes)
    }),
];

type VolumeCounter = (&'static str, &'static str, fn(&VolumeCounters) -> u64);

const VOLUME_COUNTERS: &[VolumeCounter] = &[
    ("masu_volume_commands_total", "Commands", |c| c.commands),
    ("masu_volume_read_bytes_total", "Bytes read by hosts", |c| c.read_bytes),
    ("masu_volume_written_bytes_total", "Bytes written by hosts", |c| c.write_bytes),
    ("masu_volume_zeroed_bytes_total", "Bytes zeroed by the array", |c| c.zeroed_bytes),
    ("masu_volume_moved_bytes_total", "Bytes copied by moving them inside the array", |c| c.moved_bytes),
    ("masu_volume_shared_bytes_total", "Bytes copied by sharing pages", |c| c.shared_bytes),
    ("masu_volume_reclaimed_bytes_total", "Bytes released by UNMAP", |c| c.reclaimed_bytes),
    ("masu_volume_compare_misses_total", "COMPARE AND WRITE commands that missed", |c| c.compare_misses),
];

/// Of a volume under a cache, and of a partition: the end of the name, what it is, the value.
type CachedCounter = (&'static str, &'static str, fn(&CacheTraffic) -> u64);

const CACHED_COUNTERS: &[CachedCounter] = &[
    ("read_bytes_total", "Bytes read by hosts through a cache", |t| t.read_bytes),
    ("read_hit_bytes_total", "Of these, bytes that were in memory", |t| t.read_hit_bytes),
    ("written_bytes_total", "Bytes written by hosts through a cache", |t| t.write_bytes),
    ("absorbed_bytes_total", "Of these, bytes acknowledged from the cache", |t| t.write_hit_bytes),
    ("destaged_bytes_total", "Bytes written to pools by destages", |t| t.destaged_bytes),
    ("ahead_bytes_total", "Bytes read ahead", |t| t.ahead_bytes),
    ("ahead_used_bytes_total", "Of these, bytes that were asked for", |t| t.ahead_used_bytes),
];

type PartitionGauge = (&'static str, &'static str, fn(&CachePartition) -> u64);

const PARTITION_GAUGES: &[PartitionGauge] = &[
    ("minimum_bytes", "What others leave to a partition of a cache", |p| p.minimum_bytes),
    ("used_bytes", "Bytes in frames of a partition", |p| p.used_bytes),
    ("pending_bytes", "Of these, bytes that are not on the drives yet", |p| p.pending_bytes),
];

fn gauge(out: &mut String, name: &str, help: &str, values: impl IntoIterator<Item = (String, u64)>) {
    family(out, name, help, "gauge", values);
}

fn family(
    out: &mut String,
    name: &str,
    help: &str,
    kind: &str,
    values: impl IntoIterator<Item = (String, u64)>,
) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (label, value) in values {
        let _ = if label.is_empty() {
            writeln!(out, "{name} {value}")
        } else {
            writeln!(out, "{name}{{{label}}} {value}")
        };
    }
}
