//! The API's server: HTTP with JSON, on a unix socket that only its owner may open; on TCP only with a token.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use array::status::{ControllerStatus, ImageStatus};
use array::{Array, Control, ControllerHandle, Event, EventSender, MoveReceiver};
use axum::middleware;
use futures::future::join_all;
use status::ImageFault;
use tokio::net::{TcpListener, TcpSocket, UnixListener};
use tokio::sync::{Mutex, oneshot};

use crate::access::{Access, Tokens, admit};
use crate::answers::Answers;
use crate::api::STREAMS_MAX;
use crate::api::routes::routes;
use crate::connections::Places;
use crate::events::{EventLog, now_ms};
use crate::health::watch_task;
use crate::holding::Holding;
use crate::moves::{balance, move_as_asked};
use crate::nodes::{self, Nodes};
use crate::own_files::refuse_own_files;
use crate::room::RoomWatch;
use crate::served::Served;
use crate::socket_file::SocketFile;
use crate::store::Store;
use crate::takeover::NewFiles;
use crate::tcp;
use crate::tls::{Tls, reminder};
use crate::traces::TraceMeter;
use crate::{identity, membership, unix};

/// How often the declaration follows the array. Until then the labels alone say what changed, and they
/// decide.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(2);

/// How long a socket may still answer whose process is about to end: one that was killed with a large pool
/// takes a tenth of a second.
const SOCKET_TIME: Duration = Duration::from_secs(2);
const SOCKET_PAUSE: Duration = Duration::from_millis(20);
/// A stop interrupts what is being changed so often: other changes may have waited for their turn.
const INTERRUPT_PAUSE: Duration = Duration::from_millis(200);
/// Connections that wait to be accepted.
const TCP_BACKLOG: u32 = 128;

/// Where the API is served.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// The unix socket.
    pub socket: PathBuf,
    /// A TCP address; every request there must carry a token (`Authorization: Bearer …`).
    pub tcp: Option<SocketAddr>,
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
}

/// A running API.
pub struct Server {
    stop: Vec<oneshot::Sender<()>>,
    socket: SocketFile,
}

/// The API's sockets: bound, and silent until there is an array. Who connects meanwhile waits.
pub struct Bound {
    socket: SocketFile,
    pub(crate) unix: UnixListener,
    pub(crate) tcp: Option<TcpListener>,
    pub(crate) tls: Option<Arc<Tls>>,
    metrics_top: usize,
    nodes: Option<Nodes>,
    traces: Option<TraceMeter>,
    moves: Option<MoveReceiver>,
}

/// Binds the sockets of the API, so that what is wrong with them is known before hosts are served.
///
/// # Errors
///
/// An address is in use, or not an address of this machine; the socket's path cannot be created.
pub fn bind(options: ServerOptions) -> Result<Bound, ServerError> {
    let tcp = options.tcp.map(bind_tcp).transpose()?;
    let unix = bind_unix(&options.socket)?;
    let (socket, metrics_top) = (SocketFile::of_bound(options.socket), options.metrics_top);
    Ok(Bound { socket, unix, tcp, tls: None, metrics_top, nodes: None, traces: None, moves: None })
}

fn bind_tcp(addr: SocketAddr) -> Result<TcpListener, ServerError> {
    let failed = |e: std::io::Error| ServerError::Bind { place: addr.to_string(), cause: e.to_string() };
    // The socket is made by tokio for SO_REUSEADDR: a port in TIME_WAIT is free.
    let socket = match addr {
        SocketAddr::V4(_) => TcpSocket::new_v4(),
        SocketAddr::V6(_) => TcpSocket::new_v6(),
    };
    let socket = socket.map_err(failed)?;
    socket.set_reuseaddr(true).map_err(failed)?;
    socket.bind(addr).map_err(failed)?;
    socket.listen(TCP_BACKLOG).map_err(failed)
}

impl Bound {
    /// The unix socket.
    pub fn socket(&self) -> &Path {
        self.socket.path()
    }

    /// TLS on TCP; without it, what is sent there can be read on the way, tokens included.
    pub fn with_tls(self, tls: Option<Tls>) -> Bound {
        Bound { tls: tls.map(Arc::new), ..self }
    }

    /// The nodes of an array of several.
    pub fn with_nodes(self, nodes: Option<Nodes>) -> Bound {
        Bound { nodes, ..self }
    }

    /// The counters of the exporter of traces.
    pub fn with_traces(self, meter: TraceMeter) -> Bound {
        Bound { traces: Some(meter), ..self }
    }

    /// Where hosts ask that pools be moved.
    pub fn with_moves(self, moves: MoveReceiver) -> Bound {
        Bound { moves: Some(moves), ..self }
    }

    /// Serves the API on the current tokio runtime until [`Server::stop`].
    pub fn serve(
        self,
        array: Array,
        (store, tokens): (Store, Tokens),
        (log, events): (EventLog, EventSender),
    ) -> (Server, ArrayOwner) {
        let controllers = array.controllers().to_vec();
        let served = Arc::new(Served {
            array: Holding::new(array),
            access: Access::new(tokens, store.clone(), events.clone()),
            store,
            started: Instant::now(),
            log,
            events,
            tracker: std::sync::Mutex::default(),
            answers: Answers::default(),
            last: std::sync::Mutex::default(),
            tls: self.tls.clone(),
            metrics_top: self.metrics_top,
            traces: self.traces,
            nodes: self.nodes,
            trends: std::sync::Mutex::default(),
            balance: std::sync::Mutex::default(),
            health: std::sync::Mutex::default(),
            declaration_fault: std::sync::Mutex::default(),
            follow_fault: std::sync::Mutex::default(),
            room: RoomWatch::default(),
            named: std::sync::Mutex::default(),
            keys: Mutex::default(),
            streams: Places::new(STREAMS_MAX),
        });
        let guarded = middleware::from_fn_with_state(served.clone(), admit);
        let routes = routes().layer(guarded).with_state(served.clone());
        let mut server = Server { stop: vec![], socket: self.socket };
        let stopped = server.stop_signal();
        let follower = served.clone();
        tokio::spawn(async move {
            // A look waits for all controllers, or for a drive; trouble is told meanwhile.
            tokio::select! {
                () = tell_trouble(&follower) => {}
                () = watch_task(&follower) => {}
                () = stopped => {}
            }
        });
        tokio::spawn(follow(served.clone(), server.stop_signal()));
        if let Some(asked) = self.moves {
            tokio::spawn(move_as_asked(served.clone(), asked, server.stop_signal()));
        }
        for handle in controllers {
            let (asking, stopped) = (served.clone(), server.stop_signal());
            tokio::spawn(async move {
                tokio::select! {
                    () = asking.answers.ask(&handle) => {}
                    () = stopped => {}
                }
            });
        }
        tokio::spawn(unix::serve(self.unix, routes.clone(), server.stop_signal()));
        if let Some(listener) = self.tcp {
            tokio::spawn(tcp::serve(listener, self.tls, routes, server.stop_signal()));
        }
        (server, ArrayOwner(served))
    }
}

/// Keeps the declaration as the array stands: what a spare or a group that leaves has changed by itself is
/// kept, too. It ends between two looks, and not in the middle of a change.
async fn follow(served: Arc<Served>, stopped: impl Future<Output = ()>) {
    let mut stopped = pin!(stopped);
    loop {
        tokio::select! {
            () = tokio::time::sleep(FOLLOW_INTERVAL) => {}
            () = &mut stopped => return,
        }
        let mut array = served.array.hold("what is done by itself: masu events").await;
        // Groups and pools are all that is followed: volumes are not looked at.
        let Ok(parts) = array.overview().await else { continue };
        identity::remember(&mut array).await;
        array.settle();
        // What a start could not complete: a group was worked on.
        if let Ok(done) = array.finish_interrupted().await {
            done.iter().for_each(|line| served.events.tell(Event::of_line(line)));
        }
        if parts.iter().any(may_come_back) {
            try_missing_again(&mut array, &served.events).await;
        }
        let mut status = crate::convert::status_of(array.config(), parts, 0);
        served.trends().look(served.started.elapsed().as_secs(), &status.pools);
        served.trends().tell(&mut status.pools);
        crate::convert::tell_identities(&mut status, &array.made().devices);
        status.failover = served.failover();
        status.nodes = nodes::of_owner(served.nodes.as_ref(), &status);
        status.state_fault = array.state_fault();
        status.unfinished = crate::convert::unfinished(array.unfinished());
        balance(&served, &mut array, &status).await;
        let next = membership::followed(array.config(), &status);
        *served.last() = Some(status);
        let fault = match next {
            None => None,
            Some(next) => match array.apply(next).await {
                Ok(done) => {
                    done.iter().for_each(|line| served.events.tell(Event::of_line(line)));
                    None
                }
                Err(error) => Some(error.to_string()),
            },
        };
        let mut known = served.follow_fault();
        if let Some(error) = fault.as_ref().filter(|fault| known.as_ref() != Some(fault)) {
            tracing::warn!("cannot declare the drives that groups have now: {error}");
        }
        *known = fault;
    }
}

/// Tells what begins to be wrong, and what is well again.
async fn tell_trouble(served: &Served) {
    let mut looked_s = now_ms() / 1000;
    loop {
        tokio::time::sleep(FOLLOW_INTERVAL).await;
        let now_s = now_ms() / 1000;
        let late = served.certificate_end_s().and_then(|end_s| reminder(end_s, looked_s, now_s));
        late.into_iter().for_each(|event| served.events.tell(event));
        looked_s = now_s;
        served.room.look(&served.store).await;
        let mut all = match &*served.last() {
            Some(status) => served.trouble_of(status),
            None => continue,
        };
        served.tracker().track(&mut all, now_ms()).into_iter().for_each(|event| served.events.tell(event));
    }
}

/// Whether something is missing, or an image waits until nobody else can write to it.
fn may_come_back(part: &ControllerStatus) -> bool {
    let waits = |image: &ImageStatus| {
        image.state.as_ref().is_err_and(|unopened| unopened.fault == ImageFault::Unclaimed)
    };
    !part.missing.is_empty() || part.images.iter().any(waits)
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
#[derive(Clone)]
pub struct ArrayOwner(Arc<Served>);

impl ArrayOwner {
    /// Says why the declaration is not in force, or that it is: a trouble of the status, for as long as it
    /// lasts.
    pub fn declaration_is_faulty(&self, fault: Option<String>) {
        *self.0.declaration_fault() = fault;
    }

    /// Applies a declaration that is read anew, and keeps it. What changes is told as what this one did.
    ///
    /// # Errors
    ///
    /// It cannot be read, is not consistent, or cannot be applied: nothing has changed.
    pub async fn apply_again<E: From<array::ControlError>>(
        &self,
        who: &str,
        read: impl FnOnce(&Store) -> Result<array::Config, E>,
    ) -> Result<Vec<String>, E> {
        let mut array = self.0.array.hold(format!("the declaration, by {who}")).await;
        let mut config = read(&self.0.store)?;
        if config.id == config::ArrayId::default() {
            config.id = array.config().id;
        }
        array.config().check_new_names(&config).map_err(array::ControlError::from)?;
        let refused = refuse_own_files(array.config(), &config, self.0.store.dir()).await;
        refused.map_err(|cause| array::ControlError::failed("declaration", cause))?;
        let files = NewFiles::of(&config.drives).await;
        let applied = array.apply(config).await;
        if applied.is_err() {
            files.remove(array.config()).await;
        }
        let done = applied?;
        done.iter().for_each(|line| self.0.events.tell(Event::of_line(line).by(who)));
        Ok(done)
    }

    /// Has a controller that has just begun anew open what is declared, and shows it to hosts.
    ///
    /// # Errors
    /// It has stopped again, or the state cannot be stored.
    pub async fn bring_up(&self, controller: usize) -> Result<(), array::ControlError> {
        let mut array = self.0.array.hold(format!("controller {controller}, which begins")).await;
        array.bring_up(controller).await
    }

    /// Has controllers end where they run, and open everything again where they run then; see
    /// [`array::Array::change_places`].
    ///
    /// # Errors
    /// A pool cannot be closed now: nothing has changed. Or one cannot be opened again.
    pub async fn change_places<F: Future<Output = array::Began>>(
        &self,
        controllers: &[usize],
        change: impl FnOnce() -> F,
    ) -> Result<Option<array::ClosedControllers>, array::ControlError> {
        let mut array = self.0.array.hold("controllers, which change their place").await;
        array.change_places(controllers, change).await
    }

    /// Has controllers begin that were left closed; see [`array::Array::begin_places`].
    ///
    /// # Errors
    /// The array has stopped: nothing has begun. Or something cannot be opened again.
    pub async fn begin_places<F: Future<Output = ()>>(
        &self,
        closed: array::ClosedControllers,
        begin: impl FnOnce() -> F,
    ) -> Result<(), array::ControlError> {
        let mut array = self.0.array.hold("controllers, which change their place").await;
        array.begin_places(closed, begin).await
    }

    /// Gives spares to the groups of controllers at other nodes; see [`array::Array::give_spares`].
    ///
    /// # Errors
    /// A controller has stopped.
    pub async fn give_spares(
        &self,
        controllers: &[usize],
    ) -> Result<(Vec<String>, Vec<String>), array::ControlError> {
        let mut array = self.0.array.hold("spares, which take places of drives").await;
        array.give_spares(controllers).await
    }

    /// What is declared now.
    pub async fn config(&self) -> array::Config {
        self.0.array.hold("a look at the declaration").await.config().clone()
    }

    /// Comes to the end of a change before a stop, as [`cut_short`].
    pub async fn cut_short<T>(&self, change: impl Future<Output = T>) -> T {
        cut_short(self.0.array.controllers(), change).await
    }

    /// Stops the array in order. What is being changed is cut short. `grace`: hosts get so long to log out;
    /// none: as long as where they have nowhere else to go.
    ///
    /// # Errors
    ///
    /// Something could not be made durable. What was acknowledged as durable is not affected.
    pub async fn stop_array(&self, grace: Option<Duration>) -> Result<(), array::ControlError> {
        let mut array = self.cut_short(self.0.array.hold("its stop")).await;
        array.settle();
        match grace {
            Some(grace) => array.stop_within(grace).await,
            None => array.stop().await,
        }
    }
}

/// Comes to the end of a change before a stop: what would take minutes (a new thick volume is zeroed) is
/// interrupted, and taken back.
pub async fn cut_short<T>(controllers: &[ControllerHandle], change: impl Future<Output = T>) -> T {
    tokio::select! {
        ended = change => ended,
        () = interrupt(controllers) => unreachable!("it has no end"),
    }
}

async fn interrupt(controllers: &[ControllerHandle]) {
    loop {
        // What ends at once needs no interruption.
        tokio::time::sleep(INTERRUPT_PAUSE).await;
        // A controller that has ended has nothing to interrupt.
        let _ = join_all(controllers.iter().map(|one| one.ask(Control::StopJobs))).await;
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
    // One that answers is another array's.
    let begun = Instant::now();
    while !SocketFile::make_room(path).map_err(|e| failed(e.to_string()))? {
        if begun.elapsed() > SOCKET_TIME {
            return Err(failed("another masu serves this data directory".into()));
        }
        std::thread::sleep(SOCKET_PAUSE);
    }
    let listener = UnixListener::bind(path).map_err(|e| failed(e.to_string()))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
        .map_err(|e| failed(e.to_string()))?;
    Ok(listener)
}
