//! One drive in its place in a group.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use world::{Drive, DriveCounts, Silence};

use crate::regions::Regions;

/// What a drive does in its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It holds all its data and serves.
    Active,
    /// No drive was given for this position.
    Missing,
    /// The drive missed writes while it was away; it is left out until it is rebuilt.
    Stale,
    /// The drive failed while the group was in use; it was dropped.
    Failed,
    /// It is being filled with its data.
    Rebuilding,
}

/// A member as a person sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Its place.
    pub position: u32,
    /// The drive's name, when there is one.
    pub drive: Option<String>,
    /// What it does.
    pub state: MemberState,
    /// Why it was dropped, when it was.
    pub cause: Option<String>,
    /// How often the drive was used since it was opened.
    pub counts: DriveCounts,
    /// Operations of the drives in this place that failed, since the group was opened: a read that could not be done, or what a drive was
    /// dropped for.
    pub errors: u64,
    /// What of it is silent.
    pub silence: Silence,
    /// Whether it was dropped because it did not answer: it may come back.
    pub dropped_silent: bool,
    /// Whether it was dropped because it was gone: where it was pulled, it may come back.
    pub dropped_gone: bool,
    /// What 99 of 100 of its reads and writes of the last minute did not exceed; none where there were few.
    pub latency_p99: Option<Duration>,
}

/// A place in the group.
pub(crate) struct Member {
    pub(crate) drive: RefCell<Option<Drive>>,
    pub(crate) state: Cell<MemberState>,
    pub(crate) cause: RefCell<Option<String>>,
    /// Which of the drives that had the place this is: see `Label::tags`.
    pub(crate) tag: Cell<u64>,
    /// What changed since it was dropped, while that is known.
    pub(crate) missed: RefCell<Option<Regions>>,
    /// It was dropped because it did not answer.
    pub(crate) silent: Cell<bool>,
    /// It was dropped because it was gone.
    pub(crate) gone: Cell<bool>,
    /// Operations of its drives that failed.
    pub(crate) errors: Cell<u64>,
    /// Reads in flight, for choosing the least loaded mirror.
    pub(crate) reads_in_flight: Cell<u32>,
}

impl Member {
    pub(crate) fn new(drive: Option<Drive>, state: MemberState) -> Member {
        assert!(drive.is_some() || state == MemberState::Missing, "only a missing member has no drive");
        Member {
            drive: RefCell::new(drive),
            state: Cell::new(state),
            cause: RefCell::default(),
            tag: Cell::new(0),
            missed: RefCell::default(),
            silent: Cell::new(false),
            gone: Cell::new(false),
            errors: Cell::new(0),
            reads_in_flight: Cell::new(0),
        }
    }

    /// The drive, while it has all its data.
    pub(crate) fn active(&self) -> Option<Drive> {
        match self.state.get() {
            MemberState::Active => self.drive.borrow().clone(),
            _ => None,
        }
    }

    /// The drive, while it is being filled.
    pub(crate) fn rebuilding(&self) -> Option<Drive> {
        match self.state.get() {
            MemberState::Rebuilding => self.drive.borrow().clone(),
            _ => None,
        }
    }

    /// The drive, while it takes part: active or being filled.
    pub(crate) fn taking_part(&self) -> Option<Drive> {
        self.active().or_else(|| self.rebuilding())
    }

    pub(crate) fn count_error(&self) {
        self.errors.set(self.errors.get() + 1);
    }

    /// Whether its drive does not answer now, so that others are asked first.
    pub(crate) fn is_slow(&self) -> bool {
        self.drive.borrow().as_ref().is_some_and(|drive| drive.silence().slow)
    }

    pub(crate) fn status(&self, position: u32) -> MemberStatus {
        let drive = self.drive.borrow();
        MemberStatus {
            position,
            drive: drive.as_ref().map(|d| d.info().name.clone()),
            state: self.state.get(),
            cause: self.cause.borrow().clone(),
            counts: drive.as_ref().map(Drive::counts).unwrap_or_default(),
            silence: drive.as_ref().map(Drive::silence).unwrap_or_default(),
            errors: self.errors.get(),
            dropped_silent: self.silent.get() && self.state.get() == MemberState::Failed,
            dropped_gone: self.gone.get() && self.state.get() == MemberState::Failed,
            latency_p99: drive.as_ref().and_then(Drive::latency_p99),
        }
    }
}
