//! A virtual disk in a file.

use block::{BlockError, Device, Geometry, Pieces};
use lu::{Capabilities, CommandContext, Copied, Durability, Extent, LogicalDisk, Space};
use pool::Rod;
use vdisk::Image;
use world::OpenSpan;

use crate::move_bytes::move_bytes;

/// An image. Its operations are boxed, so that they do not enlarge the future of every volume.
#[derive(Clone)]
pub struct ImageDisk(Image);

fn refuse_tokens<T>() -> Result<T, BlockError> {
    Err(BlockError::Failed { cause: "an image does not support snapshots".into() })
}

impl ImageDisk {
    /// A disk of this image.
    pub fn new(image: Image) -> ImageDisk {
        ImageDisk(image)
    }

    /// The image.
    pub fn image(&self) -> &Image {
        &self.0
    }
}

impl LogicalDisk for ImageDisk {
    type Rod = Rod;

    fn geometry(&self) -> Geometry {
        Geometry { block_bytes: self.0.sector_bytes(), ..self.0.geometry() }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            page_bytes: self.0.block_bytes(),
            volatile_cache: true,
            // An image supports no snapshots, so no page is shared.
            keeps_records: false,
            offloads: false,
        }
    }

    // The free space of the file system below is unknown: report all that the disk does not use yet.
    fn space(&self) -> Space {
        let (used_bytes, pool_bytes) = (self.0.used_len_bytes().min(self.0.len_bytes()), self.0.len_bytes());
        let pool_free_bytes = pool_bytes - used_bytes;
        Space { used_bytes, pool_free_bytes, pool_bytes, soft_threshold_percent: 100 }
    }

    fn extent(&self, at: u64) -> Extent {
        let (len_bytes, mapped) = self.0.extent(at, u64::MAX);
        Extent { len_bytes, mapped }
    }

    async fn read(
        &self,
        command: CommandContext<'_>,
        at: u64,
        len: usize,
        out: &mut Pieces,
    ) -> Result<(), BlockError> {
        let _span = OpenSpan::begin(command.trace(), "image", "");
        Box::pin(Device::read(&self.0, at, len, out)).await
    }

    async fn write(
        &self,
        command: CommandContext<'_>,
        at: u64,
        data: &Pieces,
        durability: Durability,
    ) -> Result<(), BlockError> {
        let _span = OpenSpan::begin(command.trace(), "image", "");
        Box::pin(Device::write(&self.0, at, data)).await?;
        match durability {
            Durability::Volatile => Ok(()),
            Durability::Durable => LogicalDisk::flush(self).await,
        }
    }

    async fn zero(&self, _: CommandContext<'_>, at: u64, len: u64) -> Result<(), BlockError> {
        Box::pin(Device::zero(&self.0, at, len)).await
    }

    async fn unmap(&self, _: CommandContext<'_>, at: u64, len: u64) -> Result<u64, BlockError> {
        let before = self.0.occupied_bytes(at, len);
        Box::pin(Device::zero(&self.0, at, len)).await?;
        Ok(before.saturating_sub(self.0.occupied_bytes(at, len)))
    }

    async fn flush(&self) -> Result<(), BlockError> {
        Box::pin(Device::flush(&self.0)).await
    }

    async fn sync(&self, _: u64, _: u64) -> Result<(), BlockError> {
        LogicalDisk::flush(self).await
    }

    async fn copy_from(
        &self,
        command: CommandContext<'_>,
        source: &ImageDisk,
        from: u64,
        at: u64,
        len: u64,
    ) -> Result<Copied, BlockError> {
        Box::pin(move_bytes(command, (source, from), (self, at), len)).await
    }

    async fn take_rod(&self, _: CommandContext<'_>, _: u64, _: u64) -> Result<Rod, BlockError> {
        refuse_tokens()
    }

    fn has_rod(&self, _: &Rod) -> bool {
        true
    }

    fn keep_rod(_: &Rod, _: bool) {}

    async fn read_rod(
        &self,
        _: CommandContext<'_>,
        _: &Rod,
        _: u64,
        _: usize,
        _: &mut Pieces,
    ) -> Result<(), BlockError> {
        refuse_tokens()
    }

    async fn copy_from_rod(
        &self,
        _: CommandContext<'_>,
        _: &Rod,
        _: u64,
        _: u64,
        _: u64,
    ) -> Result<Copied, BlockError> {
        refuse_tokens()
    }

    async fn save_record(&self, _: &str, _: &[u8]) -> Result<(), BlockError> {
        Err(BlockError::Failed { cause: "an image cannot store records".into() })
    }

    fn load_record(&self, _: &str) -> Option<Vec<u8>> {
        None
    }
}
