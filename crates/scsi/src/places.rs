//! Which logical unit is at each LUN of a view, and since when: a command that arrived before was sent to
//! another one, or to none.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use crate::arrival::Arrival;
use crate::request::Lun;

struct Place {
    /// The last logical unit there ([`crate::Identity::key`]).
    key: u64,
    since: u64,
    /// It has gone.
    is_empty: bool,
}

/// The LUNs that a view has or had.
#[derive(Default)]
pub(crate) struct Places {
    all: RefCell<BTreeMap<Lun, Place>>,
    /// The last change of any: all that a command compares otherwise.
    latest: Cell<u64>,
}

impl Places {
    /// A logical unit is there, on whichever controller; nothing changes if it was before. Returns whether
    /// the host knew another one there.
    pub(crate) fn put(&self, lun: Lun, key: u64) -> bool {
        let mut places = self.all.borrow_mut();
        let before = places.get(&lun);
        if before.is_some_and(|place| place.key == key && !place.is_empty) {
            return false;
        }
        let is_other = before.is_some_and(|place| place.key != key);
        let since = Arrival::event();
        self.latest.set(since);
        places.insert(lun, Place { key, since, is_empty: false });
        is_other
    }

    /// There is none any more.
    pub(crate) fn clear(&self, lun: Lun) {
        if let Some(place) = self.all.borrow_mut().get_mut(&lun) {
            place.is_empty = true;
        }
    }

    /// Whether what is there came after the command.
    pub(crate) fn is_newer(&self, lun: Lun, arrival: Arrival) -> bool {
        arrival.is_before(self.latest.get())
            && self.all.borrow().get(&lun).is_some_and(|place| arrival.is_before(place.since))
    }
}
