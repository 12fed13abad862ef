//! A small array of modelled drives, stopped, damaged in one way, examined.

use block::{Device, Pieces};
use pool::{Pool, PoolSpec, Provisioning};
use raid::{Group, GroupSpec};
use world::{Data, Drive, DriveSpec, World};
use world_model::{Disk, DiskSpec, Model};

use super::{Examination, check, check_recorded};
use crate::config::{ArrayId, Config, DriveConfig, GroupConfig, Level, Made, PoolConfig, VolumeConfig};
use crate::terms;

const LEN: u64 = 40 << 20;
const ID: ArrayId = ArrayId([7; 16]);

struct Rig {
    model: Model,
    disks: Vec<Disk>,
    config: Config,
}

fn drives(world: &World, count: usize) -> Vec<Drive> {
    let open = |i| world.open_now(&DriveSpec::Modelled { name: format!("d{i}") }).expect("it is there");
    (0..count).map(open).collect()
}

/// An array with one group, one pool and one written volume, stopped in order.
fn rig(level: Level, width: usize) -> Rig {
    rig_of_seed(11, level, width)
}

fn rig_of_seed(seed: u64, level: Level, width: usize) -> Rig {
    let model = Model::new(seed);
    let disks: Vec<Disk> = (0..width).map(|i| model.disk(&format!("d{i}"), DiskSpec::new(LEN))).collect();
    let mut config = Config::empty("iqn.2026-11.net.example:check");
    config.id = ID;
    let drive =
        |i| DriveConfig { name: format!("d{i}"), spec: DriveSpec::Modelled { name: format!("d{i}") } };
    config.drives = (0..width).map(drive).collect();
    config.groups = vec![GroupConfig {
        stripe_unit_bytes: 64 << 10,
        ..GroupConfig::new("g0".into(), level, (0..width).map(|i| format!("d{i}")).collect())
    }];
    config.pools = vec![PoolConfig::new("p0".into(), vec!["g0".into()])];
    config.volumes = vec![VolumeConfig::new("v0".into(), "p0".into(), 16 << 20)];
    model.run(|world| async move {
        let spec = GroupSpec::new("g0", terms::level(level), raid::ArrayId(ID.0));
        let group = Group::create(world.clone(), spec, drives(&world, width)).await.expect("a group");
        let pool =
            Pool::create(world.clone(), PoolSpec::new("p0"), vec![group.clone()]).await.expect("a pool");
        let volume = pool.create_volume("v0", 16 << 20, Provisioning::Thin).await.expect("a volume");
        volume.write(0, &Pieces::from(Data::copy_of(&[0x5a; 64 << 10]))).await.expect("written");
        pool.close().await.expect("closed");
        group.close().await.expect("closed");
    });
    Rig { model, disks, config }
}

impl Rig {
    /// Examines; the drives must be what they were.
    fn examine(&self, data: bool) -> Examination {
        let content = || -> Vec<Vec<u8>> { self.disks.iter().map(|d| d.peek(0, LEN as usize)).collect() };
        let before = content();
        let config = self.config.clone();
        let examination = self.model.run(|world| async move { check(world, &config, data, |_| {}).await });
        assert!(content() == before, "an examination writes nothing");
        examination
    }

    /// Some finding that is no harmless one says all of this in its line.
    fn check_finds(&self, data: bool, expected: &[&str]) {
        let examination = self.examine(data);
        let lines: Vec<String> =
            examination.findings.iter().filter(|f| !f.harmless).map(ToString::to_string).collect();
        let found = lines.iter().any(|line| expected.iter().all(|part| line.contains(part)));
        assert!(found, "none says {expected:?}: {lines:#?}");
    }
}

#[test]
fn a_stopped_array_is_clean() {
    for (level, width) in
        [(Level::Raid0, 2), (Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 4), (Level::Raid6, 5)]
    {
        let examination = rig(level, width).examine(true);
        assert!(examination.findings.is_empty(), "{level:?}: {:#?}", examination.findings);
        let seen = (examination.drives, examination.groups, examination.pools, examination.volumes);
        assert_eq!(seen, (width, 1, 1, 1), "{level:?}");
    }
}

#[test]
fn labels_that_do_not_fit_are_named() {
    let rig_1 = rig(Level::Raid1, 2);
    rig_1.disks[1].poke(0, &vec![0; 1 << 20]);
    rig_1.check_finds(false, &["drive d1", "no label", "group g0"]);
    rig_1.check_finds(false, &["group g0", "position 1 of 2"]);

    let torn = rig(Level::Raid1, 2);
    torn.disks[0].poke((512 << 10) + 512, &[0xff; 512]);
    torn.check_finds(false, &["drive d0", "copy 1 of the label is torn"]);

    let twins = rig(Level::Raid1, 2);
    twins.disks[1].poke(0, &twins.disks[0].peek(0, 1 << 20));
    twins.check_finds(false, &["drive d1", "duplicate of drive d0"]);

    // Another seed makes other identities.
    let (foreign, other) = (rig(Level::Raid1, 2), rig_of_seed(12, Level::Raid1, 2));
    foreign.disks[1].poke(0, &other.disks[1].peek(0, 1 << 20));
    foreign.check_finds(false, &["drive d1", "foreign in group g0"]);
}

#[test]
fn a_declaration_that_does_not_fit_is_named() {
    let mut other = rig(Level::Raid1, 2);
    other.config.id = ArrayId([9; 16]);
    other.check_finds(false, &["group g0", "belongs to array"]);
    let mut undeclared = rig(Level::Raid1, 2);
    undeclared.config.volumes.clear();
    undeclared.check_finds(false, &["volume v0", "not declared"]);
    let mut gone = rig(Level::Raid1, 2);
    gone.config.drives[1].spec = DriveSpec::Modelled { name: "nowhere".into() };
    gone.check_finds(false, &["drive d1", "cannot be opened"]);
    let mut memory = rig(Level::Raid1, 2);
    memory.config.groups[0].drives.pop();
    memory.check_finds(false, &["drive d1", "in no declared group, but carries"]);
}

#[test]
fn data_that_do_not_agree_are_named_with_drive_and_place() {
    for (level, width) in [(Level::Raid1, 2), (Level::Raid5, 4), (Level::Raid6, 5)] {
        let damaged = rig(level, width);
        let at = LEN - (4 << 20);
        damaged.disks[1].poke(at, &[0xff; 4096]);
        assert!(damaged.examine(false).is_clean(), "{level}: free space is not read without data");
        match level {
            // P and Q tell the drive; elsewhere nobody knows which one is wrong.
            Level::Raid6 => damaged.check_finds(true, &["drive d", "4096 bytes at byte", "group g0"]),
            _ => damaged.check_finds(true, &["group g0", "the block at byte", "differs between its drives"]),
        }
        damaged.disks[1].add_latent_errors(at + 4096..at + 4608);
        damaged.check_finds(true, &["drive d1", "cannot be read"]);
    }
}

#[test]
fn a_missing_drive_is_named_and_the_rest_examined() {
    let mut gone = rig(Level::Raid5, 4);
    gone.config.drives[2].spec = DriveSpec::Modelled { name: "nowhere".into() };
    gone.check_finds(true, &["group g0", "degraded"]);
    gone.check_finds(true, &["group g0", "position 2 of 4"]);
    let examination = gone.examine(true);
    assert_eq!((examination.drives, examination.groups, examination.pools), (3, 1, 1));
}

#[test]
fn a_spare_that_took_a_place_is_no_stranger() {
    let mut rig = rig(Level::Raid5, 4);
    let spare = rig.model.disk("d4", DiskSpec::new(LEN));
    rig.disks.push(spare);
    rig.config
        .drives
        .push(DriveConfig { name: "d4".into(), spec: DriveSpec::Modelled { name: "d4".into() } });
    rig.config.spares = vec!["d4".into()];
    rig.model.run(|world| async move {
        let mut all = drives(&world, 5);
        let (spare, spec) =
            (all.pop().expect("five"), GroupSpec::new("g0", raid::Level::Raid5, raid::ArrayId(ID.0)));
        let group = Group::open(world.clone(), spec, all).await.expect("opened");
        group.fail(2, "pulled").await.expect("one may fail");
        group.replace(2, spare).await.expect("it fits");
        group.rebuild(&raid::Throttle::none(world)).await.expect("rebuilt");
        group.close().await.expect("closed");
    });
    let examination = rig.examine(true);
    assert!(examination.is_clean(), "{:#?}", examination.findings);
    let replaced = |f: &super::Finding| f.to_string().contains("drive d4 now has position 2 of group g0");
    assert!(examination.findings.iter().any(replaced), "{:#?}", examination.findings);
    // Later the declaration has followed.
    rig.config.groups[0].drives[2] = "d4".into();
    rig.config.spares.clear();
    let examination = rig.examine(true);
    assert!(examination.is_clean(), "{:#?}", examination.findings);
}

#[test]
fn damaged_metadata_are_named() {
    let damaged = rig(Level::Raid0, 1);
    // Both slots of the superblock, behind the label region.
    damaged.disks[0].poke(1 << 20, &[0xff; 512]);
    damaged.disks[0].poke((1 << 20) + (64 << 10), &[0xff; 512]);
    damaged.check_finds(false, &["pool p0", "superblock"]);
    damaged.check_finds(false, &["pool p0", "cannot be opened"]);
}

/// What a kill had interrupted was damage.
#[test]
fn what_was_interrupted_and_the_next_start_completes_is_no_finding() {
    let rig = rig(Level::Raid1, 2);
    let lines = |config: &Config, made: &Made| -> (Vec<String>, bool) {
        let examined =
            rig.model.run(async |world| check_recorded(world, (config, made), false, |_| {}).await);
        (examined.findings.iter().map(ToString::to_string).collect(), examined.is_clean())
    };
    let made = Made::all_of(&rig.config);
    assert_eq!(lines(&rig.config, &made), (vec![], true));
    // A deletion: declared no more, and recorded.
    let deleted = Config { volumes: vec![], ..rig.config.clone() };
    assert!(!lines(&deleted, &made).1);
    let recorded = Made { discarded: [("v0".into(), "p0".into())].into(), ..made.clone() };
    let (said, clean) = lines(&deleted, &recorded);
    assert!(clean && said[0].contains("its deletion was interrupted, and will be completed"), "{said:?}");
    // A creation: declared, and not made. What was made and is not there is lost.
    let mut more = rig.config.clone();
    more.volumes.push(VolumeConfig::new("v1".into(), "p0".into(), 1 << 20));
    let (said, clean) = lines(&more, &made);
    assert!(clean && said[0].contains("its creation was interrupted, and will be completed"), "{said:?}");
    assert!(!lines(&more, &Made::all_of(&more)).1);
    // A group whose labels are not all written, and a pool that is being deleted.
    let mut grouped = rig.config.clone();
    grouped.groups.push(GroupConfig::new("g1".into(), Level::Raid0, vec!["d9".into()]));
    grouped.drives.push(DriveConfig { name: "d9".into(), spec: DriveSpec::Modelled { name: "d9".into() } });
    rig.model.disk("d9", DiskSpec::new(LEN));
    let (said, clean) = lines(&grouped, &made);
    assert!(clean && said.iter().any(|line| line.contains("the creation of its group")), "{said:?}");
    assert!(!lines(&grouped, &Made::all_of(&grouped)).1);
    let deleting = Made { deleted_pools: ["p0".into()].into(), ..made };
    let (said, clean) = lines(&more, &deleting);
    assert!(clean && said[0].contains("the deletion of its pool was interrupted"), "{said:?}");
}

/// A pool was damaged as soon as a group began to leave it.
#[test]
fn a_group_that_leaves_its_pool_is_a_part_of_it() {
    let mut rig = rig(Level::Raid0, 1);
    rig.disks.push(rig.model.disk("d1", DiskSpec::new(LEN)));
    rig.config
        .drives
        .push(DriveConfig { name: "d1".into(), spec: DriveSpec::Modelled { name: "d1".into() } });
    rig.config.groups.push(GroupConfig {
        stripe_unit_bytes: 64 << 10,
        ..GroupConfig::new("g1".into(), Level::Raid0, vec!["d1".into()])
    });
    rig.config.pools[0].leaving = vec!["g1".into()];
    rig.model.run(|world| async move {
        let mut all = drives(&world, 2);
        let spec = |name| GroupSpec::new(name, terms::level(Level::Raid0), raid::ArrayId(ID.0));
        let added = Group::create(world.clone(), spec("g1"), all.split_off(1)).await.expect("a group");
        let group = Group::open(world.clone(), spec("g0"), all).await.expect("the group");
        let pool = Pool::open(world.clone(), vec![group.clone()]).await.expect("the pool");
        pool.add_group(added.clone()).await.expect("added");
        pool.close().await.expect("closed");
        for group in [group, added] {
            group.close().await.expect("closed");
        }
    });
    let examination = rig.examine(true);
    assert!(examination.findings.is_empty(), "{:#?}", examination.findings);
    assert_eq!((examination.groups, examination.pools, examination.volumes), (2, 1, 1));
}
