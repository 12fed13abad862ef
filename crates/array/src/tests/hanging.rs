//! Drives that hang below an array that serves: what hosts notice, what is told, and what happens when they
//! answer again.

use std::time::Duration;

use block::Pieces;
use raid::{GroupState, MemberState};

use crate::config::Level;

use super::rig::{Host, declaration, group, model, start, wait_until};
use crate::config::{PoolConfig, VolumeConfig};
use crate::status::ControllerStatus;
use crate::{Config, Lun};

const SECOND: Duration = Duration::from_secs(1);

fn told(status: &ControllerStatus, words: &str) -> usize {
    status.events.iter().filter(|e| e.text.contains(words)).count()
}

fn optimal(status: &ControllerStatus) -> bool {
    status.groups.iter().all(|g| g.raid.state == GroupState::Optimal && g.raid.rebuild.is_none())
}

#[test]
fn a_drive_that_hangs_is_dropped_comes_back_with_what_changed_and_stays_out_when_it_flaps() {
    for (level, width) in [(Level::Raid5, 4), (Level::Raid1, 2)] {
        let model = model(20, width);
        model.run(async |world| {
            let mut array = start(&world);
            array.apply(declaration(20, width, vec![group("g", level, 0..width)])).await.expect("apply");
            let mut host = Host::log_in(&world, 20).await;
            host.fill().await;
            host.flush().await;
            let disk = model.disks().get("d1").expect("it is there");
            for _ in 0..crate::groups::RETURNS_MAX {
                disk.hang();
                let begun = world.now();
                host.fill().await;
                assert!(world.now() - begun < 14 * SECOND, "{level}: {:?}", world.now() - begun);
                let dropped = |s: &ControllerStatus| s.groups[0].raid.members[1].dropped_silent;
                wait_until(&world, &array, "the drop", dropped).await;
                host.verify().await;
                disk.resume();
                wait_until(&world, &array, "the return", optimal).await;
                host.verify().await;
            }
            let status = array.status().await.expect("status");
            assert!(told(&status[0], "does not answer for 10 s") > 0, "{:?}", status[0].events);
            assert_eq!(told(&status[0], "bytes that changed meanwhile"), 3, "{:?}", status[0].events);
            disk.hang();
            host.fill().await;
            disk.resume();
            let stays_out = |s: &ControllerStatus| told(s, "is flapping") == 1;
            wait_until(&world, &array, "the notice", stays_out).await;
            world.sleep(60 * SECOND).await;
            let status = array.status().await.expect("status");
            assert_eq!(status[0].groups[0].raid.members[1].state, MemberState::Failed, "{level}");
            host.verify().await;
            host.log_out().await;
            array.stop().await.expect("stop");
        });
    }
}

#[test]
fn a_drive_that_was_pulled_comes_back_with_what_changed_and_stays_out_when_it_flaps() {
    for (level, width) in [(Level::Raid5, 4), (Level::Raid1, 2)] {
        let model = model(23, width);
        model.run(async |world| {
            let mut array = start(&world);
            array.apply(declaration(23, width, vec![group("g", level, 0..width)])).await.expect("apply");
            let mut host = Host::log_in(&world, 23).await;
            host.fill().await;
            host.flush().await;
            let disk = model.disks().get("d1").expect("it is there");
            let away = |s: &ControllerStatus| s.groups[0].raid.members[1].dropped_gone;
            for _ in 0..crate::groups::RETURNS_MAX {
                disk.kill();
                host.fill().await;
                wait_until(&world, &array, "the drop", away).await;
                world.sleep(10 * SECOND).await;
                disk.resume();
                wait_until(&world, &array, "the return", optimal).await;
                host.verify().await;
            }
            let status = array.status().await.expect("status");
            assert_eq!(told(&status[0], "is back; a rebuild of"), 3, "{:?}", status[0].events);
            disk.kill();
            host.fill().await;
            wait_until(&world, &array, "the drop", away).await;
            world.sleep(10 * SECOND).await;
            disk.resume();
            wait_until(&world, &array, "the notice", |s| told(s, "is flapping") == 1).await;
            world.sleep(60 * SECOND).await;
            let status = array.status().await.expect("status");
            assert_eq!(status[0].groups[0].raid.members[1].state, MemberState::Failed, "{level}");
            // Ten minutes later it may come back.
            wait_until(&world, &array, "the return", optimal).await;
            host.verify().await;
            host.log_out().await;
            array.stop().await.expect("stop");
        });
    }
}

#[test]
fn a_drive_that_fails_and_is_there_stays_out() {
    let model = model(24, 4);
    model.run(async |world| {
        let mut array = start(&world);
        array.apply(declaration(24, 4, vec![group("g", Level::Raid5, 0..4)])).await.expect("apply");
        let mut host = Host::log_in(&world, 24).await;
        model.disks().get("d1").expect("it is there").set_read_only(true);
        host.fill().await;
        host.flush().await;
        world.sleep(60 * SECOND).await;
        let status = array.status().await.expect("status");
        assert_eq!(status[0].groups[0].raid.members[1].state, MemberState::Failed);
        assert_eq!(told(&status[0], "is back"), 0);
    });
}

#[test]
fn a_drive_that_was_missing_at_the_start_takes_its_place_back_and_a_stranger_does_not() {
    let model = model(25, 4);
    let config = || declaration(25, 4, vec![group("g", Level::Raid5, 0..4)]);
    model.run(async |world| {
        let mut array = start(&world);
        array.apply(config()).await.expect("apply");
        let mut host = Host::log_in(&world, 25).await;
        host.fill().await;
        host.log_out().await;
        array.stop().await.expect("stop");
    });
    let disk = model.disks().get("d1").expect("it is there");
    let own = disk.peek(0, 1 << 20);
    disk.kill();
    model.run(async |world| {
        let mut array = start(&world);
        array.apply(config()).await.expect("apply");
        let mut host = Host::log_in(&world, 25).await;
        host.fill().await;
        let state = async || array.status().await.expect("status")[0].groups[0].raid.members[1].state;
        // Another drive in its place: it is blank.
        disk.poke(0, &[0; 1 << 20]);
        disk.resume();
        world.sleep(30 * SECOND).await;
        assert_ne!(state().await, MemberState::Active);
        disk.poke(0, &own);
        wait_until(&world, &array, "the return", optimal).await;
        host.verify().await;
        host.log_out().await;
        array.stop().await.expect("stop");
    });
}

/// Two groups, each with a pool and a volume of its own; LUN 1 is the second one.
fn two_groups(id: u8, level: Level, width: usize) -> Config {
    let groups = vec![group("g", level, 0..width), group("other", Level::Raid0, width..width + 1)];
    let mut config = declaration(id, width + 1, groups);
    config.pools[0].groups = vec!["g".into()];
    config
        .pools
        .push(PoolConfig { page_bytes: 64 << 10, ..PoolConfig::new("p1".into(), vec!["other".into()]) });
    config.volumes.push(VolumeConfig::new("beside".into(), "p1".into(), 1 << 20));
    config.hosts[0].luns.insert(1, "beside".into());
    config
}

fn write_16(at: u64, blocks: u32) -> [u8; 16] {
    let mut cdb = [0; 16];
    cdb[0] = 0x8a;
    cdb[2..10].copy_from_slice(&(at / 512).to_be_bytes());
    cdb[10..14].copy_from_slice(&blocks.to_be_bytes());
    cdb
}

fn data(byte: u8) -> Pieces {
    let mut buf = block::Buf::new(4096);
    buf.fill(byte);
    buf.freeze().into()
}

#[test]
fn a_group_that_hangs_holds_up_no_other_group_and_serves_again_by_itself() {
    for level in [Level::Raid0, Level::Raid1] {
        let model = model(21, 3);
        model.run(async |world| {
            let mut array = start(&world);
            array.apply(two_groups(21, level, 2)).await.expect("apply");
            let mut host = Host::log_in(&world, 21).await;
            host.fill().await;
            host.flush().await;
            for name in ["d0", "d1"] {
                model.disks().get(name).expect("it is there").hang();
            }
            let mut synchronize_cache = [0; 16];
            synchronize_cache[0] = 0x91;
            let hung = async {
                for _ in 0..3 {
                    let begun = world.now();
                    let (key, _) = host.raw(write_16(0, 8), data(7), 0).await;
                    assert_eq!(key, 0x04, "{level}: HARDWARE ERROR");
                    assert!(world.now() - begun < 13 * SECOND, "{level}: {:?}", world.now() - begun);
                    let (key, _) = host.raw(synchronize_cache, Pieces::new(), 0).await;
                    assert_eq!(key, 0x04, "{level}: SYNCHRONIZE CACHE");
                }
            };
            let others = async {
                for i in 0..200 {
                    let begun = world.now();
                    let (key, _) = host.raw_on(Lun(1), write_16(0, 8), data(i as u8), 0).await;
                    assert_eq!(key, 0, "{level}");
                    let took = world.now() - begun;
                    assert!(took < SECOND / 10, "{level}: the other group took {took:?}");
                    world.sleep(SECOND / 8).await;
                }
            };
            futures::join!(hung, others);
            for name in ["d0", "d1"] {
                model.disks().get(name).expect("it is there").resume();
            }
            world.sleep(5 * SECOND).await;
            // Commands that failed may or may not have been carried out.
            host.fill().await;
            host.flush().await;
            wait_until(&world, &array, "all drives", optimal).await;
            host.verify().await;
            host.log_out().await;
            array.stop().await.expect("stop");
        });
        model.run(async |world| {
            let mut array = start(&world);
            array.apply(two_groups(21, level, 2)).await.expect("apply");
            let mut host = Host::log_in(&world, 21).await;
            host.number = 2;
            host.verify().await;
        });
    }
}

#[test]
fn the_time_that_drives_have_is_declared() {
    let model = model(22, 2);
    model.run(async |world| {
        let mut array = start(&world);
        let mut config = declaration(22, 2, vec![group("g", Level::Raid1, 0..2)]);
        (config.drive_slow_ms, config.drive_drop_ms) = (500, Some(3000));
        array.apply(config.clone()).await.expect("apply");
        let mut host = Host::log_in(&world, 22).await;
        host.fill().await;
        model.disks().get("d1").expect("it is there").hang();
        let begun = world.now();
        host.fill().await;
        assert!(world.now() - begun < 5 * SECOND, "{:?}", world.now() - begun);
        config.drive_drop_ms = Some(500);
        let refused = array.apply(config).await.expect_err("shorter than twice the other");
        assert!(refused.to_string().contains("drive_drop_ms"), "{refused}");
    });
}
