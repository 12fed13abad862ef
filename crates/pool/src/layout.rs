//! Where things lie on the groups of a pool: pure arithmetic. docs/on_disk_format.md has the picture.

/// The default page: large enough that maps are small, small enough that a thin volume is thin.
pub const PAGE_BYTES_DEFAULT: u64 = 1 << 20;
/// The smallest page.
pub const PAGE_BYTES_MIN: u64 = 64 << 10;
/// The largest page.
pub const PAGE_BYTES_MAX: u64 = 16 << 20;

/// Addresses and lengths are multiples of this, whatever the drives' blocks are.
pub(crate) const BLOCK_BYTES: u32 = 512;

/// The most groups of a pool: their table fits the superblock.
pub(crate) const GROUPS_MAX: usize = 32;
/// The two places of the superblock on every group.
pub(crate) const SLOTS_AT: [u64; 2] = [0, 64 << 10];
/// What a slot and a journal frame are rounded to: the largest block size of a drive.
pub(crate) const METADATA_BLOCK: u64 = 4096;
/// Where a group has its journal.
const HEAD_LEN: u64 = 128 << 10;
/// Metadata is held by this many groups, if there are as many.
pub(crate) const HOLDERS_MAX: usize = 2;

/// The unit in which a checkpoint is written.
pub(crate) const CHECKPOINT_BLOCK: u64 = 128 << 10;
/// Map entries that the checkpoint has room for, per page of the pool as it is created: volumes that share pages have
/// more entries than there are pages, and the pool may grow.
const ENTRIES_PER_PAGE: u64 = 16;
/// A pool may grow until it has room for no more than this many map entries per page: to eight times its first size.
const ENTRIES_PER_PAGE_MIN: u64 = 2;
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

/// The largest record.
pub const RECORD_BYTES_MAX: usize = 64 << 10;
/// The longest name of a record.
pub(crate) const RECORD_NAME_LEN_MAX: usize = 128;

/// What a record takes in a checkpoint: an item has 5 bytes of header, 6 of lengths.
pub(crate) fn record_size(key: &str, bytes: &[u8]) -> u64 {
    (11 + key.len() + bytes.len()) as u64
}

/// The sizes of the metadata regions, fixed when the pool is created, and the same on every group: so every group can hold the
/// metadata, and any can leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) journal_half: u64,
    pub(crate) checkpoint_area: u64,
    /// The part of a checkpoint that names and saved records have.
    pub(crate) names_bytes: u64,
}

/// Where the pages of a group lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The first one.
    pub(crate) pages_at: u64,
    /// From one to the next.
    pub(crate) stride: u64,
    /// How many there are.
    pub(crate) pages: u64,
}

impl Layout {
    /// The layout for a pool that begins with groups of `total` bytes together.
    pub(crate) fn plan(total: u64, page_bytes: u64) -> Layout {
        let half = (total / JOURNAL_SHARE).next_multiple_of(METADATA_BLOCK);
        let journal_half = half.clamp(JOURNAL_HALF_MIN, JOURNAL_HALF_MAX);
        let names_bytes = (total / NAMES_SHARE).clamp(NAMES_MIN, NAMES_MAX);
        let items = total / page_bytes * ENTRIES_PER_PAGE * ENTRY_BYTES_MAX + names_bytes;
        // The headers of the blocks are half a thousandth.
        let checkpoint_area = (items + items / 1024).next_multiple_of(CHECKPOINT_BLOCK) + CHECKPOINT_BLOCK;
        Layout { journal_half, checkpoint_area, names_bytes }
    }

    /// Whether sizes that were read make sense.
    pub(crate) fn is_sound(&self) -> bool {
        self.journal_half.is_multiple_of(METADATA_BLOCK)
            && (JOURNAL_HALF_MIN..=JOURNAL_HALF_MAX).contains(&self.journal_half)
            && self.checkpoint_area.is_multiple_of(CHECKPOINT_BLOCK)
            && (CHECKPOINT_BLOCK..1 << 50).contains(&self.checkpoint_area)
            && (NAMES_MIN..=NAMES_MAX).contains(&self.names_bytes)
            && self.names_bytes < self.checkpoint_area
    }

    pub(crate) fn journal_at(&self, generation: u64) -> u64 {
        HEAD_LEN + generation % 2 * self.journal_half
    }

    pub(crate) fn checkpoint_at(&self, generation: u64) -> u64 {
        HEAD_LEN + 2 * self.journal_half + generation % 2 * self.checkpoint_area
    }

    /// Pages come after this.
    pub(crate) fn metadata_end(&self) -> u64 {
        HEAD_LEN + 2 * self.journal_half + 2 * self.checkpoint_area
    }

    /// Where the pages of a group of `len_bytes` lie whose rows have `row_bytes`: each begins on a row and has whole rows for
    /// itself, so that no row is shared by two pages.
    pub(crate) fn place(&self, len_bytes: u64, row_bytes: u64, page_bytes: u64) -> Place {
        let stride = page_bytes.next_multiple_of(row_bytes);
        let pages_at = self.metadata_end().next_multiple_of(stride);
        Place { pages_at, stride, pages: len_bytes.saturating_sub(pages_at) / stride }
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
    pub(crate) fn entries_max(&self) -> u64 {
        let items = (self.checkpoint_area - CHECKPOINT_BLOCK) / 1025 * 1024;
        items.saturating_sub(self.names_bytes) / ENTRY_BYTES_MAX
    }

    /// How many pages a pool may have when a group is added.
    pub(crate) fn pages_max(&self) -> u64 {
        self.entries_max() / ENTRIES_PER_PAGE_MIN
    }

    /// How many bytes the saved records may have together, with their names: half; the other half is for volumes.
    pub(crate) fn records_max(&self) -> u64 {
        self.names_bytes / 2
    }

    /// How many volumes a pool may have.
    pub(crate) fn volumes_max(&self) -> usize {
        // An item header, a fixed part and the longest name.
        (self.names_bytes / 2 / (5 + 32 + 255)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_may_grow_to_eight_times_its_size_and_pages_have_whole_rows() {
        for (total, page) in [(1 << 30, 64 << 10), (10_u64 << 40, 1 << 20), (500_u64 << 40, 16 << 20)] {
            let layout = Layout::plan(total, page);
            assert!(layout.is_sound());
            let factor = layout.pages_max() as f64 / (total / page) as f64;
            assert!((7.9..8.6).contains(&factor), "{factor} for {total}");
        }
        let layout = Layout::plan(1 << 30, 1 << 20);
        let three = layout.place(1 << 30, 3 * 65536, 1 << 20);
        assert_eq!((three.stride, three.pages_at % three.stride), (6 * 3 * 65536, 0));
        assert!(three.pages_at + three.pages * three.stride <= 1 << 30);
        assert_eq!(layout.place(1 << 30, 8 * 65536, 1 << 20).stride, 1 << 20);
        assert_eq!(layout.place(1 << 20, 4096, 1 << 20).pages, 0);
    }
}
