//! A pool that was closed, and is opened by somebody who knows how.

use raid::LABEL_REGION_LEN;
use world::World;

use super::rig::{Rig, Setup, audit, create, open, open_groups};
use crate::{Closed, Pool, Provisioning};

async fn open_closed(world: &World, setup: &Setup, closed: Closed) -> Result<Pool, String> {
    let groups = open_groups(world, setup).await?;
    Pool::open_closed(world.clone(), groups, Some(closed)).await.map_err(|e| e.to_string())
}

/// Neither half of the journal can be read behind its first block: who searches it fails.
#[test]
fn the_journal_of_a_pool_that_was_closed_is_not_searched() {
    let rig = Rig::new(1, Setup::mirror());
    rig.model.run(async |world| {
        let pool = create(&world, &rig.setup).await;
        pool.create_volume("v", 1 << 20, Provisioning::Thin).await.expect("create");
        let layout = pool.0.layout;
        let closed = pool.close().await.expect("closed");
        drop(pool);
        for (disk, generation) in rig.disks.iter().flat_map(|disk| [(disk, 0), (disk, 1)]) {
            let at = LABEL_REGION_LEN + layout.journal_at(generation);
            disk.add_latent_errors(at + 4096..at + layout.journal_half);
        }
        let searched = open(&world, &rig.setup).await.map(drop);
        assert!(searched.is_err(), "the journal is read where nobody knows how the pool was closed");
        let pool = open_closed(&world, &rig.setup, closed).await.expect("opened");
        assert!(pool.volume("v").is_some());
        pool.create_volume("w", 1 << 20, Provisioning::Thin).await.expect("create");
        audit(&pool).await;
    });
}

/// What somebody else committed since is found, in either half, whatever is known of the close.
#[test]
fn commits_after_the_close_are_found() {
    for commits in 0..14 {
        let rig = Rig::new(commits, Setup::mirror());
        rig.model.run(async |world| {
            let pool = create(&world, &rig.setup).await;
            let closed = pool.close().await.expect("closed");
            drop(pool);
            let pool = open(&world, &rig.setup).await.expect("opened");
            for n in 0..commits {
                pool.save_record("r", &[n as u8; 60 << 10]).await.expect("saved");
            }
            // Without a close.
            drop(pool);
            let pool = open_closed(&world, &rig.setup, closed).await.expect("opened");
            let last = commits.checked_sub(1).map(|n| vec![n as u8; 60 << 10]);
            assert!(pool.load_record("r") == last, "the last of {commits}");
            audit(&pool).await;
        });
    }
}
