//! A change that is refused is not made, neither now nor by the next start: whichever of its saves fails.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use raid::GroupState;
use world::World;
use world_model::Model;

use super::deleting::Stored;
use super::rig::{declaration, drive, group, model, start, wait_until};
use crate::config::{Config, Level, Made, PoolConfig, Provisioning, VolumeConfig};
use crate::{Array, ControlError, Keeper};

/// Keeps so many forms, and then has no room.
#[derive(Clone)]
struct Full {
    stored: Stored,
    room: Arc<AtomicUsize>,
    puts_back: Arc<AtomicBool>,
}

impl Full {
    fn of(stored: &Stored) -> Full {
        let (room, puts_back) = (Arc::new(AtomicUsize::new(usize::MAX)), Arc::new(AtomicBool::new(true)));
        Full { stored: stored.clone(), room, puts_back }
    }
}

impl Keeper for Full {
    fn keep(&mut self, config: &Config, made: &Made) -> Result<(), String> {
        match self.room.load(Ordering::Relaxed) {
            0 => return Err("the disk is full".into()),
            usize::MAX => {}
            left => self.room.store(left - 1, Ordering::Relaxed),
        }
        self.stored.keep(config, made)
    }

    fn put_back(&mut self, config: &Config, made: &Made) -> Result<(), String> {
        match self.puts_back.load(Ordering::Relaxed) {
            true => self.stored.keep(config, made),
            false => Err("only read".into()),
        }
    }
}

fn start_full(world: &World, full: &Full) -> Array {
    start(world).kept_by(Box::new(full.clone()), full.stored.last())
}

/// Pool `p` on group `g` with volumes `v` and `u`, pool `q` on `h`, and a group `i` without a pool.
fn before() -> Config {
    let groups =
        vec![group("g", Level::Raid1, 0..2), group("h", Level::Raid1, 2..4), group("i", Level::Raid1, 4..6)];
    let mut config = declaration(70, 8, groups);
    config.pools[0].groups = vec!["g".into()];
    config.pools.push(PoolConfig { name: "q".into(), groups: vec!["h".into()], ..config.pools[0].clone() });
    config.volumes.push(VolumeConfig { name: "u".into(), ..config.volumes[0].clone() });
    config
}

const CHANGES: [&str; 10] = [
    "create volume",
    "grow",
    "delete volume",
    "snapshot",
    "create pool",
    "delete pool",
    "add group",
    "delete group",
    "create group",
    "unmap",
];

async fn change(array: &mut Array, what: &str) -> Result<Vec<String>, ControlError> {
    let mut next = array.config().clone();
    let volume = next.volumes[0].clone();
    match what {
        "create volume" => next.volumes.push(VolumeConfig { name: "n".into(), ..volume }),
        "grow" => next.volumes[0].len_bytes *= 2,
        "create pool" => {
            next.pools.push(PoolConfig {
                name: "n".into(),
                groups: vec!["i".into()],
                ..next.pools[0].clone()
            });
        }
        "add group" => next.pools[0].groups.push("i".into()),
        "create group" => next.groups.push(group("n", Level::Raid1, 6..8)),
        "unmap" => next.hosts[0].luns.clear(),
        "delete volume" => return array.delete_volume("u").await,
        "snapshot" => return array.clone_volume("v", "n").await,
        "delete pool" => return array.delete_pool("q").await,
        "delete group" => return array.delete_group("i").await,
        _ => unreachable!("{what}"),
    }
    array.apply(next).await
}

/// What is served: names of pools, groups and volumes.
async fn served(array: &Array) -> Vec<String> {
    let parts = array.status().await.expect("status");
    assert!(parts[0].missing.is_empty(), "{:?}", parts[0].missing);
    let mut names: Vec<String> = parts[0].groups.iter().map(|g| format!("group {}", g.name)).collect();
    names.extend(parts[0].pools.iter().map(|p| format!("pool {} {:?}", p.name, p.groups)));
    names.extend(parts[0].volumes.iter().map(|v| format!("volume {} {}", v.name, v.len_bytes)));
    names
}

/// A later life: what is declared and served, when all that was recorded is completed.
fn restarted(model: &Model, stored: &Stored) -> (Config, Vec<String>) {
    let found = Arc::new(Mutex::new(None));
    let gives = found.clone();
    model.run(async |world| {
        let mut array = start_full(&world, &Full::of(stored));
        array.apply(stored.last().expect("stored").0).await.expect("apply");
        for _ in 0..1000 {
            if array.finish_interrupted().await.is_ok() {
                break;
            }
            world.sleep(std::time::Duration::from_millis(100)).await;
        }
        let names = served(&array).await;
        array.stop().await.expect("stop");
        *gives.lock().expect("nobody panicked") = Some((array.config().clone(), names));
    });
    found.lock().expect("nobody panicked").take().expect("it ran")
}

#[test]
fn a_change_whose_save_fails_is_as_answered_now_and_after_a_restart() {
    let mut refused = 0;
    for what in CHANGES {
        let mut after = None;
        // Without a failure first: so many saves it takes.
        for room in [usize::MAX, 0, 1, 2, 3] {
            let (model, stored) = (model(70, 8), Stored::default());
            let mut outcome = None;
            model.run(async |world| {
                let full = Full::of(&stored);
                let mut array = start_full(&world, &full);
                array.apply(before()).await.expect("apply");
                let was = (array.config().clone(), served(&array).await);
                full.room.store(room, Ordering::Relaxed);
                let done = change(&mut array, what).await;
                let place = format!("{what}, room for {room}: {done:?}");
                if done.is_err() {
                    assert_eq!((array.config(), served(&array).await), (&was.0, was.1.clone()), "{place}");
                    assert!(array.state_fault().is_some_and(|(_, differs)| !differs), "{place}");
                }
                outcome = Some((done.is_ok(), was, place));
            });
            let (is_done, was, place) = outcome.expect("it ran");
            let then = restarted(&model, &stored);
            if room == usize::MAX {
                assert!(is_done, "{place}");
                after = Some(then);
                continue;
            }
            refused += usize::from(!is_done);
            match is_done {
                true => assert_eq!(Some(&then), after.as_ref(), "{place}"),
                false => assert_eq!(then, was, "{place}"),
            }
        }
    }
    assert!(refused > CHANGES.len(), "{refused} were refused: not only by the first save");
}

#[test]
fn what_cannot_be_taken_back_is_said_and_taken_back_later() {
    for what in CHANGES {
        let (model, stored) = (model(71, 8), Stored::default());
        model.run(async |world| {
            let full = Full::of(&stored);
            let mut array = start_full(&world, &full);
            array.apply(before()).await.expect("apply");
            full.room.store(1, Ordering::Relaxed);
            full.puts_back.store(false, Ordering::Relaxed);
            let done = change(&mut array, what).await;
            let fault = array.state_fault().map(|(_, differs)| differs);
            match &done {
                Ok(lines) => {
                    assert!(lines.iter().any(|l| l.contains("sav")) == fault.is_some(), "{what}: {lines:?}")
                }
                Err(error) => {
                    assert!(error.to_string().contains("a restart before that makes the change"), "{error}");
                    assert_eq!(fault, Some(true), "{what}");
                    // Nothing that is recorded is erased meanwhile.
                    let _ = array.finish_interrupted().await;
                    assert_eq!(
                        served(&array).await.iter().filter(|n| n.starts_with("volume")).count(),
                        2,
                        "{what}"
                    );
                }
            }
            full.room.store(usize::MAX, Ordering::Relaxed);
            full.puts_back.store(true, Ordering::Relaxed);
            array.settle();
            assert_eq!(array.state_fault(), None, "{what}");
            assert_eq!(
                stored.last().as_ref(),
                Some(&(array.config().clone(), array.made().clone())),
                "{what}"
            );
            array.stop().await.expect("stop");
        });
    }
}

#[test]
fn a_drive_that_was_replaced_stays_in_its_group_when_that_cannot_be_saved() {
    let (model, stored) = (model(72, 8), Stored::default());
    model.run(async |world| {
        let full = Full::of(&stored);
        let mut array = start_full(&world, &full);
        array.apply(before()).await.expect("apply");
        full.room.store(0, Ordering::Relaxed);
        let done = array.replace_drive("g", "d0", "d6", false).await.expect("its labels are changed");
        assert!(done.iter().any(|line| line.contains("declared so when that can be saved")), "{done:?}");
        assert!(array.config().drives.contains(&drive(6)), "it stays declared");
        wait_until(&world, &array, "the rebuild", |s| s.groups[0].raid.state == GroupState::Optimal).await;
        array.stop().await.expect("stop");
    });
    let (config, names) = restarted(&model, &stored);
    assert!(config.drives.contains(&drive(6)) && names.contains(&"group g".to_owned()), "{names:?}");
}

#[test]
fn a_recorded_deletion_of_a_pool_that_has_declared_volumes_is_void() {
    let (model, stored) = (model(73, 8), Stored::default());
    model.run(async |world| {
        let mut array = start_full(&world, &Full::of(&stored));
        array.apply(before()).await.expect("apply");
        array.stop().await.expect("stop");
        let (config, mut made) = stored.last().expect("stored");
        made.deleted_pools.insert("p".into());
        stored.clone().keep(&config, &made).expect("kept");
    });
    let (config, names) = restarted(&model, &stored);
    assert_eq!(config.pools.len(), 2);
    assert_eq!(names.iter().filter(|name| name.starts_with("volume")).count(), 2, "{names:?}");
    assert!(stored.last().expect("stored").1.deleted_pools.is_empty());
}

/// The storage below a pool's drives is full: its metadata cannot be written for now.
#[test]
fn what_a_pool_without_room_refuses_is_not_done_and_what_it_did_is_said() {
    let (model, stored) = (model(74, 8), Stored::default());
    let full =
        |from| (0..2).for_each(|i| model.disks().get(&format!("d{i}")).expect("a disk").set_full_from(from));
    model.run(async |world| {
        let mut array = start_full(&world, &Full::of(&stored));
        array.apply(before()).await.expect("apply");
        let was = served(&array).await;
        full(Some(0));
        for what in ["create volume", "grow", "snapshot"] {
            let error = change(&mut array, what).await.expect_err("no room").to_string();
            assert!(error.contains("no room"), "{what}: {error}");
            assert_eq!(served(&array).await, was, "{what}");
        }
        // Its deletion is recorded: it is done whatever happens.
        let done = change(&mut array, "delete volume").await.expect("deleted");
        assert!(done.iter().any(|line| line.contains("when that is possible")), "{done:?}");
        assert!(array.made().discarded.contains_key("u"), "until it is durable");
        full(None);
        world.sleep(std::time::Duration::from_secs(2)).await;
        array.finish_interrupted().await.expect("there is room");
        assert!(array.made().discarded.is_empty());
        array.clone_volume("v", "n").await.expect("the name is free");
        array.delete_volume("n").await.expect("deleted");
        array.stop().await.expect("stop");
    });
    let (config, names) = restarted(&model, &stored);
    assert_eq!(config.volumes, before().volumes[..1]);
    assert!(names.contains(&format!("volume v {}", super::rig::VOLUME_BYTES)), "{names:?}");
}

/// As a kill leaves it between the first save and the refusal.
#[test]
fn a_volume_that_is_declared_and_was_not_made_is_tried_again() {
    let (model, stored) = (model(75, 8), Stored::default());
    let thick = |name: &str| VolumeConfig {
        name: name.into(),
        len_bytes: 8 << 20,
        provisioning: crate::config::Provisioning::Thick,
        ..before().volumes[0].clone()
    };
    model.run(async |world| {
        let mut array = start_full(&world, &Full::of(&stored));
        let mut config = before();
        config.volumes[1] = thick("u");
        array.apply(config).await.expect("apply");
        array.stop().await.expect("stop");
        let (mut config, made) = stored.last().expect("stored");
        config.volumes.push(thick("n"));
        stored.clone().keep(&config, &made).expect("kept");
    });
    model.run(async |world| {
        let mut array = start_full(&world, &Full::of(&stored));
        array.apply(stored.last().expect("stored").0).await.expect("apply");
        assert!(!stored.last().expect("stored").1.volumes.contains("n"), "it was not made");
        let missing = array.status().await.expect("status").remove(0).missing;
        assert!(missing.len() == 1 && missing[0].cause.contains("is full"), "{missing:?}");
        assert_eq!(missing[0].reason, status::Reason::PoolFull, "{missing:?}");
        // It keeps nothing else from being changed, and is made when there is room.
        array.clone_volume("v", "s").await.expect("a snapshot");
        array.delete_volume("u").await.expect("delete");
        array.apply(array.config().clone()).await.expect("again");
        assert!(served(&array).await.contains(&format!("volume n {}", 8 << 20)));
        assert!(stored.last().expect("stored").1.volumes.contains("n"), "now it is");
        array.stop().await.expect("stop");
    });
}

/// A thick volume that no pool of the rig has room for.
fn too_thick(config: &Config) -> VolumeConfig {
    let thick = Provisioning::Thick;
    VolumeConfig { name: "n".into(), len_bytes: 1 << 30, provisioning: thick, ..config.volumes[0].clone() }
}

#[test]
fn a_refused_declaration_grows_no_volume() {
    let (model, stored) = (model(77, 8), Stored::default());
    model.run(async |world| {
        let mut array = start_full(&world, &Full::of(&stored));
        array.apply(before()).await.expect("apply");
        let mut next = before();
        next.volumes[0].len_bytes *= 2;
        next.volumes.push(too_thick(&next));
        let now = served(&array).await;
        let refused = array.apply(next).await.expect_err("there is no room").to_string();
        assert!(!refused.contains("grown"), "{refused}");
        assert_eq!((served(&array).await, array.config()), (now, &before()));
        array.stop().await.expect("stop");
    });
    // A LU has the size that it was told of: what the pool has, the next start shows.
    let (config, names) = restarted(&model, &stored);
    assert_eq!(config, before());
    assert!(names.contains(&format!("volume v {}", before().volumes[0].len_bytes)), "{names:?}");
}

#[test]
fn what_has_grown_before_a_declaration_was_refused_is_said_and_stays() {
    let (model, stored) = (model(78, 8), Stored::default());
    let mut grown = before();
    grown.volumes[0].len_bytes *= 2;
    model.run(async |world| {
        let mut array = start_full(&world, &Full::of(&stored));
        array.apply(before()).await.expect("apply");
        // The second one finds no room for its map.
        let mut next = grown.clone();
        next.volumes[1].len_bytes = 1 << 60;
        let refused = array.apply(next).await.expect_err("it is too long").to_string();
        let told = format!("volume v was grown to {} bytes all the same", grown.volumes[0].len_bytes);
        assert!(refused.contains(&told) && !refused.contains("volume u was"), "{refused}");
        assert_eq!(array.config(), &grown);
        assert_eq!(stored.last().expect("stored").0, grown);
        array.stop().await.expect("stop");
    });
    let (config, names) = restarted(&model, &stored);
    assert_eq!(config, grown);
    assert!(names.contains(&format!("volume v {}", grown.volumes[0].len_bytes)), "{names:?}");
}

/// As an older data directory leaves it.
#[test]
fn a_volume_that_no_declaration_has_is_told_and_deleted_or_declared() {
    let (model, stored) = (model(76, 8), Stored::default());
    model.run(async |world| {
        let mut array = start_full(&world, &Full::of(&stored));
        array.apply(Config { volumes: before().volumes[..1].to_vec(), ..before() }).await.expect("apply");
        let older = stored.last().expect("stored");
        array.apply(before()).await.expect("u");
        array.clone_volume("v", "s").await.expect("s");
        array.stop().await.expect("stop");
        stored.clone().keep(&older.0, &older.1).expect("kept");
    });
    model.run(async |world| {
        let mut array = start_full(&world, &Full::of(&stored));
        array.apply(stored.last().expect("stored").0).await.expect("apply");
        let undeclared = async |array: &Array| array.overview().await.expect("overview").remove(0).undeclared;
        let of = |name: &str| ("p".to_owned(), name.to_owned());
        assert_eq!(undeclared(&array).await, [of("s"), of("u")]);
        let done = array.delete_volume("s").await.expect("deleted");
        assert!(done.contains(&"volume s: deleted".to_owned()), "{done:?}");
        assert_eq!(undeclared(&array).await, [of("u")]);
        // A snapshot that is refused is deleted by its name: that is not its own here.
        let refused = array.clone_volume("v", "u").await.expect_err("the name is taken").to_string();
        assert!(refused.contains("pool \"p\" has one of this name with its data"), "{refused}");
        assert_eq!(undeclared(&array).await, [of("u")], "it is there as it was");
        let done = array.apply(before()).await.expect("declared again");
        assert!(done.contains(&"volume u: is in pool p, with its data".to_owned()), "{done:?}");
        assert_eq!(undeclared(&array).await, []);
        array.delete_volume("u").await.expect("deleted");
        assert_eq!(undeclared(&array).await, []);
        array.stop().await.expect("stop");
    });
}
