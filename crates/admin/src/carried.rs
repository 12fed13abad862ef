//! A request that came at the socket of another node, and is asked of the owner's API.

use std::io;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri, header};
use axum::response::Response;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// Who asks at the other node. It counts from those alone that may do everything.
const USER: HeaderName = HeaderName::from_static("masu-user");
/// Longer than a user's number and the name of a node.
const USER_LEN_MAX: usize = 256;
/// How this node is called in paths; the owner would take it for its own name.
const THIS: &str = "/v1/nodes/this/";

/// Asks the API on this connection for the user of this node, and returns its answer, which may be a stream.
///
/// # Errors
/// It ends without one: whether it has changed anything is not known.
pub(crate) async fn ask(
    owner: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    mut request: Request,
    (node, uid): (&str, u32),
) -> io::Result<Response> {
    *request.uri_mut() = of_owner(request.uri(), node)?;
    let headers = request.headers_mut();
    headers.remove(header::CONNECTION);
    let user = HeaderValue::from_str(&format!("user {uid} of node {node}")).map_err(io::Error::other)?;
    headers.insert(USER, user);
    let (mut asks, connection) = http1::handshake(TokioIo::new(owner)).await.map_err(io::Error::other)?;
    // It ends with the answer, or with who waits for it.
    tokio::spawn(connection);
    let answered = asks.send_request(request).await;
    let ended = |_| io::Error::other("it has broken off; masu status says what was done when a node serves");
    Ok(answered.map_err(ended)?.map(Body::new))
}

/// The path at the owner.
fn of_owner(uri: &Uri, node: &str) -> io::Result<Uri> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    match path.strip_prefix(THIS) {
        Some(rest) => format!("/v1/nodes/{node}/{rest}").parse(),
        None => path.parse(),
    }
    .map_err(io::Error::other)
}

/// Who asks at another node, if the request came there. Anybody can say so: see [`crate::access`].
pub(crate) fn user(headers: &HeaderMap) -> Option<&str> {
    headers.get(USER)?.to_str().ok().filter(|user| user.len() <= USER_LEN_MAX)
}
