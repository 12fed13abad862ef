//! What is asked of the array as a whole: its status, its declaration, its events, and changes as commands
//! send them.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use status::{EventRecord, Events, Histograms, Status};

use super::extract::{Body, Names, Params};
use super::problem::Problem;
use super::work::make;
use crate::drift::differences;
use crate::events::EventQuery;
use crate::request::{Change, Declared, Done};
use crate::served::{Served, Who, current};

/// How long who follows the events may wait for the next one.
const EVENTS_WAIT_MAX: Duration = Duration::from_secs(25);

/// `GET /v1/events`.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct EventParams {
    after: u64,
    since_ms: u64,
    last: Option<usize>,
    limit: Option<usize>,
    wait_ms: u64,
}

async fn read(served: &Served, query: EventQuery) -> Result<Vec<EventRecord>, Problem> {
    let log = served.log.clone();
    let read = tokio::task::spawn_blocking(move || log.read(query)).await;
    read.map_err(|e| Problem::internal(e.to_string()))
}

pub(super) async fn events(
    State(served): State<Arc<Served>>,
    Params(asked): Params<EventParams>,
) -> Result<Json<Events>, Problem> {
    let wait = Duration::from_millis(asked.wait_ms).min(EVENTS_WAIT_MAX);
    if !wait.is_zero() {
        served.log.wait_after(asked.after, wait).await;
    }
    let query = EventQuery { after: asked.after, since_ms: asked.since_ms, last: asked.last };
    let mut events = read(&served, query).await?;
    events.truncate(asked.limit.unwrap_or(usize::MAX));
    Ok(Json(Events { events }))
}

pub(super) async fn event(
    State(served): State<Arc<Served>>,
    Names(number): Names<String>,
) -> Result<Json<EventRecord>, Problem> {
    let unknown = || Problem::not_found("event", &number);
    let wanted: u64 = number.parse().map_err(|_| unknown())?;
    let query = EventQuery { after: wanted.checked_sub(1).ok_or_else(unknown)?, since_ms: 0, last: None };
    let found = read(&served, query).await?.into_iter().next();
    found.filter(|event| event.number == wanted).map(Json).ok_or_else(unknown)
}

pub(super) async fn status(State(served): State<Arc<Served>>) -> Result<Json<Status>, Problem> {
    current(&served).await.map(Json)
}

pub(super) async fn latencies(State(served): State<Arc<Served>>) -> Result<Json<Histograms>, Problem> {
    Ok(Json(Histograms::of(current(&served).await?)))
}

pub(super) async fn config(State(served): State<Arc<Served>>) -> Result<Json<Declared>, Problem> {
    let now = served.array.known().config;
    let declared = served.store.declared().map_err(|e| Problem::internal(e.to_string()))?;
    let drift = declared.map(|declared| differences(&declared, &now));
    let later = array::at_next_start(served.array.controllers(), &now).await;
    let at_next_start = later.map_err(|e| Problem::unavailable(e.to_string()))?;
    Ok(Json(Declared { text: now.to_text(), drift, at_next_start }))
}

pub(super) async fn metrics(State(served): State<Arc<Served>>) -> Result<Response, Problem> {
    let status = current(&served).await?;
    let mut named = served.named.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let process = crate::metrics::Process {
        events: served.log.counts(),
        certificate_end_s: served.certificate_end_s(),
        traces: served.traces.as_ref().map(crate::traces::TraceMeter::counts).unwrap_or_default(),
    };
    let text = crate::metrics::text(&status, &process, &mut named, served.metrics_top);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}

pub(super) async fn change(
    State(served): State<Arc<Served>>,
    Extension(who): Extension<Who>,
    Body(change, _): Body<Change>,
) -> Result<Json<Done>, Problem> {
    let done = make(&served, &who, |_| Ok(vec![change])).await?;
    Ok(Json(Done { done }))
}
