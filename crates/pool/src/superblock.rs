//! The superblock of a pool: on every group in two slots, so that one is whole whatever is torn.

use block::{Buf, Pieces};
use crc_fast::CrcAlgorithm::Crc32Iscsi;
use raid::GroupId;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::PoolId;
use crate::layout::{
    GROUPS_MAX, Layout, METADATA_BLOCK, METADATA_COPIES_MAX, PAGE_BYTES_MAX, PAGE_BYTES_MIN,
};

const MAGIC: [u8; 8] = *b"MASUPOOL";
const VERSION: u32 = 1;
/// The longest name of a pool in bytes: the superblock's field.
pub(crate) const NAME_LEN_MAX: usize = 64;
const LEN: usize = METADATA_BLOCK as usize;
const FIXED_LEN: usize = 152 + 32 * GROUPS_MAX;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Entry {
    group_id: [u8; 16],
    pages_at: U64,
    first_page: U32,
    pages: U32,
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
    metadata_copies: U32,
    checkpoint_blocks: U32,
    journal_half: U64,
    checkpoint_area: U64,
    name: [u8; NAME_LEN_MAX],
    groups: [Entry; GROUPS_MAX],
    reserved: [u8; LEN - FIXED_LEN],
}

const _: () = assert!(size_of::<Format>() == LEN);

/// The pages of one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupEntry {
    pub(crate) group_id: GroupId,
    /// Where its first page lies.
    pub(crate) pages_at: u64,
    /// The number of its first page in the pool.
    pub(crate) first_page: u32,
    pub(crate) pages: u32,
}

/// What a superblock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) pool_id: PoolId,
    pub(crate) name: String,
    /// The checkpoint that counts, and the journal half that follows it.
    pub(crate) generation: u64,
    /// The last commit that is in the checkpoint.
    pub(crate) sequence: u64,
    pub(crate) checkpoint_blocks: u32,
    pub(crate) page_bytes: u64,
    pub(crate) group_index: u32,
    pub(crate) metadata_copies: u32,
    pub(crate) layout: Layout,
    pub(crate) groups: Vec<GroupEntry>,
}

impl Superblock {
    pub(crate) fn encode(&self) -> Pieces {
        let mut name = [0; NAME_LEN_MAX];
        name[..self.name.len()].copy_from_slice(self.name.as_bytes());
        let entry = |i: usize| match self.groups.get(i) {
            Some(g) => Entry {
                group_id: g.group_id.0,
                pages_at: g.pages_at.into(),
                first_page: g.first_page.into(),
                pages: g.pages.into(),
            },
            None => Entry { group_id: [0; 16], pages_at: 0.into(), first_page: 0.into(), pages: 0.into() },
        };
        let mut format = Format {
            magic: MAGIC,
            version: VERSION.into(),
            crc32c: 0.into(),
            pool_id: self.pool_id.0,
            generation: self.generation.into(),
            sequence: self.sequence.into(),
            page_bytes: self.page_bytes.into(),
            group_index: self.group_index.into(),
            group_count: (self.groups.len() as u32).into(),
            metadata_copies: self.metadata_copies.into(),
            checkpoint_blocks: self.checkpoint_blocks.into(),
            journal_half: self.layout.journal_half.into(),
            checkpoint_area: self.layout.checkpoint_area.into(),
            name,
            groups: std::array::from_fn(entry),
            reserved: [0; LEN - FIXED_LEN],
        };
        format.crc32c = checksum(format.as_bytes()).into();
        Buf::copy_of(format.as_bytes()).freeze().into()
    }

    /// The superblock in these bytes, if they hold one that is whole and makes sense.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Superblock> {
        let (format, _) = Format::ref_from_prefix(bytes).ok()?;
        if format.magic != MAGIC || format.version.get() != VERSION {
            return None;
        }
        let mut unsummed = bytes[..LEN].to_vec();
        unsummed[12..16].fill(0);
        if checksum(&unsummed) != format.crc32c.get() {
            return None;
        }
        let name_len = format.name.iter().position(|&b| b == 0).unwrap_or(NAME_LEN_MAX);
        let entries = format.groups.get(..format.group_count.get() as usize)?;
        let group = |e: &Entry| GroupEntry {
            group_id: GroupId(e.group_id),
            pages_at: e.pages_at.get(),
            first_page: e.first_page.get(),
            pages: e.pages.get(),
        };
        let superblock = Superblock {
            pool_id: PoolId(format.pool_id),
            name: String::from_utf8(format.name[..name_len].to_vec()).ok()?,
            generation: format.generation.get(),
            sequence: format.sequence.get(),
            checkpoint_blocks: format.checkpoint_blocks.get(),
            page_bytes: format.page_bytes.get(),
            group_index: format.group_index.get(),
            metadata_copies: format.metadata_copies.get(),
            layout: Layout {
                journal_half: format.journal_half.get(),
                checkpoint_area: format.checkpoint_area.get(),
            },
            groups: entries.iter().map(group).collect(),
        };
        superblock.makes_sense().then_some(superblock)
    }

    fn makes_sense(&self) -> bool {
        let mut next = 0_u32;
        let in_a_row = self.groups.iter().all(|g| {
            let follows = g.first_page == next;
            next = next.saturating_add(g.pages);
            follows && g.pages_at.is_multiple_of(self.page_bytes.max(1))
        });
        self.page_bytes.is_power_of_two()
            && (PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&self.page_bytes)
            && (self.group_index as usize) < self.groups.len()
            && (1..=METADATA_COPIES_MAX.min(self.groups.len())).contains(&(self.metadata_copies as usize))
            && self.layout.is_sound()
            && in_a_row
            && next < u32::MAX
    }

    /// The superblock of another group of the same pool.
    pub(crate) fn of_group(&self, group_index: u32) -> Superblock {
        Superblock { group_index, ..self.clone() }
    }
}

pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(Crc32Iscsi, bytes) as u32
}
