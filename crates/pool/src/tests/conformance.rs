//! Volumes keep the contract of a device: thin, thick, cloned, on blocks of both sizes, on a degraded mirror.

use block::Device;
use block::conformance::{random_against_shadow, refuses_what_is_out_of_range};
use raid::Level;

use super::rig::{Rig, Setup, audit, create, open};
use crate::Provisioning;

fn check(seed: u64, setup: Setup) {
    let rig = Rig::new(seed, setup);
    let len = 2 * (1 << 20) + 4096;
    rig.model.run(async |world| {
        let pool = create(&world, &setup).await;
        let mut rng = world.random("test");
        let thin = pool.create_volume("thin", len, Provisioning::Thin).await.expect("create");
        let thick = pool.create_volume("thick", len, Provisioning::Thick).await.expect("create");
        for volume in [&thin, &thick] {
            random_against_shadow(volume, &mut rng, 150).await;
            refuses_what_is_out_of_range(volume).await;
        }
        assert_eq!(thick.space().used_bytes, len.next_multiple_of(super::rig::PAGE));
        for from in ["thin", "thick"] {
            let name = format!("clone of {from}");
            let clone = pool.clone_volume(from, &name).await.expect("clone");
            random_against_shadow(&clone, &mut rng, 100).await;
            random_against_shadow(&pool.volume(from).expect("there"), &mut rng, 100).await;
        }
        audit(&pool).await;
        if setup.level == Level::Raid1 {
            rig.disks[0].kill();
            random_against_shadow(&thin, &mut rng, 100).await;
            thin.flush().await.expect("flush");
            rig.disks[0].resume();
        }
        pool.close().await.expect("close");
    });
    rig.model.run(async |world| {
        let pool = open(&world, &setup).await.expect("open");
        audit(&pool).await;
        assert_eq!(pool.volumes().len(), 4);
        random_against_shadow(&pool.volume("clone of thin").expect("there"), &mut world.random("again"), 100)
            .await;
        audit(&pool).await;
    });
}

#[test]
fn on_stripes() {
    check(1, Setup::new(Level::Raid0, 2));
}

#[test]
fn on_a_mirror_that_becomes_degraded() {
    check(2, Setup::mirror());
}

#[test]
fn on_blocks_of_4096() {
    check(3, Setup { block_bytes: 4096, ..Setup::new(Level::Raid0, 3) });
}

#[test]
fn on_rows_with_parity() {
    check(5, Setup::parity());
    check(6, Setup { level: Level::Raid6, width: 6, ..Setup::parity() });
}

#[test]
fn on_three_groups() {
    check(4, Setup { groups: 3, ..Setup::new(Level::Raid0, 1) });
}
