//! Opening an image: what it is, whether its metadata can be believed, and whether it may be written.

use world::{Drive, World};

use super::chain::ParentLink;
use super::driver::read_vec;
use super::{Access, Findings, Format, Image};
use crate::vhd::{self, Kind};
use crate::{FixedMap, Map, VdiskError, vhdx};

impl Image {
    /// Opens the image on a drive, whatever format it is of. A differencing one has no parent yet: [`Image::attach`].
    /// For writing, metadata that contradicts itself is an error, and nothing is written; for reading, what can be read is.
    pub async fn open(world: &World, drive: Drive, access: Access) -> Result<Image, VdiskError> {
        check_blocks(&drive)?;
        let first = read_vec(&drive, 0, drive.len_bytes().min(512)).await?;
        if first.starts_with(b"vhdxfile") {
            return open_vhdx(world, drive, access).await;
        }
        let opened = vhd::open(&drive).await?;
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
        });
        let id = opened.footer.id;
        let image = Image::new(drive, opened.map, format, access, id, link);
        image.0.cut_to.set(opened.cut_to);
        image.0.time_stamp_s.set(opened.footer.time_stamp_s);
        *image.0.repairs.borrow_mut() = opened.repairs;
        *image.0.findings.borrow_mut() = Findings { faults, notes: opened.notes };
        Ok(image)
    }

    /// Opens a raw image.
    pub fn open_raw(drive: Drive, access: Access) -> Result<Image, VdiskError> {
        check_blocks(&drive)?;
        let map = Box::new(FixedMap::raw(drive.len_bytes()));
        Ok(Image::new(drive, map, Format::Raw, access, [0; 16], None))
    }

    /// Gives a differencing image its parent, if it is the one.
    pub fn attach(&self, parent: Image) -> Result<(), VdiskError> {
        let Some(link) = &self.0.link else { return Err(VdiskError::refused("the image has no parent")) };
        if !link.ids.contains(&parent.0.id) {
            let cause = "it is another image, or was changed after the child was made".into();
            return Err(VdiskError::Parent { name: link.name.clone(), cause });
        }
        *self.0.parent.borrow_mut() = Some(parent);
        Ok(())
    }

    /// What was found wrong when it was opened.
    pub fn findings(&self) -> Findings {
        self.0.findings.borrow().clone()
    }

    /// Who its parent is.
    pub fn parent_link(&self) -> Option<&ParentLink> {
        self.0.link.as_ref()
    }

    /// The parent that is attached.
    pub fn parent(&self) -> Option<Image> {
        self.0.parent.borrow().clone()
    }

    /// When a VHD was made, in seconds since 2000-01-01 00:00 UTC; 0 for other formats.
    pub fn time_stamp_s(&self) -> u32 {
        self.0.time_stamp_s.get()
    }

    /// The identity that children know it by.
    pub fn id(&self) -> [u8; 16] {
        self.0.id
    }

    /// The identity of the disk, which stays when it is written; 0 for a raw one.
    pub fn disk_id(&self) -> [u8; 16] {
        self.0.disk_id.get()
    }
}

fn refuse_faults(access: Access, faults: &[String]) -> Result<(), VdiskError> {
    match (access, faults.first()) {
        (Access::Write, Some(fault)) => {
            let cause = format!("{fault}; {} faults in all: it may be read, not written", faults.len());
            Err(VdiskError::damaged("the block allocation table", cause))
        }
        _ => Ok(()),
    }
}

async fn open_vhdx(world: &World, drive: Drive, access: Access) -> Result<Image, VdiskError> {
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
            "{} takes blocks of {bytes} bytes only, and images need 512",
            drive.info().name
        ))),
    }
}
