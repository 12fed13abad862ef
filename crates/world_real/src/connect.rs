//! Connecting to an address.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::Fd;
use world::io::{Completer, Completions};
use world::{Io, NetError, Stream, StreamOptions};

use crate::operations::{Op, Reactor};
use crate::tcp::RawAddr;
use crate::{socket, tcp};

type Outcome = Result<Stream, NetError>;

/// A connect in flight.
pub(crate) struct ConnectOp {
    reactor: Rc<Reactor>,
    fd: OwnedFd,
    target: SocketAddr,
    raw: Box<(RawAddr, libc::socklen_t)>,
    end: Completer<Outcome>,
}

/// Starts to connect.
pub(crate) fn connect(
    reactor: &Rc<Reactor>,
    cells: &Completions<Outcome>,
    target: SocketAddr,
    options: StreamOptions,
) -> Io<Outcome> {
    let made = tcp::stream_socket(&target).and_then(|fd| tcp::apply(&fd, options).map(|()| fd));
    let fd = match made {
        Ok(fd) => fd,
        Err(e) => return Io::ready(Err(NetError::Connect { addr: target, cause: e.to_string() })),
    };
    let (io, end) = cells.start();
    let raw = Box::new(RawAddr::new(&target));
    reactor.submit(Op::Connect(ConnectOp { reactor: reactor.clone(), fd, target, raw, end }));
    io
}

impl ConnectOp {
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
            socket::stream(self.reactor, self.fd).map_err(refuse)
        };
        self.end.complete(outcome);
        None
    }
}
