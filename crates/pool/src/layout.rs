//! Where things lie on the groups of a pool: pure arithmetic. docs/on_disk_format.md has the picture.

/// The default page: large enough that maps are small, small enough that a thin volume is thin.
pub const PAGE_BYTES_DEFAULT: u64 = 1 << 20;
/// The smallest page.
pub const PAGE_BYTES_MIN: u64 = 64 << 10;
/// The largest page.
pub const PAGE_BYTES_MAX: u64 = 16 << 20;

/// The most groups of a pool: their table fits the superblock.
pub(crate) const GROUPS_MAX: usize = 32;
/// The two places of the superblock on every group.
pub(crate) const SLOTS_AT: [u64; 2] = [0, 64 << 10];
/// What a slot and a journal frame are rounded to: the largest block size of a drive.
pub(crate) const METADATA_BLOCK: u64 = 4096;
/// Where a group without metadata has its first page at the earliest, and a group with metadata its journal.
const HEAD_LEN: u64 = 128 << 10;
/// Metadata is written to this many groups, if there are as many.
pub(crate) const METADATA_COPIES_MAX: usize = 2;

/// The unit in which a checkpoint is written.
pub(crate) const CHECKPOINT_BLOCK: u64 = 128 << 10;
/// Map entries that the checkpoint has room for, per page of the pool: volumes that share pages have more entries than
/// there are pages.
const ENTRIES_PER_PAGE: u64 = 8;
/// The most that a map entry takes in a checkpoint: a leaf with one entry is 5 (item) + 10 (leaf) + 8 (run) bytes.
const ENTRY_BYTES_MAX: u64 = 24;

/// A journal half is this part of the pool, within the limits that follow.
const JOURNAL_SHARE: u64 = 1024;
/// The least holds four times what may be pending (128 KiB) and one record of 64 KiB.
const JOURNAL_HALF_MIN: u64 = 512 << 10;
/// The most is read at once when a pool is opened, in two buffers.
const JOURNAL_HALF_MAX: u64 = 16 << 20;
const _: () = assert!(2 * (JOURNAL_HALF_MIN / 4 + (80 << 10)) <= JOURNAL_HALF_MIN);
/// Names and saved records have this part of the pool, within the limits that follow.
const NAMES_SHARE: u64 = 64;
const NAMES_MIN: u64 = 512 << 10;
const NAMES_MAX: u64 = 16 << 20;

/// The sizes of the metadata regions, fixed when the pool is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) journal_half: u64,
    pub(crate) checkpoint_area: u64,
}

impl Layout {
    /// The layout for groups of `total` bytes together.
    pub(crate) fn plan(total: u64, page_bytes: u64) -> Layout {
        let half = (total / JOURNAL_SHARE).next_multiple_of(METADATA_BLOCK);
        let journal_half = half.clamp(JOURNAL_HALF_MIN, JOURNAL_HALF_MAX);
        let entries = total / page_bytes * ENTRIES_PER_PAGE * ENTRY_BYTES_MAX;
        let items = entries + names_bytes(total);
        // The headers of the blocks are half a thousandth.
        let checkpoint_area = (items + items / 1024).next_multiple_of(CHECKPOINT_BLOCK) + CHECKPOINT_BLOCK;
        Layout { journal_half, checkpoint_area }
    }

    /// Whether sizes that were read make sense.
    pub(crate) fn is_sound(&self) -> bool {
        self.journal_half.is_multiple_of(METADATA_BLOCK)
            && (JOURNAL_HALF_MIN..=JOURNAL_HALF_MAX).contains(&self.journal_half)
            && self.checkpoint_area.is_multiple_of(CHECKPOINT_BLOCK)
            && (CHECKPOINT_BLOCK..1 << 50).contains(&self.checkpoint_area)
    }

    pub(crate) fn journal_at(&self, generation: u64) -> u64 {
        HEAD_LEN + generation % 2 * self.journal_half
    }

    pub(crate) fn checkpoint_at(&self, generation: u64) -> u64 {
        HEAD_LEN + 2 * self.journal_half + generation % 2 * self.checkpoint_area
    }

    /// The first byte of pages on a group with metadata, or without.
    pub(crate) fn pages_at(&self, with_metadata: bool, page_bytes: u64) -> u64 {
        let head = match with_metadata {
            true => HEAD_LEN + 2 * self.journal_half + 2 * self.checkpoint_area,
            false => HEAD_LEN,
        };
        head.next_multiple_of(page_bytes)
    }

    /// What may be pending before writers wait for a commit.
    pub(crate) fn pending_max(&self) -> usize {
        self.journal_half as usize / 4
    }

    /// What may be pending before a commit begins by itself.
    pub(crate) fn pending_soft(&self) -> usize {
        self.journal_half as usize / 8
    }

    /// The largest frame of a commit: a full pending list, the record that filled it (64 KiB and its name), the header,
    /// rounded up. Two of them fit a half, also the smallest.
    pub(crate) fn frame_max(&self) -> u64 {
        self.pending_max() as u64 + (80 << 10)
    }

    /// How many map entries the volumes may have together.
    pub(crate) fn entries_max(&self, total: u64) -> u64 {
        let items = (self.checkpoint_area - CHECKPOINT_BLOCK) / 1025 * 1024;
        items.saturating_sub(names_bytes(total)) / ENTRY_BYTES_MAX
    }

    /// How many bytes the saved records may have together, with their names.
    pub(crate) fn records_max(&self, total: u64) -> u64 {
        names_bytes(total) / 2
    }
}

/// Half for volumes (a name and 20 bytes each), half for saved records.
fn names_bytes(total: u64) -> u64 {
    (total / NAMES_SHARE).clamp(NAMES_MIN, NAMES_MAX)
}

/// How many volumes a pool may have.
pub(crate) fn volumes_max(total: u64) -> usize {
    // An item header, a fixed part and the longest name.
    (names_bytes(total) / 2 / (5 + 32 + 255)) as usize
}
