//! Connections whose handshake is done: one that stalls in it holds up no other.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::certificate::Tls;

/// A handshake takes two round trips.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// Handshakes at once; further connections wait in the socket's queue.
const HANDSHAKES_MAX: usize = 512;
/// How often it is looked whether the certificate has changed.
const LOOK: Duration = Duration::from_secs(10);
/// After an accept that failed: no descriptor is free, for example.
const PAUSE: Duration = Duration::from_millis(50);

type Ready = (TlsStream<TcpStream>, SocketAddr);

/// A TCP listener with TLS.
pub(crate) struct TlsListener {
    local: SocketAddr,
    ready: mpsc::Receiver<Ready>,
    accepting: JoinHandle<()>,
}

impl TlsListener {
    /// Accepts from now on.
    ///
    /// # Errors
    /// The socket does not say where it is.
    pub(crate) fn start(tcp: TcpListener, tls: Arc<Tls>) -> std::io::Result<TlsListener> {
        let local = tcp.local_addr()?;
        let (done, ready) = mpsc::channel(HANDSHAKES_MAX);
        let accepting = tokio::spawn(accept_all(tcp, tls, done));
        Ok(TlsListener { local, ready, accepting })
    }
}

impl Drop for TlsListener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl axum::serve::Listener for TlsListener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> Ready {
        match self.ready.recv().await {
            Some(ready) => ready,
            // Its task has ended with the runtime.
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        Ok(self.local)
    }
}

async fn accept_all(tcp: TcpListener, tls: Arc<Tls>, done: mpsc::Sender<Ready>) {
    let room = Arc::new(Semaphore::new(HANDSHAKES_MAX));
    let mut look = tokio::time::interval(LOOK);
    loop {
        let next = async {
            let place = room.clone().acquire_owned().await;
            (place, tcp.accept().await)
        };
        let (place, accepted) = tokio::select! {
            accepted = next => accepted,
            _ = look.tick() => {
                let again = tls.clone();
                // Reads files, and parses what is in them.
                let _ = tokio::task::spawn_blocking(move || again.look_again()).await;
                continue;
            }
        };
        let Ok((stream, peer)) = accepted else {
            tokio::time::sleep(PAUSE).await;
            continue;
        };
        let (acceptor, done) = (TlsAcceptor::from(tls.config()), done.clone());
        tokio::spawn(async move {
            let shaken = tokio::time::timeout(HANDSHAKE_TIME, acceptor.accept(stream)).await;
            if let Ok(Ok(stream)) = shaken {
                let _ = done.send((stream, peer)).await;
            }
            drop(place);
        });
    }
}
