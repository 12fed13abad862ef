//! What one controller, one drive or one array hands over to another; and what is refused before anything is
//! harmed.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use block::Pieces;
use iscsi::initiator::{Options, Session};
use raid::{GroupState, MemberState};

use crate::config::Level;
use world::World;
use world_model::DiskSpec;

use super::rig::{Host, declaration, drive, group, model, portal, start, wait_until};
use crate::config::{Config, PoolConfig};
use crate::status::{ControllerStatus, Mapping};
use crate::{Array, ControlError, ControllerHandle, DriveSpec, Lun, Steer, run_controller};

const TARGET: &str = "iqn.2026-11.test:array";

fn start_two(world: &World) -> Array {
    let (handles, mailboxes): (Vec<_>, Vec<_>) = (0..2).map(ControllerHandle::new).unzip();
    for (index, mailbox) in mailboxes.into_iter().enumerate() {
        world.spawn(run_controller(world.clone(), index, mailbox, handles.clone()));
    }
    Array::new(handles, TARGET)
}

fn check_refused<T: std::fmt::Debug>(outcome: Result<T, ControlError>, part: &str) {
    let text = outcome.expect_err("it is refused").to_string();
    assert!(text.contains(part), "{text:?} does not say {part:?}");
}

async fn open_groups(array: &Array) -> Vec<Vec<String>> {
    let parts = array.status().await.expect("status");
    parts.iter().map(|part| part.groups.iter().map(|g| g.name.clone()).collect()).collect()
}

fn pool_on(controller: usize, name: &str, groups: &[&str]) -> PoolConfig {
    let like = declaration(1, 0, vec![]).pools.remove(0);
    let groups = groups.iter().map(|g| (*g).to_owned()).collect();
    PoolConfig { name: name.to_owned(), groups, controller, ..like }
}

#[test]
fn a_group_goes_to_the_controller_of_its_pool_and_back() {
    let model = model(11, 9);
    model.run(async |world| {
        let mut array = start_two(&world);
        let groups = vec![group("a", Level::Raid1, 0..2), group("b", Level::Raid1, 2..4)];
        let mut config = declaration(11, 9, groups);
        (config.controllers, config.spares) = (2, vec!["d8".to_owned()]);
        config.pools = vec![pool_on(1, "p", &["a"])];
        array.apply(config.clone()).await.expect("apply");
        assert_eq!(open_groups(&array).await, [vec!["b"], vec!["a"]]);

        config.pools[0].groups.push("b".to_owned());
        array.apply(config.clone()).await.expect("grow");
        assert_eq!(open_groups(&array).await, [vec![], vec!["a", "b"]]);

        let mut fewer = config.clone();
        fewer.pools[0].groups.pop();
        check_refused(array.apply(fewer).await, "masu pool remove-group");
        for controller in [0, 1] {
            config.pools[0].controller = controller;
            array.apply(config.clone()).await.expect("the pool moves");
            let mut expected = vec![vec![]; 2];
            expected[controller] = vec!["a", "b"];
            assert_eq!(open_groups(&array).await, expected);
        }

        array.remove_group("p", "b").await.expect("remove");
        let mut gone = false;
        for _ in 0..1000 {
            world.sleep(Duration::from_millis(100)).await;
            gone = array.status().await.expect("status")[1].pools[0].group_spaces.len() == 1;
            if gone {
                break;
            }
        }
        assert!(gone, "the group leaves");
        // Nobody names it any more: it waits at the first controller, and there its drive is looked after.
        config.pools[0].groups.pop();
        array.apply(config).await.expect("it has left");
        assert_eq!(open_groups(&array).await, [vec!["b"], vec!["a"]]);
        model.disks().get("d3").expect("it is there").kill();
        wait_until(&world, &array, "the spare", |s| s.groups[0].members[1].as_deref() == Some("d8")).await;
        array.stop().await.expect("stop");
    });
}

#[test]
fn a_drive_that_cannot_take_a_place_costs_no_redundancy() {
    let model = model(12, 7);
    model.disk("small", DiskSpec::new(8 << 20));
    model.run(async |world| {
        let mut array = start(&world);
        let mut config =
            declaration(12, 7, vec![group("g", Level::Raid5, 0..3), group("h", Level::Raid5, 3..6)]);
        let mut small = drive(0);
        (small.name, small.spec) = ("small".to_owned(), DriveSpec::Modelled { name: "small".to_owned() });
        config.drives.push(small);
        array.apply(config).await.expect("apply");
        check_refused(array.replace_drive("g", "d0", "small", false).await, "required");
        check_refused(array.replace_drive("g", "d0", "d4", false).await, "already belongs");
        check_refused(array.replace_drive("g", "d0", "d0", false).await, "was not exchanged");
        let status = array.status().await.expect("status");
        assert!(status[0].groups.iter().all(|g| g.raid.state == GroupState::Optimal));
        array.replace_drive("g", "d0", "d6", false).await.expect("this one fits");
        let whole = |s: &ControllerStatus| s.groups.iter().all(|g| g.raid.state == GroupState::Optimal);
        wait_until(&world, &array, "the rebuild's end", whole).await;
    });
}

#[test]
fn the_same_drive_comes_back_under_its_name() {
    let model = model(13, 4);
    model.run(async |world| {
        let mut array = start(&world);
        array.apply(declaration(13, 4, vec![group("g", Level::Raid6, 0..4)])).await.expect("apply");
        let mut host = Host::log_in(&world, 13).await;
        host.fill().await;
        let disk = model.disks().get("d1").expect("it is there");
        disk.kill();
        host.fill().await;
        disk.resume();
        array.replace_drive("g", "d1", "d1", false).await.expect("it is back");
        let whole = |s: &ControllerStatus| s.groups[0].raid.state == GroupState::Optimal;
        wait_until(&world, &array, "the rebuild's end", whole).await;
        host.verify().await;
    });
}

#[test]
fn an_idle_drive_that_hangs_is_taken_to_be_gone() {
    let model = model(14, 4);
    model.run(async |world| {
        let mut array = start(&world);
        array.apply(declaration(14, 4, vec![group("g", Level::Raid5, 0..4)])).await.expect("apply");
        let mut host = Host::log_in(&world, 14).await;
        host.fill().await;
        model.disks().get("d2").expect("it is there").hang();
        let failed = |s: &ControllerStatus| s.groups[0].raid.members[2].state == MemberState::Failed;
        wait_until(&world, &array, "the notice", failed).await;
        host.verify().await;
        host.fill().await;
        host.verify().await;
    });
}

#[test]
fn a_spare_that_took_a_place_stays_declared() {
    let model = model(15, 5);
    model.run(async |world| {
        let mut array = start(&world);
        let mut config = declaration(15, 5, vec![group("g", Level::Raid5, 0..4)]);
        config.spares = vec!["d4".to_owned()];
        array.apply(config.clone()).await.expect("apply");
        model.disks().get("d0").expect("it is there").kill();
        wait_until(&world, &array, "the spare", |s| s.groups[0].members[0].as_deref() == Some("d4")).await;
        // The same declaration again: the spare is not free again for that.
        array.apply(config.clone()).await.expect("apply");
        assert!(array.status().await.expect("status")[0].spares.is_empty());
        config.spares.clear();
        config.drives.pop();
        check_refused(array.apply(config).await, "still a member of group");
    });
}

#[test]
fn a_stop_ends_what_moves_pages_and_the_next_start_goes_on() {
    let model = model(16, 8);
    let config = || declaration(16, 8, vec![group("a", Level::Raid5, 0..4), group("b", Level::Raid6, 4..8)]);
    let leaving = model.run(async |world| {
        let mut array = start(&world);
        array.apply(config()).await.expect("apply");
        let mut host = Host::log_in(&world, 16).await;
        host.fill().await;
        array.remove_group("p", "a").await.expect("remove");
        check_refused(array.remove_group("p", "b").await, "at least one group");
        host.log_out().await;
        array.stop().await.expect("stop");
        array.config().clone()
    });
    model.run(async |world| {
        let mut array = start(&world);
        array.apply(leaving).await.expect("apply");
        let left = |s: &ControllerStatus| s.jobs.is_empty() && s.pools[0].group_spaces.len() == 1;
        wait_until(&world, &array, "the group's leaving", left).await;
        let mut host = Host::log_in(&world, 16).await;
        host.number = 1;
        host.verify().await;
    });
}

#[test]
fn a_group_does_not_begin_to_leave_where_there_is_no_room() {
    let model = model(17, 5);
    model.disk("tiny", DiskSpec::new(6 << 20));
    model.run(async |world| {
        let mut array = start(&world);
        let mut config = declaration(17, 4, vec![group("a", Level::Raid0, 0..1)]);
        let mut tiny = drive(0);
        (tiny.name, tiny.spec) = ("tiny".to_owned(), DriveSpec::Modelled { name: "tiny".to_owned() });
        config.drives.push(tiny);
        config.volumes[0].len_bytes = 12 << 20;
        array.apply(config.clone()).await.expect("apply");
        let mut host = Host::log_in(&world, 17).await;
        host.fill().await;
        let mut small = group("s", Level::Raid0, 0..0);
        small.drives = vec!["tiny".to_owned()];
        config.groups.push(small);
        config.pools[0].groups.push("s".to_owned());
        array.apply(config).await.expect("grow");
        check_refused(array.remove_group("p", "a").await, "bytes free");
        assert!(array.config().pools[0].leaving.is_empty());
    });
}

/// Twice through the same process: nothing of the exported pool stays behind that would write to its drives;
/// the names of its drives are taken, and the shape of its disk goes with it.
#[test]
fn an_exported_pool_comes_back_with_other_names_and_the_same_shape() {
    let model = model(18, 8);
    let specs = || (0..4).map(|i| DriveSpec::Modelled { name: format!("d{i}") }).collect::<Vec<_>>();
    model.run(async |world| {
        let mut array = start(&world);
        let mut config = declaration(18, 4, vec![group("g", Level::Raid5, 0..4)]);
        config.hosts.clear();
        (config.volumes[0].block_bytes, config.volumes[0].physical_block_bytes) = (4096, 4096);
        config.volumes[0].read_only = true;
        let shape = config.volumes[0].clone();
        let mut taken = drive(7);
        taken.name = "g-2".to_owned();
        config.drives.push(taken);
        array.apply(config).await.expect("apply");
        array.scrub("g").await.expect("scrub");
        check_refused(array.export_pool("p").await, "being scrubbed");
        assert!(array.config().pool("p").is_some(), "it is declared as before");
        wait_until(&world, &array, "the scrub's end", |s| s.jobs.is_empty()).await;
        for _ in 0..2 {
            array.export_pool("p").await.expect("export");
            assert_eq!(array.config().drives.len(), 1);
            array.import_pool(specs(), false).await.expect("import");
            assert_eq!(array.config().groups[0].drives, ["g-0", "g-1", "g-2-2", "g-3"]);
            assert_eq!(array.config().volumes, std::slice::from_ref(&shape));
        }
        check_refused(array.import_pool(specs(), false).await, "already open on this array");
        world.sleep(Duration::from_secs(3)).await;
        let status = array.status().await.expect("status");
        assert_eq!(status[0].groups[0].raid.state, GroupState::Optimal, "{:?}", status[0].events);
        array.stop().await.expect("stop");
    });
}

/// A paused evacuation moves nothing until it is resumed.
#[test]
fn an_evacuation_waits_while_its_group_is_paused() {
    let model = model(20, 8);
    model.run(async |world| {
        let mut array = start(&world);
        let mut config = declaration(20, 8, vec![group("a", Level::Raid5, 0..4)]);
        array.apply(config.clone()).await.expect("apply");
        let mut host = Host::log_in(&world, 20).await;
        host.fill().await;
        config.groups.push(group("b", Level::Raid6, 4..8));
        config.pools[0].groups.push("b".to_owned());
        array.apply(config).await.expect("grow");
        array.steer_work("a", Steer::Pause).await.expect("pause");
        array.remove_group("p", "a").await.expect("remove");
        let used = array.status().await.expect("status")[0].jobs[0].progress.total_bytes;
        world.sleep(Duration::from_secs(60)).await;
        let waiting = array.status().await.expect("status")[0].jobs[0].clone();
        assert!(waiting.progress.done_bytes < used, "{waiting:?} of {used}");
        world.sleep(Duration::from_secs(60)).await;
        let later = array.status().await.expect("status")[0].jobs[0].clone();
        assert_eq!(later.progress, waiting.progress);
        host.fill().await;
        array.steer_work("a", Steer::Resume).await.expect("resume");
        let left = |s: &ControllerStatus| s.jobs.is_empty() && s.pools[0].group_spaces.len() == 1;
        wait_until(&world, &array, "the group's leaving", left).await;
        host.verify().await;
    });
}

#[test]
fn jobs_are_seen_and_can_be_stopped() {
    let model = model(19, 8);
    model.run(async |world| {
        let mut array = start(&world);
        let first = declaration(19, 8, vec![group("a", Level::Raid5, 0..4)]);
        array.apply(first).await.expect("apply");
        let mut host = Host::log_in(&world, 19).await;
        host.fill().await;
        let mut config: Config = array.config().clone();
        config.groups.push(group("b", Level::Raid6, 4..8));
        config.pools[0].groups.push("b".to_owned());
        array.apply(config).await.expect("grow");
        array.remove_group("p", "a").await.expect("remove");
        let jobs = array.status().await.expect("status")[0].jobs.clone();
        assert_eq!(jobs.len(), 1);
        assert_eq!((jobs[0].kind.as_str(), jobs[0].object.as_str()), ("evacuate", "a"));
        assert!(jobs[0].progress.total_bytes > 0);
        array.stop_jobs().await.expect("stop");
        wait_until(&world, &array, "the job's end", |s| s.jobs.is_empty()).await;
        let status = array.status().await.expect("status");
        assert!(status[0].pools[0].group_spaces[0].evacuating, "it was stopped, not finished");
        // Declared again, it stays.
        let mut config = array.config().clone();
        config.pools[0].leaving.clear();
        config.pools[0].groups = vec!["a".to_owned(), "b".to_owned()];
        array.apply(config).await.expect("stay");
        let status = array.status().await.expect("status");
        assert!(status[0].pools[0].group_spaces.iter().all(|g| !g.evacuating));
        assert_eq!(status[0].volumes[0].mapped_to, [Mapping { host: "host".to_owned(), lun: 0 }]);
        host.verify().await;
    });
}

/// A refused declaration took back what the last one had made, with its data, on controllers that it had not
/// come to.
#[test]
fn a_declaration_that_one_controller_refuses_takes_nothing_from_the_others() {
    let model = model(12, 3);
    model.disks().get("d2").expect("it is there").poke(0, &[7; 4096]);
    model.run(async |world| {
        let mut array = start_two(&world);
        let mut config = declaration(12, 3, vec![group("a", Level::Raid1, 0..2)]);
        config.controllers = 2;
        config.pools = vec![pool_on(1, "p", &["a"])];
        array.apply(config.clone()).await.expect("apply");
        let mut host = Host::log_in(&world, 12).await;
        host.fill().await;

        let mut refused = config.clone();
        refused.groups.push(group("b", Level::Raid0, 2..3));
        check_refused(array.apply(refused).await, "is not blank");
        host.verify().await;
        array.apply(config).await.expect("apply again");
        host.verify().await;
    });
}

/// A host that writes on, whatever it is asked: the groups were closed while it wrote, and the process ended
/// with a panic. Its session ends, what it waits for is completed, and everything is closed in order.
#[test]
fn a_stop_ends_the_sessions_of_hosts_that_write_on() {
    for (id, level, drives) in [(70, Level::Raid5, 3), (71, Level::Raid1, 2)] {
        let model = model(id.into(), drives);
        let config = || declaration(id, drives, vec![group("g", level, 0..drives)]);
        model.run(async |world| {
            let mut array = start(&world);
            array.apply(config()).await.expect("apply");
            let options = Options::new(portal(id), "iqn.2026-11.test:host", TARGET, 1);
            let session = Rc::new(Session::login(&world, &options).await.expect("log in"));
            let (written, ended) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
            for writer in 0..8_u64 {
                let (session, written, ended) = (session.clone(), written.clone(), ended.clone());
                world.spawn(async move {
                    let mut cdb = [0; 16];
                    (cdb[0], cdb[13]) = (0x8a, 8);
                    cdb[2..10].copy_from_slice(&(writer * 8).to_be_bytes());
                    let data = Pieces::copy_of(&[writer as u8; 4096]);
                    while session.command(Lun(0), cdb, data.clone(), 0).await.is_ok() {
                        written.set(written.get() + 1);
                    }
                    ended.set(ended.get() + 1);
                });
            }
            world.sleep(Duration::from_millis(200)).await;
            let before = written.get();
            array.stop().await.expect("stop");
            assert!(before > 100 && written.get() > before, "{level:?}: it wrote on");
            world.sleep(Duration::from_secs(1)).await;
            assert_eq!(ended.get(), 8, "{level:?}: its session ended");
        });
        model.run(async |world| {
            let mut array = start(&world);
            array.apply(config()).await.expect("apply");
            let parts = array.status().await.expect("status");
            let raid = &parts[0].groups[0].raid;
            assert!(!raid.reads_pinned && raid.journal.replayed == 0, "{level:?}: {raid:?}");
        });
    }
}
