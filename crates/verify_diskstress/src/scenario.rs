//! `diskstress.toml`: the patterns and the machine. An invalid file is refused with one line that names the
//! place.

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
    /// Processor time to move data.
    pub per_kib: Time,
    /// More or less time.
    pub spread_percent: u32,
}

/// What the two machines differ in.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// Who has how much.
    pub read_ahead: ReadAhead,
    /// Processor time of a transfer.
    pub io: Time,
}

/// Memory for reading ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadAhead {
    /// Shared by all files that are read.
    Memory(Size),
    /// Of each file, however many there are.
    Each(Size),
}

impl ReadAhead {
    /// Of one file of so many.
    pub fn chunk_bytes(self, files: u32) -> u64 {
        match self {
            ReadAhead::Memory(size) => size.0 / u64::from(files.max(1)),
            ReadAhead::Each(size) => size.0,
        }
    }
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
        "native",
        "other_drive.physical",
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
        c.multiple("machine.transfer", m.transfer, unit, 4096..=1 << 30);
        c.multiple("machine.command", m.command, unit, 4096..=1 << 30);
        c.multiple("machine.write_back", m.write_back, unit, 4096..=1 << 30);
        c.range("machine.cores", m.cores, 1..=1024);
        c.range("machine.spread_percent", m.spread_percent, 0..=100);
        for (key, kind) in [("physical", &self.physical), ("virtual", &self.virtualized)] {
            for files in [64, 32, 16, 8] {
                let chunk = Size(kind.read_ahead.chunk_bytes(files));
                c.multiple(&format!("{key}.read_ahead: chunk of {files} files"), chunk, unit, 4096..=1 << 30);
            }
        }
        c.share("real.scale", self.real.scale);
        c.range("real.memory_mb", self.real.memory_mb, 64..=u32::MAX);
    }
}
