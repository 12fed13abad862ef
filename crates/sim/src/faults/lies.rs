//! Drives that acknowledge an operation without carrying it out, or carry one out when it is too late. Data
//! have no checksums, so no array can survive this: the shadow must detect it.

use std::time::Duration;

use world::{Rng, World};
use world_model::Disk;

use super::Fault;

/// Writes that a drive loses: more than the first four of a life, which are labels with two copies, written
/// twice when a group opens.
const LOST_WRITES: u32 = 8;
/// A drive loses writes within this time: 20 ms, a hundred operations.
const LOSES_AFTER_NS_MAX: u64 = 20_000_000;

/// A drive of a group lies in this life, if that is the fault. Writes are lost after a while: the first one
/// goes to the journal of a group with parity, where its loss is harmless unless the power fails next.
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

/// A drive lies from now on, if that is the fault.
pub(crate) fn begin_now(fault: Fault, disk: &Disk) {
    disk.set_flush_lies(fault == Fault::FlushLies);
    disk.set_shared(matches!(fault, Fault::NoFence | Fault::NoLendingFence));
    if fault == Fault::LostWrite {
        disk.lose_writes(LOST_WRITES);
    }
}
