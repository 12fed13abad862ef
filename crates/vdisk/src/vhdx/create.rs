//! Creating a VHDX: the steps that turn an empty file into one.

use world::Drive;

use super::header::{HEADERS_AT, Header, Headers};
use super::metadata::Metadata;
use super::open::fresh_guids;
use super::region::{REGION_TABLES_AT, Region, Regions};
use super::table::{Shape, State, Table};
use super::{BLOCK_BYTES, Guid, LEN_BYTES_MAX, MIB, PAGE_BYTES, VhdxMap};
use crate::image::take_steps;
use crate::{Map, Part, Step, VdiskError};

/// The file identifier, and the creator.
const IDENTITY: &[u8; 8] = b"vhdxfile";
const CREATOR: &str = "masu";
/// Offset and length of the log in new files.
const LOG: Region = Region { at: MIB, len: 1 << 20 };
const METADATA: Region = Region { at: 2 * MIB, len: 1 << 20 };
const TABLE_AT: u64 = 3 * MIB;

/// The parent of a new differencing image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// Its identity.
    pub id: Guid,
    /// Its path relative to the child's directory.
    pub relative_path: String,
    /// Its absolute path, if it has one.
    pub absolute_path: Option<String>,
}

/// Parameters of a new VHDX.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewVhdx {
    /// Whether it is fully allocated from the beginning.
    pub fixed: bool,
    /// Size of the disk.
    pub len_bytes: u64,
    /// The block size.
    pub block_bytes: u32,
    /// The logical sector size, 512 or 4096.
    pub logical_bytes: u32,
    /// The physical sector size, 512 or 4096.
    pub physical_bytes: u32,
    /// The parent of a differencing image.
    pub parent: Option<Parent>,
    /// Three identities: of the file's content, of the guest's data, of the disk.
    pub ids: [Guid; 3],
}

impl NewVhdx {
    /// A VHDX with the default block size, and sectors of 512 and 4096 bytes.
    pub fn new(len_bytes: u64, ids: [Guid; 3]) -> NewVhdx {
        NewVhdx {
            fixed: false,
            len_bytes,
            block_bytes: BLOCK_BYTES,
            logical_bytes: 512,
            physical_bytes: 4096,
            parent: None,
            ids,
        }
    }

    fn metadata(&self) -> Metadata {
        let parent = self.parent.as_ref().map(|parent| {
            let relative = parent.relative_path.replace('/', "\\");
            let relative = if relative.starts_with('.') { relative } else { format!(".\\{relative}") };
            let mut pairs = vec![
                ("parent_linkage".to_owned(), format!("{{{}}}", parent.id)),
                ("relative_path".to_owned(), relative),
            ];
            pairs
                .extend(parent.absolute_path.as_ref().map(|p| ("absolute_win32_path".to_owned(), p.clone())));
            pairs
        });
        Metadata {
            block_bytes: self.block_bytes,
            stays_allocated: self.fixed,
            len_bytes: self.len_bytes,
            disk_id: self.ids[2],
            logical_bytes: self.logical_bytes,
            physical_bytes: self.physical_bytes,
            parent,
            len_at: 0,
        }
    }

    fn check(&self) -> Result<(), VdiskError> {
        let Self { len_bytes, logical_bytes, block_bytes, .. } = *self;
        if len_bytes == 0 || len_bytes > LEN_BYTES_MAX || !len_bytes.is_multiple_of(logical_bytes.into()) {
            return Err(VdiskError::refused(format!(
                "invalid size of {len_bytes} bytes for a VHDX: must be a multiple of {logical_bytes}, at most {LEN_BYTES_MAX}"
            )));
        }
        if !block_bytes.is_power_of_two() || !((1 << 20)..=(256 << 20)).contains(&block_bytes) {
            let what = format!(
                "invalid block size of {block_bytes} bytes: must be a power of two from 1 MiB to 256 MiB"
            );
            return Err(VdiskError::refused(what));
        }
        if self.fixed && self.parent.is_some() {
            return Err(VdiskError::refused("a fixed image cannot have a parent"));
        }
        Ok(())
    }

    /// The layout and the table: of a fixed image with all blocks.
    fn plan(&self) -> Result<(Regions, Table), VdiskError> {
        self.check()?;
        let shape = Shape {
            len_bytes: self.len_bytes,
            block_bytes: self.block_bytes.into(),
            sector_bytes: self.logical_bytes.into(),
            has_parent: self.parent.is_some(),
        };
        shape.check()?;
        let table_len = shape.table_bytes().next_multiple_of(MIB) as u32;
        let regions =
            Regions { table: Region { at: TABLE_AT, len: table_len }, metadata: METADATA, others: vec![] };
        let mut table = Table::empty(shape);
        if self.fixed {
            let blocks_at = regions.table.end();
            (0..shape.blocks())
                .for_each(|block| table.set(block, State::Full(blocks_at + block * shape.block_bytes)));
        }
        Ok((regions, table))
    }

    fn header(&self, sequence: u64) -> Header {
        let [file_write, data_write, _] = self.ids;
        let (log_at, log_len) = (LOG.at, LOG.len);
        Header { sequence, file_write, data_write, log: Guid::ZERO, log_at, log_len }
    }

    /// The map of the new image, as if it had just been opened for writing: for models, which have no file.
    pub fn map(&self) -> Result<VhdxMap, VdiskError> {
        let (regions, mut table) = self.plan()?;
        // The content of a new file is already in it.
        table.take_dirty();
        let headers = [1, 2].map(|sequence| Ok(self.header(sequence)));
        let headers = Headers::choose(headers)?;
        let reserved = regions.ranges().chain([(LOG.at, LOG.end())]).collect();
        let mut map = VhdxMap::new(table.shape(), table, regions.table.at, headers, reserved);
        map.fresh_guids = fresh_guids(0, &map.headers.current);
        map.stays_allocated = self.fixed;
        map.begin()?;
        Ok(map)
    }

    /// The steps to write to an empty file, and its length then. A power failure before the end leaves no
    /// valid image; it held no data.
    pub fn steps(&self) -> Result<(u64, Vec<Step>), VdiskError> {
        let (regions, table) = self.plan()?;
        let shape = table.shape();
        let mut end = regions.table.end();
        if self.fixed {
            end += shape.blocks() * shape.block_bytes;
        }
        let write = |part, at, bytes: Vec<u8>| Step::Write { part, at, bytes };
        let mut steps = Vec::new();
        let table_pages = (0..shape.table_bytes() / PAGE_BYTES).flat_map(|page| table.page(page));
        steps.push(write(Part::Table, TABLE_AT, table_pages.collect()));
        steps.push(write(Part::Header, METADATA.at, self.metadata().encode()?));
        steps.extend(REGION_TABLES_AT.map(|at| write(Part::Header, at, regions.encode())));
        for (at, sequence) in HEADERS_AT.into_iter().zip(1..) {
            steps.push(write(Part::Header, at, self.header(sequence).encode()));
        }
        let mut identity = IDENTITY.to_vec();
        identity.extend(CREATOR.encode_utf16().flat_map(u16::to_le_bytes));
        identity.resize(PAGE_BYTES as usize, 0);
        // Last: without an identifier the file is not an image.
        steps.extend([Step::Flush, write(Part::Header, 0, identity), Step::Flush]);
        Ok((end, steps))
    }
}

/// Creates a VHDX on an empty drive.
///
/// # Errors
///
/// The size is not one of a VHDX, or the drive failed.
pub async fn create(drive: &Drive, new: &NewVhdx) -> Result<(), VdiskError> {
    let (len, steps) = new.steps()?;
    if drive.len_bytes() != len && !drive.set_len(len).await? && drive.len_bytes() < len {
        let cause = format!("{} has {} bytes and requires {len}", drive.info().name, drive.len_bytes());
        return Err(VdiskError::NoRoom { cause });
    }
    take_steps(drive, steps).await
}
