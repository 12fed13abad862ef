//! The API of a node that does not own the array: it lists the nodes, and has the owner answer all else
//! ([`OwnersApi`]). While that cannot be reached, requests are refused with what the node is. On TCP, where
//! no token can be checked, it does not say who the owner is, and lists and asks none.

use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::connect_info::ConnectInfo;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use futures::future::BoxFuture;
use status::Node;
use tokio::io::DuplexStream;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::api::extract::{Names, Params};
use crate::api::page::{PageParams, page};
use crate::api::problem::Problem;
use crate::api::state::{healthz, version};
use crate::carried;
use crate::nodes::named;
use crate::served::Peer;
use crate::server::Bound;
use crate::{tcp, unix};

/// When to ask again: a take-over takes seconds.
const RETRY_AFTER_S: HeaderValue = HeaderValue::from_static("1");
/// What is said without a token.
const ON_TCP: &str = "this node does not own the array: ask the one that does (masu node list)";

/// What a node says before it has looked at the registry, after its name. It says something else in a moment.
pub const STARTING: &str = "starting, and has not heard from the registry yet";

/// A connection to the API of the owner.
pub type Reaching = BoxFuture<'static, std::io::Result<DuplexStream>>;

/// The way of a standby to the API of the owner.
pub struct OwnersApi {
    /// Of the standby.
    node: String,
    reach: Box<dyn Fn() -> Option<Reaching> + Send + Sync>,
}

impl OwnersApi {
    /// Of the node of this name; `reach` knows no owner when it returns none. The connection ends when
    /// another node is the owner.
    pub fn new(node: &str, reach: impl Fn() -> Option<Reaching> + Send + Sync + 'static) -> OwnersApi {
        OwnersApi { node: node.into(), reach: Box::new(reach) }
    }
}

/// A standby that answers.
pub struct Standby {
    said: Arc<Mutex<Said>>,
    stop: watch::Sender<bool>,
    serving: Vec<JoinHandle<()>>,
}

/// What it says on its socket.
#[derive(Clone, Default)]
struct Said {
    text: String,
    /// None: not known yet.
    nodes: Vec<Node>,
}

type Told = Arc<Mutex<Said>>;

impl Bound {
    /// Answers until [`Standby::end`]; then the array may be served.
    ///
    /// # Errors
    /// The system has no descriptor for it.
    pub fn stand_by(&self, owner: OwnersApi) -> std::io::Result<Standby> {
        // Second descriptors of the same sockets: closing these loses nothing that waits in their queues.
        let unix = std::os::unix::net::UnixListener::from(self.unix.as_fd().try_clone_to_owned()?);
        let unix = UnixListener::from_std(unix)?;
        let (stop, ends) = watch::channel(false);
        let said = Said { text: STARTING.into(), nodes: vec![] };
        let said = Told::new(Mutex::new(said));
        let (told, owner) = (said.clone(), Arc::new(owner));
        let lists = Router::new().route("/v1/nodes", get(list)).route("/v1/nodes/{name}", get(show));
        let lists = lists.route("/version", get(version)).with_state(said.clone());
        let asks = move |ConnectInfo(peer): ConnectInfo<Peer>, request: Request| {
            let (told, owner) = (told.clone(), owner.clone());
            async move { answer_of_owner(&owner, &told, &peer, request).await }
        };
        let routes = lists.route("/healthz", get(healthz)).fallback(asks);
        let mut stopped = ends.clone();
        let mut serving = vec![tokio::spawn(async move {
            let stopped = async move { drop(stopped.wait_for(|ends| *ends).await) };
            unix::serve(unix, routes, stopped).await;
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
        Ok(Standby { said, stop, serving })
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

/// The owner answers whoever may do everything here. What is asked of one process, it answers itself.
async fn answer_of_owner(owner: &OwnersApi, said: &Mutex<Said>, peer: &Peer, request: Request) -> Response {
    let text = || of(said).text.clone();
    let Peer::Owner { uid } = peer else { return refused(text()) };
    if !request.uri().path().starts_with("/v1/") {
        return refused(text());
    }
    let Some(reaching) = (owner.reach)() else { return refused(text()) };
    let asked = async { carried::ask(reaching.await?, request, (&owner.node, *uid)).await };
    match asked.await {
        Ok(response) => response,
        Err(error) => refused(format!("{}; the owner's API cannot be asked here: {error}", text())),
    }
}

fn of(said: &Mutex<Said>) -> MutexGuard<'_, Said> {
    said.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is said of the nodes; while they are not known, it is refused as everything else is.
fn answered(said: &Mutex<Said>, answer: impl FnOnce(Vec<Node>) -> Result<Response, Problem>) -> Response {
    let Said { text, nodes } = of(said).clone();
    if nodes.is_empty() { refused(text) } else { answer(nodes).into_response() }
}

async fn list(State(said): State<Told>, Params(asked): Params<PageParams>) -> Response {
    answered(&said, |nodes| {
        let mut all: Vec<_> = nodes.into_iter().map(|node| (node.name.clone(), node)).collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Json(page(all, &asked)?).into_response())
    })
}

async fn show(State(said): State<Told>, Names(name): Names<String>) -> Response {
    answered(&said, |nodes| match named(&nodes, &name) {
        Some(node) => Ok(Json(node).into_response()),
        None => Err(Problem::not_found("node", &name)),
    })
}

impl Standby {
    /// What it answers from now on: what this node is, and all nodes.
    pub fn say(&self, text: &str, nodes: Vec<Node>) {
        *of(&self.said) = Said { text: text.to_owned(), nodes };
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

    use super::OwnersApi;
    use crate::server::{ServerOptions, bind};

    async fn ask(mut stream: impl AsyncReadExt + AsyncWriteExt + Unpin, path: &str) -> String {
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        answer
    }

    /// Before, a standby refused whatever was asked of it.
    #[tokio::test]
    async fn what_is_asked_of_the_array_is_answered_by_the_owner_and_names_who_asked() {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("api.sock");
        let options = ServerOptions { socket: socket.clone(), tcp: None, metrics_top: 1 };
        let bound = bind(options).expect("bound");
        // An owner that says what it was asked; it is there for these three.
        let (asks, mut asked) = tokio::sync::mpsc::channel::<tokio::io::DuplexStream>(3);
        let owner = OwnersApi::new("n2", move || {
            let (near, far) = tokio::io::duplex(1 << 12);
            asks.try_send(far).ok()?;
            Some(Box::pin(async { Ok(near) }))
        });
        let standby = bound.stand_by(owner).expect("it answers");
        standby.say("node n2: standby of n1 (epoch 3)", vec![]);
        tokio::spawn(async move {
            for breaks in [false, false, true] {
                let mut request = asked.recv().await.expect("asked");
                let mut head = [0; 1 << 12];
                let len = request.read(&mut head).await.expect("a head");
                if breaks {
                    continue;
                }
                let answer = "HTTP/1.1 409 x\r\nconnection: close\r\n\r\n";
                request.write_all(answer.as_bytes()).await.expect("sent");
                request.write_all(&head[..len]).await.expect("sent");
            }
            // No owner is known from now on.
            asked.close();
        });
        let at_socket = async |path| ask(UnixStream::connect(&socket).await.expect("connected"), path).await;
        let user = format!("masu-user: user {} of node n2", rustix::process::geteuid().as_raw());
        for (path, at_owner) in
            [("/v1/volumes?limit=2", "/v1/volumes?limit=2"), ("/v1/nodes/this/x", "/v1/nodes/n2/x")]
        {
            let answer = at_socket(path).await;
            assert!(answer.starts_with("HTTP/1.1 409"), "{answer}");
            assert!(
                answer.contains(&format!("GET {at_owner} HTTP/1.1")) && answer.contains(&user),
                "{answer}"
            );
        }
        for why in ["cannot be asked here: it has broken off", "epoch 3)\""] {
            let answer = at_socket("/v1/status").await;
            assert!(answer.starts_with("HTTP/1.1 503") && answer.contains(why), "{answer}");
        }
        standby.end().await;
    }

    #[tokio::test]
    async fn a_standby_says_on_its_socket_who_owns_and_on_tcp_only_that_it_does_not() {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("api.sock");
        let at = Some(std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
        let options = ServerOptions { socket: socket.clone(), tcp: at, metrics_top: 1 };
        let bound = bind(options).expect("bound");
        let addr = bound.tcp.as_ref().and_then(|tcp| tcp.local_addr().ok()).expect("a port");
        let standby = bound.stand_by(OwnersApi::new("n2", || None)).expect("it answers");
        let node = |name: &str, is_this| super::Node { name: name.into(), is_this, ..super::Node::default() };
        let text = "node n2: standby of n1 (epoch 3)";
        standby.say(text, vec![]);
        let at_socket = async |path| ask(UnixStream::connect(&socket).await.expect("connected"), path).await;
        assert!(at_socket("/v1/nodes").await.starts_with("HTTP/1.1 503"), "they are not known yet");
        standby.say(text, vec![node("n2", true), node("n1", false)]);
        let on_tcp = async |path| ask(TcpStream::connect(addr).await.expect("connected"), path).await;
        assert!(on_tcp("/healthz").await.starts_with("HTTP/1.1 200"));
        for path in ["/readyz", "/version", "/v1/status", "/v1/nodes", "/metrics"] {
            let answer = on_tcp(path).await;
            assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("retry-after: 1"), "{answer}");
            assert!(answer.contains("does not own the array") && !answer.contains("n1"), "{answer}");
        }
        let on_socket = at_socket("/v1/status").await;
        assert!(on_socket.starts_with("HTTP/1.1 503") && on_socket.contains("standby of n1"), "{on_socket}");
        let listed = at_socket("/v1/nodes").await;
        let at = |name: &str| listed.find(&format!("\"name\":\"{name}\""));
        assert!(listed.starts_with("HTTP/1.1 200") && at("n1") < at("n2") && at("n1").is_some(), "{listed}");
        assert!(at_socket("/v1/nodes?limit=1").await.contains("\"next\":\"n1\""));
        let rows = [
            ("/v1/nodes/this", "\"name\":\"n2\""),
            ("/v1/nodes/n1", "\"name\":\"n1\""),
            ("/v1/nodes/n3", "\"not_found\""),
        ];
        for (path, found) in rows {
            let shown = at_socket(path).await;
            assert!(shown.contains(found), "{shown}");
        }
        standby.end().await;
        // The owner to be has the same port: who connects now waits for it.
        let _waits = TcpStream::connect(addr).await.expect("in the queue");
    }
}
