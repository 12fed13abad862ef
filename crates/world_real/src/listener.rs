//! Listening sockets.

use std::cell::Cell;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use world::io::Completions;
use world::{Io, Listener, ListenerBackend, NetError, Stream, StreamOptions};

use crate::operations::Op;
use crate::operations::connection::{AcceptOp, Listening, closed};
use crate::reactor::Reactor;
use crate::{socket, tcp};

/// Backlog of connections: a thousand hosts that return after a restart, twice. The system limits it to
/// net.core.somaxconn.
const BACKLOG: i32 = 2048;

/// Sockets that this process listens on already, for the world that will listen on their addresses.
static LENT: Mutex<Vec<(SocketAddr, OwnedFd)>> = Mutex::new(Vec::new());

/// Listens on an address outside of a world, as a world does it. Connections wait in the socket's queue.
///
/// # Errors
/// The address cannot be listened on.
pub fn bind_listener(addr: SocketAddr) -> io::Result<TcpListener> {
    bind(addr, StreamOptions::default()).map(TcpListener::from)
}

/// The world that listens on this address next uses this socket: who has connected meanwhile is accepted
/// then.
///
/// # Errors
/// The socket cannot be set to block.
pub fn lend_listener(addr: SocketAddr, listener: TcpListener) -> io::Result<()> {
    listener.set_nonblocking(false)?;
    let mut lent = LENT.lock().unwrap_or_else(PoisonError::into_inner);
    lent.retain(|(other, _)| *other != addr);
    lent.push((addr, listener.into()));
    Ok(())
}

/// Whether a socket for this address waits for a world.
pub fn is_lent(addr: SocketAddr) -> bool {
    LENT.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|(other, _)| *other == addr)
}

fn take_lent(addr: SocketAddr) -> Option<OwnedFd> {
    let mut lent = LENT.lock().unwrap_or_else(PoisonError::into_inner);
    let at = lent.iter().position(|(other, _)| *other == addr)?;
    Some(lent.swap_remove(at).1)
}

/// The handle's back end.
struct ListenerEnd {
    reactor: Rc<Reactor>,
    local: SocketAddr,
    listening: Rc<Listening>,
}

/// Listens on an address.
pub(crate) fn listen(
    reactor: &Rc<Reactor>,
    addr: SocketAddr,
    options: StreamOptions,
) -> Result<Listener, NetError> {
    let bound = match take_lent(addr) {
        Some(fd) => tcp::apply(&fd, options).map(|()| fd),
        None => bind(addr, options),
    };
    let fd = bound.map_err(|e| NetError::Listen { addr, cause: cause(&e) })?;
    let local = tcp::local_addr(&fd).map_err(|e| NetError::Listen { addr, cause: cause(&e) })?;
    Ok(listener(reactor, fd, local, Some(options)))
}

/// Listens on a path. An existing file is left alone, and only the owner may connect.
pub(crate) fn listen_local(reactor: &Rc<Reactor>, path: &Path) -> Result<Listener, NetError> {
    let fd = bind_local(path).map_err(|e| {
        let cause = match e.raw_os_error() {
            Some(libc::EADDRINUSE) => "a file of this name already exists".into(),
            _ => e.to_string(),
        };
        NetError::ListenLocal { path: path.display().to_string(), cause }
    })?;
    Ok(listener(reactor, fd, tcp::NO_ADDR, None))
}

fn listener(
    reactor: &Rc<Reactor>,
    fd: OwnedFd,
    local: SocketAddr,
    options: Option<StreamOptions>,
) -> Listener {
    let of_streams = reactor.clone();
    let connected = move |fd| match options {
        Some(options) => {
            tcp::apply(&fd, options)?;
            socket::stream(of_streams.clone(), fd)
        }
        // No TCP: the ends have no addresses.
        None => Ok(socket::stream_between(of_streams.clone(), fd, (tcp::NO_ADDR, tcp::NO_ADDR))),
    };
    let listening = Listening {
        fd,
        connected: Box::new(connected),
        closed: Cell::new(false),
        accepts: Completions::default(),
    };
    Listener::new(Rc::new(ListenerEnd { reactor: reactor.clone(), local, listening: Rc::new(listening) }))
}

fn bind_local(path: &Path) -> io::Result<OwnedFd> {
    let addr = rustix::net::SocketAddrUnix::new(path)?;
    let fd = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&fd, &addr)?;
    // Nobody can connect before it listens.
    rustix::fs::chmod(path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
    rustix::net::listen(&fd, BACKLOG)?;
    Ok(fd)
}

fn bind(addr: SocketAddr, options: StreamOptions) -> io::Result<OwnedFd> {
    let fd = tcp::stream_socket(&addr)?;
    // A restart need not wait for the TIME_WAIT of old connections.
    sockopt::set_socket_reuseaddr(&fd, true)?;
    // Before listening: the segment size is negotiated in the handshake, before a connection is accepted.
    tcp::apply(&fd, options)?;
    rustix::net::bind(&fd, &addr)?;
    rustix::net::listen(&fd, BACKLOG)?;
    Ok(fd)
}

fn cause(e: &io::Error) -> String {
    match e.raw_os_error() {
        Some(libc::EADDRINUSE) => "the address is in use by another process".into(),
        Some(libc::EADDRNOTAVAIL) => "no network interface of this machine has this address".into(),
        Some(libc::EACCES) => "no permission: ports below 1024 require CAP_NET_BIND_SERVICE".into(),
        _ => e.to_string(),
    }
}

impl ListenerBackend for ListenerEnd {
    fn accept(&self) -> Io<Result<Stream, NetError>> {
        if self.listening.closed.get() {
            return Io::ready(Err(closed()));
        }
        let (io, end) = self.listening.accepts.start();
        self.reactor.submit(Op::Accept(AcceptOp::new(&self.listening, end)));
        io
    }

    fn local(&self) -> SocketAddr {
        self.local
    }

    fn close(&self) {
        if !self.listening.closed.replace(true) {
            tcp::shut_down(&self.listening.fd);
        }
    }
}

impl Drop for ListenerEnd {
    fn drop(&mut self) {
        self.close();
    }
}
