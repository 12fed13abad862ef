//! The findings of checks.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    Error,
    Warning,
}

/// One line of output; ordered by severity, then place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Finding {
    pub(super) severity: Severity,
    place: String,
    line: usize,
    text: String,
}

impl Finding {
    /// An error in a file (line 0: in the file as a whole).
    pub(super) fn error(place: &str, line: usize, text: impl Into<String>) -> Finding {
        Finding { severity: Severity::Error, place: place.to_owned(), line, text: text.into() }
    }

    /// A warning in a file.
    pub(super) fn warning(place: &str, line: usize, text: impl Into<String>) -> Finding {
        Finding { severity: Severity::Warning, place: place.to_owned(), line, text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        match self.line {
            0 => write!(f, "{severity}: {}: {}", self.place, self.text),
            line => write!(f, "{severity}: {}:{line}: {}", self.place, self.text),
        }
    }
}
