//! Totals of the volumes and records of a pool, updated with every change: with ten thousand volumes, a sum
//! over all takes as long as many reads, and a change needs several.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::layout::record_size;
use crate::map::LEAF_LEN;
use crate::volume_state::State;

/// Sums over all volumes and records, and the volumes by name.
#[derive(Default, Debug, PartialEq, Eq)]
pub(crate) struct Totals {
    names: RefCell<BTreeMap<String, u32>>,
    /// The sizes of all volumes; a few of the largest exceed 64 bits.
    subscribed_bytes: Cell<u128>,
    /// The leaves of all maps, mapped or not.
    leaves: Cell<u64>,
    /// The size of the records in a checkpoint.
    records_bytes: Cell<u64>,
    page_bytes: u64,
}

impl Totals {
    pub(crate) fn of(
        page_bytes: u64,
        volumes: &BTreeMap<u32, Rc<State>>,
        records: &BTreeMap<String, Rc<[u8]>>,
    ) -> Totals {
        let totals = Totals { page_bytes, ..Totals::default() };
        volumes.values().for_each(|volume| totals.add(volume));
        records.iter().for_each(|(key, bytes)| totals.record_saved(key, None, Some(bytes)));
        totals
    }

    /// The number of the volume of this name, complete or not.
    pub(crate) fn id_of(&self, name: &str) -> Option<u32> {
        self.names.borrow().get(name).copied()
    }

    pub(crate) fn subscribed_bytes(&self) -> u64 {
        u64::try_from(self.subscribed_bytes.get()).unwrap_or(u64::MAX)
    }

    /// The leaves of all maps if a volume of `old` bytes gets `new` bytes.
    pub(crate) fn leaves_with(&self, old: u64, new: u64) -> u64 {
        self.leaves.get() - self.leaves_of(old) + self.leaves_of(new)
    }

    pub(crate) fn records_bytes(&self) -> u64 {
        self.records_bytes.get()
    }

    pub(crate) fn add(&self, volume: &State) {
        self.names.borrow_mut().insert(volume.name.clone(), volume.id);
        self.resize(0, volume.len_bytes.get());
    }

    pub(crate) fn remove(&self, volume: &State) {
        self.names.borrow_mut().remove(&volume.name);
        self.resize(volume.len_bytes.get(), 0);
    }

    pub(crate) fn resize(&self, old: u64, new: u64) {
        self.subscribed_bytes.set(self.subscribed_bytes.get() - u128::from(old) + u128::from(new));
        self.leaves.set(self.leaves_with(old, new));
    }

    /// A record was changed, added or removed.
    pub(crate) fn record_saved(&self, key: &str, old: Option<&[u8]>, new: Option<&[u8]>) {
        let size = |bytes: Option<&[u8]>| bytes.map_or(0, |bytes| record_size(key, bytes));
        self.records_bytes.set(self.records_bytes.get() - size(old) + size(new));
    }

    fn leaves_of(&self, len_bytes: u64) -> u64 {
        len_bytes.div_ceil(self.page_bytes).div_ceil(LEAF_LEN as u64)
    }
}
