//! The two paths of a VM to its LU: at its own node, and at the first one for when that is lost.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use array::{LocalSession, Lun};
use futures::future::{Either, select};
use iscsi::initiator::Session;
use lab_tools::testbed::nodes::Nodes;
use scsi::{Request, Status};
use world::World;
use world_model::Machine;

use super::bed;

/// Sense key UNIT ATTENTION (SPC-5 4.4.2).
const UNIT_ATTENTION: u8 = 6;
const GOOD: u8 = Status::Good as u8;
const BUSY: u8 = Status::Busy as u8;
const CHECK_CONDITION: u8 = Status::CheckCondition as u8;

/// It.
pub(crate) struct Paths {
    world: World,
    way: Way,
    has_changed: Cell<bool>,
    lun: Lun,
    retry: Duration,
}

/// At its own node and at the first one, which may be the same.
pub(super) enum Way {
    /// Commands as values, to a node on a machine.
    Model { machine: Machine, own: Rc<LocalSession>, other: Rc<LocalSession> },
    /// Over iSCSI.
    Real { own: Session, other: Session },
}

/// What a LU answers.
struct Answer {
    status: u8,
    /// Of its sense data.
    key: Option<u8>,
    sense: Vec<u8>,
}

impl Paths {
    /// Those of a VM, which sends a command again so long after BUSY.
    pub(super) fn new(world: &World, vm: usize, way: Way, retry: Duration) -> Paths {
        Paths { world: world.clone(), way, has_changed: Cell::new(false), lun: bed::lun(vm), retry }
    }

    /// Executes a command, as often as it takes: one that the LU could not take, or that was on its way to a
    /// node that is lost, is sent again.
    ///
    /// # Errors
    /// The array answers otherwise than GOOD, or at neither path.
    pub(crate) async fn execute(&self, request: impl Fn() -> Request) -> Result<()> {
        loop {
            // A connection to a process that has died is reset at once: the host takes the other path.
            let Some(answer) = self.send(request()).await? else {
                self.has_changed.set(true);
                continue;
            };
            match (answer.status, answer.key) {
                (GOOD, _) => return Ok(()),
                (BUSY, _) => self.world.sleep(self.retry).await,
                (CHECK_CONDITION, Some(UNIT_ATTENTION)) => {}
                (status, _) => bail!("the array answered status {status:02x}h, sense {:02x?}", answer.sense),
            }
        }
    }

    /// None: its node is lost.
    async fn send(&self, request: Request) -> Result<Option<Answer>> {
        let has_changed = self.has_changed.get();
        match &self.way {
            Way::Model { machine, own, other } => {
                let response = match has_changed {
                    true => other.execute(self.lun, request).await,
                    false => match select(pin!(machine.dead()), pin!(own.execute(self.lun, request))).await {
                        Either::Left(_) => return Ok(None),
                        Either::Right((response, _)) => response,
                    },
                };
                // Fixed format: the low half of byte 2.
                let key = response.sense.get(2).map(|byte| byte & 0x0f);
                Ok(Some(Answer { status: response.status as u8, key, sense: response.sense }))
            }
            Way::Real { own, other } => {
                let session = if has_changed { other } else { own };
                let Request { cdb, data_out, data_in_max, .. } = request;
                match session.command(self.lun, cdb, data_out, data_in_max).await {
                    Ok(done) => {
                        let key = done.sense_codes().map(|(key, ..)| key);
                        Ok(Some(Answer { status: done.status, key, sense: done.sense }))
                    }
                    Err(_) if !has_changed => Ok(None),
                    Err(error) => Err(error).context("the path by the first node"),
                }
            }
        }
    }
}

impl Way {
    /// That of a VM in the model world.
    ///
    /// # Errors
    /// Its host is refused.
    pub(super) fn model(nodes: &Nodes, vm: usize) -> Result<Way> {
        let (_, node) = bed::place_of(vm);
        let isid = [0, 0, 0, 0, 0, bed::lun(vm).0 as u8];
        let open = |port: usize| {
            let opened = nodes.port(port).open(&bed::initiator(node), isid);
            opened.map(Rc::new).map_err(|e| anyhow::anyhow!("VM {vm}: its host is refused: {e}"))
        };
        let own = open(node)?;
        let other = if node == 0 { own.clone() } else { open(0)? };
        Ok(Way::Model { machine: nodes.machine(node).clone(), own, other })
    }
}
