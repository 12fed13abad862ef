//! `fileserver.toml`: what is run, on which hardware. A file that does not fit is refused with one line that names the place.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use world_model::{FibreChannel, Link};

use lab_core::claim::Claims;
use lab_core::quantity::{Size, Time};
use lab_core::scenario::{ScenarioError, parse, text_of};

/// The scenario of `masu verify fileserver`, as built in.
const FILESERVER: &str = include_str!("../../../../scenarios/fileserver.toml");
/// Where the built-in scenario lies in the repository.
const FILESERVER_PATH: &str = "scenarios/fileserver.toml";

/// Everything that a claim can ask for.
const MEASURES: [&str; 47] = [
    "array.reads.iops",
    "array.reads.mb",
    "array.writes.iops",
    "array.writes.mb",
    "array.writes.smaller",
    "cache.read",
    "cache.throughput",
    "controller",
    "controller.first",
    "controller.second",
    "drives",
    "full.after",
    "full.reads",
    "full.warned",
    "growth.refused",
    "growth.stalls",
    "headroom",
    "hits",
    "order.array",
    "order.network",
    "order.top",
    "pending",
    "quarter.bytes",
    "quarter.ios",
    "queued",
    "queued.most",
    "ramp.busy",
    "ramp.end",
    "ramp.law",
    "ramp.spread",
    "same.memory",
    "same.processors",
    "same.queue",
    "same.read",
    "same.write",
    "throughput.below",
    "throughput.dynamic",
    "throughput.fixed",
    "throughput.less",
    "throughput.whole",
    "vhdx.besides",
    "vhdx.cost",
    "vhdx.fewer",
    "vhdx.straight",
    "vhdx.throughput",
    "writes.more",
    "writes.smaller",
];

/// `fileserver.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fileserver {
    pub name: String,
    pub(super) question: String,
    pub(super) published: Published,
    pub(super) run: Run,
    quick: Run,
    pub(super) array: Array,
    pub(super) port: Port,
    pub(super) controller: Controller,
    pub(super) host: Host,
    pub(super) server: Server,
    pub(super) client: Client,
    pub(super) ramp: Ramp,
    quick_ramp: QuickRamp,
    pub(super) growth: Growth,
    quick_growth: QuickGrowth,
    pub(super) real: Real,
    /// What is claimed.
    #[serde(rename = "claim")]
    pub(super) claims: Claims,
}

/// The published experiment.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Published {
    pub(super) servers: u32,
    pub(super) clients: u32,
    pub(super) workers: u32,
    pub(super) read_percent: u32,
    pub(super) trees: u32,
    pub(super) dummy_trees: u32,
    pub(super) disk: Size,
    pub(super) fixed_mb_per_s: f64,
    pub(super) dynamic_mb_per_s: f64,
}

/// What is counted, and when.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Run {
    pub(super) seconds: u32,
    pub(super) from: Time,
    pub(super) server_every: Time,
    pub(super) array_every: Time,
}

/// The array.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Array {
    pub(super) controllers: usize,
    pub(super) cache: Size,
    pub(super) drive: String,
    pub(super) drives_per_group: u32,
    pub(super) stripe_unit: Size,
    pub(super) page: Size,
}

/// Its port.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Port {
    pub(super) fibre_channel_gbit: u32,
}

/// What commands cost a controller.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Controller {
    pub(super) cores: u32,
    pub(super) command: Time,
    pub(super) per_kib: Time,
}

/// The machine that the servers are on.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Host {
    pub(super) cores: u32,
    pub(super) memory: Size,
    pub(super) io: Time,
    pub(super) dynamic_io: Time,
    pub(super) vhdx_io: Time,
    pub(super) lookup: Time,
}

/// A file server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Server {
    pub(super) cores: u32,
    pub(super) memory: Size,
    pub(super) cache: Size,
    pub(super) request: Time,
    pub(super) per_kib: Time,
    pub(super) transfer: Size,
    pub(super) entry_bytes: u32,
    pub(super) log_writes: u32,
    pub(super) lazy_every: Time,
    pub(super) lazy_depth: u32,
    pub(super) fresh_percent: u32,
    pub(super) again_percent: u32,
}

/// A client.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Client {
    pub(super) gbit: u32,
    pub(super) folder: Time,
    pub(super) file: Time,
    pub(super) per_kib: Time,
}

/// More and more servers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ramp {
    pub(super) servers: Vec<u32>,
    pub(super) spread_servers: Vec<u32>,
    pub(super) per_host: u32,
    seconds: u32,
    from: Time,
    every: Time,
}

impl Ramp {
    /// What is counted of a step, and when.
    pub(super) fn run(&self) -> Run {
        Run { seconds: self.seconds, from: self.from, server_every: self.every, array_every: self.every }
    }
}

/// What of it is different in the quick form.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct QuickRamp {
    servers: Vec<u32>,
    spread_servers: Vec<u32>,
    seconds: u32,
    from: Time,
    every: Time,
}

/// Growth during the run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Growth {
    pub(super) seconds: u32,
    pub(super) expand_at: Time,
    pub(super) free: Size,
    pub(super) read_percent: u32,
}

/// What of it is different in the quick form.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct QuickGrowth {
    seconds: u32,
    expand_at: Time,
    free: Size,
}

/// On this machine.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Real {
    pub(super) scale: f64,
    pub(super) scale_quick: f64,
    pub(super) repeats: usize,
    pub(super) repeats_quick: usize,
    pub(super) cache: Size,
}

fn wrong<T>(path: &str, key: &'static str, cause: &str) -> Result<T, ScenarioError> {
    Err(ScenarioError::Value { path: path.into(), key, cause: cause.into() })
}

impl Fileserver {
    /// The built-in one, or the file that replaces it, and its text.
    pub(super) fn load(path: Option<&Path>) -> Result<(Fileserver, String), ScenarioError> {
        let (text, path) = text_of(path, (FILESERVER, FILESERVER_PATH))?;
        let scenario: Fileserver = parse(&text, &path)?;
        scenario.check(&path)?;
        Ok((scenario, text))
    }

    /// The quick form.
    pub(super) fn quick(self) -> Fileserver {
        let q = self.quick_growth;
        let growth = Growth { seconds: q.seconds, expand_at: q.expand_at, free: q.free, ..self.growth };
        let QuickRamp { servers, spread_servers, seconds, from, every } = self.quick_ramp.clone();
        let ramp = Ramp { servers, spread_servers, seconds, from, every, ..self.ramp };
        Fileserver { run: self.quick, growth, ramp, ..self }
    }

    fn check(&self, path: &str) -> Result<(), ScenarioError> {
        if let Some(cause) = self.claims.fault(&MEASURES) {
            return wrong(path, "claim", &cause);
        }
        let p = &self.published;
        if !(1..=16).contains(&p.servers) || !(1..=8).contains(&p.clients) || !(1..=64).contains(&p.workers) {
            return wrong(path, "published", "are 1 to 16 servers, 1 to 8 clients of each, 1 to 64 workers");
        }
        if p.read_percent > 100
            || self.growth.read_percent > 99
            || self.server.fresh_percent.max(self.server.again_percent) > 100
        {
            return wrong(path, "published.read_percent", "and the other percentages are at most 100");
        }
        if !(1..=1000).contains(&p.trees) || p.dummy_trees > 1000 {
            return wrong(path, "published.trees", "are 1 to 1000, and as many dummies");
        }
        for run in [&self.run, &self.quick] {
            let (server, array) = (run.server_every.0, run.array_every.0);
            let whole = !server.is_zero() && array.as_nanos().is_multiple_of(server.as_nanos().max(1));
            let counted = Duration::from_secs(run.seconds.into());
            if !whole || server < Duration::from_millis(100) || counted < array * 2 || run.seconds > 86_400 {
                return wrong(
                    path,
                    "run",
                    "counts two windows of the array at least, each of whole intervals of the servers of 100 ms at least",
                );
            }
        }
        self.check_ramp(path)?;
        self.check_real(path)?;
        self.check_hardware(path)
    }

    fn check_real(&self, path: &str) -> Result<(), ScenarioError> {
        let real = &self.real;
        let is_share = |scale: f64| scale > 0.0 && scale <= 1.0;
        if !is_share(real.scale) || !is_share(real.scale_quick) {
            return wrong(path, "real.scale", "is over 0 and at most 1");
        }
        if !(1..=1000).contains(&real.repeats) || !(1..=1000).contains(&real.repeats_quick) {
            return wrong(path, "real.repeats", "are 1 to 1000");
        }
        if !(16 << 20..=64 << 30).contains(&real.cache.0) {
            return wrong(path, "real.cache", "is between 16 MiB and 64 GiB");
        }
        Ok(())
    }

    fn check_ramp(&self, path: &str) -> Result<(), ScenarioError> {
        let steps = [&self.ramp.servers, &self.ramp.spread_servers];
        let steps = steps.into_iter().chain([&self.quick_ramp.servers, &self.quick_ramp.spread_servers]);
        let (many, few) = (self.ramp.seconds, self.quick_ramp.seconds);
        let everies = [(self.ramp.every.0, many), (self.quick_ramp.every.0, few)];
        let counts = |(every, seconds): (Duration, u32)| {
            every >= Duration::from_millis(100) && every * 2 <= Duration::from_secs(seconds.into())
        };
        if steps.flatten().any(|servers| !(1..=64).contains(servers))
            || !everies.into_iter().all(counts)
            || many.max(few) > 86_400
            || self.ramp.per_host == 0
        {
            return wrong(
                path,
                "ramp",
                "has steps of 1 to 64 servers, one on a host at least, and counts two windows of 100 ms at least",
            );
        }
        Ok(())
    }

    fn check_hardware(&self, path: &str) -> Result<(), ScenarioError> {
        let (a, s) = (&self.array, &self.server);
        if !(1..=8).contains(&a.controllers) || !(1..=64).contains(&self.controller.cores) {
            return wrong(path, "array.controllers", "are 1 to 8, of 1 to 64 cores");
        }
        if !(3..=32).contains(&a.drives_per_group) {
            return wrong(path, "array.drives_per_group", "are 3 to 32");
        }
        if !(16 << 20..=64 << 30).contains(&a.cache.0) {
            return wrong(path, "array.cache", "is between 16 MiB and 64 GiB");
        }
        if a.stripe_unit.0 > 1 << 20 || a.stripe_unit.0 == 0 || !a.stripe_unit.0.is_multiple_of(4096) {
            return wrong(path, "array.stripe_unit", "is whole 4 KiB, at most 1 MiB");
        }
        let transfer = s.transfer.0;
        if !(4096..=1 << 20).contains(&transfer) || !transfer.is_multiple_of(4096) {
            return wrong(path, "server.transfer", "is whole 4 KiB, at most 1 MiB");
        }
        if self.published.disk.0 < 16 << 30 || !self.published.disk.0.is_multiple_of(1 << 30) {
            return wrong(path, "published.disk", "is whole GiB, 16 at least");
        }
        let depth_is_none = s.lazy_depth == 0 || s.lazy_depth > 256;
        if !(1..=64).contains(&s.cores) || !(1..=64).contains(&self.host.cores) || depth_is_none {
            return wrong(path, "server.cores", "and host.cores are 1 to 64, lazy_depth 1 to 256");
        }
        if s.lazy_every.0 < Duration::from_millis(10) || s.entry_bytes > 4096 || s.log_writes > 64 {
            return wrong(
                path,
                "server.lazy_every",
                "is 10 ms at least, entry_bytes at most 4096, log_writes 64",
            );
        }
        if self.speed().is_none() {
            return wrong(path, "port.fibre_channel_gbit", "is 1, 2, 4 or 8");
        }
        if Link::ethernet(self.client.gbit, MTU_BYTES).is_err() {
            return wrong(path, "client.gbit", "is 1, 10, 25, 40 or 100");
        }
        let (h, c) = (&self.host, &self.client);
        let most = self.ramp.per_host.max(self.published.servers);
        if s.memory.0.saturating_mul(most.into()) > h.memory.0 || s.cache.0 > s.memory.0 {
            return wrong(path, "host.memory", "is what its servers have, at least, and theirs their cache");
        }
        let costs =
            [h.io, h.dynamic_io, h.vhdx_io, h.lookup, s.request, s.per_kib, c.folder, c.file, c.per_kib];
        let costs = costs.iter().chain([&self.controller.command, &self.controller.per_kib]);
        if costs.into_iter().any(|t| t.0 > Duration::from_secs(1)) {
            return wrong(
                path,
                "controller",
                "costs, and those of host, server and client, are at most 1 s each",
            );
        }
        Ok(())
    }

    fn speed(&self) -> Option<FibreChannel> {
        match self.port.fibre_channel_gbit {
            1 => Some(FibreChannel::Gfc1),
            2 => Some(FibreChannel::Gfc2),
            4 => Some(FibreChannel::Gfc4),
            8 => Some(FibreChannel::Gfc8),
            _ => None,
        }
    }

    /// The link of the array's port.
    pub(super) fn fabric(&self) -> Link {
        Link::fibre_channel(self.speed().expect("checked when it was read"))
    }

    /// The segment of a server.
    pub(super) fn network(&self) -> Link {
        Link::ethernet(self.client.gbit, MTU_BYTES).expect("checked when it was read")
    }
}

/// Ethernet (IEEE 802.3).
const MTU_BYTES: u32 = 1500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_scenario_reads_and_wrong_ones_are_refused() {
        let (built_in, _) = Fileserver::load(None).expect("built in");
        assert_eq!(built_in.published.servers * built_in.published.clients, 8);
        assert!(built_in.quick().run.seconds < 600);
        for (from, to, said) in [
            ("servers = 4", "servers = 0", "published"),
            ("gbit = 1 ", "gbit = 2 ", "client.gbit"),
            ("array_every = \"60s\"", "array_every = \"15s\"", "run"),
            ("transfer = \"128KiB\"", "transfer = 1000", "server.transfer"),
            ("clients = 2", "client = 2", "client"),
            ("scale = 0.004", "scale = 1.5", "real.scale"),
        ] {
            assert!(FILESERVER.contains(from), "{from}");
            let text = FILESERVER.replacen(from, to, 1);
            let read: Result<Fileserver, _> = parse(&text, "my.toml");
            let error = read.and_then(|s| s.check("my.toml")).expect_err(to).to_string();
            assert!(error.contains(said) && !error.contains('\n'), "{to}: {error}");
        }
    }
}
