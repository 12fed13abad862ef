//! Replaces lost drives of a group by blank ones, and rebuilds them.

use std::cell::RefCell;
use std::rc::Rc;

use raid::{Group, MemberState, Throttle};
use world::World;
use world_model::Model;

use super::beside::Beside;
use crate::lives::Life;
use crate::places::Places;

/// The foreground share during a rebuild: half, so that both make progress before the power fails.
const SHARE_PERCENT: u8 = 50;

/// Assigns blank disks to empty positions, takes stale ones back, and starts to rebuild them, if this life
/// has repairs.
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
