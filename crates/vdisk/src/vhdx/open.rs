//! Reads the metadata of a VHDX from its file, overlaid with its log.

use world::Drive;

use super::header::{HEADER_BYTES, HEADERS_AT, Header, Headers};
use super::log::{self, Replay};
use super::metadata::{METADATA_BYTES_MAX, Metadata};
use super::region::{REGION_TABLE_BYTES, REGION_TABLES_AT, Region, Regions};
use super::table::{Shape, Table};
use super::{Guid, HEAD_BYTES, VhdxMap};
use crate::image::read_vec;
use crate::{Part, Step, VdiskError};

/// The metadata found in a file.
pub(crate) struct Opened {
    pub(crate) map: VhdxMap,
    pub(crate) faults: Vec<String>,
    pub(crate) notes: Vec<String>,
    /// The identity by which children refer to it.
    pub(crate) data_write: Guid,
    /// The identity of the disk, which writes do not change.
    pub(crate) disk_id: Guid,
    pub(super) regions: Regions,
    /// Offset of the disk size in the metadata.
    pub(super) len_at: u32,
    /// The repairs of the notes.
    pub(crate) repairs: Vec<Step>,
    /// Identities and paths of the parent.
    pub(crate) parent: Option<(Vec<Guid>, Vec<String>)>,
}

/// The map of a closed image, read from its file: for models, which count the I/O of an implementation that
/// keeps it in memory. `seed` is the world's.
///
/// # Errors
///
/// The file is no VHDX, its metadata are damaged, or it cannot be read.
pub async fn read_map(drive: &Drive, seed: u64) -> Result<VhdxMap, VdiskError> {
    let opened = open(drive, seed).await?;
    match opened.faults.into_iter().next() {
        Some(fault) => Err(VdiskError::damaged("the block allocation table", fault)),
        None => Ok(opened.map),
    }
}

/// Reads headers, log, regions, metadata and table, and checks their consistency. The GUIDs of this opening
/// derive from `seed`, which is the world's, and from the content of the file.
pub(crate) async fn open(drive: &Drive, seed: u64) -> Result<Opened, VdiskError> {
    let len = drive.len_bytes();
    if len < HEAD_BYTES {
        return Err(VdiskError::damaged("the file", format!("too short for a VHDX: {len} bytes")));
    }
    let mut notes = Vec::new();
    let headers = headers(drive, &mut notes).await?;
    let header = &headers.current;
    let replay = match header.log {
        Guid::ZERO => Replay::default(),
        _ if header.log_at + u64::from(header.log_len) > len => {
            return Err(VdiskError::damaged("the log", "it extends past the end of the file"));
        }
        _ => log::find(&read_vec(drive, header.log_at, header.log_len.into()).await?, header, len)?,
    };
    if !replay.patches.0.is_empty() {
        notes.push(format!("not closed: the log has {} pages to replay", replay.patches.0.len()));
    }
    let (regions, repairs) = regions(drive, &replay, &mut notes).await?;
    if regions.metadata.len > METADATA_BYTES_MAX || regions.ranges().any(|(_, end)| end > len) {
        return Err(VdiskError::damaged("the region table", "a region extends past the end of the file"));
    }
    let metadata = Metadata::parse(&patched(drive, &replay, regions.metadata, None).await?)?;
    let shape = Shape {
        len_bytes: metadata.len_bytes,
        block_bytes: metadata.block_bytes.into(),
        sector_bytes: metadata.logical_bytes.into(),
        has_parent: metadata.parent.is_some(),
    };
    shape.check()?;
    if shape.table_bytes() > u64::from(regions.table.len) {
        let cause = format!("its {} bytes are too few for {} entries", regions.table.len, shape.entries());
        return Err(VdiskError::damaged("the block allocation table", cause));
    }
    let table =
        Table::parse(shape, &patched(drive, &replay, regions.table, Some(shape.table_bytes())).await?);
    let log = (header.log_at, header.log_at + u64::from(header.log_len));
    let reserved: Vec<(u64, u64)> = regions.ranges().chain([log]).collect();
    let mut faults = overlaps(&reserved);
    faults.extend(header.fault());
    faults.extend(table.faults(&reserved, len.max(replay.last_len)));
    let (data_write, disk_id) = (header.data_write, metadata.disk_id);
    let parent = metadata.parent.as_deref().map(parent);
    let mut map = VhdxMap::new(shape, table, regions.table.at, headers, reserved);
    map.end = map.end.max(replay.last_len.next_multiple_of(super::MIB));
    map.replay = replay;
    map.fresh_guids = fresh_guids(seed, &map.headers.current);
    map.stays_allocated = metadata.stays_allocated;
    Ok(Opened { map, faults, notes, data_write, disk_id, regions, len_at: metadata.len_at, repairs, parent })
}

/// New GUIDs: different for each file, and for each change of its header.
pub(super) fn fresh_guids(seed: u64, header: &Header) -> [Guid; 3] {
    let file = header.file_write.0.iter().chain(&header.sequence.to_le_bytes()).fold(seed, |hash, byte| {
        // FNV-1a.
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    let mut rng = fastrand::Rng::with_seed(file);
    std::array::from_fn(|_| Guid(rng.u128(..).to_le_bytes()))
}

async fn headers(drive: &Drive, notes: &mut Vec<String>) -> Result<Headers, VdiskError> {
    let mut found = Vec::new();
    for at in HEADERS_AT {
        found.push(Header::parse(&read_vec(drive, at, HEADER_BYTES as u64).await?));
    }
    // A header that was never written is common; the other one is valid.
    for (i, header) in found.iter().enumerate() {
        notes.extend(header.as_ref().err().map(|error| format!("header {}: {error}", i + 1)));
    }
    let found: [_; 2] = found.try_into().expect("two were read");
    Headers::choose(found)
}

/// The regions of the first intact table, and the repair of the other one.
async fn regions(
    drive: &Drive,
    replay: &Replay,
    notes: &mut Vec<String>,
) -> Result<(Regions, Vec<Step>), VdiskError> {
    let mut tables = Vec::new();
    for at in REGION_TABLES_AT {
        let mut bytes = read_vec(drive, at, REGION_TABLE_BYTES as u64).await?;
        replay.patches.apply(at, &mut bytes);
        tables.push((Regions::parse(&bytes), bytes));
    }
    for (i, (table, _)) in tables.iter().enumerate() {
        notes.extend(table.as_ref().err().map(|error| format!("region table {}: {error}", i + 1)));
    }
    let write = |at: u64, bytes: &[u8]| {
        vec![Step::Write { part: Part::Header, at, bytes: bytes.to_vec() }, Step::Flush]
    };
    match &tables[..] {
        [(Ok(regions), _), (Ok(_), _)] => Ok((regions.clone(), Vec::new())),
        [(Ok(regions), bytes), _] => Ok((regions.clone(), write(REGION_TABLES_AT[1], bytes))),
        [_, (Ok(regions), bytes)] => Ok((regions.clone(), write(REGION_TABLES_AT[0], bytes))),
        [(Err(error), _), ..] => Err(error.clone()),
        _ => unreachable!("two were read"),
    }
}

/// The first bytes of a region, overlaid with the log.
async fn patched(
    drive: &Drive,
    replay: &Replay,
    region: Region,
    len: Option<u64>,
) -> Result<Vec<u8>, VdiskError> {
    let mut bytes = read_vec(drive, region.at, len.unwrap_or(region.len.into())).await?;
    replay.patches.apply(region.at, &mut bytes);
    Ok(bytes)
}

/// Overlapping regions.
fn overlaps(ranges: &[(u64, u64)]) -> Vec<String> {
    let mut sorted = ranges.to_vec();
    sorted.sort_unstable();
    let pairs = sorted.windows(2).filter(|pair| pair[0].1 > pair[1].0);
    pairs
        .map(|pair| format!("the structure at byte {} overlaps the one at byte {}", pair[1].0, pair[0].0))
        .collect()
}

/// Identities and paths of a parent locator.
fn parent(pairs: &[(String, String)]) -> (Vec<Guid>, Vec<String>) {
    let of = |key: &str| pairs.iter().find(|(k, _)| k == key).map(|(_, value)| value.clone());
    let ids = ["parent_linkage", "parent_linkage2"].into_iter().filter_map(|key| Guid::parse(&of(key)?));
    let paths = ["relative_path", "absolute_win32_path", "volume_path"].into_iter().filter_map(of);
    (ids.collect(), paths.collect())
}
