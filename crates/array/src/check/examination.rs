//! What an examination saw, and how far it is.

use std::fmt;

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where.
    pub place: String,
    /// What.
    pub text: String,
    /// A power cut leaves this, too, and starting the array puts it right.
    pub harmless: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)
    }
}

/// What an examination saw.
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
    /// Bytes of drives that were read and compared.
    pub compared_bytes: u64,
}

impl Examination {
    /// Whether anything is wrong that starting the array does not put right.
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

/// How far an examination is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is examined now.
    pub what: String,
    /// Bytes that are done of it, and all of them; both 0 where nobody counts.
    pub done_bytes: u64,
    /// All bytes.
    pub total_bytes: u64,
}

/// Who is told how far the examination is.
pub(super) type Tell<'a> = &'a mut dyn FnMut(&Progress);
