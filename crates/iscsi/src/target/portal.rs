//! The portal: its sessions, their shared limits, its clock, and its shutdown.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use world::sync::Signal;
use world::{Instant, World};

use super::budget::PortalBudget;
use super::crowd::{self, Known};
use super::limits::Limits;
use super::link::{Counts, Errand, Link};
use super::seam::InitiatorPort;

/// The handle of a portal: its counters, its sessions, its shutdown. Clones refer to the same portal.
#[derive(Clone, Default)]
pub struct Portal(Rc<Shared>);

#[derive(Default)]
struct Shared {
    is_stopping: Cell<bool>,
    /// Connections, by a number that only grows: the order of arrival.
    links: RefCell<BTreeMap<u64, Rc<Link>>>,
    next_link: Cell<u64>,
    /// Session identifying handles in use.
    handles: RefCell<BTreeMap<u16, ()>>,
    last_handle: Cell<u16>,
    /// Counters of closed connections.
    ended: RefCell<Counts>,
    changed: Signal,
    budget: Rc<PortalBudget>,
    known: RefCell<Known>,
    observer: RefCell<Option<Observer>>,
}

/// The receiver of events.
type Observer = Box<dyn Fn(&Event)>;

/// An event for the operator's log. Rare: never one per command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum Event {
    LoginFailed {
        /// Source address.
        peer: SocketAddr,
        /// The initiator's name, if received.
        initiator: String,
        /// Whether it was for discovery, if known.
        is_discovery: bool,
        /// Whether the portal refused it; otherwise the peer left.
        is_refused: bool,
        /// Class and detail of the response by which it was refused (RFC 7143 11.13.5), if one was sent.
        status: Option<(u8, u8)>,
        why: String,
    },
    /// A session began.
    Opened {
        /// Source address.
        peer: SocketAddr,
        /// The initiator port.
        initiator: InitiatorPort,
        /// The target; `None` for discovery.
        target: Option<String>,
    },
    /// A session ended.
    Closed {
        /// Source address.
        peer: SocketAddr,
        /// The initiator port.
        initiator: InitiatorPort,
        /// The target; `None` for discovery.
        target: Option<String>,
        why: String,
    },
}

/// Status of one session.
#[derive(Clone, Debug)]
pub struct SessionInfo {
    /// Source address.
    pub peer: SocketAddr,
    /// The initiator port.
    pub initiator: InitiatorPort,
    /// The target; `None` for discovery.
    pub target: Option<String>,
    /// Its counters.
    pub counts: Counts,
    /// The kernel's counters of its connection.
    pub tcp: world::TcpCounts,
}

/// Interval at which the watch checks every connection.
const WATCH_EVERY: Duration = Duration::from_millis(500);

impl Portal {
    /// A portal without connections.
    pub fn new() -> Portal {
        Portal::default()
    }

    /// Calls `observer` with every event.
    pub fn observe(&self, observer: impl Fn(&Event) + 'static) {
        *self.0.observer.borrow_mut() = Some(Box::new(observer));
    }

    pub(crate) fn tell(&self, event: &Event) {
        if let Some(observer) = &*self.0.observer.borrow() {
            observer(event);
        }
    }

    /// Stops the portal: no new connections; hosts are requested to log out, and after
    /// [`Limits::shutdown_time`] their sessions are dropped. [`super::serve`] returns when all have ended.
    pub fn stop(&self) {
        self.0.is_stopping.set(true);
        self.0.changed.wake_all();
    }

    /// Whether the portal is stopping.
    pub fn is_stopping(&self) -> bool {
        self.0.is_stopping.get()
    }

    /// Waits for the call of [`Portal::stop`].
    pub(crate) async fn stopped(&self) {
        self.0.changed.wait_for(|| self.is_stopping().then_some(())).await;
    }

    /// The open sessions.
    pub fn sessions(&self) -> Vec<SessionInfo> {
        let links = self.0.links.borrow();
        let info = |link: &Rc<Link>| {
            let (initiator, target) = link.port.get()?.clone();
            let (counts, tcp) = (*link.counts.borrow(), link.stream.tcp_counts());
            Some(SessionInfo { peer: link.peer(), initiator, target, counts, tcp })
        };
        links.values().filter_map(info).collect()
    }

    /// Counters since the portal began.
    pub fn counts(&self) -> Counts {
        let mut sum = *self.0.ended.borrow();
        for link in self.0.links.borrow().values() {
            sum.add(&link.counts.borrow());
        }
        sum
    }

    /// Ends the selected sessions, because their access rights changed. None of their further commands is
    /// executed.
    pub fn disconnect(&self, world: &World, is_meant: impl Fn(&InitiatorPort) -> bool) {
        for link in self.0.links.borrow().values() {
            if link.port.get().is_some_and(|(port, target)| target.is_some() && is_meant(port)) {
                link.drop_session(world.now());
            }
        }
    }

    /// Closes all logins in progress and all discovery sessions: access rights changed.
    pub fn restart_logins(&self) {
        for link in self.0.links.borrow().values().filter(|l| l.is_half_open() || l.is_discovery()) {
            link.close("access rights changed; log in again");
        }
    }

    /// Ends all sessions of an initiator with a target (TARGET COLD RESET).
    pub(crate) fn drop_sessions_of(&self, initiator: &str, target: &str, now: Instant) {
        for link in self.0.links.borrow().values() {
            if link.port.get().is_some_and(|(p, t)| p.name == initiator && t.as_deref() == Some(target)) {
                link.drop_session(now);
            }
        }
    }

    pub(crate) fn budget(&self) -> Rc<PortalBudget> {
        self.0.budget.clone()
    }

    /// Adds a connection. If too many are in login, the oldest of its address is closed, or of the address
    /// that has the most.
    pub(crate) fn admit(&self, link: Rc<Link>, limits: &Limits) -> u64 {
        crowd::make_room_for_login(&self.0.links.borrow(), &self.0.known.borrow(), &link, limits);
        let number = self.0.next_link.get();
        self.0.next_link.set(number + 1);
        self.0.links.borrow_mut().insert(number, link);
        self.0.changed.wake_all();
        number
    }

    /// Adds a discovery session; if there are too many, the oldest is closed.
    pub(crate) fn make_room_for_discovery(&self, link: &Link, limits: &Limits) {
        crowd::make_room_for_discovery(&self.0.links.borrow(), link, limits);
    }

    /// Records that a host has logged in from an address.
    pub(crate) fn remember(&self, source: IpAddr) {
        self.0.known.borrow_mut().add(source);
    }

    /// Removes a closed connection.
    pub(crate) fn remove(&self, number: u64) {
        if let Some(link) = self.0.links.borrow_mut().remove(&number) {
            self.0.ended.borrow_mut().add(&link.counts.borrow());
            link.has_ended.set(true);
            link.ended.wake_all();
        }
        self.0.changed.wake_all();
    }

    /// Another session of the same initiator port with the same portal group of the target, which a new login
    /// ends (6.3.5).
    pub(crate) fn find(
        &self,
        port: &InitiatorPort,
        target: Option<&str>,
        portal_group: u16,
    ) -> Option<Rc<Link>> {
        let links = self.0.links.borrow();
        let is_it = |l: &&Rc<Link>| {
            l.portal_group.get() == portal_group
                && l.port.get().is_some_and(|(p, t)| p == port && t.as_deref() == target)
        };
        links.values().find(is_it).cloned()
    }

    /// Whether one more normal session is within the limits. Only sessions count, whose initiators have
    /// authenticated if their name is protected: so no one else can use up a host's limit.
    pub(crate) fn has_room(&self, initiator: &str, is_proven: bool, limits: &Limits) -> bool {
        let links = self.0.links.borrow();
        let (mut all, mut unproven, mut same) = (0, 0, 0);
        for link in links.values() {
            let Some((port, Some(_))) = link.port.get() else { continue };
            all += 1;
            unproven += usize::from(!link.is_proven.get());
            same += usize::from(port.name == initiator);
        }
        let most_unproven = limits.sessions.saturating_sub(limits.sessions_proven).max(1);
        all < limits.sessions
            && same < limits.sessions_per_initiator
            && (is_proven || unproven < most_unproven)
    }

    pub(crate) fn has_handle(&self, tsih: u16) -> bool {
        self.0.handles.borrow().contains_key(&tsih)
    }

    /// A session identifying handle that is not in use; never zero.
    pub(crate) fn take_handle(&self) -> u16 {
        let mut handles = self.0.handles.borrow_mut();
        let mut next = self.0.last_handle.get();
        loop {
            // The limit of sessions is below the number of handles, so one is free.
            next = next.checked_add(1).unwrap_or(1);
            if handles.insert(next, ()).is_none() {
                self.0.last_handle.set(next);
                return next;
            }
        }
    }

    pub(crate) fn give_handle_back(&self, tsih: u16) {
        self.0.handles.borrow_mut().remove(&tsih);
    }

    /// Checks all connections until the portal has stopped and the last connection has ended.
    pub(crate) async fn watch(&self, world: &World, limits: &Limits) {
        loop {
            // Without connections there are no time limits.
            let is_done = || (self.is_stopping() || !self.0.links.borrow().is_empty()).then_some(());
            self.0.changed.wait_for(is_done).await;
            if self.is_stopping() {
                break;
            }
            self.check(world, limits);
            world.sleep(WATCH_EVERY).await;
        }
        self.shut_down(world, limits).await;
    }

    fn check(&self, world: &World, limits: &Limits) {
        let (now, is_pressed) = (world.now(), self.0.budget.is_pressed());
        for link in self.0.links.borrow().values() {
            link.check(now, limits, is_pressed);
        }
    }

    fn for_each(&self, f: impl Fn(&Link)) {
        let links: Vec<_> = self.0.links.borrow().values().cloned().collect();
        links.iter().for_each(|link| f(link));
    }

    async fn shut_down(&self, world: &World, limits: &Limits) {
        let deadline = world.now() + limits.shutdown_time;
        let seconds = u16::try_from(limits.shutdown_time.as_secs()).unwrap_or(u16::MAX);
        self.for_each(|link| match link.port.get() {
            Some((_, Some(_))) => link.send_on(Errand::RequestLogout(seconds)),
            // Logins and discoveries are closed at once.
            _ => link.close("the portal stops"),
        });
        let is_empty = || self.0.links.borrow().is_empty();
        while world.now() < deadline && !is_empty() {
            world.sleep(Duration::from_millis(50)).await;
        }
        self.for_each(|link| link.drop_session(world.now()));
        // Running commands may complete; time limits of peers no longer apply.
        let hard = world.now() + Duration::from_secs(1);
        while !is_empty() {
            world.sleep(Duration::from_millis(20)).await;
            if world.now() >= hard {
                self.for_each(|link| link.close("the portal stops"));
            }
        }
    }
}
