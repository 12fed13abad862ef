//! Moves that hosts ask for: SET TARGET PORT GROUPS.

use std::rc::{Rc, Weak};
use std::time::Duration;

use scsi::Mover;

use crate::controller::Controller;
use crate::move_request::MoveRequest;

/// A pool moves once in this time when hosts ask for it: two that have lost different paths would otherwise
/// move it to and fro with each command.
const PAUSE: Duration = Duration::from_secs(10);

/// Asks for moves of the pool of a LU.
struct PoolMover {
    controller: Weak<Controller>,
    pool: String,
}

/// What moves the LUs of a pool when hosts ask for it; none where there is no other controller, or nobody who
/// makes changes.
pub(super) fn mover_of(controller: &Rc<Controller>, pool: &str) -> Option<Box<dyn Mover>> {
    controller.moves.get()?;
    controller.others().next()?;
    Some(Box::new(PoolMover { controller: Rc::downgrade(controller), pool: pool.to_owned() }))
}

impl Mover for PoolMover {
    fn is_on(&self) -> bool {
        self.controller.upgrade().is_some_and(|controller| controller.config().explicit_alua)
    }

    fn begin(&self, group: u16) -> bool {
        let Some(controller) = self.controller.upgrade() else { return false };
        let (config, nodes) = (controller.config(), controller.state().nodes.clone());
        let mut own = nodes.portals(&config).iter().enumerate();
        let asked = own.find(|(index, _)| nodes.portal_group(*index) == group).map(|(_, own)| own.controller);
        // Of another node only where that runs a controller: see docs/cluster.md.
        let other =
            || nodes.others.iter().find(|other| other.portal_group == group && other.is_up)?.controller;
        let (Some(to), Some(moves), true) =
            (asked.or_else(other), controller.moves.get(), config.explicit_alua)
        else {
            return false;
        };
        let now = controller.world.now();
        let last = controller.state().asked_to_move.get(&self.pool).copied();
        if last.is_some_and(|last| now.since(last) < PAUSE) {
            return false;
        }
        controller.state.borrow_mut().asked_to_move.insert(self.pool.clone(), now);
        moves.ask(MoveRequest { pool: self.pool.clone(), controller: to })
    }
}
