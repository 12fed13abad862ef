//! Power cuts: after every persistence point of a workload, and at random, also while recovering.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use block::Device;
use raid::Level;
use world::Rng;
use world_model::Outcome;

use super::rig::{Rig, Setup, audit, create, look, open, open_groups};
use super::shadow::{Shadow, encode, values};
use super::workload::{Load, Shared, check_recovered, run};

const SMALL: Load = Load { rounds: 5, operations: 20 };

/// Runs the workload of this seed from an empty pool, with a power cut after persistence point `cut` (counted
/// from the creation of the pool on), recovers and goes on a little. Whether the cut came before the end.
#[expect(clippy::await_holding_refcell_ref, reason = "nobody else looks at the shadow meanwhile")]
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
        if created.get() {
            let groups = open_groups(&world, &setup).await.expect("open groups");
            look(&groups).await;
        }
        let pool = match open(&world, &setup).await {
            Ok(pool) => pool,
            Err(error) => {
                assert!(!created.get(), "{error}");
                assert!(error.contains("no pool") || error.contains("interrupted"), "{error}");
                let groups = open_groups(&world, &setup).await.expect("open groups");
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
fn parity_loses_nothing() {
    check_cuts(7, Setup::parity(), 1, 97);
    check_cuts(8, Setup { level: Level::Raid6, width: 5, ..Setup::parity() }, 1, 149);
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
#[expect(clippy::await_holding_refcell_ref, reason = "nobody else looks at the shadow meanwhile")]
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
            look(&open_groups(&world, &setup).await.expect("open groups")).await;
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

/// Writes and records until two checkpoints have been made, cut at every point: those at which a checkpoint
/// begins to count are few, and must all be tried.
fn check_cut_around_checkpoints(seed: u64, setup: Setup, cut: u64) -> bool {
    let rig = Rig::new(seed, setup);
    let flushed = Cell::new(0_u32);
    let outcome = rig.model.run_until_crash(async |world| {
        let pool = create(&world, &setup).await;
        let v = pool.create_volume("v", 2 << 20, crate::Provisioning::Thin).await.expect("create");
        let disks = rig.model.disks();
        disks.cut_power_after(disks.persistence_points() + cut);
        for i in 1..=16 {
            v.write(u64::from(i) * 70_144, &encode(std::iter::repeat_n(i, 130))).await.expect("write");
            pool.save_record("r", &i.to_le_bytes().repeat(10_000)).await.expect("save");
            flushed.set(i);
        }
        assert_eq!(pool.counts().checkpoints, 1 + 2, "the first one is the pool's creation");
    });
    if outcome != Outcome::PowerCut {
        return false;
    }
    rig.model.reboot();
    // Twice: what the first recovery wrote must lead to the same state.
    for _ in 0..2 {
        rig.model.run(async |world| {
            let pool = open(&world, &setup).await.expect("open");
            let saved = pool.load_record("r").map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
            assert!((flushed.get()..=flushed.get() + 1).contains(&saved), "{saved} after {}", flushed.get());
            let v = pool.volume("v").expect("there");
            for i in 1..=saved {
                let found = values(&v, i as usize * 70_144 / 512, 130).await;
                assert!(found.iter().all(|f| *f == i), "write {i} is lost");
            }
            audit(&pool).await;
        });
    }
    true
}

#[test]
fn checkpoints_lose_nothing_at_any_point() {
    for (seed, setup) in
        (20..).zip([Setup::stripes(), Setup::mirror(), Setup { groups: 2, ..Setup::stripes() }])
    {
        let points = (1..).take_while(|cut| check_cut_around_checkpoints(seed, setup, *cut)).count();
        assert!(points > 60, "only {points} points");
    }
}

/// So many that the table takes more than the first sector of a superblock, and a change of it can be torn.
const MANY: Setup = Setup { groups: 9, level: Level::Raid0, width: 1, block_bytes: 512, disk_len: 6 << 20 };

/// A life that changes the table: the power fails after its persistence point `cut`. Whether it came so far.
fn live_until(rig: &Rig, cut: u64, evacuates: bool) -> bool {
    let outcome = rig.model.run_until_crash(async |world| {
        let groups = open_groups(&world, &rig.setup).await.expect("open groups");
        let disks = rig.model.disks();
        disks.cut_power_after(disks.persistence_points() + cut);
        let pool = crate::Pool::open(world.clone(), groups.clone()).await.expect("open");
        if evacuates {
            let go = async |_| std::ops::ControlFlow::Continue(());
            pool.evacuate(groups[MANY.groups - 1].id(), go).await.expect("evacuate");
        }
    });
    let is_cut = outcome == Outcome::PowerCut;
    if is_cut {
        rig.model.reboot();
    }
    is_cut
}

/// A power cut tore a superblock of some groups, and the next one came while the next generation was written
/// to the other slot of all: a group without any superblock kept the pool from being opened.
#[test]
fn two_cuts_in_a_row_leave_every_group_a_superblock() {
    let mut cuts = 0;
    for (seed, first) in (1..=3).flat_map(|seed| (1..).map(move |first| (seed, first)).take(60)) {
        for second in 1.. {
            let rig = Rig::new(seed, MANY);
            rig.model.run(async |world| {
                let pool = create(&world, &MANY).await;
                let v = pool.create_volume("v", 1 << 20, crate::Provisioning::Thin).await.expect("create");
                v.write(0, &encode([7].into_iter())).await.expect("write");
                pool.close().await.expect("close");
            });
            if !live_until(&rig, first, true) || !live_until(&rig, second, false) {
                break;
            }
            cuts += 1;
            rig.model.run(async |world| {
                let groups = open_groups(&world, &MANY).await.expect("open groups");
                look(&groups).await;
                let opened = crate::Pool::open(world.clone(), groups.clone()).await;
                let pool = opened.unwrap_or_else(|e| panic!("seed {seed}, cuts {first} and {second}: {e}"));
                assert_eq!(values(&pool.volume("v").expect("there"), 0, 1).await, [7]);
                for group in &groups {
                    assert_eq!(crate::open::broken_slots(group).await, [false; 2], "{first}, {second}");
                }
            });
        }
    }
    assert!(cuts > 500, "{cuts}");
}
