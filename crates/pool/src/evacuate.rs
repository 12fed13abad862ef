//! Removes a group: its pages are evacuated, then a checkpoint without it is put in force.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use raid::{Group, GroupId};

use crate::area::erase_slots;
use crate::inner::Inner;
use crate::relocate::{Destination, Moved};
use crate::space::AreaSpace;
use crate::structure::Change;
use crate::table::Table;
use crate::{Pool, PoolError};

/// Pause before a busy page is tried again.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);
/// After this many attempts without progress (half a minute), the page is held by an operation that does not
/// end.
pub(crate) const PAUSES_MAX: u32 = 1500;

impl Pool {
    /// Moves all pages of a group to the others, online. From its start on, and durably, no page of the group
    /// is allocated. `pace` is called after every step with the bytes that it moved: it waits for other I/O,
    /// and may stop the work, which a later call continues. Cancelling the evacuation also ends it.
    ///
    /// # Errors
    /// A page that cannot be read or written stays, and is reported when all others have moved.
    /// [`PoolError::NoRoom`] if the other groups are too full.
    pub async fn evacuate(
        &self,
        group: GroupId,
        mut pace: impl AsyncFnMut(u64) -> ControlFlow<()>,
    ) -> Result<Moved, PoolError> {
        let inner = &self.0;
        let _moving = inner.begin_moving("an evacuation")?;
        self.mark_evacuating(group).await?;
        let (mut bytes, mut pauses) = (0, 0);
        // Of the current pass over the group: where it continues, whether it moved anything, and the error,
        // if any.
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

    /// Cancels an evacuation: the group's pages can be allocated again, and a running evacuation ends.
    ///
    /// # Errors
    ///
    /// No such group, or the pool's metadata cannot be written.
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

    /// Removes a group without used pages from the pool. The returned group bears no trace of the pool. After
    /// a power failure before that, the group is in the pool or it is not; in the latter case it may bear the
    /// pool's superblock until it is used again.
    ///
    /// # Errors
    ///
    /// No such group, it is the last one, it has used pages, or the pool's metadata cannot be written.
    pub async fn remove_group(&self, group: GroupId) -> Result<Group, PoolError> {
        let inner = &self.0;
        let _turn = inner.turn_to_change().await?;
        let position = inner.position(group)?;
        let (table, areas) = (inner.table(), inner.areas());
        let area = areas[position].clone();
        let refuse = |cause| Err(inner.refuse_group(area.group.name(), cause));
        if table.groups.len() == 1 {
            return refuse("cannot remove the last group of a pool".to_owned());
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
            // A flush that began earlier.
            inner.world.sleep(PAUSE).await;
        }
        if let Err(error) = erase_slots(&area.group).await {
            return refuse(format!(
                "removed from the pool, but its superblocks could not be erased: {error}"
            ));
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
            return Err(
                inner.refuse_group(area.group.name(), "cannot evacuate the only group of a pool".to_owned())
            );
        }
        let here = inner.area_space(area.first_page());
        self.check_room(group, here)?;
        match table.groups[position].evacuating {
            true => Ok(()),
            false => self.change_to(table.with_evacuating(position, true)).await,
        }
    }

    /// Checks that the used pages of a group fit in the free pages of the others, including those that wait
    /// for a commit.
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

    /// The pages of a group, while it is being evacuated.
    fn evacuated_area(&self, group: GroupId) -> Option<AreaSpace> {
        let superblock = self.0.superblock.borrow();
        let entry = superblock.table.groups.iter().find(|g| g.group_id == group && g.evacuating)?;
        Some(self.0.area_space(entry.first_page))
    }

    /// No page was free: some may be after a commit or a read.
    async fn wait_for_page(&self, group: GroupId) -> Result<(), PoolError> {
        let inner = &self.0;
        if let Some(here) = self.evacuated_area(group) {
            self.check_room(group, here)?;
        }
        inner.commit().await?;
        inner.world.sleep(PAUSE).await;
        Ok(())
    }

    /// Nothing could be moved: operations on the pages are in progress.
    async fn wait_a_little(&self, group: GroupId, pauses: &mut u32) -> Result<(), PoolError> {
        *pauses += 1;
        if *pauses > PAUSES_MAX {
            let cause = "operations on pages of the group do not end".to_owned();
            return Err(self.0.refuse_group(&group.to_string(), cause));
        }
        self.0.world.sleep(PAUSE).await;
        Ok(())
    }

    /// Waits until every page of a group is free: releases become durable, reads end. Used pages are an
    /// error.
    async fn wait_until_free(&self, first: u32) -> Result<(), PoolError> {
        let inner = &self.0;
        inner.commit().await?;
        loop {
            let here = inner.area_space(first);
            if here.used > 0 {
                let name = inner.locate(first).0.group.name().to_owned();
                let bytes = u64::from(here.used) * inner.page_bytes;
                return Err(inner.refuse_group(&name, format!("{bytes} bytes are still in use")));
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
        self.0.restructure(change).await
    }
}

impl Inner {
    /// The space of the group that begins with this page.
    pub(crate) fn area_space(&self, first: u32) -> AreaSpace {
        let space = self.space.borrow();
        let found = space.areas().find(|a| a.first == first);
        found.expect("a group of the table has its pages in the space")
    }
}
