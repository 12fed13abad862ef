//! The portal: its sessions, what they may hold together, its clock, and its end.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::Waker;
use std::time::Duration;

use world::World;
use world::sync::Signal;

use super::limits::Limits;
use super::link::{Counts, Errand, Link};
use super::seam::InitiatorPort;

/// The handle on a portal: its counters, its sessions, its end. Clones are the same portal.
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
    /// What connections that have ended counted.
    ended: RefCell<Counts>,
    changed: Signal,
    budget: Rc<PortalBudget>,
    observer: RefCell<Option<Observer>>,
}

/// Who is told of events.
type Observer = Box<dyn Fn(&Event)>;

/// Something that an operator may want to read in a log. Rare: never per command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A login did not lead to a session.
    LoginFailed {
        /// Who.
        peer: SocketAddr,
        /// The name it gave, if it came so far.
        initiator: String,
        /// Why.
        why: String,
    },
    /// A session began.
    Opened {
        /// Where from.
        peer: SocketAddr,
        /// The initiator port.
        initiator: InitiatorPort,
        /// The target; `None` for discovery.
        target: Option<String>,
    },
    /// A session ended.
    Closed {
        /// Where from.
        peer: SocketAddr,
        /// The initiator port.
        initiator: InitiatorPort,
        /// Why.
        why: String,
    },
}

/// One session, for display.
#[derive(Clone, Debug)]
pub struct SessionInfo {
    /// Where from.
    pub peer: SocketAddr,
    /// The initiator port.
    pub initiator: InitiatorPort,
    /// The target; `None` for discovery.
    pub target: Option<String>,
    /// What it counted.
    pub counts: Counts,
    /// What the kernel counted on its connection.
    pub tcp: world::TcpCounts,
}

/// How often the watch looks at every connection.
const WATCH_EVERY: Duration = Duration::from_millis(500);

impl Portal {
    /// A portal that nobody has connected to.
    pub fn new() -> Portal {
        Portal::default()
    }

    /// Tells `observer` what happens.
    pub fn observe(&self, observer: impl Fn(&Event) + 'static) {
        *self.0.observer.borrow_mut() = Some(Box::new(observer));
    }

    pub(crate) fn tell(&self, event: &Event) {
        if let Some(observer) = &*self.0.observer.borrow() {
            observer(event);
        }
    }

    /// Ends the portal: no new connections, hosts are asked to log out, and after [`Limits::shutdown_time`] their
    /// sessions are dropped. [`super::serve`] returns when all have ended.
    pub fn stop(&self) {
        self.0.is_stopping.set(true);
        self.0.changed.wake_all();
    }

    /// Whether the portal ends.
    pub fn is_stopping(&self) -> bool {
        self.0.is_stopping.get()
    }

    /// Waits for the call of [`Portal::stop`].
    pub(crate) async fn stopped(&self) {
        self.0.changed.wait_for(|| self.is_stopping().then_some(())).await;
    }

    /// The sessions that are open.
    pub fn sessions(&self) -> Vec<SessionInfo> {
        let links = self.0.links.borrow();
        let info = |link: &Rc<Link>| {
            let (initiator, target) = link.port.get()?.clone();
            let (counts, tcp) = (*link.counts.borrow(), link.stream.tcp_counts());
            Some(SessionInfo { peer: link.peer, initiator, target, counts, tcp })
        };
        links.values().filter_map(info).collect()
    }

    /// Everything that was counted since the portal began.
    pub fn counts(&self) -> Counts {
        let mut sum = *self.0.ended.borrow();
        for link in self.0.links.borrow().values() {
            sum.add(&link.counts.borrow());
        }
        sum
    }

    /// Ends the sessions of an initiator, whose rights have changed.
    pub fn disconnect(&self, initiator: &str) {
        for link in self.0.links.borrow().values() {
            if link.port.get().is_some_and(|(port, _)| port.name == initiator) {
                link.send_on(Errand::DropSession);
            }
        }
    }

    /// Ends all sessions with a target (TARGET COLD RESET).
    pub(crate) fn drop_sessions_of(&self, target: &str) {
        for link in self.0.links.borrow().values() {
            if link.port.get().is_some_and(|(_, t)| t.as_deref() == Some(target)) {
                link.send_on(Errand::DropSession);
            }
        }
    }

    pub(crate) fn budget(&self) -> Rc<PortalBudget> {
        self.0.budget.clone()
    }

    /// Takes a connection in, or not: too many of its source are in login already.
    pub(crate) fn admit(&self, link: Rc<Link>, limits: &Limits) -> Option<u64> {
        let mut links = self.0.links.borrow_mut();
        let source: IpAddr = link.peer.ip();
        let logging_in = links.values().filter(|l| l.port.get().is_none());
        let (mut all, mut same) = (0, 0);
        for other in logging_in {
            all += 1;
            same += usize::from(other.peer.ip() == source);
        }
        if same >= limits.logins_per_source || all >= limits.sessions {
            return None;
        }
        let number = self.0.next_link.get();
        self.0.next_link.set(number + 1);
        links.insert(number, link);
        self.0.changed.wake_all();
        Some(number)
    }

    /// A connection has ended.
    pub(crate) fn remove(&self, number: u64) {
        if let Some(link) = self.0.links.borrow_mut().remove(&number) {
            self.0.ended.borrow_mut().add(&link.counts.borrow());
            link.has_ended.set(true);
            link.ended.wake_all();
        }
        self.0.changed.wake_all();
    }

    /// Another session of the same initiator port with the same target, which a new login ends (6.3.5).
    pub(crate) fn find(&self, port: &InitiatorPort, target: Option<&str>) -> Option<Rc<Link>> {
        let links = self.0.links.borrow();
        let is_it = |l: &&Rc<Link>| l.port.get().is_some_and(|(p, t)| p == port && t.as_deref() == target);
        links.values().find(is_it).cloned()
    }

    /// Whether one more session is within the limits.
    pub(crate) fn has_room(&self, initiator: &str, limits: &Limits) -> bool {
        let links = self.0.links.borrow();
        let ports = links.values().filter_map(|l| l.port.get());
        let (mut all, mut same) = (0, 0);
        for (port, _) in ports {
            all += 1;
            same += usize::from(port.name == initiator);
        }
        all < limits.sessions && same < limits.sessions_per_initiator
    }

    pub(crate) fn has_handle(&self, tsih: u16) -> bool {
        self.0.handles.borrow().contains_key(&tsih)
    }

    /// A session identifying handle that is not in use; never zero.
    pub(crate) fn take_handle(&self) -> u16 {
        let mut handles = self.0.handles.borrow_mut();
        let mut next = self.0.last_handle.get();
        loop {
            // Sessions are fewer than handles by their limit, so that one is free.
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

    /// Looks after all connections until the portal has stopped and the last one has ended.
    pub(crate) async fn watch(&self, world: &World, limits: &Limits) {
        loop {
            // Without connections there is nothing to time.
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
        let now = world.now();
        for link in self.0.links.borrow().values() {
            link.check(now, limits);
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
            // Logins and discoveries have nothing to lose.
            _ => link.close("the portal stops"),
        });
        let is_empty = || self.0.links.borrow().is_empty();
        while world.now() < deadline && !is_empty() {
            world.sleep(Duration::from_millis(50)).await;
        }
        self.for_each(|link| link.send_on(Errand::DropSession));
        // A command that executes is waited for; only the peers' patience is not.
        let hard = world.now() + Duration::from_secs(1);
        while !is_empty() {
            world.sleep(Duration::from_millis(20)).await;
            if world.now() >= hard {
                self.for_each(|link| link.close("the portal stops"));
            }
        }
    }
}

/// Bytes of data that all sessions of a portal may hold together.
pub(crate) struct PortalBudget {
    free: Cell<Option<u64>>,
    waiting: RefCell<Vec<Waker>>,
}

impl Default for PortalBudget {
    fn default() -> PortalBudget {
        PortalBudget { free: Cell::new(None), waiting: RefCell::default() }
    }
}

/// Bytes of data that one session may hold.
pub(crate) struct Budget {
    portal: Rc<PortalBudget>,
    free: u64,
    /// A single command may need this much; more is counted as this much.
    largest: u64,
}

impl Budget {
    pub(crate) fn new(portal: Rc<PortalBudget>, limits: &Limits) -> Budget {
        // The first session says how much there is; all have the same limits.
        portal.free.set(Some(portal.free.get().unwrap_or(limits.portal_data_bytes)));
        let largest = limits.session_data_bytes.min(limits.portal_data_bytes);
        Budget { portal, free: limits.session_data_bytes, largest }
    }

    /// Takes `bytes`, or says no and wakes `waker` when others have given some back. Gives what was counted.
    pub(crate) fn take(&mut self, bytes: u64, waker: Option<&Waker>) -> Option<u64> {
        let bytes = bytes.min(self.largest);
        let portal_free = self.portal.free.get().unwrap_or(0);
        if self.free < bytes {
            return None;
        }
        if portal_free < bytes {
            let mut waiting = self.portal.waiting.borrow_mut();
            if let Some(waker) = waker.filter(|w| !waiting.iter().any(|other| other.will_wake(w))) {
                waiting.push(waker.clone());
            }
            return None;
        }
        self.free -= bytes;
        self.portal.free.set(Some(portal_free - bytes));
        Some(bytes)
    }

    pub(crate) fn give_back(&mut self, bytes: u64) {
        if bytes > 0 {
            self.free += bytes;
            self.portal.free.set(self.portal.free.get().map(|free| free + bytes));
            for waker in self.portal.waiting.borrow_mut().drain(..) {
                waker.wake();
            }
        }
    }
}
