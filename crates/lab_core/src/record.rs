//! What a run leaves behind for machines: `results.json`, schema 1, the same of every verification.
//! `schema/results.json` describes it.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::claim::JudgedClaim;
use crate::inputs::Input;
use crate::report::{Doubt, Machine};
use crate::scope::Scope;
use crate::stats::{Estimate, mean};
use crate::sweep::SweepRecord;
use crate::text_file;
use crate::verdict::{Standing, Tally, exit_status, standing};

pub use crate::world::World;

/// The version of the schema.
pub const SCHEMA: u32 = 1;
/// The longest record that is read: a run of a million samples.
const BYTES_MAX: u64 = 256 << 20;

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct RunRecord {
    pub schema: u32,
    pub verification: String,
    /// Of masu.
    pub version: String,
    /// The commit that it was built from, where the build knows it.
    pub commit: Option<String>,
    pub world: World,
    /// The first seed.
    pub seed: u64,
    /// Share of the published sizes; none: at full size.
    pub scale: Option<f64>,
    /// How and on what it was run.
    pub environment: Environment,
    /// The scenario's values.
    pub inputs: Vec<Input>,
    /// Most important first.
    pub claims: Vec<JudgedClaim>,
    /// What was measured.
    pub metrics: Vec<Metric>,
    /// What became of it.
    pub verdict: RunVerdict,
    /// What it can show at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// The same with other values of the inputs, where that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepRecord>,
}

/// How and on what a run was done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Environment {
    /// When it ended, RFC 3339, UTC.
    pub generated: String,
    /// As it was typed.
    pub command: String,
    /// Whether it was the quick form.
    pub quick: bool,
    /// Whether the run was stopped before its end.
    pub stopped: bool,
    /// How often it was repeated.
    pub repeats: usize,
    pub machine: Machine,
    /// What makes the run doubtful.
    pub doubts: Vec<Doubt>,
}

/// A quantity that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Metric {
    /// Its name.
    pub id: String,
    pub unit: String,
    /// What tells it apart from others of its name: `{"pattern": "R1"}`.
    pub dimensions: BTreeMap<String, String>,
    /// Repeats, or windows of one run.
    pub samples: Vec<f64>,
}

impl Metric {
    /// One from its samples; those that are no number are left out.
    pub fn new(id: &str, unit: &str, dimensions: &[(&str, &str)], samples: Vec<f64>) -> Metric {
        let dimensions = dimensions.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Metric {
            id: id.into(),
            unit: unit.into(),
            dimensions: dimensions.collect(),
            samples: samples.into_iter().filter(|sample| sample.is_finite()).collect(),
        }
    }

    /// "mb_per_s: R1, virtual".
    pub fn name(&self) -> String {
        match self.dimensions.is_empty() {
            true => self.id.clone(),
            false => {
                format!("{}: {}", self.dimensions.values().cloned().collect::<Vec<_>>().join(", "), self.id)
            }
        }
    }

    /// The mean.
    pub fn estimate(&self) -> Option<Estimate> {
        (!self.samples.is_empty()).then(|| mean(&self.samples))
    }
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunVerdict {
    /// In a word.
    pub standing: Standing,
    /// The exit status of the run.
    pub exit_status: u8,
    /// How many claims there are of which verdict.
    pub tally: Tally,
    /// The question's answer in one sentence.
    pub answer: String,
}

impl RunVerdict {
    /// Of the claims of a run.
    pub fn of(claims: &[JudgedClaim], stopped: bool, answer: String) -> RunVerdict {
        RunVerdict {
            standing: standing(claims, stopped),
            exit_status: exit_status(claims, stopped),
            tally: Tally::of(claims),
            answer,
        }
    }
}

/// Why a record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// There is none.
    #[error("{path}: no such file")]
    Missing {
        /// The file.
        path: String,
    },
    /// It cannot be read.
    #[error("cannot read {path}: {cause}")]
    Read {
        /// The file.
        path: String,
        /// What the system said.
        cause: String,
    },
    /// It is something else.
    #[error("{path} is not a record of a run (schema {SCHEMA}): {cause}")]
    Syntax {
        /// The file.
        path: String,
        /// Where and why.
        cause: String,
    },
}

impl RunRecord {
    /// Reads a record.
    ///
    /// # Errors
    ///
    /// [`RecordError::Missing`] where nothing lies, which callers tell apart from what cannot be read.
    pub fn read(path: &Path) -> Result<RunRecord, RecordError> {
        let shown = path.display().to_string();
        let text = text(path)?;
        let record: RunRecord = serde_json::from_str(&text)
            .map_err(|e| RecordError::Syntax { path: shown.clone(), cause: e.to_string() })?;
        match record.schema {
            SCHEMA => Ok(record),
            other => Err(RecordError::Syntax { path: shown, cause: format!("schema {other}") }),
        }
    }
}

fn text(path: &Path) -> Result<String, RecordError> {
    use std::io::{ErrorKind, Read};
    let shown = path.display().to_string();
    let failed = |e: std::io::Error| match e.kind() {
        ErrorKind::NotFound => RecordError::Missing { path: shown.clone() },
        _ => RecordError::Read { path: shown.clone(), cause: e.to_string() },
    };
    let mut text = String::new();
    text_file::open_regular(path)
        .map_err(failed)?
        .take(BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(failed)?;
    Ok(text)
}
