//! A rebuild copies what is in use: what is known to hold zeros is not read, and the new drive gets no zeros
//! written. It is paused and ended when it is told to.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use super::*;
use crate::{Contents, Go};

const PAGE: u64 = 1 << 20;

/// What a pool knows: pages that somebody began to write to are kept, the others hold zeros.
#[derive(Clone, Default)]
struct Pages(Rc<RefCell<BTreeSet<u64>>>);

impl Pages {
    fn tell(&self, group: &Group) {
        let pages = self.0.clone();
        group.know_contents(Rc::new(move |range| {
            let mut within = range.start / PAGE..range.end.div_ceil(PAGE);
            match within.any(|page| pages.borrow().contains(&page)) {
                true => Contents::Kept,
                false => Contents::Zeros,
            }
        }));
    }

    async fn write(&self, group: &Group, page: u64, salt: u8) {
        self.0.borrow_mut().insert(page);
        group.write(page * PAGE + 8192, &pattern(65_536, salt)).await.expect("write");
    }
}

const LEVELS: [(Level, usize); 4] =
    [(Level::Raid1, 2), (Level::Raid10, 4), (Level::Raid5, 3), (Level::Raid6, 4)];

#[test]
fn a_group_that_is_nearly_empty_is_rebuilt_without_reading_or_writing_the_rest() {
    for (level, width) in LEVELS {
        let rack = rack_of(31, width + 1, 2 << 30);
        rack.model.run(async |world| {
            let all = drives(&world, 0..width);
            let group = Group::create(world.clone(), spec_of(level, width), all).await.expect("create");
            let pages = Pages::default();
            pages.tell(&group);
            for page in [0, 3, 700] {
                pages.write(&group, page, page as u8 + 1).await;
            }
            group.fail(1, "pulled").await.expect("fail");
            group.replace(1, drives(&world, [width]).remove(0)).await.expect("replace");
            let read_before = group.status().members[0].counts.read_bytes;
            group.rebuild(&Throttle::none(world.clone())).await.expect("rebuild");
            let status = group.status();
            assert_eq!(status.state, GroupState::Optimal, "{level}");
            let (counts, read) =
                (status.members[1].counts, status.members[0].counts.read_bytes - read_before);
            assert!(counts.write_bytes < 32 << 20, "{level}: {counts:?}");
            assert!(read < 64 << 20, "{level}: {read} bytes were read");
            group.fail(0, "pulled").await.expect("the new drive carries it");
            for page in [0, 3, 700] {
                let expected = pattern(65_536, page as u8 + 1).joined().to_vec();
                assert_eq!(super::read(&group, page * PAGE + 8192, 65_536).await, expected, "{level}");
                assert_eq!(super::read(&group, page * PAGE, 8192).await, vec![0; 8192], "{level}");
            }
        });
    }
}

/// Somebody takes pages all the time, below and above the mark, whatever the step thought of them a moment
/// before. The new drive held something else before.
#[test]
fn pages_that_are_taken_while_a_drive_is_filled_are_whole_on_it() {
    for (level, width) in LEVELS {
        for seed in 0..4 {
            let rack = rack_of(seed, width + 1, 96 << 20);
            for at in (0..96 << 20).step_by(65_536) {
                rack.disks[width].poke(at, &[0xee; 512]);
            }
            rack.model.run(async |world| {
                let all = drives(&world, 0..width);
                let group = Group::create(world.clone(), spec_of(level, width), all).await.expect("create");
                group.zero(0, group.geometry().len_bytes).await.expect("what a pool does");
                let pages = Pages::default();
                pages.tell(&group);
                group.fail(1, "pulled").await.expect("fail");
                group.replace_forced(1, drives(&world, [width]).remove(0)).await.expect("replace");
                let (taker, told, clock) = (group.clone(), pages.clone(), world.clone());
                let done = Rc::new(Cell::new(false));
                let ended = done.clone();
                world.spawn(async move {
                    let mut rng = clock.random("pages");
                    for _ in 0..60 {
                        let page = rng.u64(0..taker.geometry().len_bytes / PAGE);
                        told.write(&taker, page, page as u8).await;
                        clock.sleep(Duration::from_micros(rng.u64(0..2000))).await;
                    }
                    ended.set(true);
                });
                group.rebuild(&Throttle::none(world.clone())).await.expect("rebuild");
                while !done.get() {
                    world.sleep(Duration::from_millis(1)).await;
                }
                let found = group.scrub(&Throttle::none(world.clone())).await.expect("scrub");
                assert_eq!((found.mismatches, found.complete), (0, true), "{level} seed {seed}: {found:?}");
                group.fail(0, "pulled").await.expect("fail");
                for page in 0..group.geometry().len_bytes / PAGE {
                    let mut expected = vec![0; PAGE as usize];
                    if pages.0.borrow().contains(&page) {
                        let data = pattern(65_536, page as u8).joined().to_vec();
                        expected[8192..8192 + 65_536].copy_from_slice(&data);
                    }
                    let got = super::read(&group, page * PAGE, PAGE as usize).await;
                    assert!(got == expected, "{level} seed {seed}: page {page}");
                }
            });
        }
    }
}

/// Without knowledge all is read, and zeros are still not written.
#[test]
fn zeros_that_were_read_are_not_written() {
    for (level, width) in LEVELS {
        let rack = rack_of(32, width + 1, 64 << 20);
        rack.model.run(async |world| {
            let all = drives(&world, 0..width);
            let group = Group::create(world.clone(), spec_of(level, width), all).await.expect("create");
            group.write(0, &pattern(1 << 20, 1)).await.expect("write");
            group.fail(1, "pulled").await.expect("fail");
            group.replace(1, drives(&world, [width]).remove(0)).await.expect("replace");
            group.rebuild(&Throttle::none(world.clone())).await.expect("rebuild");
            let counts = group.status().members[1].counts;
            assert!(counts.write_bytes < 4 << 20, "{level}: {counts:?}");
            group.fail(0, "pulled").await.expect("fail");
            assert_eq!(super::read(&group, 0, 1 << 20).await, pattern(1 << 20, 1).joined().to_vec());
        });
    }
}

#[test]
fn a_rebuild_and_a_scrub_wait_and_end_when_they_are_told_to() {
    for (level, width) in LEVELS {
        let rack = rack_of(33, width + 1, 200 << 20);
        rack.model.run(async |world| {
            let all = drives(&world, 0..width);
            let group = Group::create(world.clone(), spec_of(level, width), all).await.expect("create");
            group.fail(1, "pulled").await.expect("fail");
            group.replace(1, drives(&world, [width]).remove(0)).await.expect("replace");
            let go = Rc::new(Cell::new(Go::Wait));
            let asked = go.clone();
            let throttle = Throttle::none(world.clone()).with_control(Rc::new(move || asked.get()));
            let (rebuilt, paced) = (group.clone(), throttle.clone());
            let outcome = Rc::new(Cell::new(None));
            let told = outcome.clone();
            world.spawn(async move { told.set(Some(rebuilt.rebuild(&paced).await.expect("rebuild"))) });
            world.sleep(Duration::from_secs(5)).await;
            assert_eq!(group.status().rebuild.expect("it waits").done_bytes, 0, "{level}");
            go.set(Go::On);
            while group.status().rebuild.is_some_and(|p| p.done_bytes < 32 << 20) {
                world.sleep(Duration::from_micros(200)).await;
            }
            go.set(Go::End);
            while outcome.get().is_none() {
                world.sleep(Duration::from_millis(1)).await;
            }
            let done = group.status().rebuild.expect("it is not whole").done_bytes;
            assert!((32 << 20..100 << 20).contains(&done), "{level}: {done}");
            assert!(!group.scrub(&throttle).await.expect("scrub").complete);
            go.set(Go::On);
            assert!(group.rebuild(&throttle).await.expect("rebuild"), "it goes on");
            assert_eq!(group.status().state, GroupState::Optimal, "{level}");
            assert!(group.scrub(&throttle).await.expect("scrub").complete);
        });
    }
}

/// A spare took the position while the rebuild of its predecessor was paused, which then went on where it
/// was: the spare was in sync without what was before that.
#[test]
fn a_drive_that_takes_the_position_during_a_rebuild_is_rebuilt_from_its_beginning() {
    for (level, width) in LEVELS {
        let rack = rack_of(34, width + 2, 48 << 20);
        rack.model.run(async |world| {
            let all = drives(&world, 0..width);
            let group = Group::create(world.clone(), spec_of(level, width), all).await.expect("create");
            let pages = group.geometry().len_bytes / PAGE;
            for page in (0..pages).step_by(5) {
                group.write(page * PAGE, &pattern(PAGE as usize, page as u8)).await.expect("write");
            }
            group.fail(1, "pulled").await.expect("fail");
            group.replace(1, drives(&world, [width]).remove(0)).await.expect("replace");
            let go = Rc::new(Cell::new(Go::On));
            let asked = go.clone();
            let throttle = Throttle::none(world.clone()).with_control(Rc::new(move || asked.get()));
            let (rebuilt, done) = (group.clone(), Rc::new(Cell::new(false)));
            let told = done.clone();
            world.spawn(async move {
                rebuilt.rebuild(&throttle).await.expect("rebuild");
                told.set(true);
            });
            while group.status().rebuild.is_some_and(|p| p.done_bytes < 24 << 20) {
                world.sleep(Duration::from_micros(200)).await;
            }
            go.set(Go::Wait);
            world.sleep(Duration::from_secs(1)).await;
            group.fail(1, "pulled").await.expect("fail");
            group.replace(1, drives(&world, [width + 1]).remove(0)).await.expect("replace");
            go.set(Go::On);
            while !done.get() {
                world.sleep(Duration::from_millis(1)).await;
            }
            assert_eq!(group.status().state, GroupState::Optimal, "{level}");
            group.fail(0, "pulled").await.expect("fail");
            for page in (0..pages).step_by(5) {
                let found = read(&group, page * PAGE, PAGE as usize).await;
                assert!(found == pattern(PAGE as usize, page as u8).joined()[..], "{level}: page {page}");
            }
        });
    }
}
