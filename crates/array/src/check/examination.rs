//! Findings and progress of an examination.

use std::fmt;

/// A deviation from the expected state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The object.
    pub place: String,
    /// What is wrong with it.
    pub text: String,
    /// A power failure can leave this, and starting the array repairs it.
    pub harmless: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// The result of an examination.
#[derive(Clone, Debug, Default)]
pub struct Examination {
    /// All findings, from the drives up.
    pub findings: Vec<Finding>,
    /// How many drives were read.
    pub drives: usize,
    /// How many groups could be opened.
    pub groups: usize,
    /// How many pools could be opened.
    pub pools: usize,
    /// How many volumes are in them.
    pub volumes: usize,
    /// Bytes that were read and compared.
    pub compared_bytes: u64,
}

impl Examination {
    /// Whether there is damage that a start does not repair.
    pub fn is_clean(&self) -> bool {
        self.findings.iter().all(|f| f.harmless)
    }

    pub(super) fn damage(&mut self, place: impl Into<String>, text: impl Into<String>) {
        self.findings.push(Finding { place: place.into(), text: text.into(), harmless: false });
    }

    pub(super) fn harmless(&mut self, place: impl Into<String>, text: impl Into<String>) {
        self.findings.push(Finding { place: place.into(), text: text.into(), harmless: true });
    }
}

/// The progress of an examination.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Progress {
    /// The current step.
    pub what: String,
    /// Completed bytes of the step, and its total; both 0 if unknown.
    pub done_bytes: u64,
    pub total_bytes: u64,
}

/// Receives the progress.
pub(super) type Tell<'a> = &'a mut dyn FnMut(&Progress);
