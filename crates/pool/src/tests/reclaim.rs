//! Zero-page reclaim: what it gives back, beside writers, and under power cuts.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use block::Device;
use raid::Level;
use world::sync::Signal;
use world_model::Outcome;

use super::rig::{PAGE, Rig, SECTOR, Setup, audit, create, open};
use super::shadow::{encode, values};
use crate::{Pool, PoolError, Provisioning, Reclaimed, Volume};

const SECTORS: usize = (PAGE / SECTOR) as usize;

async fn all(_: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

async fn fill(volume: &Volume, page: u64, value: u32, sectors: usize) {
    volume.write(page * PAGE, &encode(std::iter::repeat_n(value, sectors))).await.expect("write");
}

/// A volume with pages of data at even indices and of zeros, written as such, at odd ones; the last page has
/// one sector of data.
async fn striped(pool: &Pool, name: &str, pages: u64) -> Volume {
    let v = pool.create_volume(name, (pages + 1) * PAGE - 512, Provisioning::Thin).await.expect("create");
    for page in 0..pages {
        fill(&v, page, u32::from(page % 2 == 0) * (page as u32 + 1), SECTORS).await;
    }
    v.write((pages + 1) * PAGE - 1024, &encode(std::iter::once(7))).await.expect("write");
    v
}

#[test]
fn pages_of_zeros_go_and_all_others_stay() {
    for setup in [Setup::mirror(), Setup { groups: 2, block_bytes: 4096, ..Setup::new(Level::Raid0, 2) }] {
        let rig = Rig::new(1, setup);
        rig.model.run(async |world| {
            let pool = create(&world, &setup).await;
            let v = striped(&pool, "v", 20).await;
            pool.clone_volume("v", "c").await.expect("clone");
            // One page of zeros that only this volume has, and one that it wrote since.
            fill(&v, 1, 0, SECTORS).await;
            fill(&v, 3, 5, 1).await;
            let used = v.space().used_bytes;
            let found = pool.reclaim("v", all).await.expect("reclaim");
            let (scanned_bytes, released_bytes) = (21 * PAGE, 9 * PAGE);
            assert_eq!(found, Reclaimed { scanned_bytes, released_bytes, freed_bytes: PAGE, complete: true });
            assert_eq!(v.space().used_bytes, used - 9 * PAGE);
            audit(&pool).await;
            for page in 0..20 {
                let first = if page == 3 { 5 } else { u32::from(page % 2 == 0) * (page as u32 + 1) };
                assert_eq!(values(&v, page * SECTORS, 1).await, [first]);
            }
            assert_eq!(values(&v, 21 * SECTORS - 2, 1).await, [7]);
            // The clone still has its zeros, until it is looked at, too; now nobody else has them.
            let found = pool.reclaim("c", all).await.expect("reclaim");
            assert_eq!((found.released_bytes, found.freed_bytes), (10 * PAGE, 10 * PAGE));
            audit(&pool).await;
            let again = pool.reclaim("c", all).await.expect("reclaim");
            assert_eq!((again.scanned_bytes, again.released_bytes), (11 * PAGE, 0));
        });
    }
}

#[test]
fn a_scan_is_stopped_and_refused_where_it_makes_no_sense() {
    let rig = Rig::new(2, Setup::mirror());
    rig.model.run(async |world| {
        let pool = create(&world, &rig.setup).await;
        striped(&pool, "v", 20).await;
        pool.create_volume("t", PAGE, Provisioning::Thick).await.expect("create");
        let steps = Cell::new(0);
        let stop = async |read: u64| {
            assert!(read <= 2 * PAGE);
            steps.set(steps.get() + 1);
            if steps.get() == 4 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let found = pool.reclaim("v", stop).await.expect("reclaim");
        let (scanned_bytes, released_bytes) = (4 * PAGE, 2 * PAGE);
        let stopped =
            Reclaimed { scanned_bytes, released_bytes, freed_bytes: released_bytes, complete: false };
        assert_eq!(found, stopped);
        assert!(matches!(pool.reclaim("t", all).await, Err(PoolError::Volume { .. })));
        assert!(matches!(pool.reclaim("none", all).await, Err(PoolError::NoVolume { .. })));
    });
}

/// Scan after scan while others write, on disks whose operations overtake each other: what was written is
/// there.
#[test]
fn nothing_that_is_written_meanwhile_is_lost() {
    for seed in 0..8 {
        let rig = Rig::with_jitter(seed, Setup::tight(), Duration::from_millis(2));
        rig.model.run(async |world| {
            let pool = create(&world, &rig.setup).await;
            let v = pool.create_volume("v", 4 * PAGE, Provisioning::Thin).await.expect("create");
            let (left, done) = (Rc::new(Cell::new(4)), Rc::new(Signal::default()));
            for w in 0..4 {
                let (v, left, done) = (v.clone(), left.clone(), done.clone());
                let mut rng = world::Rng::with_seed(seed * 10 + w);
                let clock = world.clone();
                world.spawn(async move {
                    let sector = w * SECTORS as u64 + w;
                    for i in 1..40 {
                        // For a while the page is zeros; while it is looked at, it may cease to be.
                        for value in [0, i] {
                            v.write(sector * SECTOR, &encode(std::iter::once(value))).await.expect("write");
                            clock.sleep(Duration::from_micros(rng.u64(..3000))).await;
                            assert_eq!(values(&v, sector as usize, 1).await, [value], "page {w}");
                        }
                    }
                    left.set(left.get() - 1);
                    done.wake_all();
                });
            }
            let mut released = 0;
            while left.get() > 0 {
                released += pool.reclaim("v", all).await.expect("reclaim").released_bytes;
                world.sleep(Duration::from_micros(100)).await;
            }
            done.wait_for(|| (left.get() == 0).then_some(())).await;
            audit(&pool).await;
            println!("seed {seed}: {released} bytes");
        });
    }
}

/// Pages of zeros are given back while all pages of their group move away, and others write.
#[test]
fn a_scan_beside_an_evacuation() {
    for seed in 0..6 {
        let rig = Rig::with_jitter(seed, Setup { groups: 2, ..Setup::mirror() }, Duration::from_millis(1));
        rig.model.run(async |world| {
            let pool = create(&world, &rig.setup).await;
            let v = striped(&pool, "v", 24).await;
            let c = pool.clone_volume("v", "c").await.expect("clone");
            let group = pool.groups()[seed as usize % 2].id();
            let moving = pool.evacuate(group, all);
            let scanning = async {
                for name in ["v", "c", "v", "c"] {
                    pool.reclaim(name, all).await.expect("reclaim");
                }
            };
            let writing = async {
                for i in 0..24 {
                    c.write((23 - i) * PAGE, &encode(std::iter::once(i as u32))).await.expect("write");
                }
            };
            let (moved, ..) = futures::future::join3(moving, scanning, writing).await;
            assert!(moved.expect("evacuate").complete);
            audit(&pool).await;
            pool.reclaim("v", all).await.expect("reclaim");
            assert_eq!(v.space().used_bytes, 13 * PAGE, "nothing but pages with data");
            for page in 0..24 {
                let data = u32::from(page % 2 == 0) * (page as u32 + 1);
                assert_eq!(values(&v, page * SECTORS, SECTORS).await, vec![data; SECTORS]);
                assert_eq!(values(&c, page * SECTORS, 2).await, [23 - page as u32, data]);
            }
            audit(&pool).await;
        });
    }
}

/// A cut at this persistence point of a scan and of writes to pages that it gave back. Whether it came before
/// the end.
fn check_cut(setup: Setup, cut: u64) -> bool {
    let rig = Rig::new(3, setup);
    let scanned = Cell::new(false);
    let outcome = rig.model.run_until_crash(async |world| {
        let pool = create(&world, &setup).await;
        striped(&pool, "v", 12).await;
        pool.clone_volume("v", "c").await.expect("clone");
        let free = pool.space().free_bytes / PAGE;
        let w = pool.create_volume("w", (free + 20) * PAGE, Provisioning::Thin).await.expect("create");
        let disks = rig.model.disks();
        disks.cut_power_after(disks.persistence_points() + cut);
        pool.reclaim("v", all).await.expect("reclaim");
        pool.reclaim("c", all).await.expect("reclaim");
        scanned.set(true);
        for page in 0..free + 6 {
            fill(&w, page, 99, 8).await;
        }
        pool.flush().await.expect("flush");
    });
    if outcome != Outcome::PowerCut {
        return false;
    }
    rig.model.reboot();
    rig.model.run(async |world| {
        let pool = open(&world, &setup).await.expect("open");
        audit(&pool).await;
        for name in ["v", "c"] {
            let volume = pool.volume(name).expect("there");
            for page in 0..12 {
                let expected = u32::from(page % 2 == 0) * (page as u32 + 1);
                assert_eq!(values(&volume, page * SECTORS, SECTORS).await, vec![expected; SECTORS], "{name}");
            }
            assert_eq!(values(&volume, 13 * SECTORS - 2, 1).await, [7]);
            if scanned.get() {
                assert_eq!(volume.used_bytes(), 7 * PAGE, "what was given back is durable");
            }
        }
    });
    true
}

#[test]
fn a_power_cut_during_a_scan_loses_nothing() {
    for setup in [Setup::tight(), Setup { groups: 2, ..Setup::stripes() }] {
        let points = (1..).step_by(3).take_while(|cut| check_cut(setup, *cut)).count();
        assert!(points > 30, "only {points} cuts");
        println!("{points} cuts");
    }
}
