//! Disks, groups and a pool on them.

use raid::{ArrayId, Group, GroupSpec, Level};
use world::{DriveSpec, World};
use world_model::{Disk, DiskSpec, Model};

use crate::{Pool, PoolError, PoolSpec};

pub(super) const PAGE: u64 = 64 << 10;
pub(super) const SECTOR: u64 = 512;

/// What a pool stands on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub(super) groups: usize,
    pub(super) level: Level,
    pub(super) width: usize,
    pub(super) block_bytes: u32,
    pub(super) disk_len: u64,
}

impl Setup {
    pub(super) fn new(level: Level, width: usize) -> Setup {
        Setup { groups: 1, level, width, block_bytes: 512, disk_len: 16 << 20 }
    }

    pub(super) fn mirror() -> Setup {
        Setup::new(Level::Raid1, 2)
    }

    /// A mirror with so few pages that the workload fills it, and every page is handed out again and again.
    pub(super) fn tight() -> Setup {
        Setup { disk_len: 7 << 20, ..Setup::mirror() }
    }

    /// Three data drives and a parity.
    pub(super) fn parity() -> Setup {
        Setup { disk_len: 10 << 20, ..Setup::new(Level::Raid5, 4) }
    }

    pub(super) fn stripes() -> Setup {
        Setup { disk_len: 8 << 20, ..Setup::new(Level::Raid0, 2) }
    }
}

pub(super) struct Rig {
    pub(super) model: Model,
    pub(super) disks: Vec<Disk>,
    pub(super) setup: Setup,
}

impl Rig {
    pub(super) fn new(seed: u64, setup: Setup) -> Rig {
        Rig::with_jitter(seed, setup, std::time::Duration::from_micros(50))
    }

    pub(super) fn with_jitter(seed: u64, setup: Setup, jitter: std::time::Duration) -> Rig {
        let model = Model::new(seed);
        let spec = DiskSpec::new(setup.disk_len).with_block_bytes(setup.block_bytes);
        let spec = spec.with_jitter(jitter);
        let disks =
            (0..setup.groups * setup.width).map(|i| model.disk(&format!("d{i}"), spec.clone())).collect();
        Rig { model, disks, setup }
    }
}

fn spec(setup: &Setup, g: usize) -> GroupSpec {
    let spec = GroupSpec::new(&format!("g{g}"), setup.level, ArrayId([1; 16]));
    match setup.level {
        // Rows of 24 KiB on four drives: a page takes three of them, and 8 KiB of the last one are nobody's.
        Level::Raid5 | Level::Raid6 => GroupSpec { stripe_unit_bytes: 8 << 10, ..spec },
        _ => spec,
    }
}

fn drives(world: &World, setup: &Setup, g: usize) -> Vec<world::Drive> {
    let open = |i| world.open_now(&DriveSpec::Modelled { name: format!("d{i}") }).expect("the disk is there");
    (g * setup.width..(g + 1) * setup.width).map(open).collect()
}

/// New groups, whatever lies on the disks.
pub(super) async fn new_groups(world: &World, setup: &Setup) -> Vec<Group> {
    let mut groups = Vec::new();
    for g in 0..setup.groups {
        let made = Group::create_forced(world.clone(), spec(setup, g), drives(world, setup, g)).await;
        groups.push(made.expect("create group"));
    }
    groups
}

pub(super) async fn open_groups(world: &World, setup: &Setup) -> Result<Vec<Group>, String> {
    let mut groups = Vec::new();
    for g in 0..setup.groups {
        let opened = Group::open(world.clone(), spec(setup, g), drives(world, setup, g)).await;
        groups.push(opened.map_err(|e| e.to_string())?);
    }
    Ok(groups)
}

pub(super) async fn create(world: &World, setup: &Setup) -> Pool {
    let spec = PoolSpec { page_bytes: PAGE, ..PoolSpec::new("p") };
    Pool::create(world.clone(), spec, new_groups(world, setup).await).await.expect("create pool")
}

pub(super) async fn open(world: &World, setup: &Setup) -> Result<Pool, String> {
    let groups = open_groups(world, setup).await?;
    Pool::open(world.clone(), groups).await.map_err(|e: PoolError| e.to_string())
}

/// Whatever a power cut left, inspection finds no damage.
pub(super) async fn look(groups: &[Group]) {
    let findings = crate::check(groups).await;
    assert!(findings.iter().all(|f| f.harmless), "{findings:#?}");
}

/// Nothing is wrong, once what waited for a commit is free.
pub(super) async fn audit(pool: &Pool) {
    pool.0.commit().await.expect("commit");
    let findings = pool.audit();
    assert!(findings.is_empty(), "{findings:#?}");
    let space = pool.space();
    assert_eq!(space.used_bytes + space.free_bytes, space.total_bytes);
    let exclusive: u64 = pool.volumes().iter().map(|v| v.space().exclusive_bytes).sum();
    assert_eq!(exclusive + space.shared_bytes, space.used_bytes, "each page is one volume's, or shared");
    for volume in pool.volumes() {
        let space = volume.space();
        assert_eq!(space.shared_bytes + space.exclusive_bytes, space.used_bytes);
        assert_eq!(volume.used_bytes(), space.used_bytes);
    }
}
