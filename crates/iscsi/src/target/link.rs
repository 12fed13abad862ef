//! One connection as the portal sees it: identity, counters, and since when it has been waiting.

use std::cell::{Cell, OnceCell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use world::sync::Signal;
use world::{Instant, Stream};

use super::limits::Limits;
use super::seam::InitiatorPort;
use crate::relayed::Relayed;

/// Counters of a session, or of all sessions of a portal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Logins that led to a session.
    pub logins: u64,
    /// Logins that were refused or not completed.
    pub login_failures: u64,
    /// SCSI commands.
    pub commands: u64,
    /// Task management functions.
    pub task_functions: u64,
    /// PDUs received in the full feature phase.
    pub pdus_in: u64,
    /// PDUs sent in the full feature phase.
    pub pdus_out: u64,
    /// Bytes of data from hosts.
    pub data_out_bytes: u64,
    /// Bytes of data to hosts.
    pub data_in_bytes: u64,
    /// Wrong digests.
    pub digest_errors: u64,
    /// Reject PDUs sent.
    pub rejects: u64,
    /// Ignored requests: outside the command window, duplicates, and data for unknown tasks.
    pub ignored: u64,
}

impl Counts {
    /// Adds other counters.
    pub fn add(&mut self, other: &Counts) {
        self.logins += other.logins;
        self.login_failures += other.login_failures;
        self.commands += other.commands;
        self.task_functions += other.task_functions;
        self.pdus_in += other.pdus_in;
        self.pdus_out += other.pdus_out;
        self.data_out_bytes += other.data_out_bytes;
        self.data_in_bytes += other.data_in_bytes;
        self.digest_errors += other.digest_errors;
        self.rejects += other.rejects;
        self.ignored += other.ignored;
    }
}

/// Requests of the portal to a session, which its pump task performs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Errand {
    /// Send a NOP-In that requires an answer.
    Ping,
    /// Request a logout within this many seconds.
    RequestLogout(u16),
    /// Announce the end of the session, and end it.
    DropSession,
}

/// Time for a host to receive the message that its session ends.
const DROP_TIME: Duration = Duration::from_secs(2);

/// A connection.
pub(crate) struct Link {
    pub stream: Stream,
    /// Set when another node carries the connection.
    pub relayed: OnceCell<Relayed>,
    /// Where the host is: its session is another one at another portal group.
    pub portal_group: Cell<u16>,
    pub opened_at: Instant,
    /// Set when the login is complete; the target's name is `None` for discovery.
    pub port: OnceCell<(InitiatorPort, Option<String>)>,
    pub counts: RefCell<Counts>,
    /// Time of the last received bytes.
    pub heard_at: Cell<Instant>,
    /// Since when a PDU is incomplete.
    pub partial_since: Cell<Option<Instant>>,
    /// Whether a login request has arrived.
    pub has_spoken: Cell<bool>,
    /// Whether the initiator has authenticated.
    pub is_proven: Cell<bool>,
    /// Shared memory held by its session, in bytes.
    pub shared_bytes: Rc<Cell<u64>>,
    /// Whether the session does not receive its responses: it gets no more memory.
    pub is_stalled: Cell<bool>,
    /// Since when the session is ending.
    pub dropped_at: Cell<Option<Instant>>,
    /// Since when a send is in flight.
    pub sending_since: Cell<Option<Instant>>,
    /// Since when the oldest command waits for its data.
    pub data_since: Cell<Option<Instant>>,
    /// Time of an unanswered NOP-In.
    pub pinged_at: Cell<Option<Instant>>,
    pub errand: Cell<Option<Errand>>,
    /// Why the portal closes the connection.
    pub reason: RefCell<Option<String>>,
    pub pump: OnceCell<Waker>,
    pub has_ended: Cell<bool>,
    pub ended: Signal,
}

impl Link {
    pub(crate) fn new(stream: Stream, portal_group: u16, now: Instant) -> Link {
        Link {
            stream,
            relayed: OnceCell::new(),
            portal_group: Cell::new(portal_group),
            opened_at: now,
            port: OnceCell::new(),
            counts: RefCell::default(),
            heard_at: Cell::new(now),
            partial_since: Cell::new(None),
            has_spoken: Cell::new(false),
            is_proven: Cell::new(false),
            shared_bytes: Rc::default(),
            is_stalled: Cell::new(false),
            dropped_at: Cell::new(None),
            sending_since: Cell::new(None),
            data_since: Cell::new(None),
            pinged_at: Cell::new(None),
            errand: Cell::new(None),
            reason: RefCell::new(None),
            pump: OnceCell::new(),
            has_ended: Cell::new(false),
            ended: Signal::default(),
        }
    }

    /// The host's address.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.relayed.get().map_or_else(|| self.stream.peer(), |relayed| relayed.host)
    }

    /// Whether it is in login.
    pub(crate) fn is_half_open(&self) -> bool {
        self.port.get().is_none() && !self.is_closing()
    }

    /// Whether it is a session of discovery.
    pub(crate) fn is_discovery(&self) -> bool {
        !self.is_closing() && self.port.get().is_some_and(|(_, target)| target.is_none())
    }

    /// Whether it is ending.
    pub(crate) fn is_closing(&self) -> bool {
        self.reason.borrow().is_some()
    }

    /// Closes the connection. The first reason is kept.
    pub(crate) fn close(&self, reason: &str) {
        self.reason.borrow_mut().get_or_insert_with(|| reason.to_owned());
        self.stream.close();
    }

    /// Ends the session: notifies the host if it receives, and executes no more of its commands.
    pub(crate) fn drop_session(&self, now: Instant) {
        self.dropped_at.set(self.dropped_at.get().or(Some(now)));
        self.send_on(Errand::DropSession);
    }

    pub(crate) fn send_on(&self, errand: Errand) {
        self.errand.set(Some(errand));
        self.wake_pump();
    }

    pub(crate) fn wake_pump(&self) {
        if let Some(waker) = self.pump.get() {
            waker.wake_by_ref();
        }
    }

    /// Checks the time limits of the connection. `is_pressed`: other sessions wait for memory.
    pub(crate) fn check(&self, now: Instant, limits: &Limits, is_pressed: bool) {
        let over = |since: Option<Instant>, time: Duration| since.is_some_and(|s| now.since(s) > time);
        if self.port.get().is_none() {
            if over(Some(self.opened_at), limits.login_time) {
                self.close("login timed out");
            }
            return;
        }
        if over(self.sending_since.get(), limits.stall_time) {
            self.is_stalled.set(true);
        }
        let holds_others_up = is_pressed && self.shared_bytes.get() > 0;
        if over(self.dropped_at.get(), DROP_TIME) {
            self.close("session ended by the array");
        } else if over(self.sending_since.get().filter(|_| holds_others_up), limits.pressed_send_time) {
            self.close("the initiator does not receive its responses while other sessions wait for memory");
        } else if over(self.partial_since.get(), limits.pdu_time) {
            self.close("timed out waiting for the rest of a PDU");
        } else if over(self.sending_since.get(), limits.send_time) {
            self.close("the initiator does not receive its responses");
        } else if over(self.data_since.get(), limits.data_out_time) {
            self.close("timed out waiting for the data of a command");
        } else if over(self.pinged_at.get(), limits.ping_time) {
            self.close("no answer to NOP-In");
        } else if self.pinged_at.get().is_none() && over(Some(self.heard_at.get()), limits.ping_after) {
            self.pinged_at.set(Some(now));
            self.send_on(Errand::Ping);
        }
    }
}
