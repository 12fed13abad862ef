//! What a request carries, read so that each refusal is a problem with its field.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use serde::de::DeserializeOwned;

use super::problem::Problem;

/// How long a body may take: the largest is 16 MiB. A client that sends a byte now and then would keep its
/// connection, and others from theirs; the head of a request has a deadline of its own (`tcp`).
const BODY_TIME_MAX: Duration = Duration::from_secs(60);

/// A JSON body, with its bytes.
pub(crate) struct Body<T>(pub(crate) T, pub(crate) Bytes);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Body<T>, Problem> {
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
        let essence = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default().trim();
        if !essence.eq_ignore_ascii_case("application/json") {
            let detail = "the body must be application/json (Content-Type)";
            return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "media_type", detail));
        }
        let bytes = bytes_of(request, state, BODY_TIME_MAX).await?;
        let mut reader = serde_json::Deserializer::from_slice(&bytes);
        let body = serde_path_to_error::deserialize(&mut reader).map_err(|e| of_json(&e))?;
        reader.end().map_err(|e| Problem::bad_request("json", format!("the body is not JSON: {e}")))?;
        Ok(Body(body, bytes))
    }
}

/// The bytes of a body that arrives in time.
async fn bytes_of<S: Send + Sync>(request: Request, state: &S, most: Duration) -> Result<Bytes, Problem> {
    let read = tokio::time::timeout(most, Bytes::from_request(request, state)).await;
    let read = read.map_err(|_| {
        let detail = format!("the body did not arrive within {} s: send it at once", most.as_secs());
        Problem::new(StatusCode::REQUEST_TIMEOUT, "too_slow", detail)
    })?;
    read.map_err(|rejection| {
        let code = if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE { "too_large" } else { "body" };
        Problem::new(rejection.status(), code, rejection.body_text())
    })
}

/// What is no JSON is a bad request; JSON that says something else than is asked for cannot be processed.
fn of_json(error: &serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let inner = error.inner();
    if !inner.is_data() {
        return Problem::bad_request("json", format!("the body is not JSON: {inner}"));
    }
    let problem = Problem::invalid(inner.to_string());
    match error.path().to_string() {
        path if path == "." => problem,
        path => problem.of_field(&path),
    }
}

/// The parameters behind the question mark.
pub(crate) struct Params<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Params<T>, Problem> {
        let Query(params) = Query::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Problem::bad_request("parameter", rejection.body_text()))?;
        Ok(Params(params))
    }
}

/// The names in the path.
pub(crate) struct Names<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for Names<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Names<T>, Problem> {
        let Path(names) = Path::from_request_parts(parts, state)
            .await
            .map_err(|rejection| Problem::bad_request("path", rejection.body_text()))?;
        Ok(Names(names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::bodies::VolumeCreate;

    async fn check(kind: &str, body: &str, expected: (u16, &str, Option<&str>)) {
        let request = Request::builder().header(header::CONTENT_TYPE, kind).body(body.to_owned().into());
        let outcome = Body::<VolumeCreate>::from_request(request.expect("a request"), &()).await;
        let problem = outcome.err().expect("it is refused");
        let told = (problem.status, &*problem.code, problem.field.as_deref());
        assert_eq!(told, expected, "{}", problem.detail);
    }

    #[tokio::test]
    async fn a_body_that_never_ends_is_not_waited_for() {
        let slow = futures::stream::unfold((), async |()| {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Some((Ok::<_, std::convert::Infallible>(" "), ()))
        });
        let request = Request::new(axum::body::Body::from_stream(slow));
        let read = bytes_of(request, &(), Duration::from_millis(50));
        let read = tokio::time::timeout(Duration::from_secs(20), read).await.expect("it is not waited for");
        let problem = read.expect_err("it is refused");
        assert_eq!((problem.status, &*problem.code), (408, "too_slow"));
    }

    #[tokio::test]
    async fn what_is_wrong_with_a_body_is_told_apart() {
        let json = "application/json";
        check("text/plain", "{}", (415, "media_type", None)).await;
        check(json, "{", (400, "json", None)).await;
        check(json, "{\"name\":\"v\",\"size_bytes\":1} x", (400, "json", None)).await;
        check(json, "[]", (422, "invalid", None)).await;
        check(json, "{\"name\":\"v\"}", (422, "invalid", None)).await;
        check(json, "{\"name\":\"v\",\"size_bytes\":-1}", (422, "invalid", Some("size_bytes"))).await;
        check(json, "{\"name\":\"v\",\"size_bytes\":1,\"color\":1}", (422, "invalid", Some("color"))).await;
    }
}
