//! A member: the drive at a position of a group.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use world::{Drive, DriveCounts, Silence};

use crate::regions::Regions;

/// The state of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// In sync and in use.
    Active,
    /// No drive was found for this position.
    Missing,
    /// The drive missed writes while it was away; it is not used until it is rebuilt.
    Stale,
    /// The drive failed while the group was in use, and was dropped.
    Failed,
    /// The drive is being rebuilt.
    Rebuilding,
}

/// Status snapshot of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct MemberStatus {
    /// Its place.
    pub position: u32,
    /// The drive's name, if there is a drive.
    pub drive: Option<String>,
    pub state: MemberState,
    /// Why it was dropped, if it was.
    pub cause: Option<String>,
    /// Counters of the drive since it was opened.
    pub counts: DriveCounts,
    /// Failed operations of the drives at this position since the group was opened: failed reads, and errors
    /// for which a drive was dropped.
    pub errors: u64,
    /// Its unresponsive operations.
    pub silence: Silence,
    /// Whether it was dropped because it was unresponsive; it may return.
    pub dropped_silent: bool,
    /// Whether it was dropped because it was gone; a pulled drive may return.
    pub dropped_gone: bool,
    /// The 99th percentile of the latency of its reads and writes in the last minute; `None` if there were
    /// few.
    pub latency_p99: Option<Duration>,
}

/// A position of the group.
pub(crate) struct Member {
    pub(crate) drive: RefCell<Option<Drive>>,
    pub(crate) state: Cell<MemberState>,
    pub(crate) cause: RefCell<Option<String>>,
    /// The tag of the current drive: see `Label::tags`.
    pub(crate) tag: Cell<u64>,
    /// The ranges that changed since it was dropped, if known.
    pub(crate) missed: RefCell<Option<Regions>>,
    /// It was dropped because it was unresponsive.
    pub(crate) silent: Cell<bool>,
    /// It was dropped because it was gone.
    pub(crate) gone: Cell<bool>,
    /// A label was read from its drive: not every drive keeps content (modelled drives of the laboratory).
    pub(crate) has_kept_label: Cell<bool>,
    /// Failed operations of its drives.
    pub(crate) errors: Cell<u64>,
    /// Reads in flight, to choose the least loaded mirror.
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
            has_kept_label: Cell::new(false),
            errors: Cell::new(0),
            reads_in_flight: Cell::new(0),
        }
    }

    /// The drive, if it is in sync.
    pub(crate) fn active(&self) -> Option<Drive> {
        match self.state.get() {
            MemberState::Active => self.drive.borrow().clone(),
            _ => None,
        }
    }

    /// The drive, if it is being rebuilt.
    pub(crate) fn rebuilding(&self) -> Option<Drive> {
        match self.state.get() {
            MemberState::Rebuilding => self.drive.borrow().clone(),
            _ => None,
        }
    }

    /// The drive, if it is active or being rebuilt.
    pub(crate) fn taking_part(&self) -> Option<Drive> {
        self.active().or_else(|| self.rebuilding())
    }

    pub(crate) fn count_error(&self) {
        self.errors.set(self.errors.get() + 1);
    }

    /// Whether its drive is unresponsive now, so that other drives are read first.
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
