//! Changes of the set of groups: each is one checkpoint, whose superblock has the new table. While that checkpoint is being
//! written, commits go to the holders of both tables, so that either superblock leads to all of them.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use block::{BlockError, Device};
use raid::{Group, GroupId};
use world::sync::{Permit, Permits};

use crate::area::{Area, Areas};
use crate::inner::Inner;
use crate::table::Table;
use crate::{Pool, PoolError};

/// A set of groups that is to be.
pub(crate) struct Change {
    pub(crate) table: Table,
    /// In the order of the table.
    pub(crate) areas: Areas,
    /// The pages of the group that comes hold zeros.
    pub(crate) clean: bool,
}

/// What is being changed.
pub(crate) struct Structure {
    change: RefCell<Option<Rc<Change>>>,
    /// One change at a time.
    turn: Permits,
    /// Pages are being moved from group to group, and by what.
    moving: Cell<Option<&'static str>>,
}

impl Default for Structure {
    fn default() -> Structure {
        Structure { change: RefCell::default(), turn: Permits::new(1), moving: Cell::new(None) }
    }
}

impl Structure {
    /// The change that waits for a checkpoint, or is in the one that is being written.
    pub(crate) fn wanted(&self) -> Option<Rc<Change>> {
        self.change.borrow().clone()
    }
}

/// The right to move pages; it ends when dropped.
pub(crate) struct Moving<'a>(&'a Structure);

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        self.0.moving.set(None);
    }
}

/// One group of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSpace {
    /// Its identity.
    pub id: GroupId,
    /// Its name.
    pub name: String,
    /// Bytes in pages.
    pub total_bytes: u64,
    /// Bytes of pages that something refers to.
    pub used_bytes: u64,
    /// Its pages are being moved away: none is handed out any more.
    pub evacuating: bool,
    /// It has a copy of the journal and the checkpoints.
    pub holds_metadata: bool,
}

impl Pool {
    /// Its groups, in the order in which they came.
    pub fn groups(&self) -> Vec<Group> {
        self.0.areas().iter().map(|a| a.group.clone()).collect()
    }

    /// The space of each group, in the same order.
    pub fn group_spaces(&self) -> Vec<GroupSpace> {
        let (areas, table, space) = (self.0.areas(), self.0.table(), self.0.space.borrow());
        let bytes = |pages: u32| u64::from(pages) * self.0.page_bytes;
        let of = |(i, area): (usize, &Rc<Area>)| {
            let counted = space.areas().find(|s| s.first == area.first_page());
            let counted = counted.expect("space and areas are changed together");
            GroupSpace {
                id: area.group.id(),
                name: area.group.name().to_owned(),
                total_bytes: bytes(counted.pages),
                used_bytes: bytes(counted.used),
                evacuating: table.groups[i].evacuating,
                holds_metadata: table.is_holder(i),
            }
        };
        areas.iter().enumerate().map(of).collect()
    }

    /// The largest block of the groups' drives, in bytes: writes that are smaller or not aligned to it are read first.
    pub fn physical_block_bytes(&self) -> u32 {
        self.0.areas().iter().map(|a| a.group.geometry().block_bytes).max().unwrap_or(512)
    }
}

impl Inner {
    /// The groups as the last superblock says.
    pub(crate) fn table(&self) -> Table {
        self.superblock.borrow().table.clone()
    }

    /// The groups that the next frame goes to.
    pub(crate) fn journal_areas(&self) -> Vec<Rc<Area>> {
        let areas = self.areas();
        let mut holders: Vec<Rc<Area>> = {
            let superblock = self.superblock.borrow();
            superblock.table.holders.iter().map(|h| areas[*h as usize].clone()).collect()
        };
        if let Some(change) = self.structure.wanted() {
            for holder in &change.table.holders {
                let area = &change.areas[*holder as usize];
                if !holders.iter().any(|h| Rc::ptr_eq(h, area)) {
                    holders.push(area.clone());
                }
            }
        }
        holders
    }

    /// Waits for one's turn to change the set; also for a change whose maker has gone away.
    pub(crate) async fn turn_to_change(&self) -> Result<Permit, BlockError> {
        let turn = self.structure.turn.take(1).await;
        let over = || self.structure.change.borrow().is_none() || self.alive().is_err();
        self.commit.progress.wait_for(|| over().then_some(())).await;
        self.alive()?;
        Ok(turn)
    }

    /// Makes a change durable. The caller has the turn.
    pub(crate) async fn restructure(&self, change: Change) -> Result<(), BlockError> {
        self.alive()?;
        let change = Rc::new(change);
        *self.structure.change.borrow_mut() = Some(change.clone());
        self.commit
            .progress
            .wait_for(|| {
                let waits = self.structure.change.borrow().is_some();
                if !waits && !self.journal.checkpoint_runs.get() || self.alive().is_err() {
                    return Some(());
                }
                if waits && !self.journal.checkpoint_runs.get() {
                    // A commit may have begun before the change was there, or a checkpoint run: then it is the next one.
                    self.commit.ask_for(self.commit.next());
                }
                None
            })
            .await;
        self.alive()
    }

    /// The checkpoint with this change counts.
    pub(crate) fn install(&self, change: &Change) {
        let mut space = self.space.borrow_mut();
        let gone: Vec<u32> = space.areas().map(|a| a.first).collect();
        for first in gone {
            match change.table.groups.iter().find(|g| g.first_page == first) {
                Some(entry) => space.close(first, entry.evacuating),
                None => space.remove(first),
            }
        }
        for entry in &change.table.groups {
            if !space.has(entry.first_page) {
                space.add(entry.first_page, entry.end_page(), change.clean, entry.evacuating);
            }
        }
        drop(space);
        self.set_areas(change.areas.clone());
        self.structure.change.borrow_mut().take();
        self.freed.wake_all();
        self.watch();
    }

    /// The right to move pages, for one at a time.
    pub(crate) fn begin_moving(&self, what: &'static str) -> Result<Moving<'_>, PoolError> {
        if let Some(other) = self.structure.moving.get() {
            return Err(PoolError::Busy { pool: self.name.clone(), with: other });
        }
        self.structure.moving.set(Some(what));
        Ok(Moving(&self.structure))
    }

    /// Where a group stands in the table.
    pub(crate) fn position(&self, id: GroupId) -> Result<usize, PoolError> {
        let missing = || PoolError::NoGroup { pool: self.name.clone(), group: id.to_string() };
        self.superblock.borrow().table.position(id).ok_or_else(missing)
    }

    /// Something about a group is not possible.
    pub(crate) fn refuse_group(&self, group: &str, cause: String) -> PoolError {
        PoolError::Group { pool: self.name.clone(), group: group.to_owned(), cause }
    }
}
