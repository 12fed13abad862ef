//! The two paths of a server to its disks, one at each controller, as its multipath driver uses them: the one
//! that is reported as optimized, and the other one when that gives no answer.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use array::LocalSession;
use block::Pieces;
use futures::future::{Either, select};
use lab_tools::hosts::cdb;
use lab_tools::testbed::nodes::Nodes;
use lab_tools::testbed::{self, notice_attentions};
use scsi::{Request, Response, Status};
use world::{Instant, World};
use world_model::Machine;

use super::bed;
use super::scenario::Takeover;
use crate::bed::initiator;
use crate::front::{Front, Op};
use crate::results::{Disks, Way};

/// Sense key UNIT ATTENTION (SPC-5 4.4.2), in the low half of byte 2 of fixed sense data.
const UNIT_ATTENTION: u8 = 6;
/// ASYMMETRIC ACCESS STATE CHANGED, additional sense code and qualifier, in bytes 12 and 13.
const ACCESS_CHANGED: &[u8] = &[0x2a, 0x06];
/// Of the answer to REPORT TARGET PORT GROUPS.
const REPORT_BYTES: u32 = 1024;

/// One controller, as hosts see it.
pub(super) struct Side {
    /// Its port and its processor.
    pub(super) front: Front,
    pub(super) machine: Machine,
}

/// A session of a server at one of them.
struct Path {
    session: LocalSession,
    /// When it last had an answer there.
    heard: Cell<Instant>,
}

/// It.
pub(super) struct Paths {
    world: World,
    sides: Rc<[Side; 2]>,
    paths: [Path; 2],
    /// The path of each disk.
    used: [Cell<usize>; 2],
    way: Way,
    /// From the last answer to the use of the other path, where nothing says that a controller is gone.
    silence: Duration,
    retry: Duration,
}

impl Paths {
    /// Those of a server.
    ///
    /// # Errors
    ///
    /// The array refuses it, or does not say which path is optimized.
    pub(super) async fn open(
        world: &World,
        (nodes, sides): (&Nodes, &Rc<[Side; 2]>),
        server: u32,
        (way, takeover): (Way, &Takeover),
    ) -> Result<Paths> {
        let open = |side: usize| {
            let opened = nodes.port(side).open(&initiator(server), [0, 0, 0, 0, 0, side as u8]);
            let session = opened.map_err(|e| anyhow!("server {server} is refused: {e}"))?;
            anyhow::Ok(Path { session, heard: Cell::new(world.now()) })
        };
        let paths = Paths {
            world: world.clone(),
            sides: sides.clone(),
            paths: [open(bed::STAYS)?, open(bed::GOES)?],
            used: [Cell::new(bed::STAYS), Cell::new(bed::STAYS)],
            way,
            silence: takeover.silent.0 + takeover.given_up.0,
            retry: takeover.retry.0,
        };
        for disks in Disks::ALL {
            for path in &paths.paths {
                notice_attentions(&path.session, bed::lun(disks)).await;
            }
            paths.look(disks, bed::STAYS).await?;
        }
        Ok(paths)
    }

    /// The side that it uses for a disk.
    pub(super) fn side(&self, disks: Disks) -> usize {
        self.used[disks as usize].get()
    }

    /// Reads or writes, as often as it takes: a command that got no answer is sent again on the other path,
    /// and one that the LU could not take on the same one.
    ///
    /// # Errors
    ///
    /// The array answers otherwise than GOOD.
    pub(super) async fn execute(
        &self,
        disks: Disks,
        op: Op,
        (content, bytes, tag): (&Pieces, u64, u64),
    ) -> Result<Pieces> {
        loop {
            let side = self.side(disks);
            let request = match op.reads {
                true => testbed::read(op.at, bytes, tag),
                false => testbed::write(op.at, content.clone(), tag),
            };
            let Some(response) = self.send(disks, side, (op, bytes), request).await else {
                self.take_other(disks, side);
                continue;
            };
            let key = response.sense.get(2).map(|byte| byte & 0x0f);
            match (response.status, key) {
                (Status::Good, _) => return Ok(response.data_in),
                (Status::Busy, _) => self.world.sleep(self.retry).await,
                (Status::CheckCondition, Some(UNIT_ATTENTION)) => {
                    if response.sense.get(12..14) == Some(ACCESS_CHANGED) {
                        self.look(disks, side).await?;
                    }
                }
                (status, _) => bail!(
                    "{op} of {bytes} bytes: the array answered {}",
                    testbed::answer(status, &response.sense)
                ),
            }
        }
    }

    /// None: there is no answer, and there will be none.
    async fn send(
        &self,
        disks: Disks,
        side: usize,
        (op, bytes): (Op, u64),
        request: Request,
    ) -> Option<Response> {
        let Side { front, machine } = &self.sides[side];
        if machine.is_dead() {
            return self.no_answer(side).await;
        }
        front.arrive(op, bytes).await;
        let arrived = self.world.now();
        let executed = self.paths[side].session.execute(bed::lun(disks), request);
        match select(pin!(machine.dead()), pin!(executed)).await {
            Either::Left(_) => self.no_answer(side).await,
            Either::Right((response, _)) => {
                front.leave(op, bytes, self.world.now() == arrived).await;
                self.paths[side].heard.set(self.world.now());
                Some(response)
            }
        }
    }

    /// The connection to a process that died is reset at once. One to a machine without power is given up
    /// when it has been silent for long enough.
    async fn no_answer(&self, side: usize) -> Option<Response> {
        if self.way == Way::Silent {
            self.world.sleep_until(self.paths[side].heard.get() + self.silence).await;
        }
        None
    }

    fn take_other(&self, disks: Disks, from: usize) {
        let used = &self.used[disks as usize];
        if used.get() == from {
            used.set(1 - from);
        }
    }

    /// Asks on a path which ports are optimized, and uses the path at one that is.
    async fn look(&self, disks: Disks, side: usize) -> Result<()> {
        let ask = Request::new(cdb::report_target_port_groups(REPORT_BYTES), Pieces::new(), REPORT_BYTES);
        let response = self.paths[side].session.execute(bed::lun(disks), ask).await;
        if response.status != Status::Good {
            // An attention more, or BUSY: who asks is asked again with the next answer.
            return Ok(());
        }
        let optimized = optimized(&response.data_in.joined()).context("no target port group is optimized")?;
        // The first declared portal is the first controller's, and target port groups count from 1.
        let side = usize::from(optimized - 1).min(1);
        self.used[disks as usize].set(side);
        Ok(())
    }
}

/// The first group that is active/optimized, of the answer to REPORT TARGET PORT GROUPS (SPC-5 6.39).
fn optimized(report: &[u8]) -> Option<u16> {
    let mut rest = report.get(4..)?;
    while let [state, _, high, low, _, _, _, ports, ..] = rest {
        if state & 0x0f == 0 {
            return Some(u16::from_be_bytes([*high, *low])).filter(|group| *group > 0);
        }
        rest = rest.get(8 + 4 * usize::from(*ports)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_optimized_group_is_found_behind_others() {
        let other = [0x01, 0x0b, 0, 1, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 9];
        let preferred = [0x80, 0x0b, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2];
        let report = [&[0, 0, 0, 28][..], &other, &preferred].concat();
        assert_eq!(optimized(&report), Some(2));
        assert_eq!(optimized(&report[..20]), None);
        assert_eq!(optimized(&report[..12]), None, "cut off");
        assert_eq!(optimized(&[]), None);
    }
}
