//! Listening sockets.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::ptr;
use std::rc::Rc;
use std::time::Duration;

use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::{Fd, Timespec};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use world::io::{Completer, Completions};
use world::{Io, Listener, ListenerBackend, NetError, Stream, StreamOptions};

use crate::operations::{Op, Reactor};
use crate::{socket, tcp};

/// Connections that wait to be accepted: a thousand hosts that come back at once after a restart, and as many again.
/// The system cuts it to net.core.somaxconn.
const BACKLOG: i32 = 2048;

/// A listening socket: what its handle and its accept in flight share.
pub(crate) struct Listening {
    reactor: Rc<Reactor>,
    fd: OwnedFd,
    local: SocketAddr,
    /// Of its connections; none where they are no TCP.
    options: Option<StreamOptions>,
    closed: Cell<bool>,
    accepts: Completions<Result<Stream, NetError>>,
}

struct AnyListener(Rc<Listening>);

/// Listens on an address.
pub(crate) fn listen(
    reactor: &Rc<Reactor>,
    addr: SocketAddr,
    options: StreamOptions,
) -> Result<Listener, NetError> {
    let fd = bind(addr, options).map_err(|e| NetError::Listen { addr, cause: cause(&e) })?;
    let local = tcp::local_addr(&fd).map_err(|e| NetError::Listen { addr, cause: cause(&e) })?;
    Ok(listener(reactor, fd, local, Some(options)))
}

/// Listens on a path. What is there is left alone, and the socket is the owner's only.
pub(crate) fn listen_local(reactor: &Rc<Reactor>, path: &Path) -> Result<Listener, NetError> {
    let fd = bind_local(path).map_err(|e| {
        let cause = match e.raw_os_error() {
            Some(libc::EADDRINUSE) => "something is there already".into(),
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
    let listening = Listening {
        reactor: reactor.clone(),
        fd,
        local,
        options,
        closed: Cell::new(false),
        accepts: Completions::default(),
    };
    Listener::new(Rc::new(AnyListener(Rc::new(listening))))
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
    // A restart need not wait until the old connections' TIME_WAIT is over.
    sockopt::set_socket_reuseaddr(&fd, true)?;
    // Before listening: the segment size is agreed on in the handshake, before a connection is accepted.
    tcp::apply(&fd, options)?;
    rustix::net::bind(&fd, &addr)?;
    rustix::net::listen(&fd, BACKLOG)?;
    Ok(fd)
}

fn cause(e: &io::Error) -> String {
    match e.raw_os_error() {
        Some(libc::EADDRINUSE) => {
            "the address is in use: another program (or another array) listens there".into()
        }
        Some(libc::EADDRNOTAVAIL) => "this machine has no such address".into(),
        Some(libc::EACCES) => "no permission: ports below 1024 need a privilege".into(),
        _ => e.to_string(),
    }
}

impl ListenerBackend for AnyListener {
    fn accept(&self) -> Io<Result<Stream, NetError>> {
        if self.0.closed.get() {
            return Io::ready(Err(closed()));
        }
        let (io, end) = self.0.accepts.start();
        self.0.reactor.submit(Op::Accept(AcceptOp { listening: self.0.clone(), pause: None, end }));
        io
    }

    fn local(&self) -> SocketAddr {
        self.0.local
    }

    fn close(&self) {
        if !self.0.closed.replace(true) {
            tcp::shut_down(&self.0.fd);
        }
    }
}

impl Drop for AnyListener {
    fn drop(&mut self) {
        self.close();
    }
}

fn closed() -> NetError {
    NetError::Closed("not listening any more".into())
}

/// How long to wait before the next try when the system has no descriptor or memory for a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// An accept in flight.
pub(crate) struct AcceptOp {
    listening: Rc<Listening>,
    /// Waiting instead of accepting: a failed accept would fail again at once, and for ever.
    pause: Option<Box<Timespec>>,
    end: Completer<Result<Stream, NetError>>,
}

impl AcceptOp {
    pub(crate) fn entry(&mut self) -> Entry {
        if let Some(time) = &self.pause {
            return opcode::Timeout::new(&raw const **time).build();
        }
        opcode::Accept::new(Fd(self.listening.fd.as_raw_fd()), ptr::null_mut(), ptr::null_mut())
            .flags(libc::SOCK_CLOEXEC)
            .build()
    }

    pub(crate) fn complete(mut self, result: i32) -> Option<AcceptOp> {
        if self.pause.take().is_some() {
            return Some(self);
        }
        let outcome = match result {
            // ECONNABORTED: the peer went away while it waited; the next one counts.
            r if [-libc::EINTR, -libc::EAGAIN, -libc::ECONNABORTED].contains(&r) => return Some(self),
            _ if self.listening.closed.get() => {
                if result >= 0 {
                    drop(take(result));
                }
                Err(closed())
            }
            r if [-libc::EMFILE, -libc::ENFILE, -libc::ENOBUFS, -libc::ENOMEM].contains(&r) => {
                self.pause = Some(Box::new(PAUSE.into()));
                return Some(self);
            }
            r if r < 0 => {
                Err(NetError::Closed(format!("cannot accept: {}", io::Error::from_raw_os_error(-r))))
            }
            fd => match self.connected(take(fd)) {
                Ok(stream) => Ok(stream),
                // The peer is gone already: as if it had never come.
                Err(_) => return Some(self),
            },
        };
        self.end.complete(outcome);
        None
    }

    fn connected(&self, fd: OwnedFd) -> io::Result<Stream> {
        let reactor = self.listening.reactor.clone();
        match self.listening.options {
            Some(options) => {
                tcp::apply(&fd, options)?;
                socket::stream(reactor, fd)
            }
            None => Ok(socket::stream_between(reactor, fd, (tcp::NO_ADDR, tcp::NO_ADDR))),
        }
    }
}

/// Takes the descriptor that an accept gave.
fn take(fd: i32) -> OwnedFd {
    // SAFETY: a successful accept returns a new descriptor, and nobody else has seen this result.
    unsafe { OwnedFd::from_raw_fd(fd) }
}
