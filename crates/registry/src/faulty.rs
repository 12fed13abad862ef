//! A way to a registry with faults: delays, partitions, pauses and lost watches, in either world.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use futures::FutureExt;
use futures::stream::{self, StreamExt};
use world::World;

use crate::{Answer, CALL_TIME_MAX, Entry, Key, LeaseId, Registry, RegistryError, Version, Watch};

/// The way from one client to the store, and what is wrong with it.
#[derive(Default)]
pub struct Link {
    /// From the call to the store, and again to the answer.
    pub delay: Cell<Duration>,
    /// Nothing comes through. What was on its way to the store when the link was cut arrives; its answer does
    /// not.
    pub cut: Cell<bool>,
    /// The client stands still: neither its calls nor their answers go on until it does.
    pub paused: Cell<bool>,
    /// Its watches say nothing.
    pub loses_watches: Cell<bool>,
}

/// How often a paused client is looked at.
const PAUSE_STEP: Duration = Duration::from_millis(10);

impl Link {
    async fn travel(&self, world: &World) {
        while self.paused.get() {
            world.sleep(PAUSE_STEP).await;
        }
        world.sleep(self.delay.get()).await;
    }

    /// Whether something comes through; if not, after the time that a client waits for an answer.
    async fn passes(&self, world: &World) -> Result<(), RegistryError> {
        if !self.cut.get() {
            return Ok(());
        }
        world.sleep(CALL_TIME_MAX).await;
        Err(RegistryError::Unreachable { cause: "no answer in time".into() })
    }
}

/// A client of another registry over a [`Link`].
#[derive(Clone)]
pub struct Faulty {
    world: World,
    registry: Rc<dyn Registry>,
    link: Rc<Link>,
}

impl Faulty {
    /// A client whose link has no delay and no fault.
    pub fn new(world: &World, registry: Rc<dyn Registry>) -> Faulty {
        Faulty { world: world.clone(), registry, link: Rc::default() }
    }

    /// Its link, to be changed at any time.
    pub fn link(&self) -> Rc<Link> {
        self.link.clone()
    }

    /// One call: there, at the store, and back.
    fn call<'a, T>(&'a self, ask: impl FnOnce(&'a dyn Registry) -> Answer<'a, T> + 'a) -> Answer<'a, T>
    where
        T: 'a,
    {
        async move {
            self.link.passes(&self.world).await?;
            self.link.travel(&self.world).await;
            let done = ask(&*self.registry).await;
            self.link.travel(&self.world).await;
            self.link.passes(&self.world).await?;
            done
        }
        .boxed_local()
    }
}

impl Registry for Faulty {
    fn get<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Entry>> {
        self.call(|registry| registry.get(key))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Answer<'a, Vec<(Key, Entry)>> {
        self.call(|registry| registry.list(prefix))
    }

    fn compare_and_put<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Version>,
        value: &'a [u8],
        lease: Option<LeaseId>,
    ) -> Answer<'a, Version> {
        self.call(move |registry| registry.compare_and_put(key, expected, value, lease))
    }

    fn compare_and_delete<'a>(&'a self, key: &'a Key, expected: Version) -> Answer<'a, ()> {
        self.call(move |registry| registry.compare_and_delete(key, expected))
    }

    fn examine(&self) -> Answer<'_, Option<String>> {
        self.call(|registry| registry.examine())
    }

    fn watch(&self, prefix: &str) -> Watch {
        let watched = (self.world.clone(), self.link.clone(), self.registry.watch(prefix));
        stream::unfold(watched, async |(world, link, mut watch)| {
            loop {
                let said = watch.next().await?;
                link.travel(&world).await;
                if !link.cut.get() && !link.loses_watches.get() {
                    return Some((said, (world, link, watch)));
                }
            }
        })
        .boxed_local()
    }

    fn grant(&self, time: Duration) -> Answer<'_, LeaseId> {
        self.call(move |registry| registry.grant(time))
    }

    fn keep_alive(&self, lease: LeaseId) -> Answer<'_, ()> {
        self.call(move |registry| registry.keep_alive(lease))
    }

    fn time_left(&self, lease: LeaseId) -> Answer<'_, Duration> {
        self.call(move |registry| registry.time_left(lease))
    }

    fn revoke(&self, lease: LeaseId) -> Answer<'_, ()> {
        self.call(move |registry| registry.revoke(lease))
    }
}
