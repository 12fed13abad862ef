//! Images of all disks in the midst of a run, from which other models begin.

use crate::disk::{Faults, Shared};
use crate::disk_spec::DiskSpec;
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

impl DisksImage {
    /// Puts the content of each disk on one that `spec` says, by its name: what was made ready on disks that cost no time is then used on
    /// drives that do. Panics where the new one is of another length.
    pub fn moved_to(mut self, spec: impl Fn(&str) -> DiskSpec) -> DisksImage {
        for disk in &mut self.disks {
            let new = spec(&disk.name);
            assert_eq!(
                new.len_bytes, disk.spec.len_bytes,
                "disk {} is moved to one of its length",
                disk.name
            );
            disk.store.move_to(new.cache_bytes, new.keeps_content);
            disk.spec = new;
        }
        self
    }
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
