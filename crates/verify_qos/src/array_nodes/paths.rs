//! The two paths of a VM to its LU: at its own node, and at the first one for when that is lost.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Result, bail};
use array::{LocalSession, Lun};
use futures::future::{Either, select};
use lab_tools::testbed::nodes::Nodes;
use scsi::{Request, Response, Status};
use world::World;
use world_model::Machine;

use super::bed;

/// Sense key UNIT ATTENTION (SPC-5 4.4.2), in the low half of byte 2 of fixed sense data.
const UNIT_ATTENTION: u8 = 6;

/// It.
pub(crate) struct Paths {
    world: World,
    /// Of its own node.
    machine: Machine,
    own: Rc<LocalSession>,
    /// At the first node.
    other: Rc<LocalSession>,
    has_changed: Cell<bool>,
    lun: Lun,
    retry: Duration,
}

impl Paths {
    /// Those of a VM, which sends a command again so long after BUSY.
    pub(super) fn open(world: &World, nodes: &Nodes, vm: usize, retry: Duration) -> Result<Paths> {
        let (_, node) = bed::place_of(vm);
        let isid = [0, 0, 0, 0, 0, bed::lun(vm).0 as u8];
        let open = |port: usize| {
            let opened = nodes.port(port).open(&bed::initiator(node), isid);
            opened.map(Rc::new).map_err(|e| anyhow::anyhow!("VM {vm}: its host is refused: {e:?}"))
        };
        let own = open(node)?;
        Ok(Paths {
            world: world.clone(),
            machine: nodes.machine(node).clone(),
            other: if node == 0 { own.clone() } else { open(0)? },
            own,
            has_changed: Cell::new(false),
            lun: bed::lun(vm),
            retry,
        })
    }

    /// Executes a command, as often as it takes: one that the LU could not take, or that was on its way to a
    /// node that is lost, is sent again.
    ///
    /// # Errors
    /// The array answers otherwise than GOOD.
    pub(crate) async fn execute(&self, request: impl Fn() -> Request) -> Result<()> {
        loop {
            // A connection to a process that has died is reset at once: the host takes the other path.
            let Some(response) = self.send(request()).await else {
                self.has_changed.set(true);
                continue;
            };
            let key = response.sense.get(2).map(|byte| byte & 0x0f);
            match (response.status, key) {
                (Status::Good, _) => return Ok(()),
                (Status::Busy, _) => self.world.sleep(self.retry).await,
                (Status::CheckCondition, Some(UNIT_ATTENTION)) => {}
                (status, _) => bail!("the array answered {status:?}, sense {:02x?}", response.sense),
            }
        }
    }

    /// None: its node is lost.
    async fn send(&self, request: Request) -> Option<Response> {
        if self.has_changed.get() {
            return Some(self.other.execute(self.lun, request).await);
        }
        match select(pin!(self.machine.dead()), pin!(self.own.execute(self.lun, request))).await {
            Either::Left(_) => None,
            Either::Right((response, _)) => Some(response),
        }
    }
}
