//! Opening an image: what it is, whether its metadata can be believed, and whether it may be written.

use world::Drive;

use super::chain::ParentLink;
use super::driver::read_vec;
use super::{Access, Findings, Format, Image};
use crate::vhd::{self, Kind};
use crate::{FixedMap, VdiskError};

impl Image {
    /// Opens the image on a drive, whatever format it is of. A differencing one has no parent yet: [`Image::attach`].
    /// For writing, metadata that contradicts itself is an error, and nothing is written; for reading, what can be read is.
    pub async fn open(drive: Drive, access: Access) -> Result<Image, VdiskError> {
        check_blocks(&drive)?;
        let first = read_vec(&drive, 0, drive.len_bytes().min(512)).await?;
        if first.starts_with(b"vhdxfile") {
            return Err(VdiskError::unsupported("VHDX"));
        }
        let opened = vhd::open(&drive).await?;
        let faults = opened.faults;
        if let (Access::Write, Some(fault)) = (access, faults.first()) {
            let cause = format!("{fault}; {} faults in all: it may be read, not written", faults.len());
            return Err(VdiskError::damaged("the block allocation table", cause));
        }
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

    /// The identity that children know it by.
    pub fn id(&self) -> [u8; 16] {
        self.0.id
    }
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
