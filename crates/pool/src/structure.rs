//! The current change of the set of groups, and the job that moves pages.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use world::sync::Permits;

use crate::area::Areas;
use crate::table::Table;

/// A new set of groups.
pub(crate) struct Change {
    pub(crate) table: Table,
    /// In table order.
    pub(crate) areas: Areas,
    /// The pages of the added group hold zeros.
    pub(crate) clean: bool,
}

/// The state of changes.
pub(crate) struct Structure {
    pub(crate) change: RefCell<Option<Rc<Change>>>,
    /// A commit has begun with the change: it cannot be withdrawn any more.
    taken: Cell<bool>,
    /// One change at a time.
    pub(crate) turn: Permits,
    /// The job that moves pages, if any.
    pub(crate) moving: Cell<Option<&'static str>>,
}

impl Default for Structure {
    fn default() -> Structure {
        Structure {
            change: RefCell::default(),
            taken: Cell::new(false),
            turn: Permits::new(1),
            moving: Cell::new(None),
        }
    }
}

impl Structure {
    /// A change waits for a commit from now on.
    pub(crate) fn want(&self, change: Change) {
        *self.change.borrow_mut() = Some(Rc::new(change));
        self.taken.set(false);
    }

    /// The change for a commit that begins.
    pub(crate) fn take(&self) -> Option<Rc<Change>> {
        let change = self.wanted();
        self.taken.set(change.is_some());
        change
    }

    /// Gives up the change, unless a commit has begun with it. Whether it was given up.
    pub(crate) fn withdraw(&self) -> bool {
        !self.taken.get() && self.change.borrow_mut().take().is_some()
    }

    /// The change that waits for a checkpoint, or is in the one being written.
    pub(crate) fn wanted(&self) -> Option<Rc<Change>> {
        self.change.borrow().clone()
    }
}

/// The right to move pages; released on drop.
pub(crate) struct Moving<'a>(pub(crate) &'a Structure);

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        self.0.moving.set(None);
    }
}
