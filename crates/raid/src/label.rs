//! The label in the first MiB of every drive: two copies, written one after the other, each with its
//! checksum.
//!
//! docs/on_disk_format.md describes it byte by byte.

use std::fmt;

use crc_fast::CrcAlgorithm::Crc32Iscsi;
use world::Buf;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::lost::{self, LostRange};
use crate::lost_table::{INLINE_MAX, SLOTS, TableRef};
use crate::spec::NAME_LEN_MAX;
use crate::{ArrayId, DRIVES_MAX, GroupId, Level, Ownership};

/// The label region is the first MiB. The journal of levels 5 and 6 follows, then the data.
pub const LABEL_REGION_LEN: u64 = 1 << 20;
/// The two copies are far apart, so that one defect of the medium does not destroy both.
pub(crate) const COPIES_AT: [u64; 2] = [0, 512 << 10];
/// A copy is one block of the largest block size.
pub(crate) const LABEL_LEN: usize = 4096;

/// No group has a longer journal: eight of the largest units, and frames. Opening a group reads all of it.
const JOURNAL_LEN_MAX: u64 = 64 << 20;
/// Counters must stay below this, so that they never overflow.
const COUNTER_END: u64 = 1 << 62;

pub(crate) const MAGIC: [u8; 8] = *b"MASULABL";
/// The newest format that this version reads. The fields before the checksum, and its computation, are the
/// same in all later formats.
///
/// A label with its lost ranges inside has format 2, which every version reads. Only a label with a table of
/// lost ranges has format 3. Format 4 is the label of a spare, format 5 that of the second level of a cache.
pub(crate) const FORMAT: u32 = FORMAT_CACHE;
const FORMAT_INLINE: u32 = 2;
const FORMAT_TABLE: u32 = 3;
pub(crate) const FORMAT_SPARE: u32 = 4;
pub(crate) const FORMAT_CACHE: u32 = 5;
const FLAG_MIRRORS_MAY_DIFFER: u32 = 1;
/// Only beside the flag before. Earlier versions ignore it, and write it as 0.
const FLAG_PREFERRED_BY_REGION: u32 = 2;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Format {
    magic: [u8; 8],
    format: U32,
    crc32c: U32,
    array_id: [u8; 16],
    group_id: [u8; 16],
    level: U32,
    stripe_unit_bytes: U32,
    position: U32,
    width: U32,
    name: [u8; NAME_LEN_MAX],
    epoch: U64,
    in_sync: U32,
    flags: U32,
    data_offset: U64,
    data_len: U64,
    block_bytes: U32,
    rebuilding: U32,
    version: U64,
    rebuilt_to: U64,
    journal_len: U64,
    journal_epoch: U64,
    lost_count: U32,
    waiting: U32,
    lost: [LostFormat; INLINE_MAX],
    tags: [U64; DRIVES_MAX],
    lost_slot: U32,
    lost_crc32c: U32,
    differing: U64,
    floor: U64,
    ownership: [U64; 2],
    rest: [u8; LABEL_LEN - FIXED_LEN],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
pub(crate) struct LostFormat {
    at: U64,
    len: U64,
}

impl LostFormat {
    pub(crate) fn range(&self) -> LostRange {
        LostRange { at: self.at.get(), len: self.len.get() }
    }
}

impl From<&LostRange> for LostFormat {
    fn from(lost: &LostRange) -> LostFormat {
        LostFormat { at: lost.at.into(), len: lost.len.into() }
    }
}

const FIXED_LEN: usize = 208 + 16 * INLINE_MAX + 8 * DRIVES_MAX + 40;

const _: () = assert!(size_of::<Format>() == LABEL_LEN);

/// What is found at the position of one of the two copies of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum LabelCopy {
    Label(Box<Label>),
    /// The label of a spare.
    Spare {
        /// The array that owns the spare.
        array_id: ArrayId,
    },
    /// The label of the second level of a cache.
    Cache {
        /// The array that owns the cache.
        array_id: ArrayId,
    },
    /// A valid label of a newer masu.
    NewerFormat {
        /// The number of its format.
        format: u32,
    },
    /// The magic of a label, but its checksum or its content is invalid.
    Damaged {
        /// The format number as found.
        format: u32,
    },
    /// No magic of a label.
    None,
}

impl LabelCopy {
    /// Decodes the bytes of a copy. For a label also returns its table of lost ranges, which must be read.
    pub(crate) fn of(bytes: &[u8]) -> (LabelCopy, Option<TableRef>) {
        let found = Format::ref_from_prefix(bytes).map(|(found, _)| found).ok();
        let Some(found) = found.filter(|f| f.magic == MAGIC) else { return (LabelCopy::None, None) };
        let format = found.format.get();
        match Label::decode(bytes) {
            Some((label, table)) => (LabelCopy::Label(Box::new(label)), table),
            None if format == FORMAT_SPARE && is_whole(bytes) => {
                (LabelCopy::Spare { array_id: ArrayId(found.array_id) }, None)
            }
            None if format == FORMAT_CACHE && is_whole(bytes) => {
                (LabelCopy::Cache { array_id: ArrayId(found.array_id) }, None)
            }
            None if format > FORMAT && is_whole(bytes) => (LabelCopy::NewerFormat { format }, None),
            None => (LabelCopy::Damaged { format }, None),
        }
    }

    /// The label, if this is one.
    pub fn label(&self) -> Option<&Label> {
        match self {
            LabelCopy::Label(label) => Some(label),
            _ => None,
        }
    }
}

/// The rule by which a mirror is preferred where mirrors may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preferred {
    /// The first one in sync: on labels of earlier versions. Kept until the group was closed in order, since
    /// blocks may have been read by it.
    First,
    /// In each region (1 MiB of the drives' data, or a unit if that is larger) the first one in sync of an
    /// order that begins one mirror further than in the region before.
    ByRegion,
}

/// The content of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Label {
    /// The array that owns the group.
    pub array_id: ArrayId,
    pub group_id: GroupId,
    /// The group's name.
    pub group_name: String,
    pub level: Level,
    pub stripe_unit_bytes: u32,
    /// The drive's position in the group.
    pub position: u32,
    /// The number of positions of the group.
    pub width: u32,
    /// The epoch: increases with every change of membership; 0 while the group is being created.
    pub epoch: u64,
    /// The version: increases with every change of the label. With the epoch it decides which of two labels
    /// is newer.
    pub version: u64,
    /// The positions in sync, as bits.
    pub in_sync: u32,
    /// Set while a mirrored group is in use: after a power failure, mirrors may differ where writes were not
    /// flushed. Which mirror is read there.
    pub mirrors_may_differ: Option<Preferred>,
    /// First byte of data on the drive.
    pub data_offset: u64,
    /// Bytes of data on the drive.
    pub data_len: u64,
    /// The group's block size.
    pub block_bytes: u32,
    /// The position that is being rebuilt, and how much of its drive is in sync.
    pub rebuilding: Option<(u32, u64)>,
    /// The positions with a new drive that waits for its rebuild, as bits.
    pub waiting: u32,
    /// By position, which drive has it: 0 for the first one, then a random number for each successor.
    pub tags: [u64; DRIVES_MAX],
    /// Length of the stripe journal between the label region and the data (levels 5 and 6).
    pub journal_len: u64,
    /// Only frames of this epoch are valid in the journal.
    pub journal_epoch: u64,
    /// Blocks that differed between drives in the last scrub and could not be repaired.
    pub differing: u64,
    /// The version that the labels of all drives in sync had before this label was written. A drive with an
    /// older one is a copy of an earlier state and lacks later writes. 0 in labels from before this field.
    pub floor: u64,
    /// The ownership under which the group was opened last; all zeros: none, or from before this field.
    pub ownership: Ownership,
    /// The lost ranges of the group, in order; `None` if their table is damaged.
    pub(crate) lost: Option<Vec<LostRange>>,
    /// The slot of the label region with their table, if they do not fit in the label.
    pub(crate) lost_slot: u32,
}

fn flags_of(may_differ: Option<Preferred>) -> u32 {
    match may_differ {
        None => 0,
        Some(Preferred::First) => FLAG_MIRRORS_MAY_DIFFER,
        Some(Preferred::ByRegion) => FLAG_MIRRORS_MAY_DIFFER | FLAG_PREFERRED_BY_REGION,
    }
}

fn may_differ_of(flags: u32) -> Option<Preferred> {
    let preferred = match flags & FLAG_PREFERRED_BY_REGION {
        0 => Preferred::First,
        _ => Preferred::ByRegion,
    };
    (flags & FLAG_MIRRORS_MAY_DIFFER != 0).then_some(preferred)
}

impl Label {
    /// Encodes the label. Its table, if it needs one, is on the drive already.
    pub(crate) fn encode(&self) -> Buf {
        let lost = self.lost.as_deref().expect("a label is written only by who knows what is lost");
        let table = TableRef::of(self.group_id, lost);
        let inline = if table.is_none() { lost } else { &[] };
        let mut name = [0; NAME_LEN_MAX];
        name[..self.group_name.len()].copy_from_slice(self.group_name.as_bytes());
        let mut format = Format {
            magic: MAGIC,
            format: if table.is_none() { FORMAT_INLINE } else { FORMAT_TABLE }.into(),
            crc32c: 0.into(),
            array_id: self.array_id.0,
            group_id: self.group_id.0,
            level: self.level.code().into(),
            stripe_unit_bytes: self.stripe_unit_bytes.into(),
            position: self.position.into(),
            width: self.width.into(),
            name,
            epoch: self.epoch.into(),
            in_sync: self.in_sync.into(),
            flags: flags_of(self.mirrors_may_differ).into(),
            data_offset: self.data_offset.into(),
            data_len: self.data_len.into(),
            block_bytes: self.block_bytes.into(),
            rebuilding: self.rebuilding.map_or(0, |(position, _)| position + 1).into(),
            version: self.version.into(),
            rebuilt_to: self.rebuilding.map_or(0, |(_, to)| to).into(),
            journal_len: self.journal_len.into(),
            journal_epoch: self.journal_epoch.into(),
            lost_count: (lost.len() as u32).into(),
            waiting: self.waiting.into(),
            lost: std::array::from_fn(|i| LostFormat::from(&inline.get(i).copied().unwrap_or_default())),
            tags: self.tags.map(U64::from),
            lost_slot: self.lost_slot.into(),
            lost_crc32c: table.map_or(0, |t| t.crc32c).into(),
            differing: self.differing.into(),
            floor: self.floor.into(),
            ownership: [self.ownership.epoch.into(), self.ownership.owner.into()],
            rest: [0; LABEL_LEN - FIXED_LEN],
        };
        format.crc32c = checksum(format.as_bytes()).into();
        let buf = Buf::copy_of(format.as_bytes());
        let reads_back = Label::decode(&buf).is_some_and(|(mut label, read_table)| {
            label.lost = label.lost.or_else(|| self.lost.clone());
            label == *self && read_table == table
        });
        assert!(reads_back, "a label that does not read back is never written: {self:?}");
        buf
    }

    /// Decodes a valid label from these bytes. Also returns where its lost ranges are, if not in it.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Label, Option<TableRef>)> {
        let (format, _) = Format::ref_from_prefix(bytes).ok()?;
        if format.magic != MAGIC || !(FORMAT_INLINE..=FORMAT_TABLE).contains(&format.format.get()) {
            return None;
        }
        if !is_whole(bytes) {
            return None;
        }
        let name_len = format.name.iter().position(|&b| b == 0).unwrap_or(NAME_LEN_MAX);
        let rebuilding = format.rebuilding.get().checked_sub(1).map(|p| (p, format.rebuilt_to.get()));
        let lost_count = format.lost_count.get() as usize;
        // A label of format 2 that counts more ranges than it holds was written by a version without tables.
        let inline = format.lost.get(..lost_count);
        let table = (format.format.get() == FORMAT_TABLE && inline.is_none())
            .then(|| TableRef { count: format.lost_count.get(), crc32c: format.lost_crc32c.get() });
        let label = Label {
            array_id: ArrayId(format.array_id),
            group_id: GroupId(format.group_id),
            group_name: String::from_utf8(format.name[..name_len].to_vec()).ok()?,
            level: Level::from_code(format.level.get())?,
            stripe_unit_bytes: format.stripe_unit_bytes.get(),
            position: format.position.get(),
            width: format.width.get(),
            epoch: format.epoch.get(),
            version: format.version.get(),
            in_sync: format.in_sync.get(),
            mirrors_may_differ: may_differ_of(format.flags.get()),
            data_offset: format.data_offset.get(),
            data_len: format.data_len.get(),
            block_bytes: format.block_bytes.get(),
            rebuilding,
            waiting: format.waiting.get(),
            tags: format.tags.map(U64::get),
            journal_len: format.journal_len.get(),
            journal_epoch: format.journal_epoch.get(),
            differing: format.differing.get(),
            floor: format.floor.get(),
            ownership: Ownership { epoch: format.ownership[0].get(), owner: format.ownership[1].get() },
            lost: inline.map(|lost| lost.iter().map(LostFormat::range).collect()),
            lost_slot: format.lost_slot.get(),
        };
        label.makes_sense().then_some((label, table))
    }

    fn makes_sense(&self) -> bool {
        let unit = self.stripe_unit_bytes;
        let block = self.block_bytes;
        self.position < self.width
            && self.width as usize <= DRIVES_MAX
            && self.width as usize >= self.level.drives_min()
            && unit.is_power_of_two()
            && (4096..=4 << 20).contains(&unit)
            && (block == 512 || block == 4096)
            && self.journal_len <= JOURNAL_LEN_MAX
            && self.epoch.max(self.version).max(self.journal_epoch).max(self.ownership.epoch) < COUNTER_END
            && u64::from(self.in_sync | self.waiting) < 1 << self.width
            && self.journal_len.is_multiple_of(LABEL_LEN as u64)
            && (self.journal_len > 0) == (self.level.parities() > 0)
            && self.data_offset == LABEL_REGION_LEN + self.journal_len
            && self.rebuilding.is_none_or(|(p, to)| p < self.width && to <= self.data_len)
            && (self.level != Level::Raid10 || self.width.is_multiple_of(2))
            && self.lost.as_deref().is_none_or(lost::are_in_order)
            && self.lost_slot < SLOTS
            && self.floor <= self.version
            && self.data_len > 0
            && self.data_len.is_multiple_of(unit.into())
            && self.data_len < 1 << 56
    }

    /// Which of two labels of a group is newer.
    pub(crate) fn age(&self) -> (u64, u64) {
        (self.epoch, self.version)
    }

    /// Which of two copies of a label counts: the newer one; of two equally new ones, a copy whose lost
    /// ranges are known.
    pub(crate) fn believed(&self) -> ((u64, u64), bool) {
        (self.age(), self.lost.is_some())
    }

    /// Whether the drive with this label is the one that `reference` names at its position, and not a
    /// predecessor.
    pub(crate) fn is_known_to(&self, reference: &Label) -> bool {
        let p = self.position as usize;
        self.tags[p] == reference.tags[p]
    }

    /// Whether position `p` is in sync.
    pub fn is_in_sync(&self, position: u32) -> bool {
        self.in_sync & (1 << position) != 0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "group {} ({}) of array {}, position {} of {}, epoch {}",
            self.group_name, self.group_id, self.array_id, self.position, self.width, self.epoch
        )
    }
}

/// Whether the checksum of a label, of any format, matches its bytes.
fn is_whole(bytes: &[u8]) -> bool {
    let Ok((format, _)) = Format::ref_from_prefix(bytes) else { return false };
    let mut unsummed = bytes[..LABEL_LEN].to_vec();
    unsummed[12..16].fill(0);
    checksum(&unsummed) == format.crc32c.get()
}

pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(Crc32Iscsi, bytes) as u32
}
