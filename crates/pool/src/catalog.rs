//! The durable state of a pool as plain data: a checkpoint stores it, the journal changes it.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::codec::Reader;
use crate::events::Thresholds;
use crate::layout::BLOCK_BYTES;
use crate::layout::Layout;
use crate::layout::{RECORD_BYTES_MAX, RECORD_NAME_LEN_MAX, record_size};
use crate::map::{LEAF_LEN, Map};
use crate::record::{Record, VOLUME_NAME_LEN_MAX};

/// Limit of the tables of all maps together, in leaves: 1 GiB of memory. One leaf at the end of a large
/// volume needs a table of up to 32 MiB, so damaged metadata could claim any amount.
pub(crate) const LEAVES_MAX: u64 = 1 << 27;

/// One volume.
#[derive(Clone)]
pub(crate) struct Cataloged {
    pub(crate) name: String,
    pub(crate) len_bytes: u64,
    pub(crate) thick: bool,
    pub(crate) unfinished: bool,
    pub(crate) map: Map,
}

/// All state that survives a restart.
#[derive(Clone, Default)]
pub(crate) struct Catalog {
    pub(crate) volumes: BTreeMap<u32, Cataloged>,
    pub(crate) records: BTreeMap<String, Rc<[u8]>>,
    pub(crate) next_volume: u32,
    pub(crate) thresholds: Thresholds,
    /// The number of pages of the pool: no entry may name a page beyond it.
    pub(crate) pages: u32,
    /// While reading: the limit of map entries.
    pub(crate) entries_max: u64,
    /// While reading: the size so far.
    pub(crate) size: Size,
}

/// The size of the maps in a catalog that is being read, counted before memory is allocated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    entries: u64,
    leaves: u64,
}

impl Size {
    fn of(map: &Map) -> Size {
        Size { entries: map.mapped(), leaves: map.leaves() as u64 }
    }

    fn plus(self, other: Size) -> Size {
        Size { entries: self.entries + other.entries, leaves: self.leaves + other.leaves }
    }

    fn minus(self, other: Size) -> Size {
        Size { entries: self.entries - other.entries, leaves: self.leaves - other.leaves }
    }
}

/// The key of a volume's record.
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
            let record = Record::decode(&mut reader).ok_or("a record cannot be decoded")?;
            self.apply(record)?;
        }
        Ok(())
    }

    fn volume(&mut self, id: u32) -> Result<&mut Cataloged, String> {
        self.volumes.get_mut(&id).ok_or_else(|| format!("a record names volume {id}, which does not exist"))
    }

    fn apply(&mut self, record: Record) -> Result<(), String> {
        match record {
            Record::Map { volume, index, page, count } => {
                self.map(volume, index, count, page)?;
            }
            Record::Unmap { volume, index, count } => {
                let end = index.checked_add(count).ok_or("a record unmaps past the last index")?;
                let map = &mut self.volume(volume)?.map;
                let before = Size::of(map);
                let mut next = index;
                while let Some(i) = map.next_mapped(next, end) {
                    map.set(i, None);
                    next = i + 1;
                }
                let after = Size::of(map);
                self.size = self.size.minus(before).plus(after);
            }
            Record::Create { volume, len_bytes, thick, unfinished, name } => {
                self.insert(volume, Cataloged { name, len_bytes, thick, unfinished, map: Map::default() })?;
            }
            Record::Finish { volume } => self.volume(volume)?.unfinished = false,
            Record::Delete { volume } => {
                let gone = self.volumes.remove(&volume);
                let gone =
                    gone.ok_or_else(|| format!("a record deletes volume {volume}, which does not exist"))?;
                self.size = self.size.minus(Size::of(&gone.map));
                let prefix = volume_prefix(volume);
                self.records.retain(|key, _| !key.starts_with(&prefix));
            }
            Record::Resize { volume, len_bytes } => self.volume(volume)?.len_bytes = len_bytes,
            Record::Clone { from, volume, name } => {
                let source = self.volume(from)?;
                let copy = Cataloged { name, thick: false, unfinished: false, ..source.clone() };
                let size = self.size.plus(Size::of(&copy.map));
                self.check_room(size)?;
                self.insert(volume, copy)?;
                self.size = size;
            }
            Record::Save { key, bytes } if bytes.is_empty() => drop(self.records.remove(&key)),
            Record::Save { key, bytes } => drop(self.records.insert(key, bytes.into())),
            Record::Thresholds(thresholds) => self.thresholds = thresholds,
        }
        Ok(())
    }

    /// Maps indices of a volume to the pages `page..page + count`, if all of them exist and there is room.
    pub(crate) fn map(&mut self, volume: u32, index: u32, count: u32, page: u32) -> Result<(), String> {
        let past = page.checked_add(count).is_none_or(|end| end > self.pages);
        let Some(end) = index.checked_add(count).filter(|_| !past) else {
            return Err(format!("a record maps pages {page}+{count}, but the pool has {}", self.pages));
        };
        let before = Size::of(&self.volume(volume)?.map);
        let leaves = u64::from(end).div_ceil(LEAF_LEN as u64).max(before.leaves);
        // An upper bound: some of the indices may have had a page.
        let after = Size { entries: before.entries + u64::from(count), leaves };
        self.check_room(self.size.minus(before).plus(after))?;
        let map = &mut self.volume(volume)?.map;
        map.set_run(index, count, page);
        let after = Size::of(map);
        self.size = self.size.minus(before).plus(after);
        Ok(())
    }

    fn check_room(&self, size: Size) -> Result<(), String> {
        // A pool stops at the limit, but entries that are overwritten count twice for a moment.
        if size.entries > self.entries_max.saturating_mul(2) || size.leaves > LEAVES_MAX {
            return Err("the maps are larger than a pool of this size allows".to_owned());
        }
        Ok(())
    }

    /// What is wrong with a state that could be decoded: a state that no pool writes.
    pub(crate) fn fault(&self, layout: &Layout, page_bytes: u64) -> Option<String> {
        let len_max = u64::from(u32::MAX - 1) * page_bytes;
        let mut names = BTreeSet::new();
        for (id, volume) in self.volumes.iter().filter(|(_, v)| !v.unfinished) {
            let Cataloged { name, len_bytes: len, .. } = volume;
            if *id == 0 || *id >= self.next_volume {
                return Some(format!(
                    "volume {name} has number {id}, but the next number is {}",
                    self.next_volume
                ));
            }
            if name.is_empty() || name.len() > VOLUME_NAME_LEN_MAX || !names.insert(name) {
                return Some(format!("volume {id} has an empty, too long or duplicate name: {name}"));
            }
            if *len == 0 || *len > len_max || !len.is_multiple_of(BLOCK_BYTES.into()) {
                return Some(format!("volume {name} has an invalid size of {len} bytes"));
            }
        }
        for (key, bytes) in &self.records {
            if bytes.is_empty() || bytes.len() > RECORD_BYTES_MAX || key.len() > RECORD_NAME_LEN_MAX {
                return Some(format!("record {key} has an invalid length of {} bytes", bytes.len()));
            }
        }
        let records: u64 = self.records.iter().map(|(key, bytes)| record_size(key, bytes)).sum();
        if records > layout.records_max() || self.volumes.len() > layout.volumes_max() {
            return Some("more volumes or records than the pool's layout allows".to_owned());
        }
        self.thresholds.fault()
    }

    fn insert(&mut self, id: u32, volume: Cataloged) -> Result<(), String> {
        if self.volumes.insert(id, volume).is_some() {
            return Err(format!("a record creates volume {id}, which already exists"));
        }
        self.next_volume = self.next_volume.max(id.checked_add(1).ok_or("volume ids are exhausted")?);
        Ok(())
    }
}
