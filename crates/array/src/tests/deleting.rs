//! Pools and groups that are deleted: refused while something uses them, complete after a crash anywhere, and
//! no start finds them again.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use raid::{GroupState, OnDrive, examine};
use world::World;
use world_model::{Model, Outcome};

use super::caching::cached;
use super::rig::{TARGET, declaration, drive, group, model, start, wait_until};
use crate::config::{Config, Level, Made, PoolConfig};
use crate::pools::DELETING;
use crate::status::ControllerStatus;
use crate::{Array, ControlError, ControllerHandle, Keeper, Severity, run_controller};

/// What an array has stored: it outlives a power cut.
#[derive(Clone, Default)]
pub(super) struct Stored(Arc<Mutex<Option<(Config, Made)>>>);

impl Stored {
    pub(super) fn of(state: (Config, Made)) -> Stored {
        Stored(Arc::new(Mutex::new(Some(state))))
    }

    pub(super) fn last(&self) -> Option<(Config, Made)> {
        self.0.lock().expect("nobody panicked").clone()
    }
}

impl Keeper for Stored {
    fn keep(&mut self, config: &Config, made: &Made) -> Result<(), String> {
        *self.0.lock().expect("nobody panicked") = Some((config.clone(), made.clone()));
        Ok(())
    }
}

/// An array with the state that is stored, with two controllers.
pub(super) fn start_kept(world: &World, stored: &Stored) -> Array {
    let (handles, mailboxes): (Vec<_>, Vec<_>) = (0..2).map(ControllerHandle::new).unzip();
    for (index, mailbox) in mailboxes.into_iter().enumerate() {
        world.spawn(run_controller(world.clone(), index, mailbox, handles.clone()));
    }
    Array::new(handles, TARGET).kept_by(Box::new(stored.clone()), stored.last())
}

/// Pool `p` on the groups `g` and `h` of the second controller, without volumes.
fn two_groups(id: u8) -> Config {
    let groups = vec![group("g", Level::Raid5, 0..3), group("h", Level::Raid1, 3..5)];
    let mut config = declaration(id, 5, groups);
    (config.controllers, config.pools[0].controller) = (2, 1);
    (config.volumes, config.hosts) = (vec![], vec![]);
    config
}

pub(super) fn check_refused<T: std::fmt::Debug>(outcome: Result<T, ControlError>, part: &str) {
    let text = outcome.expect_err("it is refused").to_string();
    assert!(text.contains(part), "{text:?} does not say {part:?}");
}

/// The numbers of the drives that are not blank.
async fn labelled(world: &World, drives: usize) -> Vec<usize> {
    let mut found = Vec::new();
    for i in 0..drives {
        let drive = world.open_drive(&drive(i).spec).await.expect("open");
        if examine(&drive).await.expect("read") != OnDrive::Blank {
            found.push(i);
        }
    }
    found
}

fn has_told(parts: &[ControllerStatus], severity: Severity, text: &str) -> bool {
    parts.iter().flat_map(|p| &p.events).any(|e| e.severity == severity && e.to_string().contains(text))
}

#[test]
fn pools_and_groups_are_deleted_when_nothing_uses_them() {
    let (model, stored) = (model(60, 5), Stored::default());
    model.run(async |world| {
        let mut array = start_kept(&world, &stored);
        let empty = two_groups(60);
        let like = declaration(60, 0, vec![]);
        let used = Config { volumes: like.volumes, hosts: like.hosts, ..empty.clone() };
        array.apply(used.clone()).await.expect("apply");
        check_refused(array.delete_pool("p").await, "in use by volume \"v\"; delete its volumes first");
        check_refused(array.delete_pool("q").await, "not found");
        check_refused(array.delete_group("g").await, "in use by pool \"p\"");
        check_refused(array.delete_group("i").await, "not found");
        assert_eq!(array.config(), &used);

        array.apply(Config { hosts: vec![], ..used }).await.expect("unmap");
        array.delete_volume("v").await.expect("delete");
        assert_eq!(array.delete_pool("p").await.expect("delete")[0], "pool p: deleted");
        assert_eq!(*array.config(), Config { pools: vec![], ..empty.clone() });
        // The same name again: nothing of the old one is found.
        let again = array.apply(empty.clone()).await.expect("a new one");
        assert!(again.contains(&"pool p: created".to_owned()), "{again:?}");
        array.delete_pool("p").await.expect("delete");
        let other = PoolConfig { name: "other".into(), ..empty.pools[0].clone() };
        array.apply(Config { pools: vec![other], ..empty.clone() }).await.expect("another name");
        array.delete_pool("other").await.expect("delete");

        assert_eq!(array.delete_group("g").await.expect("delete"), ["group g: deleted"]);
        let parts = array.status().await.expect("status");
        let groups: Vec<&String> = parts.iter().flat_map(|p| &p.groups).map(|g| &g.name).collect();
        assert_eq!(groups, ["h"]);
        assert_eq!(array.config().drives, [drive(3), drive(4)]);
        assert_eq!(*array.made(), stored.last().expect("stored").1);
        assert!(array.made().deleted_groups.is_empty() && array.made().deleted_pools.is_empty());
        // The drives are blank: they are taken without being overwritten.
        let mut next = array.config().clone();
        next.drives.extend((0..3).map(drive));
        next.groups.push(group("g", Level::Raid1, 0..3));
        array.apply(next).await.expect("a new group");
        array.delete_group("g").await.expect("delete");
        array.delete_group("h").await.expect("delete");
        array.stop().await.expect("stop");
    });
    model.run(async |world| assert_eq!(labelled(&world, 5).await, Vec::<usize>::new()));
}

/// Deletes pool and groups; the power is cut after so many persistence points. How many there are.
fn delete_and_cut(model: &Model, stored: &Stored, points: Option<u64>) -> u64 {
    let mut begun = 0;
    let ended = model.run_until_crash(async |world| {
        let mut array = start_kept(&world, stored);
        array.apply(two_groups(61)).await.expect("apply");
        begun = model.disks().persistence_points();
        if let Some(points) = points {
            model.disks().cut_power_after(begun + points);
        }
        array.delete_pool("p").await.expect("delete the pool");
        array.delete_group("g").await.expect("delete g");
        array.delete_group("h").await.expect("delete h");
    });
    if ended == Outcome::PowerCut {
        model.reboot();
    }
    model.disks().keep_power();
    model.disks().persistence_points() - begun
}

/// Completes deletions as soon as no work on groups runs.
async fn finish_when_idle(world: &World, array: &mut Array) {
    let mut outcome = array.finish_interrupted().await;
    for _ in 0..1000 {
        if outcome.is_ok() {
            return;
        }
        world.sleep(Duration::from_millis(100)).await;
        outcome = array.finish_interrupted().await;
    }
    panic!("deletions are never completed: {outcome:?}");
}

#[test]
fn a_start_completes_a_deletion_that_a_power_cut_interrupted() {
    let points = delete_and_cut(&model(61, 5), &Stored::default(), None);
    assert!(points > 10, "{points} points");
    let mut completed = 0;
    for cut in 0..points {
        let (model, stored) = (model(61, 5), Stored::default());
        delete_and_cut(&model, &stored, Some(cut));
        model.run(async |world| {
            let (config, before) = stored.last().expect("stored");
            let begun = !before.deleted_pools.is_empty() || !before.deleted_groups.is_empty();
            completed += usize::from(begun);
            let mut array = start_kept(&world, &stored);
            array.apply(config).await.expect("the stored declaration");
            if let Err(error) = array.finish_interrupted().await {
                // A mirror is resynced, and cannot go to the other controller yet.
                assert!(error.to_string().contains("being resynced"), "cut {cut}: {error}");
                let parts = array.status().await.expect("status");
                let missing = &parts[1].missing[0];
                assert_eq!((missing.name.as_str(), missing.cause.as_str()), ("p", DELETING), "cut {cut}");
                finish_when_idle(&world, &mut array).await;
            }
            let (config, made) = stored.last().expect("stored");
            assert!(made.deleted_pools.is_empty() && made.deleted_groups.is_empty(), "cut {cut}: {made:?}");
            for pool in &before.deleted_pools {
                assert!(config.pool(pool).is_none(), "cut {cut}");
            }
            for group in before.deleted_groups.keys() {
                assert!(config.groups.iter().all(|g| g.name != *group), "cut {cut}");
            }
            let parts = array.status().await.expect("status");
            assert!(!has_told(&parts, Severity::Error, ""), "cut {cut}: {:?}", parts[0].events);
            assert!(!has_told(&parts, Severity::Warning, "label"), "cut {cut}: {:?}", parts[0].events);
            assert_eq!(config.groups.len(), parts.iter().map(|p| p.groups.len()).sum::<usize>(), "cut {cut}");
            // What is left can be deleted as ever.
            let working = |s: &ControllerStatus| s.groups.iter().any(|g| g.raid.reads_pinned);
            while array.status().await.expect("status").iter().any(working) {
                world.sleep(Duration::from_millis(100)).await;
            }
            if config.pool("p").is_some() {
                array.delete_pool("p").await.expect("the pool");
            }
            for group in &config.groups {
                array.delete_group(&group.name).await.expect("a group");
            }
            array.stop().await.expect("stop");
        });
        model.run(async |world| assert!(labelled(&world, 5).await.is_empty(), "cut {cut}"));
    }
    assert!(completed > 5, "{completed} of {points} cuts fell into a deletion");
}

#[test]
fn a_drive_that_is_away_keeps_its_label_and_a_warning_says_so() {
    let model = model(62, 5);
    model.run(async |world| {
        let mut array = start(&world);
        let mut config = declaration(62, 3, vec![group("g", Level::Raid5, 0..3)]);
        (config.pools, config.volumes, config.hosts) = (vec![], vec![], vec![]);
        array.apply(config).await.expect("apply");
        model.disks().get("d1").expect("it is there").kill();
        wait_until(&world, &array, "the failure", |s| s.groups[0].raid.state == GroupState::Degraded).await;
        let done = array.delete_group("g").await.expect("delete");
        assert_eq!(done, ["group g: deleted; not erased: drive d1"]);
        let parts = array.status().await.expect("status");
        assert!(has_told(&parts, Severity::Warning, "group g: drive d1 keeps its label"), "{parts:?}");
        assert!(array.config().drives.is_empty() && array.config().groups.is_empty());
        array.stop().await.expect("stop");
    });
    model.disks().get("d1").expect("it is there").resume();
    model.run(async |world| assert_eq!(labelled(&world, 3).await, [1]));
}

/// A drive of the group that meanwhile is in another one is left alone.
#[test]
fn a_drive_of_another_group_by_now_is_not_erased() {
    let (model, stored) = (model(63, 2), Stored::default());
    let single = |name: &str| {
        let mut config = declaration(63, 2, vec![group(name, Level::Raid1, 0..2)]);
        (config.controllers, config.pools, config.volumes, config.hosts) = (2, vec![], vec![], vec![]);
        config
    };
    model.run(async |world| {
        let mut array = start_kept(&world, &stored);
        array.apply(single("g")).await.expect("apply");
        let made = array.made().groups["g"];
        array.delete_group("g").await.expect("delete");
        array.apply(single("h")).await.expect("another group");
        array.stop().await.expect("stop");
        // The record of the first one is still there.
        let (config, mut made_later) = stored.last().expect("stored");
        let drives = (0..2).map(|i| (format!("d{i}"), drive(i))).collect();
        let record = crate::config::DeletedGroup { id: made.id, drives };
        made_later.deleted_groups.insert("g".into(), record);
        stored.clone().keep(&config, &made_later).expect("keep");
    });
    model.run(async |world| {
        let mut array = start_kept(&world, &stored);
        array.apply(stored.last().expect("stored").0).await.expect("apply");
        array.finish_interrupted().await.expect("nothing to erase");
        array.stop().await.expect("stop");
    });
    model.run(async |world| assert_eq!(labelled(&world, 2).await, [0, 1]));
}

#[test]
fn what_works_or_holds_undeclared_volumes_is_not_deleted() {
    let model = model(64, 5);
    model.run(async |world| {
        let mut array = start(&world);
        let mut config = declaration(64, 3, vec![group("g", Level::Raid5, 0..3)]);
        config.hosts = vec![];
        array.apply(config.clone()).await.expect("apply");
        let undeclared = Config { volumes: vec![], ..config.clone() };
        array.apply(undeclared).await.expect("the volume is no longer declared");
        check_refused(array.delete_pool("p").await, "volume \"v\" is on it, and not declared");
        assert!(array.made().deleted_pools.is_empty() && array.config().pool("p").is_some());
        array.apply(config.clone()).await.expect("declared again");
        array.delete_volume("v").await.expect("delete");
        array.delete_pool("p").await.expect("delete");
        array.scrub("g").await.expect("scrub");
        let before = array.config().clone();
        check_refused(array.delete_group("g").await, "being scrubbed");
        assert_eq!(*array.config(), before);
        assert!(array.made().deleted_groups.is_empty());
        wait_until(&world, &array, "the scrub's end", |s| s.jobs.is_empty()).await;
        array.delete_group("g").await.expect("delete");
        array.stop().await.expect("stop");
    });
}

#[test]
fn the_journal_of_a_deleted_pool_is_free_for_another_one() {
    let model = model(65, 4);
    model.run(async |world| {
        let mut array = start(&world);
        let mut config = cached(65, true);
        (config.volumes, config.hosts) = (vec![], vec![]);
        array.apply(config.clone()).await.expect("apply");
        check_refused(array.delete_group("j").await, "in use as the journal of pool \"p\"");
        array.delete_pool("p").await.expect("delete");
        config.pools[0].name = "q".into();
        let done = array.apply(config).await.expect("another pool with this journal");
        assert!(done.contains(&"pool q: created".to_owned()), "{done:?}");
        let parts = array.status().await.expect("status");
        assert!(!has_told(&parts, Severity::Error, ""), "{:?}", parts[0].events);
    });
}

/// A pool that lost a group for good: both can be deleted.
#[test]
fn a_pool_that_cannot_be_opened_is_deleted() {
    let (model, stored) = (model(66, 5), Stored::default());
    model.run(async |world| {
        let mut array = start_kept(&world, &stored);
        array.apply(two_groups(66)).await.expect("apply");
        array.stop().await.expect("stop");
    });
    (0..2).for_each(|i| model.disks().get(&format!("d{i}")).expect("it is there").kill());
    model.run(async |world| {
        let mut array = start_kept(&world, &stored);
        array.apply(stored.last().expect("stored").0).await.expect("what is missing is reported");
        array.delete_pool("p").await.expect("delete");
        let parts = array.status().await.expect("status");
        assert!(has_told(&parts, Severity::Warning, "group g still carries its metadata"), "{parts:?}");
        let done = array.delete_group("g").await.expect("delete");
        assert_eq!(done, ["group g: deleted; not erased: drive d0, d1"]);
        let next =
            PoolConfig { name: "q".into(), groups: vec!["h".into()], ..two_groups(66).pools.remove(0) };
        let config = Config { pools: vec![next], ..array.config().clone() };
        array.apply(config).await.expect("the other group is free");
        array.stop().await.expect("stop");
    });
}
