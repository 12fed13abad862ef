//! A registry in a directory of files, for processes of one machine.
//!
//! The file operations run on a thread of their own: a directory that hangs delays nobody else, and its calls
//! end as unreachable. [`files`] has the layout, and why no process has to wait for another one.

mod files;
mod layout;
mod lease;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use futures::channel::oneshot;
use futures::future::{Either, FutureExt, select};
use futures::stream::{self, StreamExt};
use world::World;

use crate::{Answer, CALL_TIME_MAX, Entry, Key, LeaseId, Registry, RegistryError, Version, Watch};
use files::Files;

/// Calls that wait for the thread; more are refused.
const CALLS_MAX: usize = 64;
/// Interval of a watch's looks at the directory.
const WATCH_EVERY: Duration = Duration::from_millis(50);

type Call = Box<dyn FnOnce(&Files) + Send>;

/// A client of the directory. All processes that share it run under the same boot of the same machine.
#[derive(Clone)]
pub struct Directory {
    world: World,
    calls: SyncSender<Call>,
}

impl Directory {
    /// Opens the directory, and creates it if there is none.
    ///
    /// # Errors
    /// [`RegistryError::Unreachable`] if it cannot be created, or is not a registry.
    pub fn open(world: &World, path: &Path) -> Result<Directory, RegistryError> {
        let files = Files::open(path)?;
        let (calls, waiting) = sync_channel::<Call>(CALLS_MAX);
        let serve = move || waiting.into_iter().for_each(|call| call(&files));
        let named = std::thread::Builder::new().name("registry".into());
        named.spawn(serve).map_err(|e| RegistryError::Unreachable { cause: e.to_string() })?;
        Ok(Directory { world: world.clone(), calls })
    }

    /// Submits a call at once; the future waits for its answer.
    fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Files) -> Result<T, RegistryError> + Send + 'static,
    ) -> Answer<'static, T> {
        let gone = |cause: &str| RegistryError::Unreachable { cause: cause.into() };
        let (reply, answer) = oneshot::channel();
        let call = Box::new(move |files: &Files| {
            // A directory that is away has no keys and no leases: that says nothing about either.
            let done = work(files);
            // Nobody waits for it any more: the caller was told that the outcome is unknown.
            let _ = reply.send(files.is_there().and(done));
        });
        let sent = self.calls.try_send(call);
        let late = self.world.sleep(CALL_TIME_MAX);
        async move {
            match sent {
                Ok(()) => {}
                Err(TrySendError::Full(_)) => return Err(gone("too many calls wait for its directory")),
                Err(TrySendError::Disconnected(_)) => return Err(gone("its thread has ended")),
            }
            match select(answer, late).await {
                Either::Left((Ok(done), _)) => done,
                Either::Left((Err(_), _)) => Err(gone("its thread has ended")),
                Either::Right(_) => Err(gone("no answer in time")),
            }
        }
        .boxed_local()
    }

    fn versions(&self, prefix: &str) -> Answer<'static, BTreeMap<Key, Version>> {
        let prefix = prefix.to_owned();
        self.call(move |files| files.versions(&prefix))
    }
}

impl Registry for Directory {
    fn get<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Entry>> {
        let key = key.clone();
        self.call(move |files| files.get(&key))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Answer<'a, Vec<(Key, Entry)>> {
        let prefix = prefix.to_owned();
        self.call(move |files| files.list(&prefix))
    }

    fn compare_and_put<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Version>,
        value: &'a [u8],
        lease: Option<LeaseId>,
    ) -> Answer<'a, Version> {
        let (key, value) = (key.clone(), value.to_vec());
        self.call(move |files| files.put(&key, expected, Some(&value), lease))
    }

    fn compare_and_delete<'a>(&'a self, key: &'a Key, expected: Version) -> Answer<'a, ()> {
        let key = key.clone();
        self.call(move |files| files.put(&key, Some(expected), None, None).map(drop))
    }

    fn examine(&self) -> Answer<'_, Option<String>> {
        self.call(Files::examine)
    }

    fn watch(&self, prefix: &str) -> Watch {
        // Submitted now, so that it comes before all later changes of this client.
        let first = self.versions(prefix);
        let watched = (self.clone(), prefix.to_owned(), first, None);
        stream::unfold(watched, async |(client, prefix, mut look, mut seen)| {
            loop {
                let now = match look.await {
                    Ok(now) => now,
                    Err(error) => {
                        let look = client.versions(&prefix);
                        return Some((Err(error), (client, prefix, look, seen)));
                    }
                };
                let is_new = seen.as_ref().is_some_and(|seen| *seen != now);
                seen = Some(now);
                client.world.sleep(WATCH_EVERY).await;
                look = client.versions(&prefix);
                if is_new {
                    return Some((Ok(()), (client, prefix, look, seen)));
                }
            }
        })
        .boxed_local()
    }

    fn grant(&self, time: Duration) -> Answer<'_, LeaseId> {
        self.call(move |files| files.leases().grant(time))
    }

    fn keep_alive(&self, lease: LeaseId) -> Answer<'_, ()> {
        self.call(move |files| files.leases().keep_alive(lease))
    }

    fn time_left(&self, lease: LeaseId) -> Answer<'_, Duration> {
        self.call(move |files| files.leases().time_left(lease))
    }

    fn revoke(&self, lease: LeaseId) -> Answer<'_, ()> {
        self.call(move |files| files.leases().revoke(lease))
    }
}
