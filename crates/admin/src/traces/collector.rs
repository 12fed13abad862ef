//! One request to a collector: OTLP over HTTP/1.1, with TLS where the endpoint says so.

use std::time::Duration;

use config::{TraceSettings, read_small_text};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST, HeaderName, HeaderValue};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::messages::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use crate::tls::{self, Trust};

/// How long a collector may take: what OpenTelemetry's exporters grant it.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// An answer has a few words.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// Longer than any file of headers.
const HEADERS_BYTES_MAX: u64 = 1 << 20;
/// Headers of a collector at most.
const HEADERS_MAX: usize = 32;

/// Why traces did not arrive.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Undelivered {
    pub(super) cause: String,
    /// Whether they may arrive later.
    pub(super) may_recover: bool,
}

fn later(cause: impl std::fmt::Display) -> Undelivered {
    Undelivered { cause: cause.to_string(), may_recover: true }
}

fn never(cause: impl std::fmt::Display) -> Undelivered {
    Undelivered { cause: cause.to_string(), may_recover: false }
}

/// Sends a request. Some: spans that the collector has refused, in its words.
///
/// # Errors
/// The collector is away, silent, or refuses all of it.
pub(super) async fn send(
    settings: &TraceSettings,
    request: &ExportTraceServiceRequest,
) -> Result<Option<String>, Undelivered> {
    let body = Bytes::from(request.encode_to_vec());
    match tokio::time::timeout(ANSWER_TIME, exchange(settings, body)).await {
        Ok(sent) => sent,
        Err(_) => Err(later(format!("no answer within {} s", ANSWER_TIME.as_secs()))),
    }
}

async fn exchange(settings: &TraceSettings, body: Bytes) -> Result<Option<String>, Undelivered> {
    let (is_tls, place, path) = settings.address().map_err(never)?;
    let mut request = Request::post(path).header(HOST, &place).header(CONTENT_TYPE, "application/x-protobuf");
    if let Some(file) = &settings.headers_file {
        let failed = |cause: &str| never(format!("{}: {cause}", file.display()));
        let path = file.clone();
        let reading = tokio::task::spawn_blocking(move || read_small_text(&path, HEADERS_BYTES_MAX));
        let text = reading.await.map_err(later)?.map_err(|e| failed(&e.to_string()))?;
        for (name, value) in headers_of(&text).map_err(|cause| failed(&cause))? {
            request = request.header(name, value);
        }
    }
    let request = request.body(Full::new(body)).map_err(never)?;
    let stream = TcpStream::connect(&place).await.map_err(later)?;
    match &settings.ca {
        Some(ca) if is_tls => {
            let trust = Trust::Roots(ca.clone());
            let secured = tls::connect(stream, &place, &trust).await.map_err(later)?;
            post(secured, request).await
        }
        _ => post(stream, request).await,
    }
}

async fn post<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Option<String>, Undelivered>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(later)?;
    // It ends with the sender.
    let connection = tokio::spawn(connection);
    let answer = async {
        let response = sender.send_request(request).await.map_err(later)?;
        let code = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await.map_err(later)?;
        judged(code, &body.to_bytes())
    };
    let answered = answer.await;
    connection.abort();
    answered
}

/// What an answer means: the codes that the protocol lists as retryable are tried again.
fn judged(code: StatusCode, body: &[u8]) -> Result<Option<String>, Undelivered> {
    match code {
        code if code.is_success() => {
            let answer = ExportTraceServiceResponse::decode(body).unwrap_or_default();
            let refused = answer.partial_success.filter(|partial| partial.rejected_spans > 0);
            Ok(refused.map(|partial| format!("{} spans: {}", partial.rejected_spans, partial.error_message)))
        }
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Err(later(format!("HTTP status {code}"))),
        code => Err(never(format!("HTTP status {code}"))),
    }
}

/// The headers of a file: `Name: value`, one per line.
fn headers_of(text: &str) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let mut all = Vec::new();
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    for (number, line) in lines {
        // The value may be a secret: it is not shown.
        let wrong = || format!("line {number} is not a header, as in `Authorization: Bearer TOKEN`");
        let (name, value) = line.split_once(':').ok_or_else(wrong)?;
        let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| wrong())?;
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| wrong())?;
        value.set_sensitive(true);
        all.push((name, value));
        if all.len() > HEADERS_MAX {
            return Err(format!("more than {HEADERS_MAX} headers"));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_and_a_wrong_line_is_not_shown() {
        let good = headers_of("Authorization: Bearer a:b\n\nx-tenant: masu\n").expect("good");
        assert_eq!(good.len(), 2);
        assert_eq!((good[0].0.as_str(), good[0].1.as_bytes()), ("authorization", "Bearer a:b".as_bytes()));
        for wrong in ["secret", "a b: secret", "a: secret\u{7}"] {
            let error = headers_of(wrong).expect_err(wrong);
            assert!(error.starts_with("line 1 is not a header") && !error.contains("secret"), "{error}");
        }
        assert!(headers_of(&"a: b\n".repeat(HEADERS_MAX + 1)).is_err());
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        assert_eq!(judged(StatusCode::OK, &[]), Ok(None));
        for (code, may_recover) in [(429, true), (503, true), (400, false), (401, false), (404, false)] {
            let code = StatusCode::from_u16(code).expect("a code");
            assert_eq!(judged(code, &[]).map_err(|error| error.may_recover), Err(may_recover), "{code}");
        }
        let partial_success =
            Some(super::super::messages::PartialSuccess { rejected_spans: 3, error_message: "no".into() });
        let answer = ExportTraceServiceResponse { partial_success }.encode_to_vec();
        assert_eq!(judged(StatusCode::OK, &answer), Ok(Some("3 spans: no".into())));
    }
}
