//! How long a start takes that finds many pools, and a controller with many of them that changes its place.

use std::time::Duration;

use world_model::{DiskSpec, Model};

use super::deleting::Stored;
use super::rig::{DISK_BYTES, Host, TARGET, declaration, drive, group, start};
use crate::config::{Config, Level, PoolConfig};
use crate::{Array, Began, ControllerHandle, run_controller};

const ID: u8 = 67;

/// Groups that there are besides the first one, each on a drive of its own.
const OTHERS: usize = 7;
const LATENCY: Duration = Duration::from_millis(5);

/// Pool `p` with volume `v` on a group, and so many other groups, of which so many have a pool.
fn with_pools(groups: usize, pools: usize) -> Config {
    let mut config = declaration(ID, 1, vec![group("g", Level::Raid0, 0..1)]);
    for i in 1..=groups {
        config.drives.push(drive(i));
        config.groups.push(group(&format!("g{i}"), Level::Raid0, i..i + 1));
    }
    for i in 1..=pools {
        let pool = PoolConfig::new(format!("p{i}"), vec![format!("g{i}")]);
        config.pools.push(PoolConfig { page_bytes: 64 << 10, ..pool });
    }
    config
}

/// The time of the second start of an array, on drives that take so long for an I/O. Its host finds what it
/// wrote, and what was done is told in the order of the declaration.
fn second_start((groups, pools): (usize, usize), latency: Duration) -> Duration {
    let model = Model::new(1);
    for i in 0..=groups {
        model.disk(&format!("d{i}"), DiskSpec::new(DISK_BYTES).with_latency(latency));
    }
    let stored = Stored::default();
    model.run(async |world| {
        let mut array = start(&world).kept_by(Box::new(stored.clone()), None);
        array.apply(with_pools(groups, pools)).await.expect("created");
        let mut host = Host::log_in(&world, ID).await;
        host.fill().await;
        host.log_out().await;
        array.stop().await.expect("stopped");
    });
    model.run(async |world| {
        let mut array = start(&world).kept_by(Box::new(stored.clone()), stored.last());
        let began = world.now();
        let done = array.apply(with_pools(groups, pools)).await.expect("opened");
        let took = world.now().since(began);
        let opened: Vec<&str> =
            done.iter().filter_map(|line| line.strip_suffix(": opened, optimal")).collect();
        let declared: Vec<String> =
            array.config().groups.iter().map(|group| format!("group {}", group.name)).collect();
        assert_eq!(opened, declared);
        let mut host = Host::log_in(&world, ID).await;
        host.number = 1;
        host.verify().await;
        host.log_out().await;
        array.stop().await.expect("stopped");
        took
    })
}

/// Pools were opened one after the other: a controller with eight of them on drives with platters was away
/// for nine seconds when another node took it over.
#[test]
fn many_pools_open_in_little_more_time_than_one() {
    let (one, two, eight) = [0, 1, OTHERS].map(|pools| second_start((OTHERS, pools), LATENCY)).into();
    assert!(two - one < Duration::from_millis(20), "one pool {one:?}, two {two:?}");
    assert!(eight - one < Duration::from_millis(20), "one pool {one:?}, eight {eight:?}");
}

/// Groups were opened one after the other, too.
#[test]
fn many_groups_open_in_little_more_time_than_one() {
    let latency = Duration::from_millis(10);
    let [one, two, all] = [0, 1, 23].map(|others| second_start((others, others), latency));
    println!("one group {one:?}, two {two:?}, 24 {all:?}");
    assert!(two < one + 2 * latency, "one group {one:?}, two {two:?}");
    // At most 16 at a time, and 8 drives.
    assert!(all < 3 * one, "one group {one:?}, 24 {all:?}");
}

/// How long a controller with so many pools is away that ends and begins anew, on drives that take so long.
fn change_of_place(pools: usize, latency: Duration) -> Duration {
    let model = Model::new(1);
    for i in 0..=OTHERS {
        model.disk(&format!("d{i}"), DiskSpec::new(DISK_BYTES).with_latency(latency));
    }
    model.run(async |world| {
        let (handle, mailbox) = ControllerHandle::new(0);
        let (own, mailbox) = (handle.clone(), mailbox.lasting());
        let begin = || {
            world.spawn(run_controller(world.clone(), 0, mailbox.clone(), vec![own.clone()]));
        };
        begin();
        let mut array = Array::new(vec![handle], TARGET);
        array.apply(with_pools(OTHERS, pools)).await.expect("created");
        let began = world.now();
        let changed = array.change_places(&[0], async || {
            begin();
            Began::Now
        });
        assert!(changed.await.expect("it begins again").is_none());
        let took = world.now().since(began);
        let parts = array.status().await.expect("a status");
        assert_eq!(parts[0].pools.len(), pools + 1);
        array.stop().await.expect("stopped");
        took
    })
}

/// They were closed one after the other.
#[test]
fn many_pools_change_their_place_in_little_more_time_than_one() {
    let [one, two, eight] = [0, 1, OTHERS].map(|pools| change_of_place(pools, LATENCY));
    println!("one pool {one:?}, two {two:?}, eight {eight:?}");
    assert!(two < one + one / 4 && eight < one + one / 4, "one pool {one:?}, two {two:?}, eight {eight:?}");
}
