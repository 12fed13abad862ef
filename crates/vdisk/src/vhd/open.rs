//! Reading the metadata of a VHD from its file.

use world::Drive;

use super::header::LOCATOR_BYTES_MAX;
use super::{
    DynamicHeader, DynamicMap, FOOTER_BYTES, FixedMap, Footer, HEADER_BYTES, Kind, Layout, Locator, Platform,
    SECTOR_BYTES,
};
use crate::image::read_vec;
use crate::{Map, Part, Step, VdiskError};

/// The metadata found in a file.
pub(crate) struct Opened {
    pub(crate) footer: Footer,
    pub(crate) header: Option<DynamicHeader>,
    pub(crate) map: Box<dyn Map>,
    /// Faults of the table.
    pub(crate) faults: Vec<String>,
    /// Notes: possible improvements, and differences repaired from a second copy.
    pub(crate) notes: Vec<String>,
    pub(crate) parent_paths: Vec<String>,
    /// The repairs of the notes, besides the footer that every change writes.
    pub(crate) repairs: Vec<Step>,
    /// The proper end of the file, if a power failure left data behind it.
    pub(crate) cut_to: Option<u64>,
}

/// Reads footer, header and table, and checks their consistency. Of an image with a `declared` type it reads
/// nothing that a guest of such an image can write: of a fixed one the footer behind the disk; of the others
/// the copy before the blocks, and the last sector only if the copy is damaged and no block reaches it.
pub(crate) async fn open(drive: &Drive, declared: Option<Kind>) -> Result<Opened, VdiskError> {
    let footer_bytes = FOOTER_BYTES as u64;
    let len = drive.len_bytes();
    if len < footer_bytes {
        let cause = format!("too short for a footer: {len} bytes");
        return Err(VdiskError::Foreign { format: "VHD", cause });
    }
    let at_end = Footer::parse(&read_vec(drive, len - footer_bytes, footer_bytes).await?);
    match (declared, &at_end) {
        (Some(Kind::Fixed), Ok(footer)) if footer.kind != Kind::Fixed => return Err(other_kind(footer.kind)),
        (Some(Kind::Fixed), Err(error)) => return Err(error.clone()),
        (Some(Kind::Fixed) | None, Ok(footer)) if footer.kind == Kind::Fixed => {
            return fixed(footer.clone(), len);
        }
        _ => {}
    }
    let at_start = Footer::parse(&read_vec(drive, 0, footer_bytes).await?);
    let mut notes = Vec::new();
    let mut repairs = Vec::new();
    let by_end_alone = at_start.is_err();
    let (footer, has_end) = match (at_start, at_end) {
        (Ok(start), Ok(end)) => {
            let agree = start.is_of_the_disk_of(&end);
            if !agree {
                notes.push("the footer at the end differs from the copy at byte 0, which is used".into());
            }
            // The later time stamp, if both describe the same disk.
            (if agree { end } else { start }, agree)
        }
        (Err(error), Ok(end)) if end.kind != Kind::Fixed => {
            notes.push(format!("copy of the footer at byte 0: {error}"));
            let bytes = end.encode().to_vec();
            repairs.extend([Step::Write { part: Part::Footer, at: 0, bytes }, Step::Flush]);
            (end, true)
        }
        (Ok(start), Err(error)) => {
            notes.push(format!("footer at the end: {error}"));
            (start, false)
        }
        // The more informative of the two errors: damaged rather than missing.
        (Err(_), Err(end @ VdiskError::Damaged { .. })) => return Err(end),
        (Err(start), _) => return Err(start),
    };
    if declared.is_some_and(|kind| kind != footer.kind) {
        return Err(other_kind(footer.kind));
    }
    let Some(header_at) = footer.header_at else {
        return Err(VdiskError::damaged("the footer", "only its copy exists, and describes a fixed image"));
    };
    let mut opened = grown(drive, footer, header_at, has_end).await?;
    if by_end_alone && opened.map.used_len() > len {
        let cause = "its copy at byte 0 is damaged, and the last sector belongs to a block";
        return Err(VdiskError::damaged("the footer", cause));
    }
    opened.notes.extend(notes);
    opened.repairs.extend(repairs);
    Ok(opened)
}

fn other_kind(found: Kind) -> VdiskError {
    let cause = format!("its type {found:?} differs from the declared one");
    VdiskError::damaged("the footer", cause)
}

fn fixed(footer: Footer, len: u64) -> Result<Opened, VdiskError> {
    let payload = len - FOOTER_BYTES as u64;
    if payload < footer.len_bytes {
        let cause = format!("a disk of {} bytes does not fit in {payload} bytes", footer.len_bytes);
        return Err(VdiskError::damaged("the footer", cause));
    }
    let map = Box::new(FixedMap::new(footer.len_bytes));
    let (faults, notes, parent_paths, repairs) = Default::default();
    Ok(Opened { footer, header: None, map, faults, notes, parent_paths, repairs, cut_to: None })
}

/// The map of a closed dynamic image, read from its file: for models, which count the I/O of an
/// implementation that keeps it in memory.
///
/// # Errors
///
/// The file is no dynamic VHD, its metadata are damaged, or it cannot be read.
pub async fn read_map(drive: &Drive) -> Result<DynamicMap, VdiskError> {
    let footer = Footer::parse(&read_vec(drive, 0, FOOTER_BYTES as u64).await?)?;
    let header_at = footer.header_at.filter(|_| footer.kind == Kind::Dynamic);
    let header_at = header_at.ok_or_else(|| other_kind(footer.kind))?;
    let (_, map) = header_and_map(drive, &footer, header_at).await?;
    match map.faults(drive.len_bytes()).into_iter().next() {
        Some(fault) => Err(VdiskError::damaged("the block allocation table", fault)),
        None => Ok(map),
    }
}

async fn header_and_map(
    drive: &Drive,
    footer: &Footer,
    header_at: u64,
) -> Result<(DynamicHeader, DynamicMap), VdiskError> {
    let len = drive.len_bytes();
    let header = DynamicHeader::parse(&read_vec(drive, header_at, HEADER_BYTES as u64).await?)?;
    let mut layout = Layout {
        len_bytes: footer.len_bytes,
        block_bytes: header.block_bytes.into(),
        table_at: header.table_at,
        blocks_from: 0,
        payload_unit: SECTOR_BYTES,
    };
    layout.check()?;
    if layout.blocks() > header.entries.into() {
        let cause = format!("its {} entries are too few for {} blocks", header.entries, layout.blocks());
        return Err(VdiskError::damaged("the block allocation table", cause));
    }
    if layout.table_at + layout.table_bytes() > len {
        return Err(VdiskError::damaged("the block allocation table", "it extends past the end of the file"));
    }
    let headers = [(0, FOOTER_BYTES as u64), (header_at, header_at + HEADER_BYTES as u64)];
    let table_end = layout.table_at + layout.table_bytes();
    if headers.iter().any(|(from, end)| layout.table_at < *end && table_end > *from) {
        return Err(VdiskError::damaged("the block allocation table", "it overlaps the headers"));
    }
    // Blocks are behind the headers; a table or a locator may be among them, if it was moved.
    layout.blocks_from = header_at + HEADER_BYTES as u64;
    let reserved = reserved(&layout, &header);
    let table = read_vec(drive, layout.table_at, layout.table_bytes()).await?;
    let map = DynamicMap::parse(layout, footer.clone(), &table, &reserved);
    Ok((header, map))
}

async fn grown(drive: &Drive, footer: Footer, header_at: u64, has_end: bool) -> Result<Opened, VdiskError> {
    let len = drive.len_bytes();
    let (header, mut map) = header_and_map(drive, &footer, header_at).await?;
    let faults = map.faults(len);
    let mut parent_paths = Vec::new();
    if footer.kind == Kind::Differencing {
        for locator in &header.locators {
            parent_paths.extend(path(drive, locator).await?);
        }
    }
    let cut_to = (!has_end && faults.is_empty()).then(|| map.used_len());
    if !has_end {
        map.write_footer();
    }
    let (notes, repairs) = Default::default();
    Ok(Opened {
        footer,
        header: Some(header),
        map: Box::new(map),
        faults,
        notes,
        parent_paths,
        repairs,
        cut_to,
    })
}

/// Reserved range: first byte and the one behind the last.
fn reserved(layout: &Layout, header: &DynamicHeader) -> Vec<(u64, u64)> {
    // All entries of the header, not only those of the disk: it may have been grown.
    let table_bytes = (u64::from(header.entries) * 4).next_multiple_of(512).max(layout.table_bytes());
    let locators = header.locators.iter().map(|l| (l.at, l.at + u64::from(l.space)));
    locators.chain([(layout.table_at, layout.table_at + table_bytes)]).collect()
}

/// The path in a locator, if it is valid.
async fn path(drive: &Drive, locator: &Locator) -> Result<Option<String>, VdiskError> {
    if locator.len == 0 || locator.len > LOCATOR_BYTES_MAX || !locator.at.is_multiple_of(512) {
        return Ok(None);
    }
    let bytes = read_vec(drive, locator.at, u64::from(locator.len).next_multiple_of(512)).await?;
    let bytes = &bytes[..locator.len as usize];
    Ok(match locator.platform {
        Platform::MacOs => {
            std::str::from_utf8(bytes).ok().map(|text| text.trim_start_matches("file://").to_owned())
        }
        Platform::WindowsRelative | Platform::WindowsAbsolute => {
            let (units, _) = bytes.as_chunks::<2>();
            let units: Vec<u16> = units.iter().map(|unit| u16::from_le_bytes(*unit)).collect();
            String::from_utf16(&units).ok().map(|text| text.trim_end_matches('\0').to_owned())
        }
    })
}
