//! What a sweep leaves behind in `results.json`: `sweep`.

use serde::{Deserialize, Serialize};

use crate::bound::Bound;
use crate::claim::About;
use crate::verdict::{Counts, Verdict};

/// A sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepRecord {
    /// Points over all values that the published text leaves open.
    pub together: usize,
    /// Points over all values, those that it contradicts included.
    pub beyond: usize,
    /// Points with another value of one input.
    pub alone: usize,
    /// Points that were left out, and the first reason.
    pub refused: usize,
    /// The first.
    pub refusal: Option<String>,
    /// Whether it was stopped before its end.
    pub stopped: bool,
    /// Which inputs were varied.
    pub ranges: Vec<RangeRecord>,
    /// Of the claims that emerge, in the scenario's order.
    pub claims: Vec<ClaimRecord>,
}

/// An input that was varied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct RangeRecord {
    pub input: String,
    /// What the scenario has.
    pub own: String,
    /// "1GiB to 8GiB".
    pub values: String,
    pub why: String,
    /// What of the published text contradicts some of its values.
    pub against: Option<String>,
}

/// In how many points a claim holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShareRecord {
    /// By verdict.
    pub counts: Counts,
    /// Share of the judged points in which it is held; none where none was judged.
    pub held_percent: Option<f64>,
    /// The least estimate of all points.
    pub least: Option<f64>,
    /// The greatest.
    pub most: Option<f64>,
}

/// What became of a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct ClaimRecord {
    pub id: String,
    pub name: String,
    pub about: About,
    pub unit: String,
    pub bound: Option<Bound>,
    /// As the scenario has it, in the form of the sweep.
    pub verdict: Option<Verdict>,
    pub estimate: Option<f64>,
    /// Over the values that the published text leaves open.
    pub together: ShareRecord,
    /// Over all values; none where it contradicts none.
    pub beyond: Option<ShareRecord>,
    /// The inputs that decide whether it holds, most important first; none where nothing stands out.
    pub decided_by: Vec<DeciderRecord>,
    /// Where one input alone gives another verdict than the scenario.
    pub alone: Vec<AloneRecord>,
}

/// An input that decides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct DeciderRecord {
    pub input: String,
    /// Of the variation, which it explains alone.
    pub share_percent: f64,
    /// With which values it holds better: "more", "less", one of them; none where it is neither.
    pub better: Option<String>,
}

/// A claim with another value of one input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct AloneRecord {
    pub input: String,
    pub value: String,
    pub verdict: Verdict,
    pub estimate: Option<f64>,
    /// What of the published text contradicts the value.
    pub against: Option<String>,
}
