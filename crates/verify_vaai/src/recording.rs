//! A run as it was recorded, and as it was judged.

use lab_core::claim::JudgedClaim;
use lab_core::stats::Estimate;

use super::measures::{Faults, WRITTEN, measure, total_wrong};
use super::record::Record;
use super::scenario::Vaai as Scenario;

/// What was measured, and of what.
pub struct Recording {
    pub(super) record: Record,
    pub(super) faults: Faults,
    /// What was verified.
    pub(super) place: String,
    /// What it calls itself.
    pub(super) product: String,
    pub(super) is_embedded: bool,
    /// Whether it was in the model world.
    pub(super) is_model: bool,
    /// Whether the run was stopped.
    pub(super) stopped: bool,
}

/// A run whose claims were judged.
pub(super) struct Judgement<'a> {
    pub(super) vaai: &'a Scenario,
    pub(super) run: &'a Recording,
    pub(super) claims: &'a [JudgedClaim],
}

impl Judgement<'_> {
    /// An estimate, whether or not a claim asks for it.
    pub(super) fn estimate(&self, id: &str) -> Option<Estimate> {
        measure(id, &self.run.record, &self.run.faults)
    }

    /// Whether data or locks were wrong.
    pub(super) fn is_wrong(&self) -> bool {
        let faults = &self.run.faults;
        faults.blocks.wrong > 0
            || !faults.owners.is_empty()
            || !faults.daily.is_empty()
            || WRITTEN.iter().any(|test| total_wrong(&self.run.record, test) > Some(0.0))
    }
}
