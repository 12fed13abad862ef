//! Against a real etcd: the conformance suite, members that are killed, stopped or away, cut connections,
//! compaction. Skipped, with a line that says so, where there is no etcd.

mod proxy;
mod secured;
mod server;

use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{Either, select};
use registry::{CALL_TIME_MAX, Key, LeaseId, Registry, RegistryError, TOO_LONG, Version, Watch, conformance};
use world::World;

use crate::messages::PutRequest;
use crate::{Access, Etcd, Location};
use proxy::Proxy;
use server::Server;

/// A call ends within its time, and a little for the machine.
const CALL_ENDS: Duration = Duration::from_millis(CALL_TIME_MAX.as_millis() as u64 + 500);
/// A member that was started, or goes on, answers within this.
const BACK_WITHIN: Duration = Duration::from_secs(20);
/// A watch says something within this.
const HEARD_WITHIN: Duration = Duration::from_secs(10);

/// Runs a test in the real world.
fn in_world<F: Future<Output = ()> + 'static>(test: impl FnOnce(World) -> F + Send + 'static) {
    world_real::run(world_real::Options::default(), async move |world| test(world).await).expect("a world");
}

fn open(world: &World, location: &str, access: &Access) -> Etcd {
    match location.parse() {
        Ok(Location::Etcd(address)) => Etcd::open(world, &address, access).expect("a client"),
        other => panic!("{location}: {other:?}"),
    }
}

fn client(world: &World, members: &[String]) -> Etcd {
    open(world, &format!("etcd://{}/masu/test", members.join(",")), &Access::default())
}

fn key(name: &str) -> Key {
    Key::new(name).expect("a key")
}

fn is_unreachable<T: std::fmt::Debug>(done: &Result<T, RegistryError>) -> bool {
    matches!(done, Err(RegistryError::Unreachable { .. }))
}

/// Asks until there is an answer.
async fn until_it_answers(world: &World, etcd: &Etcd) {
    let until = world.now() + BACK_WITHIN;
    loop {
        match etcd.get(&key("back")).await {
            Ok(_) => return,
            Err(RegistryError::Unreachable { cause }) => assert!(world.now() < until, "{cause}"),
            Err(error) => panic!("{error}"),
        }
        world.sleep(Duration::from_millis(50)).await;
    }
}

/// Waits for a hint; losses before it are passed over.
async fn hears(world: &World, watch: &mut Watch) {
    let hint = async { while watch.next().await.expect("it goes on").is_err() {} };
    let late = world.sleep(HEARD_WITHIN);
    futures::pin_mut!(hint);
    assert!(matches!(select(hint, late).await, Either::Left(_)), "no hint in time");
}

/// Waits for a loss.
async fn is_lost(world: &World, watch: &mut Watch) {
    let loss = async { while watch.next().await.expect("it goes on").is_ok() {} };
    let late = world.sleep(HEARD_WITHIN);
    futures::pin_mut!(loss);
    assert!(matches!(select(loss, late).await, Either::Left(_)), "no loss in time");
}

#[test]
fn etcd_is_a_registry() {
    let Some(server) = Server::start("etcd_is_a_registry") else { return };
    in_world(async move |world| {
        let open = || Rc::new(client(&world, &[server.address()])) as Rc<dyn Registry>;
        conformance::check(&world, open(), open(), Duration::from_secs(3)).await;
    });
}

/// Before, one value of another program that was too long made all keys of its prefix unreadable.
#[test]
fn values_that_are_too_long_hide_no_others_and_can_be_deleted() {
    let Some(server) = Server::start("values_that_are_too_long_hide_no_others_and_can_be_deleted") else {
        return;
    };
    in_world(async move |world| {
        let etcd = client(&world, &[server.address()]);
        let names: Vec<Key> = (0..40).map(|n| key(&format!("some/{n:02}"))).collect();
        for (at, name) in names.iter().enumerate() {
            if at % 2 == 0 {
                etcd.compare_and_put(name, None, b"one", None).await.expect("put");
                continue;
            }
            // All of them are longer than an answer may be.
            let key = format!("/masu/test/{}", name.as_str()).into_bytes();
            let long = PutRequest { key, value: vec![b'x'; 1 << 20], lease: 0 };
            server.administer("/etcdserverpb.KV/Put", long, None).expect("put");
        }
        let listed = etcd.list("some/").await.expect("listed");
        assert_eq!(listed.iter().map(|(key, _)| key).collect::<Vec<_>>(), names.iter().collect::<Vec<_>>());
        for (at, (key, entry)) in listed.iter().enumerate() {
            assert_eq!(entry.value, if at % 2 == 0 { b"one" } else { TOO_LONG });
            assert_eq!(etcd.get(key).await.expect("read").as_ref(), Some(entry));
        }
        etcd.compare_and_delete(&names[1], listed[1].1.version).await.expect("deleted");
        assert_eq!(etcd.list("some/").await.expect("listed").len(), 39);
    });
}

/// Lists come in pages, and other programs' keys are not in them.
#[test]
fn a_list_of_many_pages_is_whole_and_in_order() {
    let Some(server) = Server::start("a_list_of_many_pages_is_whole_and_in_order") else { return };
    in_world(async move |world| {
        let etcd = client(&world, &[server.address()]);
        let outer = open(&world, &format!("etcd://{}/masu", server.address()), &Access::default());
        outer.compare_and_put(&key("tests"), None, b"beside the prefix", None).await.expect("put");
        let names: Vec<Key> = (0..300).map(|n| key(&format!("many/{n:03}"))).collect();
        for name in &names {
            etcd.compare_and_put(name, None, name.as_str().as_bytes(), None).await.expect("put");
        }
        let listed = etcd.list("many/").await.expect("listed");
        assert!(listed.iter().all(|(key, entry)| entry.value == key.as_str().as_bytes()));
        assert_eq!(listed.into_iter().map(|(key, _)| key).collect::<Vec<_>>(), names);
        assert_eq!(etcd.list("").await.expect("listed").len(), 300);
        assert_eq!(outer.list("tests").await.expect("listed").len(), 1);
        assert_eq!(outer.list("test/many/").await.expect("listed").len(), 300);
    });
}

#[test]
fn a_killed_etcd_is_unreachable_and_after_its_restart_leases_and_watches_go_on() {
    let name = "a_killed_etcd_is_unreachable_and_after_its_restart_leases_and_watches_go_on";
    let Some(mut server) = Server::start(name) else { return };
    in_world(async move |world| {
        let (one, two) = (client(&world, &[server.address()]), client(&world, &[server.address()]));
        let lease = one.grant(Duration::from_secs(30)).await.expect("a lease");
        let version = one.compare_and_put(&key("held"), None, b"1", Some(lease)).await.expect("put");
        let mut watch = two.watch("held");
        one.compare_and_put(&key("held"), Some(version), b"2", Some(lease)).await.expect("put");
        hears(&world, &mut watch).await;
        server.kill();
        let before = world.now();
        assert!(is_unreachable(&one.get(&key("held")).await));
        assert!(is_unreachable(&one.keep_alive(lease).await));
        let put = one.compare_and_put(&key("other"), None, b"1", None).await;
        assert!(is_unreachable(&put), "{put:?}");
        assert!(world.now() - before < CALL_ENDS * 3);
        is_lost(&world, &mut watch).await;
        server.restart();
        until_it_answers(&world, &one).await;
        let entry = one.get(&key("held")).await.expect("read").expect("its lease lives");
        assert_eq!(entry.value, b"2");
        one.keep_alive(lease).await.expect("it lives");
        one.compare_and_put(&key("held"), Some(entry.version), b"3", Some(lease)).await.expect("put");
        hears(&world, &mut watch).await;
        one.revoke(lease).await.expect("revoked");
        hears(&world, &mut watch).await;
        assert_eq!(two.get(&key("held")).await, Ok(None));
    });
}

/// Leases go on then, and so would an owner: that nobody can take over was seen by who tried.
#[test]
fn an_etcd_without_space_says_so_and_what_to_do_before_anything_is_put() {
    let name = "an_etcd_without_space_says_so_and_what_to_do_before_anything_is_put";
    let Some(server) = Server::start(name) else { return };
    in_world(async move |world| {
        let etcd = client(&world, &[server.address()]);
        let lease = etcd.grant(Duration::from_secs(30)).await.expect("a lease");
        assert_eq!(etcd.examine().await, Ok(None));
        server.has_no_space(true);
        let refused = etcd.examine().await.expect_err("no space").to_string();
        assert!(
            refused.starts_with("the registry cannot be written") && refused.contains("alarm"),
            "{refused}"
        );
        let put = etcd.compare_and_put(&key("a"), None, b"1", None).await;
        assert!(matches!(put, Err(RegistryError::Unwritable { .. })), "{put:?}");
        assert_eq!(etcd.keep_alive(lease).await, Ok(()));
        server.has_no_space(false);
        assert_eq!(etcd.examine().await, Ok(None));
        assert_eq!(etcd.list("").await.map(|all| all.len()), Ok(0), "a trial leaves nothing");
    });
}

#[test]
fn calls_of_a_stopped_etcd_end_in_time_and_it_goes_on() {
    let Some(server) = Server::start("calls_of_a_stopped_etcd_end_in_time_and_it_goes_on") else { return };
    in_world(async move |world| {
        let etcd = client(&world, &[server.address()]);
        let version = etcd.compare_and_put(&key("a"), None, b"1", None).await.expect("put");
        let lease = etcd.grant(Duration::from_secs(2)).await.expect("a lease");
        let mut watch = etcd.watch("a");
        server.signal("-STOP");
        let stopped = world.now();
        // The first goes to a connection that was fine, the second finds none.
        let put = etcd.compare_and_put(&key("a"), Some(version), b"2", None).await;
        assert!(is_unreachable(&put), "{put:?}");
        let get = etcd.get(&key("a")).await;
        assert!(is_unreachable(&get), "{get:?}");
        let took = world.now() - stopped;
        assert!(took > CALL_TIME_MAX && took < CALL_ENDS * 2, "{took:?}");
        is_lost(&world, &mut watch).await;
        world.sleep(Duration::from_secs(1)).await;
        server.signal("-CONT");
        until_it_answers(&world, &etcd).await;
        // Whether the change was made was unknown; it is the old value or the new one.
        let entry = etcd.get(&key("a")).await.expect("read").expect("a value");
        assert!(entry.version == version && entry.value == b"1" || entry.value == b"2", "{entry:?}");
        etcd.compare_and_put(&key("a"), Some(entry.version), b"3", None).await.expect("put");
        hears(&world, &mut watch).await;
        // A lease is by etcd's clock, which went on: it ends soon, unless it was renewed.
        let until = world.now() + BACK_WITHIN;
        while etcd.compare_and_put(&key("b"), None, b"1", Some(lease)).await != Err(RegistryError::Expired) {
            assert!(world.now() < until, "a lease that nobody renews ends");
            if let Ok(Some(entry)) = etcd.get(&key("b")).await {
                let _ = etcd.compare_and_delete(&key("b"), entry.version).await;
            }
            world.sleep(Duration::from_millis(100)).await;
        }
    });
}

/// One refuses connections, one accepts them and says nothing: not even a change is lost to it.
#[test]
fn a_member_that_is_away_is_left_for_the_next() {
    let Some(server) = Server::start("a_member_that_is_away_is_left_for_the_next") else { return };
    in_world(async move |world| {
        let dead = test_ports::claim();
        let silent = server::silent_port();
        for away in [format!("127.0.0.1:{dead}"), silent.address()] {
            let etcd = client(&world, &[away.clone(), server.address()]);
            let before = world.now();
            let put = etcd.compare_and_put(&key("a"), None, b"1", None).await;
            let version = put.unwrap_or_else(|error| panic!("{away}: {error}"));
            assert!(world.now() - before < CALL_TIME_MAX);
            let mut watch = client(&world, &[away, server.address()]).watch("a");
            hears(&world, &mut watch).await;
            etcd.compare_and_delete(&key("a"), version).await.expect("deleted");
            hears(&world, &mut watch).await;
        }
        // With none that answers a call ends in time, and names all, so that the next one says the same.
        let etcd = client(&world, &[silent.address(), format!("127.0.0.1:{dead}")]);
        let mut told = Vec::new();
        for _ in 0..3 {
            let before = world.now();
            let error = etcd.get(&key("a")).await.expect_err("nobody").to_string();
            assert!(world.now() - before < CALL_ENDS);
            assert!(error.contains(&silent.address()) && error.contains(&dead.to_string()), "{error}");
            told.push(error);
        }
        told.dedup();
        assert_eq!(told.len(), 1, "{told:?}");
    });
}

/// Changes a key; while leaders change it is unknown, for a while, whether that was done.
async fn put_at_last(world: &World, etcd: &Etcd, lease: LeaseId) -> Version {
    let until = world.now() + BACK_WITHIN;
    loop {
        let put = match etcd.get(&key("a")).await {
            Ok(entry) => {
                let expected = entry.map(|entry| entry.version);
                etcd.compare_and_put(&key("a"), expected, b"", Some(lease)).await
            }
            Err(error) => Err(error),
        };
        match put {
            Ok(version) => return version,
            Err(RegistryError::Unreachable { .. } | RegistryError::Conflict { .. })
                if world.now() < until => {}
            Err(error) => panic!("{error}"),
        }
    }
}

async fn renew_at_last(world: &World, etcd: &Etcd, lease: LeaseId) {
    let until = world.now() + BACK_WITHIN;
    while let Err(error) = etcd.keep_alive(lease).await {
        assert!(is_unreachable::<()>(&Err(error.clone())) && world.now() < until, "{error}");
    }
}

/// Whichever of three members stops, its clients go on with the next one, with their leases and watches.
#[test]
fn a_cluster_goes_on_when_any_member_of_three_is_stopped() {
    let name = "a_cluster_goes_on_when_any_member_of_three_is_stopped";
    let Some(servers) = Server::start_three(name) else { return };
    in_world(async move |world| {
        let members: Vec<String> = servers.iter().map(Server::address).collect();
        let etcd = client(&world, &members);
        until_it_answers(&world, &etcd).await;
        let lease = etcd.grant(Duration::from_secs(60)).await.expect("a lease");
        let mut version = put_at_last(&world, &etcd, lease).await;
        let mut watch = etcd.watch("a");
        // One of them leads: the others elect another leader.
        for server in &servers {
            server.signal("-STOP");
            renew_at_last(&world, &etcd, lease).await;
            version = put_at_last(&world, &etcd, lease).await;
            hears(&world, &mut watch).await;
            server.signal("-CONT");
            until_it_answers(&world, &client(&world, &[server.address()])).await;
        }
        // Each of them knows the last value.
        for member in members {
            let entry = client(&world, &[member]).get(&key("a")).await.expect("read").expect("a value");
            assert_eq!(entry.version, version);
        }
    });
}

/// The longest time from the sending of a renewal that succeeded to that of the next one, in this time, with
/// a renewal each half second, as an owner sends them.
async fn longest_between_renewals(world: &World, etcd: &Etcd, lease: LeaseId, time: Duration) -> Duration {
    let (begun, mut last, mut longest) = (world.now(), world.now(), Duration::ZERO);
    while world.now() - begun < time {
        let sent = world.now();
        if etcd.keep_alive(lease).await.is_ok() {
            longest = longest.max(sent - last);
            last = sent;
            world.sleep(Duration::from_millis(500)).await;
        }
    }
    longest.max(world.now() - last)
}

/// Of three members the network cuts off the one that is asked, from its clients, or so that the other
/// members hear nothing of it: no process has ended, and no connection. An owner keeps its lease.
#[test]
fn an_owner_keeps_its_lease_when_the_network_cuts_its_member_off() {
    /// From the sending of the last renewal that succeeded an owner serves for so long.
    const OWN_TIME: Duration = Duration::from_secs(5);
    const LEASE: Duration = Duration::from_secs(6);
    let name = "an_owner_keeps_its_lease_when_the_network_cuts_its_member_off";
    let Some((servers, ways)) = Server::start_three_apart(name) else { return };
    in_world(async move |world| {
        let front = Proxy::start(servers[0].port());
        let mut members = servers.each_ref().map(Server::address);
        members[0] = front.address();
        until_it_answers(&world, &client(&world, &members)).await;
        // One of the three leads.
        let cuts = [(0, "from its clients", &front), (0, "", &ways[0]), (1, "", &ways[1]), (2, "", &ways[2])];
        for (at, from, cut) in cuts {
            let mut order = members.clone();
            order.rotate_left(at);
            let etcd = client(&world, &order);
            let lease = etcd.grant(LEASE).await.expect("a lease");
            let version = put_at_last(&world, &etcd, lease).await;
            let mut watch = etcd.watch("a");
            cut.silence(true);
            let longest = longest_between_renewals(&world, &etcd, lease, LEASE).await;
            println!("member {at} is cut off {from}: {longest:?} between two renewals");
            assert!(longest < OWN_TIME, "member {at}, cut off {from}: {longest:?}");
            let entry = etcd.get(&key("a")).await.expect("read").expect("its lease lives");
            assert_eq!(entry.version, version);
            etcd.compare_and_delete(&key("a"), version).await.expect("deleted");
            hears(&world, &mut watch).await;
            cut.silence(false);
            until_it_answers(&world, &client(&world, &[members[at].clone()])).await;
        }
    });
}

/// Changes a key that nobody watches, and compacts all that was before it.
async fn forget(server: &Server, etcd: &Etcd) {
    let found = etcd.get(&key("unwatched")).await.expect("read").map(|entry| entry.version);
    let version = etcd.compare_and_put(&key("unwatched"), found, b"", None).await.expect("put");
    server.compact(version);
}

/// While a watch is cut off, its key changes and the history is compacted: it tells that keys may have
/// changed, and goes on.
#[test]
fn a_watch_survives_a_cut_connection_and_a_compaction_meanwhile() {
    let name = "a_watch_survives_a_cut_connection_and_a_compaction_meanwhile";
    let Some(server) = Server::start(name) else { return };
    in_world(async move |world| {
        let proxy = Proxy::start(server.port());
        let (near, far) = (client(&world, &[server.address()]), client(&world, &[proxy.address()]));
        let mut version = near.compare_and_put(&key("a"), None, b"0", None).await.expect("put");
        assert!(far.get(&key("a")).await.expect("read").is_some());
        let mut watch = far.watch("a");
        for compacts in [false, true] {
            version = near.compare_and_put(&key("a"), Some(version), b"1", None).await.expect("put");
            hears(&world, &mut watch).await;
            proxy.cut(true);
            is_lost(&world, &mut watch).await;
            assert!(is_unreachable(&far.get(&key("a")).await));
            for _ in 0..3 {
                version = near.compare_and_put(&key("a"), Some(version), b"2", None).await.expect("put");
            }
            if compacts {
                forget(&server, &near).await;
            }
            proxy.cut(false);
            hears(&world, &mut watch).await;
        }
        // Of a client whose last look is older than the history, too.
        let old = client(&world, &[server.address()]);
        assert!(old.get(&key("a")).await.expect("read").is_some());
        version = near.compare_and_put(&key("a"), Some(version), b"3", None).await.expect("put");
        version = near.compare_and_put(&key("a"), Some(version), b"4", None).await.expect("put");
        forget(&server, &near).await;
        let mut watch = old.watch("a");
        hears(&world, &mut watch).await;
        near.compare_and_delete(&key("a"), version).await.expect("deleted");
        hears(&world, &mut watch).await;
    });
}

#[test]
fn a_version_of_no_key_and_a_lease_of_nobody_are_refused() {
    let name = "a_version_of_no_key_and_a_lease_of_nobody_are_refused";
    let Some(server) = Server::start(name) else { return };
    in_world(async move |world| {
        let etcd = client(&world, &[server.address()]);
        for version in [0, 1, u64::MAX] {
            let put = etcd.compare_and_put(&key("a"), Some(Version(version)), b"1", None).await;
            assert_eq!(put, Err(RegistryError::Conflict { found: None }), "{version}");
        }
        for lease in [0, 1, u64::MAX].map(LeaseId) {
            let put = etcd.compare_and_put(&key("a"), None, b"1", Some(lease)).await;
            assert_eq!(put, Err(RegistryError::Expired), "{lease:?}");
            assert_eq!(etcd.keep_alive(lease).await, Err(RegistryError::Expired), "{lease:?}");
            assert_eq!(etcd.revoke(lease).await, Ok(()), "{lease:?}");
        }
        assert_eq!(etcd.get(&key("a")).await, Ok(None));
    });
}
