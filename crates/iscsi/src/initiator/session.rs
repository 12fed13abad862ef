//! A session: its state, its pump, and the requests that are not commands.

use std::cell::{OnceCell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use scsi::Lun;
use world::sync::Signal;
use world::{Stream, TcpCounts, World};

use super::command::{Waiting, lun_field};
use super::connect::{Error, connect};
use super::options::Options;
use super::reader;
use super::slots::Slots;
use crate::negotiation::Params;
use crate::outgoing::Outgoing;
use crate::pdu::{
    FINAL, Header, IMMEDIATE, LogoutRequest, NopOut, TAG_NONE, TaskRequest, TextRequest, function, opcode,
};
use crate::serial::before;
use crate::text::{TARGET_PAIRS_MAX, Text, pairs_at_most};

/// A logged-in session; clones are the same one. It closes when the last clone is dropped.
#[derive(Clone)]
pub struct Session(pub(crate) Rc<Inner>);

pub(crate) struct Inner {
    pub state: RefCell<State>,
    pub stream: Stream,
    pub pump: OnceCell<Waker>,
    /// A slot or a place in the window may be free.
    pub room: Signal,
    pub noticed: Signal,
}

/// State that changes with every PDU. Borrowed briefly, never across an await.
pub(crate) struct State {
    pub out: Outgoing,
    pub slots: Slots,
    pub params: Params,
    pub cmd_sn: u32,
    pub max_cmd_sn: u32,
    pub exp_stat_sn: u32,
    /// Why the session ended.
    pub broken: Option<Error>,
    pub notices: VecDeque<Notice>,
}

/// An asynchronous message of the target (RFC 7143 11.9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The target requests a logout within this many seconds.
    LogoutRequested(u16),
    /// The target drops the connection or the session.
    Dropped,
    /// A SCSI event, with sense data.
    Scsi(Vec<u8>),
    /// Another event.
    Other(u8),
}

/// Limit of stored notices.
const NOTICES_MAX: usize = 64;

impl State {
    /// Takes the next CmdSN.
    pub(crate) fn next_cmd_sn(&mut self) -> u32 {
        let sn = self.cmd_sn;
        self.cmd_sn = sn.wrapping_add(1);
        sn
    }

    fn window_is_open(&self) -> bool {
        !before(self.max_cmd_sn, self.cmd_sn)
    }

    pub(crate) fn notice(&mut self, notice: Notice) {
        if self.notices.len() < NOTICES_MAX {
            self.notices.push_back(notice);
        }
    }
}

impl Session {
    /// Connects and logs in.
    ///
    /// # Errors
    ///
    /// The portal does not answer, the target refuses the login (status class and detail, RFC 7143 11.13.5),
    /// or fails to prove itself in mutual CHAP.
    pub async fn login(world: &World, options: &Options) -> Result<Session, Error> {
        let connected = connect(world, options).await?;
        let mut out = Outgoing::new(0);
        out.header_digest = connected.params.header_digest;
        out.data_digest = connected.params.data_digest;
        let state = State {
            out,
            slots: Slots::new(options.depth_max),
            params: connected.params,
            cmd_sn: connected.cmd_sn,
            max_cmd_sn: connected.max_cmd_sn,
            exp_stat_sn: connected.exp_stat_sn,
            broken: None,
            notices: VecDeque::new(),
        };
        let inner = Rc::new(Inner {
            state: RefCell::new(state),
            stream: connected.receiver.stream.clone(),
            pump: OnceCell::new(),
            room: Signal::default(),
            noticed: Signal::default(),
        });
        world.spawn(pump_task(Rc::downgrade(&inner)));
        world.spawn(reader::read_task(Rc::downgrade(&inner), connected.receiver));
        Ok(Session(inner))
    }

    /// The negotiated parameters.
    pub fn params(&self) -> Params {
        self.0.state.borrow().params
    }

    /// The kernel's counters of the connection.
    pub fn tcp_counts(&self) -> TcpCounts {
        self.0.stream.tcp_counts()
    }

    /// Ends the connection without a logout.
    pub fn close(&self) {
        self.0.stream.close();
    }

    /// Why the session ended, if it has.
    pub fn error(&self) -> Option<Error> {
        self.0.state.borrow().broken.clone()
    }

    /// The next asynchronous message; an error if the session has ended.
    pub async fn next_notice(&self) -> Result<Notice, Error> {
        self.0
            .noticed
            .wait_for(|| {
                let mut state = self.0.state.borrow_mut();
                let notice = state.notices.pop_front().map(Ok);
                notice.or_else(|| state.broken.clone().map(Err))
            })
            .await
    }

    /// Waits for a free slot and, unless the request is immediate, for the window.
    pub(crate) async fn take_slot(&self, is_immediate: bool) -> Result<u16, Error> {
        let take = || {
            let mut state = self.0.state.borrow_mut();
            if let Some(e) = &state.broken {
                return Some(Err(e.clone()));
            }
            if !state.slots.has_free() || !(is_immediate || state.window_is_open()) {
                return None;
            }
            state.slots.take().map(Ok)
        };
        self.0.room.wait_for(take).await
    }

    /// Wakes the pump, which sends after all ready tasks have appended their requests.
    pub(crate) fn submitted(&self) {
        if let Some(waker) = self.0.pump.get() {
            waker.wake_by_ref();
        }
    }

    /// Sends a task management function ([`crate::pdu::function`]); returns the response
    /// ([`crate::pdu::outcome`]).
    ///
    /// # Errors
    ///
    /// The session ended. A refusal by the target is a response, not an error.
    pub async fn task_function(&self, function: u8, lun: Lun) -> Result<u8, Error> {
        self.manage(function, lun, TAG_NONE, 0).await
    }

    /// ABORT TASK of the request with this tag; returns the response.
    pub async fn abort_task(&self, lun: Lun, tag: u32) -> Result<u8, Error> {
        let ref_cmd_sn = self.0.state.borrow().cmd_sn.wrapping_sub(1);
        self.manage(function::ABORT_TASK, lun, tag, ref_cmd_sn).await
    }

    /// The tags of the requests in flight, for [`Session::abort_task`].
    pub fn tags(&self) -> Vec<u32> {
        let mut state = self.0.state.borrow_mut();
        state.slots.live().into_iter().map(|i| state.slots.get(i).itt).collect()
    }

    async fn manage(&self, function: u8, lun: Lun, tag: u32, ref_cmd_sn: u32) -> Result<u8, Error> {
        let index = self.take_slot(true).await?;
        {
            let mut state = self.0.state.borrow_mut();
            let header = TaskRequest {
                opcode: IMMEDIATE | opcode::TASK_REQUEST,
                function: FINAL | function,
                lun: lun_field(lun),
                itt: state.slots.get(index).itt.into(),
                referenced_task: tag.into(),
                cmd_sn: state.cmd_sn.into(),
                exp_stat_sn: state.exp_stat_sn.into(),
                ref_cmd_sn: ref_cmd_sn.into(),
                ..TaskRequest::default()
            };
            state.out.push(header.bytes());
        }
        self.submitted();
        Ok(self.answer(index).await?.status)
    }

    /// Pings the target; returns the echoed data.
    pub async fn ping(&self, data: &[u8]) -> Result<Vec<u8>, Error> {
        let index = self.take_slot(true).await?;
        {
            let mut state = self.0.state.borrow_mut();
            let header = NopOut {
                opcode: IMMEDIATE | opcode::NOP_OUT,
                flags: FINAL,
                itt: state.slots.get(index).itt.into(),
                ttt: TAG_NONE.into(),
                cmd_sn: state.cmd_sn.into(),
                exp_stat_sn: state.exp_stat_sn.into(),
                ..NopOut::default()
            };
            state.out.push_small(header.bytes(), data);
        }
        self.submitted();
        Ok(self.answer(index).await?.sense)
    }

    /// Logs out.
    pub async fn logout(&self) -> Result<(), Error> {
        let index = self.take_slot(true).await?;
        {
            let mut state = self.0.state.borrow_mut();
            let header = LogoutRequest {
                opcode: IMMEDIATE | opcode::LOGOUT_REQUEST,
                reason: FINAL,
                itt: state.slots.get(index).itt.into(),
                cmd_sn: state.cmd_sn.into(),
                exp_stat_sn: state.exp_stat_sn.into(),
                ..LogoutRequest::default()
            };
            state.out.push(header.bytes());
        }
        self.submitted();
        let answer = self.answer(index).await;
        self.close();
        match answer?.status {
            0 => Ok(()),
            response => Err(Error::TargetFailure(response)),
        }
    }

    fn push_text(&self, index: u16, ttt: u32, text: &[u8]) {
        let mut state = self.0.state.borrow_mut();
        let slot = state.slots.get(index);
        slot.is_answered = false;
        let header = TextRequest {
            opcode: IMMEDIATE | opcode::TEXT_REQUEST,
            flags: FINAL,
            itt: slot.itt.into(),
            ttt: ttt.into(),
            cmd_sn: state.cmd_sn.into(),
            exp_stat_sn: state.exp_stat_sn.into(),
            ..TextRequest::default()
        };
        state.out.push_small(header.bytes(), text);
    }

    /// One text exchange: sends pairs, returns the pairs of the response.
    pub async fn text(&self, request: &[(&str, &str)]) -> Result<Vec<(String, String)>, Error> {
        let mut text = Text::default();
        for (key, value) in request {
            text.put(key, value);
        }
        let (mut to_send, mut ttt, mut answer) = (text.0, TAG_NONE, Vec::new());
        // All requests of an exchange have the same tag.
        let index = self.take_slot(true).await?;
        let _guard = Waiting { session: self, index };
        loop {
            self.push_text(index, ttt, &std::mem::take(&mut to_send));
            self.submitted();
            let done = self.outcome(index).await?;
            answer.extend(done.sense);
            // The reader stores the target's tag in the residual; none if the exchange has ended.
            match done.residual {
                super::done::Residual::Overflow(next) if answer.len() <= TEXT_LEN_MAX => ttt = next,
                super::done::Residual::Overflow(_) => {
                    return Err(Error::Protocol("a text that does not end".into()));
                }
                _ => break,
            }
        }
        let pairs = pairs_at_most(&answer, TARGET_PAIRS_MAX).map_err(|e| Error::Protocol(e.to_string()))?;
        Ok(pairs.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect())
    }
}

/// Length limit of the text of one exchange.
const TEXT_LEN_MAX: usize = 1 << 20;

/// A discovered target.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub struct Discovered {
    pub name: String,
    /// Its addresses and portal group tags.
    pub addresses: Vec<(SocketAddr, u16)>,
}

/// Discovers the targets of a portal in a discovery session.
///
/// # Errors
///
/// The portal does not answer, or refuses the discovery.
pub async fn discover(world: &World, options: &Options) -> Result<Vec<Discovered>, Error> {
    let session = Session::login(world, &Options { target: None, ..options.clone() }).await?;
    let pairs = session.text(&[("SendTargets", "All")]).await?;
    session.logout().await?;
    let mut found: Vec<Discovered> = Vec::new();
    for (key, value) in pairs {
        match (key.as_str(), found.last_mut()) {
            ("TargetName", _) => found.push(Discovered { name: value, addresses: Vec::new() }),
            ("TargetAddress", Some(last)) => {
                let (address, group) = value.rsplit_once(',').unwrap_or((&value, "0"));
                // Targets may return names instead of addresses; those are not resolved here.
                if let (Ok(address), Ok(group)) = (address.parse(), group.parse()) {
                    last.addresses.push((address, group));
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

impl Inner {
    /// Sends the gathered batch, unless a send is in flight.
    pub(crate) fn flush(&self) {
        let Some(waker) = self.pump.get() else { return };
        let mut state = self.state.borrow_mut();
        loop {
            if let Some(io) = &mut state.out.sending {
                let Poll::Ready(sent) = Pin::new(io).poll(&mut Context::from_waker(waker)) else { return };
                state.out.sending = None;
                state.out.sent(sent.batch);
                if sent.result.is_err() {
                    // The reader gets the error too, and ends the session.
                    self.stream.close();
                }
            }
            let Some(batch) = state.out.take_batch() else { return };
            state.out.sending = Some(self.stream.send(batch));
        }
    }

    /// Ends the session and wakes all waiters with the reason.
    pub(crate) fn fail(&self, error: Error) {
        self.stream.close();
        let mut state = self.state.borrow_mut();
        let error = state.broken.get_or_insert(error).clone();
        let mut wakers = Vec::new();
        for index in state.slots.live() {
            let slot = state.slots.get(index);
            if slot.is_abandoned {
                state.slots.release(index);
            } else if slot.outcome.is_none() {
                slot.outcome = Some(Err(error.clone()));
                wakers.extend(slot.waker.take());
            }
        }
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        self.room.wake_all();
        self.noticed.wake_all();
        if let Some(waker) = self.pump.get() {
            waker.wake_by_ref();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stream.close();
        if let Some(waker) = self.pump.get() {
            waker.wake_by_ref();
        }
    }
}

/// Sends at every wake; ends with the session.
async fn pump_task(inner: std::rc::Weak<Inner>) {
    poll_fn(|cx| {
        let Some(inner) = inner.upgrade() else { return Poll::Ready(()) };
        inner.pump.get_or_init(|| cx.waker().clone());
        inner.flush();
        let is_over = inner.state.borrow().broken.is_some();
        if is_over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
