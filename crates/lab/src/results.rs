//! `results.json`: the answer for a machine.

use std::collections::BTreeMap;

use serde::Serialize;

/// What a run found. Field names are part of the interface.
#[derive(Clone, Debug, Serialize)]
pub struct Results {
    /// The scenario's name.
    pub scenario: String,
    /// `real` or `model`.
    pub world: &'static str,
    /// The seed.
    pub seed: u64,
    /// Every check.
    pub checks: Vec<Check>,
    /// What was measured, sample by sample.
    pub series: BTreeMap<String, Vec<f64>>,
}

/// One check.
#[derive(Clone, Debug, Serialize)]
pub struct Check {
    /// Its name.
    pub name: String,
    /// Unit of the numbers.
    pub unit: String,
    /// The value in the literature.
    pub published: Option<f64>,
    /// The bound that decides.
    pub expected: Option<f64>,
    /// The estimate; `null` when nothing was measured.
    pub measured: Option<f64>,
    /// Lower end of its interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Whether it held.
    pub pass: bool,
}

impl Results {
    /// Whether every check held.
    pub fn pass(&self) -> bool {
        self.checks.iter().all(|c| c.pass)
    }
}
