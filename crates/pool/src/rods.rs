//! All RODs of a pool, and the pages that they hold.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The page of each index.
pub(crate) type RodPages = Rc<RefCell<Vec<Option<u32>>>>;

/// All RODs of a pool, for moving pages.
#[derive(Default)]
pub(crate) struct RodList {
    next: Cell<u64>,
    rods: RefCell<BTreeMap<u64, Listed>>,
}

/// A ROD of a pool.
pub(crate) struct Listed {
    pub(crate) pages: RodPages,
    pub(crate) keep: Keep,
    /// Commands that use it.
    pub(crate) users: Rc<Cell<u32>>,
}

/// What becomes of a ROD when the pool has no free page left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// It stays: a command is copying from it.
    Always,
    /// It is discarded for writes of hosts.
    WhileRoom,
}

impl RodList {
    pub(crate) fn enter(&self, rod: Listed) -> u64 {
        let number = self.next.replace(self.next.get() + 1);
        self.rods.borrow_mut().insert(number, rod);
        number
    }

    pub(crate) fn leave(&self, number: u64) {
        self.rods.borrow_mut().remove(&number);
    }

    /// Takes the oldest ROD out that may be discarded, and gives the pages that it held.
    pub(crate) fn discard_oldest(&self) -> Option<Vec<u32>> {
        let mut rods = self.rods.borrow_mut();
        let may_go = |rod: &Listed| rod.keep == Keep::WhileRoom && rod.users.get() == 0;
        let oldest = rods.iter().find(|(_, rod)| may_go(rod)).map(|(number, _)| *number)?;
        let pages = std::mem::take(&mut *rods.remove(&oldest)?.pages.borrow_mut());
        Some(pages.into_iter().flatten().collect())
    }

    /// The number of references from RODs to a page.
    pub(crate) fn count(&self, page: u32) -> u32 {
        let held = |rod: &RodPages| rod.borrow().iter().filter(|p| **p == Some(page)).count();
        self.rods.borrow().values().map(|rod| held(&rod.pages)).sum::<usize>() as u32
    }

    /// Replaces page `old` by `new` in all RODs. Returns the number of references.
    pub(crate) fn replace(&self, old: u32, new: u32) -> u32 {
        let mut count = 0;
        for rod in self.rods.borrow().values() {
            for slot in rod.pages.borrow_mut().iter_mut().filter(|p| **p == Some(old)) {
                *slot = Some(new);
                count += 1;
            }
        }
        count
    }
}
