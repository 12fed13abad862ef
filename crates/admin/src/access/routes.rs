//! `/v1/tokens`: for admins.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::roles::Role;
use super::tokens::{ShownToken, TokenError};
use crate::api::extract::{Body, Names, Params};
use crate::api::page::{Page, PageParams, page};
use crate::api::problem::Problem;
use crate::events::now_ms;
use crate::served::{Served, Who};

/// A new token.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenCreate {
    /// Unique among tokens.
    #[schema(min_length = 1, max_length = 64)]
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// It is refused after so many seconds; without it, it does not expire.
    #[serde(default)]
    pub expires_s: Option<u64>,
}

impl From<TokenError> for Problem {
    fn from(error: TokenError) -> Problem {
        let text = error.to_string();
        match error {
            TokenError::Name(_) => Problem::invalid(text).of_field("name"),
            TokenError::Life(_) => Problem::invalid(text).of_field("expires_s"),
            TokenError::Taken(_) => Problem::conflict("name_taken", text).of_field("name"),
            TokenError::TooMany => Problem::conflict("refused", text),
            TokenError::Unknown(name) => Problem::not_found("token", &name),
            TokenError::Weak(_) | TokenError::File { .. } | TokenError::Store(_) | TokenError::Random(_) => {
                Problem::internal(text)
            }
        }
    }
}

pub(crate) async fn list(
    State(served): State<Arc<Served>>,
    Params(asked): Params<PageParams>,
) -> Result<Json<Page<ShownToken>>, Problem> {
    let all = served.access.shown(now_ms()).into_iter().map(|token| (token.name.clone(), token));
    page(all.collect(), &asked).map(Json)
}

pub(crate) async fn show(
    State(served): State<Arc<Served>>,
    Names(name): Names<String>,
) -> Result<Json<ShownToken>, Problem> {
    let found = served.access.shown(now_ms()).into_iter().find(|token| token.name == name);
    found.map(Json).ok_or_else(|| Problem::not_found("token", &name))
}

pub(crate) async fn create(
    State(served): State<Arc<Served>>,
    Extension(who): Extension<Who>,
    Body(body, _): Body<TokenCreate>,
) -> Result<Response, Problem> {
    let made = served.access.create((&body.name, body.role), body.expires_s).await?;
    served.access.tell_change(format!("token {:?} created: {}", made.name, made.role.name()), &who);
    // A name has no character that a path could not have.
    let location = format!("/v1/tokens/{}", made.name);
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], Json(made)).into_response())
}

pub(crate) async fn delete(
    State(served): State<Arc<Served>>,
    Extension(who): Extension<Who>,
    Names(name): Names<String>,
) -> Result<StatusCode, Problem> {
    served.access.delete(&name).await?;
    served.access.tell_change(format!("token {name:?} deleted"), &who);
    Ok(StatusCode::NO_CONTENT)
}
