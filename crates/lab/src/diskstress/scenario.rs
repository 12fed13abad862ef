//! `diskstress.toml`: what is run, on which machine. A file that does not fit is refused with one line that names the place.

use std::path::Path;

use serde::Deserialize;

use lab_core::claim::Claims;
use lab_core::quantity::{Size, Time};
use lab_core::scenario::{ScenarioError, parse, text_of};

/// The scenario of `masu verify diskstress`, as built in.
const BUILT_IN: &str = include_str!("../../../../scenarios/diskstress.toml");
/// Where the built-in scenario lies in the repository.
const BUILT_IN_PATH: &str = "scenarios/diskstress.toml";

/// `diskstress.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name.
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

/// Everything that a claim can ask for.
const MEASURES: [&str; 9] = [
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

impl Scenario {
    /// The built-in one, or the file that replaces it, and its text.
    pub fn load(path: Option<&Path>) -> Result<(Scenario, String), ScenarioError> {
        let (text, path) = text_of(path, (BUILT_IN, BUILT_IN_PATH))?;
        Ok((Scenario::parse(&text, &path)?, text))
    }

    /// One from its text.
    pub fn parse(text: &str, path: &str) -> Result<Scenario, ScenarioError> {
        let scenario: Scenario = parse(text, path)?;
        scenario.check(path)?;
        Ok(scenario)
    }

    /// The quick form.
    pub fn quick(mut self) -> Scenario {
        self.run.repeats = self.quick.repeats;
        self
    }

    fn check(&self, path: &str) -> Result<(), ScenarioError> {
        let wrong = |key: &'static str, cause: &str| {
            Err(ScenarioError::Value { path: path.into(), key, cause: cause.into() })
        };
        for (key, repeats) in [
            ("run.repeats", self.run.repeats),
            ("quick.repeats", self.quick.repeats),
            ("real.repeats", self.real.repeats),
        ] {
            if !(1..=REPEATS_MAX).contains(&repeats) {
                return wrong(key, "is between 1 and 1000");
            }
        }
        if self.run.drives.is_empty() {
            return wrong("run.drives", "names no drive");
        }
        let m = &self.machine;
        let block = |size: Size| size.0 >= 4096 && size.0.is_multiple_of(4096) && size.0 <= 1 << 30;
        if ![m.transfer, m.command, m.write_back].into_iter().all(block) {
            return wrong("machine", "transfer, command and write_back are multiples of 4 KiB, up to 1 GiB");
        }
        if !(1..=1024).contains(&m.cores) || m.spread_percent > 100 {
            return wrong("machine", "cores are 1 to 1024, spread_percent at most 100");
        }
        for kind in [&self.physical, &self.virtualized] {
            let fits = [64, 32, 16, 8].map(|files| kind.read_ahead.chunk_bytes(files));
            if fits.iter().any(|chunk| !block(Size(*chunk))) {
                return wrong("read_ahead", "gives each file a multiple of 4 KiB, up to 1 GiB");
            }
        }
        if let Some(cause) = self.claims.fault(&MEASURES) {
            return wrong("claim", &cause);
        }
        match self.real.scale > 0.0 && self.real.scale <= 1.0 && self.real.memory_mb >= 64 {
            true => Ok(()),
            false => wrong("real", "scale is over 0 and at most 1, memory_mb 64 or more"),
        }
    }
}
