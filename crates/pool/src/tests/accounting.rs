//! Who has what: the parts add up, and chains of clones are neither slow nor in each other's way.

use block::Device;
use world::Rng;

use super::rig::{PAGE, Rig, Setup, audit, create, open};
use super::shadow::{encode, values};
use crate::{Pool, PoolError, Provisioning, Volume};

/// Reads of all drives of the pool.
fn reads(pool: &Pool) -> u64 {
    let drives = pool.groups().into_iter().flat_map(|g| g.drives());
    drives.map(|d| d.counts().reads).sum()
}

fn one(value: u32) -> block::Pieces {
    encode(std::iter::once(value))
}

async fn first(volume: &Volume, page: usize) -> u32 {
    values(volume, page * (PAGE / 512) as usize, 1).await[0]
}

#[test]
fn what_is_shared_and_what_is_not_adds_up() {
    let rig = Rig::new(1, Setup::mirror());
    rig.model.run(async |world| {
        let pool = create(&world, &rig.setup).await;
        let a = pool.create_volume("a", 16 * PAGE, Provisioning::Thin).await.expect("create");
        for page in 0..10 {
            a.write(page * PAGE, &one(1)).await.expect("write");
        }
        let parts = |volume: &Volume| {
            let space = volume.space();
            (space.shared_bytes / PAGE, space.exclusive_bytes / PAGE)
        };
        assert_eq!(parts(&a), (0, 10));
        let b = pool.clone_volume("a", "b").await.expect("clone");
        let c = pool.clone_volume("b", "c").await.expect("clone");
        assert_eq!((parts(&a), parts(&b), parts(&c)), ((10, 0), (10, 0), (10, 0)));
        for page in 0..4 {
            b.write(page * PAGE, &one(2)).await.expect("write");
        }
        c.unmap(0, 2 * PAGE).await.expect("unmap");
        assert_eq!((parts(&a), parts(&b), parts(&c)), ((8, 2), (6, 4), (8, 0)));
        a.share_or_copy(&b, 0, 12 * PAGE, PAGE).await.expect("share");
        a.share_or_copy(&a, 0, 13 * PAGE, PAGE).await.expect("share with itself");
        assert_eq!((parts(&a), parts(&b), parts(&c)), ((11, 1), (7, 3), (8, 0)));
        let rod = a.hold(PAGE, PAGE).await.expect("hold");
        assert_eq!(parts(&a), (12, 0), "a ROD holds it, too");
        drop(rod);
        assert_eq!(pool.space().shared_bytes / PAGE, 10);
        audit(&pool).await;
        pool.delete_volume("a").await.expect("delete");
        assert_eq!((parts(&b), parts(&c)), ((6, 4), (6, 2)), "two are only of the clone of the clone now");
        pool.delete_volume("c").await.expect("delete");
        assert_eq!(parts(&b), (0, 10));
        audit(&pool).await;
        pool.close().await.expect("close");
    });
    rig.model.run(async |world| {
        let pool = open(&world, &rig.setup).await.expect("open");
        assert_eq!(pool.volume("b").expect("there").space().exclusive_bytes, 10 * PAGE);
        audit(&pool).await;
    });
}

/// A chain of clones of clones, each with a page of its own. The last one is read with as many drive
/// operations as the first, and they are deleted in any order.
#[test]
fn a_chain_of_two_hundred_clones_is_as_fast_as_its_first() {
    const DEPTH: usize = 200;
    let rig = Rig::new(2, Setup { disk_len: 48 << 20, ..Setup::mirror() });
    rig.model.run(async |world| {
        let pool = create(&world, &rig.setup).await;
        let v = pool.create_volume("0", 16 * PAGE, Provisioning::Thin).await.expect("create");
        v.write(0, &encode(std::iter::repeat_n(1000, 15 * 128))).await.expect("write");
        for depth in 1..=DEPTH {
            let from = (depth - 1).to_string();
            let clone = pool.clone_volume(&from, &depth.to_string()).await.expect("clone");
            clone.write(15 * PAGE, &one(depth as u32)).await.expect("write");
            clone.write((depth % 8) as u64 * PAGE, &one(depth as u32)).await.expect("write");
        }
        let cost = async |depth: usize| {
            let volume = pool.volume(&depth.to_string()).expect("there");
            let before = reads(&pool);
            for page in 0..16 {
                first(&volume, page).await;
            }
            reads(&pool) - before
        };
        assert_eq!(cost(1).await, cost(DEPTH).await);
        audit(&pool).await;
        let mut rng = Rng::with_seed(3);
        let mut left: Vec<usize> = (0..=DEPTH).collect();
        while left.len() > 10 {
            let gone = left.swap_remove(rng.usize(..left.len()));
            pool.delete_volume(&gone.to_string()).await.expect("delete");
        }
        audit(&pool).await;
        for depth in left {
            let volume = pool.volume(&depth.to_string()).expect("there");
            assert_eq!(first(&volume, 14).await, 1000);
            for page in 0..8 {
                // Who wrote it last on the way from the first one.
                let writer = (1..=depth).rev().find(|d| d % 8 == page);
                assert_eq!(first(&volume, page).await, writer.map_or(1000, |d| d as u32), "{depth}");
            }
            volume.write(14 * PAGE, &one(5)).await.expect("a clone of a clone is written");
            assert_eq!(first(&volume, 14).await, 5);
        }
        audit(&pool).await;
    });
}

/// Two clones of one name, from two volumes at once: one of them comes to be, and the other leaves nothing
/// behind.
#[test]
fn a_clone_whose_name_is_taken_meanwhile_leaves_nothing() {
    let rig = Rig::new(4, Setup::mirror());
    rig.model.run(async |world| {
        let pool = create(&world, &rig.setup).await;
        for name in ["a", "b"] {
            let v = pool.create_volume(name, 16 * PAGE, Provisioning::Thin).await.expect("create");
            v.write(0, &encode(std::iter::repeat_n(1, 10 * 128))).await.expect("write");
        }
        let both = futures::future::join(pool.clone_volume("a", "c"), pool.clone_volume("b", "c")).await;
        let made = match both {
            (Ok(made), Err(PoolError::NameTaken { .. })) | (Err(PoolError::NameTaken { .. }), Ok(made)) => {
                made
            }
            (one, other) => panic!("{:?} and {:?}", one.err(), other.err()),
        };
        assert_eq!(made.space().shared_bytes, 10 * PAGE);
        audit(&pool).await;
        let alone = pool.volumes().iter().filter(|v| v.space().exclusive_bytes == 10 * PAGE).count();
        assert_eq!(alone, 1, "the volume whose clone came to nothing has its pages for itself");
        pool.delete_volume("c").await.expect("delete");
        audit(&pool).await;
    });
}
