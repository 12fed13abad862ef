//! The state of a volume, shared by all its handles.

use std::cell::{Cell, RefCell};

use block::RangeLocks;
use world::sync::Signal;

use crate::map::Map;

/// When a volume allocates its space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provisioning {
    /// On first write.
    Thin,
    /// At creation. (Pages shared with a clone are allocated again when either is written.)
    Thick,
}

/// The state of a volume, shared by all its handles.
pub(crate) struct State {
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) len_bytes: Cell<u64>,
    pub(crate) provisioning: Provisioning,
    /// It is being created.
    pub(crate) unfinished: Cell<bool>,
    pub(crate) deleted: Cell<bool>,
    pub(crate) map: RefCell<Map>,
    /// Locks on indices of the map: a change of the map is exclusive, and writes to these indices wait.
    pub(crate) locks: RangeLocks,
    /// Writes in place in flight.
    pub(crate) writers: Cell<u64>,
    pub(crate) drained: Signal,
}

impl State {
    pub(crate) fn new(id: u32, name: String, len_bytes: u64, provisioning: Provisioning, map: Map) -> State {
        State {
            id,
            name,
            len_bytes: Cell::new(len_bytes),
            provisioning,
            unfinished: Cell::new(false),
            deleted: Cell::new(false),
            map: RefCell::new(map),
            locks: RangeLocks::default(),
            writers: Cell::new(0),
            drained: Signal::default(),
        }
    }
}
