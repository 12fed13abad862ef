//! Sequential readers through the read-ahead, on modelled drives with platters: 64 at once beside one alone,
//! in virtual time.
//!
//! ```text
//! cargo bench -p array --bench streams
//! ```
//!
//! Each reader asks for 64 KiB, one request at a time; the readers are spread over a span of the drives'
//! outer tracks. *alone* is one reader at a time, at some of the places where the 64 read, so that both meet
//! the same zones. What the 64 together do not reach of that is what the arms travel between the streams:
//! their read-ahead must take enough at each visit.

use block::{BackingStore, BlockError, Device, Geometry, Pieces};
use cache::{Cache, CacheConfig, PartitionId, Unit, UnitSpec, WritePolicy};
use futures::future::join_all;
use raid::{ArrayId, Group, GroupSpec, Level};
use world::{DriveSpec, World};
use world_model::drives::catalogue::CHEETAH_15K5;
use world_model::{DiskSpec, Model};

const READERS: u64 = 64;
const READ_BYTES: u64 = 64 << 10;
/// The outer tracks of each drive.
const DRIVE_BYTES: u64 = 16 << 30;
const READ_BY_EACH_BYTES: u64 = 96 << 20;
/// Of the 64, those that are measured alone, too.
const ALONE: u64 = 4;

/// A group as what a cache is laid over.
#[derive(Clone)]
struct OnGroup(Group);

impl Device for OnGroup {
    fn geometry(&self) -> Geometry {
        self.0.geometry()
    }

    async fn read(&self, at: u64, len: usize, out: &mut Pieces) -> Result<(), BlockError> {
        self.0.read(at, len, out).await
    }

    async fn write(&self, at: u64, data: &Pieces) -> Result<(), BlockError> {
        self.0.write(at, data).await
    }

    async fn zero(&self, at: u64, len: u64) -> Result<(), BlockError> {
        self.0.zero(at, len).await
    }

    async fn flush(&self) -> Result<(), BlockError> {
        self.0.flush().await
    }
}

impl BackingStore for OnGroup {
    fn takes_in_place(&self, _at: u64, _len: u64) -> bool {
        true
    }

    fn row_bytes(&self) -> u64 {
        self.0.row_bytes()
    }

    fn row_drives(&self) -> u32 {
        self.0.row_drives()
    }
}

/// A group on drives of its own, and a cache before it.
#[derive(Clone, Copy)]
struct Setup {
    level: Level,
    drives: usize,
    memory_bytes: u64,
}

impl Setup {
    /// MB/s of these of the 64 readers together.
    fn mb_per_s(self, readers: std::ops::Range<u64>) -> f64 {
        let model = Model::new(1);
        let spec = DiskSpec::mechanical(&CHEETAH_15K5).with_len_bytes(DRIVE_BYTES);
        let disks: Vec<_> = (0..self.drives).map(|i| model.disk(&format!("d{i}"), spec.clone())).collect();
        model.run(async |world| {
            let unit = self.unit(&world, &disks).await;
            let apart = unit.geometry().len_bytes / READERS;
            let apart = apart - apart % READ_BYTES;
            let begun = world.now();
            join_all(readers.clone().map(|i| read_from(&unit, i * apart))).await;
            let seconds = (world.now() - begun).as_secs_f64();
            (readers.count() as u64 * READ_BY_EACH_BYTES) as f64 / 1e6 / seconds
        })
    }

    async fn unit(self, world: &World, disks: &[world_model::Disk]) -> Unit<OnGroup, OnGroup> {
        let open = |disk: &world_model::Disk| {
            let spec = DriveSpec::Modelled { name: disk.name().to_owned() };
            world.open_now(&spec).expect("the disk is there")
        };
        let spec = GroupSpec::new("g", self.level, ArrayId([1; 16]));
        let group = Group::create(world.clone(), spec, disks.iter().map(open).collect()).await;
        let config = CacheConfig { memory_bytes: self.memory_bytes, ..CacheConfig::default() };
        let spec = UnitSpec { stable_id: 1, policy: WritePolicy::Back, partition: PartitionId(0) };
        let cache = Cache::new(world.clone(), config);
        cache.attach(OnGroup(group.expect("a group")), spec, None)
    }
}

async fn read_from(unit: &Unit<OnGroup, OnGroup>, start: u64) {
    for at in (start..start + READ_BY_EACH_BYTES).step_by(READ_BYTES as usize) {
        let mut out = Pieces::new();
        unit.read(at, READ_BYTES as usize, &mut out).await.expect("a read");
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let mid = values.len() / 2;
    (values[mid] + values[(values.len() - 1) / 2]) / 2.0
}

fn main() {
    println!("64 KiB sequential reads on {}, MB/s of virtual time", CHEETAH_15K5.name);
    println!("{:<14}{:>10}{:>10}{:>12}{:>10}", "group", "cache MiB", "alone", "64 readers", "share");
    for (level, drives) in [(Level::Raid0, 1), (Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 5)] {
        for memory_mib in [256, 1024, 4096] {
            let setup = Setup { level, drives, memory_bytes: memory_mib << 20 };
            let places = (0..ALONE).map(|i| i * (READERS / ALONE) + READERS / ALONE / 2);
            let alone = median(places.map(|i| setup.mb_per_s(i..i + 1)).collect());
            let together = setup.mb_per_s(0..READERS);
            let name = format!("{level} on {drives}");
            println!(
                "{name:<14}{memory_mib:>10}{alone:>10.1}{together:>12.1}{:>9.0} %",
                100.0 * together / alone
            );
        }
    }
}
