//! What is known of drives that were pulled: they may be there again.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use world::{DriveError, Instant};

/// Of the drives of a group.
#[derive(Default)]
pub(super) struct Pulled {
    /// Positions whose drives were not there when they were asked, and have not come back.
    absent: RefCell<BTreeSet<u32>>,
    /// Somebody looks for them now.
    pub(super) looking: Cell<bool>,
    /// When that was begun the last time.
    pub(super) looked: Cell<Instant>,
}

impl Pulled {
    /// What a drive answered that was asked whether it is there. One that fails and is there was not pulled: it stays out.
    pub(super) fn note(&self, position: u32, error: &DriveError) {
        if matches!(error, DriveError::Gone { .. }) {
            self.absent.borrow_mut().insert(position);
        }
    }

    pub(super) fn was_absent(&self, position: u32) -> bool {
        self.absent.borrow().contains(&position)
    }

    /// It has its place again.
    pub(super) fn forget(&self, position: u32) {
        self.absent.borrow_mut().remove(&position);
    }
}
