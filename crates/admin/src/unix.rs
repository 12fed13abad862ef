//! The API on the unix socket: a bounded number of connections, each with a deadline for the head of its next
//! request, as on TCP. Whoever opens the socket is root or the array's own user, and a script of theirs that
//! leaves half a request behind is still no reason to run out of descriptors.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

use crate::connections::{Most, Places};
use crate::served::Peer;
use crate::tcp::{Deadlines, PAUSE, converse};

/// What commands and scripts of a machine open at once, many times over; with those on TCP, less than the
/// 1,024 descriptors that a process has at least.
const MOST: Most = Most { all: 256, of_source: 256 };
const HEAD: Duration = Duration::from_secs(30);

/// Serves until `stopped`: then requests that run are answered, and connections end.
pub(crate) async fn serve(unix: UnixListener, app: Router, stopped: impl Future<Output = ()>) {
    let deadlines = Deadlines { handshake: HEAD, head: HEAD };
    UnixServer { app, places: Places::new(MOST), deadlines }.serve(unix, stopped).await;
}

struct UnixServer {
    app: Router,
    places: Arc<Places>,
    deadlines: Deadlines,
}

impl UnixServer {
    async fn serve(self, unix: UnixListener, stopped: impl Future<Output = ()>) {
        let mut stopped = std::pin::pin!(stopped);
        // Dropped at the end, which the connections see.
        let (_running, end) = watch::channel(());
        loop {
            let accepted = tokio::select! {
                accepted = unix.accept() => accepted,
                () = &mut stopped => return,
            };
            match accepted {
                Ok((stream, _)) => self.begin(stream, end.clone()),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    fn begin(&self, stream: UnixStream, end: watch::Receiver<()>) {
        let peer = Peer::of_unix(&stream);
        let Some(place) = self.places.take("the unix socket".into(), Instant::now()) else { return };
        let (app, deadlines) = (self.app.clone(), self.deadlines);
        tokio::spawn(async move {
            converse(stream, peer, app, deadlines, end).await;
            drop(place);
        });
    }
}

#[cfg(test)]
mod tests {
    use axum::extract::connect_info::ConnectInfo;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// After which a test fails that would wait for ever.
    const PATIENCE: Duration = Duration::from_secs(20);
    const NEVER: Duration = Duration::from_secs(3600);

    struct Tried(tempfile::TempDir);

    impl Tried {
        fn new(most: Most, head: Duration) -> Tried {
            let dir = tempfile::tempdir().expect("a directory");
            let unix = UnixListener::bind(dir.path().join("s")).expect("a socket");
            let said = |ConnectInfo(peer): ConnectInfo<Peer>| async move { format!("hello {peer}") };
            let app = Router::new().route("/", get(said));
            let deadlines = Deadlines { handshake: head, head };
            let server = UnixServer { app, places: Places::new(most), deadlines };
            tokio::spawn(server.serve(unix, std::future::pending()));
            Tried(dir)
        }

        async fn connect(&self) -> UnixStream {
            UnixStream::connect(self.0.path().join("s")).await.expect("connected")
        }
    }

    /// What is said on a connection until it ends.
    async fn rest(stream: &mut UnixStream) -> String {
        let mut rest = String::new();
        let read = tokio::time::timeout(PATIENCE, stream.read_to_string(&mut rest)).await;
        // A connection that is closed with bytes unread is reset.
        let _ = read.expect("the server ends the connection");
        rest
    }

    async fn asked(stream: &mut UnixStream) -> String {
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
        rest(stream).await
    }

    /// Half a head held a connection for ever, and so did silence.
    #[tokio::test]
    async fn half_a_head_and_silence_end_on_the_unix_socket() {
        let tried = Tried::new(MOST, Duration::from_millis(50));
        let (mut silent, mut slow) = (tried.connect().await, tried.connect().await);
        slow.write_all(b"GET / HTT").await.expect("written");
        assert_eq!((&*rest(&mut silent).await, rest(&mut slow).await.contains("hello")), ("", false));
    }

    #[tokio::test]
    async fn connections_over_the_maximum_are_closed_on_the_unix_socket_and_places_are_given_back() {
        let tried = Tried::new(Most { all: 2, of_source: 2 }, NEVER);
        let (first, mut second) = (tried.connect().await, tried.connect().await);
        assert_eq!(asked(&mut tried.connect().await).await, "");
        drop(first);
        let begun = Instant::now();
        while !asked(&mut tried.connect().await).await.contains("hello user") {
            assert!(begun.elapsed() < PATIENCE, "the place is still taken");
        }
        assert!(asked(&mut second).await.contains("hello user"));
    }
}
