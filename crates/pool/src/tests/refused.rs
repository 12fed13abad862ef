//! Storage below the drives that is full: metadata cannot be written for now. What is refused then is not
//! done when there is room again, nor after a restart.

use block::{BlockError, Device};

use super::rig::{PAGE, Rig, Setup, audit, create, open};
use crate::{Pool, PoolError, Provisioning};

fn names(pool: &Pool) -> Vec<(String, u64)> {
    pool.volumes().iter().map(|v| (v.name().to_owned(), v.geometry().len_bytes)).collect()
}

fn is_no_room<T>(outcome: Result<T, PoolError>) -> bool {
    matches!(outcome, Err(PoolError::Block(BlockError::NoRoom { .. })))
}

#[test]
fn a_volume_that_is_refused_for_want_of_room_is_not_there_later() {
    let rig = Rig::new(90, Setup::mirror());
    let full = |from| rig.disks.iter().for_each(|disk| disk.set_full_from(from));
    let was = vec![("v".to_owned(), 4 * PAGE), ("w".to_owned(), 2 * PAGE)];
    rig.model.run(async |world| {
        let pool = create(&world, &rig.setup).await;
        pool.create_volume("v", 4 * PAGE, Provisioning::Thin).await.expect("create");
        pool.create_volume("w", 2 * PAGE, Provisioning::Thick).await.expect("create");
        let (free, promised) = (pool.space().free_bytes, pool.space().used_bytes);
        full(Some(0));
        assert!(is_no_room(pool.create_volume("n", PAGE, Provisioning::Thin).await));
        assert!(is_no_room(pool.clone_volume("v", "n").await));
        assert!(is_no_room(pool.grow_volume("v", 8 * PAGE).await));
        assert_eq!(names(&pool), was);
        full(None);
        world.sleep(std::time::Duration::from_secs(2)).await;
        audit(&pool).await;
        assert_eq!(names(&pool), was);
        assert_eq!((pool.space().free_bytes, pool.space().used_bytes), (free, promised));
        pool.clone_volume("v", "n").await.expect("the name is free");
        pool.delete_volume("n").await.expect("delete");
        pool.close().await.expect("close");
    });
    rig.model.run(async |world| {
        let pool = open(&world, &rig.setup).await.expect("open");
        assert_eq!(names(&pool), was);
        audit(&pool).await;
    });
}

#[test]
fn a_thick_volume_that_does_not_fit_takes_nothing_from_others_meanwhile() {
    let rig = Rig::new(91, Setup::mirror());
    rig.model.run(async |world| {
        let pool = create(&world, &rig.setup).await;
        let (free, commits) = (pool.space().free_bytes, pool.space().total_bytes);
        let refused = pool.create_volume("n", commits + PAGE, Provisioning::Thick);
        let mut refused = std::pin::pin!(refused);
        loop {
            let tick = world.sleep(std::time::Duration::from_micros(20));
            match futures::future::select(refused.as_mut(), std::pin::pin!(tick)).await {
                futures::future::Either::Left((outcome, _)) => {
                    assert!(matches!(outcome, Err(PoolError::Block(BlockError::NoSpace { .. }))));
                    break;
                }
                futures::future::Either::Right(_) => assert_eq!(pool.space().free_bytes, free),
            }
        }
        assert!(names(&pool).is_empty());
    });
}

#[test]
fn that_storage_below_a_drive_is_full_is_told_for_as_long_as_writes_meet_it() {
    let rig = Rig::new(92, Setup::mirror());
    let full = |from| rig.disks.iter().for_each(|disk| disk.set_full_from(from));
    rig.model.run(async |world| {
        let pool = create(&world, &rig.setup).await;
        let volume = pool.create_volume("v", 4 * PAGE, Provisioning::Thin).await.expect("create");
        assert_eq!(pool.no_room(), None);
        full(Some(0));
        let data = block::Buf::new(512).freeze().into();
        volume.write(0, &data).await.expect_err("no room");
        assert!(matches!(pool.no_room(), Some(BlockError::NoRoom { .. })));
        full(None);
        world.sleep(std::time::Duration::from_secs(61)).await;
        assert_eq!(pool.no_room(), None);
    });
}

/// Writes of hosts failed, and nobody said why.
#[test]
fn that_a_drive_refuses_writes_is_told_for_as_long_as_writes_meet_it() {
    let rig = Rig::new(93, Setup::stripes());
    rig.model.run(async |world| {
        let pool = create(&world, &rig.setup).await;
        let volume = pool.create_volume("v", 4 * PAGE, Provisioning::Thin).await.expect("create");
        let data: block::Pieces = block::Buf::new(512).freeze().into();
        volume.write(0, &data).await.expect("write");
        assert_eq!(pool.refused_writes(), None);
        rig.disks.iter().for_each(|disk| disk.set_read_only(true));
        volume.write(0, &data).await.expect_err("refused");
        assert!(pool.refused_writes().is_some());
        rig.disks.iter().for_each(|disk| disk.set_read_only(false));
        world.sleep(std::time::Duration::from_secs(61)).await;
        assert_eq!(pool.refused_writes(), None);
    });
}
