//! The state of a pool's placement for the status: heat of the classes, decisions, moves.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use crate::placement::{Class, Reason};

/// A class of a pool, in the last interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct ClassHeat {
    /// Fast, capacity or archive.
    pub class: Class,
    /// Its pages, without those of groups that are being evacuated.
    pub pages: u64,
    pub used_pages: u64,
    /// Page reads; a read of more than 64 KiB counts once per 64 KiB.
    pub reads: u64,
    /// Page writes, counted the same way.
    pub writes: u64,
    /// Its share of all accesses, in thousandths.
    pub share_permille: u32,
    /// Heat of its hottest page: the accesses of the last interval, half of those of the one before, and so
    /// on.
    pub hottest: u32,
    /// Heat of its coldest used page.
    pub coldest: u32,
    /// The heat that a page of the next class needs to come here; 0 if there is none.
    pub threshold: u32,
}

/// The decision for two classes at the end of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Decision {
    /// The number of the interval, from 1 on.
    pub interval: u64,
    /// The faster class.
    pub upper: Class,
    /// The slower one.
    pub lower: Class,
    pub reason: Reason,
    /// Heat of the hottest page of the slower class.
    pub hottest_below: u32,
    /// Heat of the coldest page of the faster class.
    pub coldest_above: u32,
    /// The heat that a page needed.
    pub threshold: u32,
    /// Pages to promote.
    pub promote: u32,
    /// Pages to demote.
    pub demote: u32,
}

/// The moved pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// Pages promoted to a faster class.
    pub promoted: u64,
    /// Pages demoted to a slower class.
    pub demoted: u64,
    /// Bytes of both.
    pub bytes: u64,
}

/// The heat of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeatReport {
    /// Intervals that ended since the pool was opened.
    pub intervals: u64,
    /// Its classes, the fastest first, as of the last interval.
    pub classes: Vec<ClassHeat>,
    /// All moves since the pool was opened.
    pub placed: Placed,
    /// The last decisions, the newest first.
    pub decisions: Vec<Decision>,
}

/// The state of placement that a pool keeps.
#[derive(Default)]
pub(crate) struct Placement {
    pub(crate) intervals: Cell<u64>,
    pub(crate) placed: Cell<Placed>,
    pub(crate) classes: RefCell<Vec<ClassHeat>>,
    pub(crate) decisions: RefCell<VecDeque<Decision>>,
}
