//! Objects that a declaration could be mistaken about: volumes of one name in two pools, volumes whose pool
//! is away, changes that a pool refuses, groups that a journal still needs, drives that are not what they
//! seem.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use world::World;
use world_model::Model;

use super::caching::{cache, cached, cut_after};
use super::deleting::{Stored, check_refused};
use super::rig::{DISK_BYTES, Host, declaration, drive, group, model, start};
use crate::config::{CachePolicy, Config, Level, Made, PoolConfig, VolumeConfig};
use crate::{Array, Control, Keeper};

const ID: u8 = 61;
const TERABYTES: u64 = 1 << 50;

/// An array with the state that is stored.
fn start_kept(world: &World, stored: &Stored) -> Array {
    start(world).kept_by(Box::new(stored.clone()), stored.last())
}

/// The declaration with pool `q` on the mirror `h` of these drives, the last ones.
fn with_q(mut config: Config, drives: Range<usize>) -> Config {
    let declared = config.drives.len();
    config.drives.extend((declared..drives.end).map(drive));
    config.groups.push(group("h", Level::Raid1, drives));
    config.pools.push(PoolConfig { page_bytes: 64 << 10, ..PoolConfig::new("q".into(), vec!["h".into()]) });
    config
}

/// Pools `p` with volume `v`, and `q`, each on a mirror of its own.
fn two_pools() -> Config {
    with_q(declaration(ID, 4, vec![group("g", Level::Raid1, 0..2)]), 2..4)
}

/// The volume `v`, in this pool, with so many bytes.
fn volume_in(pool: &str, len_bytes: u64) -> VolumeConfig {
    VolumeConfig { physical_block_bytes: 512, ..VolumeConfig::new("v".into(), pool.into(), len_bytes) }
}

/// A host writes volume `v`, and the array stops. Gives the state that it had.
fn written(model: &Model, config: Config) -> (Config, Made) {
    let stored = Stored::default();
    model.run(async |world| {
        let mut array = start_kept(&world, &stored);
        array.apply(config).await.expect("apply");
        let mut host = Host::log_in(&world, ID).await;
        host.fill().await;
        host.log_out().await;
        array.stop().await.expect("stop");
    });
    stored.last().expect("it was stored")
}

/// The volume has what the host wrote at its first turn.
async fn verify(world: &World) {
    verify_turn(world, 1).await;
}

async fn verify_turn(world: &World, number: u8) {
    let mut host = Host::log_in(world, ID).await;
    host.number = number;
    host.verify().await;
    host.log_out().await;
}

async fn is_open(array: &Array, pool: &str) -> bool {
    array.status().await.expect("status").iter().flat_map(|part| &part.pools).any(|p| p.name == pool)
}

#[test]
fn neither_a_refused_creation_nor_a_deletion_touches_a_volume_of_that_name_in_another_pool() {
    let model = model(ID.into(), 4);
    let (config, made) = written(&model, two_pools());
    model.run(async |world| {
        // An earlier form of the state, which does not have the volume.
        let mut earlier = (Config { volumes: vec![], hosts: vec![], ..config.clone() }, made.clone());
        earlier.1.volumes.clear();
        let mut array = start_kept(&world, &Stored::of(earlier.clone()));
        array.apply(earlier.0.clone()).await.expect("apply");
        let in_q = |len_bytes| Config { volumes: vec![volume_in("q", len_bytes)], ..earlier.0.clone() };
        check_refused(array.apply(in_q(TERABYTES)).await, "v");
        array.apply(in_q(4 << 20)).await.expect("made in q");
        array.delete_volume("v").await.expect("deleted in q");
        array.stop().await.expect("stop");
    });
    model.run(async |world| {
        let mut array = start_kept(&world, &Stored::of((config.clone(), made.clone())));
        array.apply(config.clone()).await.expect("apply");
        verify(&world).await;
    });
}

#[test]
fn a_volume_that_is_deleted_while_its_pool_is_away_is_deleted_when_it_is_back_and_its_name_is_taken_until_then()
 {
    let model = model(62, 4);
    let mut declared = two_pools();
    declared.volumes.push(VolumeConfig { name: "w".into(), ..volume_in("q", 1 << 20) });
    let (config, made) = written(&model, declared);
    let disk = |i: usize| model.disks().get(&format!("d{i}")).expect("it is there");
    model.run(async |world| {
        (0..2).for_each(|i| disk(i).kill());
        let stored = Stored::of((config.clone(), made.clone()));
        let mut array = start_kept(&world, &stored);
        array.apply(Config { hosts: vec![], ..config.clone() }).await.expect("apply");
        let done = array.delete_volume("v").await.expect("it is deleted later");
        assert!(done.iter().any(|line| line.contains("when pool p is served again")), "{done:?}");
        assert!(array.config().volume("v").is_none());
        for pool in ["p", "q"] {
            let mut again = array.config().clone();
            again.volumes.push(volume_in(pool, 4 << 20));
            check_refused(array.apply(again).await, "still to be deleted");
        }
        check_refused(array.clone_volume("w", "v").await, "still to be deleted");
        array.finish_interrupted().await.expect("nothing can be done yet");
        (0..2).for_each(|i| disk(i).resume());
        array.apply(array.config().clone()).await.expect("the pool is back");
        assert!(is_open(&array, "p").await);
        let done = array.finish_interrupted().await.expect("now it can");
        assert!(done.iter().any(|line| line == "volume v: deleted"), "{done:?}");
        let again = Config { volumes: vec![volume_in("p", 4 << 20)], ..config.clone() };
        let done = array.apply(again).await.expect("the name is free");
        assert!(done.iter().any(|line| line == "volume v: created"), "{done:?}");
    });
}

#[test]
fn a_growth_that_the_pool_refuses_changes_nothing_and_a_state_that_has_it_is_served_as_it_is() {
    let model = model(63, 4);
    let (mut config, made) = written(&model, two_pools());
    model.run(async |world| {
        let mut array = start_kept(&world, &Stored::of((config.clone(), made.clone())));
        array.apply(config.clone()).await.expect("apply");
        let larger = Config { volumes: vec![volume_in("p", u64::MAX >> 2 & !4095)], ..config.clone() };
        array.apply(larger).await.expect_err("no pool is so large");
        assert_eq!(array.config().volumes[0].len_bytes, 4 << 20);
        assert!(array.status().await.expect("status").iter().all(|part| part.missing.is_empty()));
        verify(&world).await;
        array.stop().await.expect("stop");
    });
    // As an older masu kept it.
    config.volumes[0].len_bytes = u64::MAX >> 2 & !4095;
    model.run(async |world| {
        let mut array = start_kept(&world, &Stored::of((config.clone(), made.clone())));
        array.apply(config.clone()).await.expect("apply");
        verify(&world).await;
    });
}

#[test]
fn the_cache_tells_volumes_of_one_name_in_two_pools_apart() {
    let model = model(64, 6);
    let mut config = with_q(cached(ID, true), 4..6);
    config.volumes[0].pool = "q".into();
    // A volume v in pool p that nothing declares: the cache takes it over with the journal of its pool.
    let mut before = config.clone();
    before.volumes[0].pool = "p".into();
    written(&model, before);
    model.run(async |world| {
        let mut array = start_kept(&world, &Stored::default());
        array.apply(config.clone()).await.expect("apply");
        let mut host = Host::log_in(&world, ID).await;
        host.number = 6;
        host.fill().await;
        host.verify().await;
        host.log_out().await;
        assert_eq!(cache(&array).await.units.len(), 1, "of the declared volume");
        array.stop().await.expect("stop");
    });
    model.run(async |world| {
        let mut array = start_kept(&world, &Stored::default());
        array.apply(config).await.expect("apply");
        verify_turn(&world, 7).await;
    });
}

#[test]
fn the_group_of_a_journal_in_use_is_neither_deleted_nor_given_to_a_pool() {
    let model = model(65, 4);
    let stored = Stored::default();
    cut_after(&model, async |world| {
        let mut array = start_kept(&world, &stored);
        array.apply(cached(ID, true)).await.expect("apply");
        let mut host = Host::log_in(&world, ID).await;
        host.fill().await;
        array.apply(cached(ID, false)).await.expect("it takes effect at the next start");
        check_refused(array.delete_group("j").await, "uses it as its journal");
        let mut taken = cached(ID, false);
        taken.pools.push(PoolConfig::new("q".into(), vec!["j".into()]));
        check_refused(array.apply(taken).await, "uses it as its journal");
        host.fill().await;
    });
    model.run(async |world| {
        let (config, _) = stored.last().expect("stored");
        let mut array = start_kept(&world, &stored);
        array.apply(config).await.expect("apply");
        assert!(!is_open(&array, "p").await, "it lacks acknowledged writes");
        let missing = array.status().await.expect("status").remove(0).missing;
        assert!(
            missing.iter().any(|m| format!("{m:?}").contains("declare journal = \\\"j\\\"")),
            "{missing:?}"
        );
        check_refused(array.delete_group("j").await, "acknowledged writes");
        let mut taken = cached(ID, false);
        taken.pools.push(PoolConfig::new("q".into(), vec!["j".into()]));
        array.apply(taken).await.expect_err("it is no empty group");
        // As it was declared, everything is there.
        array.apply(cached(ID, true)).await.expect("declared again");
        verify_turn(&world, 2).await;
    });
}

#[test]
fn no_journal_is_made_in_a_group_that_holds_a_pool() {
    let model = model(66, 4);
    let (config, made) = written(&model, two_pools());
    model.run(async |world| {
        // An earlier form of the state, which has pool q alone.
        let mut earlier = config.clone();
        earlier.pools.remove(0);
        (earlier.volumes, earlier.hosts) = (vec![], vec![]);
        earlier.cache = cached(ID, true).cache;
        let mut made = made.clone();
        made.pools.remove("p");
        made.volumes.clear();
        let mut array = start_kept(&world, &Stored::of((earlier.clone(), made)));
        array.apply(earlier.clone()).await.expect("apply");
        earlier.pools[0].journal = Some("g".into());
        check_refused(array.apply(earlier).await, "holds pool \"p\"");
        array.stop().await.expect("stop");
    });
    model.run(async |world| {
        let mut array = start_kept(&world, &Stored::of((config.clone(), made.clone())));
        array.apply(config.clone()).await.expect("apply");
        verify(&world).await;
    });
}

#[test]
fn a_refused_import_leaves_the_labels_to_their_array() {
    let model = model(67, 4);
    let stored = Stored::default();
    cut_after(&model, async |world| {
        let mut array = start_kept(&world, &stored);
        array.apply(cached(ID, true)).await.expect("apply");
        Host::log_in(&world, ID).await.fill().await;
    });
    model.run(async |world| {
        let mut other = start(&world);
        let empty = Config { id: crate::config::ArrayId([9; 16]), ..Config::empty(super::rig::TARGET) };
        other.apply(empty).await.expect("apply");
        let drives = (0..2).map(|i| drive(i).spec).collect();
        check_refused(other.import_pool(drives, true).await, "export the pool there");
        other.stop().await.expect("stop");
    });
    model.run(async |world| {
        let mut array = start_kept(&world, &stored);
        array.apply(cached(ID, true)).await.expect("apply");
        verify(&world).await;
    });
}

/// What a start makes of RAID 5 on d0 to d2 after `harm`: the group's state, and the data are there.
fn degraded_after(seed: u64, harm: impl Fn(&Model)) {
    let model = model(seed, 4);
    let mut config = declaration(ID, 4, vec![group("g", Level::Raid5, 0..3)]);
    config.groups.push(group("h", Level::Raid0, 3..4));
    let stored = written(&model, config.clone());
    harm(&model);
    model.run(async |world| {
        let mut array = start_kept(&world, &Stored::of(stored.clone()));
        array.apply(config.clone()).await.expect("apply");
        assert!(is_open(&array, "p").await);
        verify(&world).await;
    });
}

fn copy(model: &Model, from: &str, to: &str) {
    let disk = |name: &str| model.disks().get(name).expect("it is there");
    let len = usize::try_from(DISK_BYTES).expect("small");
    disk(to).poke(0, &disk(from).peek(0, len));
}

#[test]
fn a_copy_of_another_member_in_the_place_of_a_lost_one_is_left_out() {
    degraded_after(68, |model| {
        copy(model, "d1", "d0");
        // It is older than its label tells.
        let disk = model.disks().get("d0").expect("it is there");
        disk.poke(1 << 20, &[0xee; 3 << 20]);
    });
}

#[test]
fn a_drive_of_another_group_in_the_place_of_a_lost_one_is_left_out() {
    degraded_after(69, |model| copy(model, "d3", "d0"));
}

#[test]
fn a_declaration_that_says_something_else_of_a_member_than_what_is_open_is_refused() {
    let model = model(71, 6);
    model.run(async |world| {
        let mut array = start_kept(&world, &Stored::default());
        let mut config = two_pools();
        config.drives.extend((4..6).map(drive));
        array.apply(config.clone()).await.expect("apply");
        let mut other = config.clone();
        other.groups[0].drives[1] = "d4".into();
        check_refused(array.apply(other).await, "still a member");
        let mut moved = config.clone();
        moved.drives[1].spec = moved.drives[5].spec.clone();
        check_refused(array.apply(moved).await, "is open as");
        array.apply(config).await.expect("as it is");
    });
}

#[test]
fn a_group_that_a_refused_declaration_gave_to_a_pool_leaves_it_again() {
    let model = model(72, 6);
    let stored = Stored::default();
    model.run(async |world| {
        let mut array = start_kept(&world, &stored);
        let mut config = two_pools();
        config.pools.truncate(1);
        array.apply(config.clone()).await.expect("apply");
        let mut more = config.clone();
        more.drives.extend((4..6).map(drive));
        more.groups.push(group("k", Level::Raid1, 4..6));
        more.pools[0].groups.extend(["h".into(), "k".into()]);
        more.volumes.push(VolumeConfig { name: "w".into(), ..volume_in("p", TERABYTES) });
        check_refused(array.apply(more).await, "w");
        let mut host = Host::log_in(&world, ID).await;
        host.fill().await;
        host.log_out().await;
        // Group h was there before, and is free.
        array.delete_group("h").await.expect("no pool has it");
        array.stop().await.expect("stop");
    });
    model.run(async |world| {
        let (config, _) = stored.last().expect("stored");
        start_kept(&world, &stored).apply(config).await.expect("apply");
        verify(&world).await;
    });
}

/// Keeps every form of the state.
#[derive(Clone, Default)]
struct All(Arc<Mutex<Vec<(Config, Made)>>>);

impl Keeper for All {
    fn keep(&mut self, config: &Config, made: &Made) -> Result<(), String> {
        self.0.lock().expect("nobody panicked").push((config.clone(), made.clone()));
        Ok(())
    }
}

#[test]
fn an_array_that_was_killed_at_any_step_of_a_change_starts_and_serves_what_it_had() {
    let model = model(73, 6);
    let all = All::default();
    model.run(async |world| {
        let mut array = start(&world).kept_by(Box::new(all.clone()), None);
        let mut config = two_pools();
        config.drives.extend((4..6).map(drive));
        array.apply(config.clone()).await.expect("apply");
        let mut host = Host::log_in(&world, ID).await;
        host.fill().await;
        host.log_out().await;
        array.clone_volume("v", "s").await.expect("cloned");
        let with = |config: &Config, name: &str, len| {
            let mut next = config.clone();
            next.volumes.push(VolumeConfig { name: name.into(), ..volume_in("p", len) });
            next
        };
        array.apply(with(array.config(), "w", TERABYTES)).await.expect_err("no room");
        array.apply(with(array.config(), "w", 4 << 20)).await.expect("room");
        array.delete_volume("w").await.expect("deleted");
        array.delete_snapshot("s").await.expect("deleted");
        let mut next = array.config().clone();
        next.groups.push(group("k", Level::Raid1, 4..6));
        next.spares = vec!["d0".into()];
        array.apply(next.clone()).await.expect_err("d0 is no spare");
        next.spares.clear();
        array.apply(next).await.expect("a group");
        array.delete_group("k").await.expect("deleted");
        array.delete_pool("q").await.expect("deleted");
        array.stop().await.expect("stop");
    });
    let states = all.0.lock().expect("nobody panicked").clone();
    // Those after the first declaration was in force, when the host had written.
    let lives: Vec<_> = states.into_iter().filter(|(_, made)| made.volumes.contains("v")).collect();
    assert!(lives.len() > 15, "{}", lives.len());
    for (config, made) in lives {
        model.run(async |world| {
            let mut array = start_kept(&world, &Stored::of((config.clone(), made.clone())));
            array.apply(config.clone()).await.unwrap_or_else(|e| panic!("{e}: {made:?}"));
            verify(&world).await;
            array.stop().await.expect("stop");
        });
    }
}

#[test]
fn a_refused_declaration_leaves_the_cache_policy_as_it_was() {
    let model = model(74, 4);
    model.run(async |world| {
        let mut array = start_kept(&world, &Stored::default());
        let mut config = cached(ID, true);
        config.volumes[0].cache = CachePolicy::WriteThrough;
        array.apply(config.clone()).await.expect("apply");
        let mut other = config.clone();
        other.volumes[0].cache = CachePolicy::WriteBack;
        other.volumes.push(VolumeConfig { name: "w".into(), ..volume_in("p", TERABYTES) });
        check_refused(array.apply(other).await, "w");
        assert_eq!(cache(&array).await.units[0].policy, CachePolicy::WriteThrough);
    });
}

#[test]
fn a_pool_that_cannot_be_opened_as_declared_is_not_served_without_its_journal() {
    let model = model(75, 6);
    let stored = Stored::default();
    let config = with_q(cached(ID, true), 4..6);
    cut_after(&model, async |world| {
        start_kept(&world, &stored).apply(config.clone()).await.expect("apply");
        let mut host = Host::log_in(&world, ID).await;
        host.fill().await;
        host.fill().await;
    });
    let disk = |i: usize| model.disks().get(&format!("d{i}")).expect("it is there");
    // Group h is another pool's: pool p cannot have it.
    let mut wrong = config.clone();
    wrong.pools.pop();
    wrong.pools[0].groups.push("h".into());
    model.run(async |world| {
        (0..2).for_each(|i| disk(i).kill());
        let mut array = start_kept(&world, &stored);
        array.apply(config.clone()).await.expect("p is away");
        check_refused(array.apply(wrong.clone()).await, "not served");
        (0..2).for_each(|i| disk(i).resume());
    });
    let (_, made) = stored.last().expect("stored");
    model.run(async |world| {
        let mut array = start_kept(&world, &Stored::of((wrong.clone(), made.clone())));
        array.apply(wrong.clone()).await.expect("p cannot be opened so");
        assert!(!is_open(&array, "p").await);
        array.stop().await.expect("stop");
    });
    model.run(async |world| {
        start_kept(&world, &stored).apply(config.clone()).await.expect("apply");
        verify_turn(&world, 2).await;
    });
}

#[test]
fn the_owner_of_another_pool_deletes_nothing() {
    let model = model(70, 4);
    let (config, made) = written(&model, two_pools());
    model.run(async |world| {
        let mut array = start_kept(&world, &Stored::of((config.clone(), made.clone())));
        array.apply(config.clone()).await.expect("apply");
        let delete = Control::DeleteVolume { pool: "q".into(), name: "v".into() };
        check_refused(array.controllers()[0].ask(delete).await, "not found");
        verify(&world).await;
    });
}
