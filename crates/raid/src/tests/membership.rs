//! Which drives a group is opened with: degraded by itself, vouched for, stale, taken over by another drive,
//! owned by nobody.

use block::Device;
use world::World;

use super::{DISK_LEN, drives, pattern, rack, rack_of, read, spec, spec_of};
use crate::label::COPIES_AT;
use crate::{
    ArrayId, Group, GroupError, GroupSpec, Level, MemberState, MissingCause, Ownership, Throttle, identify,
    inspect,
};

#[test]
fn a_group_opens_degraded_by_itself_when_the_missing_could_not_have_gone_on() {
    // Level, width, missing, and whether it opens without being vouched for.
    let cases: [(Level, usize, &[usize], bool); 12] = [
        (Level::Raid0, 2, &[0], false),
        (Level::Raid1, 2, &[0], false),
        (Level::Raid1, 3, &[2], false),
        (Level::Raid10, 4, &[1], true),
        (Level::Raid10, 4, &[1, 2], false),
        (Level::Raid10, 6, &[1, 2], true),
        (Level::Raid5, 3, &[2], true),
        (Level::Raid5, 5, &[0], true),
        (Level::Raid5, 4, &[0, 1], false),
        (Level::Raid6, 4, &[0], true),
        (Level::Raid6, 4, &[0, 1], false),
        (Level::Raid6, 6, &[4, 5], true),
    ];
    for (level, width, missing, opens) in cases {
        let rack = rack_of(3, width, DISK_LEN);
        let data = pattern(1 << 20, 9);
        rack.model.run(async |world| {
            let all = drives(&world, 0..width);
            let group = Group::create(world.clone(), spec_of(level, width), all).await.expect("create");
            group.write(0, &data).await.expect("write");
            group.close().await.expect("close");
        });
        rack.model.run(async |world| {
            let there = || drives(&world, (0..width).filter(|d| !missing.contains(d)));
            let opened = Group::open(world.clone(), spec_of(level, width), there()).await;
            let case = format!("{level} of {width} without {missing:?}");
            assert_eq!(opened.is_ok(), opens, "{case}: {:?}", opened.as_ref().err());
            let group = match opened {
                Ok(group) => group,
                Err(error) => {
                    let GroupError::Missing { cause, .. } = error else { panic!("{case}: {error}") };
                    let degraded = Group::open_degraded(world.clone(), spec_of(level, width), there()).await;
                    assert_eq!(degraded.is_ok(), cause == MissingCause::MayBeNewer, "{case}: {cause}");
                    match degraded {
                        Ok(group) => group,
                        Err(_) => return assert!(missing.len() > level.tolerates(width) as usize, "{case}"),
                    }
                }
            };
            assert_eq!(read(&group, 0, data.len()).await, data.joined().to_vec(), "{case}");
        });
    }
}

/// A mirror was pulled, used alone elsewhere, and is there again: neither side may be written over the other.
#[test]
fn a_drive_that_was_used_elsewhere_meanwhile_does_not_come_back() {
    let rack = rack_of(5, 2, DISK_LEN);
    rack.model.run(async |world| {
        let group = Group::create(world.clone(), spec_of(Level::Raid1, 2), drives(&world, 0..2))
            .await
            .expect("create");
        group.flush().await.expect("flush");
        rack.disks[1].kill();
        group.write(0, &pattern(1 << 20, 1)).await.expect("write");
        assert!(group.status().members[1].dropped_gone);
        rack.disks[1].resume();
        let label = || async { inspect(&drives(&world, [1])[0]).await.expect("readable").expect("labelled") };
        assert!(group.left(&label().await), "it is as it was");
        let alone = Group::open_degraded(world.clone(), spec_of(Level::Raid1, 2), drives(&world, [1])).await;
        alone.expect("vouched for").write(0, &pattern(1 << 20, 2)).await.expect("write");
        assert!(!group.left(&label().await));
        let refused = group.take_back(1).await.expect_err("it has other data");
        assert!(matches!(refused, GroupError::InUse { .. }), "{refused}");
    });
}

/// A drive was pulled, another one took its place and was filled. Then somebody puts the old one back: its
/// label says that it has the place, and so do the others' labels of the place. It must not be taken for the
/// one that they mean.
#[test]
fn a_drive_that_was_replaced_is_stale_for_ever() {
    for (level, width) in [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 4), (Level::Raid6, 5)] {
        let rack = rack_of(4, width + 1, DISK_LEN);
        let (old, new) = (pattern(1 << 20, 1), pattern(1 << 20, 2));
        rack.model.run(async |world| {
            let all = drives(&world, 0..width);
            let group = Group::create(world.clone(), spec_of(level, width), all).await.expect("create");
            group.write(0, &old).await.expect("write");
            group.flush().await.expect("flush");
            rack.disks[1].kill();
            group.write(0, &new).await.expect("write");
            let spare = drives(&world, [width]).remove(0);
            group.replace(1, spare).await.expect("replace");
            assert!(group.rebuild(&Throttle::none(world.clone())).await.expect("rebuild"));
            group.close().await.expect("close");
        });
        rack.disks[1].resume();
        rack.model.run(async |world| {
            let opened = Group::open(world.clone(), spec_of(level, width), drives(&world, 0..width)).await;
            let group = match opened {
                Ok(group) => group,
                // One mirror of two: the other one may have later data.
                Err(error) => {
                    return assert!(matches!(error, GroupError::Missing { .. }), "{level}: {error}");
                }
            };
            assert_eq!(group.status().members[1].state, MemberState::Stale, "{level}");
            assert_eq!(read(&group, 0, new.len()).await, new.joined().to_vec(), "{level}");
        });
        rack.model.run(async |world| {
            let right = drives(&world, (0..=width).filter(|d| *d != 1));
            if let Ok(group) = Group::open(world.clone(), spec_of(level, width), right).await {
                assert_eq!(read(&group, 0, new.len()).await, new.joined().to_vec(), "{level}");
            }
        });
    }
}

#[test]
fn a_drive_that_was_dropped_comes_back_as_stale_and_takes_its_place_again() {
    for (level, width) in [(Level::Raid1, 3), (Level::Raid10, 4), (Level::Raid5, 3), (Level::Raid6, 6)] {
        let rack = rack_of(5, width, DISK_LEN);
        let data = pattern(1 << 20, 3);
        rack.model.run(async |world| {
            let all = drives(&world, 0..width);
            let group = Group::create(world.clone(), spec_of(level, width), all).await.expect("create");
            group.fail(2, "pulled").await.expect("one drive less");
            group.write(0, &data).await.expect("write");
            group.flush().await.expect("flush");
        });
        rack.model.run(async |world| {
            let all = drives(&world, 0..width);
            let group = Group::open(world.clone(), spec_of(level, width), all).await.expect("open");
            assert_eq!(group.status().members[2].state, MemberState::Stale);
            group.replace(2, drives(&world, [2]).remove(0)).await.expect("its own drive");
            assert!(group.rebuild(&Throttle::none(world.clone())).await.expect("rebuild"));
            assert_eq!(group.status().members[2].state, MemberState::Active);
            assert_eq!(group.status().tolerates, level.tolerates(width));
            group.fail(0, "pulled").await.expect("one drive less");
            assert_eq!(read(&group, 0, data.len()).await, data.joined().to_vec(), "{level}");
        });
    }
}

#[test]
fn only_a_blank_or_own_drive_takes_a_place_and_only_a_free_one() {
    let rack = rack_of(6, 4, DISK_LEN);
    rack.model.run(async |world| {
        let all = drives(&world, 0..2);
        let group = Group::create(world.clone(), spec_of(Level::Raid1, 2), all).await.expect("create");
        let other = GroupSpec::new("other", Level::Raid0, ArrayId([7; 16]));
        Group::create(world.clone(), other, drives(&world, [2])).await.expect("create");
        let drive = |d: usize| drives(&world, [d]).remove(0);
        let error = group.replace(1, drive(3)).await.expect_err("it serves").to_string();
        assert!(error.contains("position 1"), "{error}");
        group.fail(1, "pulled").await.expect("fail");
        let error = group.replace(1, drive(2)).await.expect_err("in use").to_string();
        assert!(error.contains("drive d2 already belongs to group other"), "{error}");
        assert!(group.replace(7, drive(3)).await.is_err());
        group.replace_forced(1, drive(2)).await.expect("forced");
        assert_eq!(group.status().members[1].state, MemberState::Rebuilding);
    });
}

#[test]
fn a_group_changes_its_owner_and_its_name() {
    let rack = rack_of(8, 5, DISK_LEN);
    let data = pattern(65_536, 4);
    let mine = spec_of(Level::Raid5, 3);
    rack.model.run(async |world| {
        let group = Group::create(world.clone(), mine.clone(), drives(&world, 0..3)).await.expect("create");
        group.write(0, &data).await.expect("write");
        group.adopt(ArrayId::default(), None).await.expect("export");
        group.close().await.expect("close");
        Group::create(world.clone(), spec_of(Level::Raid0, 1), drives(&world, [4])).await.expect("create");
    });
    rack.model.run(async |world| {
        let opened = Group::open(world.clone(), mine.clone(), drives(&world, 0..3)).await;
        assert!(matches!(opened, Err(GroupError::Foreign { .. })), "nobody's");
        let found = identify(&drives(&world, 0..5)).await.expect("readable");
        assert_eq!(found.len(), 2);
        let group = found.iter().find(|f| f.label.level == Level::Raid5).expect("the exported one");
        assert_eq!(group.drives.iter().map(|(i, _)| *i).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(group.label.array_id, ArrayId::default());
        let theirs = GroupSpec { array_id: ArrayId::default(), ..mine.clone() };
        let opened = Group::open(world.clone(), theirs, drives(&world, 0..3)).await.expect("open");
        opened.adopt(ArrayId([9; 16]), Some("moved")).await.expect("import");
        opened.close().await.expect("close");
    });
    rack.model.run(async |world| {
        let spec = GroupSpec { array_id: ArrayId([9; 16]), name: "moved".into(), ..mine };
        let group = Group::open(world.clone(), spec, drives(&world, 0..3)).await.expect("open");
        assert_eq!(read(&group, 0, data.len()).await, data.joined().to_vec());
    });
}

#[test]
fn a_group_that_a_later_owner_had_open_is_refused_untouched() {
    let rack = rack(17, 3);
    let bytes = || rack.disks.iter().map(|d| d.peek(0, d.spec().len_bytes as usize)).collect::<Vec<_>>();
    let own = |epoch, owner| Some(Ownership { epoch, owner });
    let by = |ownership| GroupSpec { ownership, ..spec(Level::Raid5) };
    rack.model.run(async |world| {
        Group::create(world.clone(), by(own(1, 8)), drives(&world, 0..3)).await.expect("create");
    });
    let open = async |world: World, ownership, which: std::ops::Range<usize>| {
        let group = Group::open(world.clone(), by(ownership), drives(&world, which)).await?;
        let named = inspect(&drives(&world, 0..1)[0]).await.expect("readable").map(|l| l.ownership);
        group.close().await.expect("close");
        Ok::<_, GroupError>(named)
    };
    rack.model.run(async |world| {
        let again = open(world.clone(), own(1, 8), 0..3).await.expect("the same owner, again");
        assert_eq!(again, own(1, 8));
        // Without the last drive, which keeps the label of the owner before.
        assert_eq!(open(world.clone(), own(5, 9), 0..2).await.expect("the next owner"), own(5, 9));
    });
    let before = bytes();
    rack.model.run(async |world| {
        for late in [own(4, 8), own(5, 8), own(1, 8)] {
            let error = open(world.clone(), late, 0..3).await.expect_err("an owner from before");
            assert!(matches!(error, GroupError::LaterOwner { found: 5, .. }), "{error}");
        }
    });
    assert!(bytes() == before, "masu wrote to a drive of the later owner");
    rack.model.run(async |world| {
        assert_eq!(open(world.clone(), own(6, 3), 0..3).await.expect("a later one"), own(6, 3));
        // One node alone compares nothing, and a new registry can begin after it.
        assert_eq!(open(world.clone(), None, 0..3).await.expect("one node"), own(0, 0));
        assert_eq!(open(world.clone(), own(1, 2), 0..3).await.expect("anew"), own(1, 2));
    });
}

/// A drive on which both copies of the label were overwritten (its file was emptied, a file system was made
/// on it) got new ones at the stop, and counted as in sync with whatever was there.
#[test]
fn a_drive_whose_label_was_overwritten_gets_no_new_one() {
    const FOREIGN: &[u8] = b"a file system";
    for level in [Level::Raid1, Level::Raid5] {
        let rack = rack(11, 3);
        let data = pattern(1 << 20, 9);
        rack.model.run(async |world| {
            let all = drives(&world, 0..3);
            let group = Group::create(world.clone(), spec_of(level, 3), all).await.expect("create");
            group.write(0, &data).await.expect("write");
            COPIES_AT.iter().for_each(|at| rack.disks[1].poke(*at, FOREIGN));
            group.close().await.expect("the others get theirs");
            let member = &group.status().members[1];
            assert_eq!(member.state, MemberState::Failed, "{level}");
            let cause = member.cause.as_ref().expect("a cause");
            assert!(cause.contains("its label was overwritten"), "{level}: {cause}");
        });
        COPIES_AT
            .iter()
            .for_each(|at| assert_eq!(rack.disks[1].peek(*at, FOREIGN.len()), FOREIGN, "{level}"));
        rack.model.run(async |world| {
            let there = drives(&world, [0, 2]);
            let group = Group::open(world.clone(), spec_of(level, 3), there).await;
            let group = group.expect("they know that the third one was dropped");
            assert_eq!(read(&group, 0, data.len()).await, data.joined().to_vec(), "{level}");
        });
    }
}
