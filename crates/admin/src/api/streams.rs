//! Events and counters as they come: server-sent events. Streams are few and end by themselves.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Extension, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::stream::{self, Stream};
use serde::{Deserialize, Serialize};
use status::Status;
use utoipa::ToSchema;

use super::extract::Params;
use super::problem::Problem;
use crate::connections::{Most, TooMany};
use crate::events::{EventQuery, now_ms};
use crate::served::{Key, Served, Who, current};

/// Streams that run at once.
pub(crate) const STREAMS_MAX: Most = Most { all: 16, of_source: 4 };
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
    Extension(who): Extension<Who>,
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
    stream_of((served, who.key), asked.seconds, from, told)
}

/// Counters, every second.
pub(crate) async fn counters(
    State(served): State<Arc<Served>>,
    Extension(who): Extension<Who>,
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
    stream_of((served, who.key), asked.seconds, 0, told)
}

fn too_many(most: TooMany, key: &Key) -> Problem {
    Problem::unavailable(match most {
        TooMany::All => format!("{} streams run already: end one", STREAMS_MAX.all),
        TooMany::OfSource => {
            format!("{} streams of {} run already: end one", STREAMS_MAX.of_source, key.source())
        }
    })
}

/// A stream of what `told` gives, turn by turn, until its time is over or its token is deleted.
fn stream_of<F>(
    (served, key): (Arc<Served>, Key),
    seconds: u64,
    from: u64,
    told: impl Fn(Arc<Served>, u64) -> F + Clone + Send + 'static,
) -> Response
where
    F: Future<Output = (u64, Vec<Event>)> + Send + 'static,
{
    let place = match served.streams.take_or_say(key.source()) {
        Ok(place) => place,
        Err(most) => return too_many(most, &key).into_response(),
    };
    let until = tokio::time::Instant::now() + Duration::from_secs(seconds.min(SECONDS_MAX));
    let asked = served.clone();
    let goes_on = move || tokio::time::Instant::now() < until && asked.access.holds(&key, now_ms());
    let batches = batches((from, place), goes_on, move |at| told(served.clone(), at));
    Sse::new(flat(batches)).keep_alive(KeepAlive::default()).into_response()
}

/// What `told` gives, turn by turn, for as long as it `goes_on`. What goes along with the turns is freed at
/// the end.
fn batches<P, T, F>(
    begin: (u64, P),
    goes_on: impl Fn() -> bool,
    told: impl Fn(u64) -> F,
) -> impl Stream<Item = Vec<T>>
where
    F: Future<Output = (u64, Vec<T>)>,
{
    stream::unfold((begin, goes_on, told), |((at, along), goes_on, told)| async move {
        if !goes_on() {
            return None;
        }
        let (next, events) = told(at).await;
        Some((events, ((next, along), goes_on, told)))
    })
}

fn flat(
    batches: impl Stream<Item = Vec<Event>> + Send + 'static,
) -> impl Stream<Item = Result<Event, Infallible>> + Send + 'static {
    use futures::StreamExt;
    batches.flat_map(|events| stream::iter(events.into_iter().map(Ok)))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures::StreamExt;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::access::{Role, TokenCreate, Tokens};
    use crate::client::{Client, Endpoint};
    use crate::connections::Places;
    use crate::events::EventLog;
    use crate::server::{ServerOptions, bind};
    use crate::store::Store;

    /// The same as a client meets it.
    #[tokio::test]
    async fn the_open_stream_of_a_token_ends_when_it_is_deleted() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = Store::open(dir.path()).expect("a store");
        let socket = dir.path().join("api.sock");
        let at = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
        let options = ServerOptions { socket: socket.clone(), tcp: Some(at), metrics_top: 1 };
        let bound = bind(options).expect("bound");
        let addr = bound.tcp.as_ref().and_then(|tcp| tcp.local_addr().ok()).expect("a port");
        let (events, arriving) = array::event_channel();
        let (log, _writer) = EventLog::open(dir.path(), arriving).expect("a log");
        let tokens = Tokens::open(&store, None).expect("tokens");
        let array = array::Array::new(vec![], "iqn.2026-11.net.example:x");
        let (_server, _owner) = bound.serve(array, (store, tokens), (log, events));
        let owner = Client::new(Endpoint::Unix(socket));
        let wanted = TokenCreate { name: "t".into(), role: Role::Viewer, expires_s: None };
        let token = owner.create_token(&wanted).await.expect("made").token;
        let mut stream = TcpStream::connect(addr).await.expect("connected");
        let request = format!(
            "GET /v1/events/stream?seconds=600 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
             authorization: Bearer {token}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.expect("written");
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.expect("answered");
        assert_eq!(&head, b"HTTP/1.1 200");
        owner.delete_token("t").await.expect("deleted");
        let rest = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut Vec::new())).await;
        rest.expect("the stream ends").expect("in order");
    }

    /// A deleted token kept its stream for an hour.
    #[tokio::test]
    async fn a_stream_ends_when_its_token_is_deleted_and_frees_its_place() {
        let places = Places::new(Most { all: 2, of_source: 1 });
        let place = places.take_or_say("t".into()).expect("a place");
        let (is_valid, turns) = (Cell::new(true), Cell::new(0));
        let told = |at: u64| {
            turns.set(turns.get() + 1);
            is_valid.set(at < 2);
            async move { (at + 1, vec![at]) }
        };
        let all: Vec<_> = batches((0, place), || is_valid.get(), told).collect().await;
        assert_eq!((all, turns.get()), (vec![vec![0], vec![1], vec![2]], 3));
        assert!(places.take_or_say("t".into()).is_ok(), "the place is free again");
    }

    /// One token took all streams.
    #[test]
    fn one_token_cannot_take_all_streams() {
        let (places, key) = (Places::new(STREAMS_MAX), Key::Given);
        let _all: Vec<_> =
            (0..STREAMS_MAX.of_source).map(|_| places.take_or_say(key.source()).expect("a place")).collect();
        let most = places.take_or_say(key.source()).err().expect("refused");
        assert!(too_many(most, &key).detail.contains("4 streams of the token of --api-token"));
        assert!(places.take_or_say(Key::Owner.source()).is_ok(), "others have theirs");
    }
}
