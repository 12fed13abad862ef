//! The portals of a standby: who connects to one is connected to the owner's portal. Hosts thus find all
//! portals of the array, log in at each of them, and keep a session at the next owner.
//!
//! A connection is accepted only when the owner has accepted one for it. While there is no owner, hosts
//! wait in the queue of the socket, and this node's array accepts them if it becomes the owner: the socket
//! is lent to it.

#![expect(clippy::disallowed_types, reason = "a standby has no world: its sockets are the daemon's")]

use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use admin::NodeTls;
use array::{RelayKey, Relayed};
use cluster::portal_group;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::unix::AsyncFd;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, interval, sleep, timeout};

use super::carry::{Bytes, Connection, Pulse, carry, discards};
use super::link;
use super::repeated::Lasting;

/// Connections through this node at once; further hosts wait in the socket's queue.
const RELAYED_MAX: usize = 1024;
/// An owner that has not accepted a connection by then is asked again.
pub(super) const CONNECT_TIME: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_millis(20);
/// Attempts to reach the owner at once, of all portals together, beyond one of each: hosts that wait at a
/// portal do not wait for each other's attempts.
pub(super) const REACHING_MORE_MAX: usize = 16;
/// A way to the owner that fails for longer is said: longer than it takes until another node owns the array.
const FAILS_TIME: Duration = Duration::from_secs(10);
/// The owner closes its portals first when it hands over: so long they are tried.
const KEEP_TIME: Duration = Duration::from_secs(10);
const KEEP_EVERY: Duration = Duration::from_millis(2);

/// The portals of this process that it listens on itself.
pub(in crate::daemon) type Portals = Vec<(SocketAddr, TcpListener)>;

/// The owner of the array, as a standby sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) epoch: u64,
    pub(super) way: Way,
    /// It is to leave. It still accepts connections, which nobody answers: hosts wait here for the next
    /// owner, also those that it sends away.
    pub(super) leaves: bool,
    /// None: of a version that cannot be told at which portal a host is.
    pub(super) key: Option<RelayKey>,
    /// The number of this node, by which hosts know its portals.
    pub(super) own_number: u16,
}

/// How connections are carried to the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// To its node port, by TLS.
    Tls(link::Peer),
    /// To its portals, in the clear: it is of a version without TLS between nodes.
    Plain(Vec<SocketAddr>),
    /// It has no address that can be named.
    Nowhere,
}

impl Way {
    fn node_port(&self) -> Option<SocketAddr> {
        match self {
            Way::Tls(peer) => Some(peer.address),
            Way::Plain(_) | Way::Nowhere => None,
        }
    }
}

/// The portals of a standby while it is one.
pub(super) struct Relay {
    owner: watch::Sender<Option<Owner>>,
    ends: watch::Sender<bool>,
    portals: Vec<JoinHandle<(SocketAddr, TcpListener)>>,
    connections: JoinHandle<()>,
    carried: Arc<AtomicUsize>,
}

/// What one portal's task has.
struct Portal {
    /// Its place in the declaration.
    index: usize,
    address: SocketAddr,
    owner: watch::Receiver<Option<Owner>>,
    ends: watch::Receiver<bool>,
    begun: tokio::sync::mpsc::Sender<Connection>,
    room: Arc<Semaphore>,
    tls: Arc<NodeTls>,
    /// Why the owner's node port cannot be reached.
    trouble: Lasting,
    /// Attempts to reach the owner. None is for a certain host: that is said when a host is accepted.
    reaching: JoinSet<Attempt>,
    /// How many there are to be.
    wanted: usize,
    /// For all but the first of them.
    more: Arc<Semaphore>,
    /// How long one may take.
    connect_time: Duration,
}

/// A connection to this owner, and where it was reached.
type Reached = (Box<dyn Bytes>, SocketAddr, Owner);

/// None: there is no way to it. An error: with the address.
type Attempt = Option<Result<Reached, (SocketAddr, std::io::Error)>>;

/// Listens on the addresses, except those that cannot be reached under the name that they have here.
///
/// # Errors
/// An address cannot be listened on; with the address.
pub(super) fn listen(addresses: &[SocketAddr]) -> Result<Portals, (SocketAddr, std::io::Error)> {
    let named = addresses.iter().filter(|address| can_be_named(address));
    named.map(|at| world_real::bind_listener(*at).map(|open| (*at, open)).map_err(|e| (*at, e))).collect()
}

/// Whether hosts and other nodes can connect to what this address says.
pub(super) fn can_be_named(address: &SocketAddr) -> bool {
    !address.ip().is_unspecified() && address.port() != 0
}

/// Listens on the addresses as soon as the array has closed them: hosts that it has sent away find them
/// again.
pub(in crate::daemon) async fn keep(addresses: Vec<SocketAddr>) -> Portals {
    let end = Instant::now() + KEEP_TIME;
    let mut kept = Vec::new();
    let mut missing: Vec<SocketAddr> = addresses.into_iter().filter(can_be_named).collect();
    while !missing.is_empty() && Instant::now() < end {
        missing.retain(|address| match world_real::bind_listener(*address) {
            Ok(open) => {
                kept.push((*address, open));
                false
            }
            Err(_) => true,
        });
        sleep(KEEP_EVERY).await;
    }
    kept
}

impl Relay {
    /// Begins at those of the declared portals that are open; nobody is the owner yet.
    pub(super) fn start(
        declared: &[SocketAddr],
        open: Portals,
        tls: &Arc<NodeTls>,
    ) -> std::io::Result<Relay> {
        Relay::with_limits(declared, open, (tls, RELAYED_MAX, CONNECT_TIME))
    }

    /// For so many connections at once, each of which the owner has so long to accept.
    fn with_limits(
        declared: &[SocketAddr],
        open: Portals,
        (tls, connections_max, connect_time): (&Arc<NodeTls>, usize, Duration),
    ) -> std::io::Result<Relay> {
        let (owner, sees) = watch::channel(None);
        let (ends, end) = watch::channel(false);
        let (begun, mut arriving) = tokio::sync::mpsc::channel(connections_max);
        let room = Arc::new(Semaphore::new(connections_max));
        let more = Arc::new(Semaphore::new(REACHING_MORE_MAX));
        let mut tasks = Vec::new();
        for (address, listener) in open {
            let index = declared.iter().position(|at| *at == address).unwrap_or_default();
            listener.set_nonblocking(true)?;
            let listener = watched(listener)?;
            let (owner, ends, begun, room) = (sees.clone(), end.clone(), begun.clone(), room.clone());
            let (tls, trouble) = (tls.clone(), Lasting::new(FAILS_TIME));
            let (reaching, wanted, more) = (JoinSet::new(), 1, more.clone());
            let portal = Portal {
                index,
                address,
                owner,
                ends,
                begun,
                room,
                tls,
                trouble,
                reaching,
                wanted,
                more,
                connect_time,
            };
            tasks.push(tokio::spawn(portal.accept(listener)));
        }
        let carried = Arc::new(AtomicUsize::new(0));
        let count = carried.clone();
        let connections = tokio::spawn(async move {
            let (mut connections, pulse) = (JoinSet::new(), Arc::new(Pulse::default()));
            let mut beat = interval(Pulse::EVERY);
            loop {
                count.store(connections.len(), Relaxed);
                tokio::select! {
                    Some(connection) = arriving.recv() => {
                        connections.spawn(carry(connection, sees.clone(), pulse.clone()));
                    }
                    Some(_) = connections.join_next() => {}
                    _ = beat.tick() => { pulse.stills(); }
                }
            }
        });
        Ok(Relay { owner, ends, portals: tasks, connections, carried })
    }

    /// This is the owner now. Connections to another one end.
    pub(super) fn set_owner(&self, owner: Option<Owner>) {
        let is_plain = matches!(&owner, Some(Owner { way: Way::Plain(_), .. }));
        if self.owner.send_if_modified(|last| std::mem::replace(last, owner.clone()) != owner) && is_plain {
            tracing::warn!(
                "the owner is of a version without TLS between nodes: what this node carries to it for hosts is not \
                 encrypted; update it"
            );
        }
    }

    /// Hosts that are connected to the owner through this node.
    pub(super) fn carried(&self) -> usize {
        self.carried.load(Relaxed)
    }

    /// Accepts no more, and lends the sockets to the array of this process. What is connected to the last
    /// owner stays until the relay is dropped: hosts that are sent away would find no array yet.
    pub(super) async fn lend(&mut self) -> std::io::Result<()> {
        let _ = self.ends.send(true);
        for portal in self.portals.drain(..) {
            if let Ok((address, listener)) = portal.await {
                world_real::lend_listener(address, listener)?;
            }
        }
        Ok(())
    }
}

/// Whether somebody waits to be accepted.
fn has_waiting(listener: &TcpListener) -> bool {
    // An error is left to the accept.
    is_now(listener, PollFlags::IN).unwrap_or(true)
}

/// Whether a socket is in one of these states at this instant.
pub(super) fn is_now(socket: &impl AsFd, states: PollFlags) -> rustix::io::Result<bool> {
    let mut fds = [PollFd::new(socket, states)];
    Ok(poll(&mut fds, Some(&Timespec::default()))? > 0)
}

/// A listener whose queue can be waited for without accepting.
#[expect(
    deprecated,
    reason = "its unsafe successor asks that the descriptor stays the same, and a TcpListener's does"
)]
fn watched(listener: TcpListener) -> std::io::Result<AsyncFd<TcpListener>> {
    AsyncFd::new(listener)
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.connections.abort();
        self.portals.iter().for_each(JoinHandle::abort);
    }
}

impl Portal {
    async fn accept(mut self, listener: AsyncFd<TcpListener>) -> (SocketAddr, TcpListener) {
        let mut ends = self.ends.clone();
        tokio::select! {
            () = self.accept_all(&listener) => {}
            _ = ends.wait_for(|ends| *ends) => {}
        }
        (self.address, listener.into_inner())
    }

    async fn accept_all(&mut self, listener: &AsyncFd<TcpListener>) {
        loop {
            let Ok(mut ready) = listener.readable().await else { return };
            // After an accept it is still marked as readable: the owner is not connected to for nobody.
            if !has_waiting(listener.get_ref()) {
                (self.reaching, self.wanted) = (JoinSet::new(), 1);
                ready.clear_ready();
                continue;
            }
            let place = match self.room.clone().try_acquire_owned() {
                Ok(place) => place,
                Err(_) => {
                    // What was reached would not be the owner's any more when there is room.
                    self.reaching = JoinSet::new();
                    let Ok(place) = self.room.clone().acquire_owned().await else { return };
                    place
                }
            };
            let Some((owner, address, seen)) = self.reach().await else {
                sleep(AGAIN).await;
                continue;
            };
            // How many hosts wait cannot be seen. While there are more, twice as many attempts are made.
            self.wanted = (self.wanted * 2).min(1 + REACHING_MORE_MAX);
            // A host that has gone away meanwhile was counted, too.
            let Ok(Ok((host, peer))) = ready.try_io(|listener| listener.get_ref().accept()) else { continue };
            let host = host.set_nonblocking(true).and_then(|()| TcpStream::from_std(host));
            if let Ok(host) = host.and_then(|host| host.set_nodelay(true).map(|()| host)) {
                let front = self.front(&seen, peer);
                let epoch = seen.epoch;
                let connection = Connection { host, owner, front, address, epoch, place };
                let _ = self.begun.send(connection).await;
            }
        }
    }

    /// A connection to the owner, of the first attempt that succeeds. While none has, more are made: one that
    /// hangs delays nobody. None: no attempt is left, or there is no owner that stays.
    async fn reach(&mut self) -> Option<Reached> {
        let stays = |owner: &Owner| !owner.leaves;
        loop {
            let seen = self.owner.borrow_and_update().clone().filter(stays)?;
            while self.reaching.len() < self.wanted {
                let permit = match self.reaching.is_empty() {
                    true => None,
                    false => match self.more.clone().try_acquire_owned() {
                        Ok(permit) => Some(permit),
                        Err(_) => break,
                    },
                };
                let (tls, owner, at) = (self.tls.clone(), seen.clone(), (self.index, self.address));
                let time_max = self.connect_time;
                self.reaching.spawn(async move {
                    let _permit = permit;
                    let late =
                        owner.way.node_port().map(|port| Err((port, std::io::ErrorKind::TimedOut.into())));
                    timeout(time_max, reach(tls, owner, at)).await.unwrap_or(late)
                });
            }
            let done = tokio::select! {
                Some(done) = self.reaching.join_next() => done.ok().flatten(),
                _ = self.owner.changed() => {
                    self.reaching = JoinSet::new();
                    continue;
                }
                () = sleep(AGAIN) => {
                    self.wanted = (self.reaching.len() + 1).min(1 + REACHING_MORE_MAX);
                    continue;
                }
            };
            match done {
                Some(Ok(reached)) => {
                    self.trouble.is_over();
                    // An attempt of before may have reached an owner that is none any more.
                    if reached.2 == seen {
                        return Some(reached);
                    }
                }
                Some(Err((address, error))) => self.trouble.lasts(|| {
                    format!(
                        "hosts wait at portal {}: the node port {address} of the owner cannot be reached: {error}; \
                         open it between the nodes (--node-listen at the owner chooses it)",
                        self.address
                    )
                }),
                None => {}
            }
            if self.reaching.is_empty() {
                self.wanted = 1;
                return None;
            }
        }
    }

    /// Tells the owner who connects, and where.
    fn front(&self, owner: &Owner, host: SocketAddr) -> Vec<u8> {
        let portal_group = portal_group(owner.own_number, self.index);
        let key = owner.key.clone();
        key.map(|key| Relayed { host, portal: self.address, portal_group, key }.encode()).unwrap_or_default()
    }
}

/// Reaches the owner from the portal of this place in the declaration and of this address.
async fn reach(tls: Arc<NodeTls>, owner: Owner, (index, own): (usize, SocketAddr)) -> Attempt {
    match &owner.way {
        Way::Tls(peer) => {
            let address = peer.address;
            match link::connect(&tls, peer).await {
                Ok(bytes) => Some(Ok((bytes, address, owner))),
                Err(error) => Some(Err((address, error))),
            }
        }
        // At the portal that corresponds to this one.
        Way::Plain(portals) => {
            let address = *portals.get(index).or(portals.first()).filter(|at| **at != own)?;
            let stream = TcpStream::connect(address).await.ok()?;
            stream.set_nodelay(true).ok()?;
            discards(&stream);
            Some(Ok((Box::new(stream), address, owner)))
        }
        Way::Nowhere => None,
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener as Listener;

    use super::super::link::tests::tls;
    use super::*;

    const WAIT: Duration = Duration::from_secs(5);

    /// A relay with one portal, and its address.
    fn relay() -> (Relay, SocketAddr) {
        let listener = world_real::bind_listener(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
        let address = listener.local_addr().expect("its address");
        (Relay::start(&[address], vec![(address, listener)], &tls()).expect("a relay"), address)
    }

    async fn owner() -> (Listener, SocketAddr) {
        let listener = Listener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("its address");
        (listener, address)
    }

    fn of_epoch(epoch: u64, at: SocketAddr) -> Owner {
        Owner { epoch, way: Way::Plain(vec![at]), leaves: false, key: None, own_number: 2 }
    }

    async fn echoes(host: &mut TcpStream, owner: &mut TcpStream) {
        host.write_all(b"ping").await.expect("sent");
        let mut text = [0; 4];
        owner.read_exact(&mut text).await.expect("received");
        owner.write_all(&text).await.expect("sent back");
        host.read_exact(&mut text).await.expect("received");
        assert_eq!(&text, b"ping");
    }

    /// Nothing arrives and nothing ends for a moment.
    async fn stays_open(host: &mut TcpStream) {
        let mut text = [0; 1];
        assert!(timeout(Duration::from_millis(100), host.read(&mut text)).await.is_err());
    }

    async fn ends(host: &mut TcpStream) {
        let mut text = [0; 1];
        let read = timeout(WAIT, host.read(&mut text)).await.expect("in time");
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }

    #[tokio::test]
    async fn a_host_stays_connected_from_the_death_of_an_owner_until_the_next_one() {
        let (relay, address) = relay();
        let (first, at) = owner().await;
        relay.set_owner(Some(of_epoch(1, at)));
        let mut host = TcpStream::connect(address).await.expect("accepted");
        let (mut owned, _) = first.accept().await.expect("relayed");
        echoes(&mut host, &mut owned).await;
        // It dies; what the host sends cannot be delivered.
        drop((first, owned));
        for _ in 0..3 {
            let _ = host.write_all(b"lost").await;
            stays_open(&mut host).await;
        }
        let (next, at) = owner().await;
        relay.set_owner(Some(of_epoch(2, at)));
        ends(&mut host).await;
        let mut host = TcpStream::connect(address).await.expect("accepted");
        let (mut owned, _) = next.accept().await.expect("relayed");
        echoes(&mut host, &mut owned).await;
        // An owner that lives ends a session, as after a log-out.
        drop(owned);
        ends(&mut host).await;
    }

    #[tokio::test]
    async fn hosts_that_come_while_the_owner_leaves_wait_for_the_next_one() {
        let (relay, address) = relay();
        let (first, at) = owner().await;
        relay.set_owner(Some(of_epoch(1, at)));
        let mut before = TcpStream::connect(address).await.expect("accepted");
        let (mut owned, _) = first.accept().await.expect("relayed");
        echoes(&mut before, &mut owned).await;
        // It still accepts, for hosts that come back to its own portal.
        relay.set_owner(Some(Owner { leaves: true, ..of_epoch(1, at) }));
        let mut host = TcpStream::connect(address).await.expect("it waits in the queue");
        stays_open(&mut host).await;
        assert!(timeout(AGAIN * 3, first.accept()).await.is_err(), "led to an owner that leaves");
        echoes(&mut before, &mut owned).await;
        let (next, at) = owner().await;
        relay.set_owner(Some(of_epoch(2, at)));
        let (mut owned, _) = next.accept().await.expect("relayed");
        echoes(&mut host, &mut owned).await;
    }

    #[tokio::test]
    async fn the_owner_is_told_first_who_connects_and_at_which_portal() {
        let open = ["127.0.0.2:0", "127.0.0.3:0"].map(|at| {
            let listener = world_real::bind_listener(at.parse().expect("an address")).expect("a port");
            (listener.local_addr().expect("its address"), listener)
        });
        let [first, second] = open.each_ref().map(|(address, _)| *address);
        // The first of three is not open; the others are in another order.
        let closed = SocketAddr::from(([0, 0, 0, 0], 3260));
        let open = open.into_iter().rev().collect();
        let relay = Relay::start(&[closed, first, second], open, &tls()).expect("started");
        let (array, at) = owner().await;
        let key = RelayKey([9; 16]);
        relay.set_owner(Some(Owner { key: Some(key.clone()), ..of_epoch(1, at) }));
        // Connections stay: when one ends, the relay connects to the owner to see whether it still answers.
        let mut open = Vec::new();
        for (portal, portal_group) in [(first, 2 * 64 + 2), (second, 2 * 64 + 3)] {
            let mut host = TcpStream::connect(portal).await.expect("accepted");
            host.write_all(b"login").await.expect("sent");
            let (mut owned, _) = array.accept().await.expect("relayed");
            let at = host.local_addr().expect("its address");
            let mut expected = Relayed { host: at, portal, portal_group, key: key.clone() }.encode();
            expected.extend(b"login");
            let mut told = vec![0; expected.len()];
            timeout(WAIT, owned.read_exact(&mut told)).await.expect("in time").expect("received");
            assert_eq!(told, expected, "at {portal}");
            open.push((host, owned));
        }
    }

    #[tokio::test]
    async fn a_host_beyond_the_limit_waits_until_another_one_goes() {
        let listener = world_real::bind_listener(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
        let address = listener.local_addr().expect("its address");
        let relay = Relay::with_limits(&[address], vec![(address, listener)], (&tls(), 2, CONNECT_TIME));
        let relay = relay.expect("started");
        let (array, at) = owner().await;
        relay.set_owner(Some(of_epoch(1, at)));
        let mut hosts = Vec::new();
        for _ in 0..2 {
            let mut host = TcpStream::connect(address).await.expect("accepted");
            let (mut owned, _) = array.accept().await.expect("relayed");
            echoes(&mut host, &mut owned).await;
            hosts.push((host, owned));
        }
        assert_eq!(relay.carried(), 2);
        let mut third = TcpStream::connect(address).await.expect("in the queue");
        third.write_all(b"login").await.expect("sent");
        assert!(
            timeout(Duration::from_millis(100), array.accept()).await.is_err(),
            "one more than its limit"
        );
        let (host, mut owned) = hosts.pop().expect("two");
        drop(host);
        ends(&mut owned).await;
        drop(owned);
        let (mut owned, _) = timeout(WAIT, array.accept()).await.expect("in time").expect("relayed");
        let mut text = [0; 5];
        owned.read_exact(&mut text).await.expect("received");
        assert_eq!(&text, b"login");
    }

    /// Before, a portal reached the owner for one host after the other: a login waited for the attempts of
    /// all that had connected before it, whether they said anything or not.
    #[tokio::test]
    async fn a_login_is_answered_while_those_before_it_are_silent_and_attempts_for_them_hang() {
        const HANG: usize = 3;
        let listener = world_real::bind_listener(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
        let address = listener.local_addr().expect("its address");
        // No attempt is given up while the test runs.
        let relay = Relay::with_limits(&[address], vec![(address, listener)], (&tls(), 64, WAIT * 20));
        let relay = relay.expect("started");
        let (node_port, at) = owner().await;
        let own = tls();
        let peer = link::Peer { address: at, sha256: own.fingerprint().into() };
        relay.set_owner(Some(Owner { way: Way::Tls(peer), ..of_epoch(1, at) }));
        let mut silent = Vec::new();
        for _ in 0..HANG {
            silent.push(TcpStream::connect(address).await.expect("in the queue"));
        }
        let mut login = TcpStream::connect(address).await.expect("in the queue");
        login.write_all(b"login").await.expect("sent");
        // The owner answers neither of the first attempts, and all others.
        let mut hang = Vec::new();
        for _ in 0..HANG {
            let (attempt, _) = timeout(WAIT, node_port.accept()).await.expect("another one").expect("it");
            hang.push(attempt);
        }
        let (told, mut hears) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            while let Ok((stream, _)) = node_port.accept().await {
                let (own, told) = (own.clone(), told.clone());
                tokio::spawn(async move {
                    let Ok((mut node, _)) = own.accept(stream).await else { return };
                    node.write_u8(1).await.expect("admitted");
                    node.flush().await.expect("sent");
                    let mut text = [0; 5];
                    if node.read_exact(&mut text).await.is_ok() {
                        let _ = told.send(text).await;
                        node.write_all(b"hello").await.expect("answered");
                        node.flush().await.expect("sent");
                        let _ = node.read(&mut text).await;
                    }
                });
            }
        });
        let heard = timeout(WAIT, hears.recv()).await.expect("in time").expect("a login");
        assert_eq!(&heard, b"login");
        let mut text = [0; 5];
        timeout(WAIT, login.read_exact(&mut text)).await.expect("in time").expect("answered");
        assert_eq!(&text, b"hello");
        for host in &mut silent {
            stays_open(host).await;
        }
    }

    #[tokio::test]
    async fn a_host_that_comes_without_an_owner_waits_and_is_accepted_by_this_array() {
        let (mut relay, address) = relay();
        let mut host = TcpStream::connect(address).await.expect("in the queue");
        host.write_all(b"login").await.expect("sent");
        stays_open(&mut host).await;
        relay.lend().await.expect("lent");
        assert!(world_real::is_lent(address));
        let accepted = tokio::task::spawn_blocking(move || {
            world_real::run(world_real::Options::default(), async move |world| {
                let listener =
                    world.listen_with(address, world::StreamOptions::default()).expect("the lent one");
                listener.accept().await.is_ok()
            })
        });
        assert!(accepted.await.expect("no panic").expect("a world"));
        assert!(!world_real::is_lent(address));
        // The relay's own end touches nobody who waits elsewhere.
        drop(relay);
    }

    #[tokio::test]
    async fn a_portal_that_the_array_has_closed_is_kept_and_a_wildcard_is_not_relayed() {
        let listener = world_real::bind_listener(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a port");
        let address = listener.local_addr().expect("its address");
        let keeping = tokio::spawn(keep(vec![address, SocketAddr::from(([0, 0, 0, 0], 3260))]));
        sleep(Duration::from_millis(20)).await;
        assert!(!keeping.is_finished());
        drop(listener);
        let kept = timeout(WAIT, keeping).await.expect("in time").expect("no panic");
        assert_eq!(kept.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [address]);
    }
}
