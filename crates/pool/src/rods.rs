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
    rods: RefCell<BTreeMap<u64, (RodPages, Keep)>>,
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
    pub(crate) fn enter(&self, pages: RodPages, keep: Keep) -> u64 {
        let number = self.next.replace(self.next.get() + 1);
        self.rods.borrow_mut().insert(number, (pages, keep));
        number
    }

    pub(crate) fn leave(&self, number: u64) {
        self.rods.borrow_mut().remove(&number);
    }

    /// Takes the oldest ROD out that may be discarded, and gives the pages that it held.
    pub(crate) fn discard_oldest(&self) -> Option<Vec<u32>> {
        let mut rods = self.rods.borrow_mut();
        let oldest =
            rods.iter().find(|(_, (_, keep))| *keep == Keep::WhileRoom).map(|(number, _)| *number)?;
        let (pages, _) = rods.remove(&oldest)?;
        let pages = std::mem::take(&mut *pages.borrow_mut());
        Some(pages.into_iter().flatten().collect())
    }

    /// The number of references from RODs to a page.
    pub(crate) fn count(&self, page: u32) -> u32 {
        let held = |rod: &RodPages| rod.borrow().iter().filter(|p| **p == Some(page)).count();
        self.rods.borrow().values().map(|(rod, _)| held(rod)).sum::<usize>() as u32
    }

    /// Replaces page `old` by `new` in all RODs. Returns the number of references.
    pub(crate) fn replace(&self, old: u32, new: u32) -> u32 {
        let mut count = 0;
        for (rod, _) in self.rods.borrow().values() {
            for slot in rod.borrow_mut().iter_mut().filter(|p| **p == Some(old)) {
                *slot = Some(new);
                count += 1;
            }
        }
        count
    }
}
