//! `sanboot.toml`: what is run, on which hardware. A file that does not fit is refused with one line that names the place.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;
use world_model::FibreChannel;

use super::results::{Condition, Source};
use lab_core::claim::Claims;
use lab_core::quantity::{Size, Time};
use lab_core::scenario::{ScenarioError, parse, text_of};

/// The scenario of `masu verify sanboot`, as built in.
const SANBOOT: &str = include_str!("../../../../scenarios/sanboot.toml");
/// Where the built-in scenario lies in the repository.
const SANBOOT_PATH: &str = "scenarios/sanboot.toml";

/// Servers that an array of this scenario has LUs for: twice the published eight, for predictions to be held against.
pub const SERVERS_MAX: u32 = 16;

/// Everything that a claim can ask for.
const MEASURES: [&str; 18] = [
    "controller",
    "layouts",
    "port",
    "prediction.band",
    "prediction.far",
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
];

/// `sanboot.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sanboot {
    /// Its name.
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
    /// The array.
    pub array: Array,
    /// Its ports.
    pub port: Port,
    /// What commands cost its controllers.
    pub controller: Controller,
    /// The servers.
    pub host: Host,
    /// The disk in a server.
    pub internal: Internal,
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
    /// Besides, up to so many servers together on as few groups as they ever have to: what predictions learn a shared group from.
    pub packed_to: u32,
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
    /// With random writes beside reads: how often it is looked at whether the cache is in balance, and the shortest window.
    pub balance_time: Time,
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
pub struct Controller {
    /// Its cores.
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

fn wrong<T>(path: &str, key: &'static str, cause: &str) -> Result<T, ScenarioError> {
    Err(ScenarioError::Value { path: path.into(), key, cause: cause.into() })
}

impl Sanboot {
    /// The built-in one, or the file that replaces it, and its text.
    pub fn load(path: Option<&Path>) -> Result<(Sanboot, String), ScenarioError> {
        let (text, path) = text_of(path, (SANBOOT, SANBOOT_PATH))?;
        Ok((Sanboot::parse(&text, &path)?, text))
    }

    /// One from its text.
    pub fn parse(text: &str, path: &str) -> Result<Sanboot, ScenarioError> {
        let sanboot: Sanboot = parse(text, path)?;
        sanboot.check(path)?;
        Ok(sanboot)
    }

    /// The quick form.
    pub fn quick(self) -> Sanboot {
        let q = self.quick.clone();
        let run = Run {
            servers: q.servers,
            servers_beyond: q.servers_beyond,
            repeats: q.repeats,
            windows: q.windows,
            window_ios: q.window_ios,
            window_time: q.window_time,
            round_ios: q.round_ios,
            round_time: q.round_time,
            ..self.run
        };
        Sanboot { run, ..self }
    }

    /// In real time: scaled, and without what is modelled of servers, port and controller, because these are there.
    pub(super) fn real(mut self, quick: bool, scale: Option<f64>) -> Result<Sanboot, ScenarioError> {
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
            repeats: form.repeats,
            windows: form.windows,
            window_ios: form.window_ios,
            window_time: form.window_time,
            round_ios: form.round_ios,
            round_time: form.round_time,
            rounds_max: form.rounds_max,
            balance_time: form.balance_time,
            ..self.run
        };
        self.check("scaled")?;
        Ok(self)
    }

    pub(super) fn check(&self, path: &str) -> Result<(), ScenarioError> {
        if let Some(cause) = self.claims.fault(&MEASURES) {
            return wrong(path, "claim", &cause);
        }
        let counts = [&self.run.servers, &self.quick.servers, &self.real.servers, &self.real.servers_quick];
        let all = counts.into_iter().chain([&self.run.servers_beyond, &self.quick.servers_beyond]);
        if counts.iter().any(|list| list.is_empty())
            || all.clone().flatten().any(|n| !(1..=SERVERS_MAX).contains(n))
        {
            return wrong(path, "run.servers", "are numbers from 1 to 16, at least one");
        }
        if all.clone().any(|list| list.is_sorted_by(|a, b| a < b).eq(&false)) {
            return wrong(path, "run.servers", "grow from one to the next");
        }
        if !(1..=64).contains(&self.run.outstanding) {
            return wrong(path, "run.outstanding", "is between 1 and 64");
        }
        if !(1..=self.run.outstanding).contains(&self.run.streams) {
            return wrong(path, "run.streams", "is between 1 and run.outstanding");
        }
        if !(1..=100).contains(&self.run.repeats) || !(1..=100).contains(&self.quick.repeats) {
            return wrong(path, "run.repeats", "are between 1 and 100");
        }
        if !(2..=1000).contains(&self.run.windows) || !(2..=1000).contains(&self.quick.windows) {
            return wrong(path, "run.windows", "are between 2 and 1000");
        }
        if !(1..=1000).contains(&self.run.rounds_max) || !(1..=1000).contains(&self.real.rounds_max) {
            return wrong(path, "run.rounds_max", "is between 1 and 1000");
        }
        if !(1..=100).contains(&self.real.repeats) || !(2..=1000).contains(&self.real.windows) {
            return wrong(path, "real", "repeats are between 1 and 100, windows between 2 and 1000");
        }
        if !(self.real.scale > 0.0 && self.real.scale <= 1.0) {
            return wrong(path, "real.scale", "is over 0 and at most 1");
        }
        let times = [
            &self.run.window_time,
            &self.run.round_time,
            &self.run.balance_time,
            &self.quick.window_time,
            &self.quick.round_time,
            &self.real.window_time,
            &self.real.round_time,
            &self.real.balance_time,
        ];
        if times.iter().any(|t| t.0 < Duration::from_millis(1) || t.0 > Duration::from_secs(3600)) {
            return wrong(path, "run", "windows and rounds are between 1 ms and an hour");
        }
        self.check_hardware(path)
    }

    fn check_hardware(&self, path: &str) -> Result<(), ScenarioError> {
        let transfer = self.published.transfer.0;
        if !(4096..=128 << 10).contains(&transfer) || !transfer.is_power_of_two() {
            return wrong(path, "published.transfer", "is a power of two from 4 KiB to 128 KiB");
        }
        let file = self.published.file.0;
        if file < 16 << 20 || !file.is_multiple_of(1 << 20) || file > self.array.lu.0 {
            return wrong(path, "published.file", "is whole MiB, 16 at least, and not longer than a LU");
        }
        if self.array.stripe_unit.0 > 1 << 20 || !self.array.stripe_unit.0.is_multiple_of(4096) {
            return wrong(path, "array.stripe_unit", "is whole 4 KiB, at most 1 MiB");
        }
        if !self.internal.from.0.is_multiple_of(4096) {
            return wrong(path, "internal.from", "is whole 4 KiB");
        }
        if self.published.mix_read_percent > 100 || self.host.spread_percent > 100 {
            return wrong(path, "published.mix_read_percent", "and host.spread_percent are at most 100");
        }
        if !(1..=8).contains(&self.array.controllers) || !(1..=64).contains(&self.controller.cores) {
            return wrong(path, "array.controllers", "are 1 to 8, of 1 to 64 cores");
        }
        if !(16 << 20..=64 << 30).contains(&self.array.cache.0) {
            return wrong(path, "array.cache", "is between 16 MiB and 64 GiB");
        }
        if self.speed().is_none() {
            return wrong(path, "port.fibre_channel_gbit", "is 1, 2, 4 or 8");
        }
        let c = &self.controller;
        if [&c.command, &c.per_kib, &c.write, &c.miss, &self.host.io]
            .iter()
            .any(|t| t.0 > Duration::from_secs(1))
        {
            return wrong(path, "controller", "costs, and those of a host, are at most 1 s each");
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
            ("controller.command", time(c.command), Source::Calibrated),
            ("controller.per_kib", time(c.per_kib), Source::Calibrated),
            ("controller.write", time(c.write), Source::Calibrated),
            ("controller.miss", time(c.miss), Source::Calibrated),
            ("host.io", time(self.host.io), Source::Calibrated),
        ];
        all.into_iter().map(|(name, value, source)| Condition { name: name.into(), value, source }).collect()
    }
}
