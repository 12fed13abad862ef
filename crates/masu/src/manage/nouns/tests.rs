//! Every list at a thousand objects, and what all column tables have in common.

use std::collections::BTreeSet;

use admin::{Node, Status};
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;

use super::*;
use crate::table::column::Noun;
use crate::table::lines;

const OBJECTS: usize = 1000;
const TERMINAL: usize = 80;
/// What a port executes in thirty years, at a million a second.
const COMMANDS: u64 = 1_000_000_000_000_000;

/// A name of the greatest length that a declaration allows.
fn long(kind: &str, i: usize) -> String {
    format!("{kind}-{}-{i:04}", "of-the-accounting-department-in-tokyo".repeat(2).split_at(58 - kind.len()).0)
}

fn qos(i: usize) -> Value {
    json!({"policy": long("policy", i), "state": "below_minimum", "served_iops": 123_456_789u64,
        "lacks": "outstanding", "charged_bytes": u64::MAX, "minimum_requests": u64::MAX,
        "weight_requests": u64::MAX, "waited_requests": u64::MAX, "waited_us": u64::MAX})
}

fn counters() -> Value {
    let all = "commands read_bytes write_bytes zeroed_bytes moved_bytes shared_bytes reclaimed_bytes compare_misses";
    let mut counters: serde_json::Map<String, Value> =
        all.split(' ').map(|name| (name.to_owned(), json!(u64::MAX))).collect();
    counters.insert("latency_p50_us".into(), json!(1.5));
    counters.insert("latency_p99_us".into(), json!(1e12));
    counters.into()
}

fn mapped(i: usize) -> Value {
    (0..i % 8).map(|lun| json!({"host": long("host", lun), "lun": 16_383})).collect()
}

fn volume(i: usize) -> Value {
    json!({"name": long("volume", i), "pool": long("pool", i), "snapshot_of": long("volume", i + 1),
        "size_bytes": u64::MAX, "used_bytes": u64::MAX, "shared_bytes": u64::MAX, "exclusive_bytes": u64::MAX,
        "provisioning": "thick", "block_bytes": 4096, "naa": "naa.600000000000000000000000000000ff",
        "mapped_to": mapped(i), "qos": qos(i), "counters": counters()})
}

fn image(i: usize) -> Value {
    json!({"name": long("image", i), "file": format!("/a/file/ディスク\n{}", long("image", i)), "controller": 0,
        "read_only": true, "mapped_to": mapped(i), "error": "no such file", "format": "vhdx, differencing",
        "parents": [long("a", 1), long("b", 2)], "size_bytes": u64::MAX, "file_bytes": u64::MAX,
        "block_bytes": 512, "naa": "naa.6", "qos": qos(i), "counters": counters()})
}

fn drive(i: usize) -> Value {
    json!({"name": long("drive", i), "medium": long("/dev/disk/by-id/", i), "size_bytes": u64::MAX,
        "group": long("group", i), "state": "rebuilding", "reads": u64::MAX, "read_bytes": u64::MAX,
        "writes": u64::MAX, "write_bytes": u64::MAX, "zeros": u64::MAX, "flushes": u64::MAX,
        "health": {"assessment": "failing", "temperature_celsius": -60, "wear_percent": 255,
            "media_errors": u64::MAX, "model": long("model", i)}})
}

fn group(i: usize) -> Value {
    let drives: Vec<String> = (0..16).map(|n| long("drive", n)).collect();
    json!({"name": long("group", i), "level": "raid10", "drives": drives, "size_bytes": u64::MAX,
        "state": "degraded", "tolerates": 63, "members": [], "rebuild": {"done_bytes": 1, "total_bytes": 3},
        "scrub": null, "lost_ranges": 7, "repairs": u64::MAX, "foreground_share_percent": 70, "class": "archive"})
}

fn pool(i: usize) -> Value {
    json!({"name": long("pool", i), "groups": [long("group", i), long("group", i + 1)], "page_bytes": 1 << 20,
        "size_bytes": u64::MAX, "used_bytes": u64::MAX, "promised_bytes": u64::MAX,
        "soft_threshold_percent": 70, "critical_threshold_percent": 100, "group_spaces": [], "controller": 3})
}

fn policy(i: usize) -> Value {
    let volumes: Vec<String> = (0..20).map(|n| long("volume", n)).collect();
    json!({"name": long("policy", i), "minimum_iops": 4_000_000_000u64, "maximum_iops": 4_000_000_000u64,
        "bandwidth_bytes_per_s": u64::MAX, "weight": 10_000, "burst_units": 1, "sharing": "aggregated",
        "volumes": volumes})
}

fn host(i: usize) -> Value {
    let luns: Vec<Value> = (0..i % 20).map(|n| json!({"lun": n, "volume": long("volume", n)})).collect();
    json!({"name": long("host", i), "initiator": format!("iqn.2004-10.com.example:{}", "x".repeat(200)),
        "authentication": "none", "luns": luns})
}

fn cache() -> Value {
    let traffic = json!({"read_bytes": 5, "read_hit_bytes": 3, "write_bytes": 0, "write_hit_bytes": 0,
        "destaged_bytes": 0, "ahead_bytes": 0, "ahead_used_bytes": 0});
    let with_traffic = |mut object: Value| {
        object.as_object_mut().expect("an object").extend(traffic.as_object().expect("an object").clone());
        object
    };
    let partition = |i| {
        with_traffic(json!({"name": long("partition", i), "minimum_bytes": u64::MAX >> 1,
            "used_bytes": 1u64 << 60, "pending_bytes": 0, "evictions": 0}))
    };
    let volume = |i: usize| {
        with_traffic(
            json!({"volume": long("volume", i), "policy": "write-back", "partition": long("partition", i % 7),
            "cached_bytes": 1, "pending_bytes": 0, "destages": 0, "ahead_unused_bytes": 0}),
        )
    };
    json!({"controller": 0, "memory_bytes": 0, "used_bytes": 0, "pending_bytes": 0, "pending_percent": 0,
        "waits": 0, "evictions": 0, "journals": [], "partitions": (0..OBJECTS).map(partition).collect::<Value>(),
        "volumes": (0..OBJECTS).map(volume).collect::<Value>()})
}

/// A thousand of each, with the longest names and the largest numbers.
fn status() -> Status {
    let thousand = |each: fn(usize) -> Value| (0..OBJECTS).map(each).collect::<Value>();
    let session = |i| json!({"host": long("host", i), "initiator": "iqn.x", "isid": format!("{i:012x}"), "portal_group": 65_535, "commands": u64::MAX, "bytes": u64::MAX});
    let job = |i| json!({"kind": "evacuate", "object": long("group", i), "progress": {"done_bytes": 1, "total_bytes": u64::MAX}});
    let port = |i: usize| {
        json!({"listen": format!("[2001:db8:1234:5678:9abc:def0:1234:{i:x}]:3260"), "portal_group": 65_535,
        "controller": 63, "sessions": 4096, "commands": COMMANDS, "bytes_in": u64::MAX, "bytes_out": u64::MAX})
    };
    serde_json::from_value(json!({"version": "1", "target": "iqn.x", "uptime_s": 1, "controllers": 1,
        "ports": thousand(port), "drives": thousand(drive), "groups": thousand(group), "pools": thousand(pool),
        "volumes": thousand(volume), "images": thousand(image), "caches": [cache()], "policies": thousand(policy),
        "hosts": thousand(host), "sessions": thousand(session), "jobs": thousand(job), "events": []}))
    .expect("a status")
}

/// One line an object, none wider than the terminal, no column left out; and each column table is good.
fn check<T>(noun: &Noun<T>, objects: &[T]) {
    let made = lines(noun, objects, Some(TERMINAL), false);
    assert_eq!(made.len(), objects.len() + 1, "{}: a header, and one line an object", noun.many);
    let widest = made.iter().max_by_key(|line| line.width()).expect("lines");
    assert!(widest.width() <= TERMINAL, "{}: {} columns: {widest}", noun.many, widest.width());
    assert!(made.iter().all(|line| !line.contains('\n')));
    let name = noun.columns[0].name.to_uppercase();
    let shown = noun.columns.iter().filter(|c| c.is_shown).count();
    assert!(made[0].trim_start().starts_with(&name) || !noun.columns[0].is_shown, "{}", made[0]);
    assert_eq!(
        made[0].split_whitespace().count(),
        shown,
        "{}: no column is left out: {}",
        noun.many,
        made[0]
    );
    let mut names = BTreeSet::new();
    for column in noun.columns {
        let field = column.field();
        assert!(field.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'), "{field}");
        assert!(names.insert(column.name) && column.name != "all", "{}: {} twice", noun.many, column.name);
    }
}

#[test]
fn a_thousand_objects_are_a_thousand_lines_of_80_columns() {
    let status = status();
    check(&VOLUME, &volumes(status.clone()));
    check(&SNAPSHOT, &snapshots(status.clone()));
    check(&IMAGE, &status.images);
    check(&DRIVE, &status.drives);
    check(&HEALTH, &status.drives);
    check(&GROUP, &status.groups);
    check(&POOL, &status.pools);
    check(&POLICY, &status.policies);
    check(&HOST, &status.hosts);
    check(&SESSION, &status.sessions);
    check(&PORT, &status.ports);
    check(&JOB, &status.jobs);
    let rows = partitions(status);
    assert_eq!(rows.len(), OBJECTS);
    check(&PARTITION, &rows);
    let event = |i: usize| admin::EventRecord {
        number: i as u64,
        unix_ms: 1_763_856_000_123,
        severity: "warning".into(),
        object: format!("volume {}", long("volume", i)),
        text: "something happened\nto it, and much is to be said about that".into(),
        who: None,
    };
    check(&EVENT, &(0..OBJECTS).map(event).collect::<Vec<_>>());
    let node = |i: usize| Node {
        name: long("node", i),
        role: "standby".into(),
        epoch: Some(u64::from(u32::MAX)),
        lease_left_us: Some(5_500_000),
        since_unix_ms: Some(1_763_856_000_123),
        portals: vec!["[2001:db8::1]:3260".into(); 16],
        version: Some("0.1.0".into()),
        ..Node::default()
    };
    check(&NODE, &(0..OBJECTS).map(node).collect::<Vec<_>>());
}

#[test]
fn names_that_differ_in_their_numbers_still_differ_when_shortened() {
    let rows = volumes(status());
    let made = lines(&VOLUME, &rows, Some(TERMINAL), false);
    let names: BTreeSet<&str> = made[1..].iter().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names.len(), OBJECTS, "{:?}", made[1]);
}

#[test]
fn usual_names_fit_without_being_shortened() {
    let mut rows: Vec<Value> = (0..OBJECTS).map(volume).collect();
    for (i, row) in rows.iter_mut().enumerate() {
        let row = row.as_object_mut().expect("an object");
        row.insert("name".into(), json!(format!("volume-{i:04}")));
        row.insert("pool".into(), json!("pool0"));
        row.insert("size_bytes".into(), json!(10u64 << 30));
        row.insert("used_bytes".into(), json!(1023 << 20));
        row.insert("mapped_to".into(), json!([{"host": "kvm01", "lun": i}]));
        row.insert(
            "qos".into(),
            json!({"policy": "gold", "state": "ok", "served_iops": null, "charged_bytes": 0,
            "minimum_requests": 0, "weight_requests": 0, "waited_requests": 0, "waited_us": 0}),
        );
    }
    let status = Status { volumes: serde_json::from_value(rows.into()).expect("volumes"), ..status() };
    let made = lines(&VOLUME, &volumes(status), None, false);
    assert!(made.iter().all(|line| line.width() <= TERMINAL && !line.contains('…')), "{}", made[1]);
    assert_eq!(
        made[7],
        "volume-0006  pool0  10 GiB  0.999 GiB  kvm01:6    gold    ok".replace("0.999 GiB", "1.00 GiB")
    );
}
