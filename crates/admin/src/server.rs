//! The API's server: HTTP with JSON, on a unix socket that only its owner may open; on TCP only with a token.

use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use array::{Array, Event, EventSender};
use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::extract::{DefaultBodyLimit, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::IncomingStream;
use axum::{Json, Router};
use serde::Deserialize;
use tokio::net::{TcpListener, TcpSocket, UnixListener};
use tokio::sync::{Mutex, oneshot};

use crate::answers::Answers;
use crate::drift::differences;
use crate::events::{EventLog, EventQuery};
use crate::metrics::Named;
use crate::perform::perform;
use crate::request::{Change, Declared, Done, Refused};
use crate::store::Store;
use crate::takeover::NewFiles;
use crate::token::TokenGuard;
use crate::trouble::{Tracker, sort, trouble_of};
use crate::{identity, membership};
use status::{Events, Status, Trouble};

/// How often the declaration follows the array. Until then the labels alone say what changed, and they
/// decide.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(2);
/// The largest request body: no change comes near it.
const BODY_BYTES_MAX: usize = 64 << 10;

/// A status takes milliseconds; whoever asks is told when a controller is silent for so long.
const STATUS_TIME_MAX: Duration = Duration::from_secs(15);
/// How long who follows the events may wait for the next one.
const EVENTS_WAIT_MAX: Duration = Duration::from_secs(25);
/// The shortest token.
const TOKEN_LEN_MIN: usize = 16;
/// How long a socket may still answer whose process is about to end: one that was killed with a large pool
/// takes a tenth of a second.
const SOCKET_TIME: Duration = Duration::from_secs(2);
const SOCKET_PAUSE: Duration = Duration::from_millis(20);
/// Connections that wait to be accepted.
const TCP_BACKLOG: u32 = 128;

/// Where the API is served.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The unix socket.
    pub socket: PathBuf,
    /// TCP address and the token that every request must carry (`Authorization: Bearer …`).
    pub tcp: Option<(SocketAddr, String)>,
    /// So many LUs, hosts and drives have metrics of their own; the others are summed.
    pub metrics_top: usize,
}

/// Why the API cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// An address is not to be had.
    #[error("cannot serve the API on {place}: {cause}")]
    Bind {
        /// Socket or address.
        place: String,
        /// What the system said.
        cause: String,
    },
    /// The token is no protection.
    #[error("invalid --api-token: it has {0} characters; give at least {TOKEN_LEN_MIN}")]
    WeakToken(usize),
}

/// A running API.
pub struct Server {
    stop: Vec<oneshot::Sender<()>>,
    socket: SocketFile,
}

/// The file of a unix socket that this process has bound. Dropping it removes the file.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

struct Served {
    array: Mutex<Array>,
    store: Store,
    started: Instant,
    log: EventLog,
    events: EventSender,
    tracker: std::sync::Mutex<Tracker>,
    answers: Answers,
    /// As the array stood when it was looked at last, without volumes.
    last: std::sync::Mutex<Option<Status>>,
    metrics_top: usize,
    /// The objects that have metrics of their own.
    named: std::sync::Mutex<Named>,
}

/// The API's sockets: bound, and silent until there is an array. Who connects meanwhile waits.
pub struct Bound {
    socket: SocketFile,
    pub(crate) unix: UnixListener,
    tcp: Option<(TcpListener, Arc<str>)>,
    metrics_top: usize,
}

/// Binds the sockets of the API, so that what is wrong with them is known before hosts are served.
///
/// # Errors
///
/// An address is in use, or not an address of this machine; the socket's path cannot be created.
pub fn bind(options: ServerOptions) -> Result<Bound, ServerError> {
    let tcp = options.tcp.map(|(addr, token)| bind_tcp(addr, &token)).transpose()?;
    let unix = bind_unix(&options.socket)?;
    Ok(Bound { socket: SocketFile(options.socket), unix, tcp, metrics_top: options.metrics_top })
}

fn bind_tcp(addr: SocketAddr, token: &str) -> Result<(TcpListener, Arc<str>), ServerError> {
    if token.chars().count() < TOKEN_LEN_MIN {
        return Err(ServerError::WeakToken(token.chars().count()));
    }
    let failed = |e: std::io::Error| ServerError::Bind { place: addr.to_string(), cause: e.to_string() };
    // The socket is made by tokio for SO_REUSEADDR: a port in TIME_WAIT is free.
    let socket = match addr {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    };
    let socket = socket.map_err(failed)?;
    socket.set_reuseaddr(true).map_err(failed)?;
    socket.bind(addr).map_err(failed)?;
    Ok((socket.listen(TCP_BACKLOG).map_err(failed)?, token.into()))
}

impl Bound {
    /// Serves the API on the current tokio runtime until [`Server::stop`].
    pub fn serve(
        self,
        array: Array,
        store: Store,
        (log, events): (EventLog, EventSender),
    ) -> (Server, ArrayOwner) {
        let controllers = array.controllers().to_vec();
        let served = Arc::new(Served {
            array: Mutex::new(array),
            store,
            started: Instant::now(),
            log,
            events,
            tracker: std::sync::Mutex::default(),
            answers: Answers::default(),
            last: std::sync::Mutex::default(),
            metrics_top: self.metrics_top,
            named: std::sync::Mutex::default(),
        });
        let routes = Router::new()
            .route("/v1/status", get(status))
            .route("/v1/change", post(apply))
            .route("/v1/config", get(config))
            .route("/v1/events", get(kept_events))
            .route("/metrics", get(metrics))
            .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
            .with_state(served.clone());
        let mut server = Server { stop: vec![], socket: self.socket };
        let stopped = server.stop_signal();
        let follower = served.clone();
        tokio::spawn(async move {
            // A look waits for all controllers; trouble is told meanwhile.
            tokio::select! {
                () = follow(&follower) => {}
                () = tell_trouble(&follower) => {}
                () = stopped => {}
            }
        });
        for handle in controllers {
            let (asking, stopped) = (served.clone(), server.stop_signal());
            tokio::spawn(async move {
                tokio::select! {
                    () = asking.answers.ask(&handle) => {}
                    () = stopped => {}
                }
            });
        }
        let app = routes.clone().into_make_service_with_connect_info::<Who>();
        let (stopped, unix) = (server.stop_signal(), self.unix);
        tokio::spawn(async move { axum::serve(unix, app).with_graceful_shutdown(stopped).await });
        if let Some((tcp, token)) = self.tcp {
            let guard = Arc::new(TokenGuard::new(token, served.events.clone()));
            let guarded = routes.layer(middleware::from_fn_with_state(guard, require_token));
            let guarded = guarded.into_make_service_with_connect_info::<Who>();
            let stopped = server.stop_signal();
            tokio::spawn(async move { axum::serve(tcp, guarded).with_graceful_shutdown(stopped).await });
        }
        (server, ArrayOwner(served))
    }
}

/// Keeps the declaration as the array stands: what a spare or a group that leaves has changed by itself is
/// kept, too.
async fn follow(served: &Served) {
    loop {
        tokio::time::sleep(FOLLOW_INTERVAL).await;
        let mut array = served.array.lock().await;
        // Groups and pools are all that is followed: volumes are not looked at.
        let Ok(parts) = array.overview().await else { continue };
        identity::remember(&mut array).await;
        if parts.iter().any(|part| !part.missing.is_empty()) {
            try_missing_again(&mut array, &served.events).await;
        }
        let status = crate::convert::status_of(array.config(), parts, 0);
        let next = membership::followed(array.config(), &status);
        *served.last() = Some(status);
        let Some(next) = next else { continue };
        match array.apply(next).await {
            Ok(done) => done.iter().for_each(|line| served.events.tell(Event::of_line(line))),
            Err(error) => tracing::warn!("the declaration does not follow the array: {error}"),
        }
    }
}

/// Tells what begins to be wrong, and what is well again.
async fn tell_trouble(served: &Served) {
    loop {
        tokio::time::sleep(FOLLOW_INTERVAL).await;
        let mut all = match &*served.last() {
            Some(status) => served.trouble_of(status),
            None => continue,
        };
        served.tracker().track(&mut all, now_ms()).into_iter().for_each(|event| served.events.tell(event));
    }
}

/// What was missing may be there again. What still is not stays in the status, with its cause.
async fn try_missing_again(array: &mut Array, events: &EventSender) {
    let (config, moved) = identity::look_again(array).await;
    moved.iter().for_each(|line| events.tell(Event::of_line(line)));
    match array.apply(config).await {
        Ok(done) => done.iter().for_each(|line| events.tell(Event::of_line(line))),
        Err(error) => tracing::warn!("what was missing is not opened: {error}"),
    }
}

/// Keeps the array that the API serves reachable for the daemon itself.
pub struct ArrayOwner(Arc<Served>);

impl ArrayOwner {
    /// Applies a declaration that is read anew, and keeps it. An error of reading or checking changes
    /// nothing. What changes is told as what this one did.
    pub async fn apply_again(
        &self,
        who: &str,
        read: impl FnOnce(&Store) -> Result<array::Config, String>,
    ) -> Result<Vec<String>, String> {
        let mut array = self.0.array.lock().await;
        let mut config = read(&self.0.store)?;
        if config.id == config::ArrayId::default() {
            config.id = array.config().id;
        }
        let files = NewFiles::of(&config.drives).await;
        let applied = array.apply(config).await;
        if applied.is_err() {
            files.remove(array.config()).await;
        }
        let done = applied.map_err(|e| e.to_string())?;
        done.iter().for_each(|line| self.0.events.tell(Event::of_line(line).by(who)));
        Ok(done)
    }

    /// Stops the array in order.
    ///
    /// # Errors
    ///
    /// Something could not be made durable. What was acknowledged as durable is not affected.
    pub async fn stop_array(&self) -> Result<(), array::ControlError> {
        self.0.array.lock().await.stop().await
    }
}

impl Server {
    /// Stops serving and removes the socket.
    pub fn stop(self) {
        for stop in self.stop {
            let _ = stop.send(());
        }
        drop(self.socket);
    }

    fn stop_signal(&mut self) -> impl Future<Output = ()> + Send + 'static {
        let (send, receive) = oneshot::channel();
        self.stop.push(send);
        async move {
            let _ = receive.await;
        }
    }
}

fn bind_unix(path: &Path) -> Result<UnixListener, ServerError> {
    let failed = |cause: String| ServerError::Bind { place: path.display().to_string(), cause };
    if path.exists() {
        // A socket that nobody answers on is left from a crash; one that answers is another array's.
        let begun = Instant::now();
        while std::os::unix::net::UnixStream::connect(path).is_ok() {
            if begun.elapsed() > SOCKET_TIME {
                return Err(failed("another masu serves this data directory".into()));
            }
            std::thread::sleep(SOCKET_PAUSE);
        }
        std::fs::remove_file(path).map_err(|e| failed(e.to_string()))?;
    }
    let listener = UnixListener::bind(path).map_err(|e| failed(e.to_string()))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
        .map_err(|e| failed(e.to_string()))?;
    Ok(listener)
}

async fn require_token(
    State(guard): State<Arc<TokenGuard>>,
    ConnectInfo(who): ConnectInfo<Who>,
    request: Request,
    next: Next,
) -> Response {
    let given = request.headers().get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
    match guard.admits(given, who.peer) {
        true => next.run(request).await,
        false => refused(StatusCode::UNAUTHORIZED, "the token is missing or wrong"),
    }
}

pub(crate) fn refused(code: StatusCode, error: impl Into<String>) -> Response {
    (code, Json(Refused { error: error.into() })).into_response()
}

async fn current(served: &Served) -> Result<Status, Response> {
    let unavailable = |why: String| refused(StatusCode::SERVICE_UNAVAILABLE, why);
    let asked = tokio::time::timeout(STATUS_TIME_MAX, async {
        let array = served.array.lock().await;
        let parts = array.status().await.map_err(|e| e.to_string())?;
        Ok::<_, String>(crate::convert::status_of(array.config(), parts, served.started.elapsed().as_secs()))
    });
    let silent = |_| {
        let mut why = "a controller does not answer, or a change takes long: see masu events".to_owned();
        let slow = served.answers.trouble(tokio::time::Instant::now());
        slow.iter().for_each(|t| why += &format!("\n{}: {}", t.object, t.text));
        unavailable(why)
    };
    let mut status = asked.await.map_err(silent)?.map_err(unavailable)?;
    let mut all = served.trouble_of(&status);
    served.tracker().date(&mut all, now_ms());
    status.trouble = all;
    Ok(status)
}

impl Served {
    fn tracker(&self) -> std::sync::MutexGuard<'_, Tracker> {
        self.tracker.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Option<Status>> {
        self.last.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Everything that is wrong, the worst first.
    fn trouble_of(&self, status: &Status) -> Vec<Trouble> {
        let mut all = self.answers.trouble(tokio::time::Instant::now());
        all.extend(trouble_of(status));
        sort(&mut all);
        all
    }
}

fn now_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |t| t.as_millis() as u64)
}

/// Who has connected.
#[derive(Clone)]
struct Who {
    /// As events name it.
    name: String,
    /// The address on TCP.
    peer: Option<IpAddr>,
}

impl Connected<IncomingStream<'_, UnixListener>> for Who {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Who {
        let name = match stream.io().peer_cred() {
            Ok(peer) => format!("user {} of this machine", peer.uid()),
            Err(_) => "a user of this machine".into(),
        };
        Who { name, peer: None }
    }
}

impl Connected<IncomingStream<'_, TcpListener>> for Who {
    fn connect_info(stream: IncomingStream<'_, TcpListener>) -> Who {
        let peer = stream.remote_addr().ip();
        Who { name: format!("the token, from {peer}"), peer: Some(peer) }
    }
}

/// `GET /v1/events`.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct EventParameters {
    after: u64,
    since_ms: u64,
    last: Option<usize>,
    wait_ms: u64,
}

async fn kept_events(State(served): State<Arc<Served>>, Query(asked): Query<EventParameters>) -> Response {
    let wait = Duration::from_millis(asked.wait_ms).min(EVENTS_WAIT_MAX);
    if !wait.is_zero() {
        served.log.wait_after(asked.after, wait).await;
    }
    let query = EventQuery { after: asked.after, since_ms: asked.since_ms, last: asked.last };
    let log = served.log.clone();
    match tokio::task::spawn_blocking(move || log.read(query)).await {
        Ok(events) => Json(Events { events }).into_response(),
        Err(error) => refused(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

async fn status(State(served): State<Arc<Served>>) -> Response {
    match current(&served).await {
        Ok(status) => Json(status).into_response(),
        Err(response) => response,
    }
}

async fn config(State(served): State<Arc<Served>>) -> Response {
    let now = served.array.lock().await.config().clone();
    match served.store.declared() {
        Ok(declared) => {
            let drift = declared.map(|declared| differences(&declared, &now));
            Json(Declared { text: now.to_text(), drift }).into_response()
        }
        Err(error) => refused(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

async fn metrics(State(served): State<Arc<Served>>) -> Response {
    match current(&served).await {
        Ok(status) => {
            let mut named = served.named.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let events = served.log.counts();
            let text = crate::metrics::text(&status, &events, &mut named, served.metrics_top);
            ([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response()
        }
        Err(response) => response,
    }
}

async fn apply(
    State(served): State<Arc<Served>>,
    ConnectInfo(who): ConnectInfo<Who>,
    Json(change): Json<Change>,
) -> Response {
    let mut array = served.array.lock().await;
    match perform(&mut array, &change, served.store.dir()).await {
        Ok(done) => {
            let news = done.iter().filter(|_| !change.is_a_question());
            news.for_each(|line| served.events.tell(Event::of_line(line).by(&who.name)));
            Json(Done { done }).into_response()
        }
        Err(error) => {
            let text = format!("a change was refused: {error}");
            if !change.is_a_question() {
                served.events.tell(Event::info("array", text).by(&who.name));
            }
            refused(StatusCode::CONFLICT, error)
        }
    }
}
