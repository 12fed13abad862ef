//! The members of the cluster, and the connection to one of them.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use registry::{CALL_TIME_MAX, RegistryError};
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, timeout, timeout_at};
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use crate::credentials::Credentials;
use crate::fault::{Fault, advised, append_sources, fault_of};
use crate::messages::{
    AuthenticateRequest, AuthenticateResponse, HasHeader, RangeRequest, RangeResponse, method,
};
use crate::{Access, Login};

/// What is wrong with a member that accepts a connection and does not answer.
const SILENT: &str =
    "it is connected and does not answer: it stands still, or most members of its cluster are away";

/// To connect, log in and read: a third of a call, so that a member which is away leaves time for the next.
const CONNECT_TIME_MAX: Duration = Duration::from_millis(650);
const _: () = assert!(CONNECT_TIME_MAX.as_millis() * 3 < CALL_TIME_MAX.as_millis());
/// A call ends a little before who waits for it gives up, to say why.
const ASK_TIME_MAX: Duration = CALL_TIME_MAX.saturating_sub(Duration::from_millis(100));
/// Between two attempts to connect.
const RECONNECT_EVERY: Duration = Duration::from_millis(30);
/// Attempts of a call; its time ends it before, unless connections are refused at once.
const ATTEMPTS_MAX: usize = 32;
/// An answer: a page of a list (`client::PAGE_KEYS` of the longest values), and what surrounds them.
pub(crate) const ANSWER_LEN_MAX: usize = 16 << 20;

/// Whether a call may be sent again when its answer is missing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeats {
    /// Once or twice is the same.
    Yes,
    /// A second one could meet the change of the first.
    No,
}

/// What a call needs of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// That etcd has taken the login, if it asks for one.
    Login,
    /// Nothing: the renewal of a lease, for which etcd asks nobody who he is.
    Nothing,
}

/// A connection to a member.
#[derive(Clone)]
pub(crate) struct Connection {
    channel: Channel,
    token: Option<MetadataValue<Ascii>>,
    number: u64,
    at: usize,
    member: String,
    /// Why etcd has not taken the login. What needs none goes on.
    refused: Option<RegistryError>,
}

impl Connection {
    /// A client for one call, and its request.
    pub(crate) fn client<Q>(&self, message: Q) -> (Grpc<Channel>, Request<Q>) {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("token", token.clone());
        }
        (Grpc::new(self.channel.clone()).max_decoding_message_size(ANSWER_LEN_MAX), request)
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// What went wrong, with the member's name.
    pub(crate) fn named(&self, cause: &str) -> String {
        format!("{}: {cause}", self.member)
    }

    async fn unary<Q, A>(&self, name: &'static str, message: Q) -> Result<A, Status>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let (mut client, request) = self.client(message);
        client.ready().await.map_err(|e| Status::from_error(Box::new(e)))?;
        let path = PathAndQuery::from_static(name);
        client.unary(request, path, ProstCodec::default()).await.map(tonic::Response::into_inner)
    }
}

/// Where the client stands.
struct Current {
    /// The member to be asked.
    at: usize,
    connection: Option<Connection>,
    /// Of the next connection.
    number: u64,
}

/// Whether a connection ended without a word.
fn is_closed(cause: &str) -> bool {
    ["connection closed", "broken pipe", "connection reset", "received fatal alert"]
        .iter()
        .any(|part| cause.to_lowercase().contains(part))
}

/// The members, of which one is asked: the next one when it does not answer.
pub(crate) struct Members {
    endpoints: Vec<(String, Endpoint)>,
    credentials: Credentials,
    /// Before all keys.
    prefix: Vec<u8>,
    current: Mutex<Current>,
    /// What was last wrong with each member. Told together: with one at a time, who tells only changes would
    /// tell every call.
    faults: std::sync::Mutex<Vec<Option<String>>>,
    /// The number of the last connection that was given up, for those who wait on it.
    given_up: watch::Sender<u64>,
    /// The latest revision that any answer has told.
    revision: AtomicI64,
}

impl Members {
    /// Connects with the first call.
    pub(crate) fn new(
        endpoints: Vec<(String, Endpoint)>,
        credentials: Credentials,
        prefix: Vec<u8>,
    ) -> Members {
        let current = Mutex::new(Current { at: 0, connection: None, number: 1 });
        let (given_up, _) = watch::channel(0);
        let faults = std::sync::Mutex::new(vec![None; endpoints.len()]);
        Members { endpoints, credentials, prefix, current, faults, given_up, revision: AtomicI64::new(0) }
    }

    /// The latest revision known; 0: none.
    pub(crate) fn revision(&self) -> i64 {
        self.revision.load(Ordering::Acquire)
    }

    fn saw(&self, revision: i64) {
        self.revision.fetch_max(revision, Ordering::AcqRel);
    }

    fn note(&self, at: usize, fault: Option<&str>) {
        let mut faults = self.faults.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        faults[at] = fault.map(str::to_owned);
    }

    /// What is wrong with all of them.
    fn why(&self) -> String {
        let faults = self.faults.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let named = self.endpoints.iter().zip(&*faults);
        let told = named.filter_map(|((member, _), fault)| Some(format!("{member}: {}", fault.as_ref()?)));
        let told = told.collect::<Vec<_>>().join("; ");
        if told.is_empty() { "no answer in time".into() } else { told }
    }

    /// The connection, or a new one; who asks meanwhile waits for it. One without a login is made anew for
    /// who needs that: it may be in the file by now.
    pub(crate) async fn connection(&self, needs: Needs) -> Result<Connection, Fault> {
        let mut current = self.current.lock().await;
        if let Some(connection) = &current.connection {
            if needs == Needs::Nothing || connection.refused.is_none() {
                return Ok(connection.clone());
            }
            self.given_up.send_replace(connection.number);
        }
        let number = current.number;
        current.number += 1;
        let at = current.at;
        let is_open = AtomicBool::new(false);
        let connected = timeout(CONNECT_TIME_MAX, self.connect(at, number, &is_open)).await;
        let lost = match connected {
            Ok(Ok(connection)) => {
                current.connection = Some(connection.clone());
                self.note(at, None);
                return match connection.refused.clone().filter(|_| needs == Needs::Login) {
                    Some(refused) => Err(Fault::Refused(refused)),
                    None => Ok(connection),
                };
            }
            Ok(Err(Fault::Lost(cause) | Fault::LoggedOut(cause))) => cause,
            Ok(Err(refused)) => return Err(refused),
            Err(_) if is_open.load(Ordering::Relaxed) => SILENT.into(),
            Err(_) => "no connection in time".into(),
        };
        current.at = (at + 1) % self.endpoints.len();
        self.note(at, Some(&lost));
        Err(Fault::Lost(self.why()))
    }

    /// Connects and reads: a member that accepts connections may still be stopped, or without a leader. A
    /// change is only sent to one that has answered, so that it is seldom unknown what became of it.
    /// `is_open` becomes true when it accepts the connection.
    async fn connect(&self, at: usize, number: u64, is_open: &AtomicBool) -> Result<Connection, Fault> {
        let (member, endpoint) = &self.endpoints[at];
        let (access, unread) = self.credentials.read().await;
        // What is wrong with the files matters only if what was read before does not do.
        let unread = unread.as_deref();
        let told = |error: tonic::transport::Error| {
            let mut text = error.to_string();
            append_sources(&mut text, std::error::Error::source(&error));
            Fault::Lost(advised(&text)).beside(unread)
        };
        let endpoint = self.credentials.endpoint(&access, member, endpoint).map_err(told)?;
        let channel = endpoint.connect().await.map_err(told)?;
        is_open.store(true, Ordering::Relaxed);
        let member = member.clone();
        let mut connection = Connection { channel, token: None, number, at, member, refused: None };
        // By TLS 1.3 a member refuses a client's certificate after the handshake, and says nothing.
        let why = self.credentials.why_closed(&access);
        let closed = |fault: Fault| match fault {
            Fault::Lost(cause) if is_closed(&cause) => Fault::Lost(format!("{cause}: {why}")),
            fault => fault,
        };
        match self.log_in(&connection, &access).await.map_err(|fault| closed(fault).beside(unread)) {
            Ok(token) => connection.token = token,
            Err(Fault::Refused(error)) => {
                connection.refused = Some(error);
                return Ok(connection);
            }
            Err(fault) => return Err(fault),
        }
        let read = RangeRequest { key: self.prefix.clone(), keys_only: true, ..RangeRequest::default() };
        let read = connection.unary::<_, RangeResponse>(method::RANGE, read).await;
        // It answers, and there is a leader. What needs no rights is still granted to who may not read:
        // without the renewal of its lease an owner would lose the array.
        let is_refused = read.as_ref().is_err_and(|status| status.code() == Code::PermissionDenied);
        match read.map_err(|status| fault_of(&status)) {
            Ok(answer) => self.saw(answer.revision()),
            Err(_) if is_refused => {}
            // It has just logged in: another time is the same.
            Err(Fault::LoggedOut(cause)) => {
                let cause = format!("{}: {cause}", connection.member);
                connection.refused = Some(RegistryError::Refused { cause });
            }
            Err(fault) => return Err(closed(fault).beside(unread)),
        }
        Ok(connection)
    }

    /// A token, if etcd asks for users and there is one. What was in the file first, then what etcd took
    /// last.
    async fn log_in(
        &self,
        connection: &Connection,
        access: &Access,
    ) -> Result<Option<MetadataValue<Ascii>>, Fault> {
        let mut refused = None;
        for login in self.credentials.logins(access) {
            let Login { user, password } = login.clone();
            let message = AuthenticateRequest { name: user, password };
            match connection.unary::<_, AuthenticateResponse>(method::AUTHENTICATE, message).await {
                Ok(answer) => {
                    self.credentials.took(login);
                    return Ok(answer.token.parse().ok());
                }
                // A user is more than it asks for.
                Err(status) if status.code() == Code::FailedPrecondition => return Ok(None),
                Err(status) => match fault_of(&status) {
                    Fault::Refused(error) => _ = refused.get_or_insert(Fault::Refused(error)),
                    fault => return Err(fault),
                },
            }
        }
        refused.map_or(Ok(None), Err)
    }

    /// Gives up a connection, if nobody has before; `next`: and its member.
    pub(crate) async fn give_up(&self, number: u64, next: bool) {
        let mut current = self.current.lock().await;
        if current.connection.as_ref().is_some_and(|connection| connection.number == number) {
            current.connection = None;
            current.at = (current.at + usize::from(next)) % self.endpoints.len();
            self.given_up.send_replace(number);
        }
    }

    /// Ends when a connection is given up.
    pub(crate) fn until_given_up(&self, number: u64) -> impl Future<Output = ()> + use<> {
        let mut given_up = self.given_up.subscribe();
        async move {
            // It fails only when the members are gone.
            let _ = given_up.wait_for(|given_up| *given_up >= number).await;
        }
    }

    /// Asks until there is an answer, at most [`ASK_TIME_MAX`].
    pub(crate) async fn ask<Q, A>(
        &self,
        name: &'static str,
        message: Q,
        repeats: Repeats,
    ) -> Result<A, RegistryError>
    where
        Q: prost::Message + Clone + 'static,
        A: prost::Message + HasHeader + Default + 'static,
    {
        let until = Instant::now() + ASK_TIME_MAX;
        // Who may ask another member leaves it time.
        let share = if repeats == Repeats::Yes && self.endpoints.len() > 1 { 2 } else { 1 };
        // An owner whose password was changed keeps its lease by that.
        let needs = if name == method::KEEP_ALIVE { Needs::Nothing } else { Needs::Login };
        for _ in 0..ATTEMPTS_MAX {
            let connection = match timeout_at(until, self.connection(needs)).await {
                Ok(Ok(connection)) => connection,
                Ok(Err(Fault::Refused(error))) => return Err(error),
                // Nothing was sent.
                Ok(Err(Fault::Lost(_) | Fault::LoggedOut(_))) => {
                    tokio::time::sleep_until(until.min(Instant::now() + RECONNECT_EVERY)).await;
                    continue;
                }
                Err(_) => break,
            };
            let wait = until.min(Instant::now() + ASK_TIME_MAX / share);
            let answer = timeout_at(wait, connection.unary::<Q, A>(name, message.clone())).await;
            let fault = match answer {
                Ok(Ok(answer)) => {
                    self.saw(answer.revision());
                    return Ok(answer);
                }
                Ok(Err(status)) => fault_of(&status),
                Err(_) => Fault::Lost("no answer in time".into()),
            };
            match fault {
                Fault::Refused(error) => return Err(error),
                Fault::LoggedOut(cause) => {
                    self.give_up(connection.number, false).await;
                    self.note(connection.at, Some(&cause));
                }
                Fault::Lost(cause) => {
                    self.give_up(connection.number, true).await;
                    self.note(connection.at, Some(&cause));
                    if repeats == Repeats::No {
                        break;
                    }
                }
            }
        }
        Err(RegistryError::Unreachable { cause: self.why() })
    }
}
