//! Time, scheduling, the digest, and runs that cannot end.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use world::sync::Signal;
use world::{Buf, DriveSpec, World, yield_now};

use crate::{DiskSpec, Model};

/// What the tasks of a run did, in order.
type Log = Rc<RefCell<Vec<(u64, u32)>>>;

fn note(world: &World, log: &Log, who: u32) {
    log.borrow_mut().push((world.now().0, who));
}

#[test]
fn timers_fire_in_the_order_of_deadline_and_arming_and_time_is_new_before_the_wake() {
    let model = Model::new(1);
    let log = Log::default();
    model.run(async |world| {
        for (who, millis) in [(1, 30), (2, 10), (3, 30), (4, 20), (5, 10)] {
            let (world2, log) = (world.clone(), log.clone());
            let sleep = world.sleep(Duration::from_millis(millis));
            world.spawn(async move {
                sleep.await;
                note(&world2, &log, who);
            });
        }
        world.sleep(Duration::from_millis(40)).await;
    });
    let ms = 1_000_000;
    assert_eq!(*log.borrow(), [(10 * ms, 2), (10 * ms, 5), (20 * ms, 4), (30 * ms, 1), (30 * ms, 3)]);
}

#[test]
fn an_abandoned_sleep_does_not_move_the_clock() {
    let model = Model::new(1);
    let end = model.run(async |world| {
        drop(world.sleep(Duration::from_secs(3600)));
        world.sleep(Duration::from_secs(1)).await;
        world.now()
    });
    assert_eq!(end.0, 1_000_000_000);
}

/// The order in which ten tasks, all ready, get their turns.
fn order_of_turns(seed: u64) -> Vec<u32> {
    let log = Log::default();
    Model::new(seed).run(async |world| {
        for who in 0..10 {
            let (world2, log) = (world.clone(), log.clone());
            world.spawn(async move {
                yield_now().await;
                note(&world2, &log, who);
            });
        }
        world.sleep(Duration::from_nanos(1)).await;
    });
    let log = log.borrow();
    log.iter().map(|(_, who)| *who).collect()
}

#[test]
fn the_seed_draws_the_order_of_turns() {
    assert_eq!(order_of_turns(3), order_of_turns(3));
    let orders: std::collections::BTreeSet<_> = (0..20).map(order_of_turns).collect();
    assert!(orders.len() > 15, "20 seeds gave only {} orders", orders.len());
}

/// A run with everything in it that the seed can move.
fn busy_run(seed: u64, writes: u64) -> Model {
    let model = Model::new(seed);
    model.disk("d", DiskSpec::new(1 << 20).with_jitter(Duration::from_micros(300)));
    model.keep_trace();
    model.run(async |world| {
        let drive = world.open_now(&DriveSpec::Modelled { name: "d".into() }).expect("the disk is there");
        let done = Rc::new(Signal::default());
        let count = Rc::new(std::cell::Cell::new(0));
        for i in 0..writes {
            let (drive, world2, done, count) = (drive.clone(), world.clone(), done.clone(), count.clone());
            world.spawn(async move {
                let mut rng = world2.random("workload");
                let mut buf = Buf::new(4096);
                rng.fill(&mut buf);
                drive.write(i * 4096, buf.freeze()).await.expect("write");
                drive.flush().await.expect("flush");
                count.set(count.get() + 1);
                done.wake_all();
            });
        }
        done.wait_for(|| (count.get() == writes).then_some(())).await;
    });
    model
}

#[test]
fn the_same_seed_twice_gives_the_same_digest() {
    for seed in 0..10 {
        let (one, two) = (busy_run(seed, 40), busy_run(seed, 40));
        let parted = one.trace().iter().zip(two.trace()).position(|(a, b)| *a != b);
        assert_eq!(parted, None, "the traces of seed {seed} part");
        assert_eq!(one.digest(), two.digest(), "seed {seed}");
    }
    assert_ne!(busy_run(1, 40).digest(), busy_run(2, 40).digest());
    assert_ne!(busy_run(1, 40).digest(), busy_run(1, 41).digest());
}

#[test]
#[should_panic(
    expected = "deadlock at 5000000 ns: the main task and 1 other tasks wait and nothing can wake them (seed 77)"
)]
fn a_deadlock_is_a_panic_that_names_the_seed() {
    Model::new(77).run(async |world| {
        world.spawn(std::future::pending());
        world.sleep(Duration::from_millis(5)).await;
        std::future::pending::<()>().await;
    });
}

#[test]
#[should_panic(expected = "a task spins (seed 78)")]
fn a_task_that_spins_is_a_panic_that_names_the_seed() {
    let model = Model::new(78);
    model.set_polls_at_one_time_max(1000);
    model.run(async |_| {
        loop {
            yield_now().await;
        }
    });
}

#[test]
fn the_end_of_a_run_drops_its_tasks_and_another_run_follows() {
    struct Held(Rc<()>);
    let model = Model::new(5);
    let counted = Rc::new(());
    for run in 0..3 {
        let held = Held(counted.clone());
        let seed = model.run(async |world| {
            world.spawn(async move {
                let _keep = &held.0;
                std::future::pending::<()>().await;
            });
            yield_now().await;
            assert_eq!(world.now().0, 0, "run {run} begins its own time");
            world.seed()
        });
        assert_eq!(seed == 5, run == 0, "a later run has other streams");
        assert_eq!(Rc::strong_count(&counted), 1);
    }
}

/// A run of minutes went on to its end when nobody wanted it any more.
#[test]
fn a_run_that_nobody_wants_ends_within_some_thousand_steps_and_a_look_changes_nothing() {
    use std::cell::Cell;
    let steps = |wanted: u32| {
        let (looks, steps, model) = (Cell::new(0), Rc::new(Cell::new(0_u64)), Model::new(1));
        let counted = steps.clone();
        let is_wanted = || {
            looks.set(looks.get() + 1);
            looks.get() < wanted
        };
        let ended = model.run_while(is_wanted, async |world| {
            for _ in 0..20_000 {
                world.sleep(Duration::from_millis(1)).await;
                counted.set(counted.get() + 1);
            }
        });
        (ended.is_some(), steps.get(), Rc::strong_count(&steps), model.digest())
    };
    let (ended, all, _, digest) = steps(u32::MAX);
    assert!(ended && all == 20_000);
    let looked = u64::from(crate::core::STEPS_LOOKED);
    for wanted in [1, 2, 5] {
        let (ended, done, held, _) = steps(wanted);
        assert!(!ended && done > 0 && done <= u64::from(wanted) * looked, "{wanted}: {done}");
        assert_eq!(held, 2, "nothing of the run is left");
    }
    let model = Model::new(1);
    model.run(async |world| {
        for _ in 0..20_000 {
            world.sleep(Duration::from_millis(1)).await;
        }
    });
    assert_eq!(model.digest(), digest);
}
