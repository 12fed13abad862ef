//! Compares two runs: for every common metric, the ratio of the second to the first.
//!
//! ```text
//!   results.json of A ──> metrics ──┐
//!   results.json of B ──> metrics ──┴─> judge (ratio, interval, verdict) ──> terminal, report
//! ```

mod judge;
mod metrics;
mod report;

pub use judge::{Compared, Verdict};
pub use metrics::CompareError;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use lab_core::outputs::Folder;

use metrics::Run;

/// Two runs, compared.
pub struct Comparison {
    /// The common metrics, the largest difference first.
    pub both: Vec<Compared>,
    /// Metrics that only the first has.
    pub only_a: Vec<String>,
    /// Metrics that only the second has.
    pub only_b: Vec<String>,
    /// The properties in which the runs differ: scenario, world, form, scale; and units, whose metrics are
    /// not compared.
    pub apart: Vec<String>,
    /// The values of their scenarios in which they differ.
    pub inputs: Vec<String>,
    a: Run,
    b: Run,
}

impl Comparison {
    /// Compares two runs: folders with results.json, or such files.
    pub fn of(a: &Path, b: &Path) -> Result<Comparison, CompareError> {
        let (a, b) = (metrics::read(a)?, metrics::read(b)?);
        let empty = BTreeMap::new();
        let (ma, mb) = if a.is_like(&b) { (&a.metrics, &b.metrics) } else { (&empty, &empty) };
        let mut both: Vec<Compared> = ma
            .iter()
            .filter(|(name, _)| a.units_apart(&b, name).is_none())
            .filter_map(|(name, samples)| Some(judge::compared(name, samples, mb.get(name)?)))
            .collect();
        both.sort_by(judge::most_first);
        if both.is_empty() {
            return Err(CompareError::NothingInCommon { a: a.name(), b: b.name() });
        }
        let only = |of: &Run, other: &Run| -> Vec<String> {
            of.metrics.keys().filter(|name| !other.metrics.contains_key(*name)).cloned().collect()
        };
        let (only_a, only_b) = (only(&a, &b), only(&b, &a));
        let (mut apart, inputs) = (a.apart(&b), a.inputs_apart(&b));
        apart.extend(ma.keys().filter_map(|name| a.units_apart(&b, name)));
        Ok(Comparison { both, only_a, only_b, apart, inputs, a, b })
    }

    /// The number of metrics with this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.both.iter().filter(|one| one.verdict == verdict).count()
    }

    /// What both runs are, as far as known.
    pub fn runs(&self) -> [String; 2] {
        [self.a.words(), self.b.words()]
    }

    /// One sentence.
    pub fn answer(&self) -> String {
        report::answer(self)
    }

    /// What makes the answer doubtful.
    pub fn doubts(&self) -> Vec<String> {
        report::doubts(self).into_iter().map(|doubt| doubt.text).collect()
    }

    /// Writes report.html, results.json and ratios.csv. Gives the page.
    pub fn write(&self, out: &Folder, command: &str) -> Result<PathBuf> {
        report::write(self, out.path(), command)?;
        Ok(out.path().join("report.html"))
    }
}
