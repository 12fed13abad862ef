//! Errors of the API: `application/problem+json` (RFC 9457), each with a code that stays the same.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// `about:blank`: the code says what it is.
    #[serde(rename = "type")]
    #[schema(value_type = String)]
    pub kind: Box<str>,
    /// The words of the HTTP status.
    #[schema(value_type = String)]
    pub title: Box<str>,
    /// The HTTP status.
    pub status: u16,
    /// What is wrong, as one word that stays the same from version to version.
    #[schema(value_type = String)]
    pub code: Box<str>,
    /// What is wrong, in one line for people: cause and place.
    pub detail: String,
    /// The field of the body, or the parameter, that is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub field: Option<Box<str>>,
}

impl Problem {
    /// A problem with this status and code.
    pub(crate) fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Problem {
        Problem {
            kind: "about:blank".into(),
            title: status.canonical_reason().unwrap_or("Error").into(),
            status: status.as_u16(),
            code: code.into(),
            detail: detail.into(),
            field: None,
        }
    }

    /// The same, about a field of the body or a parameter.
    pub(crate) fn of_field(self, field: &str) -> Problem {
        Problem { field: Some(field.into()), ..self }
    }

    /// The request makes no sense.
    pub(crate) fn bad_request(code: &str, detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, code, detail)
    }

    /// There is no such object.
    pub(crate) fn not_found(kind: &str, name: &str) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "not_found", format!("unknown {kind} {name:?}"))
    }

    /// The body can be read, and what it asks for cannot be.
    pub(crate) fn invalid(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid", detail)
    }

    /// The state of the array forbids it.
    pub(crate) fn conflict(code: &str, detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::CONFLICT, code, detail)
    }

    /// Nothing can be answered now.
    pub(crate) fn unavailable(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", detail)
    }

    /// A fault of masu.
    pub(crate) fn internal(detail: impl Into<String>) -> Problem {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self)).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}
