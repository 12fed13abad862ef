//! A group leaves a pool: its pages move away, then a checkpoint no longer names it.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use raid::{Group, GroupId};

use crate::inner::Inner;
use crate::relocate::{Destination, Moved};
use crate::space::AreaSpace;
use crate::structure::Change;
use crate::table::Table;
use crate::{Pool, PoolError};

/// A page may be in the middle of something for this long, until the next look.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);
/// After so many looks in which nothing moved the page is taken to be held by something that does not end: half a minute.
pub(crate) const PAUSES_MAX: u32 = 1500;

impl Pool {
    /// Moves all pages of a group to the others, online. From the moment it begins, and durably so, no page of the group is handed out
    /// any more. `pace` is called after every step with the bytes that it moved: it waits as long as others are to have the
    /// drives, and may stop the work, which a later call takes up. It ends when the evacuation is cancelled, too. A page that cannot be read or written stays,
    /// and is reported when all others have moved.
    pub async fn evacuate(
        &self,
        group: GroupId,
        mut pace: impl AsyncFnMut(u64) -> ControlFlow<()>,
    ) -> Result<Moved, PoolError> {
        let inner = &self.0;
        let _moving = inner.begin_moving("an evacuation")?;
        self.mark_evacuating(group).await?;
        let (mut bytes, mut pauses) = (0, 0);
        // Of the present pass over the group: where it goes on, whether it moved anything, and what failed.
        let (mut from, mut moved_any, mut failure) = (None, false, None);
        loop {
            let Some(area) = self.evacuated_area(group) else { return Ok(Moved { bytes, complete: false }) };
            if area.used == 0 {
                break;
            }
            let start = from.unwrap_or(area.first);
            let batch = inner.relocate(start, usize::MAX, Destination::Anywhere, &mut pace).await?;
            bytes += batch.moved * inner.page_bytes;
            let ended = batch.next == start || batch.next == area.first + area.pages;
            from = (!ended).then_some(batch.next);
            failure = batch.failure.or(failure);
            if batch.moved > 0 {
                (pauses, moved_any) = (0, true);
            }
            let mut stopped = batch.stopped;
            if batch.no_page {
                self.wait_for_page(group).await?;
                stopped |= pace(0).await.is_break();
            } else if ended && !moved_any && !stopped {
                if let Some(error) = failure.take() {
                    return Err(error.into());
                }
                self.wait_a_little(group, &mut pauses).await?;
                stopped = pace(0).await.is_break();
            }
            if stopped {
                return Ok(Moved { bytes, complete: false });
            }
            if ended {
                (moved_any, failure) = (false, None);
            }
        }
        inner.commit().await?;
        Ok(Moved { bytes, complete: true })
    }

    /// Lets a group that is being evacuated take pages again. An evacuation that runs ends.
    pub async fn cancel_evacuation(&self, group: GroupId) -> Result<(), PoolError> {
        let inner = &self.0;
        let _turn = inner.turn_to_change().await?;
        let position = inner.position(group)?;
        let table = inner.table();
        if table.groups[position].evacuating {
            self.change_to(table.with_evacuating(position, false)).await?;
        }
        Ok(())
    }

    /// Takes a group out of the pool on which no page is in use. It comes back, without a trace of the pool. Should the power fail
    /// before that, the group is in the pool or it is not; if it is not, it may bear the pool's mark until it is used again.
    pub async fn remove_group(&self, group: GroupId) -> Result<Group, PoolError> {
        let inner = &self.0;
        let _turn = inner.turn_to_change().await?;
        let position = inner.position(group)?;
        let (table, areas) = (inner.table(), inner.areas());
        let area = areas[position].clone();
        let refuse = |cause| Err(inner.refuse_group(area.group.name(), cause));
        if table.groups.len() == 1 {
            return refuse("a pool has at least one group".to_owned());
        }
        inner.space.borrow_mut().close(area.first_page(), true);
        if let Err(error) = self.wait_until_free(area.first_page()).await {
            inner.space.borrow_mut().close(area.first_page(), table.groups[position].evacuating);
            return Err(error);
        }
        let mut rest = areas.to_vec();
        rest.remove(position);
        let change = Change { table: table.without(position), areas: Rc::new(rest), clean: false };
        inner.restructure(change).await?;
        while area.is_flushing() {
            // By somebody who began before.
            inner.world.sleep(PAUSE).await;
        }
        if let Err(error) = area.erase().await {
            return refuse(format!("it is not in the pool any more, but still bears its mark: {error}"));
        }
        Ok(area.group.clone())
    }

    async fn mark_evacuating(&self, group: GroupId) -> Result<(), PoolError> {
        let inner = &self.0;
        let _turn = inner.turn_to_change().await?;
        let position = inner.position(group)?;
        let table = inner.table();
        let area = &inner.areas()[position];
        if table.groups.len() == 1 {
            return Err(inner.refuse_group(area.group.name(), "there is no other group".to_owned()));
        }
        let here = inner.area_space(area.first_page());
        self.check_room(group, here)?;
        match table.groups[position].evacuating {
            true => Ok(()),
            false => self.change_to(table.with_evacuating(position, true)).await,
        }
    }

    /// Whether what lies on a group fits the free pages of the others, those included that wait for a commit.
    fn check_room(&self, group: GroupId, here: AreaSpace) -> Result<(), PoolError> {
        let inner = &self.0;
        let space = inner.space.borrow();
        let others = space.areas().filter(|a| a.first != here.first && !a.closed);
        let free: u64 = others.map(|a| u64::from(a.pages - a.used)).sum();
        if free >= u64::from(here.used) {
            return Ok(());
        }
        let name = self.groups().into_iter().find(|g| g.id() == group).map(|g| g.name().to_owned());
        Err(PoolError::NoRoom {
            pool: inner.name.clone(),
            group: name.unwrap_or_default(),
            used_bytes: u64::from(here.used) * inner.page_bytes,
            free_bytes: free * inner.page_bytes,
        })
    }

    /// The pages of a group, as long as it is being evacuated.
    fn evacuated_area(&self, group: GroupId) -> Option<AreaSpace> {
        let superblock = self.0.superblock.borrow();
        let entry = superblock.table.groups.iter().find(|g| g.group_id == group && g.evacuating)?;
        Some(self.0.area_space(entry.first_page))
    }

    /// No page was free: perhaps some are when what waits for a commit or a read is durable.
    async fn wait_for_page(&self, group: GroupId) -> Result<(), PoolError> {
        let inner = &self.0;
        if let Some(here) = self.evacuated_area(group) {
            self.check_room(group, here)?;
        }
        inner.commit().await?;
        inner.world.sleep(PAUSE).await;
        Ok(())
    }

    /// Nothing could be moved: the pages are in the middle of something.
    async fn wait_a_little(&self, group: GroupId, pauses: &mut u32) -> Result<(), PoolError> {
        *pauses += 1;
        if *pauses > PAUSES_MAX {
            let cause = "pages are held by operations that do not end".to_owned();
            return Err(self.0.refuse_group(&group.to_string(), cause));
        }
        self.0.world.sleep(PAUSE).await;
        Ok(())
    }

    /// Waits until every page of a group is free: releases become durable, reads end. Used pages are an error.
    async fn wait_until_free(&self, first: u32) -> Result<(), PoolError> {
        let inner = &self.0;
        inner.commit().await?;
        loop {
            let here = inner.area_space(first);
            if here.used > 0 {
                let name = inner.locate(first).0.group.name().to_owned();
                let bytes = u64::from(here.used) * inner.page_bytes;
                return Err(inner.refuse_group(&name, format!("{bytes} bytes are in use on it")));
            }
            if here.free == here.pages {
                return Ok(());
            }
            let fewer = || inner.area_space(first) != here || inner.alive().is_err();
            inner.freed.wait_for(|| fewer().then_some(())).await;
            inner.alive()?;
        }
    }

    async fn change_to(&self, table: Table) -> Result<(), PoolError> {
        let change = Change { table, areas: self.0.areas(), clean: false };
        Ok(self.0.restructure(change).await?)
    }
}

impl Inner {
    /// The pages of the group that begins with this one.
    pub(crate) fn area_space(&self, first: u32) -> AreaSpace {
        let space = self.space.borrow();
        let found = space.areas().find(|a| a.first == first);
        found.expect("a group of the table has its pages in the space")
    }
}
