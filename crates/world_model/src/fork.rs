//! Images of all disks in the midst of a run, from which other models begin.

use crate::disk::{DiskSpec, Faults, Shared};
use crate::store::{Doubtful, Store};

/// What is lost where a model goes on from an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// The power: caches, and what was in flight, are kept or lost as the fault model draws it.
    Power,
    /// The process: the disks carry out what was submitted, and keep their caches.
    Process,
}

/// All disks of a model at one moment. Cheap: content is shared with the disks until they change it. May go to another thread.
#[derive(Clone)]
pub struct DisksImage {
    pub(crate) disks: Vec<DiskImage>,
    /// How many persistence points had been passed.
    pub(crate) points: u64,
}

#[derive(Clone)]
pub(crate) struct DiskImage {
    pub(crate) name: String,
    pub(crate) spec: DiskSpec,
    pub(crate) store: Store,
    pub(crate) faults: Faults,
    pub(crate) in_flight: Vec<Doubtful>,
}

impl DiskImage {
    pub(crate) fn of(disk: &Shared) -> DiskImage {
        DiskImage {
            name: disk.name.clone(),
            spec: disk.spec.clone(),
            store: disk.store.borrow().clone(),
            faults: disk.faults.borrow().clone(),
            in_flight: disk.ops.borrow().writes(),
        }
    }
}
