//! Connected streams: the handle's back end.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use world::{Batch, Buf, Io, Received, Sent, Stream, StreamBackend, TcpCounts};

use crate::operations::Op;
use crate::operations::transfer::{RecvOp, SendOp, Socket};
use crate::reactor::Reactor;
use crate::tcp;

/// The handle's back end; ends the connection when it is dropped, whatever is in flight.
struct SocketStream {
    reactor: Rc<Reactor>,
    socket: Rc<Socket>,
}

/// Makes a stream of a connected socket.
pub(crate) fn stream(reactor: Rc<Reactor>, fd: OwnedFd) -> io::Result<Stream> {
    let ends = (tcp::peer_addr(&fd)?, tcp::local_addr(&fd)?);
    Ok(stream_between(reactor, fd, ends))
}

/// Makes a stream of a connected socket whose ends are known: the peer's, and this one.
pub(crate) fn stream_between(reactor: Rc<Reactor>, fd: OwnedFd, ends: (SocketAddr, SocketAddr)) -> Stream {
    let (peer, local) = ends;
    let socket = Socket::new(fd, peer, local);
    Stream::new(Rc::new(SocketStream { reactor, socket: Rc::new(socket) }))
}

impl StreamBackend for SocketStream {
    fn recv(&self, buf: Buf, from: usize) -> Io<Received> {
        if self.socket.closed.get() {
            return Io::ready(Received { buf, result: Err(self.socket.broken(0)) });
        }
        let (io, end) = self.socket.recvs.start();
        self.reactor.submit(Op::Recv(RecvOp::new(&self.socket, buf, from, end)));
        io
    }

    fn send(&self, mut batch: Batch) -> Io<Sent> {
        if self.socket.closed.get() {
            batch.clear();
            return Io::ready(Sent { batch, result: Err(self.socket.broken(0)) });
        }
        if batch.is_empty() {
            batch.clear();
            return Io::ready(Sent { batch, result: Ok(()) });
        }
        let (io, end) = self.socket.sends.start();
        self.reactor.submit(Op::Send(SendOp::new(&self.socket, batch, end)));
        io
    }

    fn close(&self) {
        if !self.socket.closed.replace(true) {
            tcp::shut_down(&self.socket.fd);
        }
    }

    fn peer(&self) -> SocketAddr {
        self.socket.peer
    }

    fn local(&self) -> SocketAddr {
        self.socket.local
    }

    fn tcp_counts(&self) -> TcpCounts {
        tcp::counts(&self.socket.fd)
    }
}

impl Drop for SocketStream {
    fn drop(&mut self) {
        self.close();
    }
}
