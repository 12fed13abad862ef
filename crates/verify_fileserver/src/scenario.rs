//! `fileserver.toml`: what is run, on which hardware. A file that does not fit is refused with one line that
//! names the place.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::Deserialize;
use world_model::{FibreChannel, Link};

use lab_core::checks::Checks;
use lab_core::claim::Claims;
use lab_core::quantity::{DISK_BYTES_MAX, Size, Time};
use lab_core::scenario::ScenarioFile;

use super::model::Placement;

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
    pub(super) bottleneck: Bottleneck,
    pub(super) ramp: Ramp,
    quick_ramp: QuickRamp,
    pub(super) growth: Growth,
    quick_growth: QuickGrowth,
    pub(super) staged: Staged,
    quick_staged: Staged,
    pub(super) real: Real,
    pub(super) write_cache: WriteCache,
    quick_write_cache: WriteCache,
    /// What is claimed.
    #[serde(rename = "claim")]
    pub(super) claims: Claims,
}

/// Power cuts under two write caches.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteCache {
    /// In each of the four configurations.
    pub(super) cuts: u64,
    /// For which the speed is measured, in virtual time.
    pub(super) seconds: u64,
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

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Array {
    pub(super) controllers: usize,
    pub(super) cache: Size,
    pub(super) drive: String,
    pub(super) drives_per_group: u32,
    pub(super) stripe_unit: Size,
    pub(super) page: Size,
    pub(super) memory: Time,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Port {
    pub(super) fibre_channel_gbit: u32,
}

/// Controller time per command.
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
    pub(super) lookup: Time,
    pub(super) zeroes_blocks: bool,
}

/// What becomes of dirty pages whose write the disk has refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Refused {
    /// The system logs that the data are lost, and forgets them.
    Discarded,
    /// They stay dirty, and are written again.
    Kept,
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
    pub(super) request_bytes: Size,
    pub(super) transfer: Size,
    pub(super) read_ahead: u32,
    pub(super) lazy_every: Time,
    pub(super) lazy_threads: u32,
    pub(super) checkpoint: Time,
    pub(super) placement: Placement,
    pub(super) refused: Refused,
}

/// A client of a file server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Client {
    pub(super) gbit: u32,
    pub(super) drive: String,
    pub(super) cache: Size,
    pub(super) requests: u32,
    pub(super) file: Time,
}

/// Above these something holds the servers up.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bottleneck {
    pub(super) response: Time,
    pub(super) queue_per_spindle: f64,
    pub(super) utilisation_percent: f64,
    pub(super) cost_percent: f64,
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

/// Everything grows, stage by stage.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Staged {
    pub(super) trees: u32,
    pub(super) dummy_trees: u32,
    /// So much of each drive is used; none: all of it.
    pub(super) drive_bytes: Option<Size>,
    /// What disk, partition and file system have afterwards; the LU a little more.
    pub(super) disk: Size,
    /// What is copied, and deleted again.
    pub(super) fill: Size,
    pub(super) copies: u32,
    /// Of a stage, behind what is done in it.
    pub(super) seconds: u32,
    pub(super) full_seconds: u32,
    /// Of the pool, when it begins; other LUs have the rest.
    pub(super) free: Size,
    pub(super) warning_percent: u8,
    pub(super) critical_percent: u8,
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

/// What a cache can be.
const CACHE: RangeInclusive<Size> = Size(16 << 20)..=Size(64 << 30);
/// No wait is longer.
const HOUR: Time = Time(Duration::from_secs(3600));
/// Between two samples.
const EVERY_MIN: Time = Time(Duration::from_millis(100));
const DAY_SECONDS: u32 = 86_400;
/// The largest disk of a dynamic VHD, in whole GiB.
const VHD_BYTES_MAX: u64 = 2040 << 30;

impl ScenarioFile for Fileserver {
    const BUILT_IN: (&'static str, &'static str) =
        (include_str!("../../../scenarios/fileserver.toml"), "scenarios/fileserver.toml");
    const MEASURES: &'static [&'static str] = &[
        "array.reads.iops",
        "array.reads.mb",
        "array.writes.iops",
        "array.writes.mb",
        "array.writes.smaller",
        "cache.queue",
        "cache.read",
        "cache.reads.iops",
        "cache.reads.mb",
        "cache.throughput",
        "cache.write",
        "cache.writes.iops",
        "cache.writes.mb",
        "controller",
        "controller.first",
        "controller.second",
        "drives",
        "full.after",
        "full.damaged",
        "full.lost",
        "full.served.reads",
        "full.served.writes",
        "full.rate",
        "full.warned",
        "growth.refused",
        "growth.stalls",
        "headroom",
        "hits",
        "order.network",
        "parent",
        "pending",
        "quarter.bytes",
        "quarter.ios",
        "queue.dynamic",
        "queue.fixed",
        "queued",
        "queued.most",
        "ramp.busy",
        "ramp.end",
        "ramp.law",
        "ramp.spread",
        "same.host",
        "same.memory",
        "same.parent",
        "same.processors",
        "same.queue",
        "same.read",
        "same.root",
        "same.write",
        "spread.reads.iops",
        "spread.reads.mb",
        "spread.writes.iops",
        "spread.writes.mb",
        "staged.after",
        "staged.compacting",
        "staged.critical",
        "staged.full.reads",
        "staged.full.speed.reads",
        "staged.full.speed.writes",
        "staged.full.writes",
        "staged.full.wrong",
        "staged.kept",
        "staged.online.reads",
        "staged.online.writes",
        "staged.pause",
        "staged.returned",
        "staged.seen",
        "staged.speed.reads",
        "staged.speed.writes",
        "staged.warned",
        "throughput.below",
        "throughput.dynamic",
        "throughput.fixed",
        "throughput.less",
        "vhdx.besides",
        "vhdx.cost",
        "vhdx.fewer",
        "vhdx.straight",
        "vhdx.throughput",
        "writes.more",
        "writes.smaller",
        "write_cache.durable",
        "write_cache.reset",
        "write_cache.unheeded",
        "write_cache.volatile",
        "write_cache.wrong",
    ];

    fn claims(&self) -> &Claims {
        &self.claims
    }

    fn check(&self, c: &mut Checks) {
        let p = &self.published;
        c.range("published.servers", p.servers, 1..=16);
        c.range("published.clients", p.clients, 1..=8);
        c.range("published.workers", p.workers, 1..=64);
        c.range("published.read_percent", p.read_percent, 0..=100);
        c.range("published.trees", p.trees, 1..=1000);
        c.range("published.dummy_trees", p.dummy_trees, 0..=1000);
        c.range("growth.read_percent", self.growth.read_percent, 0..=99);
        self.check_runs(c);
        self.check_hardware(c);
        for (key, own) in [("write_cache", self.write_cache), ("quick_write_cache", self.quick_write_cache)] {
            c.range(&format!("{key}.cuts"), own.cuts, 1..=1_000_000);
            c.range(&format!("{key}.seconds"), own.seconds, 1..=3600);
        }
    }
}

impl Fileserver {
    /// The quick form.
    pub(super) fn quick(self) -> Fileserver {
        let q = self.quick_growth;
        let growth = Growth { seconds: q.seconds, expand_at: q.expand_at, free: q.free, ..self.growth };
        let QuickRamp { servers, spread_servers, seconds, from, every } = self.quick_ramp.clone();
        let ramp = Ramp { servers, spread_servers, seconds, from, every, ..self.ramp };
        Fileserver {
            run: self.quick,
            growth,
            ramp,
            staged: self.quick_staged,
            write_cache: self.quick_write_cache,
            ..self
        }
    }

    /// What is measured against, and what findings are named by.
    fn check_thresholds(&self, c: &mut Checks) {
        let (p, b) = (&self.published, &self.bottleneck);
        c.range("published.fixed_mb_per_s", p.fixed_mb_per_s, 0.001..=1e6);
        c.range("published.dynamic_mb_per_s", p.dynamic_mb_per_s, 0.001..=1e6);
        c.range("bottleneck.response", b.response, Time(Duration::ZERO)..=HOUR);
        c.range("bottleneck.queue_per_spindle", b.queue_per_spindle, 0.0..=1e6);
        c.range("bottleneck.utilisation_percent", b.utilisation_percent, 0.0..=100.0);
        c.range("bottleneck.cost_percent", b.cost_percent, 0.0..=100.0);
    }

    fn check_growth(&self, c: &mut Checks) {
        let quick = &self.quick_growth;
        c.range("growth.read_percent", self.growth.read_percent, 0..=100);
        for (key, seconds, expand_at, free) in [
            ("growth", self.growth.seconds, self.growth.expand_at, self.growth.free),
            ("quick_growth", quick.seconds, quick.expand_at, quick.free),
        ] {
            c.range(&format!("{key}.seconds"), seconds, 2..=DAY_SECONDS);
            let end = Time(Duration::from_secs(seconds.into()));
            c.range(&format!("{key}.expand_at"), expand_at, Time(Duration::ZERO)..=end);
            c.range(&format!("{key}.free"), free, Size(64 << 20)..=self.published.disk);
        }
        for (key, own) in [("write_cache", &self.write_cache), ("quick_write_cache", &self.quick_write_cache)]
        {
            c.range(&format!("{key}.cuts"), own.cuts, 1..=100_000);
            c.range(&format!("{key}.seconds"), own.seconds, 1..=3600);
        }
    }

    fn check_runs(&self, c: &mut Checks) {
        self.check_thresholds(c);
        self.check_growth(c);
        for (key, run) in [("run", &self.run), ("quick", &self.quick)] {
            let (server, array) = (run.server_every.0, run.array_every.0);
            let whole = array.as_nanos().is_multiple_of(server.as_nanos().max(1));
            c.range(&format!("{key}.seconds"), run.seconds, 1..=DAY_SECONDS);
            c.range(&format!("{key}.from"), run.from, Time(Duration::ZERO)..=HOUR);
            c.range(&format!("{key}.server_every"), run.server_every, EVERY_MIN..=run.array_every);
            c.must(&format!("{key}.array_every"), whole, "be whole intervals of server_every");
            let counted = Duration::from_secs(run.seconds.into());
            c.must(key, array.saturating_mul(2) <= counted, "count two windows of array_every or more");
        }
        let quick = &self.quick_ramp;
        let lists = [&self.ramp.servers, &self.ramp.spread_servers, &quick.servers, &quick.spread_servers];
        lists.into_iter().flatten().for_each(|servers| c.range("ramp.servers", *servers, 1..=64));
        c.range("ramp.per_host", self.ramp.per_host, 1..=64);
        for (key, from, every, seconds) in [
            ("ramp", self.ramp.from, self.ramp.every, self.ramp.seconds),
            ("quick_ramp", quick.from, quick.every, quick.seconds),
        ] {
            c.range(&format!("{key}.from"), from, Time(Duration::ZERO)..=HOUR);
            c.range(&format!("{key}.seconds"), seconds, 1..=DAY_SECONDS);
            let half = Time(Duration::from_secs(seconds.into()) / 2);
            c.range(&format!("{key}.every"), every, EVERY_MIN..=half);
        }
        for (key, own) in [("staged", &self.staged), ("quick_staged", &self.quick_staged)] {
            self.check_staged(c, key, own);
        }
        let real = &self.real;
        c.share("real.scale", real.scale);
        c.share("real.scale_quick", real.scale_quick);
        c.range("real.repeats", real.repeats, 1..=1000);
        c.range("real.repeats_quick", real.repeats_quick, 1..=1000);
        c.cache("real.cache", real.cache, CACHE);
    }

    fn check_staged(&self, c: &mut Checks, key: &str, own: &Staged) {
        let at = |name: &str| format!("{key}.{name}");
        c.range(&at("trees"), own.trees, 1..=1000);
        c.range(&at("dummy_trees"), own.dummy_trees, 0..=1000);
        c.multiple(&at("disk"), own.disk, Size(1 << 30), 16 << 30..=VHD_BYTES_MAX);
        c.must(&at("disk"), own.disk > self.published.disk, "be more than published.disk");
        c.range(&at("fill"), own.fill, Size(64 << 20)..=own.disk);
        c.range(&at("copies"), own.copies, 1..=64);
        c.range(&at("seconds"), own.seconds, 2..=DAY_SECONDS);
        c.range(&at("full_seconds"), own.full_seconds, 2..=DAY_SECONDS);
        c.range(&at("free"), own.free, Size(64 << 20)..=own.disk);
        c.range(&at("warning_percent"), own.warning_percent, 2..=98);
        c.range(&at("critical_percent"), own.critical_percent, own.warning_percent..=99);
        if let Some(bytes) = own.drive_bytes {
            c.multiple(&at("drive_bytes"), bytes, Size(1 << 20), 1 << 30..=64 << 30);
        }
    }

    fn check_hardware(&self, c: &mut Checks) {
        let (a, s, h) = (&self.array, &self.server, &self.host);
        c.range("array.controllers", a.controllers, 1..=8);
        c.range("controller.cores", self.controller.cores, 1..=64);
        c.range("array.drives_per_group", a.drives_per_group, 3..=32);
        c.cache("array.cache", a.cache, CACHE);
        c.power_of_two("array.page", a.page, array::config::PAGE_BYTES);
        c.multiple("array.stripe_unit", a.stripe_unit, Size(4096), 4096..=1 << 20);
        c.multiple("server.transfer", s.transfer, Size(4096), 4096..=1 << 20);
        c.multiple("published.disk", self.published.disk, Size(1 << 30), 16 << 30..=DISK_BYTES_MAX);
        c.range("server.cores", s.cores, 1..=64);
        c.range("host.cores", h.cores, 1..=64);
        c.range("server.lazy_threads", s.lazy_threads, 1..=256);
        c.range("server.read_ahead", s.read_ahead, 0..=64);
        c.range("client.requests", self.client.requests, 1..=256);
        c.multiple("server.request_bytes", s.request_bytes, Size(4096), 4096..=1 << 20);
        let interval = Time(Duration::from_millis(10))..=HOUR;
        c.range("server.lazy_every", s.lazy_every, interval.clone());
        c.range("server.checkpoint", s.checkpoint, interval);
        c.range("client.cache", self.client.cache, CACHE);
        c.range("server.memory", s.memory, CACHE);
        c.range("host.memory", h.memory, Size(16 << 20)..=Size(64 << 40));
        c.must("port.fibre_channel_gbit", self.speed().is_some(), "be 1, 2, 4 or 8");
        let has_link = Link::ethernet(self.client.gbit, MTU_BYTES).is_ok();
        c.must("client.gbit", has_link, "be 1, 10, 25, 40 or 100");
        let most = self.ramp.per_host.max(self.published.servers);
        let servers_memory = s.memory.0.saturating_mul(most.into());
        c.must("host.memory", servers_memory <= h.memory.0, "be what its servers have, or more");
        c.range("server.cache", s.cache, Size(1 << 20)..=s.memory);
        let (client, controller) = (&self.client, &self.controller);
        for (key, cost) in [
            ("host.io", h.io),
            ("host.lookup", h.lookup),
            ("array.memory", a.memory),
            ("server.request", s.request),
            ("server.per_kib", s.per_kib),
            ("client.file", client.file),
            ("controller.command", controller.command),
            ("controller.per_kib", controller.per_kib),
        ] {
            c.range(key, cost, Time(Duration::ZERO)..=Time(Duration::from_secs(1)));
        }
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
    use lab_core::claim::Kind;
    use lab_core::record::World;

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
            ("fixed_mb_per_s = 58.3", "fixed_mb_per_s = nan", "published.fixed_mb_per_s"),
            ("cache = \"1400MiB\"", "cache = 513", "server.cache"),
            ("expand_at = \"40s\"", "expand_at = \"151s\"", "growth.expand_at"),
            ("cuts = 250", "cuts = 0", "write_cache.cuts"),
        ] {
            assert!(Fileserver::BUILT_IN.0.contains(from), "{from}");
            let text = Fileserver::BUILT_IN.0.replacen(from, to, 1);
            let error = Fileserver::parse(&text, "my.toml").expect_err(to).to_string();
            assert!(error.contains(said) && !error.contains('\n'), "{to}: {error}");
        }
    }

    /// What the inputs decide by themselves could not have failed, and counted as if it had come out.
    #[test]
    fn what_is_arithmetic_of_the_inputs_follows() {
        let claims = Fileserver::load(None).expect("built in").0.claims.judge(World::Model, &[], false);
        let kind = |id: &str| claims.iter().find(|claim| claim.id == id).expect("a claim").kind;
        // An I/O costs a processor the same on both formats; the controller's work for a command is an input.
        for id in ["same.processors", "same.root", "same.host", "controller.first", "headroom", "ramp.end"] {
            assert_eq!(kind(id), Kind::Follows, "{id}");
        }
        assert_eq!(kind("ramp.law"), Kind::Emerges, "another resource could have ended it");
    }
}
