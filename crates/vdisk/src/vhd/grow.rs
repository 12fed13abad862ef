//! Growing the disk of a VHD.

use world::{Data, Drive};

use super::footer::len_max;
use super::open::{Opened, open};
use super::table::{TABLE_BYTES_MAX, UNUSED};
use super::{DynamicHeader, FOOTER_BYTES, Footer, Geometry, Kind, Layout, SECTOR_BYTES};
use crate::image::{read_vec, take_steps, take_steps_told};
use crate::{Part, Step, VdiskError};

/// Grows the disk of a VHD, of the given or detected type, to `len_bytes`. The image must not be open; a
/// power failure leaves the old or the new size. `told` hears how many bytes are written, of all.
///
/// # Errors
///
/// The length is smaller than now or too long for the format, the image is damaged, or the drive failed.
pub async fn grow(
    drive: &Drive,
    kind: Option<Kind>,
    len_bytes: u64,
    told: &mut dyn FnMut(u64, u64),
) -> Result<(), VdiskError> {
    let opened = open(drive, kind).await?;
    let old = opened.footer.clone();
    if len_bytes <= old.len_bytes || !len_bytes.is_multiple_of(SECTOR_BYTES) {
        let what = format!(
            "cannot grow a disk of {} bytes to {len_bytes} bytes: must be larger, and whole sectors",
            old.len_bytes
        );
        return Err(VdiskError::refused(what));
    }
    if let Some(fault) = opened.faults.first() {
        return Err(VdiskError::damaged("the block allocation table", fault.clone()));
    }
    if len_bytes > len_max(old.kind) {
        return Err(VdiskError::refused(format!(
            "too large: a VHD of this type has at most {} bytes",
            len_max(old.kind)
        )));
    }
    let footer = Footer { len_bytes, geometry: Geometry::of(len_bytes), ..old.clone() };
    if old.kind == Kind::Fixed {
        return grow_fixed(drive, &old, &footer, told).await;
    }
    match opened.header.clone() {
        Some(header) => grow_table(drive, &opened, header, &footer, told).await,
        None => Err(VdiskError::damaged("the dynamic header", "it does not exist")),
    }
}

fn write(part: Part, at: u64, bytes: impl Into<Vec<u8>>) -> Step {
    Step::Write { part, at, bytes: bytes.into() }
}

/// The footer is the last sector of the file, which may be longer than the disk needs. A file that is too
/// short is lengthened by the write of the new footer: without one at its end it would be no VHD. Only when
/// that is durable the old footer is overwritten with zeros of the new space; data between disk and footer
/// are not part of the disk.
async fn grow_fixed(
    drive: &Drive,
    old: &Footer,
    footer: &Footer,
    told: &mut dyn FnMut(u64, u64),
) -> Result<(), VdiskError> {
    let (len, needed) = (drive.len_bytes(), footer.len_bytes + FOOTER_BYTES as u64);
    let (old_at, new_at) = (len - FOOTER_BYTES as u64, len.max(needed) - FOOTER_BYTES as u64);
    let zero = |at: u64, to: u64| (at < to).then(|| Step::Zero { part: Part::Payload, at, len: to - at });
    let mut steps: Vec<Step> = zero(old.len_bytes, old_at.min(footer.len_bytes)).into_iter().collect();
    steps.push(Step::Flush);
    take_steps_told(drive, steps, told).await?;
    let mut steps = vec![Step::Flush];
    if needed <= len {
        steps.insert(0, write(Part::Footer, new_at, footer.encode()));
    } else if !drive.lengthen(needed, Data::copy_of(&footer.encode())).await? {
        return Err(no_room(drive, needed));
    }
    if new_at != old_at {
        steps.extend([write(Part::Payload, old_at, [0; FOOTER_BYTES]), Step::Flush]);
    }
    take_steps(drive, steps).await
}

/// Adds the new entries to the table, which moves behind the last block if it does not fit; then writes the
/// header that refers to it, then the footers with the size.
async fn grow_table(
    drive: &Drive,
    opened: &Opened,
    mut header: DynamicHeader,
    footer: &Footer,
    told: &mut dyn FnMut(u64, u64),
) -> Result<(), VdiskError> {
    let blocks = |len: u64| len.div_ceil(header.block_bytes.into());
    let (old, new) = (blocks(opened.footer.len_bytes), blocks(footer.len_bytes));
    let sectors = |entries: u64| (entries * 4).next_multiple_of(SECTOR_BYTES);
    if sectors(new) > TABLE_BYTES_MAX {
        let what = format!("a table of {} bytes; the limit is {TABLE_BYTES_MAX}", sectors(new));
        return Err(VdiskError::unsupported(what));
    }
    let header_at = opened.footer.header_at.unwrap_or(SECTOR_BYTES);
    let mut table = read_vec(drive, header.table_at, sectors(old)).await?;
    table.truncate((old * 4) as usize);
    table.resize(sectors(new) as usize, 0xff);
    let mut end = opened.map.used_len() - FOOTER_BYTES as u64;
    let mut steps = Vec::new();
    if new > u64::from(header.entries).max(sectors(header.entries.into()) / 4) {
        header.table_at = end;
        end += table.len() as u64;
    }
    header.entries = header.entries.max(new as u32);
    lengthen(drive, end + FOOTER_BYTES as u64).await?;
    // Nothing was ever said of the bytes of the last block behind the end of the disk.
    steps.extend(rest_of_last_block(&opened.footer, &header, &table));
    steps.push(write(Part::Table, header.table_at, table));
    steps.push(write(Part::Footer, end, opened.footer.encode()));
    steps.push(Step::Flush);
    steps.extend([write(Part::Header, header_at, header.encode()), Step::Flush]);
    steps.extend([write(Part::Footer, 0, footer.encode()), Step::Flush]);
    steps.extend([write(Part::Footer, end, footer.encode()), Step::Flush]);
    take_steps_told(drive, steps, told).await?;
    cut(drive, end + FOOTER_BYTES as u64).await
}

/// Removes what is behind the footer: other readers look for it at the end of the file, where there may be an
/// old one.
async fn cut(drive: &Drive, len: u64) -> Result<(), VdiskError> {
    if drive.len_bytes() > len && drive.set_len(len).await? {
        drive.flush().await?;
    }
    Ok(())
}

/// Zeros for the part of the last block that is behind the end of the disk, and becomes a part of it. A
/// footer may be there: the copy at the beginning counts.
fn rest_of_last_block(footer: &Footer, header: &DynamicHeader, table: &[u8]) -> Option<Step> {
    let block_bytes = u64::from(header.block_bytes);
    let used = footer.len_bytes % block_bytes;
    let (entries, _) = table.as_chunks::<4>();
    let entry = u32::from_be_bytes(*entries.get((footer.len_bytes / block_bytes) as usize)?);
    let bitmap_bytes = Layout::bitmap_bytes_of(block_bytes);
    let at = u64::from(entry) * SECTOR_BYTES + bitmap_bytes + used;
    (used > 0 && entry != UNUSED).then(|| Step::Zero { part: Part::Payload, at, len: block_bytes - used })
}

async fn lengthen(drive: &Drive, len: u64) -> Result<(), VdiskError> {
    if drive.len_bytes() < len && !drive.set_len(len).await? {
        return Err(no_room(drive, len));
    }
    Ok(())
}

/// The error of a drive whose length is fixed.
fn no_room(drive: &Drive, len: u64) -> VdiskError {
    let cause = format!("{} has {} bytes and requires {len}", drive.info().name, drive.len_bytes());
    VdiskError::NoRoom { cause }
}
