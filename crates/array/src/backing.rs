//! A volume under the controller's cache, as types: what is cached is a [`Backing`], what is journalled lies on a group.

use block::{BlockError, Device, Geometry, Pieces};
use cache::{Cache, Journal, Store, Unit};
use pool::Volume;
use raid::Group;

/// A volume as a cache sees it. What changes it is boxed: a unit names it in many places, and its future would be as many times as large
/// as the volume's, in every command. Writes that the cache takes do not come here.
#[derive(Clone)]
pub struct Backing(pub(crate) Volume);

impl Device for Backing {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    async fn read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        self.0.read(at, len, out).await
    }

    async fn write(&self, at: u64, data: &Pieces) -> Result<(), BlockError> {
        Box::pin(self.0.write(at, data)).await
    }

    async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        Box::pin(self.0.zero(at, len)).await
    }

    async fn flush(&self) -> Result<(), BlockError> {
        self.0.flush().await
    }
}

impl Store for Backing {
    fn takes_in_place(&self, at: u64, len: u64) -> bool {
        self.0.takes_in_place(at, len)
    }

    fn row_bytes(&self) -> u64 {
        self.0.row_bytes()
    }

    fn row_drives(&self) -> u32 {
        self.0.row_drives()
    }
}

/// The cache of a controller.
pub(crate) type VolumeCache = Cache<Backing, Group>;
/// A volume under it.
pub(crate) type CachedVolume = Unit<Backing, Group>;
/// The journal of a pool, on a group of its own.
pub(crate) type PoolJournal = Journal<Group>;
