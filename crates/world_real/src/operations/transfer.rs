//! Receives and vectored sends in flight, and the connection that they share with its handle.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::rc::Rc;

use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::Fd;
use world::io::{Completer, Completions};
use world::{Batch, Buf, NetError, Piece, Received, Sent};

/// The most pieces that one system call takes (UIO_MAXIOV in linux/uio.h).
const PIECES_MAX: usize = 1024;

/// A connection: what its handle and its operations in flight share.
pub(crate) struct Socket {
    pub(crate) fd: OwnedFd,
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) closed: Cell<bool>,
    pub(crate) recvs: Completions<Received>,
    pub(crate) sends: Completions<Sent>,
    /// Storage of a send that is not in flight.
    spare: RefCell<Option<Box<Wire>>>,
}

impl Socket {
    pub(crate) fn new(fd: OwnedFd, peer: SocketAddr, local: SocketAddr) -> Socket {
        Socket {
            fd,
            peer,
            local,
            closed: Cell::new(false),
            recvs: Completions::default(),
            sends: Completions::default(),
            spare: RefCell::default(),
        }
    }

    pub(crate) fn broken(&self, errno: i32) -> NetError {
        if self.closed.get() {
            return NetError::Closed("closed at this end".into());
        }
        NetError::Closed(io::Error::from_raw_os_error(errno).to_string())
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
    pub(crate) fn new(socket: &Rc<Socket>, buf: Buf, from: usize, end: Completer<Received>) -> RecvOp {
        RecvOp { socket: socket.clone(), buf, from, end }
    }

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
        // Its padding and the width of its counts differ between C libraries, so it has no literal here.
        // SAFETY: of a message header, all bytes zero is a valid one: no name, no pieces, no control data.
        let header = unsafe { std::mem::zeroed::<libc::msghdr>() };
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
        self.header.msg_iovlen = rest.len().min(PIECES_MAX) as _;
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
    pub(crate) fn new(socket: &Rc<Socket>, batch: Batch, end: Completer<Sent>) -> SendOp {
        let mut wire = socket.spare.borrow_mut().take().unwrap_or_default();
        wire.load(&batch);
        SendOp { socket: socket.clone(), batch, wire, end }
    }

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
