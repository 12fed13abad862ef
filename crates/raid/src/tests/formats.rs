//! Labels of every format are read for ever, and lost ranges never make one that cannot be.

use std::cell::Cell;

use block::BlockError;

use super::*;
use crate::label::{COPIES_AT, LABEL_LEN};
use crate::lost_table::INLINE_MAX;

const KEPT: [(Level, usize, &[u8]); 5] = [
    (Level::Raid0, 2, include_bytes!("../../tests/fixtures/format2/raid0.drives")),
    (Level::Raid1, 2, include_bytes!("../../tests/fixtures/format2/raid1.drives")),
    (Level::Raid10, 4, include_bytes!("../../tests/fixtures/format2/raid10.drives")),
    (Level::Raid5, 3, include_bytes!("../../tests/fixtures/format2/raid5.drives")),
    (Level::Raid6, 4, include_bytes!("../../tests/fixtures/format2/raid6.drives")),
];

/// The drives of a kept image (`examples/fixture.rs`).
fn unpacked(image: &[u8]) -> Rack {
    let bytes = miniz_oxide::inflate::decompress_to_vec(image).expect("deflated");
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
    let rack = Rack { model: Model::new(1), disks: Vec::new() };
    let (mut disks, mut next) = (Vec::new(), 0);
    while next < bytes.len() {
        let disk = rack.model.disk(&format!("d{}", disks.len()), DiskSpec::new(word(next)));
        let blocks = word(next + 8) as usize;
        next += 16;
        for _ in 0..blocks {
            disk.poke(word(next), &bytes[next + 8..next + 8 + 4096]);
            next += 8 + 4096;
        }
        disks.push(disk);
    }
    Rack { disks, ..rack }
}

/// What `examples/fixture.rs` wrote.
fn expected(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    for (at, n, salt) in [(0, 1 << 20, 1), ((2 << 20) + 4096, 20_480, 2), (65_536, 65_536, 3)] {
        (0..n).for_each(|i| bytes[at + i] = (i / 512) as u8 ^ salt);
    }
    bytes
}

/// Compares all blocks; how many are lost.
async fn verify(group: &Group, expected: &[u8], case: &str) -> usize {
    let mut lost = 0;
    for at in (0..expected.len()).step_by(4096) {
        let mut out = Pieces::new();
        match group.read(at as u64, 4096, &mut out).await {
            Ok(()) => assert_eq!(out.joined()[..], expected[at..at + 4096], "{case} at {at}"),
            Err(BlockError::Unreadable { .. }) => lost += 1,
            Err(error) => panic!("{case} at {at}: {error}"),
        }
    }
    lost
}

#[test]
fn groups_of_the_first_released_format_are_opened_verified_and_relabelled() {
    for (level, width, image) in KEPT {
        let case = format!("{level} of {width}");
        let spec = || GroupSpec::new("kept", level, ArrayId([7; 16]));
        let replaced = matches!(level, Level::Raid1 | Level::Raid5);
        let rack = unpacked(image);
        assert_eq!(rack.disks.len(), width, "{case}");
        let lost = Cell::new(0);
        rack.model.run(async |world| {
            let group = Group::open(world.clone(), spec(), drives(&world, 0..width)).await.expect("open");
            assert_eq!(group.status().state, GroupState::Optimal);
            assert_eq!(group.status().lost_ranges > 1, replaced, "{case}");
            let all = expected((group.geometry().len_bytes as usize).min(12 << 20));
            lost.set(verify(&group, &all, &case).await);
            assert_eq!(lost.get() > 1, replaced, "{case}");
            group.resync(&Throttle::none(world.clone())).await.expect("resync");
            group.close().await.expect("relabelled");
        });
        rack.model.run(async |world| {
            let group = Group::open(world.clone(), spec(), drives(&world, 0..width)).await.expect("open");
            let all = expected((group.geometry().len_bytes as usize).min(12 << 20));
            assert_eq!(verify(&group, &all, &case).await, lost.get(), "{case}");
            if level.tolerates(width) > 0 && lost.get() == 0 {
                group.fail(0, "pulled").await.expect("fail");
                assert_eq!(verify(&group, &all, &case).await, 0, "{case}");
            }
        });
    }
}

fn format_of(disk: &Disk, copy: usize) -> u32 {
    u32::from_le_bytes(disk.peek(COPIES_AT[copy] + 8, 4).try_into().expect("4 bytes"))
}

/// Blocks 16 KiB apart.
async fn lose(group: &Group, ranges: std::ops::Range<u64>) {
    for i in ranges {
        group.0.lose(i * 16_384, 4096).await.expect("noted");
    }
}

fn damage_tables(disk: &Disk) {
    for at in COPIES_AT {
        disk.poke(at + (64 << 10), &vec![0xa5; 448 << 10]);
    }
}

#[test]
fn more_lost_ranges_than_a_label_holds_are_in_a_table_and_the_group_opens() {
    for (level, width) in [(Level::Raid1, 2), (Level::Raid5, 3)] {
        let rack = rack_of(21, width, 16 << 20);
        let open = async |world: &World| {
            Group::open(world.clone(), spec_of(level, width), drives(world, 0..width)).await
        };
        let check = async |group: &Group, count: u64| {
            assert_eq!(group.status().lost_ranges as u64, count, "{level}");
            for i in 0..count + 2 {
                let read = async |at| group.read(at, 4096, &mut Pieces::new()).await.is_ok();
                assert_eq!((read(i * 16_384).await, read(i * 16_384 + 4096).await), (i >= count, true));
            }
        };
        rack.model.run(async |world| {
            let all = drives(&world, 0..width);
            let group = Group::create(world.clone(), spec_of(level, width), all).await.expect("create");
            lose(&group, 0..INLINE_MAX as u64).await;
            assert_eq!(format_of(&rack.disks[0], 0), 2, "every version can read this");
            lose(&group, INLINE_MAX as u64..300).await;
            assert_eq!((format_of(&rack.disks[0], 0), format_of(&rack.disks[1], 1)), (3, 3));
        });
        rack.model.run(async |world| check(&open(&world).await.expect("open"), 300).await);
        // One whole table is enough, on whichever drive; without any, nobody knows what must not be read.
        (1..width).for_each(|d| damage_tables(&rack.disks[d]));
        rack.model.run(async |world| check(&open(&world).await.expect("open"), 300).await);
        rack.model.run(async |world| {
            let group = open(&world).await.expect("open");
            group.write(0, &pattern(150 * 16_384, 1)).await.expect("write");
            group.flush().await.expect("flush");
            assert_eq!(format_of(&rack.disks[0], 0), 2, "they fit the label again");
            lose(&group, 0..150).await;
        });
        rack.disks.iter().for_each(damage_tables);
        rack.model.run(async |world| {
            let before: Vec<_> = rack.disks.iter().map(|d| d.peek(0, 16 << 20)).collect();
            assert!(matches!(open(&world).await, Err(GroupError::LostRanges { .. })));
            let all = drives(&world, 0..width);
            let made = Group::create(world.clone(), spec_of(level, width), all).await;
            assert!(matches!(made, Err(GroupError::InUse { .. })), "it is still a group's");
            let after: Vec<_> = rack.disks.iter().map(|d| d.peek(0, 16 << 20)).collect();
            assert!(before == after, "something was written");
        });
    }
}

/// Versions before the tables wrote such a label, and could not read it: it is a label all the same.
#[test]
fn a_label_that_counts_more_than_it_holds_is_refused_and_not_taken_for_none() {
    let rack = rack(22, 2);
    rack.model.run(async |world| {
        Group::create(world.clone(), spec(Level::Raid1), drives(&world, 0..2)).await.expect("create");
        for (disk, at) in rack.disks.iter().flat_map(|d| COPIES_AT.map(|at| (d, at))) {
            let mut label = disk.peek(at, LABEL_LEN);
            label[200..204].copy_from_slice(&201_u32.to_le_bytes());
            label[12..16].fill(0);
            let sum = crate::label::checksum(&label);
            label[12..16].copy_from_slice(&sum.to_le_bytes());
            disk.poke(at, &label);
        }
        let opened = Group::open(world.clone(), spec(Level::Raid1), drives(&world, 0..2)).await;
        assert!(matches!(opened, Err(GroupError::LostRanges { .. })));
        let made = Group::create(world.clone(), spec(Level::Raid1), drives(&world, 0..2)).await;
        assert!(matches!(made, Err(GroupError::InUse { .. })));
    });
}

#[test]
fn no_cut_while_a_table_changes_leaves_a_group_that_cannot_be_opened() {
    let first = INLINE_MAX as u64 - 1;
    let mut point = 1;
    loop {
        let rack = rack_of(23, 2, 6 << 20);
        rack.model.run(async |world| {
            let all = drives(&world, 0..2);
            let group = Group::create(world.clone(), spec(Level::Raid1), all).await.expect("create");
            (0..first).for_each(|i| group.0.lost.add(i * 16_384, 4096));
            lose(&group, first..first + 1).await;
        });
        let noted = Cell::new(first + 1);
        rack.model.disks().cut_power_after(rack.model.disks().persistence_points() + point);
        let outcome = rack.model.run_until_crash(async |world| {
            let group =
                Group::open(world.clone(), spec(Level::Raid1), drives(&world, 0..2)).await.expect("open");
            for i in first + 1..first + 6 {
                lose(&group, i..i + 1).await;
                noted.set(i + 1);
            }
            rack.disks[1].kill();
            lose(&group, first + 6..first + 7).await;
            noted.set(first + 7);
        });
        if outcome != Outcome::PowerCut {
            break;
        }
        rack.model.reboot();
        rack.disks.iter().for_each(Disk::resume);
        rack.model.run(async |world| {
            let group = Group::open(world.clone(), spec(Level::Raid1), drives(&world, 0..2)).await;
            let lost = group.unwrap_or_else(|e| panic!("point {point}: {e}")).status().lost_ranges as u64;
            assert!(lost == noted.get() || lost == noted.get() + 1, "point {point}: {lost}");
        });
        point += 1;
    }
    assert!(point > 30, "only {point} points");
}

/// The label that a range is no longer lost was durable before what was written there: it read as what was on
/// the medium before, without an error.
#[test]
fn no_cut_makes_a_lost_range_readable_without_what_was_written_there() {
    for (seed, point) in (0..40).flat_map(|seed| (1..5).map(move |point| (seed, point))) {
        let rack = rack_of(seed, 2, 6 << 20);
        let outcome = rack.model.run_until_crash(async |world| {
            let all = drives(&world, 0..2);
            let group = Group::create(world.clone(), spec(Level::Raid1), all).await.expect("create");
            group.0.lose(8192, 4096).await.expect("noted");
            group.write(8192, &pattern(4096, 5)).await.expect("write");
            rack.model.disks().cut_power_after(rack.model.disks().persistence_points() + point);
            drop(group.0.lose(1 << 20, 4096).await);
            rack.model.disks().cut_power();
            std::future::pending::<()>().await;
        });
        assert!(outcome == Outcome::PowerCut);
        rack.model.reboot();
        rack.model.run(async |world| {
            let all = drives(&world, 0..2);
            let group = Group::open(world.clone(), spec(Level::Raid1), all).await.expect("open");
            let mut out = Pieces::new();
            match group.read(8192, 4096, &mut out).await {
                Ok(()) => {
                    assert!(
                        out.joined()[..] == pattern(4096, 5).joined()[..],
                        "seed {seed}, point {point}: old content"
                    )
                }
                Err(error) => assert!(matches!(error, block::BlockError::Unreadable { .. }), "{error}"),
            }
        });
    }
}
