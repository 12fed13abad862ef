//! A session in the full feature phase: its state, and its two halves, reader and pump.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use scsi::HostView;
use world::sync::Signal;
use world::{Sent, World};

use super::budget::Budget;
use super::exchange::Exchange;
use super::limits::Limits;
use super::link::{Errand, Link};
use super::portal::Portal;
use super::seam::Target;
use super::slot::Slot;
use super::task::{Phase, Tasks, Window};
use crate::negotiation::{Negotiation, Params};
use crate::outgoing::Outgoing;
use crate::pdu::Pdu;

/// With more than this many bytes of unsent responses (without data), the connection is not read until they
/// have been sent.
const SMALL_BYTES_MAX: usize = 1 << 20;

/// The result of a login, for its session.
pub(crate) struct Opened<T: Target> {
    pub world: World,
    pub target: Rc<T>,
    pub limits: Rc<Limits>,
    pub portal: Portal,
    pub link: Rc<Link>,
    pub nexus: Option<T::Nexus>,
    pub initiator: String,
    /// `None` for discovery.
    pub target_name: Option<String>,
    pub params: Params,
    pub stat_sn: u32,
    pub cmd_sn: u32,
    pub cid: u16,
}

pub(crate) struct Session<T: Target> {
    pub world: World,
    pub target: Rc<T>,
    pub limits: Rc<Limits>,
    pub portal: Portal,
    pub link: Rc<Link>,
    pub initiator: String,
    pub target_name: Option<String>,
    pub cid: u16,
    pub params: Cell<Params>,
    pub state: RefCell<State>,
    nexus: RefCell<Option<Rc<T::Nexus>>>,
    slots: Vec<OnceCell<Rc<Slot>>>,
    /// Whether the reader or the pump is running: it flushes at its end.
    pub will_flush: Cell<bool>,
    is_over: Cell<bool>,
    pub task_ended: Signal,
    /// Wakes after responses have been sent.
    drained: Signal,
}

/// The connection cannot continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken(pub &'static str);

/// State that changes with every PDU. Borrowed briefly, never across an await or a poll.
pub(crate) struct State {
    pub out: Outgoing,
    pub tasks: Tasks,
    pub window: Window,
    pub budget: Budget,
    pub exchange: Exchange,
    pub negotiation: Negotiation,
    /// Early requests, complete, and their bytes.
    pub early: Vec<(u32, Box<[u8]>)>,
    pub ttt_count: u32,
    pub is_logged_out: bool,
    /// Whether the array ends it.
    pub(crate) is_dropped: bool,
}

impl<T: Target> Session<T> {
    pub(crate) fn new(opened: Opened<T>) -> Rc<Session<T>> {
        let Opened { limits, params, .. } = opened;
        let slots = limits.slots();
        let mut out = Outgoing::new(opened.stat_sn);
        out.header_digest = params.header_digest;
        out.data_digest = params.data_digest;
        let state = State {
            out,
            tasks: Tasks::new(slots),
            window: Window::new(opened.cmd_sn, &limits),
            budget: Budget::new(opened.portal.budget(), &opened.link, &opened.initiator, &limits),
            exchange: Exchange::default(),
            negotiation: Negotiation::resume(limits.offer, params),
            early: Vec::new(),
            ttt_count: 0,
            is_logged_out: false,
            is_dropped: false,
        };
        let session = Rc::new(Session {
            world: opened.world,
            target: opened.target,
            limits,
            portal: opened.portal,
            link: opened.link,
            initiator: opened.initiator,
            target_name: opened.target_name,
            cid: opened.cid,
            params: Cell::new(params),
            state: RefCell::new(state),
            nexus: RefCell::new(opened.nexus.map(Rc::new)),
            slots: (0..slots).map(|_| OnceCell::new()).collect(),
            will_flush: Cell::new(false),
            is_over: Cell::new(false),
            task_ended: Signal::default(),
            drained: Signal::default(),
        });
        session.world.spawn(pump_task(session.clone()));
        session
    }

    pub(crate) fn nexus(&self) -> Option<Rc<T::Nexus>> {
        self.nexus.borrow().clone()
    }

    pub(crate) fn is_discovery(&self) -> bool {
        self.target_name.is_none()
    }

    pub(crate) fn slot(&self, index: u16) -> Rc<Slot> {
        self.slots[usize::from(index)].get_or_init(Rc::default).clone()
    }

    /// Responses were appended: the reader sends them at its end, or else the pump at its next poll.
    pub(crate) fn answers_wait(&self) {
        if !self.will_flush.get() {
            self.link.wake_pump();
        }
    }

    /// Sends the batch, unless a send is in flight: its completion sends the rest.
    pub(crate) fn flush(&self) {
        // Before the pump's first poll there is no task to wake; that poll flushes.
        let Some(waker) = self.link.pump.get() else { return };
        loop {
            let mut state = self.state.borrow_mut();
            if let Some(io) = &mut state.out.sending {
                match Pin::new(io).poll(&mut Context::from_waker(waker)) {
                    Poll::Ready(sent) => {
                        drop(state);
                        self.sent(sent);
                        continue;
                    }
                    Poll::Pending => return,
                }
            }
            let Some(batch) = state.out.take_batch() else {
                if state.out.is_last && !self.is_over.get() {
                    drop(state);
                    self.link.close("logged out");
                }
                return;
            };
            state.out.sending = Some(self.link.stream.send(batch));
            drop(state);
            self.link.sending_since.set(Some(self.link.heard_at.get().max(self.world.now())));
        }
    }

    fn sent(&self, sent: Sent) {
        self.link.sending_since.set(None);
        self.link.is_stalled.set(false);
        let mut state = self.state.borrow_mut();
        state.out.sending = None;
        let held = state.out.sent(sent.batch);
        state.budget.give_back(held);
        if !state.tasks.queue.is_empty() {
            self.link.wake_pump();
        }
        let counted = (std::mem::take(&mut state.out.pdus), std::mem::take(&mut state.out.data_bytes));
        drop(state);
        let mut counts = self.link.counts.borrow_mut();
        counts.pdus_out += counted.0;
        counts.data_in_bytes += counted.1;
        drop(counts);
        self.drained.wake_all();
        if let Err(e) = sent.result {
            self.link.close(&e.to_string());
        }
    }

    /// Waits while the initiator receives its small responses too slowly.
    pub(crate) async fn wait_for_drain(&self) {
        let is_full = || self.state.borrow().out.batch.heads.len() > SMALL_BYTES_MAX;
        if is_full() {
            self.drained.wait_for(|| (!is_full() || self.is_over.get()).then_some(())).await;
        }
    }

    /// Ends the session: starts no command, waits for the running ones, then drops the nexus.
    pub(crate) async fn end(self: &Rc<Self>) {
        self.is_over.set(true);
        self.link.stream.close();
        self.drained.wake_all();
        self.abort_where(|_| true);
        if let Some(nexus) = self.nexus() {
            let view: &T::View = (*nexus).as_ref();
            view.end();
        }
        self.task_ended.wait_for(|| (self.state.borrow().tasks.executing == 0).then_some(())).await;
        for slot in self.slots.iter().filter_map(OnceCell::get) {
            slot.end();
        }
        let nexus = self.nexus.borrow_mut().take();
        assert!(nexus.as_ref().is_none_or(|n| Rc::strong_count(n) == 1), "a command outlived its session");
        drop(nexus);
        let mut state = self.state.borrow_mut();
        let held = state.out.held + state.out.sending_held;
        state.budget.give_back(held);
        (state.out.held, state.out.sending_held) = (0, 0);
        drop(state);
        self.link.wake_pump();
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// Aborts the selected tasks: executing ones end without a response, the others end now.
    pub(crate) fn abort_where(&self, is_meant: impl Fn(&super::task::Task) -> bool) {
        let mut state = self.state.borrow_mut();
        for slot in 0..state.tasks.list.len() as u16 {
            let task = &mut state.tasks.list[usize::from(slot)];
            match task.phase {
                Phase::Free => {}
                _ if !is_meant(task) => {}
                Phase::Executing => task.is_aborted = true,
                Phase::Collecting | Phase::Queued => state.retire(slot),
            }
        }
        drop(state);
        self.update_data_since();
        self.task_ended.wake_all();
    }
}

impl State {
    /// A session that is dropped ends with what is to be sent, unless a task management function is under
    /// way.
    pub(crate) fn end_when_answered(&mut self) {
        let is_managing = self.tasks.list.iter().any(|t| t.phase == Phase::Executing && t.is_management);
        self.out.is_last |= self.is_dropped && !is_managing;
    }

    /// Ends a request without a slot: its place in the window is free.
    pub(crate) fn pass(&mut self, pdu: &Pdu<'_>) {
        if !pdu.is_immediate() {
            self.window.max_cmd_sn = self.window.max_cmd_sn.wrapping_add(1);
        }
    }

    /// Ends a task without a response: its slot, its memory and its place in the window are free.
    pub(crate) fn retire(&mut self, slot: u16) {
        let task = &mut self.tasks.list[usize::from(slot)];
        let held = std::mem::take(&mut task.held);
        if !task.is_immediate {
            self.window.max_cmd_sn = self.window.max_cmd_sn.wrapping_add(1);
        }
        if task.phase == Phase::Queued {
            self.tasks.queue.retain(|&s| s != slot);
        }
        self.tasks.release(slot);
        self.budget.give_back(held);
    }
}

/// The pump: at every wake it sends, starts tasks that waited for memory, and performs the portal's requests,
/// until the session ends.
async fn pump_task<T: Target>(session: Rc<Session<T>>) {
    poll_fn(|cx| {
        session.link.pump.get_or_init(|| cx.waker().clone());
        if session.is_over() {
            return Poll::Ready(());
        }
        match session.link.errand.take() {
            None => {}
            Some(Errand::Ping) => session.ping(),
            Some(Errand::RequestLogout(seconds)) => session.request_logout(seconds),
            Some(Errand::DropSession) => session.drop_session(),
        }
        session.will_flush.set(true);
        session.flush();
        session.start_queued();
        session.will_flush.set(false);
        session.flush();
        Poll::Pending
    })
    .await;
}
