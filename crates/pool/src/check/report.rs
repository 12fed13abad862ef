//! The findings of an inspection.

use std::fmt;

/// Further findings are only counted: an invalid map would fill a terminal for hours.
const FINDINGS_MAX: usize = 10_000;

/// A deviation from the expected state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The object.
    pub place: String,
    /// What is wrong with it.
    pub text: String,
    /// A power failure can leave this, and opening the pool repairs it.
    pub harmless: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let note = if self.harmless { " (left by a power failure; opening the pool repairs it)" } else { "" };
        write!(f, "{}: {}{note}", self.place, self.text)
    }
}

/// Collects findings.
#[derive(Default)]
pub(super) struct Report {
    findings: Vec<Finding>,
    more: usize,
    /// The next findings are about a copy that is not in force.
    pub(super) behind: bool,
}

impl Report {
    pub(super) fn damage(&mut self, place: &str, text: impl Into<String>) {
        self.add(place, text.into(), false);
    }

    pub(super) fn harmless(&mut self, place: &str, text: impl Into<String>) {
        self.add(place, text.into(), true);
    }

    pub(super) fn add(&mut self, place: &str, text: String, harmless: bool) {
        if self.findings.len() == FINDINGS_MAX {
            self.more += 1;
        } else {
            let harmless = harmless || self.behind;
            self.findings.push(Finding { place: place.to_owned(), text, harmless });
        }
    }

    pub(super) fn finish(mut self) -> Vec<Finding> {
        if self.more > 0 {
            let text = format!("{} more findings not shown", self.more);
            self.findings.push(Finding { place: "check".to_owned(), text, harmless: false });
        }
        self.findings
    }
}
