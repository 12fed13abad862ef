//! The label of a spare: nobody takes the drive for blank, its own array may use it, and no power cut leaves
//! anything else.

use super::*;
use crate::label::{COPIES_AT, LABEL_LEN};
use crate::{OnDrive, Overwrite, erase_array_label, examine, label_spare};

const OWN: ArrayId = ArrayId([7; 16]);
const OTHER: ArrayId = ArrayId([8; 16]);

async fn found_on(world: &World, d: usize) -> OnDrive {
    examine(&drives(world, [d])[0]).await.expect("readable")
}

#[test]
fn a_spare_is_known_by_either_copy_of_its_label_and_blank_when_that_is_erased() {
    let rack = rack(1, 1);
    rack.model.run(async |world| {
        let drive = drives(&world, [0]).remove(0);
        label_spare(&drive, OWN).await.expect("labelled");
        assert_eq!(found_on(&world, 0).await, OnDrive::Spare { array_id: OWN });
        for at in COPIES_AT {
            let whole = rack.disks[0].peek(at, LABEL_LEN);
            rack.disks[0].poke(at + 20, &[0xa5; 3]);
            assert_eq!(found_on(&world, 0).await, OnDrive::Spare { array_id: OWN });
            rack.disks[0].poke(at, &whole);
        }
        COPIES_AT.iter().for_each(|at| rack.disks[0].poke(at + 20, &[0xa5; 3]));
        assert_eq!(found_on(&world, 0).await, OnDrive::DamagedLabel);
        label_spare(&drive, OWN).await.expect("labelled");
        erase_array_label(&drive).await.expect("erased");
        assert_eq!(found_on(&world, 0).await, OnDrive::Blank);
    });
}

#[test]
fn a_spare_takes_a_place_in_its_own_array_and_is_blank_for_nobody() {
    let rack = rack(2, 5);
    rack.model.run(async |world| {
        for (d, array_id) in [(2, OWN), (3, OTHER), (4, OWN)] {
            label_spare(&drives(&world, [d])[0], array_id).await.expect("labelled");
        }
        let create = async |d: usize, overwrite: Overwrite| {
            let two = drives(&world, [0, d]);
            Group::create_over(world.clone(), spec(Level::Raid1), two, overwrite).await
        };
        for (d, array_id) in [(2, OWN), (3, OTHER)] {
            let refused = create(d, Overwrite::Nothing).await.err().expect("refused").to_string();
            let told = format!("drive d{d} already belongs to array {array_id}, as a spare");
            assert!(refused.contains(&told), "{refused}");
            assert_eq!(found_on(&world, d).await, OnDrive::Spare { array_id });
        }
        let opened = Group::open(world.clone(), spec(Level::Raid1), drives(&world, [3])).await;
        assert!(matches!(opened, Err(GroupError::Foreign { .. })));
        let group =
            Group::create(world.clone(), spec(Level::Raid1), drives(&world, [0, 1])).await.expect("create");
        group.fail(1, "pulled").await.expect("fail");
        let refused = group.replace(1, drives(&world, [3]).remove(0)).await.expect_err("another array's");
        assert!(matches!(refused, GroupError::InUse { .. }), "{refused}");
        group.replace(1, drives(&world, [2]).remove(0)).await.expect("its own");
        assert!(matches!(found_on(&world, 2).await, OnDrive::Label(_)), "its label is that of the group");
        group.fail(1, "pulled").await.expect("fail");
        let other = drives(&world, [3]).remove(0);
        group.replace_over(1, other, Overwrite::Foreign).await.expect("it may be erased");
        create(4, Overwrite::Foreign).await.err().expect("d0 is in the group");
    });
}

/// Power cuts at every persistence point of a spare's life: it is labelled, erased, labelled again, and takes
/// a place.
#[test]
fn a_cut_leaves_a_spare_a_blank_drive_or_one_of_the_group() {
    let mut ends = [0; 3];
    for point in 1.. {
        let rack = rack(point, 3);
        let group_made = rack.model.run(async |world| {
            Group::create(world.clone(), spec(Level::Raid1), drives(&world, 0..2)).await.expect("create");
            rack.model.disks().persistence_points()
        });
        rack.model.disks().cut_power_after(group_made + point);
        let outcome = rack.model.run_until_crash(async |world| {
            let drive = drives(&world, [2]).remove(0);
            label_spare(&drive, OWN).await.expect("labelled");
            erase_array_label(&drive).await.expect("erased");
            label_spare(&drive, OWN).await.expect("labelled");
            let group = Group::open_degraded(world.clone(), spec(Level::Raid1), drives(&world, [0])).await;
            group.expect("open").replace(1, drive).await.expect("replace");
        });
        if outcome != Outcome::PowerCut {
            break;
        }
        rack.model.reboot();
        rack.model.run(async |world| match found_on(&world, 2).await {
            OnDrive::Spare { array_id: OWN } => ends[0] += 1,
            OnDrive::Blank => ends[1] += 1,
            OnDrive::Label(label) if label.position == 1 => ends[2] += 1,
            other => panic!("point {point}: {other:?}"),
        });
    }
    assert!(ends.iter().all(|count| *count > 0), "each of them is possible: {ends:?}");
}
