//! What nodes of one array say to each other: a standby connects to the owner's *node port* by TLS, where
//! both show their certificates (`admin::NodeTls`). The owner admits the nodes of its registry, and leads
//! what they carry to its own portals, inside of its machine.
//!
//! ```text
//!  host ── portal of n2 (standby) ══ TLS ══ node port of n1 (owner) ── portal of n1
//!                    PROXY header, the host's bytes     with a key of this process
//! ```
//!
//! The same port takes requests to the API (`asking`), and nodes that offer to run controllers (`elsewhere`).

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use admin::NodeTls;
use array::{RelayKey, Relayed};
use cluster::portal_of;
use rustix::net::sockopt::set_tcp_user_timeout;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{interval, sleep, timeout};

use super::asked;
use super::carry::{Bytes, Pulse, discards, has_hung_up, requests, responses};
use super::elsewhere::frames::{Hello, MAGIC};
use super::relay::{CONNECT_TIME, REACHING_MORE_MAX};
use super::repeated::Repeated;
use crate::state_key::StateKeys;

/// Connections of hosts that other nodes carry to this one, all together.
const CARRIED_MAX: usize = 1024;
/// Requests to the API that other nodes carry to this one: with those of its own machine less than the
/// socket takes.
const ASKED_MAX: usize = 64;
/// Peers that are not admitted yet, and those of one source: as many attempts as a node makes at once.
const ENTERING_MAX: usize = 256;
const ENTERING_OF_SOURCE_MAX: usize = cluster::PORTALS_MAX + REACHING_MORE_MAX;
/// From the connection to the header: a handshake is two round trips, and perhaps a look at the registry.
const ENTER_TIME: Duration = Duration::from_secs(5);
/// What was sent and is not confirmed by then ends a connection: the other machine is gone.
const SILENT_TIME: Duration = Duration::from_secs(60);
/// After an accept that failed: no descriptor is free, for example.
const PAUSE: Duration = Duration::from_millis(50);
/// The owner's first byte: it admits the node.
const ADMITTED: u8 = 1;

/// Another node as the registry has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Peer {
    pub(super) address: SocketAddr,
    /// The SHA-256 of its certificate.
    pub(super) sha256: String,
}

/// The numbers of the nodes that have a certificate with this SHA-256.
pub(super) type Knows = Box<dyn Fn(&str) -> Vec<u16> + Send + Sync>;

/// The array that this node owns.
pub(super) struct Served {
    pub(super) portals: Vec<SocketAddr>,
    /// What the portals take a header with. It leaves this process nowhere but inside of its machine.
    pub(super) key: RelayKey,
    pub(super) knows: Knows,
    /// Takes nodes that offer to run controllers.
    pub(super) offer: mpsc::Sender<Offer>,
    pub(super) api: Api,
}

/// The API of the array that this node owns.
#[derive(Clone)]
pub(super) struct Api {
    pub(super) socket: PathBuf,
    /// Only nodes that hold one of them ask there.
    pub(super) keys: Arc<StateKeys>,
}

/// A node that offers to run controllers.
pub(super) struct Offer {
    /// Those that have its certificate.
    pub(super) numbers: Vec<u16>,
    pub(super) hello: Hello,
    pub(super) stream: Box<dyn Bytes>,
    /// Its place among the connections of the node port.
    pub(super) place: OwnedSemaphorePermit,
}

/// The node port of this process.
pub(super) struct Link {
    address: SocketAddr,
    served: watch::Sender<Option<Arc<Served>>>,
    task: JoinHandle<()>,
}

/// Connects to a node that owns the array, as a connection of a host is carried to it. Its end discards what
/// has not arrived.
///
/// # Errors
/// It cannot be reached, is another one, or does not admit this node: it does not own the array, or does not
/// find this node's certificate in the registry.
pub(super) async fn connect(tls: &NodeTls, peer: &Peer) -> io::Result<Box<dyn Bytes>> {
    let stream = TcpStream::connect(peer.address).await?;
    prepare(&stream)?;
    discards(&stream);
    let mut stream = tls.connect(stream, &peer.sha256).await?;
    match stream.read_u8().await {
        Ok(ADMITTED) => Ok(Box::new(stream)),
        Ok(other) => {
            Err(io::Error::other(format!("it answers {other:02x}h, which this version does not know")))
        }
        Err(_) => Err(io::Error::other("it does not admit this node: its log says why")),
    }
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    Ok(set_tcp_user_timeout(stream, SILENT_TIME.as_millis() as u32)?)
}

impl Link {
    /// Listens. Who connects is sent away until this node serves an array.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub(super) fn listen(address: SocketAddr, tls: Arc<NodeTls>) -> io::Result<Link> {
        let listener = world_real::bind_listener(address)?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        let (served, sees) = watch::channel(None);
        let task = tokio::spawn(accept(listener, Arc::new(Door::new(tls)), sees));
        Ok(Link { address, served, task })
    }

    /// Where other nodes connect.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on it leads to this array, or to none.
    pub(super) fn leads_to(&self, served: Option<Served>) {
        self.served.send_replace(served.map(Arc::new));
    }

    /// Listens no more. What it carries ends with the portals.
    pub(super) async fn end(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

/// Those that are about to be admitted.
struct Door {
    tls: Arc<NodeTls>,
    room: Arc<Semaphore>,
    room_to_ask: Arc<Semaphore>,
    entering: Mutex<BTreeMap<IpAddr, usize>>,
    pulse: Arc<Pulse>,
    refused: Repeated,
}

/// What a node that is admitted wants.
enum Entered<T> {
    /// To carry the connection of a host to this portal.
    Carries(T, TcpStream),
    /// To ask the API, with its place among those that do.
    Asks(T, UnixStream, OwnedSemaphorePermit),
    /// To run controllers.
    Offers(T, Hello, Vec<u16>),
}

/// Why a peer is not admitted.
enum Refusal {
    /// It broke the connection.
    Left,
    Because(String),
}

impl From<io::Error> for Refusal {
    /// Of a peer that broke the connection there is nothing to say: standbys look so whether an owner lives.
    fn from(error: io::Error) -> Refusal {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        match error.kind() {
            BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof => Refusal::Left,
            _ => Refusal::Because(error.to_string()),
        }
    }
}

/// A place among those that enter.
struct Entering(Arc<Door>, IpAddr);

impl Drop for Entering {
    fn drop(&mut self) {
        let mut entering = self.0.entering.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = entering.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                entering.remove(&self.1);
            }
        }
    }
}

async fn accept(listener: TcpListener, door: Arc<Door>, served: watch::Receiver<Option<Arc<Served>>>) {
    let mut beat = interval(Pulse::EVERY);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = beat.tick() => {
                door.pulse.stills();
                continue;
            }
        };
        let Ok((stream, source)) = accepted else {
            sleep(PAUSE).await;
            continue;
        };
        let served = served.borrow().clone();
        // Whoever is sent away tries again, where the registry says then.
        let (Some(served), Some(entering)) = (served, door.take(source.ip())) else { continue };
        tokio::spawn(door.clone().serve(stream, source, served, entering));
    }
}

impl Door {
    fn new(tls: Arc<NodeTls>) -> Door {
        Door {
            tls,
            room: Arc::new(Semaphore::new(CARRIED_MAX)),
            room_to_ask: Arc::new(Semaphore::new(ASKED_MAX)),
            entering: Mutex::default(),
            pulse: Arc::default(),
            refused: Repeated::default(),
        }
    }

    fn take(self: &Arc<Door>, source: IpAddr) -> Option<Entering> {
        let mut entering = self.entering.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = entering.values().sum();
        let of_source = entering.get(&source).copied().unwrap_or(0);
        if all >= ENTERING_MAX || of_source >= ENTERING_OF_SOURCE_MAX {
            self.refused
                .warn(&format!("node port: {source} was sent away: {all} peers are not admitted yet"));
            return None;
        }
        entering.insert(source, of_source + 1);
        Some(Entering(self.clone(), source))
    }

    /// The life of a connection.
    async fn serve(
        self: Arc<Door>,
        stream: TcpStream,
        source: SocketAddr,
        served: Arc<Served>,
        entering: Entering,
    ) {
        let Ok(place) = self.room.clone().try_acquire_owned() else {
            return self.refused.warn(&format!("node port: {CARRIED_MAX} connections are carried: no more"));
        };
        let stills = self.pulse.stills();
        let Ok(socket) = stream.as_fd().try_clone_to_owned() else { return };
        let entered = timeout(ENTER_TIME, self.enter(stream, &served)).await;
        drop(entering);
        let why = match entered {
            Ok(Ok(Entered::Offers(node, hello, numbers))) => {
                // Without a place it comes again.
                let _ = served.offer.try_send(Offer { numbers, hello, stream: Box::new(node), place });
                return;
            }
            Ok(Ok(Entered::Carries(node, portal))) => {
                let is_given_up = || self.pulse.stills() != stills || has_hung_up(&socket);
                return carry(node, portal.into_split(), is_given_up).await;
            }
            Ok(Ok(Entered::Asks(node, api, _place))) => {
                let is_given_up = || self.pulse.stills() != stills || has_hung_up(&socket);
                return carry(node, api.into_split(), is_given_up).await;
            }
            Ok(Err(Refusal::Left)) => return,
            Ok(Err(Refusal::Because(why))) => why,
            Err(_) => format!("not admitted within {} s", ENTER_TIME.as_secs()),
        };
        self.refused.warn(&format!("node port: refused {}: {why}", source.ip()));
    }

    /// The connection of a node that is known, and that to the portal, which knows of the host.
    async fn enter(
        &self,
        stream: TcpStream,
        served: &Served,
    ) -> Result<Entered<impl Bytes + 'static>, Refusal> {
        prepare(&stream)?;
        let (mut node, sha256) = self.tls.accept(stream).await.map_err(|error| match error.into() {
            Refusal::Because(why) => Refusal::Because(format!("it does not speak TLS as nodes do: {why}")),
            left => left,
        })?;
        let numbers = (served.knows)(&sha256);
        if numbers.is_empty() {
            return Err(Refusal::Because(format!("no node of the registry has the certificate {sha256}")));
        }
        node.write_u8(ADMITTED).await?;
        node.flush().await?;
        let mut bytes = Vec::new();
        let (relayed, len) = loop {
            if node.read_buf(&mut bytes).await? == 0 {
                return Err(Refusal::Left);
            }
            if let Some(rest) = bytes.strip_prefix(&MAGIC[..]) {
                let hello = Hello::read(rest, &mut node).await?;
                return Ok(Entered::Offers(node, hello, numbers));
            }
            if let Some(rest) = bytes.strip_prefix(&asked::MAGIC[..]) {
                return self.lead_to_api((node, &sha256), rest, &served.api).await;
            }
            if MAGIC.starts_with(&bytes) || asked::MAGIC.starts_with(&bytes) {
                continue;
            }
            match Relayed::read(&bytes) {
                Ok(None) => {}
                Ok(Some(read)) => break read,
                Err(why) => return Err(Refusal::Because(why.into())),
            }
        };
        let group = relayed.portal_group;
        let Some((_, index)) = portal_of(group).filter(|(number, _)| numbers.contains(number)) else {
            return Err(Refusal::Because(format!("portal group tag {group} is not of node {numbers:?}")));
        };
        let portal = served.portals.get(index).or(served.portals.first()).ok_or(Refusal::Left)?;
        let connecting = timeout(CONNECT_TIME, TcpStream::connect(from_inside(*portal)));
        // It is closed when the array stops.
        let mut portal = connecting.await.ok().and_then(Result::ok).ok_or(Refusal::Left)?;
        portal.set_nodelay(true)?;
        discards(&portal);
        let mut front = Relayed { key: served.key.clone(), ..relayed }.encode();
        front.extend_from_slice(&bytes[len..]);
        portal.write_all(&front).await?;
        Ok(Entered::Carries(node, portal))
    }
}

impl Door {
    /// A node that is known, and the socket of the API: both ends have proved what they must.
    async fn lead_to_api<T: Bytes>(
        &self,
        (mut node, sha256): (T, &str),
        rest: &[u8],
        api: &Api,
    ) -> Result<Entered<T>, Refusal> {
        let Ok(place) = self.room_to_ask.clone().try_acquire_owned() else {
            return Err(Refusal::Because(format!("{ASKED_MAX} requests to the API are carried: no more")));
        };
        // While the array starts, it waits in the queue of the socket.
        let socket = UnixStream::connect(&api.socket).await?;
        asked::admit((&mut node, sha256), rest, (self.tls.fingerprint(), &api.keys)).await?;
        Ok(Entered::Asks(node, socket, place))
    }
}

/// How a portal of this process is reached from its own machine.
fn from_inside(mut portal: SocketAddr) -> SocketAddr {
    if portal.ip().is_unspecified() {
        let [v4, v6] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        portal.set_ip(if portal.is_ipv4() { v4 } else { v6 });
    }
    portal
}

/// As a standby does it with its host: what may have been given up is not delivered.
async fn carry(
    node: impl Bytes,
    (mut from_portal, mut to_portal): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    is_given_up: impl Fn() -> bool,
) {
    let (mut from_node, mut to_node) = split(node);
    let down = async {
        responses(&mut from_portal, &mut to_node).await;
        let _ = timeout(CONNECT_TIME, to_node.shutdown()).await;
    };
    tokio::select! {
        _ = requests(&mut from_node, &mut to_portal, |_| is_given_up()) => {}
        () = down => {}
    }
}

#[cfg(test)]
pub(super) mod tests {
    use admin::Store;

    use super::*;

    const WAIT: Duration = Duration::from_secs(5);

    pub(in super::super) fn tls() -> Arc<NodeTls> {
        let dir = tempfile::tempdir().expect("a directory");
        Arc::new(NodeTls::own(&Store::open(dir.path()).expect("a store")).expect("made"))
    }

    fn here() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    fn key() -> RelayKey {
        RelayKey([7; 16])
    }

    /// An owner with two portals, which knows the node number 3; and that node, and how it reaches the owner.
    struct Bed {
        link: Link,
        portals: Vec<TcpListener>,
        node: Arc<NodeTls>,
        owner: Peer,
    }

    impl Bed {
        async fn new() -> Bed {
            let (own, node) = (tls(), tls());
            let link = Link::listen(here(), own.clone()).expect("a port");
            let owner = Peer { address: link.address(), sha256: own.fingerprint().into() };
            let portals = vec![
                TcpListener::bind(here()).await.expect("a port"),
                TcpListener::bind(here()).await.expect("a port"),
            ];
            let bed = Bed { link, portals, node, owner };
            bed.serve();
            bed
        }

        fn serve(&self) {
            let known = self.node.fingerprint().to_owned();
            let knows = Box::new(move |sha256: &str| if sha256 == known { vec![3] } else { vec![] });
            let portals = self.portals.iter().map(|portal| portal.local_addr().expect("bound")).collect();
            let (offer, _) = mpsc::channel(1);
            let api = Api { socket: PathBuf::new(), keys: Arc::default() };
            self.link.leads_to(Some(Served { portals, key: key(), knows, offer, api }));
        }

        async fn connect(&self, tls: &NodeTls) -> io::Result<Box<dyn Bytes>> {
            timeout(WAIT, connect(tls, &self.owner)).await.expect("in time")
        }
    }

    fn header(portal_group: u16) -> Relayed {
        let (host, portal) = (SocketAddr::from(([10, 0, 0, 9], 1)), SocketAddr::from(([10, 0, 0, 3], 3260)));
        Relayed { host, portal, portal_group, key: RelayKey([0; 16]) }
    }

    async fn ends(stream: &mut (impl Bytes + ?Sized)) {
        let read = timeout(WAIT, stream.read(&mut [0; 16])).await.expect("in time");
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }

    #[tokio::test]
    async fn a_known_node_reaches_the_portal_of_the_same_place_under_the_key_of_this_process() {
        let bed = Bed::new().await;
        let mut node = bed.connect(&bed.node).await.expect("admitted");
        // In two parts, the second with the first bytes of the host.
        let relayed = header(3 * 64 + 2);
        let (first, second) = (&relayed.encode()[..20], [&relayed.encode()[20..], b"login"].concat());
        for part in [first, &second] {
            node.write_all(part).await.expect("sent");
            node.flush().await.expect("sent");
            sleep(Duration::from_millis(20)).await;
        }
        let (mut portal, _) =
            timeout(WAIT, bed.portals[1].accept()).await.expect("in time").expect("led to it");
        let expected = [Relayed { key: key(), ..relayed }.encode(), b"login".to_vec()].concat();
        let mut told = vec![0; expected.len()];
        timeout(WAIT, portal.read_exact(&mut told)).await.expect("in time").expect("received");
        assert_eq!(told, expected);
        // More than all buffers, both ways; the last bytes before the end arrive.
        let much = vec![5; 3 << 20];
        let (mut read, mut write) = split(node);
        let (sent, mut back) = (async { write.write_all(&much).await.and(write.flush().await) }, vec![]);
        let echo = async {
            let mut all = vec![0; much.len()];
            portal.read_exact(&mut all).await.expect("received");
            portal.write_all(&all).await.expect("sent back");
            drop(portal);
        };
        let (sent, _, ()) = timeout(WAIT, async { tokio::join!(sent, read.read_to_end(&mut back), echo) })
            .await
            .expect("in time");
        sent.expect("sent");
        assert!(back == much);
    }

    #[tokio::test]
    async fn only_nodes_of_the_registry_are_admitted_and_only_for_their_own_portals() {
        let bed = Bed::new().await;
        assert!(bed.connect(&tls()).await.is_err(), "a stranger");
        for not_its_own in [0, 1, 2 * 64 + 1, 4 * 64 + 1] {
            let mut node = bed.connect(&bed.node).await.expect("admitted");
            node.write_all(&header(not_its_own).encode()).await.expect("sent");
            ends(&mut node).await;
        }
        let mut node = bed.connect(&bed.node).await.expect("admitted");
        node.write_all(b"\x43 a login without a header").await.expect("sent");
        ends(&mut node).await;
        for portal in &bed.portals {
            assert!(
                timeout(Duration::from_millis(50), portal.accept()).await.is_err(),
                "it reached a portal"
            );
        }
    }

    #[tokio::test]
    async fn a_node_that_owns_nothing_sends_others_away_at_once_and_no_more_peers_of_one_source_wait() {
        let bed = Bed::new().await;
        bed.link.leads_to(None);
        assert!(bed.connect(&bed.node).await.is_err());
        bed.serve();
        // They say nothing, and have until the time for a handshake has passed.
        let mut silent = Vec::new();
        for _ in 0..ENTERING_OF_SOURCE_MAX {
            silent.push(TcpStream::connect(bed.owner.address).await.expect("connected"));
        }
        let mut one_more = TcpStream::connect(bed.owner.address).await.expect("connected");
        ends(&mut one_more).await;
        assert!(bed.connect(&bed.node).await.is_err());
        drop(silent);
        let admitted = async { while bed.connect(&bed.node).await.is_err() {} };
        timeout(WAIT, admitted).await.expect("their places are free");
        let address = bed.owner.address;
        bed.link.end().await;
        assert!(TcpStream::connect(address).await.is_err());
    }

    #[tokio::test]
    async fn what_is_on_its_way_when_the_other_node_breaks_off_is_not_delivered() {
        let bed = Bed::new().await;
        let mut node = bed.connect(&bed.node).await.expect("admitted");
        node.write_all(&header(3 * 64 + 1).encode()).await.expect("sent");
        let (mut portal, _) =
            timeout(WAIT, bed.portals[0].accept()).await.expect("in time").expect("led to it");
        // The portal takes nothing until all that is between is full.
        let mut sent = 0;
        while let Ok(written) = timeout(Duration::from_millis(300), node.write(&[9; 1 << 14])).await {
            sent += written.expect("written");
        }
        drop(node);
        sleep(Duration::from_millis(700)).await;
        // What the portal's socket has taken may come; then it ends without the rest.
        let mut taken = vec![];
        let _ = timeout(WAIT, portal.read_to_end(&mut taken)).await.expect("it ends");
        assert!(taken.len() < sent / 2, "{} of {sent} bytes", taken.len());
    }

    #[test]
    fn a_portal_at_all_addresses_is_reached_from_inside() {
        let inside = |text: &str| from_inside(text.parse().expect("an address")).to_string();
        assert_eq!(inside("0.0.0.0:3260"), "127.0.0.1:3260");
        assert_eq!(inside("[::]:3260"), "[::1]:3260");
        assert_eq!(inside("10.0.0.1:3260"), "10.0.0.1:3260");
    }
}
