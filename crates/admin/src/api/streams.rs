//! Events and counters as they come: server-sent events. Streams are few and end by themselves.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, Stream};
use serde::{Deserialize, Serialize};
use status::Status;
use utoipa::ToSchema;

use super::extract::Params;
use super::problem::Problem;
use crate::events::EventQuery;
use crate::served::{Served, current};

/// Streams that run at once.
pub(crate) const STREAMS_MAX: usize = 16;
/// A stream ends after so long at the latest; who wants more comes again.
const SECONDS_MAX: u64 = 3600;
/// Events of one batch.
const BATCH_MAX: usize = 100;
/// How often counters are told.
const COUNTERS_PAUSE: Duration = Duration::from_secs(1);
/// A stream that has nothing to tell looks whether its time is over.
const WAIT: Duration = Duration::from_secs(1);

/// How long, and from where.
#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct StreamParams {
    /// The stream ends after so many seconds.
    seconds: u64,
    /// Only events with a higher number; those that come from now on when not given.
    after: Option<u64>,
}

impl Default for StreamParams {
    fn default() -> StreamParams {
        StreamParams { seconds: SECONDS_MAX, after: None }
    }
}

/// What one LU has done since the start.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LuCounters {
    /// Volume, snapshot or image.
    name: String,
    /// All that ended.
    commands: u64,
    /// Bytes read by hosts.
    read_bytes: u64,
    /// Bytes written by hosts.
    write_bytes: u64,
}

/// Counters of all LUs that have done anything: what comes every second.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Counters {
    /// Seconds since the start.
    uptime_s: u64,
    /// Those that have done anything.
    lus: Vec<LuCounters>,
}

impl Counters {
    fn of(status: &Status) -> Counters {
        let volumes = status.volumes.iter().map(|v| (&v.name, &v.counters));
        let images = status.images.iter().map(|i| (&i.name, &i.counters));
        let lus = volumes.chain(images).filter(|(_, c)| c.commands > 0).map(|(name, c)| LuCounters {
            name: name.clone(),
            commands: c.commands,
            read_bytes: c.read_bytes,
            write_bytes: c.write_bytes,
        });
        Counters { uptime_s: status.uptime_s, lus: lus.collect() }
    }
}

/// Events as they happen; their numbers are the identifiers of the stream.
pub(crate) async fn events(
    State(served): State<Arc<Served>>,
    Params(asked): Params<StreamParams>,
) -> Response {
    let from = asked.after.unwrap_or_else(|| served.log.newest());
    let told = move |served: Arc<Served>, after: u64| async move {
        served.log.wait_after(after, WAIT).await;
        let log = served.log.clone();
        let query = EventQuery { after, since_ms: 0, last: None };
        let read = tokio::task::spawn_blocking(move || log.read(query)).await.unwrap_or_default();
        let batch: Vec<_> = read.into_iter().take(BATCH_MAX).collect();
        let next = batch.last().map_or(after, |event| event.number);
        let events = batch.iter().filter_map(|event| {
            Event::default().event("event").id(event.number.to_string()).json_data(event).ok()
        });
        (next, events.collect())
    };
    stream_of(served, asked.seconds, from, told)
}

/// Counters, every second.
pub(crate) async fn counters(
    State(served): State<Arc<Served>>,
    Params(asked): Params<StreamParams>,
) -> Response {
    let told = move |served: Arc<Served>, turn: u64| async move {
        if turn > 0 {
            tokio::time::sleep(COUNTERS_PAUSE).await;
        }
        let event = match current(&served).await {
            Ok(status) => Event::default().event("counters").json_data(Counters::of(&status)),
            Err(problem) => Event::default().event("problem").json_data(problem),
        };
        (turn + 1, event.into_iter().collect())
    };
    stream_of(served, asked.seconds, 0, told)
}

/// A stream of what `told` gives, turn by turn, until its time is over.
fn stream_of<F>(
    served: Arc<Served>,
    seconds: u64,
    from: u64,
    told: impl Fn(Arc<Served>, u64) -> F + Clone + Send + 'static,
) -> Response
where
    F: Future<Output = (u64, Vec<Event>)> + Send + 'static,
{
    let Ok(place) = served.streams.clone().try_acquire_owned() else {
        return Problem::unavailable(format!("{STREAMS_MAX} streams run already: end one")).into_response();
    };
    let until = tokio::time::Instant::now() + Duration::from_secs(seconds.min(SECONDS_MAX));
    let batches = stream::unfold((from, place), move |(at, place)| {
        let (served, told) = (served.clone(), told.clone());
        async move {
            if tokio::time::Instant::now() >= until {
                return None;
            }
            let (next, events) = told(served, at).await;
            Some((events, (next, place)))
        }
    });
    Sse::new(flat(batches)).keep_alive(KeepAlive::default()).into_response()
}

fn flat(
    batches: impl Stream<Item = Vec<Event>> + Send + 'static,
) -> impl Stream<Item = Result<Event, Infallible>> + Send + 'static {
    use futures::StreamExt;
    batches.flat_map(|events| stream::iter(events.into_iter().map(Ok)))
}
