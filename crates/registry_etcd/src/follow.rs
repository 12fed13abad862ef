//! A watch that goes on: made again after every loss, from the first revision that it has not seen.

use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tonic::Status;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::MetadataValue;
use tonic_prost::ProstCodec;

use crate::fault::{Fault, fault_of};
use crate::members::{Connection, Members, Needs};
use crate::messages::{HasHeader, WatchCreateRequest, WatchRequest, WatchResponse, method, range_end};

/// Pauses between attempts: doubled from one to the other.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// A member that does not confirm a watch in this time is given up.
const CREATE_TIME_MAX: Duration = Duration::from_secs(2);

/// What a watch has to say, counted: what is not taken in time becomes one, and nothing is lost.
#[derive(Clone, Default)]
pub(crate) struct Said {
    /// Keys may have changed.
    pub(crate) hints: u64,
    /// It was lost.
    pub(crate) losses: u64,
    /// The last loss.
    pub(crate) cause: String,
}

/// The first revision that is not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// That of the store when the watch is made.
    Now,
    Revision(i64),
}

/// What an answer means for the watch.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    next: Next,
    /// Keys may have changed.
    is_hint: bool,
    /// The watch has to be made again.
    again: Option<String>,
}

/// Follows a prefix until nobody listens.
pub(crate) async fn follow_task(members: Arc<Members>, prefix: Vec<u8>, said: watch::Sender<Said>) {
    let follow = async {
        let mut pause = PAUSE_MIN;
        let mut next = match members.revision() {
            0 => Next::Now,
            seen => Next::Revision(seen + 1),
        };
        loop {
            let before = next;
            let cause = match members.connection(Needs::Login).await {
                Ok(connection) => follow_one(&members, &connection, &prefix, &mut next, &said).await,
                Err(Fault::Refused(error)) => Some(error.to_string()),
                Err(Fault::Lost(cause) | Fault::LoggedOut(cause)) => Some(cause),
            };
            if next != before {
                pause = PAUSE_MIN;
            }
            if let Some(cause) = cause {
                said.send_modify(|said| (said.losses, said.cause) = (said.losses + 1, cause));
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    };
    tokio::select! {
        () = follow => {}
        () = said.closed() => {}
    }
}

/// Follows over one connection; why it was lost, none: it is to be made again at once.
async fn follow_one(
    members: &Members,
    connection: &Connection,
    prefix: &[u8],
    next: &mut Next,
    said: &watch::Sender<Said>,
) -> Option<String> {
    let number = connection.number();
    let fault = tokio::select! {
        fault = listen(connection, prefix, next, said) => fault,
        () = members.until_given_up(number) => Ok("its member does not answer".into()),
    };
    match fault {
        // The connection is fine: the watch was cancelled, or given up by others.
        Ok(cause) => (!cause.is_empty()).then(|| connection.named(&cause)),
        Err(status) => match fault_of(&status) {
            Fault::Refused(error) => Some(error.to_string()),
            Fault::LoggedOut(cause) => {
                members.give_up(number, false).await;
                Some(connection.named(&cause))
            }
            Fault::Lost(cause) => {
                members.give_up(number, true).await;
                Some(connection.named(&cause))
            }
        },
    }
}

/// Takes answers until the stream ends; its text is why the watch has to be made again, empty: no loss.
async fn listen(
    connection: &Connection,
    prefix: &[u8],
    next: &mut Next,
    said: &watch::Sender<Said>,
) -> Result<String, Status> {
    let start_revision = match *next {
        Next::Now => 0,
        Next::Revision(revision) => revision,
    };
    let (key, range_end) = (prefix.to_vec(), range_end(prefix));
    let create = Some(WatchCreateRequest { key, range_end, start_revision, progress_notify: true });
    // The stream stays open: its end would end the watch.
    let ask = stream::iter([WatchRequest { create }]).chain(stream::pending());
    let (mut client, mut request) = connection.client(ask);
    // A member without a leader ends the watch, and does not stay silent.
    request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
    let late = || Status::unavailable("no watch in time");
    client.ready().await.map_err(|e| Status::from_error(Box::new(e)))?;
    let path = PathAndQuery::from_static(method::WATCH);
    let opened = client.streaming(request, path, ProstCodec::<WatchRequest, WatchResponse>::default());
    let mut answers = timeout(CREATE_TIME_MAX, opened).await.map_err(|_| late())??.into_inner();
    let mut is_created = false;
    loop {
        let answer = match is_created {
            true => answers.message().await?,
            false => timeout(CREATE_TIME_MAX, answers.message()).await.map_err(|_| late())??,
        };
        let Some(answer) = answer else { return Err(Status::unavailable("the watch has ended")) };
        is_created = true;
        let step = step(*next, &answer);
        *next = step.next;
        if step.is_hint {
            said.send_modify(|said| said.hints += 1);
        }
        if let Some(cause) = step.again {
            return Ok(cause);
        }
    }
}

fn step(next: Next, answer: &WatchResponse) -> Step {
    let now = answer.revision();
    if answer.canceled {
        // What was compacted cannot be listed any more: who is told reads anew.
        return match answer.compact_revision {
            0 => Step {
                next,
                is_hint: false,
                again: Some(format!("watch cancelled: {}", answer.cancel_reason)),
            },
            first => Step { next: Next::Revision(first), is_hint: true, again: Some(String::new()) },
        };
    }
    if answer.created {
        return match next {
            // Between the call and this answer something may have changed.
            Next::Now => Step { next: Next::Revision(now + 1), is_hint: true, again: None },
            // The store has gone back: it was restored, or this member lags.
            Next::Revision(first) if now > 0 && first > now + 1 => {
                Step { next: Next::Revision(now + 1), is_hint: true, again: Some(String::new()) }
            }
            next => Step { next, is_hint: false, again: None },
        };
    }
    // Those of one revision come together; the header may be ahead of them.
    let last = answer.events.iter().filter_map(|event| Some(event.kv.as_ref()?.mod_revision)).max();
    let seen = last.unwrap_or(now) + 1;
    let next = match next {
        Next::Revision(first) => Next::Revision(first.max(seen)),
        Next::Now => Next::Revision(seen),
    };
    Step { next, is_hint: !answer.events.is_empty(), again: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{Event, Header, KeyValue};

    fn answer(revision: i64, events: &[i64]) -> WatchResponse {
        let event = |revision: &i64| {
            let kv = KeyValue { mod_revision: *revision, ..KeyValue::default() };
            Event { kv: Some(kv) }
        };
        let header = Some(Header { revision });
        WatchResponse { header, events: events.iter().map(event).collect(), ..WatchResponse::default() }
    }

    #[test]
    fn it_goes_on_after_the_last_event_and_not_after_the_header() {
        let done = step(Next::Revision(5), &answer(90, &[5, 7]));
        assert_eq!(done, Step { next: Next::Revision(8), is_hint: true, again: None });
        let progress = step(Next::Revision(8), &answer(90, &[]));
        assert_eq!(progress, Step { next: Next::Revision(91), is_hint: false, again: None });
    }

    #[test]
    fn what_may_have_been_missed_is_a_hint() {
        let created = WatchResponse { created: true, ..answer(40, &[]) };
        assert_eq!(step(Next::Now, &created), Step { next: Next::Revision(41), is_hint: true, again: None });
        assert!(!step(Next::Revision(30), &created).is_hint);
        let restored = step(Next::Revision(99), &created);
        assert_eq!((restored.next, restored.is_hint), (Next::Revision(41), true));
        assert!(restored.again.is_some());
        let compacted = WatchResponse { canceled: true, compact_revision: 35, ..answer(0, &[]) };
        let done = step(Next::Revision(3), &compacted);
        assert_eq!(done, Step { next: Next::Revision(35), is_hint: true, again: Some(String::new()) });
    }
}
