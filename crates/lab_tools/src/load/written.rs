//! Loads that were written for other programs: what of them maps, and what does not.

use super::job::Job;

/// The longest file that is read: a thousand times a usual one.
pub(super) const FILE_BYTES_MAX: usize = 4 << 20;

/// What a file of another program says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    /// Its jobs, in its order.
    pub jobs: Vec<Job>,
    /// How long they are measured.
    pub seconds: Option<f64>,
    /// How long they run before.
    pub warm_up_seconds: Option<f64>,
    /// What does not map, line by line.
    pub left_out: Vec<LeftOut>,
}

/// A line that does not map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOut {
    /// From 1.
    pub line: usize,
    /// What stands there.
    pub text: String,
    /// Why it has no effect here, or what is done instead.
    pub why: String,
}

/// Texts of messages are not longer than this.
const TEXT_CHARS_MAX: usize = 80;

impl LeftOut {
    pub(super) fn new(line: usize, text: &str, why: &str) -> LeftOut {
        let text: String = text.trim().chars().filter(|c| !c.is_control()).take(TEXT_CHARS_MAX).collect();
        LeftOut { line, text, why: why.to_owned() }
    }
}

impl std::fmt::Display for LeftOut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}: {}", self.line, self.text, self.why)
    }
}

/// Why a file cannot be used.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum WrittenError {
    /// Its length.
    #[error("is longer than {FILE_BYTES_MAX} bytes")]
    TooLong,
    /// Too many of something.
    #[error("line {line}: more than {most} {what}")]
    TooMany {
        /// From 1.
        line: usize,
        what: &'static str,
        /// The limit.
        most: usize,
    },
    #[error("line {line}: {cause}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong.
        cause: String,
    },
    /// Nothing in it can be run.
    #[error("missing {0}")]
    Nothing(&'static str),
}

impl WrittenError {
    pub(super) fn line(line: usize, cause: impl std::fmt::Display) -> WrittenError {
        WrittenError::Line { line, cause: cause.to_string() }
    }
}

/// Hands each line to `read`, with its number from 1.
pub(super) fn each_line(
    text: &str,
    mut read: impl FnMut(usize, &str) -> Result<(), WrittenError>,
) -> Result<(), WrittenError> {
    if text.len() > FILE_BYTES_MAX {
        return Err(WrittenError::TooLong);
    }
    text.lines().zip(1..).try_for_each(|(line, number)| read(number, line))
}
