//! Passes over many objects without delaying hosts: a bounded slice of work between two turns of the loop.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use world::World;

/// Work between two pauses: at about a microsecond per unit, a quarter of a millisecond. That is the longest
/// delay of a host's command.
const SLICE_UNITS: u32 = 256;
/// Between two slices the loop turns: it receives and answers what hosts have sent.
const PAUSE: Duration = Duration::from_micros(100);

/// Counts work, and pauses when a slice is full.
pub(crate) struct Slices {
    world: World,
    done: u32,
}

impl Slices {
    pub(crate) fn new(world: &World) -> Slices {
        Slices { world: world.clone(), done: 0 }
    }

    /// Counts work that was, or is about to be, done. The caller must not hold a borrow of the controller's
    /// state.
    pub(crate) async fn step(&mut self, units: u32) {
        self.done += units;
        if self.done >= SLICE_UNITS {
            self.done = 0;
            self.world.sleep(PAUSE).await;
        }
    }

    /// Frees a large map in slices: freeing takes as long as reading.
    pub(crate) async fn let_go<K: Ord, V>(&mut self, mut map: BTreeMap<K, V>) {
        while map.pop_first().is_some() {
            self.step(1).await;
        }
    }
}

/// The name after `last`, or the first one. The map may change between slices, and a list of all names would
/// itself be a long stall.
pub(crate) fn key_after<K: Ord + Clone, V>(map: &BTreeMap<K, V>, last: Option<&K>) -> Option<K> {
    let from = last.map_or(Bound::Unbounded, Bound::Excluded);
    map.range((from, Bound::Unbounded)).next().map(|(key, _)| key.clone())
}
