//! What an inspection finds.

use std::fmt;

/// Further findings are only counted: a map that makes no sense would fill a terminal for hours.
const FINDINGS_MAX: usize = 10_000;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Where.
    pub place: String,
    /// What.
    pub text: String,
    /// A power cut leaves this, too, and opening the pool puts it right.
    pub harmless: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let note = if self.harmless { " (a power cut leaves this; opening puts it right)" } else { "" };
        write!(f, "{}: {}{note}", self.place, self.text)
    }
}

/// Findings as they come.
#[derive(Default)]
pub(super) struct Report {
    findings: Vec<Finding>,
    more: usize,
    /// What comes now is about a copy that the pool does not count on.
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
            let text = format!("{} more findings", self.more);
            self.findings.push(Finding { place: "check".to_owned(), text, harmless: false });
        }
        self.findings
    }
}
