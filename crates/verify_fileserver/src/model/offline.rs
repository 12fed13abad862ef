//! What needs a virtual disk for itself: growing it, and compacting its file. The code that does both is the
//! product's. The guest's I/O waits meanwhile, as if its machine were saved.

use anyhow::{Result, bail};
use vdisk::{Access, Compacted, FileFormat, Image, vhd, vhdx};
use world::Drive;

use super::disk::{Format, LuWrite};
use super::host_file::HostFile;
use super::layout::Range;
use super::lu::{Durable, Ended};
use super::path::GuestDisk;

impl GuestDisk {
    /// Grows the disk.
    pub(super) async fn grow(&self, len_bytes: u64) -> Result<()> {
        let seed = self.fabric.world.seed();
        self.offline(async |drive, format| match format {
            Format::Dynamic => {
                Ok(vhd::grow(drive, Some(vhd::Kind::Dynamic), len_bytes, &mut |_, _| {}).await?)
            }
            Format::Vhdx => Ok(vhdx::grow(drive, len_bytes, seed, &mut |_, _| {}).await?),
            Format::Fixed => bail!("a fixed disk does not grow here"),
        })
        .await
    }

    /// Compacts its file.
    pub(super) async fn compact(&self) -> Result<Compacted> {
        self.offline(async |drive, format| {
            let format = match format {
                Format::Dynamic => FileFormat::VhdDynamic,
                Format::Vhdx => FileFormat::Vhdx,
                Format::Fixed => bail!("a fixed disk has nothing to compact"),
            };
            let world = &self.fabric.world;
            let image = Image::open_as(world, drive.clone(), Access::Write, format).await?;
            Ok(image.compact(|_, _| {}).await?)
        })
        .await
    }

    /// The guest does not need a range any more.
    pub(super) async fn unmap(&self, range: Range) -> Result<()> {
        let _tables = self.tables.exclusive(0..1).await;
        let _held = self.blocks.exclusive(range.at..range.end()).await;
        let writes = self.vdisk.borrow_mut().unmap(range)?;
        self.write_all(&writes).await
    }

    /// The guest stands still, and its disk is a file.
    async fn offline<T>(&self, work: impl AsyncFnOnce(&Drive, Format) -> Result<T>) -> Result<T> {
        let _tables = self.tables.exclusive(0..1).await;
        let _all = self.blocks.exclusive(0..u64::MAX).await;
        let closing = self.vdisk.borrow_mut().close()?;
        self.write_all(&closing).await?;
        let (format, content, len_bytes) = {
            let mut vdisk = self.vdisk.borrow_mut();
            (vdisk.format(), vdisk.take_content(), vdisk.file_bytes(0))
        };
        let Some(content) = content else { bail!("nothing is known of the disk's file") };
        let file = HostFile::open(&self.lu, *content, len_bytes, self.grown());
        let drive = file.drive();
        let done = work(&drive, format).await?;
        match format {
            Format::Vhdx => {
                let map = vhdx::read_map(&drive, self.fabric.world.seed()).await?;
                self.vdisk.borrow_mut().set_vhdx(map, file.content().into());
            }
            _ => {
                let map = vhd::read_map(&drive).await?;
                self.vdisk.borrow_mut().set_dynamic(map, file.content().into());
            }
        }
        let beginning = self.vdisk.borrow_mut().begin()?;
        self.write_all(&beginning).await?;
        Ok(done)
    }

    /// One after the other, each durable before the next.
    async fn write_all(&self, writes: &[LuWrite]) -> Result<()> {
        for write in writes {
            if self.lu.write(write.range, Durable::AtOnce).await? == Ended::NoSpace {
                bail!("the pool has no page for the tables of a virtual disk");
            }
        }
        Ok(())
    }
}
