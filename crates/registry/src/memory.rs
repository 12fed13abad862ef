//! A registry in memory, for the model world: leases end in virtual time.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt;
use futures::stream::{self, StreamExt};
use world::sync::Signal;
use world::{Instant, World};

use crate::{
    Answer, Entry, KEYS_MAX, Key, LEASES_MAX, LeaseId, Registry, RegistryError, VALUE_LEN_MAX, Version, Watch,
};

/// The store that the clients of a model share.
#[derive(Clone, Default)]
pub struct Store(Rc<Shared>);

impl Store {
    /// Replaces the value of a key and leaves its version, as a damaged disk does. For tests.
    pub fn damage(&self, key: &Key, value: &[u8]) {
        if let Some(slot) = self.0.state.borrow_mut().keys.get_mut(key) {
            slot.value = Some(value.into());
        }
    }

    /// From now on it takes no values, or does again, as a full disk. Leases go on. For tests.
    pub fn set_full(&self, is_full: bool) {
        self.0.state.borrow_mut().is_full = is_full;
    }

    /// Forgets the keys with this prefix, and their versions. For tests.
    pub fn forget(&self, prefix: &str) {
        self.0.state.borrow_mut().keys.retain(|key, _| !key.as_str().starts_with(prefix));
    }
}

#[derive(Default)]
struct Shared {
    state: RefCell<State>,
    changed: Signal,
}

#[derive(Default)]
struct State {
    keys: BTreeMap<Key, Slot>,
    leases: BTreeMap<LeaseId, Lease>,
    granted: u64,
    is_full: bool,
    /// Counts all changes.
    revision: u64,
}

/// A key: what remains of it without a value is its version.
struct Slot {
    version: Version,
    value: Option<Vec<u8>>,
    lease: Option<LeaseId>,
    revision: u64,
}

struct Lease {
    time: Duration,
    ends: Instant,
}

impl State {
    /// Ends the leases whose time is over.
    fn expire(&mut self, now: Instant) {
        let over: Vec<LeaseId> =
            self.leases.iter().filter(|(_, lease)| lease.ends <= now).map(|(id, _)| *id).collect();
        over.into_iter().for_each(|id| self.end(id));
    }

    fn end(&mut self, lease: LeaseId) {
        self.leases.remove(&lease);
        for slot in self.keys.values_mut().filter(|slot| slot.lease == Some(lease)) {
            self.revision += 1;
            slot.set(None, None, self.revision);
        }
    }

    fn version(&self, key: &Key) -> Option<Version> {
        self.keys.get(key).filter(|slot| slot.value.is_some()).map(|slot| slot.version)
    }

    fn put(
        &mut self,
        key: &Key,
        expected: Option<Version>,
        value: Option<&[u8]>,
        lease: Option<LeaseId>,
    ) -> Result<Version, RegistryError> {
        if value.is_some_and(|value| value.len() > VALUE_LEN_MAX) {
            return Err(RegistryError::Limit { what: "bytes of a value", max: VALUE_LEN_MAX });
        }
        if lease.is_some_and(|lease| !self.leases.contains_key(&lease)) {
            return Err(RegistryError::Expired);
        }
        if value.is_some() {
            self.try_put()?;
        }
        let found = self.version(key);
        if found != expected {
            return Err(RegistryError::Conflict { found });
        }
        if !self.keys.contains_key(key) && self.keys.len() >= KEYS_MAX {
            return Err(RegistryError::Limit { what: "keys", max: KEYS_MAX });
        }
        self.revision += 1;
        let fresh = Slot { version: Version(0), value: None, lease: None, revision: 0 };
        let slot = self.keys.entry(key.clone()).or_insert(fresh);
        slot.set(value.map(<[u8]>::to_vec), lease, self.revision);
        Ok(slot.version)
    }

    fn try_put(&self) -> Result<(), RegistryError> {
        match self.is_full {
            true => Err(RegistryError::Unwritable { cause: "it is full; make room".into() }),
            false => Ok(()),
        }
    }

    /// The latest change of a key with this prefix.
    fn revision_of(&self, prefix: &str) -> u64 {
        let below = self.keys.iter().filter(|(key, _)| key.as_str().starts_with(prefix));
        below.map(|(_, slot)| slot.revision).max().unwrap_or_default()
    }
}

impl Slot {
    fn set(&mut self, value: Option<Vec<u8>>, lease: Option<LeaseId>, revision: u64) {
        (self.value, self.lease, self.revision) = (value, lease, revision);
        self.version.0 += 1;
    }

    fn entry(&self) -> Option<Entry> {
        Some(Entry { version: self.version, value: self.value.clone()? })
    }
}

/// A client of a [`Store`]: without faults, see [`Faulty`](crate::Faulty).
#[derive(Clone)]
pub struct Memory {
    world: World,
    store: Store,
}

impl Memory {
    /// A client.
    pub fn new(world: &World, store: &Store) -> Memory {
        Memory { world: world.clone(), store: store.clone() }
    }

    async fn call<T>(
        &self,
        at_store: impl FnOnce(&mut State, Instant) -> Result<T, RegistryError>,
    ) -> Result<T, RegistryError> {
        let done = {
            let (now, state) = (self.world.now(), &mut self.store.0.state.borrow_mut());
            state.expire(now);
            at_store(state, now)
        };
        self.store.0.changed.wake_all();
        done
    }

    /// Ends a lease when its time is over, so that watches hear of it.
    fn expire_in_time(&self, lease: LeaseId) {
        let (world, store) = (self.world.clone(), self.store.clone());
        self.world.spawn(async move {
            loop {
                let ends = store.0.state.borrow().leases.get(&lease).map(|lease| lease.ends);
                let Some(ends) = ends else { return };
                world.sleep_until(ends).await;
                store.0.state.borrow_mut().expire(world.now());
                store.0.changed.wake_all();
            }
        });
    }
}

impl Registry for Memory {
    fn get<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Entry>> {
        self.call(|state, _| Ok(state.keys.get(key).and_then(Slot::entry))).boxed_local()
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Answer<'a, Vec<(Key, Entry)>> {
        let of = move |state: &mut State, _| {
            let below = state.keys.iter().filter(|(key, _)| key.as_str().starts_with(prefix));
            Ok(below.filter_map(|(key, slot)| Some((key.clone(), slot.entry()?))).collect())
        };
        self.call(of).boxed_local()
    }

    fn compare_and_put<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Version>,
        value: &'a [u8],
        lease: Option<LeaseId>,
    ) -> Answer<'a, Version> {
        self.call(move |state, _| state.put(key, expected, Some(value), lease)).boxed_local()
    }

    fn compare_and_delete<'a>(&'a self, key: &'a Key, expected: Version) -> Answer<'a, ()> {
        self.call(move |state, _| state.put(key, Some(expected), None, None).map(drop)).boxed_local()
    }

    fn examine(&self) -> Answer<'_, Option<String>> {
        self.call(|state, _| state.try_put().map(|()| None)).boxed_local()
    }

    fn watch(&self, prefix: &str) -> Watch {
        let seen = self.store.0.state.borrow().revision_of(prefix);
        let watched = (self.clone(), prefix.to_owned(), seen);
        stream::unfold(watched, async |(client, prefix, mut seen)| {
            let Store(shared) = client.store.clone();
            let newer = || Some(shared.state.borrow().revision_of(&prefix)).filter(|now| *now > seen);
            seen = shared.changed.wait_for(newer).await;
            Some((Ok(()), (client, prefix, seen)))
        })
        .boxed_local()
    }

    fn grant(&self, time: Duration) -> Answer<'_, LeaseId> {
        let grant = move |state: &mut State, now| {
            if state.leases.len() >= LEASES_MAX {
                return Err(RegistryError::Limit { what: "leases", max: LEASES_MAX });
            }
            state.granted += 1;
            let id = LeaseId(state.granted);
            state.leases.insert(id, Lease { time, ends: now + time });
            self.expire_in_time(id);
            Ok(id)
        };
        self.call(grant).boxed_local()
    }

    fn keep_alive(&self, lease: LeaseId) -> Answer<'_, ()> {
        let renew = move |state: &mut State, now| {
            let lease = state.leases.get_mut(&lease).ok_or(RegistryError::Expired)?;
            lease.ends = now + lease.time;
            Ok(())
        };
        self.call(renew).boxed_local()
    }

    fn time_left(&self, lease: LeaseId) -> Answer<'_, Duration> {
        let left = move |state: &mut State, now| {
            let lease = state.leases.get(&lease).ok_or(RegistryError::Expired)?;
            Ok(lease.ends - now)
        };
        self.call(left).boxed_local()
    }

    fn revoke(&self, lease: LeaseId) -> Answer<'_, ()> {
        self.call(move |state, _| {
            state.end(lease);
            Ok(())
        })
        .boxed_local()
    }
}
