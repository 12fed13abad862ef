//! The durable state of a pool as plain data: what a checkpoint holds and the journal changes.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::codec::Reader;
use crate::events::Thresholds;
use crate::map::Map;
use crate::record::Record;

/// One volume.
#[derive(Clone)]
pub(crate) struct Cataloged {
    pub(crate) name: String,
    pub(crate) len_bytes: u64,
    pub(crate) thick: bool,
    pub(crate) unfinished: bool,
    pub(crate) map: Map,
}

/// Everything that survives a restart.
#[derive(Clone, Default)]
pub(crate) struct Catalog {
    pub(crate) volumes: BTreeMap<u32, Cataloged>,
    pub(crate) records: BTreeMap<String, Rc<[u8]>>,
    pub(crate) next_volume: u32,
    pub(crate) thresholds: Thresholds,
    /// How many pages the pool has: no entry may name one past it.
    pub(crate) pages: u32,
}

/// The key under which a volume's record is kept.
pub(crate) fn volume_key(volume: u32, name: &str) -> String {
    format!("{}{name}", volume_prefix(volume))
}

pub(crate) fn volume_prefix(volume: u32) -> String {
    format!("v{volume}/")
}

pub(crate) fn pool_key(name: &str) -> String {
    format!("p/{name}")
}

impl Catalog {
    /// Applies all records of one commit.
    pub(crate) fn replay(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut reader = Reader::new(bytes);
        while !reader.is_empty() {
            let record = Record::decode(&mut reader).ok_or("a record cannot be read")?;
            self.apply(record)?;
        }
        Ok(())
    }

    fn volume(&mut self, id: u32) -> Result<&mut Cataloged, String> {
        self.volumes.get_mut(&id).ok_or_else(|| format!("a record names volume {id}, which is not there"))
    }

    fn apply(&mut self, record: Record) -> Result<(), String> {
        match record {
            Record::Map { volume, index, page, count } => {
                if page.checked_add(count).is_none_or(|end| end > self.pages)
                    || index.checked_add(count).is_none()
                {
                    return Err(format!("a record maps pages {page}+{count} of {}", self.pages));
                }
                self.volume(volume)?.map.set_run(index, count, page);
            }
            Record::Unmap { volume, index, count } => {
                let end = index.checked_add(count).ok_or("a record unmaps past the last index")?;
                let map = &mut self.volume(volume)?.map;
                let mut next = index;
                while let Some(i) = map.next_mapped(next, end) {
                    map.set(i, None);
                    next = i + 1;
                }
            }
            Record::Create { volume, len_bytes, thick, unfinished, name } => {
                self.insert(volume, Cataloged { name, len_bytes, thick, unfinished, map: Map::default() })?;
            }
            Record::Finish { volume } => self.volume(volume)?.unfinished = false,
            Record::Delete { volume } => {
                self.volumes
                    .remove(&volume)
                    .ok_or_else(|| format!("a record deletes volume {volume} again"))?;
                let prefix = volume_prefix(volume);
                self.records.retain(|key, _| !key.starts_with(&prefix));
            }
            Record::Resize { volume, len_bytes } => self.volume(volume)?.len_bytes = len_bytes,
            Record::Clone { from, volume, name } => {
                let source = self.volume(from)?;
                let copy = Cataloged { name, thick: false, unfinished: false, ..source.clone() };
                self.insert(volume, copy)?;
            }
            Record::Save { key, bytes } if bytes.is_empty() => drop(self.records.remove(&key)),
            Record::Save { key, bytes } => drop(self.records.insert(key, bytes.into())),
            Record::Thresholds(thresholds) => self.thresholds = thresholds,
        }
        Ok(())
    }

    fn insert(&mut self, id: u32, volume: Cataloged) -> Result<(), String> {
        if self.volumes.insert(id, volume).is_some() {
            return Err(format!("a record creates volume {id} again"));
        }
        self.next_volume = self.next_volume.max(id.checked_add(1).ok_or("volume ids are used up")?);
        Ok(())
    }
}
