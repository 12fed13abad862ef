//! A volume as SCSI sees it.

use block::{BlockError, Device, Geometry, Pieces};
use pool::{Rod, Volume};
use scsi::{Copied, Extent, Medium, Space};

use crate::cached::CachedVolume;

/// A volume with the block length that its hosts see, under the controller's cache if there is one.
#[derive(Clone)]
pub struct Disk {
    volume: Volume,
    cached: Option<CachedVolume>,
    block_bytes: u32,
}

impl Disk {
    /// A disk of this volume.
    pub fn new(volume: Volume, cached: Option<CachedVolume>, block_bytes: u32) -> Disk {
        Disk { volume, cached, block_bytes }
    }

    /// The volume.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Does what changes a range of the volume itself.
    async fn change<T>(
        &self,
        at: u64,
        len: u64,
        operation: impl Future<Output = Result<T, BlockError>>,
    ) -> Result<T, BlockError> {
        // Boxed: the unit's future holds it several times over.
        let operation = Box::pin(operation);
        match &self.cached {
            Some(unit) => unit.change(at..at + len, operation).await,
            None => operation.await,
        }
    }

    /// Where every command is durable when it ends, a copy is, too.
    async fn copied(&self, copied: pool::Copied) -> Result<Copied, BlockError> {
        if !self.volatile_cache() {
            self.flush().await?;
        }
        Ok(Copied { shared_bytes: copied.shared_bytes, moved_bytes: copied.moved_bytes })
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

    // A write to a page that is not mapped goes to the volume before it is acknowledged, so that this is true under a cache, too.
    fn extent(&self, at: u64) -> Extent {
        let extent = self.volume.extent(at);
        Extent { len_bytes: extent.len_bytes, mapped: extent.mapped }
    }

    async fn read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        match &self.cached {
            Some(unit) => unit.read(at, len, out).await,
            None => self.volume.read(at, len, out).await,
        }
    }

    async fn write(&self, at: u64, data: &Pieces) -> Result<(), BlockError> {
        match &self.cached {
            Some(unit) => unit.write(at, data).await,
            None => self.volume.write(at, data).await,
        }
    }

    async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.change(at, len, self.volume.zero(at, len)).await
    }

    async fn unmap(&self, at: u64, len: u64) -> Result<u64, BlockError> {
        self.change(at, len, self.volume.unmap(at, len)).await
    }

    async fn flush(&self) -> Result<(), BlockError> {
        match &self.cached {
            Some(unit) => unit.flush().await,
            None => self.volume.flush().await,
        }
    }

    async fn sync(&self, at: u64, len: u64) -> Result<(), BlockError> {
        match &self.cached {
            Some(unit) => unit.sync(at, len).await,
            None => self.volume.flush().await,
        }
    }

    fn volatile_cache(&self) -> bool {
        self.cached.as_ref().is_none_or(|unit| !unit.has_journal())
    }

    async fn copy_from(&self, source: &Disk, from: u64, at: u64, len: u64) -> Result<Copied, BlockError> {
        let copy = Box::pin(self.volume.share_or_copy(&source.volume, from, at, len));
        let copied = match (&self.cached, &source.cached) {
            (Some(unit), Some(other)) => {
                unit.change_from(at..at + len, other, from..from + len, copy).await?
            }
            // All volumes of a controller are under its cache, or none is.
            _ => copy.await?,
        };
        self.copied(copied).await
    }

    async fn take_rod(&self, at: u64, len: u64) -> Result<Rod, BlockError> {
        let _settled = match &self.cached {
            Some(unit) => Some(unit.settle(at..at + len).await?),
            None => None,
        };
        self.volume.hold(at, len).await
    }

    async fn copy_from_rod(&self, rod: &Rod, from: u64, at: u64, len: u64) -> Result<Copied, BlockError> {
        let copied = self.change(at, len, self.volume.copy_from_rod(rod, from, at, len)).await?;
        self.copied(copied).await
    }

    async fn save_record(&self, name: &str, bytes: &[u8]) -> Result<(), BlockError> {
        self.volume.save_record(name, bytes).await
    }

    fn load_record(&self, name: &str) -> Option<Vec<u8>> {
        self.volume.load_record(name)
    }
}
