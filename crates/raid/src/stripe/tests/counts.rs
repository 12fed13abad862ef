//! Exact drive operations in the region of the data; frames of the journal are counted apart (science: 4 for
//! RAID 5, 6 for RAID 6).

use block::{Buf, Device, Pieces};
use world::{Drive, DriveSpec, World};
use world_model::{DiskSpec, Model};

use crate::{ArrayId, Group, GroupSpec, Level};

const UNIT: usize = 64 << 10;

/// Reads and writes of all drives.
fn operations(drives: &[Drive]) -> (u64, u64) {
    drives.iter().map(Drive::counts).fold((0, 0), |(r, w), c| (r + c.reads, w + c.writes))
}

async fn rig(world: &World, level: Level, width: usize) -> (Group, Vec<Drive>) {
    let open = |i| world.open_now(&DriveSpec::Modelled { name: format!("d{i}") }).expect("it is there");
    let drives: Vec<Drive> = (0..width).map(open).collect();
    let spec = GroupSpec::new("g", level, ArrayId([7; 16]));
    let group = Group::create(world.clone(), spec, drives.clone()).await.expect("create");
    (group, drives)
}

/// (reads, writes in place) of one write, or of one read where nothing is written.
fn check(
    level: Level,
    width: usize,
    lost: &[usize],
    at: usize,
    len: usize,
    write: bool,
    expected: (u64, u64),
) {
    let model = Model::new(1);
    let disks: Vec<_> = (0..width).map(|i| model.disk(&format!("d{i}"), DiskSpec::new(16 << 20))).collect();
    model.run(async |world| {
        let (group, drives) = rig(&world, level, width).await;
        for i in lost {
            disks[*i].kill();
            group.fail_drive(*i as u32).await.expect("fail");
        }
        // The first write since the group was opened says on the labels of mirrors that they may differ.
        group.write(8 << 20, &Pieces::from(Buf::zeroed(512).freeze())).await.expect("write");
        let (before, frames) = (operations(&drives), group.status().journal.frames);
        if write {
            group.write(at as u64, &Pieces::from(Buf::zeroed(len).freeze())).await.expect("write");
        } else {
            group.read(at as u64, len, &mut Pieces::new()).await.expect("read");
        }
        let after = operations(&drives);
        let frames = group.status().journal.frames - frames;
        let did = (after.0 - before.0, after.1 - before.1 - frames);
        assert_eq!(did, expected, "{level} of {width} without {lost:?}, {len} bytes at {at}");
    });
}

#[test]
fn every_write_takes_the_fewest_operations_and_reads_take_one_for_each_drive() {
    for width in 4..10 {
        check(Level::Raid5, width, &[], 4096, 4096, true, (2, 2));
        check(Level::Raid5, width, &[], 0, (width - 1) * UNIT, true, (0, width as u64));
        check(Level::Raid5, width, &[], 4096, 4096, false, (1, 0));
        check(Level::Raid5, width, &[0], 0, 4096, false, (width as u64 - 1, 0));
    }
    for width in 6..10 {
        check(Level::Raid6, width, &[], 4096, 4096, true, (3, 3));
        check(Level::Raid6, width, &[], 0, (width - 2) * UNIT, true, (0, width as u64));
    }
    // More than half of a row: the rest is read instead.
    check(Level::Raid5, 9, &[], 0, 6 * UNIT, true, (2, 7));
    // Mirrors write twice.
    check(Level::Raid1, 2, &[], 0, 4096, true, (0, 2));
    check(Level::Raid10, 6, &[], 0, 4096, true, (0, 2));
}
