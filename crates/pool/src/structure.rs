//! The change of the set of groups that is under way, and who moves pages.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use world::sync::Permits;

use crate::area::Areas;
use crate::table::Table;

/// A set of groups that is to be.
pub(crate) struct Change {
    pub(crate) table: Table,
    /// In the order of the table.
    pub(crate) areas: Areas,
    /// The pages of the group that comes hold zeros.
    pub(crate) clean: bool,
}

/// What is being changed.
pub(crate) struct Structure {
    pub(crate) change: RefCell<Option<Rc<Change>>>,
    /// One change at a time.
    pub(crate) turn: Permits,
    /// Pages are being moved from group to group, and by what.
    pub(crate) moving: Cell<Option<&'static str>>,
}

impl Default for Structure {
    fn default() -> Structure {
        Structure { change: RefCell::default(), turn: Permits::new(1), moving: Cell::new(None) }
    }
}

impl Structure {
    /// The change that waits for a checkpoint, or is in the one that is being written.
    pub(crate) fn wanted(&self) -> Option<Rc<Change>> {
        self.change.borrow().clone()
    }
}

/// The right to move pages; it ends when dropped.
pub(crate) struct Moving<'a>(pub(crate) &'a Structure);

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        self.0.moving.set(None);
    }
}
