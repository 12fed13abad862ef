//! Lost ranges that do not fit in a label: a table in the label region, to which the label refers with a
//! checksum.
//!
//! ```text
//!   0        64 KiB    176 KiB   288 KiB   400 KiB   512 KiB
//!   ├ label ─┼ slot 0 ─┼ slot 1 ─┼ slot 2 ─┼ slot 3 ─┤ label, copy 2, and its slots …
//! ```
//!
//! A new table goes to the slot after the current one, is flushed, and only then referred to. Whatever a
//! power failure tears, the current label and its table are intact. Each copy of the label has a copy of the
//! table in its half of the region, and so has every drive of the group: one valid copy is enough. Without
//! one, the group does not open, because it would not know which reads must fail.

use smallvec::SmallVec;
use world::{Buf, Drive, DriveError};
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::GroupId;
use crate::await_all::await_all;
use crate::label::{COPIES_AT, Label, LabelCopy, LostFormat, checksum};
use crate::lost::LostRange;

/// Up to this number, the ranges fit in the label.
pub(crate) const INLINE_MAX: usize = 200;
/// Slots of each copy. One is referred to and one is written; the others allow another attempt when a drive
/// fails in between.
pub(crate) const SLOTS: u32 = 4;
const SLOTS_FROM: u64 = 64 << 10;
const SLOT_LEN: u64 = ((512 << 10) - SLOTS_FROM) / SLOTS as u64;
/// The capacity of a table; further ranges are joined to their neighbours.
pub(crate) const LOST_MAX: usize = (SLOT_LEN as usize - HEAD_LEN) / size_of::<LostFormat>();
const BLOCK_LEN: usize = crate::BLOCK_LEN as usize;

const MAGIC: [u8; 8] = *b"MASULOST";

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Head {
    magic: [u8; 8],
    crc32c: U32,
    count: U32,
    group_id: [u8; 16],
    rest: [u8; 32],
}

const HEAD_LEN: usize = 64;

const _: () = assert!(size_of::<Head>() == HEAD_LEN);

/// A label's reference to its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableRef {
    pub(crate) count: u32,
    pub(crate) crc32c: u32,
}

impl TableRef {
    /// The reference for these ranges; `None` if they fit in the label.
    pub(crate) fn of(group_id: GroupId, lost: &[LostRange]) -> Option<TableRef> {
        let table = encode(group_id, lost)?;
        let (head, _) = Head::ref_from_prefix(&table).expect("a table has a head");
        Some(TableRef { count: head.count.get(), crc32c: head.crc32c.get() })
    }

    fn len(self) -> Option<usize> {
        let count = self.count as usize;
        (count <= LOST_MAX).then(|| (HEAD_LEN + count * size_of::<LostFormat>()).next_multiple_of(BLOCK_LEN))
    }

    fn decode(self, group_id: GroupId, bytes: &[u8]) -> Option<Vec<LostRange>> {
        let (head, rest) = Head::ref_from_prefix(bytes).ok()?;
        let ours = head.magic == MAGIC && head.group_id == group_id.0;
        if !ours || head.count.get() != self.count || head.crc32c.get() != self.crc32c {
            return None;
        }
        let mut unsummed = bytes.to_vec();
        unsummed[8..12].fill(0);
        let (ranges, _) = <[LostFormat]>::ref_from_prefix_with_elems(rest, self.count as usize).ok()?;
        let lost: Vec<LostRange> = ranges.iter().map(LostFormat::range).collect();
        (checksum(&unsummed) == self.crc32c && crate::lost::are_in_order(&lost)).then_some(lost)
    }
}

/// The encoded table of these ranges; `None` if they fit in the label.
fn encode(group_id: GroupId, lost: &[LostRange]) -> Option<Buf> {
    if lost.len() <= INLINE_MAX {
        return None;
    }
    assert!(lost.len() <= LOST_MAX, "{} lost ranges are more than a table holds", lost.len());
    let count = lost.len() as u32;
    let rest = [0; 32];
    let mut head = Head { magic: MAGIC, crc32c: 0.into(), count: count.into(), group_id: group_id.0, rest };
    let mut bytes = head.as_bytes().to_vec();
    bytes.extend(
        lost.iter().flat_map(|l| <[u8; 16]>::try_from(LostFormat::from(l).as_bytes()).expect("16 bytes")),
    );
    bytes.resize(bytes.len().next_multiple_of(BLOCK_LEN), 0);
    head.crc32c = checksum(&bytes).into();
    bytes[..HEAD_LEN].copy_from_slice(head.as_bytes());
    Some(Buf::copy_of(&bytes))
}

fn slot_at(copy: usize, slot: u32) -> u64 {
    COPIES_AT[copy] + SLOTS_FROM + u64::from(slot) * SLOT_LEN
}

/// Reads the lost ranges of a label from its table, in its own half or in the other one.
pub(crate) async fn read(
    drive: &Drive,
    label: &Label,
    table: TableRef,
    own_copy: usize,
) -> Result<Option<Vec<LostRange>>, DriveError> {
    let Some(len) = table.len() else { return Ok(None) };
    let mut outcome = Ok(None);
    for copy in [own_copy, 1 - own_copy] {
        let filled = drive.read(slot_at(copy, label.lost_slot), Buf::new(len)).await;
        match filled.result {
            Ok(()) => {
                if let Some(lost) = table.decode(label.group_id, &filled.buf) {
                    return Ok(Some(lost));
                }
            }
            Err(error) if error.is_of_drive() => return Err(error),
            Err(error) => outcome = outcome.and(Err(error)),
        }
    }
    // An unreadable table counts as damaged, as long as the label is readable.
    outcome.or(Ok(None))
}

/// A copy of a label with its lost ranges.
pub(crate) async fn complete(
    drive: &Drive,
    (mut copy, table): (LabelCopy, Option<TableRef>),
    own_copy: usize,
) -> Result<LabelCopy, DriveError> {
    if let (LabelCopy::Label(label), Some(table)) = (&mut copy, table) {
        label.lost = read(drive, label, table, own_copy).await?;
    }
    Ok(copy)
}

/// Writes and flushes the tables of labels that need one. An error comes with the index of the first drive
/// that failed.
pub(crate) async fn write_all<'a>(
    labels: impl Iterator<Item = (&'a Drive, &'a Label)> + Clone,
) -> Result<(), (usize, DriveError)> {
    let mut writes = SmallVec::new();
    let mut drives: SmallVec<[usize; 8]> = SmallVec::new();
    for (i, (drive, label)) in labels.clone().enumerate() {
        let lost = label.lost.as_deref().expect("a label is written only by who knows what is lost");
        let Some(table) = encode(label.group_id, lost) else { continue };
        let table = table.freeze();
        for copy in 0..COPIES_AT.len() {
            writes.push(drive.write(slot_at(copy, label.lost_slot), table.clone()));
            drives.push(i);
        }
    }
    if writes.is_empty() {
        return Ok(());
    }
    await_all(writes).await.map_err(|(i, error)| (drives[i], error))?;
    await_all(labels.map(|(drive, _)| drive.flush()).collect()).await
}
