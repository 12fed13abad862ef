//! What decides a claim: ends that a value must keep to.
//!
//! One rule for all: `at_least` and `at_most` hold at their own value, `above` and `below` do not.

use serde::{Deserialize, Serialize};

use crate::stats::Estimate;
use crate::words::plain;

/// Where the values that keep to a bound end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct End {
    pub value: f64,
    /// Whether the value itself is beyond it.
    pub strict: bool,
}

/// The values that a claim allows; an end that is missing is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    /// The least.
    pub lower: Option<End>,
    /// The most.
    pub upper: Option<End>,
}

/// How the values of an interval lie to a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lies {
    /// All of them keep to it.
    Within,
    /// None of them does.
    Beyond,
    /// Some do and some do not.
    Across,
}

impl Bound {
    /// That value or more.
    pub fn at_least(value: f64) -> Bound {
        Bound { lower: Some(End { value, strict: false }), upper: None }
    }

    /// That value or less.
    pub fn at_most(value: f64) -> Bound {
        Bound { lower: None, upper: Some(End { value, strict: false }) }
    }

    /// How an estimate lies. A value without an interval decides by itself, and of an interval without one
    /// end the other decides; a value that is not a number lies nowhere.
    pub fn lies(&self, estimate: &Estimate) -> Option<Lies> {
        let is_alone = estimate.low.is_infinite() && estimate.high.is_infinite();
        let (low, high) =
            if is_alone { (estimate.mean, estimate.mean) } else { (estimate.low, estimate.high) };
        if low.is_nan() || high.is_nan() {
            return None;
        }
        // Ordered from the bound's side: an interval is below the upper end when its high is, and beyond it
        // when its low is.
        let keeps_lower =
            |v: f64| self.lower.is_none_or(|end| if end.strict { v > end.value } else { v >= end.value });
        let keeps_upper =
            |v: f64| self.upper.is_none_or(|end| if end.strict { v < end.value } else { v <= end.value });
        Some(match () {
            () if keeps_lower(low) && keeps_upper(high) => Lies::Within,
            () if !keeps_lower(high) || !keeps_upper(low) => Lies::Beyond,
            () => Lies::Across,
        })
    }

    /// In words: "≥ 95 %", "< 100 %", "2 to 12 %", "none".
    pub fn words(&self, unit: &str) -> String {
        let with_unit = |v: f64| if unit.is_empty() { plain(v) } else { format!("{} {unit}", plain(v)) };
        match (self.lower, self.upper) {
            (Some(l), Some(u)) => format!("{} to {}", plain(l.value), with_unit(u.value)),
            (Some(End { value, strict }), None) => {
                format!("{} {}", if strict { ">" } else { "≥" }, with_unit(value))
            }
            (None, Some(End { value: 0.0, strict: false })) => "none".into(),
            (None, Some(End { value, strict })) => {
                format!("{} {}", if strict { "<" } else { "≤" }, with_unit(value))
            }
            (None, None) => "–".into(),
        }
    }
}
