//! Looking at many objects without standing in the way of hosts: a bounded part between two turns of the loop.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::time::Duration;

use world::World;

/// Work between two pauses: with about a microsecond for a unit, a quarter of a millisecond. A host's command waits for that at most.
const SLICE_UNITS: u32 = 256;
/// A turn of the loop comes between two slices: what hosts have sent is received and answered first.
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

    /// So much more was, or is about to be, done. No borrow of the controller's state may be held.
    pub(crate) async fn step(&mut self, units: u32) {
        self.done += units;
        if self.done >= SLICE_UNITS {
            self.done = 0;
            self.world.sleep(PAUSE).await;
        }
    }

    /// Lets go of a map of many: to free it at once takes as long as to look at it.
    pub(crate) async fn let_go<K: Ord, V>(&mut self, mut map: BTreeMap<K, V>) {
        while map.pop_first().is_some() {
            self.step(1).await;
        }
    }
}

/// The name behind this one, or the first. What is looked at in slices changes between them: a list of all names would be as long a stall as
/// what the slices are to avoid.
pub(crate) fn name_after<V>(map: &BTreeMap<String, V>, last: Option<&str>) -> Option<String> {
    let from = last.map_or(Bound::Unbounded, Bound::Excluded);
    map.range::<str, _>((from, Bound::Unbounded)).next().map(|(name, _)| name.clone())
}
