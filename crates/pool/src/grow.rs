//! Adds a group: it is prepared and flushed, then a checkpoint names it. Before that checkpoint is in force,
//! the group is not in the pool, whatever it holds, and can be added again.

use std::rc::Rc;

use block::Device;
use raid::Group;

use crate::area::Area;
use crate::layout::GROUPS_MAX;
use crate::open::find_superblock;
use crate::structure::Change;
use crate::superblock::Superblock;
use crate::table::Table;
use crate::{Pool, PoolError};

impl Pool {
    /// Adds a group, online. On return, the group is durably in the pool and its space is available. After an
    /// error or a power failure, it is in the pool or it is not.
    ///
    /// # Errors
    ///
    /// The group is too small, is in a pool, or is one too many; or the pool's metadata cannot be written.
    pub async fn add_group(&self, group: Group) -> Result<(), PoolError> {
        let inner = &self.0;
        let _turn = inner.turn_to_change().await?;
        self.refuse_foreign(&group).await?;
        let table = self.table_with(&group)?;
        let position = table.groups.len() - 1;
        let clean = group.cheap_zero();
        let area = Rc::new(Area::new(group, table.groups[position]));
        let mark = Superblock {
            generation: 0,
            checkpoint_blocks: 0,
            group_index: position as u32,
            table: table.clone(),
            ..inner.superblock.borrow().clone()
        };
        area.prepare(&mark.encode(), clean).await?;
        let mut areas = inner.areas().to_vec();
        areas.push(area);
        inner.restructure(Change { table, areas: Rc::new(areas), clean }).await?;
        inner.tell_contents();
        Ok(())
    }

    /// The table with the group appended.
    fn table_with(&self, group: &Group) -> Result<Table, PoolError> {
        let (inner, table) = (&self.0, self.0.table());
        let refuse = |cause| Err(inner.refuse_group(group.name(), cause));
        if table.position(group.id()).is_some() {
            return refuse("already in the pool".to_owned());
        }
        if table.groups.len() == GROUPS_MAX {
            return refuse(format!("the pool already has the maximum of {GROUPS_MAX} groups"));
        }
        let len_bytes = group.geometry().len_bytes;
        let place = inner.layout.place(len_bytes, group.row_bytes(), inner.page_bytes);
        if place.pages == 0 {
            return Err(PoolError::TooSmall {
                pool: inner.name.clone(),
                group: group.name().to_owned(),
                len_bytes,
                needed_bytes: place.pages_at + place.stride,
            });
        }
        let (pages, max) = (table.pages() + place.pages, inner.layout.pages_max());
        if pages > max {
            return refuse(format!(
                "too many pages: the pool would have {pages}, but its metadata was sized for {max} when it \
                 was created"
            ));
        }
        match table.with(group.id(), place) {
            Some(table) => Ok(table),
            None => refuse("page numbers are exhausted".to_owned()),
        }
    }

    /// Refuses a group of another pool. A group that this pool marked without adding it is accepted.
    async fn refuse_foreign(&self, group: &Group) -> Result<(), PoolError> {
        match find_superblock(group).await? {
            Some(found) if found.pool_id != self.id() => Err(PoolError::InUse {
                pool: self.name().to_owned(),
                group: group.name().to_owned(),
                found: format!("{} ({})", found.name, found.pool_id),
            }),
            _ => Ok(()),
        }
    }
}
