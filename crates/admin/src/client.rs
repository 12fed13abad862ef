//! The API's client, as the command line uses it.

use std::path::PathBuf;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::{TcpStream, UnixStream};

use crate::access::{CreatedToken, ShownToken, TokenCreate};
use crate::api::escaped;
use crate::api::page::Page;
use crate::api::problem::Problem;
use crate::events::EventQuery;
use crate::request::{Change, Declared, Done};
use crate::tls::{self, Trust};
use status::{EventRecord, Events, Histograms, Status};

/// Where an array's API is.
#[derive(Clone, Debug)]
pub enum Endpoint {
    /// A unix socket.
    Unix(PathBuf),
    /// A TCP address with its token.
    Tcp {
        /// `host:port`.
        addr: String,
        /// Bearer token of the API, sent with each request.
        token: String,
        /// TLS, and how the server is known; none: it is not encrypted.
        trust: Option<Trust>,
    },
}

/// Why a request failed, in one line.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody answers.
    #[error("no array answers at {place}: {cause} (is `masu serve` running with this data directory?)")]
    Unreachable {
        /// Socket or address.
        place: String,
        /// What the system said.
        cause: String,
    },
    /// There is a server, and no TLS with it.
    #[error("no TLS connection to {place}: {cause}")]
    Tls {
        /// Address.
        place: String,
        /// What is wrong, and what to do.
        cause: String,
    },
    /// The array refused.
    #[error("{0}")]
    Refused(String),
    /// It lives, and cannot answer now: it stands by, starts, or stops.
    #[error("{0}")]
    Unavailable(String),
    /// The answer makes no sense.
    #[error("the array at {place} answered something else: {cause}")]
    Protocol {
        /// Socket or address.
        place: String,
        /// What is wrong.
        cause: String,
    },
}

/// A client of one array.
pub struct Client(Endpoint);

impl Client {
    /// A client of the array there.
    pub fn new(endpoint: Endpoint) -> Client {
        Client(endpoint)
    }

    /// How the array stands.
    ///
    /// # Errors
    ///
    /// The array does not answer, or refuses the token.
    pub async fn status(&self) -> Result<Status, ClientError> {
        self.request::<(), Status>(Method::GET, "/v1/status", None).await
    }

    /// Latency histograms.
    ///
    /// # Errors
    ///
    /// The array does not answer, or refuses the token.
    pub async fn latencies(&self) -> Result<Histograms, ClientError> {
        self.request::<(), Histograms>(Method::GET, "/v1/latencies", None).await
    }

    /// What is declared, and in what the array differs from its file.
    ///
    /// # Errors
    /// Where nobody answers.
    pub async fn config(&self) -> Result<Declared, ClientError> {
        self.request::<(), Declared>(Method::GET, "/v1/config", None).await
    }

    /// Makes a change.
    ///
    /// # Errors
    ///
    /// The array does not answer, refuses the token, or refuses the change; then nothing was changed.
    pub async fn change(&self, change: &Change) -> Result<Vec<String>, ClientError> {
        Ok(self.request::<Change, Done>(Method::POST, "/v1/change", Some(change)).await?.done)
    }

    /// Kept events; waits for at most `wait` until there is one.
    ///
    /// # Errors
    ///
    /// The array does not answer, or refuses the token.
    pub async fn events(&self, query: EventQuery, wait: Duration) -> Result<Vec<EventRecord>, ClientError> {
        let EventQuery { after, since_ms, last } = query;
        let last = last.map_or(String::new(), |n| format!("&last={n}"));
        let wait_ms = wait.as_millis();
        let path = format!("/v1/events?after={after}&since_ms={since_ms}&wait_ms={wait_ms}{last}");
        Ok(self.request::<(), Events>(Method::GET, &path, None).await?.events)
    }

    /// The tokens of the API.
    ///
    /// # Errors
    ///
    /// The array does not answer, or refuses the token.
    pub async fn tokens(&self) -> Result<Vec<ShownToken>, ClientError> {
        // An array has fewer tokens than a page.
        let page = self.request::<(), Page<ShownToken>>(Method::GET, "/v1/tokens?limit=1000", None).await?;
        Ok(page.items)
    }

    /// Makes a token.
    ///
    /// # Errors
    ///
    /// The array does not answer, refuses the token of this client, or the new one.
    pub async fn create_token(&self, wanted: &TokenCreate) -> Result<CreatedToken, ClientError> {
        self.request(Method::POST, "/v1/tokens", Some(wanted)).await
    }

    /// Deletes a token.
    ///
    /// # Errors
    ///
    /// The array does not answer, refuses the token of this client, or has none of this name.
    pub async fn delete_token(&self, name: &str) -> Result<(), ClientError> {
        self.answer::<()>(Method::DELETE, &format!("/v1/tokens/{}", escaped(name)), None).await.map(drop)
    }

    fn place(&self) -> String {
        match &self.0 {
            Endpoint::Unix(path) => path.display().to_string(),
            Endpoint::Tcp { addr, .. } => addr.clone(),
        }
    }

    fn unreachable(&self, cause: &std::io::Error) -> ClientError {
        ClientError::Unreachable { place: self.place(), cause: cause.to_string() }
    }

    fn strange(&self, cause: impl std::fmt::Display) -> ClientError {
        ClientError::Protocol { place: self.place(), cause: cause.to_string() }
    }

    async fn request<B: Serialize, T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&B>,
    ) -> Result<T, ClientError> {
        let answer = self.answer(method, path, body).await?;
        serde_json::from_slice(&answer).map_err(|e| self.strange(e))
    }

    async fn answer<B: Serialize>(
        &self,
        method: Method,
        path: &str,
        body: Option<&B>,
    ) -> Result<Bytes, ClientError> {
        let body = match body {
            Some(body) => serde_json::to_vec(body).map_err(|e| self.strange(e))?,
            None => vec![],
        };
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, "masu");
        request = request.header(header::CONTENT_TYPE, "application/json");
        if let Endpoint::Tcp { token, .. } = &self.0 {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Full::new(Bytes::from(body))).map_err(|e| self.strange(e))?;
        let (code, answer) = match &self.0 {
            Endpoint::Unix(path) => self.exchange(UnixStream::connect(path).await, request).await?,
            Endpoint::Tcp { addr, trust: None, .. } => {
                self.exchange(TcpStream::connect(addr).await, request).await?
            }
            Endpoint::Tcp { addr, trust: Some(trust), .. } => {
                let stream = TcpStream::connect(addr).await.map_err(|e| self.unreachable(&e))?;
                let secured = tls::connect(stream, addr, trust).await;
                let secured = secured.map_err(|cause| ClientError::Tls { place: self.place(), cause })?;
                self.exchange(Ok(secured), request).await?
            }
        };
        if code.is_success() {
            return Ok(answer);
        }
        let refused: Option<Problem> = serde_json::from_slice(&answer).ok();
        let text =
            refused.map_or_else(|| String::from_utf8_lossy(&answer).into_owned(), |problem| problem.detail);
        Err(match code {
            StatusCode::SERVICE_UNAVAILABLE => ClientError::Unavailable(text),
            _ => ClientError::Refused(text),
        })
    }

    async fn exchange<S>(
        &self,
        connected: std::io::Result<S>,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Bytes), ClientError>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let stream = connected.map_err(|e| self.unreachable(&e))?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(|e| self.strange(e))?;
        tokio::spawn(connection);
        let response = sender.send_request(request).await.map_err(|e| match (&self.0, e.is_parse()) {
            (Endpoint::Tcp { addr, trust: None, .. }, true) => {
                self.strange(format!("{e}; if it speaks TLS, pass --api https://{addr}"))
            }
            _ => self.strange(e),
        })?;
        let code = response.status();
        let body = response.into_body().collect().await.map_err(|e| self.strange(e))?;
        Ok((code, body.to_bytes()))
    }
}
