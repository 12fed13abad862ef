//! The life of volumes: created, cloned, grown, deleted. What returns is durable.

use std::cell::RefMut;
use std::collections::BTreeMap;
use std::rc::Rc;

use block::BlockError;

use crate::catalog::volume_prefix;
use crate::gates::Span;
use crate::map::Map;
use crate::record::{Record, VOLUME_NAME_LEN_MAX};
use crate::volume::{BLOCK_BYTES, Provisioning, State, Volume};
use crate::{Pool, PoolError};

impl Pool {
    /// Creates a volume of `len_bytes`, a multiple of 512. It reads as zeros.
    pub async fn create_volume(
        &self,
        name: &str,
        len_bytes: u64,
        provisioning: Provisioning,
    ) -> Result<Volume, PoolError> {
        self.0.room().await?;
        self.check_len(name, len_bytes)?;
        let thick = provisioning == Provisioning::Thick;
        let volume =
            self.insert(name, |id| State::new(id, name.to_owned(), len_bytes, provisioning, Map::default()))?;
        volume.state.unfinished.set(thick);
        let (id, name) = (volume.state.id, name.to_owned());
        self.0.log(Record::Create { volume: id, len_bytes, thick, unfinished: thick, name });
        if thick {
            if let Err(error) = volume.take_pages(0, len_bytes).await {
                self.remove(&volume).await?;
                return Err(error.into());
            }
            self.0.room().await?;
            volume.state.unfinished.set(false);
            self.0.log(Record::Finish { volume: id });
        }
        self.0.commit().await?;
        Ok(volume)
    }

    /// Creates a thin volume that shares all pages of `from` as they are now. Writes in flight are waited for.
    pub async fn clone_volume(&self, from: &str, name: &str) -> Result<Volume, PoolError> {
        let source = self.find(from)?;
        let gate = source.state.gates.hold(Span::all()).await;
        source.drain(Span::all()).await;
        self.0.room().await?;
        source.alive()?;
        let map = source.state.map.borrow().clone();
        if self.0.entries.get() + map.mapped() > self.0.entries_max {
            let cause = format!("the pool's volumes have no room for {} more map entries", map.mapped());
            return Err(self.refuse(name, &cause));
        }
        let len = source.state.len_bytes.get();
        let volume = self.insert(name, |id| State::new(id, name.to_owned(), len, Provisioning::Thin, map))?;
        volume.refer_to_pages();
        self.0.log(Record::Clone { from: source.state.id, volume: volume.state.id, name: name.to_owned() });
        drop(gate);
        self.0.commit().await?;
        Ok(volume)
    }

    /// Makes a volume larger. What is new reads as zeros.
    pub async fn grow_volume(&self, name: &str, len_bytes: u64) -> Result<(), PoolError> {
        let volume = self.find(name)?;
        self.check_len(name, len_bytes)?;
        let _gate = volume.state.gates.hold(Span::all()).await;
        volume.alive()?;
        let old = volume.state.len_bytes.get();
        if len_bytes < old {
            return Err(self.refuse(name, &format!("{len_bytes} bytes is less than its size of {old}")));
        }
        if volume.state.provisioning == Provisioning::Thick
            && let Err(error) = volume.take_pages(old, len_bytes).await
        {
            volume.drop_pages(self.first_page_past(old)).await?;
            return Err(error.into());
        }
        self.0.room().await?;
        volume.state.len_bytes.set(len_bytes);
        self.0.log(Record::Resize { volume: volume.state.id, len_bytes });
        Ok(self.0.commit().await?)
    }

    /// Deletes a volume with its records. Operations in flight end first; later ones fail.
    pub async fn delete_volume(&self, name: &str) -> Result<(), PoolError> {
        let volume = self.find(name)?;
        Ok(self.remove(&volume).await?)
    }

    async fn remove(&self, volume: &Volume) -> Result<(), BlockError> {
        let state = &volume.state;
        let _gate = state.gates.hold(Span::all()).await;
        volume.drain(Span::all()).await;
        self.0.room().await?;
        if state.deleted.replace(true) {
            return Ok(());
        }
        self.0.log(Record::Delete { volume: state.id });
        let map = std::mem::take(&mut *state.map.borrow_mut());
        for (_, page) in map.iter() {
            self.0.drop_logged(page);
        }
        self.0.entries.set(self.0.entries.get() - map.mapped());
        self.0.volumes.borrow_mut().remove(&state.id);
        let prefix = volume_prefix(state.id);
        self.0.records.borrow_mut().retain(|key, _| !key.starts_with(&prefix));
        self.0.commit().await
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

    fn check_len(&self, name: &str, len_bytes: u64) -> Result<(), PoolError> {
        // The last index is the end of the span over all; a map is a table of 32-bit indices.
        let max = u64::from(u32::MAX - 1) * self.0.page_bytes;
        if len_bytes == 0 || len_bytes > max || !len_bytes.is_multiple_of(BLOCK_BYTES.into()) {
            let cause = format!(
                "its size must be a multiple of {BLOCK_BYTES} from {BLOCK_BYTES} to {max}, not {len_bytes}"
            );
            return Err(self.refuse(name, &cause));
        }
        Ok(())
    }

    /// Puts a new volume in the list.
    fn insert(&self, name: &str, state: impl FnOnce(u32) -> State) -> Result<Volume, PoolError> {
        let mut volumes: RefMut<'_, BTreeMap<u32, Rc<State>>> = self.0.volumes.borrow_mut();
        if name.is_empty() || name.len() > VOLUME_NAME_LEN_MAX {
            return Err(self.refuse(name, &format!("a name has 1 to {VOLUME_NAME_LEN_MAX} bytes")));
        }
        if volumes.values().any(|v| v.name == name) {
            return Err(PoolError::NameTaken { pool: self.0.name.clone(), volume: name.to_owned() });
        }
        let id = self.0.next_volume.get();
        if volumes.len() >= self.0.volumes_max || id == u32::MAX {
            return Err(
                self.refuse(name, &format!("a pool of this size has at most {} volumes", self.0.volumes_max))
            );
        }
        self.0.next_volume.set(id + 1);
        let state = Rc::new(state(id));
        volumes.insert(id, state.clone());
        Ok(Volume { pool: self.0.clone(), state })
    }
}

impl Volume {
    /// Counts the references of a map that was copied.
    fn refer_to_pages(&self) {
        let (map, mut space) = (self.state.map.borrow(), self.pool.space.borrow_mut());
        map.iter().for_each(|(_, page)| space.refer(page));
        self.pool.entries.set(self.pool.entries.get() + map.mapped());
    }

    /// Gives a thick volume its pages from `from` bytes to `to` bytes.
    async fn take_pages(&self, from: u64, to: u64) -> Result<(), BlockError> {
        let page = self.pool.page_bytes;
        for index in from.div_ceil(page)..to.div_ceil(page) {
            let new = self.pool.allocate().await?;
            let ready = match self.pool.clear(new).await {
                Ok(()) => self.pool.room().await,
                Err(error) => Err(error),
            };
            if let Err(error) = ready {
                self.pool.drop_unlogged(new.page);
                return Err(error);
            }
            self.set_page(index as u32, new.page);
        }
        Ok(())
    }

    /// Takes back what [`Volume::take_pages`] gave before it failed. The caller holds the gate.
    async fn drop_pages(&self, first: u32) -> Result<(), BlockError> {
        loop {
            self.pool.room().await?;
            let mut map = self.state.map.borrow_mut();
            let Some(index) = map.next_mapped(first, u32::MAX) else { return Ok(()) };
            let page = map.set(index, None).expect("it was mapped");
            self.pool.entries.set(self.pool.entries.get() - 1);
            self.pool.log(Record::Unmap { volume: self.state.id, index, count: 1 });
            self.pool.drop_logged(page);
        }
    }
}
