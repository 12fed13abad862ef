//! A volume, or an image, as a logical unit sees it.

use std::rc::Rc;

use block::{BlockError, Device, Geometry, Pieces};
use lu::{Capabilities, CommandContext, Copied, Durability, Extent, LogicalDisk, Space};
use pool::{Rod, Volume};

use vdisk::Image;

use crate::backing::CachedVolume;
use crate::guarantee::{Gate, Permit};

/// A volume with the block length that its hosts see, under the controller's cache if there is one; or an image in a file.
#[derive(Clone)]
pub struct Disk {
    content: Content,
    block_bytes: u32,
    /// Where operations wait for their turn; none: they do not.
    gate: Option<Rc<Gate>>,
}

/// Where the blocks are.
#[derive(Clone)]
enum Content {
    Volume { volume: Volume, cached: Option<CachedVolume> },
    Image(Image),
}

/// What is copied at once from or to an image.
const COPY_BYTES: u64 = 1 << 20;

fn refuse_tokens<T>() -> Result<T, BlockError> {
    Err(BlockError::Failed { cause: "an image has no frozen copies".into() })
}

impl Disk {
    /// A disk of this image.
    pub(crate) fn of_image(image: Image) -> Disk {
        Disk { block_bytes: image.sector_bytes(), content: Content::Image(image), gate: None }
    }

    /// The image, if it is one.
    pub(crate) fn image(&self) -> Option<&Image> {
        match &self.content {
            Content::Image(image) => Some(image),
            Content::Volume { .. } => None,
        }
    }

    /// A disk of this volume.
    pub fn new(volume: Volume, cached: Option<CachedVolume>, block_bytes: u32) -> Disk {
        Disk { content: Content::Volume { volume, cached }, block_bytes, gate: None }
    }

    /// Its operations pass this gate.
    pub(crate) fn behind(self, gate: Rc<Gate>) -> Disk {
        Disk { gate: Some(gate), ..self }
    }

    /// The gate that its operations pass.
    pub(crate) fn gate(&self) -> Option<&Rc<Gate>> {
        self.gate.as_ref()
    }

    /// The gate, where somebody is promised something.
    fn closed_gate(&self) -> Option<&Gate> {
        self.gate.as_deref().filter(|gate| !gate.is_open())
    }

    /// Waits for the turn of an operation that is charged so many bytes.
    async fn enter(
        &self,
        command: CommandContext<'_>,
        bytes: impl FnOnce(&Gate) -> u64,
    ) -> Result<Option<Permit<'_>>, BlockError> {
        match self.closed_gate() {
            None => Ok(None),
            Some(gate) => gate.enter(command, bytes(gate)).await.map(Some),
        }
    }

    /// What it costs to make a range zeros, in bytes: a unit for each whole page that is given back, and what is written of others.
    fn zeroing_bytes(&self, at: u64, len: u64, unit_bytes: u64) -> u64 {
        let Some(page) = self.volume().and_then(Volume::page_bytes) else { return len };
        let (first, last) = (at.div_ceil(page), (at + len) / page);
        match last.saturating_sub(first) {
            0 => len,
            pages => len - pages * page + pages * unit_bytes,
        }
    }

    /// A copy was charged so many bytes before: now what it cost. A shared page costs a unit, bytes that moved were read and written, and of another
    /// pool only written here.
    fn charge_copy(&self, source: Option<&Disk>, copied: pool::Copied, charged_bytes: u64) {
        let Some(gate) = self.closed_gate() else { return };
        let page = self.volume().and_then(Volume::page_bytes).unwrap_or(u64::MAX);
        let shared = copied.shared_bytes.div_ceil(page) * gate.unit_bytes();
        let other = source.and_then(Disk::gate).filter(|other| !other.is_beside(gate));
        let moved = match other {
            None => 2 * copied.moved_bytes,
            Some(other) => {
                other.charge(copied.moved_bytes);
                copied.moved_bytes
            }
        };
        gate.charge((shared + moved).saturating_sub(charged_bytes));
    }

    /// The volume, if it is one.
    pub fn volume(&self) -> Option<&Volume> {
        match &self.content {
            Content::Volume { volume, .. } => Some(volume),
            Content::Image(_) => None,
        }
    }

    fn cached(&self) -> Option<&CachedVolume> {
        match &self.content {
            Content::Volume { cached, .. } => cached.as_ref(),
            Content::Image(_) => None,
        }
    }

    /// Copies by reading and writing: where one of the two is an image.
    async fn move_from(
        &self,
        command: CommandContext<'_>,
        source: &Disk,
        from: u64,
        at: u64,
        len: u64,
    ) -> Result<Copied, BlockError> {
        let mut done = 0;
        while done < len {
            let n = COPY_BYTES.min(len - done);
            // A range that moves over itself is read before it is overwritten: to higher addresses from the end.
            let offset = if at > from { len - done - n } else { done };
            let mut bytes = Pieces::new();
            source.read(command, from + offset, n as usize, &mut bytes).await?;
            self.write(command, at + offset, &bytes, Durability::Volatile).await?;
            done += n;
        }
        Ok(Copied { shared_bytes: 0, moved_bytes: len })
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
        match self.cached() {
            Some(unit) => unit.change(at..at + len, operation).await,
            None => operation.await,
        }
    }

    /// Where every command is durable when it ends, a copy is, too.
    async fn copied(&self, copied: pool::Copied) -> Result<Copied, BlockError> {
        if !self.capabilities().volatile_cache {
            self.flush().await?;
        }
        Ok(Copied { shared_bytes: copied.shared_bytes, moved_bytes: copied.moved_bytes })
    }
}

impl LogicalDisk for Disk {
    type Rod = Rod;

    fn geometry(&self) -> Geometry {
        let geometry = match &self.content {
            Content::Volume { volume, .. } => volume.geometry(),
            Content::Image(image) => image.geometry(),
        };
        Geometry { block_bytes: self.block_bytes, ..geometry }
    }

    fn capabilities(&self) -> Capabilities {
        match &self.content {
            Content::Volume { volume, cached } => Capabilities {
                page_bytes: volume.page_bytes(),
                volatile_cache: cached.as_ref().is_none_or(|unit| !unit.has_journal()),
                keeps_records: true,
            },
            // An image has no place for records that others would leave alone.
            Content::Image(image) => {
                Capabilities { page_bytes: image.block_bytes(), volatile_cache: true, keeps_records: false }
            }
        }
    }

    fn space(&self) -> Space {
        let volume = match &self.content {
            Content::Volume { volume, .. } => volume,
            // What the file system below has left, nobody asks it: all that the disk does not use yet.
            Content::Image(image) => {
                let (used_bytes, pool_bytes) =
                    (image.used_len_bytes().min(image.len_bytes()), image.len_bytes());
                let pool_free_bytes = pool_bytes - used_bytes;
                return Space { used_bytes, pool_free_bytes, pool_bytes, soft_threshold_percent: 100 };
            }
        };
        let pool = volume.pool().space();
        Space {
            used_bytes: volume.used_bytes(),
            pool_free_bytes: pool.free_bytes,
            pool_bytes: pool.total_bytes,
            soft_threshold_percent: pool.soft_threshold_percent,
        }
    }

    // A write to a page that is not mapped goes to the volume before it is acknowledged, so that this is true under a cache, too.
    fn extent(&self, at: u64) -> Extent {
        match &self.content {
            Content::Volume { volume, .. } => {
                let extent = volume.extent(at);
                Extent { len_bytes: extent.len_bytes, mapped: extent.mapped }
            }
            Content::Image(image) => {
                let (len_bytes, mapped) = image.extent(at, u64::MAX);
                Extent { len_bytes, mapped }
            }
        }
    }

    async fn read(
        &self,
        command: CommandContext<'_>,
        at: u64,
        len: usize,
        out: &mut Pieces,
    ) -> Result<(), BlockError> {
        let _permit = match self.closed_gate() {
            None => None,
            Some(gate) => Some(gate.enter(command, len as u64).await?),
        };
        match &self.content {
            Content::Volume { cached: Some(unit), .. } => unit.read(at, len, out).await,
            Content::Volume { volume, .. } => volume.read(at, len, out).await,
            // Boxed: what images need is not to lengthen the future of every volume.
            Content::Image(image) => Box::pin(Device::read(image, at, len, out)).await,
        }
    }

    async fn write(
        &self,
        command: CommandContext<'_>,
        at: u64,
        data: &Pieces,
        durability: Durability,
    ) -> Result<(), BlockError> {
        let permit = match self.closed_gate() {
            None => None,
            Some(gate) => Some(gate.enter(command, data.len() as u64).await?),
        };
        match &self.content {
            Content::Volume { cached: Some(unit), .. } => unit.write(at, data).await?,
            Content::Volume { volume, .. } => volume.write(at, data).await?,
            Content::Image(image) => Box::pin(Device::write(image, at, data)).await?,
        }
        // What a flush makes durable is everybody's: it takes nobody's turn.
        drop(permit);
        match durability {
            Durability::Volatile => Ok(()),
            Durability::Durable => self.sync(at, data.len() as u64).await,
        }
    }

    async fn zero(&self, command: CommandContext<'_>, at: u64, len: u64) -> Result<(), BlockError> {
        let _permit = self.enter(command, |gate| self.zeroing_bytes(at, len, gate.unit_bytes())).await?;
        match &self.content {
            Content::Volume { volume, .. } => self.change(at, len, volume.zero(at, len)).await,
            Content::Image(image) => Box::pin(Device::zero(image, at, len)).await,
        }
    }

    async fn unmap(&self, command: CommandContext<'_>, at: u64, len: u64) -> Result<u64, BlockError> {
        let _permit = self.enter(command, |gate| self.zeroing_bytes(at, len, gate.unit_bytes())).await?;
        match &self.content {
            Content::Volume { volume, .. } => self.change(at, len, volume.unmap(at, len)).await,
            Content::Image(image) => {
                let before = image.occupied_bytes(at, len);
                Box::pin(Device::zero(image, at, len)).await?;
                Ok(before.saturating_sub(image.occupied_bytes(at, len)))
            }
        }
    }

    async fn flush(&self) -> Result<(), BlockError> {
        match &self.content {
            Content::Volume { cached: Some(unit), .. } => unit.flush().await,
            Content::Volume { volume, .. } => volume.flush().await,
            Content::Image(image) => Box::pin(Device::flush(image)).await,
        }
    }

    async fn sync(&self, at: u64, len: u64) -> Result<(), BlockError> {
        match &self.content {
            Content::Volume { cached: Some(unit), .. } => unit.sync(at, len).await,
            Content::Volume { volume, .. } => volume.flush().await,
            Content::Image(image) => Box::pin(Device::flush(image)).await,
        }
    }

    async fn copy_from(
        &self,
        command: CommandContext<'_>,
        source: &Disk,
        from: u64,
        at: u64,
        len: u64,
    ) -> Result<Copied, BlockError> {
        let _permit = self.enter(command, Gate::unit_bytes).await?;
        let (Some(volume), Some(other)) = (self.volume(), source.volume()) else {
            // The permit of the copy would hold up its own reads and writes.
            drop(_permit);
            return Box::pin(self.move_from(command, source, from, at, len)).await;
        };
        let copy = Box::pin(volume.share_or_copy(other, from, at, len));
        let copied = match (self.cached(), source.cached()) {
            (Some(unit), Some(other)) => {
                unit.change_from(at..at + len, other, from..from + len, copy).await?
            }
            // All volumes of a controller are under its cache, or none is.
            _ => copy.await?,
        };
        self.charge_copy(Some(source), copied, self.gate.as_deref().map_or(0, Gate::unit_bytes));
        self.copied(copied).await
    }

    async fn take_rod(&self, command: CommandContext<'_>, at: u64, len: u64) -> Result<Rod, BlockError> {
        let _permit = self.enter(command, Gate::unit_bytes).await?;
        let Some(volume) = self.volume() else { return refuse_tokens() };
        let _settled = match self.cached() {
            Some(unit) => Some(unit.settle(at..at + len).await?),
            None => None,
        };
        volume.hold(at, len).await
    }

    async fn copy_from_rod(
        &self,
        command: CommandContext<'_>,
        rod: &Rod,
        from: u64,
        at: u64,
        len: u64,
    ) -> Result<Copied, BlockError> {
        let _permit = self.enter(command, Gate::unit_bytes).await?;
        let Some(volume) = self.volume() else { return refuse_tokens() };
        let copied = self.change(at, len, volume.copy_from_rod(rod, from, at, len)).await?;
        self.charge_copy(None, copied, self.gate.as_deref().map_or(0, Gate::unit_bytes));
        self.copied(copied).await
    }

    async fn save_record(&self, name: &str, bytes: &[u8]) -> Result<(), BlockError> {
        match &self.content {
            Content::Volume { volume, .. } => volume.save_record(name, bytes).await,
            Content::Image(_) => Err(BlockError::Failed { cause: "an image keeps no records".into() }),
        }
    }

    fn load_record(&self, name: &str) -> Option<Vec<u8>> {
        self.volume()?.load_record(name)
    }
}
