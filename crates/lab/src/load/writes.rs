//! Writes, and reads whose content is checked: as many workers as commands in flight.

use std::cell::RefCell;

use anyhow::{Result, ensure};
use block::Pieces;
use futures::future::try_join_all;
use world::{Buf, Rng};

use super::Plan;
use super::window::{Places, Window};
use crate::datastore::Content;
use crate::hosts::Disk;

/// Keeps the plan's depth of commands in flight until the window closes.
pub(super) async fn run(disk: &Disk, plan: &Plan, places: Places, window: Window) -> Result<Window> {
    let (places, window) = (RefCell::new(places), RefCell::new(window));
    let mut random = Buf::new(plan.size as usize);
    Rng::with_seed(plan.seed).fill(&mut random);
    let random: Pieces = random.freeze().into();
    let content = Content::Pattern { key: plan.seed, used_bytes: u64::MAX };
    let worker = || async {
        while window.borrow().is_open() {
            let at = places.borrow_mut().next();
            let data = if plan.verify { content.bytes(at, plan.size) } else { random.clone() };
            let submitted = disk.world().now();
            let result = if plan.pattern.writes() {
                disk.write(at, data).await
            } else {
                let read = disk.read(at, plan.size).await;
                read.map(|found| window.borrow_mut().mismatched(content.differences(at, &found.joined())))
            };
            let completed = disk.world().now();
            window.borrow_mut().completed(submitted, completed, result.is_ok());
            if let Err(error) = result {
                ensure!(error.sense().is_some(), "{error}");
            }
        }
        Ok(())
    };
    try_join_all((0..plan.depth).map(|_| worker())).await?;
    Ok(window.into_inner())
}
