//! What moves, and what is refused, without power cuts.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use block::{BlockError, Device, Pieces};
use futures::future::{Either, select};
use raid::{Group, Level};
use world::World;
use world::sync::Signal;

use super::rig::{PAGE, Rig, Setup, audit, new_groups, open_groups};
use super::shadow::{encode, values};
use crate::{Pool, PoolError, PoolSpec, Provisioning, Volume};

const PER_PAGE: usize = (PAGE / 512) as usize;

fn setup(groups: usize) -> Setup {
    Setup { groups, ..Setup::new(Level::Raid0, 1) }
}

fn spec() -> PoolSpec {
    PoolSpec { page_bytes: PAGE, ..PoolSpec::new("p") }
}

async fn pool_on(world: &World, groups: &[Group]) -> Pool {
    Pool::create(world.clone(), spec(), groups.to_vec()).await.expect("create")
}

async fn fill(volume: &Volume, pages: u64, value: u32) {
    for i in 0..pages {
        let data = encode(std::iter::repeat_n(value + i as u32, PER_PAGE));
        volume.write(i * PAGE, &data).await.expect("write");
    }
}

async fn check(volume: &Volume, pages: u64, value: u32) {
    for i in 0..pages {
        let found = values(volume, i as usize * PER_PAGE, PER_PAGE).await;
        assert_eq!(found, vec![value + i as u32; PER_PAGE], "page {i} of {}", volume.name());
    }
}

async fn go(_: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn used(pool: &Pool) -> Vec<u64> {
    pool.group_spaces().iter().map(|g| g.used_bytes / PAGE).collect()
}

#[test]
fn a_group_comes_pages_spread_and_the_first_one_leaves() {
    let rig = Rig::new(1, setup(2));
    rig.model.run(async |world| {
        let groups = new_groups(&world, &rig.setup).await;
        let pool = pool_on(&world, &groups[..1]).await;
        let one = pool.space().total_bytes;
        let v = pool.create_volume("v", 8 << 20, Provisioning::Thin).await.expect("create");
        fill(&v, 60, 1).await;
        pool.clone_volume("v", "c").await.expect("clone");
        pool.add_group(groups[1].clone()).await.expect("add");
        assert_eq!((pool.space().total_bytes, used(&pool)), (2 * one, vec![60, 0]));
        assert!(pool.group_spaces().iter().all(|g| g.holds_metadata && !g.evacuating));
        let moved = pool.rebalance(go).await.expect("rebalance");
        assert!(moved.complete && moved.bytes > 25 * PAGE, "{moved:?}");
        let spread = used(&pool);
        assert!(spread[0].abs_diff(spread[1]) <= 3, "{spread:?}");
        audit(&pool).await;
        let moved = pool.evacuate(groups[0].id(), go).await.expect("evacuate");
        assert_eq!((moved.bytes, used(&pool)), (spread[0] * PAGE, vec![0, 60]));
        assert_eq!(pool.space().total_bytes, one, "what is left of a group that leaves is no space");
        // What was shared is still shared.
        assert_eq!(pool.space().used_bytes, 60 * PAGE);
        pool.remove_group(groups[0].id()).await.expect("remove");
        assert_eq!(pool.groups().len(), 1);
        audit(&pool).await;
    });
    rig.model.run(async |world| {
        let groups = open_groups(&world, &rig.setup).await.expect("open groups");
        let error = Pool::open(world.clone(), groups[..1].to_vec()).await.err().expect("nothing is on it");
        assert_eq!(error, PoolError::NoPool { group: "g0".into() });
        let pool = Pool::open(world.clone(), groups[1..].to_vec()).await.expect("open");
        for name in ["v", "c"] {
            check(&pool.volume(name).expect("there"), 60, 1).await;
        }
        pool.add_group(groups[0].clone()).await.expect("it may come back");
        assert_eq!(pool.groups().len(), 2);
        audit(&pool).await;
    });
}

/// A ROD, two clones, a page that one volume has twice, and a thick volume: all of it follows.
#[test]
fn whatever_refers_to_a_page_follows_it() {
    let rig = Rig::new(2, setup(2));
    rig.model.run(async |world| {
        let groups = new_groups(&world, &rig.setup).await;
        let pool = pool_on(&world, &groups[..1]).await;
        let v = pool.create_volume("v", 4 << 20, Provisioning::Thin).await.expect("create");
        fill(&v, 8, 100).await;
        let t = pool.create_volume("t", 4 * PAGE, Provisioning::Thick).await.expect("create");
        fill(&t, 4, 500).await;
        v.share_or_copy(&v, 0, 20 * PAGE, 2 * PAGE).await.expect("copy");
        let rod = v.hold(512, 8 * PAGE - 512).await.expect("hold");
        pool.clone_volume("v", "c").await.expect("clone");
        fill(&v, 3, 900).await;
        let before = pool.space().used_bytes;
        pool.add_group(groups[1].clone()).await.expect("add");
        let moved = pool.evacuate(groups[0].id(), go).await.expect("evacuate");
        assert!(moved.complete);
        assert_eq!((moved.bytes, pool.space().used_bytes), (before, before));
        pool.remove_group(groups[0].id()).await.expect("remove");
        let mut held = Pieces::new();
        rod.read(0, 8 * PAGE as usize - 512, &mut held).await.expect("read");
        assert_eq!(held.joined()[..4], 100_u32.to_le_bytes());
        drop(rod);
        let c = pool.volume("c").expect("there");
        check(&c, 8, 100).await;
        check(&v, 3, 900).await;
        check(&t, 4, 500).await;
        assert_eq!(values(&c, 21 * PER_PAGE, 1).await, [101]);
        // Owners may write in place, sharers may not.
        fill(&c, 8, 7000).await;
        check(&v, 3, 900).await;
        audit(&pool).await;
    });
}

#[test]
fn what_is_not_possible_is_refused_with_numbers() {
    let rig = Rig::new(3, setup(3));
    rig.model.run(async |world| {
        let groups = new_groups(&world, &rig.setup).await;
        let pool = pool_on(&world, &groups[..1]).await;
        let pages = pool.space().total_bytes / PAGE;
        let v = pool.create_volume("v", 2 * pages * PAGE, Provisioning::Thin).await.expect("create");
        let text = |outcome: Result<_, PoolError>| outcome.expect_err("refused").to_string();
        let alone = text(pool.evacuate(groups[0].id(), go).await.map(drop));
        assert!(alone.contains("the only group"), "{alone}");
        assert!(text(pool.remove_group(groups[0].id()).await.map(drop)).contains("the last group"));
        pool.add_group(groups[1].clone()).await.expect("add");
        assert!(text(pool.add_group(groups[1].clone()).await).contains("already in the pool"));
        fill(&v, pages + 10, 1).await;
        let full = pool.evacuate(groups[0].id(), go).await.expect_err("no room");
        let PoolError::NoRoom { used_bytes, free_bytes, .. } = full else { panic!("{full}") };
        assert!(used_bytes > free_bytes && free_bytes < pages * PAGE, "{used_bytes} and {free_bytes}");
        assert!(pool.group_spaces().iter().all(|g| !g.evacuating));
        assert!(text(pool.remove_group(groups[1].id()).await.map(drop)).contains("in use"));
        v.write((pages + 10) * PAGE, &encode(std::iter::once(5))).await.expect("both take pages");
        let other =
            Pool::create(world.clone(), PoolSpec { name: "o".into(), ..spec() }, groups[2..].to_vec()).await;
        drop(other.expect("create"));
        assert!(text(pool.add_group(groups[2].clone()).await).contains("already belongs to pool o"));
        audit(&pool).await;
    });
}

/// A pool on one small group has metadata for eight times its pages.
#[test]
fn a_pool_grows_as_far_as_its_metadata_was_planned() {
    let rig = Rig::new(4, Setup { disk_len: 64 << 20, ..setup(14) });
    rig.model.run(async |world| {
        let groups = new_groups(&world, &rig.setup).await;
        let pool = pool_on(&world, &groups[..1]).await;
        let mut added = 0;
        let error = loop {
            match pool.add_group(groups[added + 1].clone()).await {
                Ok(()) => added += 1,
                Err(error) => break error.to_string(),
            }
        };
        assert!((7..13).contains(&added), "{added} groups");
        assert!(error.contains("but its metadata was sized for"), "{error}");
        assert_eq!(pool.group_spaces().iter().filter(|g| g.holds_metadata).count(), 2);
        audit(&pool).await;
    });
    rig.model.run(async |world| {
        let groups = open_groups(&world, &rig.setup).await.expect("open groups");
        let missing = Pool::open(world.clone(), groups[1..7].to_vec()).await.err().expect("one is missing");
        assert!(missing.to_string().contains("group 0 of"), "{missing}");
        Pool::open(world.clone(), groups).await.expect("open");
    });
}

/// It stops when it is told to, is refused twice at once, goes on after a restart, and can be cancelled.
#[test]
fn an_evacuation_stops_goes_on_and_is_cancelled() {
    let rig = Rig::new(5, setup(2));
    rig.model.run(async |world| {
        let groups = new_groups(&world, &rig.setup).await;
        let pool = pool_on(&world, &groups).await;
        let v = pool.create_volume("v", 8 << 20, Provisioning::Thin).await.expect("create");
        fill(&v, 60, 1).await;
        let before = used(&pool)[0];
        let stop = async |_: u64| ControlFlow::Break(());
        let moved = pool.evacuate(groups[0].id(), stop).await.expect("evacuate");
        assert!(!moved.complete && moved.bytes > 0 && used(&pool)[0] == before - moved.bytes / PAGE);
        let busy = async |_: u64| {
            let error = pool.rebalance(go).await.expect_err("busy");
            assert_eq!(error.to_string(), "pool p is busy with an evacuation");
            pool.cancel_evacuation(groups[0].id()).await.expect("cancel");
            ControlFlow::Continue(())
        };
        let moved = pool.evacuate(groups[0].id(), busy).await.expect("evacuate");
        assert!(!moved.complete && !pool.group_spaces()[0].evacuating, "it was cancelled");
        pool.evacuate(groups[0].id(), stop).await.expect("evacuate");
        fill(&v, 80, 1).await;
        pool.close().await.expect("close");
    });
    rig.model.run(async |world| {
        let groups = open_groups(&world, &rig.setup).await.expect("open groups");
        let pool = Pool::open(world.clone(), groups.clone()).await.expect("open");
        assert!(pool.group_spaces()[0].evacuating, "that is durable");
        let before = used(&pool)[0];
        let v = pool.volume("v").expect("there");
        v.write(100 * PAGE, &encode(std::iter::once(5))).await.expect("write");
        assert_eq!(used(&pool)[0], before, "nothing is handed out there");
        assert!(pool.evacuate(groups[0].id(), go).await.expect("evacuate").complete);
        check(&v, 80, 1).await;
        pool.remove_group(groups[0].id()).await.expect("remove");
        audit(&pool).await;
    });
}

/// Writers, copies and clones run while all pages go from one group to the other and back: nobody waits for
/// ever, and every read gives what was written last.
#[test]
fn pages_move_under_writes_copies_and_clones() {
    for seed in 10..16 {
        let rig = Rig::with_jitter(seed, setup(2), std::time::Duration::from_millis(2));
        rig.model.run(async |world| {
            let groups = new_groups(&world, &rig.setup).await;
            let pool = pool_on(&world, &groups).await;
            let a = pool.create_volume("a", 4 << 20, Provisioning::Thin).await.expect("create");
            let b = pool.create_volume("b", 4 << 20, Provisioning::Thin).await.expect("create");
            let left = Rc::new((Cell::new(5), Signal::default()));
            let over = move |left: &Rc<(Cell<i32>, Signal)>| {
                left.0.set(left.0.get() - 1);
                left.1.wake_all();
            };
            for w in 0..4_u64 {
                let (a, b, left) = (a.clone(), b.clone(), left.clone());
                let mut rng = world::Rng::with_seed(seed + w);
                world.spawn(async move {
                    for i in 1..60 {
                        // Each writer has its own sector of every page.
                        let page = rng.u64(..40);
                        let at = page * PAGE + w * 512;
                        a.write(at, &encode(std::iter::once(i))).await.expect("write");
                        assert_eq!(values(&a, (at / 512) as usize, 1).await, [i], "writer {w}");
                        if i % 8 == 0 {
                            b.share_or_copy(&a, page * PAGE, page * PAGE, PAGE).await.expect("copy");
                        }
                    }
                    over(&left);
                });
            }
            let (pool2, left2) = (pool.clone(), left.clone());
            world.spawn(async move {
                for _ in 0..6 {
                    pool2.clone_volume("a", "c").await.expect("clone");
                    pool2.delete_volume("c").await.expect("delete");
                }
                over(&left2);
            });
            for group in [0, 1, 0] {
                let id = groups[group].id();
                assert!(pool.evacuate(id, go).await.expect("evacuate").complete);
                pool.cancel_evacuation(id).await.expect("cancel");
            }
            left.1.wait_for(|| (left.0.get() == 0).then_some(())).await;
            audit(&pool).await;
        });
    }
}

/// A first write to a page, made durable, is one frame; writers that come together share it.
#[test]
fn a_first_write_costs_at_most_one_append() {
    let rig = Rig::new(6, setup(1));
    rig.model.run(async |world| {
        let groups = new_groups(&world, &rig.setup).await;
        let pool = pool_on(&world, &groups).await;
        let v = pool.create_volume("v", 8 << 20, Provisioning::Thin).await.expect("create");
        let before = pool.counts();
        for i in 0..10 {
            v.write(i * PAGE, &encode(std::iter::once(1))).await.expect("write");
            v.flush().await.expect("flush");
        }
        let after = pool.counts();
        assert_eq!(after.journal_bytes - before.journal_bytes, 10 * 4096);
        assert_eq!(after.commits - before.commits, 10);
        let writes = (10..60_u64).map(async |i| {
            v.write(i * PAGE, &encode(std::iter::once(1))).await.expect("write");
            v.flush().await.expect("flush");
        });
        futures::future::join_all(writes).await;
        let together = pool.counts().journal_bytes - after.journal_bytes;
        assert!(together <= 25 * 4096, "{together} bytes for 50 first writes at once");
    });
}

/// Where a group's bytes begin on a drive of a group with one drive.
const DATA: u64 = 1 << 20;

/// While a second holder comes, others write and flush. Whatever they were told to be durable is on each
/// holder alone.
#[test]
fn both_holders_have_all_commits_also_those_made_while_one_of_them_came() {
    for lost in 0..2 {
        let rig = Rig::new(7, setup(2));
        let flushed = Rc::new(Cell::new(0));
        rig.model.run(async |world| {
            let groups = new_groups(&world, &rig.setup).await;
            let pool = pool_on(&world, &groups[..1]).await;
            let v = pool.create_volume("v", 8 << 20, Provisioning::Thin).await.expect("create");
            let over = Rc::new(Cell::new(false));
            let (stop, told) = (over.clone(), flushed.clone());
            world.spawn(async move {
                while !stop.get() {
                    let i = told.get();
                    v.write(i % 100 * PAGE, &encode(std::iter::once(i as u32 + 1))).await.expect("write");
                    v.flush().await.expect("flush");
                    told.set(i + 1);
                }
            });
            world.sleep(std::time::Duration::from_millis(2)).await;
            let before = flushed.get();
            pool.add_group(groups[1].clone()).await.expect("add");
            assert!(flushed.get() > before + 2, "commits were made meanwhile");
            over.set(true);
            world.sleep(std::time::Duration::from_millis(5)).await;
        });
        rig.disks[lost].poke(DATA, &[0; 128 << 10]);
        rig.model.run(async |world| {
            let groups = open_groups(&world, &rig.setup).await.expect("open groups");
            let pool = Pool::open(world.clone(), groups).await.expect("open");
            assert_eq!(pool.groups().len(), 2);
            let v = pool.volume("v").expect("there");
            let last = flushed.get();
            for i in last.saturating_sub(100)..last {
                assert_eq!(values(&v, (i % 100) as usize * PER_PAGE, 1).await, [i as u32 + 1]);
            }
            audit(&pool).await;
        });
    }
}

/// The cut that is hardest to meet: one holder has the new table, the other one the latest commit. Both
/// count.
#[test]
fn the_newest_table_and_the_furthest_commit_may_be_on_different_holders() {
    let rig = Rig::new(8, setup(2));
    rig.model.run(async |world| {
        let groups = new_groups(&world, &rig.setup).await;
        let pool = pool_on(&world, &groups[..1]).await;
        let v = pool.create_volume("v", 8 << 20, Provisioning::Thin).await.expect("create");
        pool.add_group(groups[1].clone()).await.expect("add");
        for i in 0..3 {
            v.write(i * PAGE, &encode(std::iter::once(i as u32 + 1))).await.expect("write");
            v.flush().await.expect("flush");
        }
    });
    // The addition is generation 2, in slot 0, with its frames in the first half, one block each: the third
    // one goes. It is the one that a cut may leave on one holder.
    rig.disks[0].poke(DATA, &[0; 4096]);
    let frames = DATA + (128 << 10);
    assert_eq!(rig.disks[1].peek(frames, 8), *b"MASUJRNL");
    rig.disks[1].poke(frames + 2 * 4096, &[0; 4096]);
    rig.model.run(async |world| {
        let groups = open_groups(&world, &rig.setup).await.expect("open groups");
        let pool = Pool::open(world.clone(), groups).await.expect("open");
        assert_eq!(pool.groups().len(), 2);
        let v = pool.volume("v").expect("there");
        for i in 0..3 {
            assert_eq!(values(&v, i * PER_PAGE, 1).await, [i as u32 + 1]);
        }
        audit(&pool).await;
        fill(&v, 60, 1).await;
        assert!(used(&pool).iter().all(|pages| *pages > 10), "{:?}", used(&pool));
    });
}

/// Pages of a pool without a page to spare move while they are overwritten: a write waits for its page's
/// move, it does not take a page.
#[test]
fn overwriting_needs_no_page_while_pages_move() {
    let rig = Rig::with_jitter(9, setup(2), std::time::Duration::from_millis(1));
    rig.model.run(async |world| {
        let groups = new_groups(&world, &rig.setup).await;
        let pool = pool_on(&world, &groups).await;
        let pages = pool.group_spaces()[1].total_bytes / PAGE;
        let v = pool.create_volume("v", pages * PAGE, Provisioning::Thin).await.expect("create");
        fill(&v, pages, 1).await;
        assert_eq!(used(&pool).iter().sum::<u64>(), pages);
        let over = Rc::new(Cell::new(false));
        for w in 0..8 {
            let (v, over) = (v.clone(), over.clone());
            let mut rng = world::Rng::with_seed(w);
            world.spawn(async move {
                while !over.get() {
                    let page = rng.u64(..pages);
                    let data = encode(std::iter::repeat_n(page as u32 + 1, PER_PAGE));
                    v.write(page * PAGE, &data).await.expect("in place");
                }
            });
        }
        assert!(pool.evacuate(groups[0].id(), go).await.expect("evacuate").complete);
        over.set(true);
        assert_eq!(used(&pool), [0, pages]);
        world.sleep(std::time::Duration::from_secs(1)).await;
        check(&v, pages, 1).await;
        audit(&pool).await;
    });
}

/// A page that cannot be read stays where it is; all others leave, and the place is named.
#[test]
fn a_page_that_cannot_be_read_keeps_no_other_from_leaving() {
    let rig = Rig::new(10, setup(2));
    rig.model.run(async |world| {
        let groups = new_groups(&world, &rig.setup).await;
        let pool = pool_on(&world, &groups[..1]).await;
        let v = pool.create_volume("v", 8 << 20, Provisioning::Thin).await.expect("create");
        fill(&v, 20, 1).await;
        v.flush().await.expect("flush");
        pool.add_group(groups[1].clone()).await.expect("add");
        let (_, at) = pool.0.locate(v.state.map.borrow().get(7).expect("mapped"));
        rig.disks[0].add_latent_errors(DATA + at..DATA + at + 512);
        let error = pool.evacuate(groups[0].id(), go).await.expect_err("one page cannot be read");
        assert!(matches!(error, PoolError::Block(_)), "{error}");
        assert_eq!(used(&pool), [1, 19]);
        // What is written anew is whole again.
        v.write(7 * PAGE, &encode(std::iter::repeat_n(8, PER_PAGE))).await.expect("write");
        assert!(pool.evacuate(groups[0].id(), go).await.expect("evacuate").complete);
        pool.remove_group(groups[0].id()).await.expect("remove");
        check(&v, 20, 1).await;
        audit(&pool).await;
    });
}

/// Whoever adds a group may lose interest at any moment: the next addition finds a pool that is one or the
/// other.
#[test]
fn an_addition_that_is_abandoned_leaves_the_pool_ready_for_the_next() {
    let mut added = 0;
    for i in 1..40 {
        let rig = Rig::new(i, setup(3));
        rig.model.run(async |world| {
            let groups = new_groups(&world, &rig.setup).await;
            let pool = pool_on(&world, &groups[..1]).await;
            let v = pool.create_volume("v", 8 << 20, Provisioning::Thin).await.expect("create");
            fill(&v, 20, 1).await;
            let addition = Box::pin(pool.add_group(groups[1].clone()));
            let patience = Box::pin(world.sleep(std::time::Duration::from_micros(i * 80)));
            let done =
                matches!(futures::future::select(addition, patience).await, futures::future::Either::Left(_));
            added += u32::from(done);
            pool.add_group(groups[2].clone()).await.expect("add");
            let first = pool.groups().len();
            assert!((2..=3).contains(&first) && (!done || first == 3));
            if first == 2 {
                pool.add_group(groups[1].clone()).await.expect("add again");
            }
            pool.rebalance(go).await.expect("rebalance");
            check(&v, 20, 1).await;
            audit(&pool).await;
        });
    }
    assert!((1..39).contains(&added), "{added} of 39 came to their end");
}

#[test]
fn free_pages_of_a_group_that_leaves_are_not_taken_to_be_zeroed() {
    for seed in 0..60 {
        let rig = Rig::new(seed, setup(2));
        rig.model.run(async |world| {
            let groups = new_groups(&world, &rig.setup).await;
            let pool = pool_on(&world, &groups).await;
            let v = pool.create_volume("v", 8 << 20, Provisioning::Thin).await.expect("create");
            fill(&v, 20, 1).await;
            let leaves = groups[0].id();
            assert!(pool.evacuate(leaves, go).await.expect("evacuate").complete);
            // A spare takes the place of one of its drives meanwhile.
            let cleaning = async {
                world.sleep(std::time::Duration::from_micros(seed * 20)).await;
                let _ = pool.clean_free_pages(leaves).await;
            };
            let (removed, ()) = futures::future::join(pool.remove_group(leaves), cleaning).await;
            removed.expect("remove");
            check(&v, 20, 1).await;
            audit(&pool).await;
        });
    }
}

#[test]
fn a_group_that_left_and_cannot_be_read_keeps_no_pool_closed() {
    let rig = Rig::new(11, setup(2));
    rig.model.run(async |world| {
        let groups = new_groups(&world, &rig.setup).await;
        let pool = pool_on(&world, &groups).await;
        pool.remove_group(groups[0].id()).await.expect("it is empty");
    });
    rig.disks[0].add_latent_errors(DATA..DATA + (128 << 10));
    rig.model.run(async |world| {
        let groups = open_groups(&world, &rig.setup).await.expect("open groups");
        assert!(Pool::open(world.clone(), groups[..1].to_vec()).await.is_err());
        let pool = Pool::open(world.clone(), groups).await.expect("open");
        assert_eq!(pool.groups().len(), 1);
        audit(&pool).await;
    });
}

/// Work that is paced takes its time while volumes are used, and none when they are not.
#[test]
fn a_pace_leaves_the_foreground_its_share() {
    let rig = Rig::new(12, setup(2));
    rig.model.run(async |world| {
        let groups = new_groups(&world, &rig.setup).await;
        let pool = pool_on(&world, &groups).await;
        let v = pool.create_volume("v", 8 << 20, Provisioning::Thin).await.expect("create");
        fill(&v, 100, 1).await;
        let throttle = raid::Throttle::new(world.clone(), 80);
        let mut times = Vec::new();
        for (group, busy) in [(0, false), (1, true)] {
            let over = Rc::new(Cell::new(!busy));
            let (stop, reader) = (over.clone(), v.clone());
            world.spawn(async move {
                while !stop.get() {
                    values(&reader, 0, 1).await;
                }
            });
            let before = world.now();
            let id = groups[group].id();
            let moved = pool.evacuate(id, pool.paced(throttle.clone())).await.expect("evacuate");
            times.push(world.now().since(before) / (moved.bytes / PAGE) as u32);
            over.set(true);
            pool.cancel_evacuation(id).await.expect("cancel");
        }
        assert!(times[1] > times[0] * 3, "{times:?} per page");
        audit(&pool).await;
    });
}

/// The file system below the pool is full. What was seen: the addition waited without an end, and all that is
/// changed by command behind it.
#[test]
fn a_group_that_cannot_be_added_for_now_is_refused_at_once() {
    for begun in [false, true] {
        let rig = Rig::new(11, setup(2));
        rig.model.run(async |world| {
            let groups = new_groups(&world, &rig.setup).await;
            let pool = pool_on(&world, &groups[..1]).await;
            let v = pool.create_volume("v", 8 << 20, Provisioning::Thin).await.expect("create");
            let full = |full: bool| rig.disks[0].set_full_from(full.then_some(0));
            let soon = async |what: &str, work: Pin<Box<dyn Future<Output = Result<(), PoolError>> + '_>>| {
                match select(work, Box::pin(world.sleep(Duration::from_secs(5)))).await {
                    Either::Left((outcome, _)) => outcome,
                    Either::Right(_) => panic!("{what} waits"),
                }
            };
            if !begun {
                // A commit waits for room already, and this addition for the next one.
                full(true);
                let stalled =
                    soon("a record", Box::pin(async { Ok(v.save_record("pr", b"1").await?) })).await;
                stalled.expect_err("there is no room");
            } else {
                full(true);
            }
            let add = async || soon("the addition", Box::pin(pool.add_group(groups[1].clone()))).await;
            let refused = add().await.expect_err("there is no room");
            match begun {
                true => assert!(matches!(refused, PoolError::Begun { .. }), "{refused}"),
                false => assert!(matches!(refused, PoolError::Block(BlockError::NoRoom { .. })), "{refused}"),
            }
            add().await.expect_err("there still is no room");
            full(false);
            world.sleep(Duration::from_secs(3)).await;
            // Made when there is room, if a commit had begun with it; not at all otherwise.
            assert_eq!(pool.groups().len(), if begun { 2 } else { 1 });
            if !begun {
                pool.add_group(groups[1].clone()).await.expect("there is room");
            }
            fill(&v, 60, 1).await;
            assert!(used(&pool).iter().all(|pages| *pages > 10), "{:?}", used(&pool));
            audit(&pool).await;
        });
    }
}
