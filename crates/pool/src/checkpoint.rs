//! Checkpoints: the whole catalog as a stream of items, cut into blocks that each say what they are.
//!
//! A checkpoint is written from a snapshot in the background, one block at a time, while the pool goes on; its area is
//! not the one that counts until the superblock says so.

use block::{BlockError, Buf};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::PoolId;
use crate::catalog::{Catalog, Cataloged};
use crate::codec::{Put, Reader};
use crate::events::Thresholds;
use crate::layout::CHECKPOINT_BLOCK;
use crate::map::{LEAF_LEN, Map};
use crate::superblock::checksum;

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

/// The items of a catalog, each with its length before it. One leaf is the largest step.
pub(crate) fn items(catalog: &Catalog) -> impl Iterator<Item = Vec<u8>> + '_ {
    let mut pool = Vec::new();
    pool.put_u32(catalog.next_volume);
    pool.put_u8(catalog.thresholds.soft);
    pool.put_u8(catalog.thresholds.critical);
    let head = std::iter::once(item(ITEM_POOL, &pool));
    let volumes = catalog.volumes.iter().flat_map(|(id, v)| {
        let mut volume = Vec::new();
        volume.put_u32(*id);
        volume.put_u64(v.len_bytes);
        volume.put_u8(u8::from(v.thick) | u8::from(v.unfinished) << 1);
        volume.put_text(&v.name);
        std::iter::once(item(ITEM_VOLUME, &volume)).chain(leaves(*id, &v.map))
    });
    let records = catalog.records.iter().map(|(key, bytes)| {
        let mut record = Vec::new();
        record.put_text(key);
        record.put_blob(bytes);
        item(ITEM_RECORD, &record)
    });
    head.chain(volumes).chain(records).chain(std::iter::once(item(ITEM_END, &[])))
}

fn item(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(5 + payload.len());
    bytes.put_u32(payload.len() as u32);
    bytes.put_u8(kind);
    bytes.extend_from_slice(payload);
    bytes
}

/// The leaves of a map as runs: start within the leaf, count, first page.
fn leaves(volume: u32, map: &Map) -> impl Iterator<Item = Vec<u8>> + '_ {
    let mut entries = map.iter().peekable();
    std::iter::from_fn(move || {
        let leaf = entries.peek()?.0 / LEAF_LEN as u32;
        let mut runs: Vec<(u16, u16, u32)> = Vec::new();
        while let Some((index, page)) = entries.next_if(|e| e.0 / LEAF_LEN as u32 == leaf) {
            let start = (index % LEAF_LEN as u32) as u16;
            match runs.last_mut() {
                Some((s, n, p)) if *s + *n == start && *p + u32::from(*n) == page => *n += 1,
                _ => runs.push((start, 1, page)),
            }
        }
        let mut payload = Vec::new();
        payload.put_u32(volume);
        payload.put_u32(leaf);
        payload.put_u16(runs.len() as u16);
        for (start, count, page) in runs {
            payload.put_u16(start);
            payload.put_u16(count);
            payload.put_u32(page);
        }
        Some(item(ITEM_LEAF, &payload))
    })
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

    /// Takes an item.
    pub(crate) fn push(&mut self, item: &[u8]) {
        self.body.extend_from_slice(item);
    }

    /// The next full block; with `end` also the last one, which is not full.
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

    /// How many blocks there were.
    pub(crate) fn blocks(&self) -> u32 {
        self.index
    }
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
    pub(crate) fn new(pool_id: PoolId, generation: u64, pages: u32) -> Unpacker {
        let catalog = Catalog { pages, ..Catalog::default() };
        Unpacker { pool_id, generation, index: 0, rest: Vec::new(), catalog, ended: false }
    }

    fn corrupt(&self, cause: &str) -> BlockError {
        let place = format!("checkpoint {} of pool {}, block {}", self.generation, self.pool_id, self.index);
        BlockError::Corrupt { place, cause: cause.to_owned() }
    }

    /// Takes the next block.
    pub(crate) fn push(&mut self, block: &[u8]) -> Result<(), BlockError> {
        let (header, body) = Header::ref_from_prefix(block).map_err(|_| self.corrupt("it is cut short"))?;
        let mut unsummed = block.to_vec();
        unsummed[8..12].fill(0);
        if header.magic != MAGIC || checksum(&unsummed) != header.crc32c.get() {
            return Err(self.corrupt("the checksum does not fit"));
        }
        let is_mine = header.pool_id == self.pool_id.0 && header.generation.get() == self.generation;
        if !is_mine || header.index.get() != self.index {
            return Err(self.corrupt("it is a block of another place or time"));
        }
        let body =
            body.get(..header.body_len.get() as usize).ok_or_else(|| self.corrupt("its length is wrong"))?;
        self.rest.extend_from_slice(body);
        let mut taken = 0;
        while let Some(payload_len) = Reader::new(&self.rest[taken..]).u32() {
            let end = taken + 5 + payload_len as usize;
            if end > self.rest.len() {
                break;
            }
            let bytes = self.rest[taken + 4..end].to_vec();
            self.item(&bytes).ok_or_else(|| self.corrupt("an item makes no sense"))?;
            taken = end;
        }
        self.rest.drain(..taken);
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
                self.catalog.volumes.insert(id, volume);
            }
            ITEM_LEAF => {
                let (volume, leaf, runs) = (from.u32()?, from.u32()?, from.u16()?);
                let pages = self.catalog.pages;
                let map = &mut self.catalog.volumes.get_mut(&volume)?.map;
                for _ in 0..runs {
                    let (start, count, page) = (from.u16()?, from.u16()?, from.u32()?);
                    let fits = usize::from(start) + usize::from(count) <= LEAF_LEN
                        && page.checked_add(count.into()).is_some_and(|end| end <= pages);
                    let base = leaf.checked_mul(LEAF_LEN as u32)?.checked_add(start.into())?;
                    fits.then_some(())?;
                    for i in 0..u32::from(count) {
                        map.set(base + i, Some(page + i));
                    }
                }
            }
            ITEM_RECORD => drop(self.catalog.records.insert(from.text()?, from.blob()?)),
            ITEM_END => self.ended = true,
            _ => return None,
        }
        Some(())
    }

    /// The catalog, when its end was among the blocks.
    pub(crate) fn finish(self) -> Result<Catalog, BlockError> {
        if !self.ended || !self.rest.is_empty() {
            return Err(self.corrupt("the end is missing"));
        }
        Ok(self.catalog)
    }
}
