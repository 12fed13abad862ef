//! Small durable records: reservations of a LU, settings of the layer above.

use crate::catalog::{pool_key, volume_key};
use crate::inner::Inner;
use crate::layout::{RECORD_BYTES_MAX, RECORD_NAME_LEN_MAX, record_size};
use crate::record::Record;
use crate::{Pool, Volume};
use block::BlockError;
use std::rc::Rc;

impl Inner {
    async fn save(self: &Rc<Self>, key: String, bytes: &[u8]) -> Result<(), BlockError> {
        assert!(
            bytes.len() <= RECORD_BYTES_MAX && key.len() <= RECORD_NAME_LEN_MAX,
            "a record of {} bytes",
            bytes.len()
        );
        self.room().await?;
        self.put(&key, bytes)?;
        self.log(Record::Save { key, bytes: bytes.to_vec() });
        self.commit().await
    }

    fn put(&self, key: &str, bytes: &[u8]) -> Result<(), BlockError> {
        let mut records = self.records.borrow_mut();
        let taken = records.get(key).map_or(0, |old| record_size(key, old));
        let others = self.totals.records_bytes() - taken;
        if !bytes.is_empty() && others + record_size(key, bytes) > self.records_max {
            return Err(self.no_space());
        }
        let (old, new) = match bytes.is_empty() {
            true => (records.remove(key), None),
            false => (records.insert(key.to_owned(), bytes.into()), Some(bytes)),
        };
        self.totals.record_saved(key, old.as_deref(), new);
        Ok(())
    }

    fn load(&self, key: &str) -> Option<Vec<u8>> {
        self.records.borrow().get(key).map(|bytes| bytes.to_vec())
    }
}

impl Pool {
    /// Saves a record of the pool durably; without bytes, removes it. At most [`RECORD_BYTES_MAX`] bytes,
    /// with a name of at most 100 bytes.
    ///
    /// # Errors
    ///
    /// The pool's metadata cannot be written.
    pub async fn save_record(&self, name: &str, bytes: &[u8]) -> Result<(), BlockError> {
        self.0.save(pool_key(name), bytes).await
    }

    /// The record of this name, as last saved.
    pub fn load_record(&self, name: &str) -> Option<Vec<u8>> {
        self.0.load(&pool_key(name))
    }
}

impl Volume {
    /// Saves a record of the volume durably; it is deleted with the volume. Without bytes, removes it. At
    /// most [`RECORD_BYTES_MAX`] bytes, with a name of at most 100 bytes.
    pub async fn save_record(&self, name: &str, bytes: &[u8]) -> Result<(), BlockError> {
        self.alive()?;
        self.pool.save(volume_key(self.state.id, name), bytes).await
    }

    /// The record of this name, as last saved.
    pub fn load_record(&self, name: &str) -> Option<Vec<u8>> {
        self.pool.load(&volume_key(self.state.id, name))
    }
}
