//! Accepts and connects in flight.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::rc::Rc;
use std::time::Duration;

use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::{Fd, Timespec};
use world::io::{Completer, Completions};
use world::{NetError, Stream};

use crate::tcp::RawAddr;

/// How an accept or a connect ends.
pub(crate) type Outcome = Result<Stream, NetError>;

/// Makes the stream of a connected socket.
pub(crate) type Connected = Box<dyn Fn(OwnedFd) -> io::Result<Stream>>;

/// A listening socket: what its handle and its accept in flight share.
pub(crate) struct Listening {
    pub(crate) fd: OwnedFd,
    pub(crate) connected: Connected,
    pub(crate) closed: Cell<bool>,
    pub(crate) accepts: Completions<Outcome>,
}

pub(crate) fn closed() -> NetError {
    NetError::Closed("the listener is closed".into())
}

/// How long to wait before the next try when the system has no descriptor or memory for a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// An accept in flight.
pub(crate) struct AcceptOp {
    listening: Rc<Listening>,
    /// Waiting instead of accepting: a failed accept would fail again at once, and for ever.
    pause: Option<Box<Timespec>>,
    end: Completer<Outcome>,
}

impl AcceptOp {
    pub(crate) fn new(listening: &Rc<Listening>, end: Completer<Outcome>) -> AcceptOp {
        AcceptOp { listening: listening.clone(), pause: None, end }
    }

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
            fd => match (self.listening.connected)(take(fd)) {
                Ok(stream) => Ok(stream),
                // The peer is gone already: as if it had never come.
                Err(_) => return Some(self),
            },
        };
        self.end.complete(outcome);
        None
    }
}

/// Takes the descriptor that an accept gave.
fn take(fd: i32) -> OwnedFd {
    // SAFETY: a successful accept returns a new descriptor, and nobody else has seen this result.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// A connect in flight.
pub(crate) struct ConnectOp {
    fd: OwnedFd,
    target: SocketAddr,
    raw: Box<(RawAddr, libc::socklen_t)>,
    connected: Connected,
    end: Completer<Outcome>,
}

impl ConnectOp {
    pub(crate) fn new(
        fd: OwnedFd,
        target: SocketAddr,
        connected: Connected,
        end: Completer<Outcome>,
    ) -> ConnectOp {
        let raw = Box::new(RawAddr::new(&target));
        ConnectOp { fd, target, raw, connected, end }
    }

    pub(crate) fn entry(&mut self) -> Entry {
        let (addr, len) = &*self.raw;
        opcode::Connect::new(Fd(self.fd.as_raw_fd()), (&raw const *addr).cast(), *len).build()
    }

    pub(crate) fn complete(self, result: i32) -> Option<ConnectOp> {
        if result == -libc::EINTR || result == -libc::EAGAIN {
            return Some(self);
        }
        let refuse = |e: io::Error| NetError::Connect { addr: self.target, cause: e.to_string() };
        let outcome = if result < 0 {
            Err(refuse(io::Error::from_raw_os_error(-result)))
        } else {
            (self.connected)(self.fd).map_err(refuse)
        };
        self.end.complete(outcome);
        None
    }
}
