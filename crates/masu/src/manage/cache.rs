//! `masu cache`: what the caches hold and do.

use admin::{Cache, Status, format_bytes};

use crate::table;

/// A share in percent; nothing of nothing is `-`.
fn share(part: u64, of: u64) -> String {
    if of == 0 { "-".into() } else { format!("{:.1} %", 100.0 * part as f64 / of as f64) }
}

pub(super) fn print(status: &Status) {
    if status.caches.is_empty() {
        println!("no caches: array.toml declares one with [cache] memory = \"256MiB\"");
    }
    for (i, cache) in status.caches.iter().enumerate() {
        if i > 0 {
            println!();
        }
        print_one(cache);
    }
}

fn print_one(cache: &Cache) {
    println!(
        "controller {}: {} of memory, {} in frames, {} not on the drives yet (write pending {} %)",
        cache.controller,
        format_bytes(cache.memory_bytes),
        format_bytes(cache.used_bytes),
        format_bytes(cache.pending_bytes),
        cache.pending_percent
    );
    if cache.waits > 0 {
        println!("writes waited {} times because too much was pending", cache.waits);
    }
    if let Some(s) = &cache.second {
        let state = if s.failed { "off: its drive failed" } else { "serves" };
        println!(
            "SSD behind it: {state}, {} of {} used, {} of what was asked for found, {} written",
            format_bytes(s.used_bytes),
            format_bytes(s.size_bytes),
            share(s.hits, s.hits + s.misses),
            format_bytes(s.written_bytes)
        );
    }
    println!();
    let row = |v: &admin::CachedVolume| {
        vec![
            v.volume.clone(),
            format_bytes(v.cached_bytes),
            format_bytes(v.pending_bytes),
            format_bytes(v.read_bytes),
            share(v.read_hit_bytes, v.read_bytes),
            format_bytes(v.write_bytes),
            share(v.write_hit_bytes, v.write_bytes),
            format_bytes(v.destaged_bytes),
            format_bytes(v.ahead_bytes),
            share(v.ahead_used_bytes, v.ahead_bytes),
        ]
    };
    let header = [
        "volume",
        "cached",
        "pending",
        "read",
        "hits",
        "written",
        "absorbed",
        "destaged",
        "read ahead",
        "used",
    ];
    table::print(&header, &header[1..], cache.volumes.iter().map(row).collect(), "no volumes");
    if cache.journals.is_empty() {
        return;
    }
    println!();
    let row = |j: &admin::Journal| {
        let gathered =
            if j.commits == 0 { "-".into() } else { format!("{:.1}", j.records as f64 / j.commits as f64) };
        vec![
            j.pool.clone(),
            format_bytes(j.size_bytes),
            share(j.live_bytes, j.size_bytes),
            j.records.to_string(),
            j.commits.to_string(),
            gathered,
            format_bytes(j.bytes),
        ]
    };
    let header = ["journal of", "size", "full", "records", "commits", "a commit", "written"];
    table::print(&header, &header[1..], cache.journals.iter().map(row).collect(), "no journals");
}
