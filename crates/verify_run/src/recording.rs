//! Everything that was recorded: on each array its runs, and what was searched for.

use super::course::Course;
use super::search::Found;

/// What was recorded on one array.
#[derive(Clone, Debug)]
pub(super) struct Ran {
    pub(super) array: String,
    /// One for each repeat; where a count was searched for, with the largest.
    pub(super) courses: Vec<Course>,
    pub(super) found: Option<Found>,
}

/// A LU of `--target` as it was found.
#[derive(Clone, Debug)]
pub(super) struct FoundLu {
    /// Without secrets.
    pub(super) url: String,
    pub(super) len_bytes: u64,
    pub(super) read_only: bool,
}

/// A run of a scenario.
#[derive(Clone, Debug)]
pub struct Recording {
    /// In the order of the scenario; those that were begun.
    pub(super) ran: Vec<Ran>,
    /// The LUs of `--target` that stood for the volumes, in their order.
    pub(super) lus: Vec<FoundLu>,
    /// Whether the run was stopped, or ended early by a failure.
    pub(super) stopped: bool,
}

impl Recording {
    /// Whether it ran on the LUs of `--target`.
    pub(super) fn is_target(&self) -> bool {
        !self.lus.is_empty()
    }
}
