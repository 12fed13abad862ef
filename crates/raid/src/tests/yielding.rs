//! How much a resync leaves to the reads beside it, in virtual time: more while they wait for drives, but it
//! never stands still.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use block::Device;
use world_model::{DiskSpec, Model};

use super::{drives, pattern, read, spec_of};
use crate::{Group, Level, Throttle};

/// Beside a rebuild or a scrub.
const SHARE_PERCENT: u8 = 70;
/// Steps of a resync: MiBs of data of a drive.
const STEPS: u32 = 32;

/// The load beside it.
#[derive(Clone, Copy)]
struct Reads {
    /// At once.
    readers: u32,
    /// After each read of one of them, on average: at regular intervals, steps could meet all or none.
    pause: Duration,
}

/// Drives are never idle.
const ON_AND_ON: Reads = Reads { readers: 8, pause: Duration::ZERO };

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// How long a resync takes on two drives of this latency. `rebuilds`: on three, of which the last one is to
/// be rebuilt.
fn takes(resync_share_percent: u8, reads: Reads, latency: Duration, rebuilds: bool) -> Duration {
    let (model, width) = (Model::new(91), if rebuilds { 3 } else { 2 });
    for i in 0..=width {
        model.disk(&format!("d{i}"), DiskSpec::new(u64::from(STEPS + 1) << 20).with_latency(latency));
    }
    model.run(async |world| {
        let all = drives(&world, 0..width);
        let group = Group::create(world.clone(), spec_of(Level::Raid1, width), all).await.expect("create");
        group.write(0, &pattern(4096, 1)).await.expect("write");
    });
    model.run(async |world| {
        let all = drives(&world, 0..width);
        let group = Group::open(world.clone(), spec_of(Level::Raid1, width), all).await.expect("open");
        if rebuilds {
            group.fail(2, "pulled").await.expect("fail");
            group.replace(2, drives(&world, [width]).remove(0)).await.expect("replace");
        }
        let stop = Rc::new(Cell::new(false));
        for reader in 0..reads.readers {
            let (group, clock, stop) = (group.clone(), world.clone(), stop.clone());
            world.spawn(async move {
                let mut rng = clock.random(&format!("reader {reader}"));
                while !stop.get() {
                    read(&group, rng.u64(..u64::from(STEPS) << 8) * 4096, 4096).await;
                    clock.sleep(reads.pause * rng.u32(..200) / 100).await;
                }
            });
        }
        world.sleep(latency).await;
        let throttle = Throttle::new(world.clone(), SHARE_PERCENT).with_resync_share(resync_share_percent);
        let began = world.now();
        group.resync(&throttle).await.expect("resync");
        let took = world.now().since(began);
        stop.set(true);
        world.sleep(10 * latency).await;
        took
    })
}

#[test]
fn a_resync_yields_more_to_reads_that_wait_for_drives() {
    let [usual, yielding] = [SHARE_PERCENT, 95].map(|share| takes(share, ON_AND_ON, ms(2), false));
    // A step reads one drive after the other, 4 ms: 13 ms with its pause, or 80 ms.
    assert!((usual * 5..usual * 7).contains(&yielding), "{yielding:?} in place of {usual:?}");
}

#[test]
fn a_few_reads_do_not_slow_a_resync_down() {
    // In flight for a twentieth of the time. A step that yields more takes 80 ms in place of 4 to 13; if all
    // did, the resync would take ten times as long.
    let few = Reads { readers: 1, pause: ms(38) };
    let [usual, yielding] = [SHARE_PERCENT, 95].map(|share| takes(share, few, ms(2), false));
    assert!(yielding < usual * 4, "{yielding:?} in place of {usual:?}");
}

#[test]
fn a_resync_does_a_step_in_little_more_than_a_second() {
    let took = takes(95, ON_AND_ON, ms(200), false);
    // 19 times the 400 ms of a step would be 7.6 s.
    let step = Duration::from_millis(1400);
    assert!((step * STEPS..step * (STEPS + 1)).contains(&took), "{took:?}");
}

#[test]
fn a_resync_for_which_a_rebuild_waits_does_not_yield_more() {
    let [usual, waited_for] = [SHARE_PERCENT, 95].map(|share| takes(share, ON_AND_ON, ms(2), true));
    assert_eq!(usual, waited_for);
}
