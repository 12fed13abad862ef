//! The API of a node that does not own the array: each request is refused with what the node is. On TCP,
//! where no token can be checked, it does not say who the owner is.

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::api::problem::Problem;
use crate::api::state::{healthz, version};
use crate::server::Bound;
use crate::tcp;

/// When to ask again: a take-over takes seconds.
const RETRY_AFTER_S: HeaderValue = HeaderValue::from_static("1");
/// What is said without a token.
const ON_TCP: &str = "this node does not own the array: ask the one that does (masu node list)";

/// A standby that answers.
pub struct Standby {
    text: Arc<Mutex<String>>,
    stop: watch::Sender<bool>,
    serving: Vec<JoinHandle<()>>,
}

impl Bound {
    /// Answers until [`Standby::end`]; then the array may be served.
    ///
    /// # Errors
    /// The system has no descriptor for it.
    pub fn stand_by(&self) -> std::io::Result<Standby> {
        // Second descriptors of the same sockets: closing these loses nothing that waits in their queues.
        let unix = std::os::unix::net::UnixListener::from(self.unix.as_fd().try_clone_to_owned()?);
        let unix = UnixListener::from_std(unix)?;
        let (stop, ends) = watch::channel(false);
        let text = Arc::new(Mutex::new(String::new()));
        let said = text.clone();
        let routes = Router::new().route("/version", get(version)).merge(refusing(move || said_of(&said)));
        let mut stopped = ends.clone();
        let mut serving = vec![tokio::spawn(async move {
            tokio::select! {
                _ = axum::serve(unix, routes) => {}
                _ = stopped.wait_for(|ends| *ends) => {}
            }
        })];
        if let Some(tcp) = &self.tcp {
            let tcp = std::net::TcpListener::from(tcp.as_fd().try_clone_to_owned()?);
            let (tcp, tls) = (TcpListener::from_std(tcp)?, self.tls.clone());
            let mut stopped = ends;
            serving.push(tokio::spawn(async move {
                let stopped = async move { drop(stopped.wait_for(|ends| *ends).await) };
                tcp::serve(tcp, tls, refusing(|| ON_TCP.to_owned()), stopped).await;
            }));
        }
        Ok(Standby { text, stop, serving })
    }
}

/// It lives, and refuses everything else.
fn refusing(text: impl Fn() -> String + Clone + Send + Sync + 'static) -> Router {
    let refuse = move || {
        let text = text();
        async move { refused(text) }
    };
    Router::new().route("/healthz", get(healthz)).fallback(refuse)
}

fn refused(text: String) -> Response {
    let mut response = Problem::unavailable(text).into_response();
    response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_S);
    response
}

fn said_of(text: &Mutex<String>) -> String {
    text.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

impl Standby {
    /// What it answers from now on.
    pub fn say(&self, text: &str) {
        text.clone_into(&mut self.text.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Stops answering.
    pub async fn end(self) {
        let _ = self.stop.send(true);
        for serving in self.serving {
            // Aborted with the runtime: then nobody answers, either.
            let _ = serving.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpStream, UnixStream};

    use crate::server::{ServerOptions, bind};

    async fn ask(mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin, path: &str) -> String {
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        answer
    }

    #[tokio::test]
    async fn a_standby_says_on_its_socket_who_owns_and_on_tcp_only_that_it_does_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("api.sock");
        let at = Some(std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
        let options = ServerOptions { socket: socket.clone(), tcp: at, metrics_top: 1 };
        let bound = bind(options).expect("bound");
        let addr = bound.tcp.as_ref().and_then(|tcp| tcp.local_addr().ok()).expect("a port");
        let standby = bound.stand_by().expect("it answers");
        standby.say("node n2: standby of n1 (epoch 3)");
        let on_tcp = async |path| ask(TcpStream::connect(addr).await.expect("connected"), path).await;
        assert!(on_tcp("/healthz").await.starts_with("HTTP/1.1 200"));
        for path in ["/readyz", "/version", "/v1/status", "/metrics"] {
            let answer = on_tcp(path).await;
            assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("retry-after: 1"), "{answer}");
            assert!(answer.contains("does not own the array") && !answer.contains("n1"), "{answer}");
        }
        let on_socket = ask(UnixStream::connect(&socket).await.expect("connected"), "/v1/status").await;
        assert!(on_socket.contains("standby of n1"), "{on_socket}");
        standby.end().await;
        // The owner to be has the same port: who connects now waits for it.
        let _waits = TcpStream::connect(addr).await.expect("in the queue");
    }
}
