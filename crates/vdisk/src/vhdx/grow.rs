//! Growing the disk of a VHDX.

use world::Drive;

use super::open::{Opened, open};
use super::region::{REGION_TABLES_AT, Region};
use super::table::{Shape, State, Table};
use super::{MIB, PAGE_BYTES};
use crate::image::{read_vec, take_steps, take_steps_told};
use crate::{Map, Part, Step, VdiskError};

/// Grows the disk to `len_bytes`. The image must not be open; a power failure leaves the old or the new size.
/// `seed` is the world's; `told` hears how many bytes are written, of all.
///
/// # Errors
///
/// The length is smaller than now or too long for the format, the image is damaged, or the drive failed.
pub async fn grow(
    drive: &Drive,
    len_bytes: u64,
    seed: u64,
    told: &mut dyn FnMut(u64, u64),
) -> Result<(), VdiskError> {
    let mut opened = open(drive, seed).await?;
    let old = opened.map.shape;
    if len_bytes <= old.len_bytes
        || !len_bytes.is_multiple_of(old.sector_bytes)
        || len_bytes > super::LEN_BYTES_MAX
    {
        let what = format!(
            "cannot grow a disk of {} bytes to {len_bytes} bytes: must be larger, and whole sectors",
            old.len_bytes
        );
        return Err(VdiskError::refused(what));
    }
    if let Some(fault) = opened.faults.first() {
        return Err(VdiskError::damaged("the block allocation table", fault.clone()));
    }
    let shape = Shape { len_bytes, ..old };
    shape.check()?;
    let needed = opened.map.begin_len();
    if drive.len_bytes() < needed && !drive.set_len(needed).await? {
        let cause = format!("{} has {} bytes and requires {needed}", drive.info().name, drive.len_bytes());
        return Err(VdiskError::NoRoom { cause });
    }
    // The log's pages are in place, and the header marks the file as changing.
    take_steps(drive, opened.map.begin()?).await?;
    let (table, mut end) = larger_table(&opened, shape);
    let mut regions = opened.regions.clone();
    let moves = shape.table_bytes() > regions.table.len.into();
    if moves {
        if !regions.others.is_empty() {
            return Err(VdiskError::unsupported("moving the table of an image with unknown regions"));
        }
        regions.table = Region { at: end, len: shape.table_bytes().next_multiple_of(MIB) as u32 };
        end = regions.table.end();
    }
    let mut steps = new_zeros(&opened, &table, drive.len_bytes());
    if drive.len_bytes() < end && !drive.set_len(end).await? {
        let cause = format!("{} has {} bytes and requires {end}", drive.info().name, drive.len_bytes());
        return Err(VdiskError::NoRoom { cause });
    }
    let write = |part, at, bytes: Vec<u8>| Step::Write { part, at, bytes };
    let pages = (0..shape.table_bytes() / PAGE_BYTES).flat_map(|page| table.page(page)).collect();
    steps.extend([write(Part::Table, regions.table.at, pages), Step::Flush]);
    for at in REGION_TABLES_AT.into_iter().filter(|_| moves) {
        steps.extend([write(Part::Header, at, regions.encode()), Step::Flush]);
    }
    // The size is within one sector, which is written completely or not at all.
    let at = regions.metadata.at + u64::from(opened.len_at);
    let sector = at / 512 * 512;
    let inside = (at - sector) as usize;
    let mut bytes = read_vec(drive, sector, if inside + 8 <= 512 { 512 } else { 1024 }).await?;
    bytes[inside..inside + 8].copy_from_slice(&len_bytes.to_le_bytes());
    steps.extend([write(Part::Header, sector, bytes), Step::Flush]);
    take_steps_told(drive, steps, told).await
}

/// The table of the larger disk, and the end of the used space: new blocks of a fixed image are allocated.
fn larger_table(opened: &Opened, shape: Shape) -> (Table, u64) {
    let old = opened.map.shape;
    let mut table = Table::empty(shape);
    for block in 0..old.blocks() {
        table.set(block, opened.map.table.get(block));
    }
    if shape.has_parent {
        for chunk in 0..old.blocks().div_ceil(old.chunk_blocks()) {
            if let Some(at) = opened.map.table.bitmap(chunk) {
                table.set_bitmap(chunk, at);
            }
        }
    }
    let mut end = opened.map.end;
    if opened.map.stays_allocated {
        for block in old.blocks()..shape.blocks() {
            table.set(block, State::Full(end));
            end += shape.block_bytes;
        }
    }
    (table, end)
}

/// Zeros for what is in the file already and becomes a part of the disk: of the old last block what is behind
/// the end of the disk, and the new blocks of a fixed image.
fn new_zeros(opened: &Opened, table: &Table, file_len: u64) -> Vec<Step> {
    let (old, shape) = (opened.map.shape, table.shape());
    let last = (old.len_bytes % old.block_bytes > 0).then(|| old.blocks() - 1);
    let fresh = (old.blocks()..shape.blocks()).filter(|_| opened.map.stays_allocated);
    let zeros = last.into_iter().chain(fresh).filter_map(|block| {
        let (State::Full(at) | State::Partial(at)) = table.get(block) else { return None };
        let used = old.len_bytes.saturating_sub(block * shape.block_bytes);
        let (from, to) = (at + used, (at + shape.block_bytes).min(file_len));
        (from < to).then(|| Step::Zero { part: Part::Payload, at: from, len: to - from })
    });
    zeros.collect()
}
