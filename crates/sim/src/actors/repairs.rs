//! Who looks after the drives of a group: blank ones take the places of lost ones, and are filled.

use std::cell::RefCell;
use std::rc::Rc;

use raid::{Group, MemberState, Throttle};
use world::World;
use world_model::Model;

use super::beside::Beside;
use crate::lives::Life;
use crate::places::Places;

/// What a rebuild leaves to the workload: half, so that both are far when the power is cut.
const SHARE_PERCENT: u8 = 50;

/// Puts blank disks where there are none, takes those back that fell behind, and begins to fill them, if this life is to.
pub(crate) async fn begin(
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
