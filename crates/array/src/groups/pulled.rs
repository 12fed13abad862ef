//! Drives that were pulled and may return.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use world::{DriveError, Instant};

/// The pulled drives of a group.
#[derive(Default)]
pub(super) struct Pulled {
    /// Positions whose drives were absent when probed and have not returned.
    absent: RefCell<BTreeSet<u32>>,
    /// Whether a search for them is running.
    pub(super) looking: Cell<bool>,
    /// When that search began.
    pub(super) looked: Cell<Instant>,
}

impl Pulled {
    /// Records the answer of a probe. A drive that is present and fails was not pulled: it is not taken back.
    pub(super) fn note(&self, position: u32, error: &DriveError) {
        if matches!(error, DriveError::Gone { .. }) {
            self.absent.borrow_mut().insert(position);
        }
    }

    pub(super) fn was_absent(&self, position: u32) -> bool {
        self.absent.borrow().contains(&position)
    }

    /// The drive has its position again.
    pub(super) fn forget(&self, position: u32) {
        self.absent.borrow_mut().remove(&position);
    }
}
