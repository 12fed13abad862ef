//! Rebuild, scrub and resync beside I/O: restarted in the middle, with a second failure, throttled.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use block::{Device, Pieces};
use futures::future::{Either, select};
use world::World;

use super::{DISK_LEN, drives, pattern, rack_of, read, spec_of};
use crate::{Group, GroupEvent, GroupState, Level, MemberState, Throttle};

/// Drives with several marks of a rebuild on the labels.
const LONG_DISK_LEN: u64 = 150 << 20;

const REDUNDANT: [(Level, usize); 5] =
    [(Level::Raid1, 2), (Level::Raid1, 3), (Level::Raid10, 4), (Level::Raid5, 4), (Level::Raid6, 6)];

/// Writes on and on until told to stop; every byte of the shadow is what the group must hold.
async fn write_on(world: World, group: Group, shadow: Rc<std::cell::RefCell<Vec<u8>>>, stop: Rc<Cell<bool>>) {
    let mut rng = world.random("beside");
    while !stop.get() {
        let len = shadow.borrow().len();
        let at = rng.usize(..len / 4096) * 4096;
        let n = (1 + rng.usize(..64)) * 512;
        let n = n.min(len - at);
        let data = pattern(n, rng.u8(..));
        shadow.borrow_mut()[at..at + n].copy_from_slice(&data.joined());
        group.write(at as u64, &data).await.expect("write");
        world.sleep(Duration::from_micros(300)).await;
    }
    stop.set(false);
}

#[test]
fn a_drive_is_rebuilt_beside_writes_and_then_carries_the_group() {
    for (level, width) in REDUNDANT {
        let rack = rack_of(11, width + 1, DISK_LEN);
        rack.model.run(async |world| {
            let all = drives(&world, 0..width);
            let group = Group::create(world.clone(), spec_of(level, width), all).await.expect("create");
            let len = (group.geometry().len_bytes as usize).min(8 << 20);
            let shadow = Rc::new(std::cell::RefCell::new(pattern(len, 3).joined().to_vec()));
            group.write(0, &pattern(len, 3)).await.expect("write");
            rack.disks[1].kill();
            group.fail(1, "pulled").await.expect("fail");
            let stop = Rc::new(Cell::new(false));
            world.spawn(write_on(world.clone(), group.clone(), shadow.clone(), stop.clone()));
            group.replace(1, drives(&world, [width]).remove(0)).await.expect("replace");
            assert!(group.rebuild(&Throttle::new(world.clone(), 50)).await.expect("rebuild"));
            assert_eq!(group.status().state, GroupState::Optimal, "{level} of {width}");
            assert!(!group.rebuild(&Throttle::none(world.clone())).await.expect("nothing to do"));
            stop.set(true);
            while stop.get() {
                world.sleep(Duration::from_millis(1)).await;
            }
            let position = if level == Level::Raid10 { 0 } else { width as u32 - 1 };
            group.fail(position, "pulled").await.expect("the new drive carries it");
            assert_eq!(read(&group, 0, len).await, *shadow.borrow(), "{level} of {width}");
            let events: Vec<GroupEvent> =
                [group.next_event().await, group.next_event().await, group.next_event().await].into();
            assert!(matches!(&events[0], GroupEvent::DriveFailed { position: 1, cause, .. } if cause.contains("pulled")), "{events:?}");
            assert!(matches!(events[1], GroupEvent::DriveReplaced { position: 1, .. }), "{events:?}");
            assert!(matches!(events[2], GroupEvent::Rebuilt { position: 1 }), "{events:?}");
        });
    }
}

#[test]
fn a_spare_takes_its_place_beside_writers_that_never_pause() {
    for (level, width) in REDUNDANT {
        let rack = rack_of(12, width + 1, DISK_LEN);
        rack.model.run(async |world| {
            let all = drives(&world, 0..width);
            let group = Group::create(world.clone(), spec_of(level, width), all).await.expect("create");
            rack.disks[1].kill();
            group.fail(1, "pulled").await.expect("fail");
            // Sixteen, each elsewhere, one after the other: some write is always on its way.
            for writer in 0..16 {
                let (world, group) = (world.clone(), group.clone());
                world.clone().spawn(async move {
                    world.sleep(Duration::from_micros(50 * writer)).await;
                    while group.write(writer * 65536, &pattern(4096, 1)).await.is_ok() {}
                });
            }
            world.sleep(Duration::from_millis(10)).await;
            let replaced = group.replace(1, drives(&world, [width]).remove(0));
            let late = world.sleep(Duration::from_secs(1));
            match select(Box::pin(replaced), Box::pin(late)).await {
                Either::Left((outcome, _)) => outcome.expect("replace"),
                Either::Right(_) => panic!("{level} of {width}: no place for a second"),
            }
        });
    }
}

#[test]
fn a_rebuild_goes_on_after_a_restart_where_the_labels_say() {
    for (level, width) in [(Level::Raid1, 2), (Level::Raid5, 3)] {
        let rack = rack_of(12, width + 1, LONG_DISK_LEN);
        let data = pattern(1 << 20, 7);
        let positions = || (0..=width).filter(|d| *d != 1);
        rack.model.run(async |world| {
            let all = drives(&world, 0..width);
            let group = Group::create(world.clone(), spec_of(level, width), all).await.expect("create");
            for at in (0..100).map(|i| i << 20) {
                group.write(at, &data).await.expect("write");
            }
            group.fail(1, "pulled").await.expect("fail");
            group.replace(1, drives(&world, [width]).remove(0)).await.expect("replace");
            let rebuilt = group.clone();
            let throttle = Throttle::none(world.clone());
            world.spawn(async move { drop(rebuilt.rebuild(&throttle).await) });
            while group.status().rebuild.is_some_and(|p| p.done_bytes < 100 << 20) {
                world.sleep(Duration::from_millis(1)).await;
            }
            assert!(group.status().rebuild.is_some(), "not yet done");
            group.flush().await.expect("flush");
            // The run ends here: the rebuild is abandoned.
        });
        rack.model.run(async |world| {
            let all = drives(&world, positions());
            let group = Group::open(world.clone(), spec_of(level, width), all).await.expect("open");
            assert_eq!(group.status().members[1].state, MemberState::Rebuilding, "{level}");
            let progress = group.status().rebuild.expect("there is one");
            assert_eq!((progress.position, progress.done_bytes >= 64 << 20), (Some(1), true), "{progress:?}");
            let before = group.status().members[1].counts.write_bytes;
            assert!(group.rebuild(&Throttle::none(world.clone())).await.expect("rebuild"));
            let written = group.status().members[1].counts.write_bytes - before;
            assert!(written < 100 << 20, "{level}: {written} bytes, from the start again");
            group.fail(0, "pulled").await.expect("the new drive carries it");
            for at in (0..100).map(|i| i << 20) {
                assert_eq!(read(&group, at, data.len()).await, data.joined().to_vec(), "{level} at {at}");
            }
        });
    }
}

#[test]
fn a_second_failure_while_rebuilding_is_borne_or_an_error() {
    for (level, width) in REDUNDANT {
        let rack = rack_of(13, width + 1, 3 * DISK_LEN);
        let data = pattern(4 << 20, 7);
        rack.model.run(async |world| {
            let all = drives(&world, 0..width);
            let group = Group::create(world.clone(), spec_of(level, width), all).await.expect("create");
            group.write(0, &data).await.expect("write");
            group.fail(1, "pulled").await.expect("fail");
            group.replace(1, drives(&world, [width]).remove(0)).await.expect("replace");
            let rebuilt = group.clone();
            let throttle = Throttle::none(world.clone());
            let outcome = Rc::new(Cell::new(None));
            let told = outcome.clone();
            world.spawn(async move { told.set(Some(rebuilt.rebuild(&throttle).await.is_ok())) });
            while group.status().rebuild.is_some_and(|p| p.done_bytes < 2 << 20) {
                world.sleep(Duration::from_micros(100)).await;
            }
            // The only other one that has what the new drive lacks; of level 6 there are more.
            rack.disks[0].kill();
            while outcome.get().is_none() {
                world.sleep(Duration::from_millis(1)).await;
            }
            let case = format!("{level} of {width}");
            assert_eq!(outcome.get(), Some(level.tolerates(width) > 1), "{case}");
            for at in (0..data.len()).step_by(65_536) {
                let mut out = Pieces::new();
                match group.read(at as u64, 65_536, &mut out).await {
                    Ok(()) => assert_eq!(out.joined()[..], data.joined()[at..at + 65_536], "{case} at {at}"),
                    Err(_) => assert!(level.tolerates(width) < 2, "{case} at {at}"),
                }
            }
        });
    }
}

#[test]
fn a_drive_that_waits_and_fails_does_not_disturb_the_one_that_is_filled() {
    let rack = rack_of(14, 6, DISK_LEN);
    let data = pattern(2 << 20, 7);
    rack.model.run(async |world| {
        let all = drives(&world, 0..4);
        let group = Group::create(world.clone(), spec_of(Level::Raid6, 4), all).await.expect("create");
        group.write(0, &data).await.expect("write");
        group.fail(0, "pulled").await.expect("fail");
        group.fail(1, "pulled").await.expect("fail");
        group.replace(0, drives(&world, [4]).remove(0)).await.expect("replace");
        group.replace(1, drives(&world, [5]).remove(0)).await.expect("replace");
        assert_eq!(group.status().rebuild.expect("the first").position, Some(0));
        group.flush().await.expect("flush");
    });
    rack.model.run(async |world| {
        let all = drives(&world, [4, 5, 2, 3]);
        let group = Group::open(world.clone(), spec_of(Level::Raid6, 4), all).await.expect("open");
        assert!(group.status().members[..2].iter().all(|m| m.state == MemberState::Rebuilding));
        group.fail(1, "pulled").await.expect("fail");
        assert_eq!(group.status().rebuild.expect("still the first").position, Some(0));
        assert!(group.rebuild(&Throttle::none(world.clone())).await.expect("rebuild"));
        assert_eq!(group.status().members[0].state, MemberState::Active);
        assert_eq!(group.status().members[1].state, MemberState::Failed);
        group.replace(1, drives(&world, [1]).remove(0)).await.expect("the one of before");
        assert!(group.rebuild(&Throttle::none(world.clone())).await.expect("rebuild"));
        group.fail(2, "pulled").await.expect("fail");
        group.fail(3, "pulled").await.expect("fail");
        assert_eq!(read(&group, 0, data.len()).await, data.joined().to_vec());
    });
}

/// Where the data begin on the drives of a group.
async fn data_offset(world: &World) -> u64 {
    let label = crate::inspect(&drives(world, [0])[0]).await.expect("readable");
    label.expect("labelled").data_offset
}

/// One flipped block and one that cannot be read, on one drive after the other.
#[test]
fn a_scrub_repairs_only_what_redundancy_can_tell_and_never_copies_one_side_over_the_other() {
    let widths = REDUNDANT.into_iter().chain([(Level::Raid1, 3)]).collect::<std::collections::BTreeSet<_>>();
    for (level, width) in widths {
        for d in [0, width - 1] {
            let rack = rack_of(15, width, DISK_LEN);
            let data = pattern(4 << 20, 7);
            let case = format!("{level} of {width}, drive {d}");
            let located = level == Level::Raid6 || (level == Level::Raid1 && width > 2);
            let open = async |world: &World| {
                Group::open(world.clone(), spec_of(level, width), drives(world, 0..width)).await
            };
            rack.model.run(async |world| {
                let all = drives(&world, 0..width);
                let group = Group::create(world.clone(), spec_of(level, width), all).await.expect("create");
                group.write(0, &data).await.expect("write");
                let none = Throttle::none(world.clone());
                let clean = group.scrub(&none).await.expect("scrub");
                assert_eq!((clean.mismatches, clean.repaired, clean.unrepaired), (0, 0, 0), "{case}");
                assert!(clean.compared_bytes > 4 << 20);
                let from = data_offset(&world).await;
                let flipped = rack.disks[d].peek(from + 20_480, 1)[0] ^ 1;
                rack.disks[d].poke(from + 20_480, &[flipped]);
                rack.disks[d].add_latent_errors(from + 300_000..from + 300_001);
                let before: Vec<_> = rack.disks.iter().map(|d| d.peek(from + 20_480, 4096)).collect();
                let found = group.scrub(&none).await.expect("scrub");
                let differing = u64::from(!located);
                assert_eq!((found.mismatches, found.differing), (1, differing), "{case}: {found:?}");
                assert_eq!(found.unrepaired, 0, "{case}: {found:?}");
                assert!(found.repaired > u64::from(located), "{case}: {found:?}");
                assert_eq!(found.first_differing().count() as u64, differing, "{case}: {found:?}");
                assert!(found.first_differing().all(|at| at <= 4 << 20), "{case}: {found:?}");
                assert_eq!(rack.disks[d].latent_errors(), 0);
                assert_eq!(group.status().differing_blocks, differing, "{case}");
                if !located {
                    let after: Vec<_> = rack.disks.iter().map(|d| d.peek(from + 20_480, 4096)).collect();
                    assert!(after == before, "{case}: one side was copied over the other");
                    group.close().await.expect("close");
                    let group = open(&world).await.expect("open");
                    assert_eq!(group.status().differing_blocks, 1, "{case}: the labels keep it");
                    // It is put right by who knows what is right.
                    rack.disks[d].poke(from + 20_480, &[flipped ^ 1]);
                    let again = group.scrub(&none).await.expect("scrub");
                    assert_eq!((again.mismatches, group.status().differing_blocks), (0, 0), "{case}");
                    return;
                }
                let again = group.scrub(&none).await.expect("scrub");
                assert_eq!((again.mismatches, again.repaired), (0, 0), "{case}");
                assert_eq!(read(&group, 0, data.len()).await, data.joined().to_vec(), "{case}");
                group.fail(1, "pulled").await.expect("fail");
                assert_eq!(read(&group, 0, data.len()).await, data.joined().to_vec(), "{case}");
                assert_eq!(group.status().scrub, None);
            });
        }
    }
}

#[test]
fn a_latent_error_is_answered_from_redundancy_and_written_again() {
    for (level, width) in REDUNDANT {
        let rack = rack_of(16, width, DISK_LEN);
        let data = pattern(2 << 20, 7);
        rack.model.run(async |world| {
            let all = drives(&world, 0..width);
            let group = Group::create(world.clone(), spec_of(level, width), all).await.expect("create");
            group.write(0, &data).await.expect("write");
            let from = data_offset(&world).await;
            for disk in &rack.disks {
                disk.add_latent_errors(from + 70_000..from + 71_000);
                for _ in 0..3 {
                    assert_eq!(read(&group, 0, data.len()).await, data.joined().to_vec());
                }
                group.scrub(&Throttle::none(world.clone())).await.expect("scrub");
                assert_eq!(disk.latent_errors(), 0, "{level} of {width}");
            }
            assert!(group.status().repairs > 0);
            assert!(group.status().members.iter().all(|m| m.state == MemberState::Active));
        });
    }
}

#[test]
fn a_latent_error_met_while_rebuilding_is_a_lost_range_and_nothing_else() {
    for (level, width) in [(Level::Raid1, 2), (Level::Raid5, 3)] {
        let rack = rack_of(17, width + 1, DISK_LEN);
        let data = pattern(2 << 20, 7);
        let lost_bytes = Cell::new(0);
        rack.model.run(async |world| {
            let all = drives(&world, 0..width);
            let group = Group::create(world.clone(), spec_of(level, width), all).await.expect("create");
            group.write(0, &data).await.expect("write");
            let from = data_offset(&world).await;
            group.fail(1, "pulled").await.expect("fail");
            rack.disks[0].add_latent_errors(from + 70_000..from + 70_001);
            group.replace(1, drives(&world, [width]).remove(0)).await.expect("replace");
            assert!(group.rebuild(&Throttle::none(world.clone())).await.expect("rebuild"));
            assert_eq!(group.status().state, GroupState::Optimal);
            assert!(group.status().lost_ranges > 0, "{level}");
            group.flush().await.expect("flush");
        });
        rack.model.run(async |world| {
            let all = drives(&world, (0..=width).filter(|d| *d != 1));
            let group = Group::open(world.clone(), spec_of(level, width), all).await.expect("open");
            for at in (0..data.len()).step_by(4096) {
                let mut out = Pieces::new();
                match group.read(at as u64, 4096, &mut out).await {
                    Ok(()) => assert_eq!(out.joined()[..], data.joined()[at..at + 4096], "{level} at {at}"),
                    Err(_) => lost_bytes.set(lost_bytes.get() + 4096),
                }
            }
            assert!((4096..=8192).contains(&lost_bytes.get()), "{level}: {} bytes", lost_bytes.get());
            group.write(0, &data).await.expect("write");
            group.flush().await.expect("flush");
            assert_eq!(group.status().lost_ranges, 0);
        });
        rack.model.run(async |world| {
            let all = drives(&world, (0..=width).filter(|d| *d != 1));
            let group = Group::open(world.clone(), spec_of(level, width), all).await.expect("open");
            assert_eq!(read(&group, 0, data.len()).await, data.joined().to_vec());
        });
    }
}

/// In virtual time: with foreground I/O a rebuild takes as much longer as the share of the foreground says;
/// without, no pause.
#[test]
fn the_foreground_keeps_its_share_of_the_time() {
    let took = |share: u8, busy: bool| {
        // Large enough that labels, which are never throttled, take no time beside it.
        let rack = rack_of(18, 3, 160 << 20);
        rack.model.run(async |world| {
            let all = drives(&world, 0..2);
            let group = Group::create(world.clone(), spec_of(Level::Raid1, 2), all).await.expect("create");
            group.fail(1, "pulled").await.expect("fail");
            group.replace(1, drives(&world, [2]).remove(0)).await.expect("replace");
            let stop = Rc::new(Cell::new(!busy));
            let (reader, told, clock) = (group.clone(), stop.clone(), world.clone());
            world.spawn(async move {
                while !told.get() {
                    read(&reader, 0, 4096).await;
                    clock.sleep(Duration::from_micros(50)).await;
                }
            });
            let began = world.now();
            group.rebuild(&Throttle::new(world.clone(), share)).await.expect("rebuild");
            let took = world.now().since(began);
            stop.set(true);
            world.sleep(Duration::from_millis(1)).await;
            took.as_micros()
        })
    };
    let alone = took(75, false);
    let beside = took(75, true);
    let unthrottled = took(0, true);
    assert!(unthrottled < alone * 3 / 2, "{unthrottled} µs without a share, {alone} µs alone");
    assert!((3 * alone..6 * alone).contains(&beside), "{beside} µs beside, {alone} µs alone");
}
