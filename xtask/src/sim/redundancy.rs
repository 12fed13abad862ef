//! What only groups with redundancy have: they open without lost disks, blank ones are filled, and all copies and parities agree.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use raid::{Group, GroupError, GroupSpec, MemberState, Throttle, inspect};
use world::World;
use world::sync::Signal;
use world_model::Model;

use super::lives::Life;
use super::places::Places;

/// What a rebuild leaves to the workload: half, so that both are far when the power is cut.
const SHARE_PERCENT: u8 = 50;

/// Opens a group with the disks that are not lost. Somebody vouches for it that the others never come back. A blank disk that got no
/// label before the power was cut is not the group's.
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

/// Opens a group of which too much is lost. Nobody vouches for anything when one of the drives that are left missed writes: alone it
/// cannot know.
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

/// Mirrors are brought together, and then a scrub finds nothing: an ordinary power cut leaves no parity that disagrees.
pub(crate) async fn agrees(world: &World, group: &Group, places: &RefCell<Places>) {
    let throttle = Throttle::none(world.clone());
    group.resync(&throttle).await.unwrap_or_else(|e| panic!("resync: {e}"));
    places.borrow_mut().equal = true;
    let scrubbed = group.scrub(&throttle).await.unwrap_or_else(|e| panic!("scrub: {e}"));
    assert_eq!(scrubbed.mismatches, 0, "copies or parities disagree: {scrubbed:?}");
    assert_eq!(scrubbed.unrepaired, 0, "what redundancy had was lost: {scrubbed:?}");
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

/// Puts blank disks where there are none, takes those back that fell behind, and begins to fill them, if this life is to.
pub(crate) async fn begin_repairs(
    life: &Life,
    model: &Model,
    world: &World,
    group: &Group,
    places: &Rc<RefCell<Places>>,
) -> Option<Beside> {
    if !life.repairs {
        return None;
    }
    for member in group.status().members {
        let position = member.position;
        let drive = match member.state {
            MemberState::Active | MemberState::Rebuilding => continue,
            MemberState::Missing | MemberState::Stale | MemberState::Failed => {
                let own = places.borrow().drive_at(position, world);
                own.unwrap_or_else(|| places.borrow_mut().put_blank(position, model, world))
            }
        };
        group.replace(position, drive).await.unwrap_or_else(|e| panic!("replace {position}: {e}"));
    }
    let (group, throttle, places) =
        (group.clone(), Throttle::new(world.clone(), SHARE_PERCENT), places.clone());
    Some(Beside::begin(world, async move {
        group.rebuild(&throttle).await.unwrap_or_else(|e| panic!("rebuild: {e}"));
        places.borrow_mut().filled();
    }))
}
