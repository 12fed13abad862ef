//! Power cuts: after every persistence point of a workload, and at random, also while recovering.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use raid::Level;
use world::Rng;
use world_model::Outcome;

use super::rig::{Rig, Setup, audit, create, open};
use super::shadow::Shadow;
use super::workload::{Load, Shared, check_recovered, run};

const SMALL: Load = Load { rounds: 5, operations: 20 };

/// Runs the workload of this seed from an empty pool, with a power cut after persistence point `cut` (counted from the
/// creation of the pool on), recovers and goes on a little. Whether the cut came before the end.
fn check_cut(seed: u64, setup: Setup, cut: u64) -> bool {
    let rig = Rig::new(seed, setup);
    let shadow: Shared = Rc::new(RefCell::new(Shadow::default()));
    let created = Cell::new(false);
    let outcome = rig.model.run_until_crash(async |world| {
        let groups = super::rig::new_groups(&world, &setup).await;
        let disks = rig.model.disks();
        disks.cut_power_after(disks.persistence_points() + cut);
        let spec = crate::PoolSpec { page_bytes: super::rig::PAGE, ..crate::PoolSpec::new("p") };
        let pool = crate::Pool::create(world.clone(), spec, groups).await.expect("create");
        created.set(true);
        run(&world, &pool, &shadow, &mut Rng::with_seed(seed), SMALL).await;
    });
    if outcome != Outcome::PowerCut {
        return false;
    }
    rig.model.reboot();
    rig.model.run(async |world| {
        let pool = match open(&world, &setup).await {
            Ok(pool) => pool,
            Err(error) => {
                assert!(!created.get(), "{error}");
                assert!(error.contains("no pool") || error.contains("interrupted"), "{error}");
                let groups = super::rig::open_groups(&world, &setup).await.expect("open groups");
                let spec = crate::PoolSpec { page_bytes: super::rig::PAGE, ..crate::PoolSpec::new("p") };
                drop(crate::Pool::create(world.clone(), spec, groups).await.expect("create again"));
                return;
            }
        };
        check_recovered(&pool, &mut shadow.borrow_mut()).await;
        run(&world, &pool, &shadow, &mut Rng::with_seed(!seed), Load { rounds: 1, operations: 3 }).await;
    });
    true
}

/// Every point from `first` on, in steps.
fn check_cuts(seed: u64, setup: Setup, first: u64, step: usize) {
    let mut points = 0;
    for cut in (first..).step_by(step) {
        let held = std::panic::catch_unwind(|| check_cut(seed, setup, cut));
        match held {
            Ok(true) => points = cut,
            Ok(false) => break,
            Err(panic) => {
                eprintln!("seed {seed}, cut after point {cut}, {setup:?}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(points > 700, "only {points} points");
    println!("seed {seed}: cuts up to point {points}");
}

#[test]
fn stripes_lose_nothing() {
    check_cuts(1, Setup::stripes(), 1, 17);
}

#[test]
fn mirrors_lose_nothing() {
    check_cuts(2, Setup::tight(), 1, 23);
}

#[test]
fn two_groups_with_blocks_of_4096_lose_nothing() {
    check_cuts(3, Setup { groups: 2, block_bytes: 4096, ..Setup::new(Level::Raid0, 1) }, 1, 23);
}

#[test]
#[ignore = "minutes: every point"]
fn every_point_loses_nothing() {
    check_cuts(4, Setup::stripes(), 1, 1);
    check_cuts(5, Setup::tight(), 1, 1);
    check_cuts(6, Setup { groups: 2, ..Setup::stripes() }, 1, 1);
}

/// One pool, many cuts at random points; some of them hit the recovery from the one before.
fn check_many_cuts(seed: u64, setup: Setup, cuts: usize) {
    let rig = Rig::new(seed, setup);
    let mut rng = Rng::with_seed(seed);
    let shadow: Shared = Rc::new(RefCell::new(Shadow::default()));
    rig.model.run(async |world| {
        let pool = create(&world, &setup).await;
        pool.close().await.expect("close");
    });
    let checkpoints = Cell::new(0);
    let mut cut = 0;
    while cut < cuts {
        let disks = rig.model.disks();
        let points = if rng.u8(..4) == 0 { rng.u64(1..12) } else { rng.u64(1..1200) };
        disks.cut_power_after(disks.persistence_points() + points);
        let mut round = rng.fork();
        let outcome = rig.model.run_until_crash(async |world| {
            let pool = open(&world, &setup).await.expect("open");
            check_recovered(&pool, &mut shadow.borrow_mut()).await;
            run(&world, &pool, &shadow, &mut round, SMALL).await;
            audit(&pool).await;
            checkpoints.set(checkpoints.get() + pool.counts().checkpoints);
        });
        match outcome {
            Outcome::PowerCut => {
                rig.model.reboot();
                cut += 1;
            }
            Outcome::Finished(()) => disks.keep_power(),
        }
    }
    println!("seed {seed}: {} checkpoints in lives that ended well", checkpoints.get());
}

#[test]
fn random_cuts_also_of_recoveries_lose_nothing() {
    for seed in 10..14 {
        check_many_cuts(seed, Setup::tight(), 30);
        check_many_cuts(seed, Setup { groups: 2, ..Setup::stripes() }, 20);
    }
}

#[test]
#[ignore = "minutes: many seeds"]
fn many_random_cuts_lose_nothing() {
    for seed in 100..200 {
        check_many_cuts(seed, Setup::mirror(), 30);
        check_many_cuts(seed, Setup { groups: 2, ..Setup::stripes() }, 30);
        check_many_cuts(seed, Setup { block_bytes: 4096, ..Setup::tight() }, 30);
    }
}
