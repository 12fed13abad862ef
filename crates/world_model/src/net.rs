//! Links between sockets of one run: listeners, speed, and how connections break.
//!
//! # The fault model
//!
//! A connection is two pipes. Each carries its bytes in order, at the link's speed (its own link, or the one
//! of the `Port` that it is made to, which it shares), and holds a bounded number of bytes; a sender that is
//! faster waits. A receive gives what has arrived, cut at points drawn from the stream `segments`, so that a
//! message comes in any number of pieces. A connection may be *reset* (both ends learn at once, what is under
//! way is lost) or go *silent* (nothing arrives any more and nobody learns). A power cut takes all
//! connections with it.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::rc::{Rc, Weak};

use world::io::{Completer, Completions};
use world::{
    Batch, Buf, Io, Listener, ListenerBackend, NetError, Received, Sent, Stream, StreamBackend, TcpCounts,
};

use crate::links::Link;
use crate::net_spec::NetSpec;
use crate::pipe::Pipe;
use crate::timeline::{Fire, Timeline};
use crate::wire::{Carried, Wire};

/// The first port that the system chooses (RFC 6335, 6: dynamic ports).
const PORT_FIRST: u16 = 49_152;
/// Connections that wait to be accepted: as Linux' `net.timeline.somaxconn` was for long.
const BACKLOG_MAX: usize = 128;

/// The links of a model.
#[derive(Clone, Default)]
pub struct Net(Rc<State>);

#[derive(Default)]
struct State {
    spec: Cell<NetSpec>,
    listeners: RefCell<BTreeMap<SocketAddr, Rc<Listening>>>,
    connections: RefCell<Vec<Connection>>,
    port_next: Cell<u16>,
    /// Where clients connect from; none: from the server's own address.
    source: Cell<Option<IpAddr>>,
    dials: RefCell<BTreeMap<u64, Dial>>,
    dial_next: Cell<u64>,
    ports: RefCell<BTreeMap<SocketAddr, Port>>,
}

/// A port with its own link, which all connections to its address share in turns.
struct Port {
    link: Link,
    /// What arrives at it, and what leaves it.
    wires: [Rc<Wire>; 2],
}

/// The traffic of a port, in all runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortUsage {
    /// To the listener.
    pub arrived: Carried,
    /// From it.
    pub left: Carried,
}

struct Connection {
    client: SocketAddr,
    server: SocketAddr,
    pipes: [Weak<Pipe>; 2],
}

/// A connection in progress.
struct Dial {
    client: SocketAddr,
    server: SocketAddr,
    /// The listener's end waits half of the way.
    stream: Option<Stream>,
    done: Completer<Result<Stream, NetError>>,
}

impl Net {
    /// Changes the links of later connections.
    pub fn set_spec(&self, spec: NetSpec) {
        self.0.spec.set(spec);
    }

    /// Sets the client address of later connections; `None`: the address that they connect to.
    pub fn set_source(&self, source: Option<IpAddr>) {
        self.0.source.set(source);
    }

    /// All later connections to this address share one link; existing ones share it already if they did.
    pub fn set_port(&self, addr: SocketAddr, link: Link) {
        let mut ports = self.0.ports.borrow_mut();
        let new = || Port { link, wires: [Rc::new(Wire::new(link)), Rc::new(Wire::new(link))] };
        let port = ports.entry(addr).or_insert_with(new);
        port.link = link;
        port.wires.iter().for_each(|wire| wire.set_link(link));
    }

    /// The traffic of the port at this address; `None` without a link of its own.
    pub fn port_usage(&self, addr: SocketAddr) -> Option<PortUsage> {
        let ports = self.0.ports.borrow();
        let [arrived, left] = &ports.get(&addr)?.wires;
        Some(PortUsage { arrived: arrived.carried(), left: left.carried() })
    }

    /// The time of a bit to this address.
    fn latency_ns(&self, server: SocketAddr) -> u64 {
        let port = self.0.ports.borrow().get(&server).map(|port| port.link);
        port.unwrap_or(self.0.spec.get().link).latency_ns()
    }

    /// The connections that stand: client and server address, in the order of their making.
    pub fn connections(&self) -> Vec<(SocketAddr, SocketAddr)> {
        self.0.connections.borrow().iter().filter(|c| c.is_up()).map(|c| (c.client, c.server)).collect()
    }

    /// Resets the connections of this client: both ends learn at once, data in flight are lost.
    pub fn reset(&self, client: SocketAddr) {
        self.each_pipe_of(client, |pipe| pipe.break_off("reset"));
    }

    /// Silences the connections of this client: nothing arrives any more, and nobody learns.
    pub fn silence(&self, client: SocketAddr) {
        self.each_pipe_of(client, Pipe::silence);
    }

    fn each_pipe_of(&self, client: SocketAddr, act: impl Fn(&Pipe)) {
        let connections = self.0.connections.borrow();
        let pipes = connections.iter().filter(|c| c.client == client).flat_map(|c| &c.pipes);
        pipes.filter_map(Weak::upgrade).for_each(|pipe| act(&pipe));
    }

    fn port(&self) -> u16 {
        let port = self.0.port_next.get().max(PORT_FIRST);
        self.0.port_next.set(port.checked_add(1).unwrap_or(PORT_FIRST));
        port
    }

    /// The run is over.
    pub(crate) fn end(&self) {
        let listeners = std::mem::take(&mut *self.0.listeners.borrow_mut());
        let dials = std::mem::take(&mut *self.0.dials.borrow_mut());
        self.0.connections.borrow_mut().clear();
        self.0.ports.borrow().values().flat_map(|port| &port.wires).for_each(|wire| wire.end());
        drop((listeners, dials));
    }

    pub(crate) fn listen(&self, timeline: &Rc<Timeline>, addr: SocketAddr) -> Result<Listener, NetError> {
        let addr = match addr.port() {
            0 => SocketAddr::new(addr.ip(), self.port()),
            _ => addr,
        };
        timeline.record("listen", u64::from(addr.port()), 0);
        let mut listeners = self.0.listeners.borrow_mut();
        if listeners.contains_key(&addr) {
            return Err(NetError::Listen {
                addr,
                cause: "the address is in use by another listener".to_owned(),
            });
        }
        let listening = Rc::new(Listening::at(addr));
        listeners.insert(addr, listening.clone());
        Ok(Listener::new(Rc::new(ListenerEnd { listening, net: self.clone() })))
    }

    /// Dials: half a round trip later the listener has its end, after a whole one the caller.
    pub(crate) fn connect(
        &self,
        timeline: &Rc<Timeline>,
        server: SocketAddr,
    ) -> Io<Result<Stream, NetError>> {
        let client = SocketAddr::new(self.0.source.get().unwrap_or(server.ip()), self.port());
        timeline.record("connect", u64::from(server.port()), u64::from(client.port()));
        let (io, done) = Completions::default().start();
        let number = self.0.dial_next.get();
        self.0.dial_next.set(number + 1);
        self.0.dials.borrow_mut().insert(number, Dial { client, server, stream: None, done });
        timeline.arm(
            timeline.now_ns() + self.latency_ns(server),
            Rc::new(Dialling { net: self.clone(), timeline: timeline.clone() }),
            number,
        );
        io
    }

    /// The dial has reached the server, or its answer the client.
    fn dialled(&self, timeline: &Rc<Timeline>, number: u64, armed: Rc<dyn Fire>) {
        let Some(mut dial) = self.0.dials.borrow_mut().remove(&number) else { return };
        if let Some(stream) = dial.stream {
            dial.done.complete(Ok(stream));
            return;
        }
        match self.answer(timeline, dial.client, dial.server) {
            Some(stream) => {
                dial.stream = Some(stream);
                timeline.arm(timeline.now_ns() + self.latency_ns(dial.server), armed, number);
                self.0.dials.borrow_mut().insert(number, dial);
            }
            None => {
                let cause = "connection refused: no listener".to_owned();
                dial.done.complete(Err(NetError::Connect { addr: dial.server, cause }));
            }
        }
    }

    /// Gives the listener its end; the other one is for the client.
    fn answer(&self, timeline: &Rc<Timeline>, client: SocketAddr, server: SocketAddr) -> Option<Stream> {
        let listening = self.0.listeners.borrow().get(&server).cloned()?;
        if listening.waiting.borrow().len() >= BACKLOG_MAX {
            return None;
        }
        let spec = self.0.spec.get();
        let wires = self.0.ports.borrow().get(&server).map(|port| port.wires.clone());
        let [to, from] = wires.map_or([None, None], |wires| wires.map(Some));
        let there = Pipe::new(timeline, spec, to, client.port());
        let back = Pipe::new(timeline, spec, from, client.port());
        there.set_opposite(&back);
        back.set_opposite(&there);
        let pipes = [Rc::downgrade(&there), Rc::downgrade(&back)];
        let mut connections = self.0.connections.borrow_mut();
        connections.retain(Connection::is_up);
        connections.push(Connection { client, server, pipes });
        listening.give(End::stream(back.clone(), there.clone(), server, client));
        Some(End::stream(there, back, client, server))
    }
}

impl Connection {
    fn is_up(&self) -> bool {
        self.pipes.iter().filter_map(Weak::upgrade).any(|p| p.is_up())
    }
}

struct Dialling {
    net: Net,
    timeline: Rc<Timeline>,
}

impl Fire for Dialling {
    fn fire(self: Rc<Self>, _: &Timeline, number: u64) {
        self.net.dialled(&self.timeline, number, self.clone());
    }
}

/// A listening socket: connections that nobody has accepted, or accepts that no connection has answered.
struct Listening {
    addr: SocketAddr,
    closed: Cell<bool>,
    waiting: RefCell<VecDeque<Stream>>,
    accepts: RefCell<VecDeque<Completer<Result<Stream, NetError>>>>,
    completions: Completions<Result<Stream, NetError>>,
}

impl Listening {
    fn at(addr: SocketAddr) -> Listening {
        Listening {
            addr,
            closed: Cell::new(false),
            waiting: RefCell::default(),
            accepts: RefCell::default(),
            completions: Completions::default(),
        }
    }

    fn give(&self, stream: Stream) {
        loop {
            let accept = self.accepts.borrow_mut().pop_front();
            match accept {
                Some(accept) if accept.is_awaited() => return accept.complete(Ok(stream)),
                Some(_) => {}
                None => return self.waiting.borrow_mut().push_back(stream),
            }
        }
    }
}

struct ListenerEnd {
    listening: Rc<Listening>,
    net: Net,
}

fn not_listening() -> NetError {
    NetError::Closed("the listener is closed".to_owned())
}

impl ListenerBackend for ListenerEnd {
    fn accept(&self) -> Io<Result<Stream, NetError>> {
        if self.listening.closed.get() {
            return Io::ready(Err(not_listening()));
        }
        let waiting = self.listening.waiting.borrow_mut().pop_front();
        match waiting {
            Some(stream) => Io::ready(Ok(stream)),
            None => {
                let (io, done) = self.listening.completions.start();
                self.listening.accepts.borrow_mut().push_back(done);
                io
            }
        }
    }

    fn local(&self) -> SocketAddr {
        self.listening.addr
    }

    fn close(&self) {
        if self.listening.closed.replace(true) {
            return;
        }
        self.net.0.listeners.borrow_mut().remove(&self.listening.addr);
        let accepts = std::mem::take(&mut *self.listening.accepts.borrow_mut());
        accepts.into_iter().for_each(|accept| accept.complete(Err(not_listening())));
        let waiting = std::mem::take(&mut *self.listening.waiting.borrow_mut());
        drop(waiting);
    }
}

impl Drop for ListenerEnd {
    fn drop(&mut self) {
        self.close();
    }
}

/// One end of a connection.
struct End {
    outgoing: Rc<Pipe>,
    incoming: Rc<Pipe>,
    local: SocketAddr,
    peer: SocketAddr,
    receives: Completions<Received>,
    sends: Completions<Sent>,
}

impl End {
    fn stream(outgoing: Rc<Pipe>, incoming: Rc<Pipe>, local: SocketAddr, peer: SocketAddr) -> Stream {
        let (receives, sends) = (Completions::default(), Completions::default());
        Stream::new(Rc::new(End { outgoing, incoming, local, peer, receives, sends }))
    }
}

impl StreamBackend for End {
    fn recv(&self, buf: Buf, from: usize) -> Io<Received> {
        let (io, done) = self.receives.start();
        self.incoming.receive(buf, from, done);
        io
    }

    fn send(&self, batch: Batch) -> Io<Sent> {
        let (io, done) = self.sends.start();
        self.outgoing.send(batch, done);
        io
    }

    fn close(&self) {
        self.outgoing.close_writer();
        self.incoming.close_reader();
    }

    fn peer(&self) -> SocketAddr {
        self.peer
    }

    fn local(&self) -> SocketAddr {
        self.local
    }

    fn tcp_counts(&self) -> TcpCounts {
        // There are no segments in the model: their counts stay zero.
        TcpCounts {
            bytes_out: self.outgoing.carried(),
            bytes_in: self.incoming.carried(),
            ..TcpCounts::default()
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.close();
    }
}
