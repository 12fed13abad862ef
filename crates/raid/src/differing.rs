//! Where mirrors may differ: reads go to the preferred one there (`preferred`), so that a block that was read
//! once does not change; elsewhere to any.
//!
//! ```text
//!   opened after an unclean end ──> anywhere         a write failed on all mirrors ──> in its regions
//!   resync                      ──> equal below where it is ──(its end, all flushed)──> nowhere
//! ```
//!
//! In memory only: the labels say that mirrors may differ, not where.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use crate::inner::Inner;
use crate::regions::Regions;

/// Where mirrors may differ, in addresses of the drives' data. Nothing of it counts while reads are not
/// pinned at all.
#[derive(Default)]
pub(crate) struct Differing {
    /// `None`: anywhere.
    regions: RefCell<Option<Regions>>,
    /// Below it the resync that runs has made them equal.
    equal_to: Cell<u64>,
}

impl Inner {
    /// Whether a range is read from the preferred mirror only.
    pub(crate) fn is_pinned(&self, from: u64, len: u64) -> bool {
        self.pinned.get()
            && from + len > self.differing_in.equal_to.get()
            && self.is_equal_for(from, len) < len
    }

    /// The length from `from` on, at most `max`, in which mirrors are equal without a resync.
    pub(crate) fn is_equal_for(&self, from: u64, max: u64) -> u64 {
        let regions = self.differing_in.regions.borrow();
        regions.as_ref().map_or(0, |regions| regions.clean_from(from, max))
    }

    /// Mirrors may hold different parts of what was written to a range; `None`: anywhere. A resync that runs
    /// does not count.
    pub(crate) fn begin_to_differ(&self, range: Option<Range<u64>>) {
        if !self.mirrored() {
            return;
        }
        let mut regions = self.differing_in.regions.borrow_mut();
        if !self.pinned.replace(true) {
            *regions = Some(Regions::new(self.data_len, self.stripe_unit_bytes.into()));
        }
        match (&mut *regions, range) {
            (Some(regions), Some(range)) => regions.add(&range),
            (_, _) => *regions = None,
        }
        self.differing_in.equal_to.set(0);
        self.differ_again.set(true);
    }

    /// A resync begins.
    pub(crate) fn begin_to_equal(&self) {
        self.differing_in.equal_to.set(0);
        self.differ_again.set(false);
    }

    /// A resync has come to `at`.
    pub(crate) fn equal_below(&self, at: u64) {
        if !self.differ_again.get() {
            self.differing_in.equal_to.set(at);
        }
    }

    /// A resync has ended, and all drives were flushed.
    pub(crate) fn are_equal(&self) {
        if !self.differ_again.get() {
            self.pinned.set(false);
            *self.differing_in.regions.borrow_mut() = None;
        }
    }
}
