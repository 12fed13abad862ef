//! Every level and width: conformance, also with as many drives gone as the level bears; an error beyond,
//! never other data; exact counts of drive operations.

use block::conformance::{random_against_shadow, refuses_what_is_out_of_range};
use block::{Buf, Device, Pieces};

use super::{DISK_LEN, drives, pattern, rack_of, read, spec_of};
use crate::{Group, GroupState, Level, MemberState};

/// A level, its width, and drives that may fail together.
const CASES: [(Level, usize, &[u32]); 15] = [
    (Level::Raid0, 1, &[]),
    (Level::Raid0, 3, &[]),
    (Level::Raid1, 2, &[0]),
    (Level::Raid1, 3, &[0, 2]),
    (Level::Raid10, 4, &[1, 2]),
    (Level::Raid10, 6, &[0, 3, 4]),
    (Level::Raid5, 3, &[1]),
    (Level::Raid5, 4, &[0]),
    (Level::Raid5, 9, &[8]),
    (Level::Raid5, 32, &[17]),
    (Level::Raid6, 4, &[1, 2]),
    (Level::Raid6, 5, &[0, 4]),
    (Level::Raid6, 6, &[3, 5]),
    (Level::Raid6, 10, &[0, 1]),
    (Level::Raid6, 32, &[30, 31]),
];

#[test]
fn every_level_conforms_whole_and_with_what_it_tolerates_gone() {
    for (level, width, failing) in CASES {
        let rack = rack_of(width as u64, width, DISK_LEN);
        rack.model.run(async |world| {
            let all = drives(&world, 0..width);
            let group = Group::create(world.clone(), spec_of(level, width), all).await.expect("create");
            assert_eq!(group.status().tolerates, level.tolerates(width));
            random_against_shadow(&group, &mut world.random("test"), 150).await;
            refuses_what_is_out_of_range(&group).await;
            for &position in failing {
                rack.disks[position as usize].kill();
                random_against_shadow(&group, &mut world.random("degraded"), 80).await;
                assert_eq!(group.status().state, GroupState::Degraded, "{level} of {width}");
                assert_eq!(group.status().members[position as usize].state, MemberState::Failed);
            }
        });
    }
}

#[test]
fn one_drive_more_than_a_level_bears_is_an_error_and_never_other_data() {
    for (level, width, failing) in CASES {
        let rack = rack_of(7 + width as u64, width, DISK_LEN);
        let data = pattern(1 << 20, 5);
        rack.model.run(async |world| {
            let all = drives(&world, 0..width);
            let group = Group::create(world.clone(), spec_of(level, width), all).await.expect("create");
            group.write(0, &data).await.expect("write");
            group.flush().await.expect("flush");
            for &position in failing {
                rack.disks[position as usize].kill();
            }
            let before = read(&group, 0, data.len()).await;
            assert_eq!(before, data.joined().to_vec(), "{level} of {width}");
            // Of level 10 the partner of one that is gone; of the others any.
            let next = match level {
                Level::Raid10 => failing[0] as usize ^ 1,
                _ => (0..width).find(|p| !failing.contains(&(*p as u32))).expect("one is left"),
            };
            rack.disks[next].kill();
            for at in (0..data.len()).step_by(4096) {
                let mut out = Pieces::new();
                if group.read(at as u64, 4096, &mut out).await.is_ok() {
                    assert_eq!(out.joined()[..], before[at..at + 4096], "{level} of {width} at {at}");
                }
            }
            assert!(group.read(0, data.len(), &mut Pieces::new()).await.is_err(), "{level} of {width}");
            assert!(group.write(0, &data).await.is_err(), "{level} of {width}");
            assert_eq!(group.status().state, GroupState::Failed);
        });
    }
}

#[test]
fn a_small_write_to_mirrors_is_two_drive_operations() {
    for (level, width) in [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid10, 6)] {
        let rack = rack_of(1, width, DISK_LEN);
        rack.model.run(async |world| {
            let all = drives(&world, 0..width);
            let group = Group::create(world.clone(), spec_of(level, width), all).await.expect("create");
            // The first write since the group was opened marks the labels.
            group.write(0, &pattern(4096, 1)).await.expect("write");
            let operations = || {
                let all = group.drives();
                all.iter().map(|d| d.counts()).map(|c| c.reads + c.writes + c.zeros + c.flushes).sum::<u64>()
            };
            let before = operations();
            group.write(65_536, &pattern(4096, 2)).await.expect("write");
            assert_eq!(operations() - before, 2, "{level} of {width}");
            read(&group, 65_536, 4096).await;
            assert_eq!(operations() - before, 3, "{level} of {width}");
        });
    }
}

#[test]
fn a_long_read_of_level_10_uses_one_drive_of_every_pair() {
    let rack = rack_of(1, 6, DISK_LEN);
    rack.model.run(async |world| {
        let all = drives(&world, 0..6);
        let group = Group::create(world.clone(), spec_of(Level::Raid10, 6), all).await.expect("create");
        let reads = || group.drives().iter().map(|d| d.counts().reads).collect::<Vec<_>>();
        let before = reads();
        read(&group, 0, 3 << 20).await;
        let did: Vec<u64> = reads().iter().zip(before).map(|(a, b)| a - b).collect();
        assert!(did.chunks(2).all(|pair| pair.iter().sum::<u64>() <= 3), "{did:?}");
        assert_eq!(did.iter().sum::<u64>() % 3, 0, "{did:?}");
    });
}

#[test]
fn zeros_and_content_in_one_row_leave_the_right_parity() {
    const LEN: usize = 3 << 20;
    for (level, width, failing) in CASES.into_iter().filter(|(level, ..)| level.parities() > 0) {
        let rack = rack_of(11 + width as u64, width, DISK_LEN);
        rack.model.run(async |world| {
            let all = drives(&world, 0..width);
            let group = Group::create(world.clone(), spec_of(level, width), all).await.expect("create");
            let mut rng = world.random("test");
            let mut shadow = vec![0; LEN];
            for step in 0..80 {
                let blocks = LEN / 4096;
                let from = rng.usize(0..blocks);
                let to = from + rng.usize(1..=(blocks - from).min(64));
                let range = from * 4096..to * 4096;
                let data = match rng.bool() {
                    true => Buf::shared_zeros(range.len()).freeze().into(),
                    false => pattern(range.len(), step),
                };
                group.write(range.start as u64, &data).await.expect("write");
                shadow[range].copy_from_slice(&data.joined());
            }
            for &position in failing {
                rack.disks[position as usize].kill();
            }
            assert!(read(&group, 0, LEN).await == shadow, "{level} of {width}");
        });
    }
}
