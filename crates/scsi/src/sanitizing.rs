//! The sanitize state of a logical unit: while an operation runs or has failed, the medium is closed.

use std::cell::Cell;

use lu::LogicalDisk;
use world::sync::Signal;

use crate::error::CommandError;

/// The name of the record of a sanitize operation in progress.
pub(crate) const RECORD: &str = "sanitize";
pub(crate) const RECORD_RESTRICTED: &[u8] = &[1];
pub(crate) const RECORD_UNRESTRICTED: &[u8] = &[2];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Idle,
    Running {
        done: u16,
    },
    /// `restricted`: AUSE was 0, so only another SANITIZE ends the failure mode.
    Failed {
        restricted: bool,
    },
}

/// The sanitize state of the LU.
pub(crate) struct Sanitizing {
    pub(crate) state: Cell<State>,
    pub(crate) changed: Signal,
}

impl Sanitizing {
    /// The state after power on.
    pub(crate) fn load<D: LogicalDisk>(disk: &D) -> Sanitizing {
        let state = match disk.load_record(RECORD).as_deref() {
            Some([]) | None => State::Idle,
            Some(record) => State::Failed { restricted: record != RECORD_UNRESTRICTED },
        };
        Sanitizing { state: Cell::new(state), changed: Signal::default() }
    }

    /// Why the medium cannot be used now.
    pub(crate) fn check(&self) -> Result<(), CommandError> {
        match self.state.get() {
            State::Idle => Ok(()),
            State::Running { done } => Err(CommandError::SanitizeInProgress { done }),
            State::Failed { .. } => Err(CommandError::SanitizeFailed),
        }
    }

    /// Whether an operation runs.
    pub(crate) fn is_running(&self) -> bool {
        matches!(self.state.get(), State::Running { .. })
    }

    /// Changes the state and wakes the waiters.
    pub(crate) fn set(&self, state: State) {
        self.state.set(state);
        self.changed.wake_all();
    }
}
