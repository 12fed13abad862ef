//! Caches, their partitions and journals.

use status::{Cache, CachePartition, CacheTraffic, Journal, Status};

use super::top::Named;
use super::write::{Text, labels};

pub(super) fn write(out: &mut Text, status: &Status, named: &Named) {
    let caches = |f: fn(&Cache) -> u64| {
        status.caches.iter().map(move |c| (labels(&[("controller", &c.controller.to_string())]), f(c) as f64))
    };
    out.gauge("masu_cache_size_bytes", "Memory of a cache for content", caches(|c| c.memory_bytes));
    out.gauge("masu_cache_used_bytes", "Bytes in frames of a cache", caches(|c| c.used_bytes));
    out.gauge(
        "masu_cache_pending_bytes",
        "Bytes that are not on the drives yet",
        caches(|c| c.pending_bytes),
    );
    let help = "Writes that waited because too much was pending";
    out.counter("masu_cache_waits_total", help, caches(|c| c.waits));
    volumes(out, status, named);
    partitions(out, status);
    journals(out, status);
}

/// Cached volumes: the busiest by name, and the rest in sum.
fn volumes(out: &mut Text, status: &Status, named: &Named) {
    let cached = || status.caches.iter().flat_map(|c| &c.volumes);
    let own = || cached().filter(|v| named.lus.contains(&v.volume));
    let has_rest = cached().any(|v| !named.lus.contains(&v.volume));
    for (name, help, value) in CACHED_COUNTERS {
        let samples = own().map(|v| (labels(&[("lu", &v.volume)]), value(&v.traffic) as f64));
        let rest = cached().filter(|v| !named.lus.contains(&v.volume)).map(|v| value(&v.traffic));
        let rest = has_rest.then(|| (labels(&[("lu", "other")]), rest.sum::<u64>() as f64));
        out.counter(&format!("masu_cache_{name}"), help, samples.chain(rest));
    }
    let info = own()
        .map(|v| (labels(&[("lu", &v.volume), ("policy", &v.policy), ("partition", &v.partition)]), 1.0));
    out.gauge("masu_cache_volume_info", "How a volume is cached: 1", info);
}

/// What the partitions of caches have and do.
fn partitions(out: &mut Text, status: &Status) {
    let partitions = || {
        let all = status.caches.iter().flat_map(|c| c.partitions.iter().map(move |p| (c.controller, p)));
        all.map(|(controller, p)| {
            (labels(&[("controller", &controller.to_string()), ("partition", &p.name)]), p)
        })
    };
    for (name, help, value) in PARTITION_GAUGES {
        let values = partitions().map(|(label, p)| (label, value(p) as f64));
        out.gauge(&format!("masu_cache_partition_{name}"), help, values);
    }
    for (name, help, value) in CACHED_COUNTERS {
        let values = partitions().map(|(label, p)| (label, value(&p.traffic) as f64));
        out.counter(&format!("masu_cache_partition_{name}"), help, values);
    }
}

fn journals(out: &mut Text, status: &Status) {
    let journals = |f: fn(&Journal) -> u64| {
        let all = status.caches.iter().flat_map(|c| &c.journals);
        all.map(move |j| (labels(&[("pool", &j.pool)]), f(j) as f64))
    };
    out.gauge("masu_journal_live_bytes", "Bytes that a replay would read", journals(|j| j.live_bytes));
    out.gauge("masu_journal_size_bytes", "Size of a journal", journals(|j| j.size_bytes));
    out.counter("masu_journal_records_total", "Records of a journal", journals(|j| j.records));
    out.counter("masu_journal_commits_total", "Commits of a journal", journals(|j| j.commits));
    out.counter("masu_journal_written_bytes_total", "Bytes written to a journal", journals(|j| j.bytes));
}

/// Of a volume under a cache, and of a partition: the end of the name, what it is, the value.
type CachedCounter = (&'static str, &'static str, fn(&CacheTraffic) -> u64);

const CACHED_COUNTERS: &[CachedCounter] = &[
    ("read_bytes_total", "Bytes read by hosts through a cache", |t| t.read_bytes),
    ("read_hit_bytes_total", "Of these, bytes that were in memory", |t| t.read_hit_bytes),
    ("written_bytes_total", "Bytes written by hosts through a cache", |t| t.write_bytes),
    ("absorbed_bytes_total", "Of these, bytes acknowledged from the cache without a wait for room", |t| {
        t.write_hit_bytes
    }),
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
