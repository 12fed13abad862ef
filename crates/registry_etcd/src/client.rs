//! The registry in etcd.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::channel::oneshot;
use futures::future::{Either, FutureExt, select};
use futures::stream::{self, StreamExt};
use registry::{
    Answer, CALL_TIME_MAX, Entry, KEYS_MAX, Key, LeaseId, Registry, RegistryError, TOO_LONG, VALUE_LEN_MAX,
    Version, Watch,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};
use tonic::transport::Endpoint;
use world::World;

use crate::credentials::Credentials;
use crate::follow::{Said, follow_task};
use crate::members::{ANSWER_LEN_MAX, Members, Repeats};
use crate::messages::{
    self, Compare, DeleteRequest, KeyValue, LeaseGrantRequest, LeaseResponse, PutRequest, RangeRequest,
    RangeResponse, RequestOp, TxnRequest, TxnResponse, method, range_end,
};
use crate::{Access, Address};

/// Calls on their way; more are refused.
const CALLS_MAX: usize = 64;
/// Keys of one answer of a list.
const PAGE_KEYS: i64 = 128;
/// Twice the values: keys, and what surrounds them.
const _: () = assert!(PAGE_KEYS as usize * VALUE_LEN_MAX * 2 <= ANSWER_LEN_MAX);
/// A key that is never put.
const TRIAL: &str = "trial";
/// etcd accepts a ping every 5 s, and closes the connection of who sends more.
const PING_EVERY: Duration = Duration::from_secs(6);
/// The longest lease that etcd grants, in seconds.
const LEASE_S_MAX: u64 = 9_000_000_000;

/// Why a client cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The thread cannot be started.
    #[error("cannot start the thread for etcd: {0}")]
    Thread(#[source] std::io::Error),
    /// A certificate or key is not valid, or the address is not.
    #[error("cannot use --registry-ca, or --registry-cert with --registry-key, for {address}: {cause}")]
    #[expect(missing_docs, reason = "self-explanatory names")]
    Certificates { address: String, cause: String },
    /// The directory is not a registry.
    #[error(transparent)]
    Directory(#[from] RegistryError),
}

/// tokio's thread.
struct Thread(Option<Runtime>);

impl Drop for Thread {
    fn drop(&mut self) {
        // It ends by itself: a controller's thread waits for nobody.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Thread {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.0 {
            runtime.spawn(task);
        }
    }
}

/// A client of an etcd cluster.
#[derive(Clone)]
pub struct Etcd {
    world: World,
    thread: Rc<Thread>,
    members: Arc<Members>,
    calls: Arc<Semaphore>,
    /// Before all keys, with a `/` at its end.
    prefix: Rc<str>,
}

impl Etcd {
    /// A client. It connects with its first call: whether etcd answers is seen then.
    ///
    /// # Errors
    /// [`OpenError`]
    pub fn open(world: &World, address: &Address, access: &Access) -> Result<Etcd, OpenError> {
        let invalid = |cause: &dyn std::error::Error| {
            let mut text = cause.to_string();
            crate::fault::append_sources(&mut text, cause.source());
            OpenError::Certificates { address: address.to_string(), cause: crate::fault::advised(&text) }
        };
        let mut endpoints = Vec::new();
        for member in address.members() {
            let scheme = if address.has_tls() { "https" } else { "http" };
            let endpoint = Endpoint::from_shared(format!("{scheme}://{member}")).map_err(|e| invalid(&e))?;
            let endpoint = endpoint.http2_keep_alive_interval(PING_EVERY).keep_alive_timeout(CALL_TIME_MAX);
            endpoints.push((member.clone(), endpoint));
        }
        let credentials = Credentials::new(access.clone(), address.has_tls());
        for (member, endpoint) in &endpoints {
            credentials.endpoint(access, member, endpoint).map_err(|e| invalid(&e))?;
        }
        // With a worker of its own it runs while nobody waits for it.
        let prefix = address.prefix();
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("etcd").enable_all().build();
        Ok(Etcd {
            world: world.clone(),
            thread: Rc::new(Thread(Some(runtime.map_err(OpenError::Thread)?))),
            members: Arc::new(Members::new(endpoints, credentials, prefix.into())),
            calls: Arc::new(Semaphore::new(CALLS_MAX)),
            prefix: prefix.into(),
        })
    }

    fn name(&self, key: &str) -> Vec<u8> {
        [self.prefix.as_bytes(), key.as_bytes()].concat()
    }

    /// Submits a call at once; the future waits for its answer.
    fn call<T, F>(&self, work: impl FnOnce(Arc<Members>) -> F) -> Answer<'static, T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, RegistryError>> + Send + 'static,
    {
        let gone = |cause: &str| RegistryError::Unreachable { cause: cause.into() };
        let Ok(permit) = self.calls.clone().try_acquire_owned() else {
            return async move { Err(gone("too many calls wait for etcd")) }.boxed_local();
        };
        let (reply, answer) = oneshot::channel();
        let work = work(self.members.clone());
        self.thread.spawn(async move {
            let done = tokio::time::timeout(CALL_TIME_MAX, work).await;
            drop(permit);
            // Nobody waits for it any more: the caller was told that the outcome is unknown.
            let _ = reply.send(done);
        });
        let late = self.world.sleep(CALL_TIME_MAX);
        async move {
            match select(answer, late).await {
                Either::Left((Ok(Ok(done)), _)) => done,
                Either::Left((Ok(Err(_)), _)) | Either::Right(_) => Err(gone("no answer in time")),
                Either::Left((Err(_), _)) => Err(gone("its thread has ended")),
            }
        }
        .boxed_local()
    }

    /// Changes a key in one transaction; `change` is what is done if its revision is the expected one.
    fn change(&self, key: &Key, expected: Option<Version>, change: RequestOp) -> Answer<'static, Version> {
        let (name, prefix) = (self.name(key.as_str()), self.name(""));
        let is_new = expected.is_none();
        // 0 is what etcd calls a key without a value; a version that no value ever had must not mean that.
        let revision = |version: Version| i64::try_from(version.0).ok().filter(|revision| *revision > 0);
        let expected = expected.map_or(0, |version| revision(version).unwrap_or(i64::MAX));
        self.call(move |members| async move {
            if is_new {
                refuse_too_many(&members, prefix).await?;
            }
            let found = RangeRequest { key: name.clone(), keys_only: true, ..RangeRequest::default() };
            let txn = TxnRequest {
                compare: vec![Compare::revision(&name, expected)],
                success: vec![change],
                failure: vec![RequestOp { range: Some(found), ..RequestOp::default() }],
            };
            let answer: TxnResponse = members.ask(method::TXN, txn, Repeats::No).await?;
            if answer.succeeded {
                return Ok(version(messages::HasHeader::revision(&answer)));
            }
            let found = answer.responses.into_iter().next().and_then(|response| response.range);
            let found = found.and_then(|range| range.kvs.into_iter().next());
            Err(RegistryError::Conflict { found: found.map(|kv| version(kv.mod_revision)) })
        })
    }
}

/// Two that create a key at once may both pass: it is a guard, not a count.
async fn refuse_too_many(members: &Members, prefix: Vec<u8>) -> Result<(), RegistryError> {
    let range_end = range_end(&prefix);
    let count = RangeRequest { key: prefix, range_end, count_only: true, ..RangeRequest::default() };
    let counted: RangeResponse = members.ask(method::RANGE, count, Repeats::Yes).await?;
    match usize::try_from(counted.count) {
        Ok(count) if count < KEYS_MAX => Ok(()),
        _ => Err(RegistryError::Limit { what: "keys", max: KEYS_MAX }),
    }
}

fn trial_key() -> Key {
    Key::new(TRIAL).expect("a constant key")
}

fn version(revision: i64) -> Version {
    Version(revision.unsigned_abs())
}

fn lease_number(lease: LeaseId) -> Result<i64, RegistryError> {
    // 0 is no lease, and etcd grants no negative one: neither was ever granted.
    i64::try_from(lease.0).ok().filter(|id| *id > 0).ok_or(RegistryError::Expired)
}

/// A value that is too long is another program's, and keeps nobody from reading the others.
fn entry(kv: KeyValue) -> Entry {
    let value = if kv.value.len() > VALUE_LEN_MAX { TOO_LONG.into() } else { kv.value };
    Entry { version: version(kv.mod_revision), value }
}

/// All keys from `key` on that begin with it, page by page.
async fn list_all(
    members: &Members,
    root_len: usize,
    prefix: Vec<u8>,
) -> Result<Vec<(Key, Entry)>, RegistryError> {
    let range_end = range_end(&prefix);
    let (mut from, mut out, mut limit) = (prefix, Vec::new(), PAGE_KEYS);
    loop {
        let (key, range_end) = (from.clone(), range_end.clone());
        let page = RangeRequest { key, range_end, limit, ..RangeRequest::default() };
        let page: RangeResponse = match members.ask(method::RANGE, page, Repeats::Yes).await {
            // Values that are too long are among them.
            Err(RegistryError::Limit { .. }) if limit > 1 => {
                limit = 1.max(limit / 16);
                continue;
            }
            page => page?,
        };
        // The first text after the last key.
        let Some(mut after) = page.kvs.last().map(|kv| kv.key.clone()) else { return Ok(out) };
        after.push(0);
        for kv in page.kvs {
            // Another program's: no key of the registry.
            let name = kv.key.get(root_len..).and_then(|name| std::str::from_utf8(name).ok());
            if let Some(key) = name.and_then(|name| Key::new(name).ok()) {
                out.push((key, entry(kv)));
            }
        }
        if out.len() > KEYS_MAX {
            return Err(RegistryError::Limit { what: "keys", max: KEYS_MAX });
        }
        if !page.more {
            return Ok(out);
        }
        from = after;
    }
}

impl Registry for Etcd {
    fn get<'a>(&'a self, key: &'a Key) -> Answer<'a, Option<Entry>> {
        let range = RangeRequest { key: self.name(key.as_str()), ..RangeRequest::default() };
        self.call(move |members| async move {
            let answer: RangeResponse = members.ask(method::RANGE, range, Repeats::Yes).await?;
            Ok(answer.kvs.into_iter().next().map(entry))
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Answer<'a, Vec<(Key, Entry)>> {
        let (root_len, prefix) = (self.prefix.len(), self.name(prefix));
        self.call(move |members| async move { list_all(&members, root_len, prefix).await })
    }

    fn compare_and_put<'a>(
        &'a self,
        key: &'a Key,
        expected: Option<Version>,
        value: &'a [u8],
        lease: Option<LeaseId>,
    ) -> Answer<'a, Version> {
        if value.len() > VALUE_LEN_MAX {
            let error = RegistryError::Limit { what: "bytes of a value", max: VALUE_LEN_MAX };
            return async move { Err(error) }.boxed_local();
        }
        let lease = match lease.map(lease_number).transpose() {
            Ok(lease) => lease.unwrap_or_default(),
            Err(error) => return async move { Err(error) }.boxed_local(),
        };
        let put = PutRequest { key: self.name(key.as_str()), value: value.to_vec(), lease };
        self.change(key, expected, RequestOp { put: Some(put), ..RequestOp::default() })
    }

    fn compare_and_delete<'a>(&'a self, key: &'a Key, expected: Version) -> Answer<'a, ()> {
        let delete = DeleteRequest { key: self.name(key.as_str()) };
        let change = RequestOp { delete: Some(delete), ..RequestOp::default() };
        self.change(key, Some(expected), change).map(|done| done.map(drop)).boxed_local()
    }

    fn examine(&self) -> Answer<'_, Option<String>> {
        // etcd judges a transaction by what it would put. This one finds no such revision, and puts nothing.
        let put = PutRequest { key: self.name(TRIAL), value: vec![0; VALUE_LEN_MAX], lease: 0 };
        let put = RequestOp { put: Some(put), ..RequestOp::default() };
        let tried = self.change(&trial_key(), Some(Version(u64::MAX)), put);
        let tried = tried.map(|done| match done {
            Ok(_) | Err(RegistryError::Conflict { .. }) => Ok(None),
            Err(error) => Err(error),
        });
        tried.boxed_local()
    }

    fn watch(&self, prefix: &str) -> Watch {
        let (said, heard) = watch::channel(Said::default());
        self.thread.spawn(follow_task(self.members.clone(), self.name(prefix), said));
        // With the client: its thread runs as long as somebody listens.
        let watched = (self.clone(), heard, Said::default());
        stream::unfold(watched, async |(client, mut heard, mut taken)| {
            loop {
                let said = heard.borrow_and_update().clone();
                if said.losses > taken.losses {
                    taken.losses = said.losses;
                    let lost = RegistryError::Unreachable { cause: said.cause };
                    return Some((Err(lost), (client, heard, taken)));
                }
                if said.hints > taken.hints {
                    taken.hints = said.hints;
                    return Some((Ok(()), (client, heard, taken)));
                }
                heard.changed().await.ok()?;
            }
        })
        .boxed_local()
    }

    fn grant(&self, time: Duration) -> Answer<'_, LeaseId> {
        let whole = time.as_secs() + u64::from(time.subsec_nanos() > 0);
        let ttl_s = whole.clamp(1, LEASE_S_MAX) as i64;
        self.call(move |members| async move {
            // One whose answer is missing has no keys, and ends.
            let grant = LeaseGrantRequest { ttl_s };
            let lease: LeaseResponse = members.ask(method::GRANT, grant, Repeats::Yes).await?;
            Ok(LeaseId(lease.id.unsigned_abs()))
        })
    }

    fn keep_alive(&self, lease: LeaseId) -> Answer<'_, ()> {
        self.call(move |members| async move {
            let renew = messages::LeaseId { id: lease_number(lease)? };
            let left: LeaseResponse = members.ask(method::KEEP_ALIVE, renew, Repeats::Yes).await?;
            if left.ttl_s > 0 { Ok(()) } else { Err(RegistryError::Expired) }
        })
    }

    fn time_left(&self, lease: LeaseId) -> Answer<'_, Duration> {
        self.call(move |members| async move {
            let asked = messages::LeaseId { id: lease_number(lease)? };
            let left: LeaseResponse = members.ask(method::TIME_TO_LIVE, asked, Repeats::Yes).await?;
            // -1: it is not there. 0: less than a second.
            u64::try_from(left.ttl_s).map(Duration::from_secs).map_err(|_| RegistryError::Expired)
        })
    }

    fn revoke(&self, lease: LeaseId) -> Answer<'_, ()> {
        self.call(move |members| async move {
            let Ok(id) = lease_number(lease) else { return Ok(()) };
            let revoke = messages::LeaseId { id };
            match members.ask::<_, LeaseResponse>(method::REVOKE, revoke, Repeats::Yes).await {
                Ok(_) | Err(RegistryError::Expired) => Ok(()),
                Err(error) => Err(error),
            }
        })
    }
}
