//! Connected streams: receives and vectored sends.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::rc::Rc;

use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::Fd;
use world::io::{Completer, Completions};
use world::{Batch, Buf, Io, NetError, Piece, Received, Sent, Stream, StreamBackend, TcpCounts};

use crate::operations::{Op, Reactor};
use crate::tcp;

/// The most pieces that one system call takes (UIO_MAXIOV in linux/uio.h).
const PIECES_MAX: usize = 1024;

/// A connection: what its handle and its operations in flight share.
pub(crate) struct Socket {
    fd: OwnedFd,
    peer: SocketAddr,
    local: SocketAddr,
    closed: Cell<bool>,
    recvs: Completions<Received>,
    sends: Completions<Sent>,
    /// Storage of a send that is not in flight.
    spare: RefCell<Option<Box<Wire>>>,
}

impl Socket {
    fn broken(&self, errno: i32) -> NetError {
        if self.closed.get() {
            return NetError::Closed("closed at this end".into());
        }
        NetError::Closed(io::Error::from_raw_os_error(errno).to_string())
    }
}

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
    let socket = Socket {
        fd,
        peer,
        local,
        closed: Cell::new(false),
        recvs: Completions::default(),
        sends: Completions::default(),
        spare: RefCell::default(),
    };
    Stream::new(Rc::new(SocketStream { reactor, socket: Rc::new(socket) }))
}

impl StreamBackend for SocketStream {
    fn recv(&self, buf: Buf, from: usize) -> Io<Received> {
        if self.socket.closed.get() {
            return Io::ready(Received { buf, result: Err(self.socket.broken(0)) });
        }
        let (io, end) = self.socket.recvs.start();
        self.reactor.submit(Op::Recv(RecvOp { socket: self.socket.clone(), buf, from, end }));
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
        let mut wire = self.socket.spare.borrow_mut().take().unwrap_or_default();
        wire.load(&batch);
        let (io, end) = self.socket.sends.start();
        self.reactor.submit(Op::Send(SendOp { socket: self.socket.clone(), batch, wire, end }));
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

/// A receive in flight.
pub(crate) struct RecvOp {
    socket: Rc<Socket>,
    buf: Buf,
    from: usize,
    end: Completer<Received>,
}

impl RecvOp {
    pub(crate) fn entry(&mut self) -> Entry {
        let room = &mut self.buf[self.from..];
        // A buffer is at most 8 MiB.
        opcode::Recv::new(Fd(self.socket.fd.as_raw_fd()), room.as_mut_ptr(), room.len() as u32).build()
    }

    pub(crate) fn complete(self, result: i32) -> Option<RecvOp> {
        let result = match result {
            r if r == -libc::EINTR || r == -libc::EAGAIN => return Some(self),
            r if r < 0 => Err(self.socket.broken(-r)),
            0 if self.socket.closed.get() => Err(self.socket.broken(0)),
            r => Ok(r.unsigned_abs() as usize),
        };
        self.end.complete(Received { buf: self.buf, result });
        None
    }
}

/// What the kernel reads of a send: the list of pieces. Recycled with its socket.
struct Wire {
    pieces: Vec<libc::iovec>,
    /// First piece that has not gone out.
    next: usize,
    left: usize,
    header: libc::msghdr,
}

impl Default for Wire {
    fn default() -> Wire {
        let header = libc::msghdr {
            msg_name: ptr::null_mut(),
            msg_namelen: 0,
            msg_iov: ptr::null_mut(),
            msg_iovlen: 0,
            msg_control: ptr::null_mut(),
            msg_controllen: 0,
            msg_flags: 0,
        };
        Wire { pieces: Vec::new(), next: 0, left: 0, header }
    }
}

impl Wire {
    /// Lists the pieces of a batch, which must outlive the use of the list.
    fn load(&mut self, batch: &Batch) {
        self.pieces.clear();
        self.next = 0;
        self.left = batch.len();
        self.pieces.extend(batch.pieces.iter().map(|piece| {
            let bytes: &[u8] = match piece {
                Piece::Head { from, len } => &batch.heads[*from..*from + *len],
                Piece::Data(data) => data,
            };
            libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
        }));
    }

    /// The message for one system call: as many of the pieces as it takes.
    fn message(&mut self) -> *const libc::msghdr {
        let rest = &mut self.pieces[self.next..];
        self.header.msg_iov = rest.as_mut_ptr();
        self.header.msg_iovlen = rest.len().min(PIECES_MAX);
        &raw const self.header
    }

    /// Takes note of `sent` bytes.
    fn advance(&mut self, mut sent: usize) {
        self.left -= sent;
        while let Some(piece) = self.pieces.get_mut(self.next) {
            if sent < piece.iov_len {
                piece.iov_base = piece.iov_base.wrapping_byte_add(sent);
                piece.iov_len -= sent;
                return;
            }
            sent -= piece.iov_len;
            self.next += 1;
        }
    }
}

/// A send in flight.
pub(crate) struct SendOp {
    socket: Rc<Socket>,
    batch: Batch,
    wire: Box<Wire>,
    end: Completer<Sent>,
}

impl SendOp {
    pub(crate) fn entry(&mut self) -> Entry {
        // MSG_WAITALL: the ring itself goes on after a partial send.
        let flags = (libc::MSG_NOSIGNAL | libc::MSG_WAITALL) as u32;
        opcode::SendMsg::new(Fd(self.socket.fd.as_raw_fd()), self.wire.message()).flags(flags).build()
    }

    pub(crate) fn complete(mut self, result: i32) -> Option<SendOp> {
        let result = match result {
            r if r == -libc::EINTR || r == -libc::EAGAIN => return Some(self),
            r if r < 0 => Err(self.socket.broken(-r)),
            r => {
                self.wire.advance(r.unsigned_abs() as usize);
                if self.wire.left > 0 {
                    return Some(self);
                }
                Ok(())
            }
        };
        self.batch.clear();
        *self.socket.spare.borrow_mut() = Some(self.wire);
        self.end.complete(Sent { batch: self.batch, result });
        None
    }
}
