//! `diskstress.toml`: the patterns and the machine. An invalid file is refused with one line that names the
//! place.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::Deserialize;

use lab_core::checks::Checks;
use lab_core::claim::Claims;
use lab_core::quantity::{Size, Time};
use lab_core::scenario::ScenarioFile;

/// `diskstress.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Scenario {
    pub name: String,
    /// The question that the report answers.
    pub question: String,
    /// How the model is run.
    pub run: Run,
    /// What is different in the quick form.
    pub quick: Quick,
    /// What both machines have.
    pub machine: Machine,
    /// The load runs on it.
    pub physical: Kind,
    /// The load runs in a guest of it.
    #[serde(rename = "virtual")]
    pub virtualized: Kind,
    /// The same load on a LU.
    pub lu: Lu,
    /// On this machine.
    pub real: Real,
    /// What is claimed.
    #[serde(rename = "claim")]
    pub claims: Claims,
}

/// How the model is run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// How often.
    pub repeats: u32,
    /// Drives of the catalogue; the first one is judged.
    pub drives: Vec<String>,
    /// Where the first file begins.
    pub place: Size,
    /// Or up to so much further in.
    pub place_spread: Size,
}

/// The quick form.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quick {
    /// How often.
    pub repeats: u32,
}

/// The server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Processors.
    pub cores: u32,
    /// One read or write of a thread.
    pub transfer: Size,
    /// The largest that a drive is given.
    pub command: Size,
    /// Of a file, gathered before it is written.
    pub write_back: Size,
    /// Of the adapter that both machines read through.
    pub read_ahead: ReadAhead,
    /// Processor time to move data.
    pub per_kib: Time,
    /// More or less time.
    pub spread_percent: u32,
}

/// What the two machines differ in.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// Commands that the adapter takes at a time.
    pub outstanding: u32,
    /// Processor time of a transfer in the operating system that runs the load.
    pub io: Time,
    /// How often the guest is left for a transfer.
    pub exits: u32,
    /// Processor time of leaving and entering it.
    pub exit: Time,
    /// Processor time of the layer below the guest, for a transfer.
    pub layer: Time,
}

impl Kind {
    /// Processor time of a transfer, through everything.
    pub fn transfer_ns(&self) -> u64 {
        let ns = |time: Time| time.0.as_nanos() as u64;
        ns(self.io) + u64::from(self.exits) * ns(self.exit) + ns(self.layer)
    }
}

/// Read-ahead of each sequential stream: its window doubles with every read up to the largest, as long as the
/// windows of all streams fit the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadAhead {
    /// For all streams together.
    pub memory: Size,
    /// The window of a stream that has just been found.
    pub first: Size,
    /// The largest.
    pub most: Size,
}

impl ReadAhead {
    /// What the next read of one of so many streams fetches, after so many reads: whole transfers. Where not
    /// even one of each stream fits, what was read ahead is gone before it is asked for, so that nothing is.
    pub fn window_bytes(&self, streams: u32, reads: u32, transfer: u64) -> u64 {
        let share = self.memory.0 / u64::from(streams.max(1));
        let grown = self.first.0.saturating_mul(1 << reads.min(30));
        (grown.min(self.most.0).min(share) / transfer * transfer).max(transfer)
    }
}

/// A LU of masu on the same drives.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lu {
    /// Of the array.
    pub cache: Size,
    /// Commands of this size and larger pass it by.
    pub direct: Size,
    /// Share of the files' size.
    pub scale: f64,
    /// Power cuts in each repeat, of each pattern of writes.
    pub cuts: u32,
}

/// On this machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Real {
    /// Share of the files' size.
    pub scale: f64,
    /// How often.
    pub repeats: u32,
    /// The guest's.
    pub memory_mb: u32,
}

/// Of a processor's time, for a transfer or a KiB.
const COST: RangeInclusive<Time> = Time(Duration::ZERO)..=Time(Duration::from_secs(1));
const REPEATS_MAX: u32 = 1000;

impl Scenario {
    /// The quick form.
    pub fn quick(mut self) -> Scenario {
        self.run.repeats = self.quick.repeats;
        self
    }
}

impl ScenarioFile for Scenario {
    const BUILT_IN: (&'static str, &'static str) =
        (include_str!("../../../scenarios/diskstress.toml"), "scenarios/diskstress.toml");
    const MEASURES: &'static [&'static str] = &[
        "content",
        "lu.content",
        "lu.drive_reads",
        "lu.drive_writes",
        "lu.lost",
        "lu.order",
        "lu.reads",
        "lu.rise",
        "lu.writes",
        "native",
        "other_drive.physical",
        "other_drive.reads",
        "other_drive.virtual",
        "processor",
        "reads",
        "rise.physical",
        "rise.virtual",
        "writes",
    ];

    fn claims(&self) -> &Claims {
        &self.claims
    }

    fn check(&self, c: &mut Checks) {
        c.range("run.repeats", self.run.repeats, 1..=REPEATS_MAX);
        c.range("quick.repeats", self.quick.repeats, 1..=REPEATS_MAX);
        c.range("real.repeats", self.real.repeats, 1..=REPEATS_MAX);
        c.must("run.drives", !self.run.drives.is_empty(), "name one drive or more");
        let (m, unit) = (&self.machine, Size(4096));
        c.multiple("run.place", self.run.place, unit, 0..=1 << 40);
        c.multiple("run.place_spread", self.run.place_spread, unit, 0..=1 << 40);
        c.multiple("machine.transfer", m.transfer, unit, 4096..=1 << 30);
        c.multiple("machine.command", m.command, unit, 4096..=1 << 30);
        c.multiple("machine.write_back", m.write_back, unit, 4096..=1 << 30);
        c.range("machine.cores", m.cores, 1..=1024);
        c.range("machine.per_kib", m.per_kib, COST);
        c.range("machine.spread_percent", m.spread_percent, 0..=100);
        let ahead = &m.read_ahead;
        for (key, size) in [("memory", ahead.memory), ("first", ahead.first), ("most", ahead.most)] {
            c.multiple(&format!("machine.read_ahead.{key}"), size, unit, 4096..=1 << 36);
        }
        c.must("machine.read_ahead.most", ahead.first.0 <= ahead.most.0, "must be at least the first window");
        for (key, kind) in [("physical", &self.physical), ("virtual", &self.virtualized)] {
            c.range(&format!("{key}.outstanding"), kind.outstanding, 1..=65_536);
            c.range(&format!("{key}.exits"), kind.exits, 0..=1000);
            for (cost, time) in [("io", kind.io), ("exit", kind.exit), ("layer", kind.layer)] {
                c.range(&format!("{key}.{cost}"), time, COST);
            }
        }
        c.multiple("lu.cache", self.lu.cache, Size(1 << 20), 32 << 20..=1 << 36);
        c.multiple("lu.direct", self.lu.direct, Size(4096), 4096..=self.lu.cache.0 / 32 * 3);
        c.share("lu.scale", self.lu.scale);
        c.range("lu.cuts", self.lu.cuts, 1..=REPEATS_MAX);
        c.share("real.scale", self.real.scale);
        c.range("real.memory_mb", self.real.memory_mb, 64..=1 << 20);
    }
}
