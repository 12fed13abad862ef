//! Checks for groups with redundancy: they open without lost disks, and all copies and parities match.

use std::cell::RefCell;

use raid::{Group, GroupError, GroupSpec, Throttle, inspect};
use world::World;

use crate::places::Places;

/// Opens a group with the remaining disks, vouching that the others never return. A blank disk without a
/// label after a power failure is not a member.
pub(crate) async fn open(
    world: &World,
    spec: GroupSpec,
    places: &RefCell<Places>,
) -> Result<Group, GroupError> {
    let mut drives = places.borrow().open(world);
    if places.borrow().is_whole() {
        return Group::open(world.clone(), spec, drives).await;
    }
    let mut labelled = Vec::new();
    for drive in drives.drain(..) {
        match inspect(&drive).await {
            Ok(None) => places.borrow_mut().take_out(&drive.info().name),
            _ => labelled.push(drive),
        }
    }
    Group::open_degraded(world.clone(), spec, labelled).await
}

/// Opens a group that lost too much. Without vouching if a remaining drive missed writes: alone it cannot
/// know.
pub(crate) async fn open_beyond(
    world: &World,
    spec: GroupSpec,
    places: &RefCell<Places>,
) -> Result<Group, GroupError> {
    if places.borrow().some_are_behind() {
        let drives = places.borrow().open(world);
        return Group::open(world.clone(), spec, drives).await;
    }
    open(world, spec, places).await
}

/// Resyncs the mirrors; then a scrub must find nothing: a power failure alone leaves no mismatch.
pub(crate) async fn agrees(world: &World, group: &Group, places: &RefCell<Places>) {
    let throttle = Throttle::none(world.clone());
    group.resync(&throttle).await.unwrap_or_else(|e| panic!("resync: {e}"));
    places.borrow_mut().equal = true;
    let scrubbed = group.scrub(&throttle).await.unwrap_or_else(|e| panic!("scrub: {e}"));
    assert_eq!(scrubbed.mismatches, 0, "copies or parities disagree: {scrubbed:?}");
    assert_eq!(scrubbed.unrepaired, 0, "what redundancy had was lost: {scrubbed:?}");
}
