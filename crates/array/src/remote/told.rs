//! What controllers tell without being asked: events, moves that hosts ask for, groups that a later owner had
//! open. It goes from a node to the owner.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::{SelectAll, Stream, StreamExt, select_all, unfold};
use serde::{Deserialize, Serialize};

use super::error::RemoteError;
use crate::event::{Event, EventReceiver, EventSender, Severity};
use crate::move_request::{MoveReceiver, MoveRequest, MoveSender};

/// Where it goes, or comes from.
pub enum Told {
    /// At the owner: what the other side tells goes there.
    Owner {
        /// The event log.
        events: EventSender,
        /// Whoever moves pools.
        moves: MoveSender,
        /// [`Nodes::refused`](crate::Nodes::refused).
        refused: async_channel::Sender<u64>,
    },
    /// At another node: its controllers have the senders of these channels.
    Node {
        /// Their events.
        events: EventReceiver,
        /// The moves that their hosts ask for.
        moves: MoveReceiver,
        /// [`Nodes::refused`](crate::Nodes::refused).
        refused: async_channel::Receiver<u64>,
    },
}

/// One of them, on its way to the owner.
#[derive(Serialize, Deserialize)]
pub(super) enum News {
    Event(#[serde(with = "Happened")] Event),
    /// So many events were lost.
    Lost(u64),
    Move {
        pool: String,
        controller: usize,
    },
    Refused(u64),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Event")]
pub(super) struct Happened {
    #[serde(with = "Weight")]
    severity: Severity,
    object: String,
    text: String,
    who: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Severity")]
enum Weight {
    Info,
    Warning,
    Error,
}

type Source = Pin<Box<dyn Stream<Item = News> + Send>>;

/// [`Told`], ready for use.
pub(super) enum Outlet {
    Owner { events: EventSender, moves: MoveSender, refused: async_channel::Sender<u64> },
    Node { all: SelectAll<Source>, events: EventReceiver },
}

impl Outlet {
    pub(super) fn new(told: Told) -> Outlet {
        match told {
            Told::Owner { events, moves, refused } => Outlet::Owner { events, moves, refused },
            Told::Node { events, moves, refused } => {
                let of_events: Source = Box::pin(unfold(events.clone(), async |events| {
                    events.next().await.map(|event| (News::Event(event), events))
                }));
                let of_moves: Source = Box::pin(unfold(moves, async |moves| {
                    let MoveRequest { pool, controller } = moves.next().await?;
                    Some((News::Move { pool, controller }, moves))
                }));
                let of_groups: Source = Box::pin(refused.map(News::Refused));
                Outlet::Node { all: select_all([of_events, of_moves, of_groups]), events }
            }
        }
    }

    /// The next one for the owner; none at the owner, and when all senders are dropped.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<News>> {
        match self {
            Outlet::Owner { .. } => Poll::Ready(None),
            Outlet::Node { all, events } => match events.take_lost() {
                0 => all.poll_next_unpin(cx),
                lost => Poll::Ready(Some(News::Lost(lost))),
            },
        }
    }

    /// What the other side tells. Where it goes nobody waits: what has no room is lost.
    pub(super) fn take(&self, news: News) -> Result<(), RemoteError> {
        let Outlet::Owner { events, moves, refused } = self else {
            return Err(RemoteError::Unexpected {
                what: "an event, as only a node does that is not the owner",
            });
        };
        match news {
            News::Event(event) => events.tell(event),
            News::Lost(lost) => events.lose(lost),
            News::Move { pool, controller } => {
                moves.ask(MoveRequest { pool, controller });
            }
            News::Refused(epoch) => {
                let _ = refused.try_send(epoch);
            }
        }
        Ok(())
    }
}
