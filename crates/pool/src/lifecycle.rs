//! The life cycle of volumes: create, clone, grow, delete. Each is durable on return.

use std::ops::{Bound, Range};
use std::rc::Rc;

use block::BlockError;

use crate::catalog::{LEAVES_MAX, volume_prefix};
use crate::layout::BLOCK_BYTES;
use crate::map::{LEAF_LEN, Map};
use crate::record::{Record, VOLUME_NAME_LEN_MAX};
use crate::span::Span;
use crate::volume::Volume;
use crate::volume_state::{Provisioning, State};
use crate::{Pool, PoolError};

/// Leaves of a map that are counted between two yields: 65,536 pages, 0.2 milliseconds, or 2 if the pages are
/// scattered.
const STEP_LEAVES: usize = 64;

/// The leaves of a map, in steps.
fn steps(map: &Map) -> impl Iterator<Item = Range<usize>> + use<> {
    let end = map.leaves();
    (0..end).step_by(STEP_LEAVES).map(move |from| from..(from + STEP_LEAVES).min(end))
}

impl Pool {
    /// Creates a volume of `len_bytes`, a multiple of 512. It reads as zeros.
    ///
    /// # Errors
    ///
    /// The name is in use or invalid, the length is no multiple of 512 or too long, there are too many
    /// volumes; for a thick volume: the pool has too few free pages, or [`Pool::interrupt`] was called; the
    /// metadata cannot be written now. There is no such volume then.
    pub async fn create_volume(
        &self,
        name: &str,
        len_bytes: u64,
        provisioning: Provisioning,
    ) -> Result<Volume, PoolError> {
        self.0.room().await?;
        self.check_len(name, 0, len_bytes)?;
        let thick = provisioning == Provisioning::Thick;
        let id = self.reserve(name)?;
        let state = State::new(id, name.to_owned(), len_bytes, provisioning, Map::default());
        let volume = self.insert(state)?;
        volume.state.unfinished.set(thick);
        let (id, name) = (volume.state.id, name.to_owned());
        self.0.log(Record::Create { volume: id, len_bytes, thick, unfinished: thick, name });
        match self.complete(&volume, len_bytes).await {
            Ok(()) => Ok(volume),
            Err(error) => {
                self.take_away(&volume).await;
                Err(error)
            }
        }
    }

    /// Ends the creations and the growth of thick volumes that are under way, at their next page.
    pub fn interrupt(&self) {
        self.0.interrupts.set(self.0.interrupts.get() + 1);
    }

    /// Gives a new thick volume its pages, and makes a new volume durable.
    async fn complete(&self, volume: &Volume, len_bytes: u64) -> Result<(), PoolError> {
        if volume.state.provisioning == Provisioning::Thick {
            volume.take_pages(0, len_bytes).await?;
            self.0.room().await?;
            volume.state.unfinished.set(false);
            self.0.log(Record::Finish { volume: volume.state.id });
        }
        Ok(self.0.commit().await?)
    }

    /// Deletes a new volume that was refused: logged records cannot be taken back, so its deletion follows
    /// them, as soon as metadata can be written.
    async fn take_away(&self, volume: &Volume) {
        let _ = self.remove(volume).await;
    }

    /// Creates a thin clone that shares all pages of `from` as of now. It waits for writes in flight. No page
    /// is read from the drives; each is counted in memory, some milliseconds for a million, with yields.
    ///
    /// # Errors
    ///
    /// No such volume, the name is in use or invalid, the pool has no room for as many map entries, or the
    /// metadata cannot be written now. There is no clone then.
    pub async fn clone_volume(&self, from: &str, name: &str) -> Result<Volume, PoolError> {
        let source = self.find(from)?;
        let lock = source.state.locks.exclusive(Span::all().into()).await;
        source.drain(Span::all()).await;
        source.alive()?;
        self.check_len(name, 0, source.state.len_bytes.get())?;
        let id = self.reserve(name)?;
        let map = source.state.map.borrow().clone();
        if self.0.entries.get() + map.mapped() > self.0.entries_max {
            let cause = format!("too many map entries: the pool has no room for {} more", map.mapped());
            return Err(self.refuse(name, &cause));
        }
        let (from, len) = (source.state.id, source.state.len_bytes.get());
        self.0.entries.set(self.0.entries.get() + map.mapped());
        // The source is locked, so its map does not change.
        for leaves in steps(&map) {
            self.0.space.borrow_mut().share(from, id, map.pages(leaves));
            self.0.give_way().await;
        }
        let room = self.0.room().await;
        let state = State::new(id, name.to_owned(), len, Provisioning::Thin, map.clone());
        if let Err(error) = room.map_err(PoolError::from).and_then(|()| self.insert(state).map(drop)) {
            self.0.entries.set(self.0.entries.get() - map.mapped());
            self.drop_map(id, map, false).await;
            return Err(error);
        }
        let volume = Volume { pool: self.0.clone(), state: self.0.volumes.borrow()[&id].clone() };
        self.0.log(Record::Clone { from, volume: id, name: name.to_owned() });
        drop(lock);
        if let Err(error) = self.0.commit().await {
            self.take_away(&volume).await;
            return Err(error.into());
        }
        Ok(volume)
    }

    /// Grows a volume. The new part reads as zeros.
    ///
    /// # Errors
    ///
    /// No such volume, the length is smaller than now or too long; for a thick volume: the pool has too few
    /// free pages, or [`Pool::interrupt`] was called; the metadata cannot be written now. The length is as
    /// before then.
    pub async fn grow_volume(&self, name: &str, len_bytes: u64) -> Result<(), PoolError> {
        let volume = self.find(name)?;
        self.check_len(name, volume.state.len_bytes.get(), len_bytes)?;
        let _lock = volume.state.locks.exclusive(Span::all().into()).await;
        volume.alive()?;
        let old = volume.state.len_bytes.get();
        if len_bytes < old {
            return Err(self.refuse(name, &format!("cannot shrink from {old} to {len_bytes} bytes")));
        }
        if volume.state.provisioning == Provisioning::Thick
            && let Err(error) = volume.take_pages(old, len_bytes).await
        {
            volume.drop_pages(self.first_page_past(old)).await?;
            return Err(error);
        }
        self.0.room().await?;
        self.resize(&volume, len_bytes);
        if let Err(error) = self.0.commit().await {
            // Nothing was written past the old end: the volume is locked.
            self.resize(&volume, old);
            if volume.state.provisioning == Provisioning::Thick {
                volume.drop_pages(self.first_page_past(old)).await?;
            }
            return Err(error.into());
        }
        Ok(())
    }

    fn resize(&self, volume: &Volume, len_bytes: u64) {
        let old = volume.state.len_bytes.replace(len_bytes);
        self.0.totals.resize(old, len_bytes);
        self.0.log(Record::Resize { volume: volume.state.id, len_bytes });
    }

    /// Deletes a volume with its records. Operations in flight end first; later ones fail.
    ///
    /// # Errors
    ///
    /// No such volume, or the pool's metadata cannot be written; then the volume is gone, and may be back
    /// after a crash before a flush succeeds.
    pub async fn delete_volume(&self, name: &str) -> Result<(), PoolError> {
        let volume = self.find(name)?;
        Ok(self.remove(&volume).await?)
    }

    async fn remove(&self, volume: &Volume) -> Result<(), BlockError> {
        let state = &volume.state;
        let _lock = state.locks.exclusive(Span::all().into()).await;
        volume.drain(Span::all()).await;
        self.0.room().await?;
        if state.deleted.replace(true) {
            return Ok(());
        }
        self.0.log(Record::Delete { volume: state.id });
        let map = std::mem::take(&mut *state.map.borrow_mut());
        self.0.entries.set(self.0.entries.get() - map.mapped());
        self.0.volumes.borrow_mut().remove(&state.id);
        self.0.totals.remove(state);
        self.forget_records(&volume_prefix(state.id));
        self.drop_map(state.id, map, true).await;
        self.0.commit().await
    }

    /// Removes all records whose keys have this prefix.
    fn forget_records(&self, prefix: &str) {
        let mut records = self.0.records.borrow_mut();
        let from = (Bound::Included(prefix), Bound::Unbounded);
        let keys =
            records.range::<str, _>(from).map(|(key, _)| key).take_while(|key| key.starts_with(prefix));
        for key in keys.cloned().collect::<Vec<String>>() {
            let old = records.remove(&key);
            self.0.totals.record_saved(&key, old.as_deref(), None);
        }
    }

    /// Drops the references of a map that belongs to no volume any more, with yields. `logged` says whether
    /// the durable map had them.
    async fn drop_map(&self, volume: u32, map: Map, logged: bool) {
        for leaves in steps(&map) {
            // A page released by a later commit than its record only becomes free a little later.
            let settles_at = logged.then(|| self.0.commit.next());
            self.0.space.borrow_mut().drop_many(volume, settles_at, map.pages(leaves));
            self.0.give_way().await;
        }
        self.0.watch();
    }

    fn find(&self, name: &str) -> Result<Volume, PoolError> {
        let missing = || PoolError::NoVolume { pool: self.0.name.clone(), volume: name.to_owned() };
        self.volume(name).ok_or_else(missing)
    }

    fn refuse(&self, volume: &str, cause: &str) -> PoolError {
        PoolError::Volume { pool: self.0.name.clone(), volume: volume.to_owned(), cause: cause.to_owned() }
    }

    fn first_page_past(&self, len_bytes: u64) -> u32 {
        len_bytes.div_ceil(self.0.page_bytes) as u32
    }

    /// Checks the size `len_bytes` of a volume of `old` bytes, 0 for a new one.
    fn check_len(&self, name: &str, old: u64, len_bytes: u64) -> Result<(), PoolError> {
        // The last index is the end of the span over all; a map is a table of 32-bit indices.
        let max = u64::from(u32::MAX - 1) * self.0.page_bytes;
        if len_bytes == 0 || len_bytes > max || !len_bytes.is_multiple_of(BLOCK_BYTES.into()) {
            let cause = format!(
                "invalid size of {len_bytes} bytes: must be a multiple of {BLOCK_BYTES} from {BLOCK_BYTES} \
                 to {max}"
            );
            return Err(self.refuse(name, &cause));
        }
        // A pool must be able to read what it writes: see LEAVES_MAX.
        if self.0.totals.leaves_with(old, len_bytes) > LEAVES_MAX {
            let together = LEAVES_MAX * LEAF_LEN as u64;
            let cause = format!(
                "too large: the volumes of a pool are limited to {together} pages in total, mapped \
                    or not"
            );
            return Err(self.refuse(name, &cause));
        }
        Ok(())
    }

    /// Reserves a number for a new volume of this name.
    fn reserve(&self, name: &str) -> Result<u32, PoolError> {
        self.check_new(name)?;
        let id = self.0.next_volume.get();
        self.0.next_volume.set(id + 1);
        Ok(id)
    }

    fn check_new(&self, name: &str) -> Result<(), PoolError> {
        if name.is_empty() || name.len() > VOLUME_NAME_LEN_MAX {
            return Err(
                self.refuse(name, &format!("invalid name: must have 1 to {VOLUME_NAME_LEN_MAX} bytes"))
            );
        }
        if self.0.totals.id_of(name).is_some() {
            return Err(PoolError::NameTaken { pool: self.0.name.clone(), volume: name.to_owned() });
        }
        if self.0.volumes.borrow().len() >= self.0.volumes_max || self.0.next_volume.get() == u32::MAX {
            return Err(self.refuse(
                name,
                &format!("too many volumes: a pool of this size is limited to {}", self.0.volumes_max),
            ));
        }
        Ok(())
    }

    /// Adds a new volume, unless another one has taken the name meanwhile.
    fn insert(&self, state: State) -> Result<Volume, PoolError> {
        self.check_new(&state.name)?;
        let state = Rc::new(state);
        self.0.totals.add(&state);
        self.0.volumes.borrow_mut().insert(state.id, state.clone());
        Ok(Volume { pool: self.0.clone(), state })
    }
}

impl Volume {
    /// Allocates the pages of a thick volume from `from` bytes to `to` bytes.
    async fn take_pages(&self, from: u64, to: u64) -> Result<(), PoolError> {
        let (page, interrupts) = (self.pool.page_bytes, self.pool.interrupts.get());
        let needed = to.div_ceil(page) - from.div_ceil(page);
        let left = || {
            let space = self.pool.space.borrow();
            u64::from(space.free_now()) + u64::from(space.waiting())
        };
        while needed > left() && self.pool.discard_rod() {}
        if needed > left() && !self.pool.commit.is_running() {
            // It would take what is left from all others until it fails.
            return Err(self.pool.no_space().into());
        }
        for index in from.div_ceil(page)..to.div_ceil(page) {
            if self.pool.interrupts.get() != interrupts {
                let (pool, volume) = (self.pool.name.clone(), self.state.name.clone());
                return Err(PoolError::Interrupted { pool, volume });
            }
            let new = self.pool.allocate().await?;
            let ready = match self.pool.clear(new).await {
                Ok(()) => self.pool.room().await,
                Err(error) => Err(error),
            };
            if let Err(error) = ready {
                self.pool.drop_unlogged(new.page);
                return Err(error.into());
            }
            self.set_page(index as u32, new.page);
        }
        Ok(())
    }

    /// Releases what [`Volume::take_pages`] allocated before it failed. The caller has locked the volume.
    async fn drop_pages(&self, first: u32) -> Result<(), BlockError> {
        loop {
            self.pool.room().await?;
            let mut map = self.state.map.borrow_mut();
            let Some(index) = map.next_mapped(first, u32::MAX) else { return Ok(()) };
            let page = map.set(index, None).expect("it was mapped");
            self.pool.entries.set(self.pool.entries.get() - 1);
            self.pool.log(Record::Unmap { volume: self.state.id, index, count: 1 });
            self.pool.drop_logged(self.state.id, page);
        }
    }
}
