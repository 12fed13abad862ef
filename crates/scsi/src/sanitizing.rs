//! Whether a logical unit is being sanitized, or failed to be: then its medium is closed.

use std::cell::Cell;

use lu::LogicalDisk;
use world::sync::Signal;

use crate::error::CommandError;

/// The record of a sanitize operation that was begun and not ended.
pub(crate) const RECORD: &str = "sanitize";
pub(crate) const RECORD_RESTRICTED: &[u8] = &[1];
pub(crate) const RECORD_UNRESTRICTED: &[u8] = &[2];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Idle,
    Running {
        done: u16,
    },
    /// `restricted`: AUSE was 0, so only another SANITIZE leads out.
    Failed {
        restricted: bool,
    },
}

/// Where the LU stands.
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

    /// Changes the state; whoever waits for it looks again.
    pub(crate) fn set(&self, state: State) {
        self.state.set(state);
        self.changed.wake_all();
    }
}
