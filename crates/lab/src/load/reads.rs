//! The cheap path: reads whose data is counted and left where it came.

use std::cell::RefCell;

use anyhow::Result;
use iscsi::initiator::Options;
use iscsi::initiator::load::{Read, read};
use scsi::Lun;
use world::World;

use super::window::{Places, Window};

/// Keeps `depth` reads in flight until the window closes.
pub(super) async fn run(
    world: &World,
    login: &Options,
    lun: Lun,
    block_bytes: u32,
    mut places: Places,
    depth: u16,
    window: Window,
) -> Result<Window> {
    let block = u64::from(block_bytes);
    let blocks = (places.size() / block) as u32;
    let window = RefCell::new(window);
    let next =
        || window.borrow().is_open().then(|| Read { lun, lba: places.next() / block, blocks, block_bytes });
    // The first command of a session is answered by the unit attention of a new nexus (29h/00h); it read nothing.
    let mut greeted = false;
    let done = |c: iscsi::initiator::load::Completed| {
        if !greeted && c.status == scsi::Status::CheckCondition as u8 {
            greeted = true;
            return;
        }
        window.borrow_mut().completed(c.submitted_at, c.completed_at, c.status == scsi::Status::Good as u8);
    };
    read(world, login, depth, next, done).await?;
    Ok(window.into_inner())
}
