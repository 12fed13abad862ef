//! Units over modelled disks.

mod allocations;
mod crash;
mod detached;
mod mutation;
mod partitions;
mod second;
mod sharing;
mod units;

use block::{BackingStore, BlockError, Device, Geometry, Pieces};
use world::{Buf, Drive, DriveSpec, World};
use world_model::{Disk, DiskSpec, Model};

use crate::{Cache, CacheConfig, PartitionId, Unit, UnitSpec, WritePolicy};

/// A drive as a store, of which every second 64 KiB never take a write in place.
#[derive(Clone)]
pub(crate) struct OnDrive {
    drive: Drive,
}

impl OnDrive {
    pub(crate) fn open(world: &World, name: &str) -> OnDrive {
        let drive =
            world.open_now(&DriveSpec::Modelled { name: name.to_owned() }).expect("the disk is there");
        OnDrive { drive }
    }
}

impl Device for OnDrive {
    fn geometry(&self) -> Geometry {
        let info = self.drive.info();
        Geometry { len_bytes: info.len_bytes, block_bytes: info.block_bytes }
    }

    async fn read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        self.geometry().check(at, len as u64)?;
        let filled = self.drive.read(at, Buf::new(len)).await;
        filled.result?;
        out.push(filled.buf.freeze());
        Ok(())
    }

    async fn write(&self, at: u64, data: &Pieces) -> Result<(), BlockError> {
        self.geometry().check(at, data.len() as u64)?;
        Ok(self.drive.write(at, data.joined()).await?)
    }

    async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.geometry().check(at, len)?;
        Ok(self.drive.zero(at, len).await?)
    }

    async fn flush(&self) -> Result<(), BlockError> {
        Ok(self.drive.flush().await?)
    }
}

impl BackingStore for OnDrive {
    fn takes_in_place(&self, at: u64, _len: u64) -> bool {
        (at >> 16) % 2 == 1
    }

    fn row_bytes(&self) -> u64 {
        64 << 10
    }

    fn row_drives(&self) -> u32 {
        2
    }
}

pub(super) fn rack(seed: u64, len_bytes: u64) -> (Model, Disk, Disk) {
    let model = Model::new(seed);
    let data = model.disk("data", DiskSpec::new(len_bytes));
    let journal = model.disk("journal", DiskSpec::new(9 << 20));
    (model, data, journal)
}

/// A memory of 1.5 MiB: less than what the tests work on.
pub(super) fn small() -> CacheConfig {
    CacheConfig { memory_bytes: 2 << 20, read_ahead_bytes_max: 512 << 10, ..CacheConfig::default() }
}

pub(super) fn spec(stable_id: u64, policy: WritePolicy) -> UnitSpec {
    UnitSpec { stable_id, policy, partition: PartitionId(0) }
}

pub(super) fn volatile(
    world: &World,
    config: CacheConfig,
    policy: WritePolicy,
) -> (Cache<OnDrive, OnDrive>, Unit<OnDrive, OnDrive>) {
    let cache = Cache::new(world.clone(), config);
    let unit = cache.attach(OnDrive::open(world, "data"), spec(1, policy), None);
    (cache, unit)
}
