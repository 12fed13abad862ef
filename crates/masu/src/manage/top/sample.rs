//! What happened between two answers of the array, object by object. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use admin::{Histograms, HostServed, Latency, Status, VolumeCounters, VolumeQos};
use world::MEASURED_ONE_IN;

/// Of operations below a LU, one in so many is measured.
const ONE_IN: f64 = MEASURED_ONE_IN as f64;

/// What the array answered, and when.
pub(super) struct Sample {
    /// On the clock of this process.
    pub(super) at: Duration,
    pub(super) status: Status,
    pub(super) histograms: Histograms,
}

/// What an object did, per second, and how long it took.
#[derive(Clone, Copy, Default)]
pub(super) struct Use {
    pub(super) operations: f64,
    pub(super) read_bytes: f64,
    pub(super) write_bytes: f64,
    pub(super) latency: Latency,
    /// Requests at once, on average: arrivals times duration (Little's law).
    pub(super) at_once: f64,
    /// Of the time of its commands, the share that they waited for their turn.
    pub(super) qos_share: f64,
}

impl Use {
    pub(super) fn mean_us(&self) -> Option<f64> {
        self.latency.mean_ns().map(|ns| ns / 1e3)
    }

    pub(super) fn quantile_us(&self, share: f64) -> Option<f64> {
        self.latency.quantile_ns(share).map(|ns| ns / 1e3)
    }
}

/// What happened in an interval.
#[derive(Default)]
pub(super) struct Between {
    pub(super) hosts: BTreeMap<String, Use>,
    pub(super) lus: BTreeMap<String, Use>,
    /// By stage, then by object.
    pub(super) stages: BTreeMap<String, BTreeMap<String, Use>>,
    /// Operations and bytes of drives; their latencies are those of the stage.
    pub(super) drives: BTreeMap<String, Use>,
    /// How busy each controller was, of 1.
    pub(super) controllers: BTreeMap<usize, f64>,
}

impl Between {
    /// All LUs together.
    pub(super) fn all(&self) -> Use {
        together(self.lus.values())
    }

    /// A stage's objects together.
    pub(super) fn stage(&self, stage: &str) -> Use {
        together(self.stages.get(stage).into_iter().flat_map(BTreeMap::values))
    }

    /// One object of a stage.
    pub(super) fn of(&self, stage: &str, object: &str) -> Use {
        self.stages.get(stage).and_then(|of| of.get(object)).copied().unwrap_or_default()
    }
}

/// The sum of some objects; what a share is of them is not known.
fn together<'a>(objects: impl Iterator<Item = &'a Use>) -> Use {
    objects.fold(Use::default(), |mut all, of| {
        all.operations += of.operations;
        all.read_bytes += of.read_bytes;
        all.write_bytes += of.write_bytes;
        all.at_once += of.at_once;
        all.latency.add(&of.latency);
        all
    })
}

/// What happened from `then` to `now`. An array that was started in between did everything since its start.
pub(super) fn between(then: &Sample, now: &Sample) -> Between {
    let is_other = now.status.uptime_s < then.status.uptime_s;
    let empty = Sample { at: then.at, status: Status::default(), histograms: Histograms::default() };
    let then = if is_other { &empty } else { then };
    // Two answers are never at one time; this keeps a division from having no result.
    let seconds = now.at.saturating_sub(then.at).as_secs_f64().max(0.001);
    Between {
        hosts: hosts(then, now, seconds),
        lus: lus(then, now, seconds),
        stages: stages(then, now, seconds),
        drives: drives(then, now, seconds),
        controllers: controllers(then, now),
    }
}

fn rate(then: u64, now: u64, seconds: f64) -> f64 {
    // Fewer than before: it was opened anew.
    now.checked_sub(then).unwrap_or(now) as f64 / seconds
}

fn lus(then: &Sample, now: &Sample, seconds: f64) -> BTreeMap<String, Use> {
    let (before, counted) = (counters(&then.status), counters(&now.status));
    let latencies = |sample: &Sample| -> BTreeMap<String, Latency> {
        sample.histograms.lus.iter().map(|lu| (lu.name.clone(), lu.latency.all())).collect()
    };
    let (latency_then, latency_now) = (latencies(then), latencies(now));
    let of = |(name, (c, qos)): (&String, &(VolumeCounters, VolumeQos))| {
        let (was, qos_was) = before.get(name).cloned().unwrap_or_default();
        let latency = latency_now.get(name).copied().unwrap_or_default();
        let latency = latency.since(&latency_then.get(name).copied().unwrap_or_default());
        let waited_ns = rate(qos_was.waited_us, qos.waited_us, seconds) * seconds * 1e3;
        let used = Use {
            operations: rate(was.commands, c.commands, seconds),
            read_bytes: rate(was.read_bytes, c.read_bytes, seconds),
            write_bytes: rate(was.write_bytes, c.write_bytes, seconds),
            latency,
            at_once: latency.sum_ns as f64 / 1e9 / seconds,
            qos_share: (waited_ns / (latency.sum_ns as f64).max(1.0)).min(1.0),
        };
        (name.clone(), used)
    };
    counted.iter().map(of).collect()
}

fn counters(status: &Status) -> BTreeMap<String, (VolumeCounters, VolumeQos)> {
    let volumes = status.volumes.iter().map(|v| (v.name.clone(), (v.counters.clone(), v.qos.clone())));
    let images = status.images.iter().map(|i| (i.name.clone(), (i.counters.clone(), i.qos.clone())));
    volumes.chain(images).collect()
}

fn hosts(then: &Sample, now: &Sample, seconds: f64) -> BTreeMap<String, Use> {
    let served = |sample: &Sample| {
        let mut all: BTreeMap<String, HostServed> = BTreeMap::new();
        for host in &sample.histograms.hosts {
            all.entry(host.host.clone()).or_default().add(host);
        }
        all
    };
    let before = served(then);
    let mut all: BTreeMap<String, Use> = BTreeMap::new();
    all.extend(now.status.hosts.iter().map(|host| (host.name.clone(), Use::default())));
    for (name, served) in served(now) {
        let was = before.get(&name).cloned().unwrap_or_default();
        let latency = served.latency.all().since(&was.latency.all());
        let used = Use {
            operations: rate(was.commands, served.commands, seconds),
            read_bytes: rate(was.bytes_out, served.bytes_out, seconds),
            write_bytes: rate(was.bytes_in, served.bytes_in, seconds),
            latency,
            at_once: latency.sum_ns as f64 / 1e9 / seconds,
            qos_share: 0.0,
        };
        all.insert(name, used);
    }
    all
}

fn stages(then: &Sample, now: &Sample, seconds: f64) -> BTreeMap<String, BTreeMap<String, Use>> {
    // An object that several controllers have is there several times.
    let summed = |sample: &Sample| {
        let mut all: BTreeMap<(String, String), Latency> = BTreeMap::new();
        for of in &sample.histograms.stages {
            all.entry((of.stage.to_string(), of.object.clone())).or_default().add(&of.latency.all());
        }
        all
    };
    let before = summed(then);
    let mut all: BTreeMap<String, BTreeMap<String, Use>> = BTreeMap::new();
    for (key, latency) in summed(now) {
        let latency = latency.since(&before.get(&key).copied().unwrap_or_default());
        let used = Use {
            operations: latency.operations() as f64 * ONE_IN / seconds,
            latency,
            at_once: latency.sum_ns as f64 * ONE_IN / 1e9 / seconds,
            ..Use::default()
        };
        all.entry(key.0).or_default().insert(key.1, used);
    }
    all
}

fn drives(then: &Sample, now: &Sample, seconds: f64) -> BTreeMap<String, Use> {
    let before: BTreeMap<&str, &admin::Drive> =
        then.status.drives.iter().map(|drive| (drive.name.as_str(), drive)).collect();
    let of = |drive: &admin::Drive| {
        let was = before.get(drive.name.as_str());
        let of =
            |value: fn(&admin::Drive) -> u64| rate(was.map_or(0, |was| value(was)), value(drive), seconds);
        let used = Use {
            operations: of(|d| d.reads) + of(|d| d.writes),
            read_bytes: of(|d| d.read_bytes),
            write_bytes: of(|d| d.write_bytes),
            ..Use::default()
        };
        (drive.name.clone(), used)
    };
    now.status.drives.iter().map(of).collect()
}

fn controllers(then: &Sample, now: &Sample) -> BTreeMap<usize, f64> {
    let before: BTreeMap<usize, (u64, u64)> =
        then.status.loads.iter().map(|load| (load.controller, (load.busy_ms, load.up_ms))).collect();
    let of = |load: &admin::Load| {
        let (busy, up) = before.get(&load.controller).copied().unwrap_or_default();
        let passed = load.up_ms.saturating_sub(up).max(1);
        (load.controller, (load.busy_ms.saturating_sub(busy) as f64 / passed as f64).min(1.0))
    };
    now.status.loads.iter().map(of).collect()
}
