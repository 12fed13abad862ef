//! Opening an image: detects the format, validates the metadata, and decides whether it may be written.

use world::{Drive, World};

use super::chain::ParentLink;
use super::file::read_vec;
use super::{Access, FileFormat, Findings, Format, Image};
use crate::vhd::{self, Footer, Kind};
use crate::{FixedMap, Map, VdiskError, vhdx};

/// The detected format of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probed {
    /// The format. The footer of a fixed VHD has precedence: no guest of such an image can write there.
    pub format: FileFormat,
    /// Another possible format, if there is one.
    pub disputed: Option<String>,
}

const VHDX_IDENTITY: &[u8; 8] = b"vhdxfile";

/// Detects the format from the beginning and the end of the file. A guest can forge all of that in some type
/// of image: detection is reliable only for a file that the operator wrote.
///
/// # Errors
///
/// The file cannot be read.
pub async fn probe(drive: &Drive) -> Result<Probed, VdiskError> {
    check_blocks(drive)?;
    let first = read_vec(drive, 0, drive.len_bytes().min(512)).await?;
    let is_vhdx = first.starts_with(VHDX_IDENTITY);
    let start = Footer::parse(&first);
    let end_at = drive.len_bytes().saturating_sub(512);
    let end = Footer::parse(&read_vec(drive, end_at, drive.len_bytes().min(512)).await?);
    let sure = |format| Ok(Probed { format, disputed: None });
    let other = match (is_vhdx, &start) {
        (true, _) => Some("begins like a VHDX"),
        (false, Ok(footer)) if footer.kind != Kind::Fixed => Some("begins like a dynamic VHD"),
        _ => None,
    };
    if end.as_ref().is_ok_and(|footer| footer.kind == Kind::Fixed) {
        let disputed = other.map(|other| format!("ambiguous format: it ends like a fixed VHD and {other}"));
        return Ok(Probed { format: FileFormat::VhdFixed, disputed });
    }
    if is_vhdx {
        return sure(FileFormat::Vhdx);
    }
    match (start, end) {
        (Ok(footer), _) | (Err(_), Ok(footer)) => sure(format_of(footer.kind)),
        (Err(_), Err(end @ VdiskError::Damaged { .. })) => Err(end),
        (Err(start), Err(_)) => Err(start),
    }
}

fn format_of(kind: Kind) -> FileFormat {
    match kind {
        Kind::Fixed => FileFormat::VhdFixed,
        Kind::Dynamic => FileFormat::VhdDynamic,
        Kind::Differencing => FileFormat::VhdDifferencing,
    }
}

impl Image {
    /// Opens the image on a drive with its detected format ([`probe`]), which must be unambiguous. A
    /// differencing image has no parent yet: [`Image::attach`]. For writing, inconsistent metadata is an
    /// error and nothing is written; for reading, the readable part is available.
    ///
    /// # Errors
    ///
    /// The format is unknown or ambiguous, its metadata are damaged or of an unsupported version, or the file
    /// cannot be read.
    pub async fn open(world: &World, drive: Drive, access: Access) -> Result<Image, VdiskError> {
        let Probed { format, disputed } = probe(&drive).await?;
        if let Some(disputed) = disputed {
            let name = &drive.info().name;
            return Err(VdiskError::refused(format!(
                "{name}: {disputed}; specify its format with --input-format"
            )));
        }
        Image::open_as(world, drive, access, format).await
    }

    /// Opens the image on a drive with this format.
    ///
    /// # Errors
    ///
    /// The file is of another format, its metadata are damaged or of an unsupported version, or it cannot be
    /// read.
    pub async fn open_as(
        world: &World,
        drive: Drive,
        access: Access,
        format: FileFormat,
    ) -> Result<Image, VdiskError> {
        check_blocks(&drive)?;
        match format {
            FileFormat::Raw => Image::open_raw(drive, access),
            FileFormat::Vhdx => open_vhdx(world, drive, access).await,
            FileFormat::VhdFixed => open_vhd(drive, access, Some(Kind::Fixed)).await,
            FileFormat::VhdDynamic => open_vhd(drive, access, Some(Kind::Dynamic)).await,
            FileFormat::VhdDifferencing => open_vhd(drive, access, Some(Kind::Differencing)).await,
        }
    }

    /// Opens the image on a drive as a parent of this one: its format must be of the same family.
    pub(super) async fn open_parent(&self, world: &World, drive: Drive) -> Result<Image, VdiskError> {
        check_blocks(&drive)?;
        match self.file_format() {
            FileFormat::Vhdx => open_vhdx(world, drive, Access::Read).await,
            _ => open_vhd(drive, Access::Read, None).await,
        }
    }

    /// The format of the file.
    pub fn file_format(&self) -> FileFormat {
        match self.0.format {
            Format::Raw => FileFormat::Raw,
            Format::VhdFixed => FileFormat::VhdFixed,
            Format::VhdDynamic => FileFormat::VhdDynamic,
            Format::VhdDifferencing => FileFormat::VhdDifferencing,
            Format::VhdxFixed | Format::VhdxDynamic | Format::VhdxDifferencing => FileFormat::Vhdx,
        }
    }

    /// Opens a raw image.
    pub fn open_raw(drive: Drive, access: Access) -> Result<Image, VdiskError> {
        check_blocks(&drive)?;
        let map = Box::new(FixedMap::raw(drive.len_bytes()));
        Ok(Image::new(drive, map, Format::Raw, access, [0; 16], None))
    }

    /// Attaches the parent of a differencing image, if it is the right one.
    ///
    /// # Errors
    ///
    /// It is another image than the child expects, or of another length.
    pub fn attach(&self, parent: Image) -> Result<(), VdiskError> {
        let Some(link) = &self.0.link else { return Err(VdiskError::refused("the image has no parent")) };
        if !link.ids.contains(&parent.0.id) {
            let cause = "it is another image, or was modified after the child was created".into();
            return Err(VdiskError::Parent { name: link.name.clone(), cause });
        }
        if parent.sector_bytes() != self.sector_bytes() {
            let (own, other) = (self.sector_bytes(), parent.sector_bytes());
            let cause = format!("its sectors have {other} bytes, those of its child {own}");
            return Err(VdiskError::Parent { name: link.name.clone(), cause });
        }
        *self.0.parent.borrow_mut() = Some(parent);
        Ok(())
    }

    /// Findings of opening it.
    pub fn findings(&self) -> Findings {
        self.0.findings.borrow().clone()
    }

    /// The description of its parent.
    pub fn parent_link(&self) -> Option<&ParentLink> {
        self.0.link.as_ref()
    }

    /// The attached parent.
    pub fn parent(&self) -> Option<Image> {
        self.0.parent.borrow().clone()
    }

    /// Creation time of a VHD, in seconds since 2000-01-01 00:00 UTC; 0 for other formats.
    pub fn time_stamp_s(&self) -> u32 {
        self.0.time_stamp_s.get()
    }

    /// The identity by which children refer to it.
    pub fn id(&self) -> [u8; 16] {
        self.0.id
    }

    /// The identity of the disk, which writes do not change; 0 for a raw image.
    pub fn disk_id(&self) -> [u8; 16] {
        self.0.disk_id.get()
    }
}

fn refuse_faults(access: Access, faults: &[String]) -> Result<(), VdiskError> {
    match (access, faults.first()) {
        (Access::Write, Some(fault)) => {
            let cause = format!("{fault}; {} faults in total; open it read-only", faults.len());
            Err(VdiskError::damaged("the block allocation table", cause))
        }
        _ => Ok(()),
    }
}

async fn open_vhd(drive: Drive, access: Access, declared: Option<Kind>) -> Result<Image, VdiskError> {
    let opened = vhd::open(&drive, declared).await?;
    let faults = opened.faults;
    refuse_faults(access, &faults)?;
    let format = match opened.footer.kind {
        Kind::Fixed => Format::VhdFixed,
        Kind::Dynamic => Format::VhdDynamic,
        Kind::Differencing => Format::VhdDifferencing,
    };
    let link = opened.header.as_ref().filter(|_| opened.footer.kind == Kind::Differencing);
    let link = link.map(|header| ParentLink {
        name: header.parent_name.clone(),
        ids: vec![header.parent_id],
        paths: opened.parent_paths.clone(),
        time_stamp_s: header.parent_time_stamp_s,
    });
    let id = opened.footer.id;
    let image = Image::new(drive, opened.map, format, access, id, link);
    image.0.cut_to.set(opened.cut_to);
    image.0.time_stamp_s.set(opened.footer.time_stamp_s);
    *image.0.repairs.borrow_mut() = opened.repairs;
    *image.0.findings.borrow_mut() = Findings { faults, notes: opened.notes };
    Ok(image)
}

async fn open_vhdx(world: &World, drive: Drive, access: Access) -> Result<Image, VdiskError> {
    let first = read_vec(&drive, 0, drive.len_bytes().min(512)).await?;
    if !first.starts_with(VHDX_IDENTITY) {
        return Err(VdiskError::Foreign { format: "VHDX", cause: "missing file identifier".into() });
    }
    let opened = vhdx::open(&drive, world.seed()).await?;
    refuse_faults(access, &opened.faults)?;
    let format = match (&opened.parent, opened.map.block_bytes()) {
        (Some(_), _) => Format::VhdxDifferencing,
        (None, Some(_)) => Format::VhdxDynamic,
        (None, None) => Format::VhdxFixed,
    };
    let link = opened.parent.map(|(ids, paths)| ParentLink {
        name: paths.first().cloned().unwrap_or_default(),
        ids: ids.into_iter().map(|id| id.0).collect(),
        paths,
        time_stamp_s: 0,
    });
    let image = Image::new(drive, Box::new(opened.map), format, access, opened.data_write.0, link);
    image.0.disk_id.set(opened.disk_id.0);
    *image.0.repairs.borrow_mut() = opened.repairs;
    *image.0.findings.borrow_mut() = Findings { faults: opened.faults, notes: opened.notes };
    Ok(image)
}

/// Images have sectors of 512 bytes at any multiple of 512.
fn check_blocks(drive: &Drive) -> Result<(), VdiskError> {
    match drive.info().block_bytes {
        512 => Ok(()),
        bytes => Err(VdiskError::unsupported(format!(
            "{} has blocks of {bytes} bytes; images require 512",
            drive.info().name
        ))),
    }
}
