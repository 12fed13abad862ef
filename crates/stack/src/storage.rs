//! The storage of a logical unit as one type, because the units of a controller copy from each other.

use block::{BlockError, Geometry, Pieces};
use lu::{Capabilities, CommandContext, Copied, Durability, Extent, LogicalDisk, Space};
use pool::{Rod, Volume};
use vdisk::Image;

use crate::cached::Cached;
use crate::image::ImageDisk;
use crate::move_bytes::move_bytes;
use crate::volume::PlainVolume;

/// A volume, a volume under the cache, or an image.
#[derive(Clone)]
pub enum Storage {
    /// A volume of a pool.
    Plain(PlainVolume),
    /// The same under the controller's cache.
    Cached(Cached),
    /// A virtual disk in a file.
    Image(ImageDisk),
}

impl Storage {
    /// The volume, if it is one.
    pub fn volume(&self) -> Option<&Volume> {
        match self {
            Storage::Plain(disk) => Some(disk.volume()),
            Storage::Cached(disk) => Some(disk.below().volume()),
            Storage::Image(_) => None,
        }
    }

    /// The image, if it is one.
    pub fn image(&self) -> Option<&Image> {
        match self {
            Storage::Image(disk) => Some(disk.image()),
            Storage::Plain(_) | Storage::Cached(_) => None,
        }
    }
}

/// Dispatches to the variant.
macro_rules! each {
    ($self:ident, $disk:ident => $asked:expr) => {
        match $self {
            Storage::Plain($disk) => $asked,
            Storage::Cached($disk) => $asked,
            Storage::Image($disk) => $asked,
        }
    };
}

impl LogicalDisk for Storage {
    type Rod = Rod;

    fn geometry(&self) -> Geometry {
        each!(self, disk => disk.geometry())
    }

    fn capabilities(&self) -> Capabilities {
        each!(self, disk => disk.capabilities())
    }

    fn space(&self) -> Space {
        each!(self, disk => disk.space())
    }

    fn extent(&self, at: u64) -> Extent {
        each!(self, disk => disk.extent(at))
    }

    async fn read(
        &self,
        command: CommandContext<'_>,
        at: u64,
        len: usize,
        out: &mut Pieces,
    ) -> Result<(), BlockError> {
        each!(self, disk => disk.read(command, at, len, out).await)
    }

    async fn write(
        &self,
        command: CommandContext<'_>,
        at: u64,
        data: &Pieces,
        durability: Durability,
    ) -> Result<(), BlockError> {
        each!(self, disk => disk.write(command, at, data, durability).await)
    }

    async fn zero(&self, command: CommandContext<'_>, at: u64, len: u64) -> Result<(), BlockError> {
        each!(self, disk => disk.zero(command, at, len).await)
    }

    async fn unmap(&self, command: CommandContext<'_>, at: u64, len: u64) -> Result<u64, BlockError> {
        each!(self, disk => disk.unmap(command, at, len).await)
    }

    async fn flush(&self) -> Result<(), BlockError> {
        each!(self, disk => disk.flush().await)
    }

    async fn sync(&self, at: u64, len: u64) -> Result<(), BlockError> {
        each!(self, disk => disk.sync(at, len).await)
    }

    async fn copy_from(
        &self,
        command: CommandContext<'_>,
        source: &Storage,
        from: u64,
        at: u64,
        len: u64,
    ) -> Result<Copied, BlockError> {
        match (self, source) {
            (Storage::Plain(to), Storage::Plain(source)) => {
                to.copy_from(command, source, from, at, len).await
            }
            (Storage::Cached(to), Storage::Cached(source)) => {
                to.copy_from(command, source, from, at, len).await
            }
            // All volumes of a controller are behind its cache, or none is: one of the two is an image.
            _ => Box::pin(move_bytes(command, (source, from), (self, at), len)).await,
        }
    }

    async fn take_rod(&self, command: CommandContext<'_>, at: u64, len: u64) -> Result<Rod, BlockError> {
        each!(self, disk => disk.take_rod(command, at, len).await)
    }

    fn has_rod(&self, rod: &Rod) -> bool {
        each!(self, disk => disk.has_rod(rod))
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
        each!(self, disk => disk.read_rod(command, rod, from, len, out).await)
    }

    async fn copy_from_rod(
        &self,
        command: CommandContext<'_>,
        rod: &Rod,
        from: u64,
        at: u64,
        len: u64,
    ) -> Result<Copied, BlockError> {
        each!(self, disk => disk.copy_from_rod(command, rod, from, at, len).await)
    }

    async fn save_record(&self, name: &str, bytes: &[u8]) -> Result<(), BlockError> {
        each!(self, disk => disk.save_record(name, bytes).await)
    }

    fn load_record(&self, name: &str) -> Option<Vec<u8>> {
        each!(self, disk => disk.load_record(name))
    }
}
