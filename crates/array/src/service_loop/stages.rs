//! How long operations took, layer by layer, and what hosts were served: for metrics.

use std::borrow::Cow;

use scsi::HostTraffic;
use world::LatencyCounts;

use crate::controller::State;
use crate::status::{HostServed, Latencies, Latency, StageLatency};

/// The latencies of ports, schedulers, caches, pools, groups and drives.
pub(super) fn stages_status(state: &State) -> Vec<StageLatency> {
    let mut all = Vec::new();
    let mut add = |stage, object: &str, counts| {
        all.push(StageLatency {
            stage: Cow::Borrowed(stage),
            object: object.into(),
            latency: latencies(counts),
        });
    };
    for port in &state.ports {
        add("port", &port.listen.to_string(), port.traffic.waits.counts());
    }
    for (pool, of) in &state.services {
        add("qos", pool, of.service.waits());
        // Without a cache the pool itself is next.
        if state.cache.is_some() {
            add("cache", pool, of.service.served());
        }
    }
    if let Some(service) = &state.image_service {
        add("qos", "images", service.waits());
        add("image", "images", service.served());
    }
    state.pools.iter().for_each(|(name, pool)| add("pool", name, pool.latencies()));
    state.groups.iter().for_each(|(name, group)| add("raid", name, group.latencies()));
    state.drives.iter().for_each(|(name, drive)| add("drive", name, drive.latencies()));
    all
}

/// What hosts were served by this controller.
pub(super) fn hosts_served(state: &State) -> Vec<HostServed> {
    let served = |(host, of): (&String, &std::rc::Rc<HostTraffic>)| HostServed {
        host: host.clone(),
        commands: of.traffic.commands.get(),
        bytes_in: of.traffic.bytes_in.get(),
        bytes_out: of.traffic.bytes_out.get(),
        latency: Latencies {
            reads: latency(of.served[0].counts()),
            writes: latency(of.served[1].counts()),
            others: latency(of.served[2].counts()),
        },
    };
    state.host_traffic.iter().map(served).collect()
}

fn latencies((reads, writes): (LatencyCounts, LatencyCounts)) -> Latencies {
    Latencies { reads: latency(reads), writes: latency(writes), others: Latency::default() }
}

// Both crates say the same buckets: `status` knows no engine.
const _: () = assert!(world::LATENCY_BUCKETS == status::LATENCY_BUCKETS);

fn latency(LatencyCounts { counts, sum_ns }: LatencyCounts) -> Latency {
    Latency { counts, sum_ns }
}
