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

/// A run of a scenario.
#[derive(Clone, Debug)]
pub struct Recording {
    /// In the order of the scenario; those that were begun.
    pub(super) ran: Vec<Ran>,
    /// The LUs that stood for the volumes.
    pub(super) targets: Vec<String>,
    /// Whether the run was stopped.
    pub(super) stopped: bool,
}

impl Recording {
    /// Whether it ran on the LUs of `--target`.
    pub(super) fn is_target(&self) -> bool {
        !self.targets.is_empty()
    }
}
