//! One side of the exchange.

use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use block::Pieces;
use futures::stream::Stream;
use scsi::{Arrival, CopyRequest, EventWatch};

use super::commands::{CopyAsked, Requested};
use super::controls::Controlled;
use super::error::RemoteError;
use super::failures::Failed;
use super::frame::{self, PROTOCOL};
use super::here::{Answered, Controllers};
use super::messages::{Answer, Ask, Header, Loaded, Message as Said};
use super::moved;
use super::order::Order;
use super::pending::{Pending, Waiting};
use super::replies::Replied;
use super::told::{Outlet, Told};
use crate::control::{Control, ControlError, ControllerHandle, Mailbox, Message, Reply};

/// One side of the exchange between the array's owner and a node that runs some of its controllers. When it is
/// dropped, whoever waits for a controller of the other side learns that it is not there, as if it had stopped.
pub struct Exchange {
    state: Mutex<State>,
}

struct State {
    greeted: bool,
    has_heard: bool,
    order: Order,
    watch: EventWatch,
    away: Vec<Away>,
    /// Whose turn it is.
    turn: usize,
    pending: Pending,
    here: Controllers,
    told: Outlet,
    /// The task that waits for the next frame.
    waiting: Option<Waker>,
}

/// A controller of the other side.
struct Away {
    index: usize,
    messages: Pin<Box<async_channel::Receiver<Message>>>,
    has_ended: bool,
}

impl Exchange {
    /// Between two processes. `away`: the mailboxes of controllers that run at the other side. `here`: those
    /// that the other side may send to, at this side or beyond it. `told`: where events go or come from.
    pub fn new(away: Vec<Mailbox>, here: Vec<ControllerHandle>, told: Told) -> Exchange {
        Exchange::with(Order::new(), away, here, told)
    }

    /// The same within one process, for tests and simulations: both sides have one order of events.
    pub fn in_one_process(away: Vec<Mailbox>, here: Vec<ControllerHandle>, told: Told) -> Exchange {
        Exchange::with(Order::in_one_process(), away, here, told)
    }

    fn with(order: Order, away: Vec<Mailbox>, here: Vec<ControllerHandle>, told: Told) -> Exchange {
        let of = |mailbox: Mailbox| Away {
            index: mailbox.index,
            messages: Box::pin(mailbox.messages),
            has_ended: false,
        };
        let state = State {
            greeted: false,
            has_heard: false,
            order,
            watch: EventWatch::new(),
            away: away.into_iter().map(of).collect(),
            turn: 0,
            pending: Pending::default(),
            here: Controllers::new(here),
            told: Outlet::new(told),
            waiting: None,
        };
        Exchange { state: Mutex::new(state) }
    }

    /// Waits for the next frame for the other side; its length field is included. Called by one task at a time,
    /// which may drop it and call it again. `None`: no controller is left at either side.
    pub async fn outgoing(&self) -> Option<Vec<u8>> {
        std::future::poll_fn(|cx| self.state().poll(cx)).await
    }

    /// Takes a frame from the other side, without its length field. It never waits.
    ///
    /// # Errors
    /// The frame is invalid, or must not come now: the connection has to end.
    pub async fn incoming(&self, frame: &[u8]) -> Result<(), RemoteError> {
        let (header, payload) = frame::decode(frame)?;
        let waiting = {
            let mut state = self.state();
            state.take(header, payload)?;
            state.waiting.take()
        };
        waiting.inspect(Waker::wake_by_ref);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take(&mut self, header: Header, payload: &[u8]) -> Result<(), RemoteError> {
        match (self.has_heard, &header.message) {
            (false, Said::Hello { protocol: PROTOCOL }) => self.has_heard = true,
            (false, Said::Hello { protocol }) => return Err(RemoteError::Protocol { theirs: *protocol }),
            (false, _) => {
                return Err(RemoteError::Unexpected { what: "something else than its version first" });
            }
            (true, _) => {}
        }
        self.order.hear(header.events, Arrival::event);
        match header.message {
            Said::Hello { .. } | Said::Events => Ok(()),
            Said::Ask { number, to, ask } => self.here.take((number, to), (ask, payload), &self.order),
            Said::Answer { number, answer } => self.pending.settle((number, answer), payload, &self.order),
            Said::News(news) => self.told.take(news),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        self.waiting = Some(cx.waker().clone());
        self.watch.register(cx.waker());
        if !std::mem::replace(&mut self.greeted, true) {
            return Poll::Ready(self.frame(Said::Hello { protocol: PROTOCOL }, &Pieces::new()).ok());
        }
        if !self.has_heard {
            return Poll::Pending;
        }
        if let Poll::Ready((number, answered)) = self.here.poll(cx) {
            return Poll::Ready(Some(self.answer(number, answered)));
        }
        let has_told_all = loop {
            match self.told.poll(cx) {
                Poll::Ready(Some(news)) => {
                    if let Ok(frame) = self.frame(Said::News(news), &Pieces::new()) {
                        return Poll::Ready(Some(frame));
                    }
                }
                Poll::Ready(None) => break true,
                Poll::Pending => break false,
            }
        };
        while let Poll::Ready((to, message)) = self.poll_mailboxes(cx) {
            if let Some(frame) = self.ask(to, message) {
                return Poll::Ready(Some(frame));
            }
        }
        if self.order.has_news(Arrival::latest()) {
            return Poll::Ready(self.frame(Said::Events, &Pieces::new()).ok());
        }
        let is_over = self.away.iter().all(|away| away.has_ended) && self.pending.is_empty();
        if has_told_all && is_over && self.here.have_stopped() { Poll::Ready(None) } else { Poll::Pending }
    }

    /// The next message to a controller of the other side: the mailboxes in turn.
    fn poll_mailboxes(&mut self, cx: &mut Context<'_>) -> Poll<(usize, Message)> {
        if self.pending.is_full() {
            return Poll::Pending;
        }
        for _ in 0..self.away.len() {
            self.turn = (self.turn + 1) % self.away.len();
            let away = &mut self.away[self.turn];
            if away.has_ended {
                continue;
            }
            match away.messages.as_mut().poll_next(cx) {
                Poll::Ready(Some(message)) => return Poll::Ready((away.index, message)),
                Poll::Ready(None) => away.has_ended = true,
                Poll::Pending => {}
            }
        }
        Poll::Pending
    }

    fn frame(&mut self, message: Said, payload: &Pieces) -> Result<Vec<u8>, String> {
        let events = self.order.tell(Arrival::latest());
        frame::encode(&Header { events, message }, payload)
    }

    /// The frame of an answer. One that does not fit is an error for who asked.
    fn answer(&mut self, number: u64, answered: Answered) -> Vec<u8> {
        let is_control = matches!(answered, Answered::Control(_));
        let (answer, payload) = match answered {
            Answered::Control(answer) => (self.replied(answer), Pieces::new()),
            Answered::Other(answer) => answer,
        };
        let frame = self.frame(Said::Answer { number, answer }, &payload);
        frame.unwrap_or_else(|cause| {
            let failed = |cause| Answer::Control(Box::new(Err(Failed(unsent(cause)))));
            let answer = if is_control { failed(cause) } else { Answer::Stopped };
            let frame = self.frame(Said::Answer { number, answer }, &Pieces::new());
            frame.expect("an answer without data and lists fits a frame")
        })
    }

    fn replied(&mut self, mut answer: Result<Reply, ControlError>) -> Answer {
        if let Ok(Reply::Released(lus)) = &mut answer {
            self.renumber(lus);
        }
        Answer::Control(Box::new(answer.map(Replied::from).map_err(Failed)))
    }

    fn renumber(&mut self, lus: &mut [crate::control::MovedLu]) {
        let order = std::cell::RefCell::new(&mut self.order);
        moved::renumber(lus, |event| order.borrow_mut().sent(event));
    }

    /// The frame of a message to a controller of the other side. None: it was answered here.
    fn ask(&mut self, to: usize, message: Message) -> Option<Vec<u8>> {
        let ((ask, payload), waiting) = self.asked(message)?;
        let number = self.pending.next_number();
        match self.frame(Said::Ask { number, to, ask }, &payload) {
            Ok(frame) => {
                self.pending.add(waiting);
                Some(frame)
            }
            Err(cause) => {
                if let Waiting::Control(reply) = waiting {
                    let _ = reply.send(Err(unsent(cause)));
                }
                None
            }
        }
    }

    fn asked(&mut self, message: Message) -> Option<(Loaded<Ask>, Waiting)> {
        Some(match message {
            Message::Control(mut control, reply) => {
                if let Control::Prepare { arrival: Some(arrival), .. } = &mut control {
                    self.renumber(&mut arrival.lus);
                }
                let Some(controlled) = Controlled::of(control) else {
                    let _ = reply.send(Ok(Reply::Done(vec![])));
                    return None;
                };
                ((Ask::Control(Box::new(controlled)), Pieces::new()), Waiting::Control(reply))
            }
            Message::Execute { nexus, lun, request, reply } => {
                let arrival = self.order.arrival(request.arrival)?;
                let (request, data) = Requested::of(request, arrival);
                let ask = Ask::Execute { nexus: nexus.into(), lun, request: Box::new(request) };
                ((ask, data), Waiting::Execute(reply))
            }
            Message::Manage { nexus, function, reply } => {
                ((Ask::Manage { nexus: nexus.into(), function }, Pieces::new()), Waiting::Manage(reply))
            }
            Message::Copy { nexus, request, reply } => {
                let arrival = match &request {
                    CopyRequest::Write { arrival, .. } => self.order.arrival(*arrival)?,
                    _ => Arrival::default(),
                };
                let (request, data) = CopyAsked::of(request, arrival);
                ((Ask::Copy { nexus: nexus.into(), request }, data), Waiting::Copy(reply))
            }
            Message::Open { nexus } => ((Ask::Open { nexus: nexus.into() }, Pieces::new()), Waiting::Note),
            Message::Close { nexus } => ((Ask::Close { nexus: nexus.into() }, Pieces::new()), Waiting::Note),
        })
    }
}

fn unsent(cause: String) -> ControlError {
    ControlError::failed("message between nodes", cause)
}
