//! The superblock of a pool: in two slots on every group, so that one is valid after any torn write.

use block::{Buf, Pieces};
use crc_fast::CrcAlgorithm::Crc32Iscsi;
use raid::GroupId;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::PoolId;
use crate::layout::{GROUPS_MAX, HOLDERS_MAX, Layout, METADATA_BLOCK, PAGE_BYTES_MAX, PAGE_BYTES_MIN};
use crate::table::{GroupEntry, Table};

const MAGIC: [u8; 8] = *b"MASUPOOL";
/// The version that is written; no other is read.
pub(crate) const VERSION: u32 = 2;
/// The longest name of a pool in bytes: the superblock's field.
pub(crate) const NAME_LEN_MAX: usize = 64;
const LEN: usize = METADATA_BLOCK as usize;
const FIXED_LEN: usize = 168 + 48 * GROUPS_MAX;
/// No second holder.
const NO_HOLDER: u32 = u32::MAX;
const STATE_EVACUATING: u32 = 1;
/// Generations and commits must stay below this, so that they never overflow; decoded values are checked.
const COUNTER_END: u64 = 1 << 62;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Entry {
    group_id: [u8; 16],
    pages_at: U64,
    stride: U64,
    first_page: U32,
    pages: U32,
    state: U32,
    reserved: U32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Format {
    magic: [u8; 8],
    version: U32,
    crc32c: U32,
    pool_id: [u8; 16],
    generation: U64,
    sequence: U64,
    page_bytes: U64,
    group_index: U32,
    group_count: U32,
    holders: [U32; HOLDERS_MAX],
    checkpoint_blocks: U32,
    next_page: U32,
    journal_half: U64,
    checkpoint_area: U64,
    names_bytes: U64,
    name: [u8; NAME_LEN_MAX],
    groups: [Entry; GROUPS_MAX],
    reserved: [u8; LEN - FIXED_LEN],
}

const _: () = assert!(size_of::<Format>() == LEN);

/// The content of a superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) pool_id: PoolId,
    pub(crate) name: String,
    /// The checkpoint in force, and the journal half that follows it.
    pub(crate) generation: u64,
    /// The last commit in the checkpoint.
    pub(crate) sequence: u64,
    /// 0 while the pool is being created, and on a group that is being added.
    pub(crate) checkpoint_blocks: u32,
    pub(crate) page_bytes: u64,
    /// The position in the table of the group with this superblock.
    pub(crate) group_index: u32,
    pub(crate) layout: Layout,
    pub(crate) table: Table,
}

impl Superblock {
    /// Encodes the superblock.
    pub(crate) fn encode(&self) -> Pieces {
        let mut name = [0; NAME_LEN_MAX];
        name[..self.name.len()].copy_from_slice(self.name.as_bytes());
        let holder = |i: usize| self.table.holders.get(i).copied().unwrap_or(NO_HOLDER).into();
        let mut format = Format {
            magic: MAGIC,
            version: VERSION.into(),
            crc32c: 0.into(),
            pool_id: self.pool_id.0,
            generation: self.generation.into(),
            sequence: self.sequence.into(),
            page_bytes: self.page_bytes.into(),
            group_index: self.group_index.into(),
            group_count: (self.table.groups.len() as u32).into(),
            holders: std::array::from_fn(holder),
            checkpoint_blocks: self.checkpoint_blocks.into(),
            next_page: self.table.next_page.into(),
            journal_half: self.layout.journal_half.into(),
            checkpoint_area: self.layout.checkpoint_area.into(),
            names_bytes: self.layout.names_bytes.into(),
            name,
            groups: std::array::from_fn(|i| self.table.groups.get(i).map_or_else(Entry::none, Entry::of)),
            reserved: [0; LEN - FIXED_LEN],
        };
        format.crc32c = checksum(format.as_bytes()).into();
        Buf::copy_of(format.as_bytes()).freeze().into()
    }

    /// The version of a valid superblock that a newer masu wrote. The fields before the checksum, and its
    /// computation, are the same in all later versions.
    pub(crate) fn newer_version(bytes: &[u8]) -> Option<u32> {
        let (format, _) = Format::ref_from_prefix(bytes).ok()?;
        let version = format.version.get();
        let newer = format.magic == MAGIC && version > VERSION;
        (newer && checksum_without(&bytes[..LEN], 12) == format.crc32c.get()).then_some(version)
    }

    /// Decodes a valid superblock.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Superblock> {
        let (format, _) = Format::ref_from_prefix(bytes).ok()?;
        if format.magic != MAGIC || format.version.get() != VERSION {
            return None;
        }
        if checksum_without(&bytes[..LEN], 12) != format.crc32c.get() {
            return None;
        }
        let name_len = format.name.iter().position(|&b| b == 0).unwrap_or(NAME_LEN_MAX);
        let entries = format.groups.get(..format.group_count.get() as usize)?;
        let holders = format.holders.iter().map(|h| h.get()).filter(|h| *h != NO_HOLDER);
        let superblock = Superblock {
            pool_id: PoolId(format.pool_id),
            name: String::from_utf8(format.name[..name_len].to_vec()).ok()?,
            generation: format.generation.get(),
            sequence: format.sequence.get(),
            checkpoint_blocks: format.checkpoint_blocks.get(),
            page_bytes: format.page_bytes.get(),
            group_index: format.group_index.get(),
            layout: Layout {
                journal_half: format.journal_half.get(),
                checkpoint_area: format.checkpoint_area.get(),
                names_bytes: format.names_bytes.get(),
            },
            table: Table {
                groups: entries.iter().map(Entry::decode).collect(),
                holders: holders.collect(),
                next_page: format.next_page.get(),
            },
        };
        superblock.makes_sense().then_some(superblock)
    }

    fn makes_sense(&self) -> bool {
        self.page_bytes.is_power_of_two()
            && (PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&self.page_bytes)
            && (self.group_index as usize) < self.table.groups.len()
            && self.layout.is_sound()
            && self.table.is_sound(self.page_bytes)
            && self.generation.max(self.sequence) < COUNTER_END
            // Pages within the metadata would be overwritten.
            && self.table.groups.iter().all(|g| g.pages_at >= self.layout.metadata_end())
    }

    /// Whether it belongs to the same pool; its table may be older.
    pub(crate) fn is_of(&self, reference: &Superblock) -> bool {
        self.pool_id == reference.pool_id
            && self.page_bytes == reference.page_bytes
            && self.layout == reference.layout
    }

    /// The superblock for another group of the same pool.
    pub(crate) fn of_group(&self, group_index: u32) -> Superblock {
        Superblock { group_index, ..self.clone() }
    }
}

impl Entry {
    fn of(group: &GroupEntry) -> Entry {
        Entry {
            group_id: group.group_id.0,
            pages_at: group.pages_at.into(),
            stride: group.stride.into(),
            first_page: group.first_page.into(),
            pages: group.pages.into(),
            state: if group.evacuating { STATE_EVACUATING } else { 0 }.into(),
            reserved: 0.into(),
        }
    }

    fn none() -> Entry {
        Entry {
            group_id: [0; 16],
            pages_at: 0.into(),
            stride: 0.into(),
            first_page: 0.into(),
            pages: 0.into(),
            state: 0.into(),
            reserved: 0.into(),
        }
    }

    fn decode(&self) -> GroupEntry {
        GroupEntry {
            group_id: GroupId(self.group_id),
            pages_at: self.pages_at.get(),
            stride: self.stride.get(),
            first_page: self.first_page.get(),
            pages: self.pages.get(),
            evacuating: self.state.get() & STATE_EVACUATING != 0,
        }
    }
}

pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(Crc32Iscsi, bytes) as u32
}

/// The checksum of a structure with its checksum field, four bytes at `field`, as zero.
pub(crate) fn checksum_without(bytes: &[u8], field: usize) -> u32 {
    let mut digest = crc_fast::Digest::new(Crc32Iscsi);
    digest.update(&bytes[..field]);
    digest.update(&[0; 4]);
    digest.update(&bytes[field + 4..]);
    digest.finalize() as u32
}
