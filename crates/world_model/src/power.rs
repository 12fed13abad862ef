//! The power that the disks of a model share, and the points at which it may be cut.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Is called at every persistence point with its number.
type Watcher = Rc<dyn Fn(u64)>;

/// The power of all disks, and the points at which it may be cut.
pub(crate) struct Power {
    pub(crate) on: Cell<bool>,
    pub(crate) torn: Cell<bool>,
    pub(crate) points: Cell<u64>,
    pub(crate) cut_after: Cell<Option<u64>>,
    pub(crate) watcher: RefCell<Option<Watcher>>,
}

impl Default for Power {
    fn default() -> Power {
        Power {
            on: Cell::new(true),
            torn: Cell::default(),
            points: Cell::default(),
            cut_after: Cell::default(),
            watcher: RefCell::default(),
        }
    }
}

impl Power {
    pub(crate) fn is_on(&self) -> bool {
        self.on.get()
    }

    /// Passes a persistence point. Returns whether the power is still on.
    pub(crate) fn pass_point(&self) -> bool {
        let points = self.points.get() + 1;
        self.points.set(points);
        let watcher = self.watcher.borrow().clone();
        if let Some(watcher) = watcher {
            watcher(points);
        }
        if self.cut_after.get() == Some(points) {
            self.on.set(false);
        }
        self.on.get()
    }
}
