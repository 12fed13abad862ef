//! A volume behind the controller's cache.

use block::{BlockError, Geometry, Pieces};
use lu::{Capabilities, CommandContext, Copied, Durability, Extent, LogicalDisk, Space};
use pool::Rod;
use world::OpenSpan;

use crate::CachedVolume;
use crate::volume::{PlainVolume, counted};

/// A volume behind a cache: reads and writes use the frames; operations that change the volume itself evict
/// them first.
#[derive(Clone)]
pub struct Cached {
    unit: CachedVolume,
    below: PlainVolume,
}

impl Cached {
    /// The volume of the unit, in blocks of this length.
    pub fn new(unit: CachedVolume, block_bytes: u32) -> Cached {
        let below = PlainVolume::new(unit.store().clone(), block_bytes);
        Cached { unit, below }
    }

    /// The volume below the cache.
    pub fn below(&self) -> &PlainVolume {
        &self.below
    }

    /// Changes a range of the volume itself.
    async fn change<T>(
        &self,
        at: u64,
        len: u64,
        operation: impl Future<Output = Result<T, BlockError>>,
    ) -> Result<T, BlockError> {
        // Boxed, because the unit's future contains it several times.
        self.unit.change(at..at + len, Box::pin(operation)).await
    }
}

impl LogicalDisk for Cached {
    type Rod = Rod;

    fn geometry(&self) -> Geometry {
        self.below.geometry()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { volatile_cache: !self.unit.has_journal(), ..self.below.capabilities() }
    }

    fn space(&self) -> Space {
        self.below.space()
    }

    // A write to an unmapped page goes to the volume before it is acknowledged, so this also holds behind a
    // cache.
    fn extent(&self, at: u64) -> Extent {
        self.below.extent(at)
    }

    async fn read(
        &self,
        command: CommandContext<'_>,
        at: u64,
        len: usize,
        out: &mut Pieces,
    ) -> Result<(), BlockError> {
        let span = OpenSpan::begin(command.trace(), "cache", self.below.volume().name());
        self.unit.read_traced(span.trace(), at, len, out).await
    }

    async fn write(
        &self,
        command: CommandContext<'_>,
        at: u64,
        data: &Pieces,
        durability: Durability,
    ) -> Result<(), BlockError> {
        let span = OpenSpan::begin(command.trace(), "cache", self.below.volume().name());
        match durability {
            Durability::Volatile => self.unit.write_traced(span.trace(), at, data).await,
            Durability::Durable => self.unit.write_durable(span.trace(), at, data).await,
        }
    }

    async fn zero(&self, command: CommandContext<'_>, at: u64, len: u64) -> Result<(), BlockError> {
        self.change(at, len, self.below.zero(command, at, len)).await
    }

    async fn unmap(&self, command: CommandContext<'_>, at: u64, len: u64) -> Result<u64, BlockError> {
        self.change(at, len, self.below.unmap(command, at, len)).await
    }

    async fn flush(&self) -> Result<(), BlockError> {
        self.unit.flush().await
    }

    async fn sync(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.unit.sync(at, len).await
    }

    async fn copy_from(
        &self,
        _: CommandContext<'_>,
        source: &Cached,
        from: u64,
        at: u64,
        len: u64,
    ) -> Result<Copied, BlockError> {
        let copy = Box::pin(self.below.volume().share_or_copy(source.below.volume(), from, at, len));
        let copied = self.unit.change_from(at..at + len, &source.unit, from..from + len, copy).await?;
        Ok(counted(copied))
    }

    async fn take_rod(&self, command: CommandContext<'_>, at: u64, len: u64) -> Result<Rod, BlockError> {
        let _settled = self.unit.settle(at..at + len).await?;
        self.below.take_rod(command, at, len).await
    }

    fn has_rod(&self, rod: &Rod) -> bool {
        self.below.has_rod(rod)
    }

    fn keep_rod(rod: &Rod, keep: bool) {
        rod.keep(keep);
    }

    async fn read_rod(
        &self,
        command: CommandContext<'_>,
        rod: &Rod,
        from: u64,
        len: usize,
        out: &mut Pieces,
    ) -> Result<(), BlockError> {
        self.below.read_rod(command, rod, from, len, out).await
    }

    async fn copy_from_rod(
        &self,
        command: CommandContext<'_>,
        rod: &Rod,
        from: u64,
        at: u64,
        len: u64,
    ) -> Result<Copied, BlockError> {
        self.change(at, len, self.below.copy_from_rod(command, rod, from, at, len)).await
    }

    async fn save_record(&self, name: &str, bytes: &[u8]) -> Result<(), BlockError> {
        self.below.save_record(name, bytes).await
    }

    fn load_record(&self, name: &str) -> Option<Vec<u8>> {
        self.below.load_record(name)
    }
}
