//! What every registry must do, checked with two clients of one store. Panics at the first difference.

use std::rc::Rc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{Either, select};
use world::World;

use crate::{Entry, Key, Registry, RegistryError, VALUE_LEN_MAX, Version, Watch};

/// A watch must say something within this time.
const WATCHED_WITHIN: Duration = Duration::from_secs(5);
/// Tasks that change one key, and how often each does.
const TASKS: u64 = 4;
const CHANGES: u64 = 10;

/// Checks an empty store through two of its clients. `lease` is how long leases are: long enough for a busy
/// machine to renew one after a third of it, short enough to wait for.
pub async fn check(world: &World, one: Rc<dyn Registry>, two: Rc<dyn Registry>, lease: Duration) {
    versions(&*one, &*two).await;
    tries(&*one, &*two).await;
    limits(&*one).await;
    counts(world, [one.clone(), two.clone()]).await;
    leases(world, &*one, &*two, lease).await;
    watches(world, &*one, &*two, lease).await;
}

fn key(name: &str) -> Key {
    Key::new(name).expect("a key")
}

async fn value(registry: &dyn Registry, key: &Key) -> Option<Vec<u8>> {
    registry.get(key).await.expect("read").map(|entry| entry.value)
}

async fn versions(one: &dyn Registry, two: &dyn Registry) {
    let name = key("versions/a");
    assert_eq!(one.get(&name).await, Ok(None));
    let absent = Err(RegistryError::Conflict { found: None });
    assert_eq!(one.compare_and_put(&name, Some(Version(1)), b"x", None).await, absent);
    let first = one.compare_and_put(&name, None, b"first", None).await.expect("put");
    assert_eq!(two.get(&name).await, Ok(Some(Entry { version: first, value: b"first".into() })));
    let present = Err(RegistryError::Conflict { found: Some(first) });
    assert_eq!(two.compare_and_put(&name, None, b"x", None).await, present);
    let second = two.compare_and_put(&name, Some(first), b"second", None).await.expect("put");
    assert!(second > first);
    let stale = Err(RegistryError::Conflict { found: Some(second) });
    assert_eq!(one.compare_and_put(&name, Some(first), b"x", None).await, stale);
    assert_eq!(
        one.compare_and_delete(&name, first).await,
        Err(RegistryError::Conflict { found: Some(second) })
    );
    one.compare_and_delete(&name, second).await.expect("deleted");
    assert_eq!(two.get(&name).await, Ok(None));
    let absent = Err(RegistryError::Conflict { found: None });
    assert_eq!(two.compare_and_put(&name, Some(second), b"x", None).await, absent);
    let third = two.compare_and_put(&name, None, b"", None).await.expect("put");
    assert!(third > second, "a version is never that of another value");
    assert_eq!(value(one, &name).await, Some(vec![]));

    for (name, value) in [("list/b", "2"), ("list/a", "1"), ("lists", "3")] {
        one.compare_and_put(&key(name), None, value.as_bytes(), None).await.expect("put");
    }
    let listed = two.list("list/").await.expect("listed");
    let listed: Vec<(&str, &[u8])> = listed.iter().map(|(k, e)| (k.as_str(), &e.value[..])).collect();
    assert_eq!(listed, [("list/a", &b"1"[..]), ("list/b", b"2")]);
}

/// A trial is seen nowhere.
async fn tries(one: &dyn Registry, two: &dyn Registry) {
    let before = two.list("").await.expect("listed");
    assert_eq!(one.examine().await, Ok(None), "it takes values, and is whole");
    assert_eq!(two.list("").await.expect("listed"), before);
}

async fn limits(one: &dyn Registry) {
    let name = key("limits/long");
    let long = vec![7; VALUE_LEN_MAX + 1];
    let refused = one.compare_and_put(&name, None, &long, None).await;
    assert!(matches!(refused, Err(RegistryError::Limit { .. })), "{refused:?}");
    one.compare_and_put(&name, None, &long[1..], None).await.expect("the longest");
    assert_eq!(value(one, &name).await, Some(long[1..].to_vec()));
}

/// Nothing is lost when several change one key at once.
async fn counts(world: &World, clients: [Rc<dyn Registry>; 2]) {
    let name = key("counts/n");
    let number = |entry: &Option<Entry>| -> u64 {
        let text = entry.as_ref().map(|entry| String::from_utf8_lossy(&entry.value).into_owned());
        text.map_or(0, |text| text.parse().expect("a number"))
    };
    for task in 0..TASKS {
        let (name, client) = (name.clone(), clients[(task % 2) as usize].clone());
        world.spawn(async move {
            for _ in 0..CHANGES {
                loop {
                    let entry = client.get(&name).await.expect("read");
                    let next = (number(&entry) + 1).to_string();
                    let version = entry.map(|entry| entry.version);
                    match client.compare_and_put(&name, version, next.as_bytes(), None).await {
                        Ok(_) => break,
                        Err(RegistryError::Conflict { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        });
    }
    for _ in 0..1000 {
        world.sleep(Duration::from_millis(20)).await;
        if number(&clients[0].get(&name).await.expect("read")) == TASKS * CHANGES {
            break;
        }
    }
    world.sleep(Duration::from_millis(50)).await;
    assert_eq!(number(&clients[1].get(&name).await.expect("read")), TASKS * CHANGES);
}

async fn leases(world: &World, one: &dyn Registry, two: &dyn Registry, time: Duration) {
    let (bound, kept, free) = (key("leases/bound"), key("leases/kept"), key("leases/free"));
    let lease = one.grant(time).await.expect("a lease");
    let other = one.grant(time).await.expect("a lease");
    assert_ne!(lease, other);
    let version = one.compare_and_put(&bound, None, b"1", Some(lease)).await.expect("put");
    one.compare_and_put(&free, None, b"1", None).await.expect("put");
    one.compare_and_put(&kept, None, b"1", Some(lease)).await.expect("put");
    // It passes to another lease, and then to none: the first one's end does not take it away.
    let kept_version = one.get(&kept).await.expect("read").expect("there").version;
    let moved = two.compare_and_put(&kept, Some(kept_version), b"2", Some(other)).await.expect("put");
    two.compare_and_put(&kept, Some(moved), b"3", None).await.expect("put");
    let left = two.time_left(lease).await.expect("it lives");
    assert!(left <= time, "{left:?} of {time:?}");
    for _ in 0..6 {
        world.sleep(time / 3).await;
        one.keep_alive(lease).await.expect("renewed in time");
    }
    let renewed = two.time_left(lease).await.expect("it lives");
    // A whole second may be counted less.
    let least = (time - time / 4).saturating_sub(Duration::from_secs(1));
    assert!(renewed <= time && renewed >= least, "{renewed:?} of {time:?}");
    assert_eq!(value(two, &bound).await, Some(b"1".into()), "a lease that is renewed does not end");
    assert_eq!(one.keep_alive(other).await, Err(RegistryError::Expired));
    world.sleep(time * 2).await;
    assert_eq!(value(two, &bound).await, None, "it vanishes with its lease");
    assert_eq!(two.list("leases/bound").await, Ok(vec![]));
    assert_eq!((value(two, &free).await, value(two, &kept).await), (Some(b"1".into()), Some(b"3".into())));
    assert_eq!(one.keep_alive(lease).await, Err(RegistryError::Expired));
    assert_eq!(two.time_left(lease).await, Err(RegistryError::Expired));
    assert_eq!(one.compare_and_put(&bound, None, b"2", Some(lease)).await, Err(RegistryError::Expired));
    assert_eq!(value(one, &bound).await, None);
    let again = two.compare_and_put(&bound, None, b"4", None).await.expect("put");
    assert!(again > version, "the end of a lease does not take versions back");

    let revoked = two.grant(Duration::from_secs(3600)).await.expect("a lease");
    let name = key("leases/revoked");
    two.compare_and_put(&name, None, b"1", Some(revoked)).await.expect("put");
    one.revoke(revoked).await.expect("revoked");
    one.revoke(revoked).await.expect("again");
    assert_eq!(value(two, &name).await, None);
}

/// Whether a watch says something in time.
async fn says(world: &World, watch: &mut Watch) -> bool {
    match select(watch.next(), world.sleep(WATCHED_WITHIN)).await {
        Either::Left((said, _)) => said.expect("it goes on").is_ok(),
        Either::Right(_) => false,
    }
}

async fn watches(world: &World, one: &dyn Registry, two: &dyn Registry, time: Duration) {
    let name = key("watched/a");
    let mut watch = one.watch("watched/");
    let version = two.compare_and_put(&name, None, b"1", None).await.expect("put");
    assert!(says(world, &mut watch).await, "a new key");
    two.compare_and_put(&name, Some(version), b"2", None).await.expect("put");
    assert!(says(world, &mut watch).await, "another value");
    let lease = two.grant(time).await.expect("a lease");
    two.compare_and_put(&key("watched/b"), None, b"1", Some(lease)).await.expect("put");
    assert!(says(world, &mut watch).await, "a key with a lease");
    assert!(says(world, &mut watch).await, "the end of a lease, without a call");
    assert_eq!(value(one, &key("watched/b")).await, None);
}
