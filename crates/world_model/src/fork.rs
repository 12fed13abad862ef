//! Images of all disks in the middle of a run, from which other models start.

use crate::disk::{Faults, Shared};
use crate::disk_spec::DiskSpec;
use crate::store::{Doubtful, Store};

/// The loss with which a model continues from an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Power failure: the fault model decides what of caches and operations in flight survives.
    Power,
    /// End of the process: the disks carry out submitted operations, and keep their caches.
    Process,
}

/// All disks of a model at one moment. Cheap: content is shared until it changes. May be sent to another
/// thread.
#[derive(Clone)]
pub struct DisksImage {
    pub(crate) disks: Vec<DiskImage>,
    /// The number of persistence points so far.
    pub(crate) points: u64,
}

impl DisksImage {
    /// Moves the content of each disk to one with the specification that `spec` returns for its name: content
    /// prepared on disks without timing is then used on modelled drives. Panics if the new one has another
    /// length.
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
