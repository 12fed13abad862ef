//! Layout of a pool on its groups; pure arithmetic. docs/on_disk_format.md has the picture.

/// Default page size: large enough for small maps, small enough for thin volumes.
pub const PAGE_BYTES_DEFAULT: u64 = 1 << 20;
/// The smallest page.
pub const PAGE_BYTES_MIN: u64 = 64 << 10;
/// The largest page.
pub const PAGE_BYTES_MAX: u64 = 16 << 20;

/// Addresses and lengths are multiples of this, whatever the block size of the drives.
pub(crate) const BLOCK_BYTES: u32 = 512;

/// Most groups of a pool: the table must fit in the superblock.
pub(crate) const GROUPS_MAX: usize = 32;
/// The two slots of the superblock on every group.
pub(crate) const SLOTS_AT: [u64; 2] = [0, 64 << 10];
/// The size of a slot, and the unit of journal frames: the largest block size of a drive.
pub(crate) const METADATA_BLOCK: u64 = 4096;
/// The offset of the journal.
const HEAD_LEN: u64 = 128 << 10;
/// The number of groups that hold metadata, if there are as many.
pub(crate) const HOLDERS_MAX: usize = 2;

/// The unit of checkpoint writes.
pub(crate) const CHECKPOINT_BLOCK: u64 = 128 << 10;
/// Map entries in a checkpoint per page of the pool at creation: shared pages have several entries, and the
/// pool may grow.
const ENTRIES_PER_PAGE: u64 = 16;
/// A pool may grow until only this many map entries per page have room: to eight times its first size.
const ENTRIES_PER_PAGE_MIN: u64 = 2;
/// Largest size of a map entry in a checkpoint: a leaf with one entry has 5 (item) + 10 (leaf) + 8 (run)
/// bytes.
const ENTRY_BYTES_MAX: u64 = 24;

/// A journal half is this share of the pool, within the limits below.
const JOURNAL_SHARE: u64 = 1024;
/// The minimum holds four times the pending changes (128 KiB) and one record of 64 KiB.
const JOURNAL_HALF_MIN: u64 = 512 << 10;
/// The maximum, because opening a pool reads it at once into two buffers.
const JOURNAL_HALF_MAX: u64 = 16 << 20;
const _: () = assert!(2 * (JOURNAL_HALF_MIN / 4 + (80 << 10)) <= JOURNAL_HALF_MIN);
/// The share of the pool for names and saved records, within the limits below.
const NAMES_SHARE: u64 = 64;
const NAMES_MIN: u64 = 512 << 10;
const NAMES_MAX: u64 = 16 << 20;

/// Largest record.
pub const RECORD_BYTES_MAX: usize = 64 << 10;
/// Longest name of a record.
pub(crate) const RECORD_NAME_LEN_MAX: usize = 128;

/// The size of a record in a checkpoint: 5 bytes of item header, 6 of lengths.
pub(crate) fn record_size(key: &str, bytes: &[u8]) -> u64 {
    (11 + key.len() + bytes.len()) as u64
}

/// The sizes of the metadata regions. They are fixed at creation and the same on every group, so that every
/// group can hold the metadata, and any can leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) journal_half: u64,
    pub(crate) checkpoint_area: u64,
    /// The part of a checkpoint for names and saved records.
    pub(crate) names_bytes: u64,
}

/// The location of the pages of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The offset of the first page.
    pub(crate) pages_at: u64,
    /// The distance from one page to the next.
    pub(crate) stride: u64,
    /// The number of pages.
    pub(crate) pages: u64,
}

impl Layout {
    /// The layout for a pool that begins with groups of `total` bytes in total.
    pub(crate) fn plan(total: u64, page_bytes: u64) -> Layout {
        let half = (total / JOURNAL_SHARE).next_multiple_of(METADATA_BLOCK);
        let journal_half = half.clamp(JOURNAL_HALF_MIN, JOURNAL_HALF_MAX);
        let names_bytes = (total / NAMES_SHARE).clamp(NAMES_MIN, NAMES_MAX);
        let items = total / page_bytes * ENTRIES_PER_PAGE * ENTRY_BYTES_MAX + names_bytes;
        // The block headers take half a thousandth.
        let checkpoint_area = (items + items / 1024).next_multiple_of(CHECKPOINT_BLOCK) + CHECKPOINT_BLOCK;
        Layout { journal_half, checkpoint_area, names_bytes }
    }

    /// Whether decoded sizes are valid.
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

    /// The offset of the first page.
    pub(crate) fn metadata_end(&self) -> u64 {
        HEAD_LEN + 2 * self.journal_half + 2 * self.checkpoint_area
    }

    /// The location of the pages on a group of `len_bytes` with rows of `row_bytes`: each page begins on a
    /// row and has whole rows, so that no row is shared by two pages.
    pub(crate) fn place(&self, len_bytes: u64, row_bytes: u64, page_bytes: u64) -> Place {
        let stride = page_bytes.next_multiple_of(row_bytes);
        let pages_at = self.metadata_end().next_multiple_of(stride);
        Place { pages_at, stride, pages: len_bytes.saturating_sub(pages_at) / stride }
    }

    /// The limit of pending changes at which writers wait for a commit.
    pub(crate) fn pending_max(&self) -> usize {
        self.journal_half as usize / 4
    }

    /// The amount of pending changes at which a commit starts.
    pub(crate) fn pending_soft(&self) -> usize {
        self.journal_half as usize / 8
    }

    /// The largest frame of a commit: a full pending list, the record that filled it (64 KiB and its name),
    /// the header, rounded up. Even the smallest half has room for two.
    pub(crate) fn frame_max(&self) -> u64 {
        self.pending_max() as u64 + (80 << 10)
    }

    /// The limit of map entries of all volumes together.
    pub(crate) fn entries_max(&self) -> u64 {
        let items = (self.checkpoint_area - CHECKPOINT_BLOCK) / 1025 * 1024;
        items.saturating_sub(self.names_bytes) / ENTRY_BYTES_MAX
    }

    /// The limit of pages when a group is added.
    pub(crate) fn pages_max(&self) -> u64 {
        self.entries_max() / ENTRIES_PER_PAGE_MIN
    }

    /// The limit of all saved records with their names: half of the part; the other half is for volumes.
    pub(crate) fn records_max(&self) -> u64 {
        self.names_bytes / 2
    }

    /// The limit of volumes.
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
