//! Creating a VHD: the steps that turn an empty file into one.

use world::Drive;

use super::{
    BLOCK_BYTES, DynamicHeader, FOOTER_BYTES, Footer, HEADER_BYTES, Kind, Layout, Locator, Platform,
    SECTOR_BYTES,
};
use crate::image::take_steps;
use crate::{Part, Step, VdiskError};

/// The parent of a new differencing image.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Parent {
    /// Its identity.
    pub id: [u8; 16],
    pub time_stamp_s: u32,
    /// Its path relative to the child's directory.
    pub relative_path: String,
    /// Its absolute path, if it has one.
    pub absolute_path: Option<String>,
}

/// Parameters of a new VHD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewVhd {
    /// Its type.
    pub kind: Kind,
    /// Size of the disk.
    pub len_bytes: u64,
    /// The block size of a dynamic or differencing image.
    pub block_bytes: u32,
    /// Its identity.
    pub id: [u8; 16],
    /// Seconds since 2000-01-01 00:00 UTC.
    pub time_stamp_s: u32,
    /// The parent of a differencing image.
    pub parent: Option<Parent>,
}

impl NewVhd {
    /// A VHD with the default block size.
    pub fn new(kind: Kind, len_bytes: u64, id: [u8; 16], time_stamp_s: u32) -> NewVhd {
        NewVhd { kind, len_bytes, block_bytes: BLOCK_BYTES, id, time_stamp_s, parent: None }
    }

    /// The steps to write to an empty file, and its length then. A power failure before the end leaves no
    /// valid image; it held no data.
    pub fn steps(&self) -> Result<(u64, Vec<Step>), VdiskError> {
        let footer = Footer::new(self.kind, self.len_bytes, self.id, self.time_stamp_s);
        let write = |part, at, bytes: Vec<u8>| Step::Write { part, at, bytes };
        if self.kind == Kind::Fixed {
            // The same limits as when it is read.
            Footer::parse(&footer.encode())?;
            let steps = vec![write(Part::Footer, self.len_bytes, footer.encode().to_vec()), Step::Flush];
            return Ok((self.len_bytes + FOOTER_BYTES as u64, steps));
        }
        if (self.kind == Kind::Differencing) != self.parent.is_some() {
            return Err(VdiskError::refused(
                "a differencing image requires a parent; other images cannot have one",
            ));
        }
        let paths = self.parent.as_ref().map(paths).unwrap_or_default();
        let padded = |path: &[u8]| (path.len() as u64).next_multiple_of(SECTOR_BYTES);
        let paths_bytes = paths.iter().map(|(_, path)| padded(path)).sum();
        let layout = Layout::new(self.len_bytes, self.block_bytes, paths_bytes)?;
        let mut at = layout.table_at + layout.table_bytes();
        let mut steps = vec![write(Part::Table, layout.table_at, vec![0xff; layout.table_bytes() as usize])];
        let mut locators = Vec::new();
        for (platform, mut path) in paths {
            let (len, space) = (path.len() as u32, padded(&path));
            locators.push(Locator { platform, at, len, space: space as u32 });
            path.resize(space as usize, 0);
            steps.push(write(Part::Header, at, path));
            at += space;
        }
        let header = DynamicHeader {
            table_at: layout.table_at,
            entries: u32::try_from(layout.blocks()).expect("a VHD's blocks fit 32 bits"),
            block_bytes: self.block_bytes,
            parent_id: self.parent.as_ref().map_or([0; 16], |parent| parent.id),
            parent_time_stamp_s: self.parent.as_ref().map_or(0, |parent| parent.time_stamp_s),
            parent_name: self
                .parent
                .as_ref()
                .map_or_else(String::new, |parent| file_name(&parent.relative_path)),
            locators,
        };
        steps.push(write(Part::Header, FOOTER_BYTES as u64, header.encode().to_vec()));
        steps.push(write(Part::Footer, 0, footer.encode().to_vec()));
        steps.push(write(Part::Footer, layout.blocks_from, footer.encode().to_vec()));
        steps.push(Step::Flush);
        debug_assert!(layout.table_at == (FOOTER_BYTES + HEADER_BYTES) as u64);
        Ok((layout.blocks_from + FOOTER_BYTES as u64, steps))
    }
}

fn file_name(path: &str) -> String {
    path.rsplit(['/', '\\']).next().unwrap_or(path).to_owned()
}

/// The paths of a parent in locators: in Windows form, which all readers understand.
fn paths(parent: &Parent) -> Vec<(Platform, Vec<u8>)> {
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let relative = match parent.relative_path.starts_with('.') {
        true => parent.relative_path.clone(),
        false => format!("./{}", parent.relative_path),
    };
    let mut list = vec![(Platform::WindowsRelative, utf16(&relative.replace('/', "\\")))];
    list.extend(parent.absolute_path.as_ref().map(|path| (Platform::WindowsAbsolute, utf16(path))));
    list
}

/// Creates a VHD on an empty drive.
///
/// # Errors
///
/// The size is not one of a VHD, or the drive failed.
pub async fn create(drive: &Drive, new: &NewVhd) -> Result<(), VdiskError> {
    let (len, steps) = new.steps()?;
    if drive.len_bytes() != len && !drive.set_len(len).await? && drive.len_bytes() < len {
        let cause = format!("{} has {} bytes and requires {len}", drive.info().name, drive.len_bytes());
        return Err(VdiskError::NoRoom { cause });
    }
    take_steps(drive, steps).await
}
