//! Operations that meet on one page, on disks whose operations overtake each other widely.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use block::Device;
use world::sync::Signal;
use world::{Rng, World};

use super::rig::{PAGE, Rig, Setup, audit, create};
use super::shadow::{encode, values};
use crate::{Pool, PoolSpec, Provisioning};

/// Runs the tasks to their ends.
struct Together {
    world: World,
    left: Rc<Cell<usize>>,
    done: Rc<Signal>,
}

impl Together {
    fn new(world: &World) -> Together {
        Together { world: world.clone(), left: Rc::default(), done: Rc::default() }
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        let (left, done) = (self.left.clone(), self.done.clone());
        left.set(left.get() + 1);
        self.world.spawn(async move {
            task.await;
            left.set(left.get() - 1);
            done.wake_all();
        });
    }

    async fn end(self) {
        self.done.wait_for(|| (self.left.get() == 0).then_some(())).await;
    }
}

fn rig(seed: u64) -> Rig {
    Rig::with_jitter(seed, Setup::tight(), Duration::from_millis(5))
}

fn one(value: u32) -> block::Pieces {
    encode(std::iter::once(value))
}

/// A page is shared and copied on write while somebody writes another sector of it: that write must be in the
/// copy.
#[test]
fn a_write_in_flight_is_not_lost_to_a_copy_of_its_page() {
    for seed in 0..10 {
        let rig = rig(seed);
        rig.model.run(async |world| {
            let pool = create(&world, &rig.setup).await;
            let v = pool.create_volume("v", PAGE, Provisioning::Thin).await.expect("create");
            v.write(0, &encode(std::iter::repeat_n(1, 128))).await.expect("write");
            let together = Together::new(&world);
            for w in 0..3 {
                let v = v.clone();
                together.spawn(async move {
                    for i in 0..40 {
                        v.write(w * 512, &one(i)).await.expect("write");
                        assert_eq!(values(&v, w as usize, 1).await, [i], "writer {w}");
                    }
                });
            }
            let v2 = v.clone();
            together.spawn(async move {
                for i in 0..40 {
                    let rod = v2.hold(0, PAGE).await.expect("hold");
                    let before = held(&rod).await;
                    v2.write(8192, &one(i)).await.expect("write");
                    assert_eq!(held(&rod).await, before, "a ROD does not change");
                }
            });
            together.end().await;
            audit(&pool).await;
        });
    }
}

async fn held(rod: &crate::Rod) -> Vec<u8> {
    let mut out = block::Pieces::new();
    rod.read(0, PAGE as usize, &mut out).await.expect("read");
    out.joined().to_vec()
}

/// A page is released and wanted by another volume while a slow read of it is still on its way: the read
/// gives what was there, never what the other volume writes, and the other volume gets the page when the read
/// is over.
#[test]
fn a_read_in_flight_sees_no_other_volume() {
    let rig = Rig::new(1, Setup::tight());
    rig.model.run(async |world| {
        let pool = create(&world, &rig.setup).await;
        let pages = pool.space().total_bytes / PAGE;
        pool.create_volume("filler", (pages - 1) * PAGE, Provisioning::Thick).await.expect("create");
        let a = pool.create_volume("a", PAGE, Provisioning::Thin).await.expect("create");
        let b = pool.create_volume("b", PAGE, Provisioning::Thin).await.expect("create");
        a.write(0, &encode(std::iter::repeat_n(1, 128))).await.expect("write");
        let together = Together::new(&world);
        let reader = a.clone();
        rig.disks.iter().for_each(|d| d.set_slow(1000));
        together.spawn(async move { assert_eq!(values(&reader, 0, 128).await, [1; 128]) });
        world.sleep(Duration::from_micros(1)).await;
        rig.disks.iter().for_each(|d| d.set_slow(1));
        let begun = world.now();
        a.unmap(0, PAGE).await.expect("unmap");
        b.write(0, &encode(std::iter::repeat_n(2, 128))).await.expect("write");
        assert!(world.now() - begun > Duration::from_millis(50), "the page was handed out while it was read");
        together.end().await;
        assert_eq!(values(&b, 0, 128).await, [2; 128]);
        audit(&pool).await;
    });
}

/// A page is shared, and a slow read of it is on its way when one of both goes to a page of its own. The page
/// is then the other's alone, which writes to it: the read gives what was there. (Found by the simulation of
/// several nodes, seed 70042: a drive stood still.)
#[test]
fn a_read_in_flight_sees_nothing_that_is_written_by_who_shared_the_page() {
    for free in [1, 0] {
        let rig = Rig::new(1, Setup::tight());
        rig.model.run(async |world| {
            let pool = create(&world, &rig.setup).await;
            let pages = pool.space().total_bytes / PAGE;
            let filler = (pages - 2 - free) * PAGE;
            pool.create_volume("filler", filler, Provisioning::Thick).await.expect("create");
            let a = pool.create_volume("a", PAGE, Provisioning::Thin).await.expect("create");
            a.write(0, &encode(std::iter::repeat_n(1, 128))).await.expect("write");
            let b = pool.clone_volume("a", "b").await.expect("clone");
            let together = Together::new(&world);
            let reader = a.clone();
            rig.disks.iter().for_each(|d| d.set_slow(1000));
            together.spawn(async move { assert_eq!(values(&reader, 1, 1).await, [1], "{free} pages free") });
            world.sleep(Duration::from_micros(1)).await;
            rig.disks.iter().for_each(|d| d.set_slow(1));
            let begun = world.now();
            a.write(0, &one(2)).await.expect("write");
            b.write(512, &one(3)).await.expect("write");
            let has_waited = world.now() - begun > Duration::from_millis(50);
            assert_eq!(has_waited, free == 0, "it waits only where there is no other page");
            together.end().await;
            assert_eq!((values(&a, 0, 2).await, values(&b, 0, 2).await), (vec![2, 1], vec![1, 3]));
            audit(&pool).await;
            b.write(512, &one(4)).await.expect("in place");
            assert_eq!(values(&b, 0, 2).await, [1, 4]);
        });
    }
}

/// Many writers to pages that are not there: each page is taken once.
#[test]
fn many_first_writers_share_one_page() {
    let rig = rig(1);
    rig.model.run(async |world| {
        let pool = create(&world, &rig.setup).await;
        let v = pool.create_volume("v", 2 * PAGE, Provisioning::Thin).await.expect("create");
        let together = Together::new(&world);
        for w in 0..64 {
            let v = v.clone();
            together.spawn(async move { v.write(w * 2048, &one(w as u32 + 1)).await.expect("write") });
        }
        together.end().await;
        assert_eq!(v.used_bytes(), 2 * PAGE);
        for w in 0..64 {
            assert_eq!(values(&v, w * 4, 2).await, [w as u32 + 1, 0]);
        }
        audit(&pool).await;
    });
}

/// Copies in both directions, clones, growth and deletion at once: nobody waits for ever (the model would
/// panic).
#[test]
fn copies_in_both_directions_come_to_an_end() {
    let rig = Rig::new(3, Setup::mirror());
    rig.model.run(async |world| {
        let spec = PoolSpec { page_bytes: PAGE, ..PoolSpec::new("p") };
        let groups = super::rig::new_groups(&world, &rig.setup).await;
        let pool = Pool::create(world.clone(), spec, groups).await.expect("create");
        let mut volumes = Vec::new();
        for name in ["a", "b"] {
            let v = pool.create_volume(name, 1 << 20, Provisioning::Thin).await.expect("create");
            v.write(0, &encode(std::iter::repeat_n(7, 1000))).await.expect("write");
            volumes.push(v);
        }
        let together = Together::new(&world);
        for w in 0..6 {
            let (to, from) = (volumes[w % 2].clone(), volumes[w / 3].clone());
            let mut rng = Rng::with_seed(w as u64);
            together.spawn(async move {
                for _ in 0..30 {
                    let (at, len) = (rng.u64(..8) * PAGE, rng.u64(1..8) * PAGE);
                    let source = if rng.bool() { rng.u64(..8) * PAGE } else { at };
                    to.share_or_copy(&from, source, at, len).await.expect("copy");
                }
            });
        }
        let pool2 = pool.clone();
        together.spawn(async move {
            for i in 0..10_u64 {
                pool2.clone_volume("a", "c").await.expect("clone");
                pool2.grow_volume("b", (1 << 20) + i * PAGE).await.expect("grow");
                pool2.delete_volume("c").await.expect("delete");
            }
        });
        together.end().await;
        audit(&pool).await;
    });
}
