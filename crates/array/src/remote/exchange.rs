//! One side of the exchange.

use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use block::Pieces;
use futures::stream::Stream;
use scsi::{Arrival, EventWatch};

use super::error::RemoteError;
use super::frame;
use super::here::Controllers;
use super::limits::PROTOCOL;
use super::messages::{Header, Message as Said};
use super::order::Order;
use super::pending::Pending;
use super::told::{Outlet, Told};
use crate::mailbox::{ControllerHandle, Lane, Mailbox, Message};

/// One side of the exchange between the array's owner and a node that runs some of its controllers. When
/// it is dropped, whoever waits for a controller of the other side learns that it is not there, as if it
/// had stopped.
pub struct Exchange {
    state: Mutex<State>,
}

pub(super) struct State {
    greeted: bool,
    has_heard: bool,
    pub(super) order: Order,
    watch: EventWatch,
    away: Vec<Away>,
    /// Whose turn it is.
    turn: usize,
    pub(super) pending: Pending,
    here: Controllers,
    told: Outlet,
    has_told_all: bool,
    /// The kind of frame that came first in the last turn.
    first: usize,
    /// The task that waits for the next frame.
    waiting: Option<Waker>,
}

/// Kinds of frames that take turns: answers, asks, news.
const KINDS: usize = 3;

/// A controller of the other side.
struct Away {
    index: usize,
    /// In the order of [`Lane::ALL`].
    lanes: [Pin<Box<async_channel::Receiver<Message>>>; 2],
    /// Of each lane.
    has_ended: [bool; 2],
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
            lanes: mailbox.lanes.map(Box::pin),
            has_ended: [false; 2],
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
            has_told_all: false,
            first: 0,
            waiting: None,
        };
        Exchange { state: Mutex::new(state) }
    }

    /// Waits for the next frame for the other side; its length field is included. Called by one task at a
    /// time, which may drop it and call it again. `None`: no controller is left at either side.
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
            (true, Said::Hello { .. }) => return Err(RemoteError::Unexpected { what: "its version twice" }),
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
        // In turn: neither side waits because the other one has much to say.
        self.first = (self.first + 1) % KINDS;
        let first = self.first;
        for n in 0..KINDS {
            let frame = match (first + n) % KINDS {
                0 => self.poll_answers(cx),
                1 => self.poll_asks(cx),
                _ => self.poll_news(cx),
            };
            if frame.is_some() {
                return Poll::Ready(frame);
            }
        }
        if self.order.has_news(Arrival::latest()) {
            return Poll::Ready(self.frame(Said::Events, &Pieces::new()).ok());
        }
        let is_over = self.away.iter().all(|away| away.has_ended == [true; 2]) && self.pending.is_empty();
        if self.has_told_all && is_over && self.here.have_stopped() {
            Poll::Ready(None)
        } else {
            Poll::Pending
        }
    }

    fn poll_answers(&mut self, cx: &mut Context<'_>) -> Option<Vec<u8>> {
        match self.here.poll(cx) {
            Poll::Ready((number, answered)) => Some(self.answer(number, answered)),
            Poll::Pending => None,
        }
    }

    fn poll_asks(&mut self, cx: &mut Context<'_>) -> Option<Vec<u8>> {
        while let Poll::Ready((to, message)) = self.poll_mailboxes(cx) {
            if let Some(frame) = self.ask(to, message) {
                return Some(frame);
            }
        }
        None
    }

    fn poll_news(&mut self, cx: &mut Context<'_>) -> Option<Vec<u8>> {
        while let Poll::Ready(news) = self.told.poll(cx) {
            let Some(news) = news else {
                self.has_told_all = true;
                break;
            };
            if let Ok(frame) = self.frame(Said::News(news), &Pieces::new()) {
                return Some(frame);
            }
        }
        None
    }

    /// The next message to a controller of the other side: the control plane's before those of hosts, and in
    /// each lane the mailboxes in turn.
    fn poll_mailboxes(&mut self, cx: &mut Context<'_>) -> Poll<(usize, Message)> {
        for lane in Lane::ALL.into_iter().filter(|lane| !self.pending.is_full(*lane)) {
            let at = lane as usize;
            for _ in 0..self.away.len() {
                self.turn = (self.turn + 1) % self.away.len();
                let away = &mut self.away[self.turn];
                if away.has_ended[at] {
                    continue;
                }
                match away.lanes[at].as_mut().poll_next(cx) {
                    Poll::Ready(Some(message)) => return Poll::Ready((away.index, message)),
                    Poll::Ready(None) => away.has_ended[at] = true,
                    Poll::Pending => {}
                }
            }
        }
        Poll::Pending
    }
}
