//! The second level: a read cache on an SSD for frames evicted from memory.
//!
//! ```text
//!   frames ──evicted from the main queues──> gathering (256 blocks) ──one write──> the drive, chunk after chunk, as a ring
//!   read: index ──slot──> the drive ──checksum──> the reader, and frames
//! ```
//!
//! Its content is expendable: the index is in memory only, so after a restart the level is empty and cannot
//! return old data. A changed block leaves the index before the change is acknowledged. The blocks of a chunk
//! leave the index before the chunk is overwritten; a concurrent reader detects the wrong checksum and reads
//! the store. A failed drive disables the level.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use block::{Buf, Data};
use crc_fast::{CrcAlgorithm, checksum};
use world::{Drive, World};

use crate::frames::{FRAME_BYTES, Key, UnitId};

/// Blocks that are written together: 1 MiB.
pub(crate) const CHUNK_BLOCKS: usize = 256;

/// Counters of a second level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct SecondCounts {
    /// Capacity in blocks.
    pub capacity: u64,
    /// Stored blocks.
    pub blocks: u64,
    pub hits: u64,
    pub misses: u64,
    /// Blocks written to the drive.
    pub written: u64,
    /// Disabled, because its drive failed.
    pub failed: bool,
}

#[derive(Clone, Copy)]
struct Slot {
    number: u32,
    sum: u32,
}

#[derive(Default)]
struct Books {
    index: BTreeMap<Key, Slot>,
    /// The block in each slot, if valid.
    owners: Vec<Option<Key>>,
    /// The blocks of the next chunk.
    gathering: Vec<(Key, Data)>,
    /// The blocks being written to the drive; `None` if changed meanwhile.
    writing: Vec<Option<Key>>,
    next_chunk: usize,
}

/// A second level on one drive.
pub(crate) struct SecondLevel {
    world: World,
    drive: Drive,
    /// Where the level begins on the drive.
    from: u64,
    books: RefCell<Books>,
    busy: Cell<bool>,
    counts: Cell<SecondCounts>,
}

fn sum_of(block: &[u8]) -> u32 {
    checksum(CrcAlgorithm::Crc32Iscsi, block) as u32
}

impl SecondLevel {
    /// An empty level over all of the drive from this byte on; `None` if that is too small for two chunks.
    pub(crate) fn new(world: World, drive: Drive, from: u64) -> Option<Rc<SecondLevel>> {
        let len = drive.info().len_bytes.saturating_sub(from);
        let chunks = len as usize / FRAME_BYTES / CHUNK_BLOCKS;
        // A slot's number has 32 bits.
        let slots = chunks.min(u32::MAX as usize / CHUNK_BLOCKS) * CHUNK_BLOCKS;
        let books = Books { owners: vec![None; slots], ..Books::default() };
        let counts = SecondCounts { capacity: slots as u64, ..SecondCounts::default() };
        let level = SecondLevel {
            world,
            drive,
            from,
            books: RefCell::new(books),
            busy: Cell::new(false),
            counts: Cell::new(counts),
        };
        (chunks >= 2).then(|| Rc::new(level))
    }

    pub(crate) fn counts(&self) -> SecondCounts {
        SecondCounts { blocks: self.books.borrow().index.len() as u64, ..self.counts.get() }
    }

    fn count(&self, change: impl FnOnce(&mut SecondCounts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    /// Accepts evicted frames; more than one chunk is refused while another is written.
    pub(crate) fn offer(self: &Rc<Self>, key: Key, data: Data) {
        let mut books = self.books.borrow_mut();
        if self.counts.get().failed || books.gathering.len() == CHUNK_BLOCKS || books.index.contains_key(&key)
        {
            return;
        }
        books.gathering.push((key, data));
        if books.gathering.len() == CHUNK_BLOCKS && !self.busy.replace(true) {
            self.world.spawn(write_chunk_task(self.clone()));
        }
    }

    /// Invalidates blocks that are being changed.
    pub(crate) fn drop_range(&self, unit: UnitId, blocks: Range<u64>) {
        let mut books = self.books.borrow_mut();
        let Books { index, owners, gathering, writing, .. } = &mut *books;
        let inside = |key: &Key| key.unit == unit && blocks.contains(&key.block);
        let keys = Key { unit, block: blocks.start }..Key { unit, block: blocks.end };
        let gone: Vec<Key> = index.range(keys).map(|(key, _)| *key).collect();
        for key in gone {
            if let Some(slot) = index.remove(&key) {
                owners[slot.number as usize] = None;
            }
        }
        gathering.retain(|(key, _)| !inside(key));
        writing.iter_mut().filter(|key| key.as_ref().is_some_and(inside)).for_each(|key| *key = None);
    }

    /// Whether the block is stored; counts a hit or miss.
    pub(crate) fn holds(&self, key: Key) -> bool {
        let found = self.is_held(key);
        self.count(|c| if found { c.hits += 1 } else { c.misses += 1 });
        found
    }

    /// Whether the block is stored.
    pub(crate) fn is_held(&self, key: Key) -> bool {
        self.books.borrow().index.contains_key(&key)
    }

    /// The content of a block, if it is still stored and its checksum is correct.
    pub(crate) async fn read(&self, key: Key) -> Option<Data> {
        let slot = self.books.borrow().index.get(&key).copied()?;
        let at = self.from + u64::from(slot.number) * FRAME_BYTES as u64;
        let filled = self.drive.read(at, Buf::new(FRAME_BYTES)).await;
        match filled.result {
            Ok(()) if sum_of(&filled.buf) == slot.sum => Some(filled.buf.freeze()),
            Ok(()) => None,
            Err(_) => {
                self.fail();
                None
            }
        }
    }

    fn fail(&self) {
        self.count(|c| c.failed = true);
        let mut books = self.books.borrow_mut();
        books.index.clear();
        books.gathering.clear();
    }

    /// Takes the gathered blocks, and invalidates the old blocks of their chunk.
    fn begin_chunk(&self) -> (usize, Vec<(Key, Data)>) {
        let mut books = self.books.borrow_mut();
        let first = books.next_chunk * CHUNK_BLOCKS;
        books.next_chunk = (books.next_chunk + 1) % (books.owners.len() / CHUNK_BLOCKS);
        for slot in first..first + CHUNK_BLOCKS {
            if let Some(key) = books.owners[slot].take() {
                books.index.remove(&key);
            }
        }
        let blocks = std::mem::take(&mut books.gathering);
        books.writing = blocks.iter().map(|(key, _)| Some(*key)).collect();
        (first, blocks)
    }

    async fn write_chunk(&self) {
        let (first, blocks) = self.begin_chunk();
        let mut buf = Buf::new(blocks.len() * FRAME_BYTES);
        for (to, (_, data)) in buf.chunks_exact_mut(FRAME_BYTES).zip(&blocks) {
            to.copy_from_slice(data);
        }
        let written = self.drive.write(self.from + (first * FRAME_BYTES) as u64, buf.freeze()).await;
        if written.is_err() {
            self.fail();
            return;
        }
        self.count(|c| c.written += blocks.len() as u64);
        let mut books = self.books.borrow_mut();
        let kept = std::mem::take(&mut books.writing);
        for (slot, (key, (_, data))) in (first..).zip(kept.into_iter().zip(&blocks)) {
            let Some(key) = key else { continue };
            books.owners[slot] = Some(key);
            books.index.insert(key, Slot { number: slot as u32, sum: sum_of(data) });
        }
    }
}

async fn write_chunk_task(level: Rc<SecondLevel>) {
    while level.books.borrow().gathering.len() == CHUNK_BLOCKS {
        level.write_chunk().await;
    }
    level.busy.set(false);
}
