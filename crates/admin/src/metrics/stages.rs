//! Where a request's time went: latency histograms by stage, and by the object of each layer.
//!
//! `port` ends where `lu` begins. `lu` contains `qos` (the wait for a turn), and `cache`, `image` or `pool`;
//! a cache asks the pool for what it has not; a pool contains `raid`, and a group its drives.

use std::collections::BTreeMap;

use status::{HostServed, Latencies, Latency, StageLatency, Status};

use super::top::Named;
use super::write::{Text, labels};

const STAGES: [&str; 8] = ["port", "lu", "qos", "cache", "image", "pool", "raid", "drive"];

pub(super) fn write(out: &mut Text, status: &Status, named: &Named) {
    let mut sums: BTreeMap<&str, Latencies> = STAGES.map(|stage| (stage, Latencies::default())).into();
    let volumes = status.volumes.iter().map(|v| &v.counters);
    for counters in volumes.chain(status.images.iter().map(|i| &i.counters)) {
        sums.entry("lu").or_default().add(&counters.latency);
    }
    for of in &status.stages {
        sums.entry(of.stage.as_ref()).or_default().add(&of.latency);
    }
    let ordered = STAGES.iter().filter_map(|stage| Some((*stage, sums.get(stage)?)));
    let help = "Time of reads and writes in a layer with those below it; below a LU one in 16 is measured";
    let all = ordered.flat_map(|(stage, of)| both(&[("stage", stage)], of));
    out.histograms("masu_stage_latency_seconds", help, all);
    let families = [
        ("pool", "masu_pool_latency_seconds", "pool", "Reads and writes of a pool, one in 16"),
        ("raid", "masu_group_latency_seconds", "group", "Reads and writes of a group, one in 16"),
    ];
    for (stage, name, label, help) in families {
        let of = status.stages.iter().filter(|of| of.stage == stage);
        out.histograms(name, help, of.flat_map(|of| both(&[(label, &of.object)], &of.latency)));
    }
    drives(out, status, named);
    hosts(out, status, named);
}

fn drives(out: &mut Text, status: &Status, named: &Named) {
    let (mut own, mut rest): (Vec<&StageLatency>, Latencies) = (Vec::new(), Latencies::default());
    for of in status.stages.iter().filter(|of| of.stage == "drive") {
        match named.drives.contains(&of.object) {
            true => own.push(of),
            false => rest.add(&of.latency),
        }
    }
    let has_rest = status.drives.len() > named.drives.len();
    let own = own.into_iter().flat_map(|of| both(&[("drive", &of.object)], &of.latency));
    let rest = has_rest.then(|| both(&[("drive", "other")], &rest)).into_iter().flatten();
    let help = "Reads and writes of a drive, one in 16";
    out.histograms("masu_drive_latency_seconds", help, own.chain(rest));
}

/// Hosts: of several controllers, and those with a name of their own and the rest.
fn hosts(out: &mut Text, status: &Status, named: &Named) {
    let mut all: BTreeMap<&str, HostServed> = BTreeMap::new();
    for host in &named.hosts {
        all.insert(host, Default::default());
    }
    let has_rest = status.hosts.len() > named.hosts.len();
    if has_rest {
        all.insert("other", Default::default());
    }
    let declared: std::collections::BTreeSet<&str> = status.hosts.iter().map(|h| h.name.as_str()).collect();
    for served in status.served.iter().filter(|s| declared.contains(s.host.as_str())) {
        let name = if named.hosts.contains(&served.host) { served.host.as_str() } else { "other" };
        all.entry(name).or_default().add(served);
    }
    let help = "Reads and writes of a host at LUs";
    let latencies = all.iter().flat_map(|(host, served)| both(&[("host", host)], &served.latency));
    out.histograms("masu_host_latency_seconds", help, latencies);
    let mut counter = |name, help, value: fn(&HostServed) -> u64| {
        let samples = all.iter().map(|(host, served)| (labels(&[("host", host)]), value(served) as f64));
        out.counter(name, help, samples);
    };
    counter("masu_host_commands_total", "Commands of a host", |served| served.commands);
    counter("masu_host_received_bytes_total", "Bytes from a host", |served| served.bytes_in);
    counter("masu_host_sent_bytes_total", "Bytes to a host", |served| served.bytes_out);
}

/// The histograms of reads and of writes, with these labels.
pub(super) fn both<'a>(pairs: &[(&str, &str)], of: &'a Latencies) -> [(String, &'a Latency); 2] {
    [("read", &of.reads), ("write", &of.writes)].map(|(op, latency)| {
        let pairs: Vec<(&str, &str)> = pairs.iter().copied().chain([("op", op)]).collect();
        (labels(&pairs), latency)
    })
}
