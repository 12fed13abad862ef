//! Changes of the set of groups. Each is one checkpoint, whose superblock has the new table. While that
//! checkpoint is written, commits go to the holders of both tables, so that either superblock leads to all of
//! them.

use std::rc::Rc;

use block::BlockError;
use raid::GroupId;
use world::sync::Permit;

use crate::PoolError;
use crate::area::Area;
use crate::inner::Inner;
use crate::structure::{Change, Moving};
use crate::table::Table;

impl Inner {
    /// The groups as of the last superblock.
    pub(crate) fn table(&self) -> Table {
        self.superblock.borrow().table.clone()
    }

    /// The groups that get the next frame.
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

    /// Waits for the turn to change the set, also for a change whose caller has gone away.
    ///
    /// # Errors
    /// The pool's metadata cannot be written, for now or for good.
    pub(crate) async fn turn_to_change(&self) -> Result<Permit, BlockError> {
        let turn = self.structure.turn.take(1).await;
        let over = || self.structure.change.borrow().is_none().then_some(Ok(()));
        let ends = || over().or_else(|| self.goes_on().is_err().then(|| self.goes_on()));
        self.commit.progress.wait_for(ends).await?;
        self.goes_on()?;
        Ok(turn)
    }

    /// Makes a change durable. The caller has the turn.
    ///
    /// # Errors
    /// The pool's metadata cannot be written. If it cannot for now, the change has not been made; or
    /// [`PoolError::Begun`].
    pub(crate) async fn restructure(&self, change: Change) -> Result<(), PoolError> {
        self.goes_on()?;
        self.structure.want(change);
        let outcome = self
            .commit
            .progress
            .wait_for(|| {
                let waits = self.structure.change.borrow().is_some();
                if !waits && !self.journal.checkpoint_runs.get() {
                    return Some(Ok(()));
                }
                if let Err(error) = self.goes_on() {
                    return Some(if waits { Err(error) } else { self.alive() });
                }
                if waits && !self.journal.checkpoint_runs.get() {
                    // A commit or a checkpoint may have begun before the change: then the next one includes
                    // it.
                    self.commit.ask_for(self.commit.next());
                }
                None
            })
            .await;
        self.alive()?;
        match outcome {
            Err(cause) if !self.structure.withdraw() => {
                Err(PoolError::Begun { pool: self.name.clone(), cause })
            }
            outcome => Ok(outcome?),
        }
    }

    /// The checkpoint with this change is in force.
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

    /// The right to move pages; only one holder at a time.
    pub(crate) fn begin_moving(&self, what: &'static str) -> Result<Moving<'_>, PoolError> {
        if let Some(other) = self.structure.moving.get() {
            return Err(PoolError::Busy { pool: self.name.clone(), with: other });
        }
        self.structure.moving.set(Some(what));
        Ok(Moving(&self.structure))
    }

    /// The position of a group in the table.
    pub(crate) fn position(&self, id: GroupId) -> Result<usize, PoolError> {
        let missing = || PoolError::NoGroup { pool: self.name.clone(), group: id.to_string() };
        self.superblock.borrow().table.position(id).ok_or_else(missing)
    }

    /// An impossible operation on a group.
    pub(crate) fn refuse_group(&self, group: &str, cause: String) -> PoolError {
        PoolError::Group { pool: self.name.clone(), group: group.to_owned(), cause }
    }
}
