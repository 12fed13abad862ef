//! How the process is: alive, ready, of which version.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::problem::Problem;
use crate::served::{Served, all_answer};

/// Whether the process lives, or is ready.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Health {
    /// `ok` or `ready`.
    pub(crate) status: String,
}

/// Which version runs.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub(crate) struct Version {
    /// The version of masu.
    pub(crate) version: String,
    /// The version of this API.
    pub(crate) api: String,
}

pub(crate) async fn healthz() -> Json<Health> {
    Json(Health { status: "ok".into() })
}

/// Ready: all controllers answer.
pub(crate) async fn readyz(State(served): State<Arc<Served>>) -> Response {
    match all_answer(&served).await {
        true => Json(Health { status: "ready".into() }).into_response(),
        // Asked without a token: what is wrong is said to who has one.
        false => Problem::unavailable("not all controllers answer: see masu status").into_response(),
    }
}

pub(crate) async fn version() -> Json<Version> {
    Json(Version { version: env!("CARGO_PKG_VERSION").into(), api: super::openapi::VERSION.into() })
}

/// What nobody answers.
pub(crate) async fn unknown_path(uri: axum::http::Uri) -> Problem {
    let detail = format!("no such path: {}; /openapi.json lists them", uri.path());
    Problem::new(axum::http::StatusCode::NOT_FOUND, "unknown_path", detail)
}

/// A path that does not know the method.
pub(crate) async fn unknown_method(method: axum::http::Method) -> Problem {
    let detail = format!("method {method} is not allowed here: the Allow header lists those that are");
    Problem::new(axum::http::StatusCode::METHOD_NOT_ALLOWED, "unknown_method", detail)
}
