//! Groups come and go beside a running workload, with power cuts at every persistence point; and at random.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::rc::Rc;

use raid::{Group, Level};
use world::sync::Signal;
use world::{Rng, World};
use world_model::Outcome;

use super::rig::{PAGE, Rig, Setup, audit, new_groups, open_groups};
use super::shadow::Shadow;
use super::workload::{Load, Shared, check_recovered, run, run_beside};
use crate::{Pool, PoolError, PoolSpec};

const LOAD: Load = Load { rounds: 3, operations: 10 };

/// What is done to the groups.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Add(usize),
    Evacuate(usize),
    Cancel(usize),
    Remove(usize),
    Rebalance,
}

/// The deeds that the cuts are tried in: a group comes, pages spread to it, the first holder leaves and comes
/// back.
const STORY: [Deed; 8] = [
    Deed::Add(1),
    Deed::Rebalance,
    Deed::Evacuate(0),
    Deed::Remove(0),
    Deed::Add(2),
    Deed::Add(0),
    Deed::Evacuate(1),
    Deed::Remove(1),
];

fn is_in(pool: &Pool, group: &Group) -> bool {
    pool.groups().iter().any(|g| g.id() == group.id())
}

/// Does it if it is not done yet; a pool that is too full for it is left as it is.
async fn act(pool: &Pool, groups: &[Group], deed: Deed) {
    let go = async |_: u64| ControlFlow::Continue(());
    let outcome = match deed {
        Deed::Add(g) if is_in(pool, &groups[g]) => Ok(()),
        Deed::Add(g) => pool.add_group(groups[g].clone()).await,
        Deed::Evacuate(g) | Deed::Cancel(g) | Deed::Remove(g) if !is_in(pool, &groups[g]) => Ok(()),
        Deed::Evacuate(g) => pool.evacuate(groups[g].id(), go).await.map(|moved| assert!(moved.complete)),
        Deed::Cancel(g) => pool.cancel_evacuation(groups[g].id()).await,
        Deed::Remove(g) => pool.remove_group(groups[g].id()).await.map(drop),
        Deed::Rebalance => pool.rebalance(go).await.map(|moved| assert!(moved.complete)),
    };
    match outcome {
        Ok(()) | Err(PoolError::NoRoom { .. }) => {}
        Err(PoolError::Group { cause, .. })
            if cause.contains("in use")
                || cause.contains("the last group")
                || cause.contains("the only group") => {}
        Err(error) => panic!("{deed:?}: {error}"),
    }
}

fn spec() -> PoolSpec {
    PoolSpec { page_bytes: PAGE, ..PoolSpec::new("p") }
}

/// The story beside the workload.
async fn tell(world: &World, pool: &Pool, groups: &[Group], shadow: &Shared, rng: &mut Rng, load: Load) {
    let done = Rc::new((Cell::new(false), Signal::default()));
    let (told, pool2, groups) = (done.clone(), pool.clone(), groups.to_vec());
    world.spawn(async move {
        for deed in STORY {
            act(&pool2, &groups, deed).await;
        }
        told.0.set(true);
        told.1.wake_all();
    });
    run_beside(world, pool, shadow, rng, load).await;
    done.1.wait_for(|| done.0.get().then_some(())).await;
}

async fn open(world: &World, setup: &Setup) -> (Pool, Vec<Group>) {
    let groups = open_groups(world, setup).await.expect("open groups");
    super::rig::look(&groups).await;
    let pool = Pool::open(world.clone(), groups.clone()).await.expect("open");
    (pool, groups)
}

/// The story with a power cut after point `cut`, counted from its beginning. Whether the cut came before its
/// end.
#[expect(clippy::await_holding_refcell_ref, reason = "nobody else looks at the shadow meanwhile")]
fn check_cut(seed: u64, setup: Setup, cut: u64) -> bool {
    let rig = Rig::new(seed, setup);
    let shadow: Shared = Rc::new(RefCell::new(Shadow::default()));
    let outcome = rig.model.run_until_crash(async |world| {
        let groups = new_groups(&world, &setup).await;
        let pool = Pool::create(world.clone(), spec(), groups[..1].to_vec()).await.expect("create");
        let mut rng = Rng::with_seed(seed);
        run(&world, &pool, &shadow, &mut rng, Load { rounds: 3, operations: 15 }).await;
        let disks = rig.model.disks();
        disks.cut_power_after(disks.persistence_points() + cut);
        tell(&world, &pool, &groups, &shadow, &mut rng, LOAD).await;
        audit(&pool).await;
        let ids: Vec<_> = pool.groups().iter().map(|g| g.id()).collect();
        assert_eq!(ids, [groups[2].id(), groups[0].id()], "the story was told to its end");
        check_recovered(&pool, &mut shadow.borrow_mut()).await;
    });
    if outcome != Outcome::PowerCut {
        return false;
    }
    rig.model.reboot();
    rig.model.run(async |world| {
        let (pool, groups) = open(&world, &setup).await;
        check_recovered(&pool, &mut shadow.borrow_mut()).await;
        tell(&world, &pool, &groups, &shadow, &mut Rng::with_seed(!seed), Load { rounds: 1, operations: 3 })
            .await;
        audit(&pool).await;
        pool.close().await.expect("close");
    });
    rig.model.run(async |world| {
        let (pool, _) = open(&world, &setup).await;
        check_recovered(&pool, &mut shadow.borrow_mut()).await;
    });
    true
}

fn check_cuts(seed: u64, setup: Setup, first: u64, step: usize) {
    let mut points = 0;
    for cut in (first..).step_by(step) {
        match std::panic::catch_unwind(|| check_cut(seed, setup, cut)) {
            Ok(true) => points = cut,
            Ok(false) => break,
            Err(panic) => {
                eprintln!("seed {seed}, cut after point {cut}, {setup:?}");
                std::panic::resume_unwind(panic);
            }
        }
    }
    assert!(points > 500, "only {points} points");
    println!("seed {seed}: cuts up to point {points}");
}

fn stripes() -> Setup {
    Setup { groups: 3, disk_len: 10 << 20, ..Setup::new(Level::Raid0, 2) }
}

fn mirrors() -> Setup {
    Setup { groups: 3, disk_len: 12 << 20, ..Setup::mirror() }
}

#[test]
fn groups_come_and_go_and_nothing_is_lost() {
    check_cuts(1, stripes(), 1, 47);
    check_cuts(2, mirrors(), 1, 61);
    check_cuts(6, Setup { groups: 3, ..Setup::parity() }, 1, 97);
}

#[test]
#[ignore = "minutes: every point"]
fn every_point_of_coming_and_going_loses_nothing() {
    check_cuts(3, stripes(), 1, 1);
    check_cuts(4, mirrors(), 1, 1);
    check_cuts(5, Setup { block_bytes: 4096, ..stripes() }, 1, 1);
}

/// Random deeds between rounds of the workload, with its clones and deletions; now and then a restart, now
/// and then a power cut.
#[expect(clippy::await_holding_refcell_ref, reason = "nobody else looks at the shadow meanwhile")]
fn check_random(seed: u64, lives: usize) {
    let setup = Setup { groups: 4, disk_len: 10 << 20, ..Setup::new(Level::Raid0, 1) };
    let rig = Rig::new(seed, setup);
    let mut rng = Rng::with_seed(seed);
    let shadow: Shared = Rc::new(RefCell::new(Shadow::default()));
    rig.model.run(async |world| {
        let groups = new_groups(&world, &setup).await;
        let pool = Pool::create(world.clone(), spec(), groups[..2].to_vec()).await.expect("create");
        pool.close().await.expect("close");
    });
    for _ in 0..lives {
        let disks = rig.model.disks();
        if rng.bool() {
            disks.cut_power_after(disks.persistence_points() + rng.u64(1..1500));
        }
        let mut life = rng.fork();
        let outcome = rig.model.run_until_crash(async |world| {
            let (pool, groups) = open(&world, &setup).await;
            check_recovered(&pool, &mut shadow.borrow_mut()).await;
            for _ in 0..6 {
                let g = life.usize(..setup.groups);
                let deed =
                    [Deed::Add(g), Deed::Evacuate(g), Deed::Cancel(g), Deed::Remove(g), Deed::Rebalance];
                act(&pool, &groups, deed[life.usize(..deed.len())]).await;
                run(&world, &pool, &shadow, &mut life, Load { rounds: 1, operations: 8 }).await;
            }
        });
        match outcome {
            Outcome::PowerCut => rig.model.reboot(),
            Outcome::Finished(()) => disks.keep_power(),
        }
    }
}

#[test]
fn random_deeds_keep_the_audit_clean() {
    (20..26).for_each(|seed| check_random(seed, 12));
}

#[test]
#[ignore = "minutes: many seeds"]
fn many_random_deeds_keep_the_audit_clean() {
    (100..200).for_each(|seed| check_random(seed, 30));
}
