//! A volume of a pool, with the block length that its hosts see.

use block::{BlockError, Device, Geometry, Pieces};
use lu::{Capabilities, CommandContext, Copied, Durability, Extent, LogicalDisk, Space};
use pool::{Rod, Volume};
use world::OpenSpan;

/// A volume without a cache.
#[derive(Clone)]
pub struct PlainVolume {
    volume: Volume,
    block_bytes: u32,
}

impl PlainVolume {
    /// The volume, in blocks of this length.
    pub fn new(volume: Volume, block_bytes: u32) -> PlainVolume {
        PlainVolume { volume, block_bytes }
    }

    /// The volume.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }
}

/// In the block length of the logical unit.
pub(crate) fn counted(copied: pool::Copied) -> Copied {
    Copied { shared_bytes: copied.shared_bytes, moved_bytes: copied.moved_bytes }
}

impl LogicalDisk for PlainVolume {
    type Rod = Rod;

    fn geometry(&self) -> Geometry {
        Geometry { block_bytes: self.block_bytes, ..self.volume.geometry() }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            page_bytes: self.volume.page_bytes(),
            volatile_cache: true,
            keeps_records: true,
            offloads: true,
        }
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

    async fn read(
        &self,
        command: CommandContext<'_>,
        at: u64,
        len: usize,
        out: &mut Pieces,
    ) -> Result<(), BlockError> {
        self.volume.read_traced(command.trace(), at, len, out).await
    }

    async fn write(
        &self,
        command: CommandContext<'_>,
        at: u64,
        data: &Pieces,
        durability: Durability,
    ) -> Result<(), BlockError> {
        self.volume.write_traced(command.trace(), at, data).await?;
        match durability {
            Durability::Volatile => Ok(()),
            Durability::Durable => {
                let _span = OpenSpan::begin(command.trace(), "sync", "");
                self.volume.flush().await
            }
        }
    }

    async fn zero(&self, _: CommandContext<'_>, at: u64, len: u64) -> Result<(), BlockError> {
        self.volume.zero(at, len).await
    }

    async fn unmap(&self, _: CommandContext<'_>, at: u64, len: u64) -> Result<u64, BlockError> {
        self.volume.unmap(at, len).await
    }

    async fn flush(&self) -> Result<(), BlockError> {
        self.volume.flush().await
    }

    // The drives' caches do not know ranges.
    async fn sync(&self, _: u64, _: u64) -> Result<(), BlockError> {
        self.volume.flush().await
    }

    async fn copy_from(
        &self,
        _: CommandContext<'_>,
        source: &PlainVolume,
        from: u64,
        at: u64,
        len: u64,
    ) -> Result<Copied, BlockError> {
        Box::pin(self.volume.share_or_copy(&source.volume, from, at, len)).await.map(counted)
    }

    async fn take_rod(&self, _: CommandContext<'_>, at: u64, len: u64) -> Result<Rod, BlockError> {
        self.volume.hold(at, len).await
    }

    fn has_rod(&self, rod: &Rod) -> bool {
        !rod.is_discarded()
    }

    fn keep_rod(rod: &Rod, keep: bool) {
        rod.keep(keep);
    }

    async fn read_rod(
        &self,
        _: CommandContext<'_>,
        rod: &Rod,
        from: u64,
        len: usize,
        out: &mut Pieces,
    ) -> Result<(), BlockError> {
        Box::pin(rod.read(from, len, out)).await
    }

    async fn copy_from_rod(
        &self,
        _: CommandContext<'_>,
        rod: &Rod,
        from: u64,
        at: u64,
        len: u64,
    ) -> Result<Copied, BlockError> {
        Box::pin(self.volume.copy_from_rod(rod, from, at, len)).await.map(counted)
    }

    async fn save_record(&self, name: &str, bytes: &[u8]) -> Result<(), BlockError> {
        self.volume.save_record(name, bytes).await
    }

    fn load_record(&self, name: &str) -> Option<Vec<u8>> {
        self.volume.load_record(name)
    }
}
