//! Checkpoints: the whole catalog as a stream of items, split into self-describing blocks.
//!
//! A checkpoint is written from a snapshot in the background, one block at a time, while the pool continues.
//! Its area is in force only when the superblock names it.

use block::{BlockError, Buf};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::PoolId;
use crate::catalog::{Catalog, Cataloged};
use crate::codec::{Put, Reader};
use crate::events::Thresholds;
use crate::layout::CHECKPOINT_BLOCK;
use crate::layout::RECORD_BYTES_MAX;
use crate::map::{LEAF_LEN, Map};
use crate::superblock::{checksum, checksum_without};

const MAGIC: [u8; 8] = *b"MASUCKPT";
const HEADER_LEN: usize = 64;
const BODY_MAX: usize = CHECKPOINT_BLOCK as usize - HEADER_LEN;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Header {
    magic: [u8; 8],
    crc32c: U32,
    body_len: U32,
    pool_id: [u8; 16],
    generation: U64,
    index: U32,
    reserved: [u8; 20],
}

const _: () = assert!(size_of::<Header>() == HEADER_LEN);

const ITEM_POOL: u8 = 1;
const ITEM_VOLUME: u8 = 2;
const ITEM_LEAF: u8 = 3;
const ITEM_RECORD: u8 = 4;
const ITEM_END: u8 = 5;
const ITEM_LEN_MAX: usize = RECORD_BYTES_MAX + (64 << 10) + 6;

/// Encoded in one step: at most a leaf or a record.
pub(crate) enum Item<'a> {
    Pool(&'a Catalog),
    Volume(u32, &'a Cataloged),
    Leaf(u32, &'a Map, usize),
    Record(&'a str, &'a [u8]),
    End,
}

/// The items of a catalog in stream order.
pub(crate) fn items(catalog: &Catalog) -> impl Iterator<Item = Item<'_>> {
    let volumes = catalog.volumes.iter().flat_map(|(id, v)| {
        let leaves = (0..v.map.leaves()).map(|leaf| Item::Leaf(*id, &v.map, leaf));
        std::iter::once(Item::Volume(*id, v)).chain(leaves)
    });
    let records = catalog.records.iter().map(|(key, bytes)| Item::Record(key, bytes));
    std::iter::once(Item::Pool(catalog)).chain(volumes).chain(records).chain(std::iter::once(Item::End))
}

impl Item<'_> {
    /// Appends the item with its length and kind; nothing for a leaf without pages.
    fn encode(&self, to: &mut Vec<u8>) {
        let begin = to.len();
        to.put_u32(0);
        match self {
            Item::Pool(catalog) => {
                to.put_u8(ITEM_POOL);
                to.put_u32(catalog.next_volume);
                to.put_u8(catalog.thresholds.soft);
                to.put_u8(catalog.thresholds.critical);
            }
            Item::Volume(id, v) => {
                to.put_u8(ITEM_VOLUME);
                to.put_u32(*id);
                to.put_u64(v.len_bytes);
                to.put_u8(u8::from(v.thick) | u8::from(v.unfinished) << 1);
                to.put_text(&v.name);
            }
            Item::Leaf(volume, map, leaf) => {
                if !encode_leaf(*volume, map, *leaf, to) {
                    return to.truncate(begin);
                }
            }
            Item::Record(key, bytes) => {
                to.put_u8(ITEM_RECORD);
                to.put_text(key);
                to.put_blob(bytes);
            }
            Item::End => to.put_u8(ITEM_END),
        }
        let len = (to.len() - begin - 5) as u32;
        to[begin..begin + 4].copy_from_slice(&len.to_le_bytes());
    }
}

/// Encodes a leaf as runs: start within the leaf, count, first page. Returns whether there are any.
fn encode_leaf(volume: u32, map: &Map, leaf: usize, to: &mut Vec<u8>) -> bool {
    to.put_u8(ITEM_LEAF);
    to.put_u32(volume);
    to.put_u32(leaf as u32);
    let count_at = to.len();
    to.put_u16(0);
    let mut runs = 0_u16;
    for (start, count, page) in map.runs(leaf) {
        runs += 1;
        to.put_u16(start);
        to.put_u16(count);
        to.put_u32(page);
    }
    to[count_at..count_at + 2].copy_from_slice(&runs.to_le_bytes());
    runs > 0
}

/// Fills blocks with the stream of items.
pub(crate) struct Packer {
    pool_id: PoolId,
    generation: u64,
    index: u32,
    body: Vec<u8>,
}

impl Packer {
    pub(crate) fn new(pool_id: PoolId, generation: u64) -> Packer {
        Packer { pool_id, generation, index: 0, body: Vec::with_capacity(2 * BODY_MAX) }
    }

    /// Appends an item.
    pub(crate) fn push(&mut self, item: &Item<'_>) {
        item.encode(&mut self.body);
    }

    /// The next full block; with `end` also the last, partial one.
    pub(crate) fn block(&mut self, end: bool) -> Option<(u32, Buf)> {
        if self.body.is_empty() || (self.body.len() < BODY_MAX && !end) {
            return None;
        }
        let len = self.body.len().min(BODY_MAX);
        let mut header = Header {
            magic: MAGIC,
            crc32c: 0.into(),
            body_len: (len as u32).into(),
            pool_id: self.pool_id.0,
            generation: self.generation.into(),
            index: self.index.into(),
            reserved: [0; 20],
        };
        let mut buf = Buf::new(CHECKPOINT_BLOCK as usize);
        buf[HEADER_LEN..HEADER_LEN + len].copy_from_slice(&self.body[..len]);
        buf[HEADER_LEN + len..].fill(0);
        buf[..HEADER_LEN].copy_from_slice(header.as_bytes());
        header.crc32c = checksum(&buf).into();
        buf[..HEADER_LEN].copy_from_slice(header.as_bytes());
        self.body.drain(..len);
        let index = self.index;
        self.index += 1;
        Some((index, buf))
    }

    /// The number of blocks so far.
    pub(crate) fn blocks(&self) -> u32 {
        self.index
    }
}

/// The stream part of a block, if it is a valid block with this index of this checkpoint.
pub(crate) fn block_body(
    pool_id: PoolId,
    generation: u64,
    index: u32,
    block: &[u8],
) -> Result<&[u8], &'static str> {
    let (header, body) = Header::ref_from_prefix(block).map_err(|_| "truncated")?;
    if header.magic != MAGIC || checksum_without(block, 8) != header.crc32c.get() {
        return Err("checksum mismatch");
    }
    let is_mine = header.pool_id == pool_id.0 && header.generation.get() == generation;
    if !is_mine || header.index.get() != index {
        return Err("block of another position or generation");
    }
    body.get(..header.body_len.get() as usize).ok_or("invalid length")
}

/// Rebuilds a catalog from the blocks of a checkpoint.
pub(crate) struct Unpacker {
    pool_id: PoolId,
    generation: u64,
    index: u32,
    rest: Vec<u8>,
    catalog: Catalog,
    ended: bool,
}

impl Unpacker {
    /// For a pool with this many pages and room for this many map entries.
    pub(crate) fn new(pool_id: PoolId, generation: u64, pages: u32, entries_max: u64) -> Unpacker {
        let catalog = Catalog { pages, entries_max, ..Catalog::default() };
        Unpacker { pool_id, generation, index: 0, rest: Vec::new(), catalog, ended: false }
    }

    fn corrupt(&self, cause: &str) -> BlockError {
        let place = format!("checkpoint {} of pool {}, block {}", self.generation, self.pool_id, self.index);
        BlockError::Corrupt { place, cause: cause.to_owned() }
    }

    /// Reads the next block.
    pub(crate) fn push(&mut self, block: &[u8]) -> Result<(), BlockError> {
        let body = block_body(self.pool_id, self.generation, self.index, block)
            .map_err(|cause| self.corrupt(cause))?;
        let mut stream = std::mem::take(&mut self.rest);
        stream.extend_from_slice(body);
        let mut taken = 0;
        while let Some(payload_len) = Reader::new(&stream[taken..]).u32() {
            // The longest items are leaves and records; a longer one would be collected without end.
            if payload_len as usize > ITEM_LEN_MAX {
                return Err(self.corrupt("an item is too long"));
            }
            let end = taken + 5 + payload_len as usize;
            let Some(item) = stream.get(taken + 4..end) else { break };
            self.item(item).ok_or_else(|| self.corrupt("invalid item"))?;
            taken = end;
        }
        stream.drain(..taken);
        self.rest = stream;
        self.index += 1;
        Ok(())
    }

    fn item(&mut self, bytes: &[u8]) -> Option<()> {
        let mut from = Reader::new(bytes);
        match from.u8()? {
            ITEM_POOL => {
                self.catalog.next_volume = from.u32()?;
                self.catalog.thresholds = Thresholds { soft: from.u8()?, critical: from.u8()? };
            }
            ITEM_VOLUME => {
                let (id, len_bytes, flags) = (from.u32()?, from.u64()?, from.u8()?);
                let (thick, unfinished) = (flags & 1 != 0, flags & 2 != 0);
                let volume =
                    Cataloged { name: from.text()?, len_bytes, thick, unfinished, map: Map::default() };
                // A number must not appear twice.
                self.catalog.volumes.insert(id, volume).is_none().then_some(())?;
            }
            ITEM_LEAF => self.leaf(&mut from)?,
            ITEM_RECORD => drop(self.catalog.records.insert(from.text()?, from.blob()?.into())),
            ITEM_END => self.ended = true,
            _ => return None,
        }
        Some(())
    }

    fn leaf(&mut self, from: &mut Reader<'_>) -> Option<()> {
        let (volume, leaf, runs) = (from.u32()?, from.u32()?, from.u16()?);
        for _ in 0..runs {
            let (start, count, page) = (from.u16()?, from.u16()?, from.u32()?);
            let fits = usize::from(start) + usize::from(count) <= LEAF_LEN;
            let base = leaf.checked_mul(LEAF_LEN as u32)?.checked_add(start.into())?;
            fits.then_some(())?;
            self.catalog.map(volume, base, count.into(), page).ok()?;
        }
        Some(())
    }

    /// The catalog, if the end was among the blocks.
    pub(crate) fn finish(self) -> Result<Catalog, BlockError> {
        if !self.ended || !self.rest.is_empty() {
            return Err(self.corrupt("end of the checkpoint missing"));
        }
        Ok(self.catalog)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catalog_reads_back_and_no_cut_or_flip_does() {
        let mut catalog = Catalog { next_volume: 9, pages: 1 << 20, ..Catalog::default() };
        catalog.thresholds = Thresholds { soft: 70, critical: 90 };
        let mut map = Map::default();
        map.set_run(1000, 3000, 77);
        (0..3000).for_each(|i| _ = map.set(2_000_000 + 7 * i, Some(i * 97 % 4001)));
        let volume = Cataloged {
            name: "ü".into(),
            len_bytes: 1 << 42,
            thick: true,
            unfinished: false,
            map: map.clone(),
        };
        catalog.volumes.insert(3, volume);
        catalog.records.insert("p/a".into(), vec![5; 60_000].into());
        catalog.records.insert("v3/pr".into(), vec![6; 64 << 10].into());
        let id = PoolId([7; 16]);
        let mut packer = Packer::new(id, 4);
        let mut blocks = Vec::new();
        for item in items(&catalog) {
            packer.push(&item);
            blocks.extend(std::iter::from_fn(|| packer.block(false)));
        }
        blocks.extend(std::iter::from_fn(|| packer.block(true)));
        assert_eq!(blocks.len(), packer.blocks() as usize);
        let read = |change: &dyn Fn(&mut Vec<Vec<u8>>)| {
            let mut bytes: Vec<Vec<u8>> = blocks.iter().map(|(_, b)| b.to_vec()).collect();
            change(&mut bytes);
            let mut unpacker = Unpacker::new(id, 4, 1 << 20, 1 << 20);
            bytes.iter().try_for_each(|b| unpacker.push(b))?;
            unpacker.finish()
        };
        let back = read(&|_| {}).expect("whole");
        assert_eq!(
            (back.next_volume, back.thresholds, &back.records),
            (9, catalog.thresholds, &catalog.records)
        );
        assert!(back.volumes[&3].map.iter().eq(map.iter()) && back.volumes[&3].map.mapped() == 6000);
        assert!(read(&|b| drop(b.pop())).is_err());
        assert!(read(&|b| b.swap(0, 1)).is_err());
        for at in [9, 40, 70, 5000, 131_071] {
            assert!(read(&|b| b[0][at] ^= 1).is_err(), "{at}");
        }
    }
}
