//! A volume as SCSI sees it.

use block::{BlockError, Device, Geometry, Pieces};
use pool::{Rod, Volume};
use scsi::{Copied, Extent, Medium, Space};

/// A volume with the block length that its hosts see.
#[derive(Clone)]
pub struct Disk {
    volume: Volume,
    block_bytes: u32,
}

impl Disk {
    /// A disk of this volume.
    pub fn new(volume: Volume, block_bytes: u32) -> Disk {
        Disk { volume, block_bytes }
    }

    /// The volume.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }
}

impl Medium for Disk {
    type Rod = Rod;

    fn geometry(&self) -> Geometry {
        Geometry { block_bytes: self.block_bytes, ..self.volume.geometry() }
    }

    fn page_bytes(&self) -> Option<u64> {
        self.volume.page_bytes()
    }

    fn space(&self) -> Space {
        let pool = self.volume.pool().space();
        Space {
            used_bytes: self.volume.used_bytes(),
            pool_free_bytes: pool.free_bytes,
            pool_bytes: pool.total_bytes,
            soft_threshold_percent: pool.soft_threshold_percent,
        }
    }

    fn extent(&self, at: u64) -> Extent {
        let extent = self.volume.extent(at);
        Extent { len_bytes: extent.len_bytes, mapped: extent.mapped }
    }

    async fn read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        self.volume.read(at, len, out).await
    }

    async fn write(&self, at: u64, data: &Pieces) -> Result<(), BlockError> {
        self.volume.write(at, data).await
    }

    async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.volume.zero(at, len).await
    }

    async fn unmap(&self, at: u64, len: u64) -> Result<u64, BlockError> {
        self.volume.unmap(at, len).await
    }

    async fn flush(&self) -> Result<(), BlockError> {
        self.volume.flush().await
    }

    async fn copy_from(&self, source: &Disk, from: u64, at: u64, len: u64) -> Result<Copied, BlockError> {
        let copied = self.volume.share_or_copy(&source.volume, from, at, len).await?;
        Ok(Copied { shared_bytes: copied.shared_bytes, moved_bytes: copied.moved_bytes })
    }

    async fn take_rod(&self, at: u64, len: u64) -> Result<Rod, BlockError> {
        self.volume.hold(at, len).await
    }

    async fn copy_from_rod(&self, rod: &Rod, from: u64, at: u64, len: u64) -> Result<Copied, BlockError> {
        let copied = self.volume.copy_from_rod(rod, from, at, len).await?;
        Ok(Copied { shared_bytes: copied.shared_bytes, moved_bytes: copied.moved_bytes })
    }

    async fn save_record(&self, name: &str, bytes: &[u8]) -> Result<(), BlockError> {
        self.volume.save_record(name, bytes).await
    }

    fn load_record(&self, name: &str) -> Option<Vec<u8>> {
        self.volume.load_record(name)
    }
}
