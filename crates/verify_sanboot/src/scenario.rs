//! `sanboot.toml`: what is run, on which hardware. A file that does not fit is refused with one line that
//! names the place.

use std::time::Duration;

use serde::Deserialize;
use world_model::FibreChannel;

use super::results::{Condition, Source};
use lab_core::checks::Checks;
use lab_core::claim::Claims;
use lab_core::quantity::{DISK_BYTES_MAX, Size, Time};
use lab_core::scenario::ScenarioFile;
use lab_core::toml_text::TomlFileError;

use super::takeover::scenario::Takeover;

/// Servers that an array of this scenario has LUs for: twice the published eight, for predictions to be held
/// against.
pub const SERVERS_MAX: u32 = 16;
/// Servers that are switched on at once, at most.
pub const BOOT_SERVERS_MAX: u32 = 64;

/// `sanboot.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Sanboot {
    pub name: String,
    /// The question that the report answers.
    pub question: String,
    /// What the published experiment states.
    pub published: Published,
    /// How it is run.
    pub run: Run,
    /// What is different in the quick form.
    pub quick: Quick,
    /// What is different in real time.
    pub real: Real,
    pub array: Array,
    pub port: Port,
    /// What commands cost its controllers.
    pub controller: Controller,
    /// The servers.
    pub host: Host,
    /// The disk in a server.
    pub internal: Internal,
    /// Servers that are switched on at once.
    pub boot: Boot,
    /// Two controllers, of which one goes.
    pub takeover: Takeover,
    /// Above these something holds the servers up.
    pub bottleneck: Bottleneck,
    /// What is claimed.
    #[serde(rename = "claim")]
    pub claims: Claims,
}

/// The access specification.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The file of a server.
    pub file: Size,
    /// One read or write.
    pub transfer: Size,
    /// Of 100 I/Os of a mix.
    pub mix_read_percent: u32,
}

/// How it is run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Numbers of servers.
    pub servers: Vec<u32>,
    /// More of them, once each.
    pub servers_beyond: Vec<u32>,
    /// Besides, up to so many servers together on as few groups as they ever have to: what predictions learn
    /// a shared group from.
    pub packed_to: u32,
    /// Numbers of servers with a drive of the first group lost, once each.
    pub lost_servers: Vec<u32>,
    /// Numbers of servers with the patterns that forecasts were not made with, once each.
    pub held_out_servers: Vec<u32>,
    /// How often each point is run.
    pub repeats: u32,
    /// I/Os that a server keeps in flight.
    pub outstanding: u32,
    /// Sequential readers and writers of a server, each in a part of its file.
    pub streams: u32,
    /// Measured windows.
    pub windows: u32,
    /// The fewest I/Os of one.
    pub window_ios: u64,
    /// The shortest.
    pub window_time: Time,
    /// The same of a round of the warm-up.
    pub round_ios: u64,
    /// The shortest.
    pub round_time: Time,
    /// After so many, it is measured whether it has settled or not.
    pub rounds_max: u32,
    /// With random writes beside reads: how often it is looked at whether the cache is in balance, and the
    /// shortest window.
    pub balance_time: Time,
    /// At most so many of these windows are measured.
    pub balance_windows: u32,
}

/// What the quick form has instead.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    /// Numbers of servers.
    pub servers: Vec<u32>,
    /// More of them, once each.
    pub servers_beyond: Vec<u32>,
    /// How often each point is run.
    pub repeats: u32,
    /// Measured windows.
    pub windows: u32,
    /// The fewest I/Os of one.
    pub window_ios: u64,
    /// The shortest.
    pub window_time: Time,
    /// The same of a round of the warm-up.
    pub round_ios: u64,
    /// The shortest.
    pub round_time: Time,
    /// Of the long windows of random writes, at most so many.
    pub balance_windows: u32,
    /// Numbers of servers with a drive of the first group lost.
    pub lost_servers: Vec<u32>,
    /// The same with the patterns that forecasts were not made with.
    pub held_out_servers: Vec<u32>,
    /// Numbers of servers that are switched on at once.
    pub boot_servers: Vec<u32>,
    /// How often each of these is run.
    pub boot_repeats: u32,
}

/// What is different in real time, where a second takes a second.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Real {
    /// Share of the published file and cache.
    pub scale: f64,
    /// Numbers of servers.
    pub servers: Vec<u32>,
    /// The same in the quick form.
    pub servers_quick: Vec<u32>,
    /// How often each point is run.
    pub repeats: u32,
    /// Measured windows.
    pub windows: u32,
    /// The fewest I/Os of one.
    pub window_ios: u64,
    /// The shortest.
    pub window_time: Time,
    /// The same of a round of the warm-up.
    pub round_ios: u64,
    /// The shortest.
    pub round_time: Time,
    /// After so many, it is measured whether it has settled or not.
    pub rounds_max: u32,
    /// How often it is looked at whether the cache is in balance, and the shortest window then.
    pub balance_time: Time,
}

/// The array.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Array {
    /// Controllers; the first one owns the LUs.
    pub controllers: usize,
    /// Cache of each.
    pub cache: Size,
    /// Its drives: one of the catalogue, or a file.
    pub drive: String,
    /// A system disk.
    pub lu: Size,
    /// Page of the pools.
    pub page: Size,
    /// Whether LUs that share a group lie half a drive from each other; if not, one behind the other.
    pub lus_apart: bool,
    /// Stripe unit of RAID5.
    pub stripe_unit: Size,
}

/// The port of a controller.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Port {
    /// 1, 2, 4 or 8.
    pub fibre_channel_gbit: u32,
}

/// What the controller spends.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Controller {
    pub cores: u32,
    /// On a command.
    pub command: Time,
    /// On each KiB of its data.
    pub per_kib: Time,
    /// On a write besides.
    pub write: Time,
    /// On a command that had to wait for drives besides.
    pub miss: Time,
}

/// A server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// What it needs for one I/O.
    pub io: Time,
    /// More or less.
    pub spread_percent: u32,
}

/// The disk in a server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Internal {
    /// One of the catalogue, or a file.
    pub drive: String,
    /// Where the file begins on it.
    pub from: Size,
}

/// Servers that are switched on at once.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Boot {
    /// What one reads and writes while it boots: `guest`, which is built in, or a file.
    pub trace: String,
    /// Numbers of servers.
    pub servers: Vec<u32>,
    /// How often each is run.
    pub repeats: u32,
    /// A system disk of these servers.
    pub lu: Size,
    /// Page of the pools that copies and clones are in; clones of large pages are in pools of `array.page`.
    pub page: Size,
    /// So much of the trace's time between two commands passes.
    pub think_percent: u32,
    /// More or less, evenly.
    pub spread_percent: u32,
}

/// Above these something holds the servers up.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bottleneck {
    /// Mean response of a server.
    pub response: Time,
    /// Requests at a drive: more only wait.
    pub queue_per_spindle: f64,
    /// A queue grows faster than the work.
    pub utilisation_percent: f64,
    /// Of the high watermark.
    pub pending_percent: f64,
    /// A controller below this is idle.
    pub idle_percent: f64,
    /// So much more has the best-served server than the worst, where all ask alike.
    pub spread_percent: f64,
}

impl Bottleneck {
    fn check(&self, c: &mut Checks) {
        let hour = Time(Duration::from_secs(3600));
        c.range("bottleneck.response", self.response, Time(Duration::ZERO)..=hour);
        c.range("bottleneck.queue_per_spindle", self.queue_per_spindle, 0.0..=1e6);
        for (key, percent) in [
            ("utilisation_percent", self.utilisation_percent),
            ("pending_percent", self.pending_percent),
            ("idle_percent", self.idle_percent),
            ("spread_percent", self.spread_percent),
        ] {
            c.range(&format!("bottleneck.{key}"), percent, 0.0..=100.0);
        }
    }
}

impl ScenarioFile for Sanboot {
    const BUILT_IN: (&'static str, &'static str) =
        (include_str!("../../../scenarios/sanboot.toml"), "scenarios/sanboot.toml");
    const MEASURES: &'static [&'static str] = &[
        "boot.clones",
        "boot.grows",
        "boot.reads",
        "controller",
        "layouts",
        "port",
        "prediction.band",
        "prediction.between",
        "prediction.far",
        "prediction.held_out",
        "prediction.held_out_refused",
        "prediction.lost",
        "prediction.near",
        "prediction.whole",
        "random_read.crossing",
        "random_read.raid1",
        "random_read.raid5",
        "random_write.fall",
        "random_write.least",
        "sequential_mix.ninth",
        "sequential_mix.own",
        "sequential_read.least",
        "sequential_write.least",
        "spread.raid1",
        "spread.raid5",
        "takeover.gap",
        "takeover.moved",
        "takeover.others",
        "takeover.random",
        "takeover.sequential",
        "takeover.wrong",
    ];

    fn claims(&self) -> &Claims {
        &self.claims
    }

    fn check(&self, c: &mut Checks) {
        self.check_runs(c);
        self.check_hardware(c);
        self.takeover.check(c, SERVERS_MAX);
    }
}

impl Sanboot {
    /// The quick form.
    pub fn quick(self) -> Sanboot {
        let q = self.quick.clone();
        let run = Run {
            servers: q.servers,
            servers_beyond: q.servers_beyond,
            lost_servers: q.lost_servers,
            held_out_servers: q.held_out_servers,
            repeats: q.repeats,
            windows: q.windows,
            window_ios: q.window_ios,
            window_time: q.window_time,
            round_ios: q.round_ios,
            round_time: q.round_time,
            balance_windows: q.balance_windows,
            ..self.run
        };
        let boot = Boot { servers: q.boot_servers, repeats: q.boot_repeats, ..self.boot };
        Sanboot { run, boot, takeover: self.takeover.quick(), ..self }
    }

    /// In real time: scaled, and without what is modelled of servers, port and controller, because these are
    /// there.
    pub(super) fn real(mut self, quick: bool, scale: Option<f64>) -> Result<Sanboot, TomlFileError> {
        let form = self.real.clone();
        let scale = scale.unwrap_or(form.scale);
        let scaled = |size: Size| Size((size.0 as f64 * scale) as u64 >> 20 << 20);
        self.published.file = scaled(self.published.file);
        self.array.cache = scaled(self.array.cache);
        // One machine has one set of processors: a second controller would only take from the first.
        self.array.controllers = 1;
        self.controller.cores = 1;
        let c = &mut self.controller;
        for cost in [&mut c.command, &mut c.per_kib, &mut c.write, &mut c.miss, &mut self.host.io] {
            cost.0 = Duration::ZERO;
        }
        self.run = Run {
            servers: if quick { form.servers_quick } else { form.servers },
            servers_beyond: vec![],
            packed_to: 0,
            lost_servers: vec![],
            held_out_servers: vec![],
            repeats: form.repeats,
            windows: form.windows,
            window_ios: form.window_ios,
            window_time: form.window_time,
            round_ios: form.round_ios,
            round_time: form.round_time,
            rounds_max: form.rounds_max,
            balance_time: form.balance_time,
            balance_windows: form.windows,
            ..self.run
        };
        self.checked("scaled")
    }

    fn check_runs(&self, c: &mut Checks) {
        let (run, quick, real) = (&self.run, &self.quick, &self.real);
        for (key, servers, needed) in [
            ("run.servers", &run.servers, true),
            ("run.servers_beyond", &run.servers_beyond, false),
            ("run.lost_servers", &run.lost_servers, false),
            ("quick.lost_servers", &quick.lost_servers, false),
            ("run.held_out_servers", &run.held_out_servers, false),
            ("quick.held_out_servers", &quick.held_out_servers, false),
            ("quick.servers", &quick.servers, true),
            ("quick.servers_beyond", &quick.servers_beyond, false),
            ("real.servers", &real.servers, true),
            ("real.servers_quick", &real.servers_quick, true),
        ] {
            c.must(key, !(needed && servers.is_empty()), "name one number or more");
            c.must(key, servers.is_sorted_by(|a, b| a < b), "grow from one to the next");
            servers.iter().for_each(|n| c.range(key, *n, 1..=SERVERS_MAX));
        }
        for (key, servers) in
            [("boot.servers", &self.boot.servers), ("quick.boot_servers", &quick.boot_servers)]
        {
            c.must(key, servers.is_sorted_by(|a, b| a < b), "grow from one to the next");
            servers.iter().for_each(|n| c.range(key, *n, 1..=BOOT_SERVERS_MAX));
        }
        c.range("quick.boot_repeats", quick.boot_repeats, 1..=100);
        c.range("boot.repeats", self.boot.repeats, 1..=100);
        c.range("boot.think_percent", self.boot.think_percent, 0..=1000);
        c.range("boot.spread_percent", self.boot.spread_percent, 0..=100);
        c.range("run.outstanding", run.outstanding, 1..=64);
        c.range("run.packed_to", run.packed_to, 0..=SERVERS_MAX);
        c.range("run.streams", run.streams, 1..=run.outstanding);
        c.range("run.repeats", run.repeats, 1..=100);
        c.range("quick.repeats", quick.repeats, 1..=100);
        c.range("real.repeats", real.repeats, 1..=100);
        c.range("run.windows", run.windows, 2..=1000);
        c.range("quick.windows", quick.windows, 2..=1000);
        c.range("real.windows", real.windows, 2..=1000);
        c.range("run.balance_windows", run.balance_windows, 2..=1000);
        c.range("quick.balance_windows", quick.balance_windows, 2..=1000);
        c.range("run.rounds_max", run.rounds_max, 1..=1000);
        c.range("real.rounds_max", real.rounds_max, 1..=1000);
        c.share("real.scale", real.scale);
        for (key, ios) in [
            ("run.window_ios", run.window_ios),
            ("run.round_ios", run.round_ios),
            ("quick.window_ios", quick.window_ios),
            ("quick.round_ios", quick.round_ios),
            ("real.window_ios", real.window_ios),
            ("real.round_ios", real.round_ios),
        ] {
            c.range(key, ios, 0..=1_000_000_000);
        }
        self.bottleneck.check(c);
        for (key, time) in [
            ("run.window_time", run.window_time),
            ("run.round_time", run.round_time),
            ("run.balance_time", run.balance_time),
            ("quick.window_time", quick.window_time),
            ("quick.round_time", quick.round_time),
            ("real.window_time", real.window_time),
            ("real.round_time", real.round_time),
            ("real.balance_time", real.balance_time),
        ] {
            c.range(key, time, Time(Duration::from_millis(1))..=Time(Duration::from_secs(3600)));
        }
    }

    fn check_hardware(&self, c: &mut Checks) {
        let (p, a, controller) = (&self.published, &self.array, &self.controller);
        c.power_of_two("published.transfer", p.transfer, 4096..=128 << 10);
        c.range("array.lu", a.lu, Size(16 << 20)..=Size(DISK_BYTES_MAX));
        c.multiple("boot.lu", self.boot.lu, Size(1 << 20), 16 << 20..=DISK_BYTES_MAX);
        c.power_of_two("boot.page", self.boot.page, array::config::PAGE_BYTES);
        c.power_of_two("array.page", a.page, array::config::PAGE_BYTES);
        c.multiple("published.file", p.file, Size(1 << 20), 16 << 20..=DISK_BYTES_MAX);
        c.must("published.file", p.file <= a.lu, "be at most array.lu");
        c.multiple("array.stripe_unit", a.stripe_unit, Size(4096), 0..=1 << 20);
        c.multiple("internal.from", self.internal.from, Size(4096), 0..=DISK_BYTES_MAX);
        c.range("published.mix_read_percent", p.mix_read_percent, 0..=100);
        c.range("host.spread_percent", self.host.spread_percent, 0..=100);
        c.range("array.controllers", a.controllers, 1..=8);
        c.range("controller.cores", controller.cores, 1..=64);
        c.cache("array.cache", a.cache, Size(16 << 20)..=Size(64 << 30));
        c.must("port.fibre_channel_gbit", self.speed().is_some(), "be 1, 2, 4 or 8");
        for (key, cost) in [
            ("controller.command", controller.command),
            ("controller.per_kib", controller.per_kib),
            ("controller.write", controller.write),
            ("controller.miss", controller.miss),
            ("host.io", self.host.io),
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

    /// The link of a port.
    pub(super) fn link(&self) -> world_model::Link {
        world_model::Link::fibre_channel(self.speed().expect("checked when it was read"))
    }

    /// The inputs, and where they come from.
    pub(super) fn conditions(&self) -> Vec<Condition> {
        let size = |size: Size| format!("{} MiB", size.0 as f64 / f64::from(1 << 20));
        let time = |time: Time| format!("{} µs", time.0.as_nanos() as f64 / 1e3);
        let (c, a) = (&self.controller, &self.array);
        let all = [
            ("published.file", size(self.published.file), Source::Published),
            ("published.transfer", format!("{} bytes", self.published.transfer.0), Source::Published),
            ("published.mix_read_percent", self.published.mix_read_percent.to_string(), Source::Published),
            ("array.cache", size(a.cache), Source::Published),
            ("port.fibre_channel_gbit", self.port.fibre_channel_gbit.to_string(), Source::Published),
            ("run.outstanding", self.run.outstanding.to_string(), Source::Chosen),
            ("run.streams", self.run.streams.to_string(), Source::Chosen),
            ("array.drive", a.drive.clone(), Source::Chosen),
            ("array.lu", size(a.lu), Source::Chosen),
            ("array.lus_apart", a.lus_apart.to_string(), Source::Chosen),
            ("array.stripe_unit", size(a.stripe_unit), Source::Chosen),
            ("internal.drive", self.internal.drive.clone(), Source::Chosen),
            ("internal.from", size(self.internal.from), Source::Chosen),
            ("controller.cores", c.cores.to_string(), Source::Chosen),
            ("host.spread_percent", self.host.spread_percent.to_string(), Source::Chosen),
            ("controller.command", time(c.command), Source::Chosen),
            ("controller.per_kib", time(c.per_kib), Source::Chosen),
            ("controller.write", time(c.write), Source::Chosen),
            ("controller.miss", time(c.miss), Source::Chosen),
            ("host.io", time(self.host.io), Source::Calibrated),
            ("boot.page", size(self.boot.page), Source::Chosen),
            ("boot.lu", size(self.boot.lu), Source::Chosen),
            ("boot.think_percent", self.boot.think_percent.to_string(), Source::Chosen),
            ("boot.spread_percent", self.boot.spread_percent.to_string(), Source::Chosen),
            ("takeover.journal", size(self.takeover.journal), Source::Chosen),
            ("takeover.memory", time(self.takeover.memory), Source::Chosen),
            ("takeover.latency", time(self.takeover.latency), Source::Chosen),
            ("takeover.retry", time(self.takeover.retry), Source::Chosen),
        ];
        all.into_iter().map(|(name, value, source)| Condition { name: name.into(), value, source }).collect()
    }
}
