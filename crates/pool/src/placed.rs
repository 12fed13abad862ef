//! What is kept of a pool's placement to be shown: the heat of its classes, what was decided, what moved.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use crate::placement::{Class, Reason};

/// One class of a pool, in the last interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassHeat {
    /// Which.
    pub class: Class,
    /// Its pages, without those of groups that are being left.
    pub pages: u64,
    /// Pages that are used.
    pub used_pages: u64,
    /// Reads of its drives' pages; one of more than 64 KiB counts for each 64 KiB.
    pub reads: u64,
    /// Writes, counted the same way.
    pub writes: u64,
    /// Its share of all accesses, in thousandths.
    pub share_permille: u32,
    /// Accesses of its hottest page: those of the last interval, half of those before it, and so on.
    pub hottest: u32,
    /// Accesses of its coldest page that is used.
    pub coldest: u32,
    /// What a page of the next class must have to come here; 0 when there is none.
    pub threshold: u32,
}

/// What was decided between two classes at the end of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The number of the interval, from 1 on.
    pub interval: u64,
    /// The faster class.
    pub upper: Class,
    /// The slower one.
    pub lower: Class,
    /// Why.
    pub reason: Reason,
    /// Accesses of the hottest page of the slower class.
    pub hottest_below: u32,
    /// Accesses of the coldest page of the faster class.
    pub coldest_above: u32,
    /// What a page had to have.
    pub threshold: u32,
    /// Pages that were to go up.
    pub promote: u32,
    /// Pages that were to go down.
    pub demote: u32,
}

/// What moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// Pages that are now in a faster class.
    pub promoted: u64,
    /// Pages that are now in a slower one.
    pub demoted: u64,
    /// Bytes of both.
    pub bytes: u64,
}

/// What is known of a pool's heat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeatReport {
    /// Intervals that ended since the pool was opened.
    pub intervals: u64,
    /// The classes that it has, the fastest first, as the last interval left them.
    pub classes: Vec<ClassHeat>,
    /// All that moved since the pool was opened.
    pub placed: Placed,
    /// The last decisions, the newest first.
    pub decisions: Vec<Decision>,
}

/// What a pool keeps of its placement.
#[derive(Default)]
pub(crate) struct Placement {
    pub(crate) intervals: Cell<u64>,
    pub(crate) placed: Cell<Placed>,
    pub(crate) classes: RefCell<Vec<ClassHeat>>,
    pub(crate) decisions: RefCell<VecDeque<Decision>>,
}
