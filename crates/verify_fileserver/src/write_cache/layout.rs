//! Where the server's file system keeps things on its disk, and what they look like.
//!
//! ```text
//!   | superblock | log | table of files | pages of a database | slots for the files' data |
//! ```

/// The unit of everything.
pub(super) const BLOCK_BYTES: usize = 4096;
const SECTOR_BYTES: usize = 512;
/// Files that are written whole, each time to another place.
pub(super) const FILES: u32 = 64;
/// Pages that are overwritten in place.
pub(super) const PAGES: u32 = 64;
pub(super) const FILE_BLOCKS: usize = 4;
/// Twice as many places as files: a new version never lies where the last one that is durable does.
pub(super) const SLOTS: u32 = 2 * FILES;
pub(super) const LOG_BLOCKS: u64 = 64;
const RECORDS_PER_BLOCK: usize = BLOCK_BYTES / SECTOR_BYTES;
pub(super) const TABLE_BLOCKS: usize = FILES as usize / RECORDS_PER_BLOCK;
const LOG_AT: u64 = 1;
const TABLE_AT: u64 = LOG_AT + LOG_BLOCKS;
const PAGES_AT: u64 = TABLE_AT + TABLE_BLOCKS as u64;
const SLOTS_AT: u64 = PAGES_AT + PAGES as u64;
/// What the disk must have at least.
pub(super) const DISK_BYTES: u64 =
    (SLOTS_AT + SLOTS as u64 * FILE_BLOCKS as u64).next_multiple_of(512) * BLOCK_BYTES as u64;

const MAGIC: u64 = u64::from_be_bytes(*b"wcachefs");

fn byte(block: u64) -> u64 {
    block * BLOCK_BYTES as u64
}

pub(super) fn log_at(block: u64) -> u64 {
    byte(LOG_AT + block)
}

pub(super) fn table_at(block: usize) -> u64 {
    byte(TABLE_AT + block as u64)
}

pub(super) fn page_at(page: u32) -> u64 {
    byte(PAGES_AT + u64::from(page))
}

pub(super) fn slot_at(slot: u32) -> u64 {
    byte(SLOTS_AT + u64::from(slot) * FILE_BLOCKS as u64)
}

/// A file, as the table has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// 0: the file was never written.
    pub(super) version: u64,
    pub(super) slot: u32,
}

fn put(block: &mut [u8], at: usize, value: u64) {
    block[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn get(block: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*block[at..].first_chunk().expect("within a block"))
}

/// The part of a table that one block has.
pub(super) fn table_block(records: &[Record], number: usize) -> Vec<u8> {
    let mut block = vec![0; BLOCK_BYTES];
    let part = &records[number * RECORDS_PER_BLOCK..][..RECORDS_PER_BLOCK];
    for (sector, record) in block.chunks_mut(SECTOR_BYTES).zip(part) {
        put(sector, 0, record.version);
        put(sector, 8, record.slot.into());
    }
    block
}

pub(super) fn records_of(block: &[u8]) -> impl Iterator<Item = Record> + '_ {
    block
        .chunks(SECTOR_BYTES)
        .map(|sector| Record { version: get(sector, 0), slot: (get(sector, 8) % u64::from(SLOTS)) as u32 })
}

/// In which block of the table a file is.
pub(super) fn table_block_of(file: u32) -> usize {
    file as usize / RECORDS_PER_BLOCK
}

/// From where the log is replayed: a block of the log, and the number of the transaction there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail {
    pub(super) block: u64,
    pub(super) sequence: u64,
}

/// A sum over 64-bit words (FNV-1a): it tells a block that was written from one that was not.
fn sum(bytes: &[u8]) -> u64 {
    world::fnv1a(bytes.iter().copied())
}

pub(super) fn superblock(tail: Tail) -> Vec<u8> {
    let mut block = vec![0; BLOCK_BYTES];
    put(&mut block, 0, MAGIC);
    put(&mut block, 8, tail.block);
    put(&mut block, 16, tail.sequence);
    let sum = sum(&block[..24]);
    put(&mut block, 24, sum);
    block
}

pub(super) fn tail_of(block: &[u8]) -> Option<Tail> {
    let is_whole = get(block, 0) == MAGIC && get(block, 24) == sum(&block[..24]);
    let tail = Tail { block: get(block, 8), sequence: get(block, 16) };
    (is_whole && tail.block < LOG_BLOCKS).then_some(tail)
}

/// A transaction without its commit: a descriptor, and the new blocks of the table.
pub(super) fn transaction(sequence: u64, blocks: &[(usize, Vec<u8>)]) -> Vec<u8> {
    let mut descriptor = vec![0; BLOCK_BYTES];
    put(&mut descriptor, 0, MAGIC);
    put(&mut descriptor, 8, sequence);
    put(&mut descriptor, 16, blocks.len() as u64);
    for (place, (number, _)) in blocks.iter().enumerate() {
        put(&mut descriptor, 24 + 8 * place, *number as u64);
    }
    blocks.iter().fold(descriptor, |mut all, (_, block)| {
        all.extend(block);
        all
    })
}

/// Which blocks of the table a transaction has, if this is the beginning of that one.
pub(super) fn described(block: &[u8], sequence: u64) -> Option<Vec<usize>> {
    let count = get(block, 16) as usize;
    let is_it = get(block, 0) == MAGIC && get(block, 8) == sequence && count <= TABLE_BLOCKS;
    let numbers = || (0..count).map(|place| get(block, 24 + 8 * place) as usize).collect::<Vec<usize>>();
    is_it.then(numbers).filter(|numbers| numbers.iter().all(|number| *number < TABLE_BLOCKS))
}

/// What makes a transaction valid.
pub(super) fn commit(transaction: &[u8]) -> Vec<u8> {
    let mut block = vec![0; BLOCK_BYTES];
    put(&mut block, 0, !MAGIC);
    put(&mut block, 8, sum(transaction));
    block
}

pub(super) fn is_commit_of(block: &[u8], transaction: &[u8]) -> bool {
    get(block, 0) == !MAGIC && get(block, 8) == sum(transaction)
}

/// What `blocks` blocks of an object hold in this version: each sector says whose it is.
pub(super) fn content(object: u64, version: u64, blocks: usize) -> Vec<u8> {
    let mut bytes = vec![0; blocks * BLOCK_BYTES];
    for (number, sector) in bytes.chunks_mut(SECTOR_BYTES).enumerate() {
        put(sector, 0, object);
        put(sector, 8, version);
        put(sector, 16, number as u64);
        sector[24..].fill(version as u8);
    }
    bytes
}

/// The version of each sector, or none where it is no sector of this object. A sector of zeros was never
/// written: version 0.
pub(super) fn versions(object: u64, bytes: &[u8]) -> impl Iterator<Item = Option<u64>> + '_ {
    bytes.chunks(SECTOR_BYTES).enumerate().map(move |(number, sector)| {
        if sector.iter().all(|byte| *byte == 0) {
            return Some(0);
        }
        let version = get(sector, 8);
        let is_whole = get(sector, 0) == object
            && get(sector, 16) == number as u64
            && sector[24..].iter().all(|byte| *byte == version as u8);
        is_whole.then_some(version)
    })
}

/// Names of objects: those of files, then those of pages.
pub(super) fn file_object(file: u32) -> u64 {
    1 + u64::from(file)
}

pub(super) fn page_object(page: u32) -> u64 {
    1 + u64::from(FILES + page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_recognised_and_nothing_else_is() {
        let tail = Tail { block: 3, sequence: 9 };
        let mut block = superblock(tail);
        assert_eq!(tail_of(&block), Some(tail));
        block[9] ^= 1;
        assert_eq!(tail_of(&block), None);

        let records: Vec<Record> =
            (0..FILES).map(|file| Record { version: file.into(), slot: file + 1 }).collect();
        let table = table_block(&records, 2);
        assert!(records_of(&table).eq(records[16..24].iter().copied()));
        let written = transaction(7, &[(2, table)]);
        assert_eq!(described(&written, 7), Some(vec![2]));
        assert_eq!(described(&written, 8), None);
        assert!(is_commit_of(&commit(&written), &written));
        assert!(!is_commit_of(&commit(&written[..BLOCK_BYTES]), &written));
    }

    #[test]
    fn sectors_say_whose_they_are() {
        let mut bytes = content(5, 3, 1);
        assert!(versions(5, &bytes).all(|version| version == Some(3)));
        assert!(versions(6, &bytes).all(|version| version.is_none()));
        bytes[512..1024].fill(0);
        assert!(versions(5, &bytes).any(|version| version == Some(0)));
        bytes[600] = 9;
        assert!(versions(5, &bytes).any(|version| version.is_none()));
    }
}
