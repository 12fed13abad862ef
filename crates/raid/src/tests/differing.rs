//! Reads of mirrors that may differ in some places: from the preferred one there, from all of them elsewhere.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use block::Device;
use world::Drive;

use super::{Rack, drives, pattern, rack, read, spec, spec_of};
use crate::upkeep::Go;
use crate::{Group, LABEL_REGION_LEN, Level, Throttle};

const MIB: u64 = 1 << 20;

/// Each mirror has a content of its own there, as after a write that both took in part.
fn differ(rack: &Rack, at: u64) {
    for (m, disk) in rack.disks.iter().enumerate() {
        disk.poke(LABEL_REGION_LEN + at, &vec![m as u8 + 1; MIB as usize]);
    }
}

/// Reads a range sixteen times. Returns its content, and whether each drive was read; what changes from one
/// read to the next is an error.
async fn read_often(group: &Group, all: &[Drive], (at, len): (u64, usize)) -> (Vec<u8>, Vec<bool>) {
    let reads = || all.iter().map(|drive| drive.counts().reads).collect::<Vec<_>>();
    let (before, first) = (reads(), read(group, at, len).await);
    for n in 1..16 {
        assert!(read(group, at, len).await == first, "read {n} at {at} is another one");
    }
    (first, reads().iter().zip(before).map(|(now, before)| *now > before).collect())
}

/// A write that finds no room on any drive of a mirror.
async fn fail_write(rack: &Rack, group: &Group, at: u64) {
    rack.disks.iter().for_each(|disk| disk.set_full_from(Some(0)));
    group.write(at, &pattern(4096, 9)).await.expect_err("no drive has room");
    rack.disks.iter().for_each(|disk| disk.set_full_from(None));
}

#[test]
fn a_write_that_no_mirror_took_pins_the_reads_of_its_region_alone() {
    let rack = rack(51, 2);
    rack.model.run(async |world| {
        let all = drives(&world, 0..2);
        let group = Group::create(world.clone(), spec(Level::Raid1), all.clone()).await.expect("create");
        group.write(0, &pattern(3 << 20, 1)).await.expect("write");
        group.flush().await.expect("flush");
        fail_write(&rack, &group, 5 * MIB + 8192).await;
        differ(&rack, 5 * MIB);
        assert!(group.status().reads_pinned);
        // The resync waits. Elsewhere nothing can differ.
        for at in [0, 2 * MIB, 5 * MIB - 4096, 6 * MIB] {
            assert_eq!(read_often(&group, &all, (at, 4096)).await.1, [true, true], "at {at}");
        }
        // Also of a read that only touches the region.
        for (at, len) in [(5 * MIB, 4096), (6 * MIB - 4096, 4096), (5 * MIB - 4096, 8192)] {
            let (found, drives) = read_often(&group, &all, (at, len)).await;
            assert!(found[len - 4096..].iter().all(|byte| *byte == 2), "the second mirror, at {at}");
            // The part before it may be of any.
            assert_eq!(drives, [at < 5 * MIB, true], "at {at}");
        }
        let before = all[1].counts().read_bytes;
        let written = group.resync(&Throttle::none(world.clone())).await.expect("resync");
        assert!(!group.status().reads_pinned && written == MIB, "{written} bytes differed");
        assert!(all[1].counts().read_bytes - before < 2 * MIB, "the rest is not compared");
        let (found, drives) = read_often(&group, &all, (5 * MIB, 4096)).await;
        assert!(found.iter().all(|byte| *byte == 2) && drives == [true, true], "equal, from both");
    });
}

#[test]
fn reads_go_to_all_mirrors_where_a_resync_has_been() {
    let rack = rack(52, 2);
    rack.model.run(async |world| {
        let all = drives(&world, 0..2);
        let group = Group::create(world.clone(), spec(Level::Raid1), all).await.expect("create");
        group.write(0, &pattern(4096, 1)).await.expect("write");
    });
    // Nothing was ever written to the second region, so that a write finds no room there.
    (0..8).filter(|at| *at != 1).for_each(|at| differ(&rack, at * MIB));
    rack.model.run(async |world| {
        let all = drives(&world, 0..2);
        let group = Group::open(world.clone(), spec(Level::Raid1), all.clone()).await.expect("open");
        assert_eq!(read_often(&group, &all, (0, 4096)).await.1, [true, false], "it was not closed");
        let has_waited = Rc::new(Cell::new(false));
        let (own, first, go_on) = (all[0].clone(), all[0].counts().read_bytes, has_waited.clone());
        let control = move || match own.counts().read_bytes < first + 3 * MIB || go_on.get() {
            true => Go::On,
            false => Go::Wait,
        };
        let throttle = Throttle::none(world.clone()).with_control(Rc::new(control));
        let resynced = group.clone();
        world.spawn(async move { drop(resynced.resync(&throttle).await) });
        world.sleep(Duration::from_secs(1)).await;
        let (found, drives) = read_often(&group, &all, (2 * MIB, 4096)).await;
        assert!(found.iter().all(|byte| *byte == 1) && drives == [true, true], "{drives:?}");
        for (at, own) in [(3 * MIB, 1), (6 * MIB, 0), (7 * MIB, 1)] {
            let (found, drives) = read_often(&group, &all, (at, 4096)).await;
            assert!(found.iter().all(|byte| *byte == own + 1), "at {at}");
            assert_eq!(drives, [own == 0, own == 1], "at {at}");
        }
        let (found, drives) = read_often(&group, &all, (3 * MIB - 4096, 8192)).await;
        assert!(found[..4096].iter().all(|byte| *byte == 1) && found[4096..].iter().all(|byte| *byte == 2));
        assert_eq!(drives, [true, true], "equal in front of where the resync is");
        // What the resync has behind it may differ again.
        fail_write(&rack, &group, MIB).await;
        differ(&rack, MIB);
        let (found, drives) = read_often(&group, &all, (MIB, 4096)).await;
        assert!(found.iter().all(|byte| *byte == 2) && drives == [false, true], "{drives:?}");
        has_waited.set(true);
        world.sleep(Duration::from_secs(1)).await;
        assert_eq!(read_often(&group, &all, (MIB, 4096)).await.1, [false, true], "it has ended too early");
        group.resync(&Throttle::none(world.clone())).await.expect("resync");
        for (at, content) in [(0, 1), (MIB, 2), (6 * MIB, 1), (7 * MIB, 2)] {
            let (found, drives) = read_often(&group, &all, (at, 4096)).await;
            assert!(found.iter().all(|byte| *byte == content) && drives == [true, true], "{at}: {drives:?}");
        }
    });
}

/// Readers and writers beside a resync: a block that was read once stays what it was until it is written,
/// from whichever mirror it comes.
#[test]
fn what_was_read_once_stays_beside_a_resync() {
    let kinds = [(Level::Raid1, 2), (Level::Raid1, 3), (Level::Raid10, 4)];
    for (seed, (level, width)) in (0..8).flat_map(|seed| kinds.map(|kind| (seed, kind))) {
        let rack = rack(60 + seed, width);
        rack.model.run(async |world| {
            let all = drives(&world, 0..width);
            let group = Group::create(world.clone(), spec_of(level, width), all).await.expect("create");
            group.write(0, &pattern(4096, 1)).await.expect("write");
        });
        for (m, disk) in rack.disks.iter().enumerate() {
            for block in (0..8 * MIB / 4096).filter(|block| (block * 7 + seed) % 3 > 0) {
                disk.poke(LABEL_REGION_LEN + block * 4096, &[m as u8 + 1; 4096]);
            }
        }
        rack.model.run(async |world| {
            let all = drives(&world, 0..width);
            let group = Group::open(world.clone(), spec_of(level, width), all).await.expect("open");
            assert!(group.status().reads_pinned, "it was not closed");
            let (resynced, throttle) = (group.clone(), Throttle::none(world.clone()));
            world.spawn(async move { _ = resynced.resync(&throttle).await.expect("resync") });
            let mut rng = world.random("beside");
            let blocks = group.geometry().len_bytes / 4096;
            let mut known = vec![None; blocks as usize];
            // Some more after its end.
            let mut left = 500;
            while left > 0 {
                left -= u32::from(!group.status().reads_pinned);
                // Some reads lie in two regions, of two drives.
                let block = rng.u64(..blocks - 8);
                if rng.usize(..4) == 0 {
                    let data = pattern(4096, rng.u8(..));
                    group.write(block * 4096, &data).await.expect("write");
                    known[block as usize] = Some(data.joined().to_vec());
                }
                let found = read(&group, block * 4096, 4096 * (1 + rng.usize(..8))).await;
                for (found, block) in found.chunks(4096).zip(block..) {
                    let expected = known[block as usize].get_or_insert_with(|| found.to_vec());
                    assert!(found == *expected, "{level} of {width}, seed {seed}: block {block} has changed");
                }
            }
            for (block, known) in known.iter().enumerate() {
                let Some(known) = known else { continue };
                for _ in 0..2 * width {
                    assert!(read(&group, block as u64 * 4096, 4096).await == *known, "block {block}");
                }
            }
        });
    }
}
