//! Which mirror is read where mirrors may differ: all of them take part, each address has always the same
//! one, and a resync copies each region from its own.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use block::{Buf, Device, Pieces};
use world::Drive;

use super::{Rack, drives, pattern, rack, rack_of, read, spec_of};
use crate::label::{COPIES_AT, LABEL_LEN};
use crate::upkeep::Go;
use crate::{Group, LABEL_REGION_LEN, Label, Level, MemberState, Preferred, Throttle};

const MIB: u64 = 1 << 20;
/// Of the drives' data.
const REGIONS: u64 = 8;
const MIRRORED: [(Level, usize, usize); 3] =
    [(Level::Raid1, 2, 2), (Level::Raid1, 3, 3), (Level::Raid10, 4, 2)];

/// A group that was not closed, and whose drives have a content of their own everywhere: the number of the
/// drive + 1.
fn unclean(seed: u64, level: Level, width: usize) -> Rack {
    let rack = rack(seed, width);
    rack.model.run(async |world| {
        let all = drives(&world, 0..width);
        let group = Group::create(world.clone(), spec_of(level, width), all).await.expect("create");
        group.write(0, &pattern(4096, 1)).await.expect("write");
    });
    for (m, disk) in rack.disks.iter().enumerate() {
        disk.poke(LABEL_REGION_LEN, &vec![m as u8 + 1; (REGIONS * MIB) as usize]);
    }
    rack
}

async fn open(world: &world::World, level: Level, width: usize) -> (Group, Vec<Drive>) {
    let all = drives(world, 0..width);
    let group = Group::open(world.clone(), spec_of(level, width), all.clone()).await.expect("open");
    assert!(group.status().reads_pinned, "it was not closed");
    (group, all)
}

/// What the group reads, by set and region of its drives. Each read of 128 KiB lies across two units, and
/// sixteen of them across two regions.
async fn map(group: &Group, copies: usize) -> Vec<Vec<u8>> {
    let sets = group.status().members.len() / copies;
    let (unit, len) = (64 << 10, group.geometry().len_bytes);
    let mut map = vec![vec![0; REGIONS as usize]; sets];
    for at in (0..len - unit).step_by(unit as usize) {
        let found = read(group, at, 2 * unit as usize).await;
        for (n, bytes) in found.chunks(unit as usize).enumerate() {
            let number = at / unit + n as u64;
            let (set, row) = (number as usize % sets, number / sets as u64);
            let known = &mut map[set][(row * unit / MIB) as usize];
            assert!(*known == 0 || *known == bytes[0], "set {set}, row {row} is another one's");
            assert!(bytes.iter().all(|byte| byte == &bytes[0]), "a unit of two drives");
            *known = bytes[0];
        }
    }
    map
}

/// By the rule: the first one that is there, from the one on that the region begins with.
fn expected(width: usize, copies: usize, gone: Option<usize>) -> Vec<Vec<u8>> {
    let of = |set: usize, region: usize| {
        let members = (0..copies).map(|i| set * copies + (region + i) % copies);
        members.into_iter().find(|m| Some(*m) != gone).expect("one is left") as u8 + 1
    };
    (0..width / copies).map(|set| (0..REGIONS as usize).map(|region| of(set, region)).collect()).collect()
}

/// All these drives hold what was read.
fn are_equal(rack: &Rack, map: &[Vec<u8>], copies: usize, gone: Option<usize>) {
    for (m, disk) in rack.disks.iter().enumerate().filter(|(m, _)| Some(*m) != gone) {
        for (region, byte) in map[m / copies].iter().enumerate() {
            let found = disk.peek(LABEL_REGION_LEN + region as u64 * MIB, MIB as usize);
            assert!(found.iter().all(|b| b == byte), "drive {m}, region {region}: {}", found[0]);
        }
    }
}

/// Ends after so many bytes that a drive has read.
fn until(throttle: Throttle, drive: &Drive, bytes: u64) -> Throttle {
    let (drive, end) = (drive.clone(), drive.counts().read_bytes + bytes);
    throttle.with_control(Rc::new(move || if drive.counts().read_bytes < end { Go::On } else { Go::End }))
}

#[test]
fn mirrors_share_the_reads_and_an_address_has_always_the_same_one() {
    for (level, width, copies) in MIRRORED {
        let (rack, wanted) = (unclean(81, level, width), expected(width, copies, None));
        rack.model.run(async |world| {
            let (group, all) = open(&world, level, width).await;
            let before: Vec<u64> = all.iter().map(|drive| drive.counts().read_bytes).collect();
            assert_eq!(map(&group, copies).await, wanted, "{level} of {width}");
            for (drive, before) in all.iter().zip(before) {
                assert!(drive.counts().read_bytes - before >= 2 * MIB, "{level} of {width}: one is idle");
            }
        });
        // Another unclean end, and one in the middle of a resync.
        for resynced in [3, 5] {
            rack.model.run(async |world| {
                let (group, all) = open(&world, level, width).await;
                assert_eq!(map(&group, copies).await, wanted, "{level} of {width}");
                let throttle = until(Throttle::none(world.clone()), &all[0], resynced * MIB);
                group.resync(&throttle).await.expect("resync");
                assert!(group.status().reads_pinned, "it was told to end");
                assert_eq!(map(&group, copies).await, wanted, "{level} of {width}, resynced in part");
            });
        }
        rack.model.run(async |world| {
            let (group, _) = open(&world, level, width).await;
            group.resync(&Throttle::none(world.clone())).await.expect("resync");
            are_equal(&rack, &wanted, copies, None);
            assert_eq!(map(&group, copies).await, wanted, "{level} of {width}, resynced");
        });
    }
}

#[test]
fn a_drive_that_is_dropped_changes_only_what_was_read_from_it() {
    let cases = MIRRORED.iter().flat_map(|case| (0..case.1).map(move |gone| (*case, gone)));
    for ((level, width, copies), gone) in cases {
        let (rack, wanted) = (unclean(82, level, width), expected(width, copies, Some(gone)));
        rack.model.run(async |world| {
            let (group, _) = open(&world, level, width).await;
            assert_eq!(map(&group, copies).await, expected(width, copies, None));
            group.fail(gone as u32, "pulled").await.expect("fail");
            assert_eq!(map(&group, copies).await, wanted, "{level} of {width} without {gone}");
        });
        rack.model.run(async |world| {
            let (group, all) = open(&world, level, width).await;
            assert_eq!(map(&group, copies).await, wanted, "{level} of {width} without {gone}, opened again");
            let in_sync = all.iter().enumerate().find(|(m, _)| *m != gone).expect("one").1;
            let throttle = until(Throttle::none(world.clone()), in_sync, 3 * MIB);
            group.resync(&throttle).await.expect("resync");
            assert_eq!(map(&group, copies).await, wanted, "{level} of {width} without {gone}, in part");
            group.resync(&Throttle::none(world.clone())).await.expect("resync");
            are_equal(&rack, &wanted, copies, Some(gone));
        });
    }
}

fn ones() -> Pieces {
    let mut buf = Buf::new(4096);
    buf.fill(1);
    buf.freeze().into()
}

/// The labels of a version that read the first mirror, and left its flag when it ended.
fn label_as_before(rack: &Rack) {
    for disk in &rack.disks {
        for at in COPIES_AT {
            let (label, _) = Label::decode(&disk.peek(at, LABEL_LEN)).expect("a label");
            assert_eq!(label.mirrors_may_differ, Some(Preferred::ByRegion));
            disk.poke(at, &Label { mirrors_may_differ: Some(Preferred::First), ..label }.encode());
        }
    }
}

#[test]
fn what_an_earlier_version_read_from_the_first_mirror_stays() {
    let (level, width, copies) = MIRRORED[1];
    let rack = unclean(83, level, width);
    label_as_before(&rack);
    let first = vec![vec![1; REGIONS as usize]];
    for _ in 0..2 {
        rack.model.run(async |world| {
            let (group, all) = open(&world, level, width).await;
            assert_eq!(map(&group, copies).await, first);
            group.write(0, &ones()).await.expect("write");
            group.resync(&until(Throttle::none(world.clone()), &all[0], 3 * MIB)).await.expect("resync");
        });
    }
    rack.model.run(async |world| {
        let (group, _) = open(&world, level, width).await;
        group.resync(&Throttle::none(world.clone())).await.expect("resync");
        are_equal(&rack, &first, copies, None);
        group.close().await.expect("close");
    });
    // Closed in order, it follows the rule of this version from then on.
    rack.model.run(async |world| {
        let all = drives(&world, 0..width);
        let group = Group::open(world.clone(), spec_of(level, width), all).await.expect("open");
        assert!(!group.status().reads_pinned);
        group.write(0, &pattern(4096, 1)).await.expect("write");
    });
    for (m, disk) in rack.disks.iter().enumerate() {
        disk.poke(LABEL_REGION_LEN, &vec![m as u8 + 1; (REGIONS * MIB) as usize]);
    }
    rack.model.run(async |world| {
        let (group, _) = open(&world, level, width).await;
        assert_eq!(map(&group, copies).await, expected(width, copies, None));
    });
}

/// A write failed on all mirrors below the progress of a rebuild, and the work is told to end before the last
/// resync: the new drive is not read yet, although its region may be its own.
#[test]
fn a_rebuilt_drive_is_in_sync_only_where_it_cannot_differ() {
    let rack = rack_of(84, 3, 33 << 20);
    rack.model.run(async |world| {
        let all = drives(&world, 0..2);
        let group = Group::create(world.clone(), spec_of(Level::Raid1, 2), all).await.expect("create");
        group.write(0, &pattern(3 << 20, 1)).await.expect("write");
        group.fail(1, "pulled").await.expect("fail");
        group.replace(1, drives(&world, [2]).remove(0)).await.expect("replace");
        let go_on = Rc::new(Cell::new(false));
        let (own, may) = (group.clone(), go_on.clone());
        let control = move || match own.status().rebuild {
            Some(at) if at.done_bytes == at.total_bytes => Go::End,
            Some(at) if at.done_bytes > 0 && !may.get() => Go::Wait,
            _ => Go::On,
        };
        let throttle = Throttle::none(world.clone()).with_control(Rc::new(control));
        let rebuilt = group.clone();
        world.spawn(async move { _ = rebuilt.rebuild(&throttle).await.expect("rebuild") });
        world.sleep(Duration::from_secs(1)).await;
        rack.disks.iter().for_each(|disk| disk.set_full_from(Some(0)));
        group.write(5 * MIB, &pattern(4096, 9)).await.expect_err("no drive has room");
        rack.disks.iter().for_each(|disk| disk.set_full_from(None));
        // What each of them took of it.
        for (m, disk) in rack.disks.iter().enumerate() {
            disk.poke(LABEL_REGION_LEN + 5 * MIB, &[m as u8 + 1; 4096]);
        }
        assert_eq!(read(&group, 5 * MIB, 4096).await, [1; 4096]);
        go_on.set(true);
        world.sleep(Duration::from_secs(5)).await;
        assert_eq!(read(&group, 5 * MIB, 4096).await, [1; 4096], "read once, it stays");
        assert_eq!(group.status().members[1].state, MemberState::Rebuilding);
        group.rebuild(&Throttle::none(world.clone())).await.expect("rebuild");
        assert_eq!(group.status().members[1].state, MemberState::Active);
        assert!(!group.status().reads_pinned);
        for _ in 0..4 {
            assert_eq!(read(&group, 5 * MIB, 4096).await, [1; 4096], "equal");
        }
    });
}
