//! Drives that say that something is done and have not done it. Data have no checksums, so no array can survive this: the shadow must
//! find it.

use std::time::Duration;

use world::{Rng, World};
use world_model::Disk;

use super::Fault;

/// How many writes a drive loses: more than the first four of a life, which are of labels; those have two copies and are written twice when a
/// group is opened.
const LOST_WRITES: u32 = 8;
/// A drive loses writes within this time: 20 ms, a hundred operations.
const LOSES_AFTER_NS_MAX: u64 = 20_000_000;

/// Has a drive of a group lie in this life, if that is the fault. Writes are lost after a while: the first one goes to the journal of a group with
/// parity, where its loss does no harm unless the power is cut next.
pub(crate) fn begin_later(fault: Fault, world: &World, disk: &Disk, rng: &mut Rng) {
    disk.set_flush_lies(fault == Fault::FlushLies);
    if fault == Fault::LostWrite {
        let (clock, disk, after) = (world.clone(), disk.clone(), rng.u64(..LOSES_AFTER_NS_MAX));
        world.spawn(async move {
            clock.sleep(Duration::from_nanos(after)).await;
            disk.lose_writes(LOST_WRITES);
        });
    }
}

/// Has a drive lie from now on, if that is the fault.
pub(crate) fn begin_now(fault: Fault, disk: &Disk) {
    disk.set_flush_lies(fault == Fault::FlushLies);
    if fault == Fault::LostWrite {
        disk.lose_writes(LOST_WRITES);
    }
}
