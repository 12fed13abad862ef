//! The suite on both implementations, and what only one of them has.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use world::World;
use world_model::Model;

use crate::{Directory, Faulty, Key, Memory, Registry, RegistryError, Store, conformance};

fn client(world: &World, store: &Store) -> Faulty {
    Faulty::new(world, Rc::new(Memory::new(world, store)))
}

#[test]
fn memory_is_a_registry_with_and_without_delays() {
    for delay_ms in [0, 3] {
        for seed in 1..=5 {
            Model::new(seed).run(async move |world| {
                let store = Store::default();
                let clients = [(); 2].map(|()| client(&world, &store));
                clients.iter().for_each(|client| client.link().delay.set(Duration::from_millis(delay_ms)));
                let [one, two] = clients.map(|client| Rc::new(client) as Rc<dyn Registry>);
                conformance::check(&world, one, two, Duration::from_secs(1)).await;
            });
        }
    }
}

#[test]
fn a_directory_is_a_registry() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("registry");
    let run = world_real::run(world_real::Options::default(), async move |world| {
        let open = || Rc::new(Directory::open(&world, &path).expect("a registry")) as Rc<dyn Registry>;
        conformance::check(&world, open(), open(), Duration::from_secs(2)).await;
    });
    run.expect("a world");
}

/// An owner must not lose its lease, nor a standby miss an owner, because the directory is not mounted.
#[test]
fn a_directory_that_is_away_answers_nothing_and_is_the_same_when_it_is_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let (path, away) = (dir.path().join("registry"), dir.path().join("away"));
    let run = world_real::run(world_real::Options::default(), async move |world| {
        let registry = Directory::open(&world, &path).expect("a registry");
        let lease = registry.grant(Duration::from_secs(60)).await.expect("a lease");
        let version = registry.compare_and_put(&key(), None, b"1", Some(lease)).await.expect("put");
        std::fs::rename(&path, &away).expect("moved");
        let is_away = |error: RegistryError| matches!(error, RegistryError::Unreachable { .. });
        assert!(registry.keep_alive(lease).await.is_err_and(is_away));
        assert!(registry.get(&key()).await.is_err_and(is_away));
        assert!(registry.list("").await.is_err_and(is_away));
        assert!(registry.compare_and_put(&key(), None, b"2", None).await.is_err_and(is_away));
        std::fs::rename(&away, &path).expect("moved");
        assert_eq!(registry.keep_alive(lease).await, Ok(()));
        assert_eq!(registry.get(&key()).await.map(|found| found.map(|e| e.version)), Ok(Some(version)));
    });
    run.expect("a world");
}

fn key() -> Key {
    Key::new("a").expect("a key")
}

#[test]
fn a_cut_link_leaves_open_what_was_done_and_the_store_ends_its_lease() {
    Model::new(1).run(async |world| {
        let store = Store::default();
        let (here, there) = (client(&world, &store), client(&world, &store));
        let lease = here.grant(Duration::from_secs(3)).await.expect("a lease");
        here.link().delay.set(Duration::from_millis(10));
        // Cut while the answer is on its way: it was done, and the client cannot know.
        let (link, end) = (here.link(), world.clone());
        world.spawn(async move {
            end.sleep(Duration::from_millis(15)).await;
            link.cut.set(true);
        });
        let put = here.compare_and_put(&key(), None, b"1", Some(lease)).await;
        assert!(matches!(put, Err(RegistryError::Unreachable { .. })), "{put:?}");
        assert!(there.get(&key()).await.expect("read").is_some());
        world.sleep(Duration::from_secs(3)).await;
        assert_eq!(there.get(&key()).await, Ok(None), "nobody renews it");
        here.link().cut.set(false);
        assert_eq!(here.keep_alive(lease).await, Err(RegistryError::Expired));
    });
}

#[test]
fn a_paused_client_goes_on_where_it_stood_and_loses_its_lease() {
    Model::new(1).run(async |world| {
        let store = Store::default();
        let client = client(&world, &store);
        let lease = client.grant(Duration::from_secs(3)).await.expect("a lease");
        let link = client.link();
        link.paused.set(true);
        let renewed = Rc::new(Cell::new(None));
        let (told, same) = (renewed.clone(), client.clone());
        world.spawn(async move { told.set(Some(same.keep_alive(lease).await)) });
        world.sleep(Duration::from_secs(10)).await;
        assert_eq!(renewed.take(), None, "it stands still");
        link.paused.set(false);
        world.sleep(Duration::from_secs(1)).await;
        assert_eq!(renewed.take(), Some(Err(RegistryError::Expired)));
    });
}
