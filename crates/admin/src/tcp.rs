//! The API on TCP, with or without TLS: a bounded number of connections, each with a deadline for its
//! handshake and for the head of its next request. While a request is answered there is no deadline: a change
//! may take long, and streams do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::connect_info::ConnectInfo;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use crate::connections::{Most, Places};
use crate::served::Peer;
use crate::tls::Tls;

/// Far more than consoles, monitoring and commands open, and half of the 1,024 descriptors that a process has
/// at least.
const MOST: Most = Most { all: 512, of_source: 128 };
const DEADLINES: Deadlines = Deadlines { handshake: Duration::from_secs(10), head: Duration::from_secs(30) };
/// How often it is looked whether the certificate has changed.
const LOOK: Duration = Duration::from_secs(10);
/// After an accept that failed: no descriptor is free, for example.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

#[derive(Clone, Copy)]
pub(crate) struct Deadlines {
    /// It takes two round trips.
    pub(crate) handshake: Duration,
    /// From the connection, or from the last answer, to the end of the next head.
    pub(crate) head: Duration,
}

/// Serves until `stopped`: then requests that run are answered, and connections end.
pub(crate) async fn serve(
    tcp: TcpListener,
    tls: Option<Arc<Tls>>,
    app: Router,
    stopped: impl Future<Output = ()>,
) {
    let server = TcpServer { tls, app, places: Places::new(MOST), deadlines: DEADLINES };
    server.serve(tcp, stopped).await;
}

struct TcpServer {
    tls: Option<Arc<Tls>>,
    app: Router,
    places: Arc<Places>,
    deadlines: Deadlines,
}

impl TcpServer {
    async fn serve(self, tcp: TcpListener, stopped: impl Future<Output = ()>) {
        let mut stopped = std::pin::pin!(stopped);
        // Dropped at the end, which the connections see.
        let (_running, end) = watch::channel(());
        let mut look = tokio::time::interval(LOOK);
        loop {
            let accepted = tokio::select! {
                accepted = tcp.accept() => accepted,
                _ = look.tick() => {
                    self.look_again().await;
                    continue;
                }
                () = &mut stopped => return,
            };
            match accepted {
                Ok((stream, peer)) => self.begin(stream, peer, end.clone()),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    /// Reads files, and parses what is in them.
    async fn look_again(&self) {
        if let Some(tls) = self.tls.clone() {
            let _ = tokio::task::spawn_blocking(move || tls.look_again()).await;
        }
    }

    /// Connections wait for no other: one that stalls in its handshake holds up none.
    fn begin(&self, stream: TcpStream, peer: SocketAddr, end: watch::Receiver<()>) {
        let peer = Peer::Address(peer.ip());
        let Some(place) = self.places.take(peer.source(), Instant::now()) else { return };
        let (app, deadlines) = (self.app.clone(), self.deadlines);
        let acceptor = self.tls.as_ref().map(|tls| TlsAcceptor::from(tls.config()));
        tokio::spawn(async move {
            match acceptor {
                None => converse(stream, peer, app, deadlines, end).await,
                Some(acceptor) => {
                    let shaken = tokio::time::timeout(deadlines.handshake, acceptor.accept(stream)).await;
                    if let Ok(Ok(stream)) = shaken {
                        converse(stream, peer, app, deadlines, end).await;
                    }
                }
            }
            drop(place);
        });
    }
}

/// Answers the requests of a connection. Its errors are the client's, who sees them.
pub(crate) async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    peer: Peer,
    app: Router,
    deadlines: Deadlines,
    mut end: watch::Receiver<()>,
) {
    let app = TowerToHyperService::new(app);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer.clone()));
        app.call(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(deadlines.head)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        _ = connection.as_mut() => return,
        // An error: the server has ended.
        _ = end.changed() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

#[cfg(test)]
mod tests {
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::oneshot;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::store::Store;

    /// After which a test fails that would wait for ever.
    const PATIENCE: Duration = Duration::from_secs(20);
    const SOON: Duration = Duration::from_millis(50);
    const NEVER: Duration = Duration::from_secs(3600);
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";

    struct Tried {
        addr: SocketAddr,
        stop: oneshot::Sender<()>,
        serving: JoinHandle<()>,
    }

    impl Tried {
        async fn new(tls: Option<Arc<Tls>>, most: Most, deadlines: Deadlines) -> Tried {
            let tcp = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let addr = tcp.local_addr().expect("its address");
            let said = |ConnectInfo(peer): ConnectInfo<Peer>| async move { format!("hello {peer}") };
            let app = Router::new().route("/", get(said));
            let server = TcpServer { tls, app, places: Places::new(most), deadlines };
            let (stop, stopped) = oneshot::channel();
            let serving = tokio::spawn(server.serve(tcp, async move { drop(stopped.await) }));
            Tried { addr, stop, serving }
        }

        async fn connect(&self) -> TcpStream {
            TcpStream::connect(self.addr).await.expect("connected")
        }
    }

    /// Whether it is answered; if not, the connection has ended.
    async fn is_answered(stream: &mut TcpStream) -> bool {
        if stream.write_all(REQUEST).await.is_err() {
            return false;
        }
        let mut answer = [0; 4096];
        let read = tokio::time::timeout(PATIENCE, stream.read(&mut answer)).await.expect("in time");
        let answer = String::from_utf8_lossy(&answer[..read.unwrap_or(0)]).into_owned();
        assert!(answer.is_empty() || answer.ends_with("hello 127.0.0.1"), "{answer}");
        !answer.is_empty()
    }

    /// Waits for the end of a connection on which nothing is said.
    async fn ends(stream: &mut TcpStream) {
        let mut rest = vec![];
        let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
        let _ = read.expect("the server ends the connection");
    }

    #[tokio::test]
    async fn a_silent_connection_ends_before_and_after_an_answer() {
        let deadlines = Deadlines { handshake: NEVER, head: SOON };
        let tried = Tried::new(None, MOST, deadlines).await;
        let (mut silent, mut slow, mut once) =
            (tried.connect().await, tried.connect().await, tried.connect().await);
        slow.write_all(b"GET / HTT").await.expect("written");
        // It may have been ended before it asked.
        while !is_answered(&mut once).await {
            once = tried.connect().await;
        }
        for stream in [&mut silent, &mut slow, &mut once] {
            ends(stream).await;
        }
    }

    #[tokio::test]
    async fn a_handshake_that_stalls_ends() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(dir.path()).expect("a store");
        let tls = Tls::own(&store, SocketAddr::from(([127, 0, 0, 1], 1))).expect("a certificate");
        let deadlines = Deadlines { handshake: SOON, head: NEVER };
        let tried = Tried::new(Some(Arc::new(tls)), MOST, deadlines).await;
        ends(&mut tried.connect().await).await;
    }

    #[tokio::test]
    async fn connections_over_the_maximum_are_closed_and_places_are_given_back() {
        let deadlines = Deadlines { handshake: NEVER, head: NEVER };
        let tried = Tried::new(None, Most { all: 8, of_source: 2 }, deadlines).await;
        let (mut first, mut second) = (tried.connect().await, tried.connect().await);
        assert!(is_answered(&mut first).await && is_answered(&mut second).await);
        assert!(!is_answered(&mut tried.connect().await).await);
        drop(first);
        let begun = Instant::now();
        while !is_answered(&mut tried.connect().await).await {
            assert!(begun.elapsed() < PATIENCE, "the place is still taken");
        }
        assert!(is_answered(&mut second).await);
    }

    #[tokio::test]
    async fn the_end_of_the_server_ends_its_connections() {
        let deadlines = Deadlines { handshake: NEVER, head: NEVER };
        let Tried { addr, stop, serving } = Tried::new(None, MOST, deadlines).await;
        let mut idle = TcpStream::connect(addr).await.expect("connected");
        assert!(is_answered(&mut idle).await);
        stop.send(()).expect("it runs");
        serving.await.expect("it ends");
        ends(&mut idle).await;
    }
}
