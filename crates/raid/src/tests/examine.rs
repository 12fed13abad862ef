//! What a drive carries is told apart before anything is written; what is refused changes no byte on any
//! drive.

use super::*;
use crate::label::{COPIES_AT, FORMAT, LABEL_LEN};
use crate::{GroupId, OnDrive, Overwrite, examine};

async fn found_on(world: &World, d: usize) -> OnDrive {
    examine(&drives(world, [d])[0]).await.expect("readable")
}

/// Everything that is on the disks.
fn media(rack: &Rack) -> Vec<Vec<u8>> {
    rack.disks.iter().map(|d| d.peek(0, d.spec().len_bytes as usize)).collect()
}

/// What an upgrade that was taken back leaves: labels of a format that this version does not know. `whole`:
/// with the right checksum.
fn make_newer(disk: &Disk, format: u32, whole: bool) {
    for at in COPIES_AT {
        let mut label = disk.peek(at, LABEL_LEN);
        label[8..12].copy_from_slice(&format.to_le_bytes());
        if whole {
            label[12..16].fill(0);
            let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &label) as u32;
            label[12..16].copy_from_slice(&sum.to_le_bytes());
        }
        disk.poke(at, &label);
    }
}

fn damage(disk: &Disk, copy: usize) {
    disk.poke(COPIES_AT[copy] + 100, &[0xa5; 3]);
}

#[test]
fn what_a_drive_carries_is_told_apart() {
    let rack = rack(1, 7);
    rack.model.run(async |world| {
        assert_eq!(found_on(&world, 0).await, OnDrive::Blank);
        for at in [0, 1080, 65_600, DISK_LEN - 1, DISK_LEN - 70_000, 1 << 20] {
            rack.disks[0].poke(at, &[9]);
            assert_eq!(found_on(&world, 0).await, OnDrive::NotBlank { at });
            rack.disks[0].poke(at, &[0]);
        }
        Group::create(world.clone(), spec(Level::Raid1), drives(&world, 1..7)).await.expect("create");
        let labelled = |found: &OnDrive| matches!(found, OnDrive::Label(l) if l.group_name == "g");
        assert!(labelled(&found_on(&world, 1).await));
        for copy in [0, 1] {
            damage(&rack.disks[2 + copy], copy);
            assert!(labelled(&found_on(&world, 2 + copy).await), "the other copy is whole");
            damage(&rack.disks[4], copy);
        }
        assert_eq!(found_on(&world, 4).await, OnDrive::DamagedLabel);
        make_newer(&rack.disks[5], FORMAT + 1, true);
        assert_eq!(found_on(&world, 5).await, OnDrive::NewerFormat { format: FORMAT + 1 });
        make_newer(&rack.disks[6], 99, false);
        assert_eq!(found_on(&world, 6).await, OnDrive::NewerFormat { format: 99 });
    });
}

/// One copy of a newer format is enough: a newer masu was about to write the other one, too.
#[test]
fn a_label_that_was_about_to_become_newer_is_newer() {
    let rack = rack(2, 2);
    rack.model.run(async |world| {
        Group::create(world.clone(), spec(Level::Raid1), drives(&world, 0..2)).await.expect("create");
        let old = rack.disks[0].peek(COPIES_AT[1], LABEL_LEN);
        make_newer(&rack.disks[0], FORMAT + 1, true);
        rack.disks[0].poke(COPIES_AT[1], &old);
        assert_eq!(found_on(&world, 0).await, OnDrive::NewerFormat { format: FORMAT + 1 });
        let opened = Group::open(world.clone(), spec(Level::Raid1), drives(&world, 0..2)).await;
        assert!(matches!(opened, Err(GroupError::NewerFormat { .. })));
    });
}

#[test]
fn creation_and_replacement_overwrite_only_what_they_are_told_to() {
    let rack = rack(3, 6);
    rack.model.run(async |world| {
        let other = GroupSpec::new("other", Level::Raid0, ArrayId([8; 16]));
        Group::create(world.clone(), other, drives(&world, [1])).await.expect("create");
        let live = GroupSpec::new("live", Level::Raid0, ArrayId([7; 16]));
        Group::create(world.clone(), live.clone(), drives(&world, [2])).await.expect("create");
        Group::create(world.clone(), live.clone(), drives(&world, [3])).await.expect("create");
        make_newer(&rack.disks[3], FORMAT + 1, true);
        Group::create(world.clone(), live, drives(&world, [4])).await.expect("create");
        (0..2).for_each(|copy| damage(&rack.disks[4], copy));
        rack.disks[5].poke(1080, &[0x53, 0xef]);
        let check = async |d: usize, overwrite: Overwrite, words: &str| {
            let before = media(&rack);
            let made =
                Group::create_over(world.clone(), spec(Level::Raid1), drives(&world, [0, d]), overwrite)
                    .await;
            let text = made.err().map(|e| e.to_string()).unwrap_or_default();
            assert!(!text.is_empty() && text.contains(words), "d{d}: {text:?} lacks {words:?}");
            assert!(media(&rack) == before, "d{d}: something was written");
        };
        check(1, Overwrite::Nothing, "drive d1 already belongs to group other").await;
        check(2, Overwrite::Nothing, "drive d2 already belongs to group live").await;
        check(2, Overwrite::Foreign, "drive d2 already belongs to group live").await;
        check(3, Overwrite::Nothing, "written by a newer masu").await;
        check(3, Overwrite::Foreign, "written by a newer masu").await;
        check(4, Overwrite::Nothing, "both copies of the label of drive d4 are damaged").await;
        check(5, Overwrite::Nothing, "drive d5 is not blank: data at byte 1080").await;
        let made =
            Group::create_over(world.clone(), spec(Level::Raid1), drives(&world, [1, 5]), Overwrite::Foreign);
        let group = made.await.expect("foreign");
        group.fail(1, "pulled").await.expect("fail");
        for (d, words) in [(2, "belongs to group live"), (3, "newer masu"), (4, "damaged")] {
            let before = media(&rack);
            let drive = || drives(&world, [d]).remove(0);
            let error = group.replace(1, drive()).await.expect_err("refused").to_string();
            assert!(error.contains(words), "{error}");
            let error = group.check_replacement(1, &drive(), Overwrite::Nothing).await;
            assert!(error.is_err() && media(&rack) == before, "d{d}");
        }
        group.replace_over(1, drives(&world, [4]).remove(0), Overwrite::Foreign).await.expect("overwritten");
    });
}

/// Two paths of one LU, two loop devices over one file: a mirror of both had one copy, and a stripe over both
/// overwrote itself.
#[test]
fn two_drives_that_are_one_medium_are_refused_and_the_medium_is_as_it_was() {
    for (level, which) in [
        (Level::Raid0, vec![0, 0]),
        (Level::Raid1, vec![0, 0]),
        (Level::Raid1, vec![1, 2, 1]),
        (Level::Raid10, vec![0, 1, 2, 0]),
        (Level::Raid5, vec![0, 1, 1]),
        (Level::Raid6, vec![0, 1, 2, 0]),
    ] {
        for overwrite in [Overwrite::Nothing, Overwrite::Foreign, Overwrite::Anything] {
            let rack = rack(8, 3);
            if overwrite != Overwrite::Nothing {
                rack.disks[0].poke(0, &[0x5a; 8192]);
                rack.disks[1].poke(COPIES_AT[1] - 512, &[0xa5; 8192]);
            }
            let before = media(&rack);
            rack.model.run(async |world| {
                let made =
                    Group::create_over(world.clone(), spec(level), drives(&world, which.clone()), overwrite);
                let error = made.await.err().expect("one medium");
                assert!(matches!(error, GroupError::SameMedium { .. }), "{level} {overwrite:?}: {error}");
                assert!(error.to_string().contains("are one medium"), "{error}");
            });
            assert!(media(&rack) == before, "{level} {overwrite:?}");
        }
    }
}

/// The second path to a drive of the array shows the label of that drive.
#[test]
fn another_path_to_a_drive_in_use_takes_no_position() {
    let rack = rack(9, 4);
    rack.model.run(async |world| {
        let group =
            Group::create(world.clone(), spec(Level::Raid1), drives(&world, 0..2)).await.expect("create");
        let other = GroupSpec::new("other", Level::Raid0, ArrayId([7; 16]));
        Group::create(world.clone(), other.clone(), drives(&world, [2])).await.expect("create");
        group.fail(1, "pulled").await.expect("fail");
        let before = media(&rack);
        for overwrite in [Overwrite::Nothing, Overwrite::Foreign] {
            for d in [0, 2] {
                let again = drives(&world, [d]).remove(0);
                let refused = group.replace_over(1, again, overwrite).await.expect_err("in use").to_string();
                assert!(refused.contains("already belongs to group"), "{refused}");
                let again = drives(&world, [3, d]);
                let third = GroupSpec { name: "third".into(), ..other.clone() };
                let refused = Group::create_over(world.clone(), third, again, overwrite).await;
                assert!(matches!(refused, Err(GroupError::InUse { .. })));
            }
        }
        assert!(media(&rack) == before);
    });
}

#[test]
fn a_group_has_the_identity_that_its_creator_chose_and_no_other_is_taken_for_it() {
    let rack = rack(4, 3);
    rack.model.run(async |world| {
        let with = |id: u8| GroupSpec { id: Some(GroupId([id; 16])), ..spec(Level::Raid1) };
        let group = Group::create(world.clone(), with(1), drives(&world, 0..2)).await.expect("create");
        assert_eq!(group.id(), GroupId([1; 16]));
        Group::open(world.clone(), with(1), drives(&world, 0..2)).await.expect("open");
        let before = media(&rack);
        let opened = Group::open(world.clone(), with(2), drives(&world, 0..2)).await;
        let text = opened.err().expect("another group").to_string();
        assert!(text.contains("belongs to another group of this name"), "{text}");
        assert!(media(&rack) == before);
    });
}

/// The labels of the first drives are written, then the power goes: only the same creation may go on.
#[test]
fn an_interrupted_creation_is_taken_up_by_nobody_else() {
    let with = |id: u8| GroupSpec { id: Some(GroupId([id; 16])), ..spec(Level::Raid1) };
    let mut unfinished = 0;
    for point in 1..12 {
        let rack = rack(point, 2);
        rack.model.disks().cut_power_after(point);
        let outcome = rack.model.run_until_crash(async |world| {
            Group::create(world.clone(), with(1), drives(&world, 0..2)).await.expect("create");
            std::future::pending::<()>().await;
        });
        if outcome != Outcome::PowerCut {
            continue;
        }
        rack.model.reboot();
        rack.model.run(async |world| {
            let opened = Group::open(world.clone(), with(1), drives(&world, 0..2)).await;
            if opened.is_ok() {
                return;
            }
            if let Err(GroupError::Unfinished { .. }) = opened {
                unfinished += 1;
                let other = Group::create(world.clone(), with(2), drives(&world, 0..2)).await;
                assert!(matches!(other, Err(GroupError::InUse { .. })), "point {point}");
            }
            Group::create(world.clone(), with(1), drives(&world, 0..2)).await.expect("the same creation");
        });
    }
    assert!(unfinished > 0);
}

#[test]
fn an_open_that_fails_changes_no_byte_on_any_drive() {
    let levels =
        [(Level::Raid0, 2), (Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 3), (Level::Raid6, 4)];
    type Spoil = fn(&Rack);
    let spoilt: [(&str, Spoil); 6] = [
        ("both copies damaged", |rack| (0..2).for_each(|copy| damage(&rack.disks[0], copy))),
        ("newer format", |rack| make_newer(&rack.disks[0], FORMAT + 1, true)),
        ("newer format everywhere", |rack| rack.disks.iter().for_each(|d| make_newer(d, FORMAT + 1, false))),
        ("blank", |rack| rack.disks[0].poke(0, &[0; 1 << 20])),
        ("of another array", |rack| {
            let other = rack.disks.last().expect("there is one").peek(0, 1 << 20);
            rack.disks[0].poke(0, &other);
        }),
        ("twice the same", |rack| {
            let other = rack.disks[1].peek(0, 1 << 20);
            rack.disks[0].poke(0, &other);
        }),
    ];
    for (level, width) in levels {
        for (what, spoil) in spoilt {
            let rack = rack(5, width + 1);
            rack.model.run(async |world| {
                let other = GroupSpec::new("other", Level::Raid0, ArrayId([8; 16]));
                Group::create(world.clone(), other, drives(&world, [width])).await.expect("create");
                let group =
                    Group::create(world.clone(), spec_of(level, width), drives(&world, 0..width)).await;
                let group = group.expect("create");
                group.write(0, &pattern(100 * 4096, 1)).await.expect("write");
                group.flush().await.expect("flush");
                // Not closed: the journal has something to replay, mirrors may differ.
            });
            spoil(&rack);
            let before = media(&rack);
            rack.model.run(async |world| {
                let all = drives(&world, 0..width);
                for degraded in [false, true] {
                    let opened = match degraded {
                        true => Group::open_degraded(world.clone(), spec_of(level, width), all.clone()).await,
                        false => Group::open(world.clone(), spec_of(level, width), all.clone()).await,
                    };
                    assert!(opened.is_err(), "{level}: {what}");
                    assert!(media(&rack) == before, "{level}: {what}: something was written");
                }
            });
        }
    }
}

/// A power failure tore one copy of each label, and the next one comes while the label is written again.
#[test]
fn no_cut_destroys_the_only_copy_of_a_label() {
    for (copy, seed) in [0, 1].into_iter().flat_map(|copy| (1..=20).map(move |seed| (copy, seed))) {
        for point in 1.. {
            let rack = rack_of(seed, 2, 4 << 20);
            rack.model.run(async |world| {
                Group::create(world.clone(), spec(Level::Raid1), drives(&world, 0..2)).await.expect("create");
            });
            rack.disks.iter().for_each(|disk| damage(disk, copy));
            rack.model.disks().cut_power_after(rack.model.disks().persistence_points() + point);
            let outcome = rack.model.run_until_crash(async |world| {
                Group::open(world.clone(), spec(Level::Raid1), drives(&world, 0..2)).await.expect("open");
            });
            if outcome != Outcome::PowerCut {
                assert!(point > 8, "the label was written before the cut");
                break;
            }
            rack.model.reboot();
            rack.model.run(async |world| {
                let opened =
                    Group::open(world.clone(), spec(Level::Raid1), drives(&world, 0..2)).await.map(drop);
                assert_eq!(opened.err(), None, "copy {copy} damaged, cut at point {point}, seed {seed}");
            });
        }
    }
}
