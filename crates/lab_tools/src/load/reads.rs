//! The cheap path: reads whose data is counted and left where it came.

use std::cell::RefCell;

use anyhow::Result;
use iscsi::initiator::Options;
use iscsi::initiator::load::{Read, read};
use scsi::Lun;
use world::World;

use super::access::{Op, Walk};
use super::window::Window;
use super::workers::Counts;

/// The LU of one worker.
pub(super) struct To {
    pub(super) login: Options,
    pub(super) lun: Lun,
    pub(super) block_bytes: u32,
}

/// Keeps `depth` reads in flight until the window closes.
pub(super) async fn run(
    world: &World,
    to: &To,
    mut walk: Walk,
    depth: u16,
    window: Window,
) -> Result<Window> {
    let block = u64::from(to.block_bytes);
    let (lun, block_bytes) = (to.lun, to.block_bytes);
    let window = RefCell::new(window);
    let next = || {
        window.borrow().is_going().then(|| {
            let op = walk.step();
            Read { lun, lba: op.at / block, blocks: (op.len / block) as u32, block_bytes }
        })
    };
    // The first command of a session is answered by the unit attention of a new nexus (29h/00h); it read
    // nothing.
    let mut greeted = false;
    let done = |c: iscsi::initiator::load::Completed| {
        if !greeted && c.status == scsi::Status::CheckCondition as u8 {
            greeted = true;
            return;
        }
        let good = c.status == scsi::Status::Good as u8;
        let op = Op { at: 0, len: c.read.blocks as u64 * block, reads: true, pause: None };
        window.borrow_mut().completed(c.submitted_at, c.completed_at, op, good);
    };
    read(world, &to.login, depth, next, done).await?;
    Ok(window.into_inner())
}
