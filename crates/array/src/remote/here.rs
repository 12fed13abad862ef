//! Controllers at this side, as the other side reaches them.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::channel::oneshot;
use futures::stream::{FuturesUnordered, StreamExt};

use super::commands::{CopyAnswered, Responded};
use super::error::RemoteError;
use super::messages::{Answer, Ask};
use super::moved;
use super::order::Order;
use super::payload::Loaded;
use super::pending::unanswered_max;
use crate::control::{Control, ControlError, Reply};
use crate::mailbox::{ControllerHandle, Message};

/// What a controller has answered.
pub(super) enum Answered {
    Control(Result<Reply, ControlError>),
    Other(Loaded<Answer>),
}

type Work = Pin<Box<dyn Future<Output = (u64, Answered)> + Send>>;

/// A message on its way to a controller, and who hears that it has reached it.
type Outgoing = (Message, Option<oneshot::Sender<()>>);

struct Here {
    handle: ControllerHandle,
    /// In the order of [`Lane::ALL`]: commands that wait for room keep no request of the control plane out.
    lanes: [Waits; 2],
}

/// What waits in a lane.
#[derive(Default)]
struct Waits {
    /// What the mailbox has no room for, in order.
    queue: VecDeque<Outgoing>,
    /// The first of it, which waits for room.
    sending: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// The controllers, and what they work on for the other side. The other side has at most [`unanswered_max`]
/// asks of a lane unanswered, and that bounds everything here.
pub(super) struct Controllers {
    all: Vec<Here>,
    /// Of each lane.
    work: [FuturesUnordered<Work>; 2],
}

impl Controllers {
    pub(super) fn new(handles: Vec<ControllerHandle>) -> Controllers {
        let here = |handle| Here { handle, lanes: Default::default() };
        Controllers { all: handles.into_iter().map(here).collect(), work: Default::default() }
    }

    /// An ask of the other side.
    pub(super) fn take(
        &mut self,
        (number, to): (u64, usize),
        (ask, payload): (Ask, &[u8]),
        order: &Order,
    ) -> Result<(), RemoteError> {
        let here = self.all.iter_mut().find(|here| here.handle.index == to);
        let here = here.ok_or(RemoteError::NoController(to))?;
        let (message, delivered, work) = message(number, ask, payload, order)?;
        let lane = message.lane();
        if self.work[lane as usize].len() >= unanswered_max(lane) {
            return Err(RemoteError::Unexpected { what: "more than it may have unanswered" });
        }
        here.pass((message, delivered));
        self.work[lane as usize].push(work);
        Ok(())
    }

    /// The next answer; pending while there is none.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(u64, Answered)> {
        self.all.iter_mut().for_each(|here| here.poll(cx));
        for work in &mut self.work {
            if let Poll::Ready(Some(answered)) = work.poll_next_unpin(cx) {
                return Poll::Ready(answered);
            }
        }
        Poll::Pending
    }

    /// Whether no controller is left, and none has anything to answer.
    pub(super) fn have_stopped(&self) -> bool {
        self.work.iter().all(FuturesUnordered::is_empty)
            && self.all.iter().all(|here| here.handle.has_stopped())
    }
}

impl Here {
    fn pass(&mut self, (message, delivered): Outgoing) {
        let waits = &mut self.lanes[message.lane() as usize];
        if waits.sending.is_some() || !waits.queue.is_empty() {
            return waits.queue.push_back((message, delivered));
        }
        match self.handle.offer(message) {
            Ok(()) => _ = delivered.map(|delivered| delivered.send(())),
            Err(message) => waits.queue.push_back((message, delivered)),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) {
        self.lanes.iter_mut().for_each(|waits| waits.poll(&self.handle, cx));
    }
}

impl Waits {
    fn poll(&mut self, handle: &ControllerHandle, cx: &mut Context<'_>) {
        loop {
            if let Some(sending) = &mut self.sending
                && sending.as_mut().poll(cx).is_pending()
            {
                return;
            }
            let Some((message, delivered)) = self.queue.pop_front() else {
                self.sending = None;
                return;
            };
            let handle = handle.clone();
            self.sending = Some(Box::pin(async move {
                // To one that has stopped: who asked learns it from its answer.
                if handle.send(message).await.is_ok() {
                    delivered.map(|delivered| delivered.send(()));
                }
            }));
        }
    }
}

/// The message for a controller, who hears that it was delivered, and the wait for its answer.
fn message(
    number: u64,
    ask: Ask,
    payload: &[u8],
    order: &Order,
) -> Result<(Message, Option<oneshot::Sender<()>>, Work), RemoteError> {
    Ok(match ask {
        Ask::Control(controlled) => {
            let mut control = Control::from(*controlled);
            if let Control::Prepare { arrival: Some(arrival), .. } = &mut control {
                moved::check(&arrival.lus)?;
                moved::renumber(&mut arrival.lus, |event| order.received(event));
            }
            let (reply, answer) = oneshot::channel();
            (Message::Control(control, reply), None, wait(number, answer, Answered::Control))
        }
        Ask::Execute { nexus, lun, request } => {
            let (reply, answer) = oneshot::channel();
            let message =
                Message::Execute { nexus: nexus.try_into()?, lun, request: request.with(payload), reply };
            let work = wait(number, answer, |response| {
                let (responded, data) = Responded::of(response);
                Answered::Other((Answer::Executed(responded), data))
            });
            (message, None, work)
        }
        Ask::Manage { nexus, function } => {
            let (reply, answer) = oneshot::channel();
            let message = Message::Manage { nexus: nexus.try_into()?, function, reply };
            (message, None, wait(number, answer, |outcome| short(Answer::Managed(outcome))))
        }
        Ask::Copy { nexus, request } => {
            let (reply, answer) = oneshot::channel();
            let message = Message::Copy { nexus: nexus.try_into()?, request: request.with(payload)?, reply };
            let work = wait(number, answer, |answer| {
                let (answered, data) = CopyAnswered::of(answer);
                Answered::Other((Answer::Copied(answered), data))
            });
            (message, None, work)
        }
        Ask::Open { nexus } => note(number, Message::Open { nexus: nexus.try_into()? }),
        Ask::Close { nexus } => note(number, Message::Close { nexus: nexus.try_into()? }),
    })
}

fn note(number: u64, message: Message) -> (Message, Option<oneshot::Sender<()>>, Work) {
    let (delivered, heard) = oneshot::channel();
    (message, Some(delivered), wait(number, heard, |()| short(Answer::Delivered)))
}

fn short(answer: Answer) -> Answered {
    Answered::Other((answer, block::Pieces::new()))
}

/// Waits for an answer; one that does not come is told as well.
fn wait<T: Send + 'static>(
    number: u64,
    answer: oneshot::Receiver<T>,
    of: impl FnOnce(T) -> Answered + Send + 'static,
) -> Work {
    Box::pin(async move { (number, answer.await.map_or_else(|_| short(Answer::Stopped), of)) })
}
