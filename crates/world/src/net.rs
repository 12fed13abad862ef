//! Sockets: byte streams with vectored sends whose pieces are shared, not copied.

use std::net::SocketAddr;
use std::rc::Rc;

use crate::{Buf, Data, Io};

/// Errors of a socket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum NetError {
    /// The connection is closed or broken.
    #[error("connection closed: {0}")]
    Closed(String),
    /// Listening on an address failed.
    #[error("cannot listen on {addr}: {cause}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// The error of the operating system.
        cause: String,
    },
    /// Listening on a local socket failed.
    #[error("cannot listen on {path}: {cause}")]
    ListenLocal {
        path: String,
        /// The error of the operating system.
        cause: String,
    },
    /// Connecting to an address failed.
    #[error("cannot connect to {addr}: {cause}")]
    Connect {
        /// The address.
        addr: SocketAddr,
        /// The error of the operating system.
        cause: String,
    },
}

/// One piece of a vectored send.
#[derive(Clone, Debug)]
pub enum Piece {
    /// A range of the batch's own bytes (headers, padding, digests).
    Head {
        /// First byte in [`Batch::heads`].
        from: usize,
        /// Number of bytes.
        len: usize,
    },
    /// Shared payload.
    Data(Data),
}

/// The content of one send: many messages, each a header and its payload. Reused from send to send.
#[derive(Debug, Default)]
pub struct Batch {
    /// Storage of the small pieces.
    pub heads: Vec<u8>,
    /// The pieces in the order of the wire.
    pub pieces: Vec<Piece>,
    len: usize,
}

impl Batch {
    /// Appends a copy of `bytes`, joined to the previous piece if that is small, too.
    pub fn push_head(&mut self, bytes: &[u8]) {
        let from = self.heads.len();
        self.heads.extend_from_slice(bytes);
        self.len += bytes.len();
        match self.pieces.last_mut() {
            Some(Piece::Head { from: first, len }) if *first + *len == from => *len += bytes.len(),
            _ => self.pieces.push(Piece::Head { from, len: bytes.len() }),
        }
    }

    /// Appends payload without a copy.
    pub fn push_data(&mut self, data: Data) {
        self.len += data.len();
        self.pieces.push(Piece::Data(data));
    }

    /// Bytes in all pieces.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Empties the batch and drops the payload; the storage stays.
    pub fn clear(&mut self) {
        self.heads.clear();
        self.pieces.clear();
        self.len = 0;
    }
}

/// A completed receive.
#[derive(Debug)]
pub struct Received {
    /// The buffer of the call.
    pub buf: Buf,
    /// The number of bytes received, at the given `from`; 0 if the peer has closed.
    pub result: Result<usize, NetError>,
}

/// A completed send: all of it was sent, or the connection is broken.
#[derive(Debug)]
pub struct Sent {
    /// The batch of the call, cleared for the next use.
    pub batch: Batch,
    /// The outcome.
    pub result: Result<(), NetError>,
}

/// The kernel's counters of a connection (`TCP_INFO`); zeros without a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpCounts {
    /// Segments sent (`tcpi_segs_out`).
    pub segments_out: u64,
    /// Segments received (`tcpi_segs_in`).
    pub segments_in: u64,
    /// Bytes sent and acknowledged.
    pub bytes_out: u64,
    /// Bytes received.
    pub bytes_in: u64,
}

/// The options of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamOptions {
    /// The largest TCP segment in bytes (`TCP_MAXSEG`): 1448 makes a loopback count packets as Ethernet does.
    pub segment_bytes_max: Option<u16>,
}

/// A byte stream as a world implements it. At most one receive and one send are in flight.
pub trait StreamBackend {
    /// Receives at least one byte into `buf[from..]`.
    fn recv(&self, buf: Buf, from: usize) -> Io<Received>;
    /// Sends the whole batch.
    fn send(&self, batch: Batch) -> Io<Sent>;
    /// Closes the connection in both directions: operations in flight complete with an error. Idempotent.
    fn close(&self);
    /// The peer's address.
    fn peer(&self) -> SocketAddr;
    /// The local address.
    fn local(&self) -> SocketAddr;
    /// The kernel's counters so far.
    fn tcp_counts(&self) -> TcpCounts;
}

/// A connected byte stream; clones are the same connection, which closes when the last one is dropped.
#[derive(Clone)]
pub struct Stream(Rc<dyn StreamBackend>);

impl Stream {
    /// Wraps a back end.
    pub fn new(backend: Rc<dyn StreamBackend>) -> Stream {
        Stream(backend)
    }

    /// Receives at least one byte into `buf[from..]`; 0 bytes mean that the peer has closed.
    pub fn recv(&self, buf: Buf, from: usize) -> Io<Received> {
        assert!(from < buf.len(), "a receive needs room");
        self.0.recv(buf, from)
    }

    /// Sends the whole batch and returns it cleared.
    pub fn send(&self, batch: Batch) -> Io<Sent> {
        self.0.send(batch)
    }

    /// Closes the connection: operations in flight complete with an error.
    pub fn close(&self) {
        self.0.close();
    }

    /// The peer's address.
    pub fn peer(&self) -> SocketAddr {
        self.0.peer()
    }

    /// The local address.
    pub fn local(&self) -> SocketAddr {
        self.0.local()
    }

    /// The kernel's counters so far.
    pub fn tcp_counts(&self) -> TcpCounts {
        self.0.tcp_counts()
    }
}

/// A listening socket as a world implements it.
pub trait ListenerBackend {
    /// The next connection.
    fn accept(&self) -> Io<Result<Stream, NetError>>;
    /// The local address (with the port that the system chose).
    fn local(&self) -> SocketAddr;
    /// Stops listening: an accept in flight completes with an error. Idempotent.
    fn close(&self);
}

/// A listening socket.
#[derive(Clone)]
pub struct Listener(Rc<dyn ListenerBackend>);

impl Listener {
    /// Wraps a back end.
    pub fn new(backend: Rc<dyn ListenerBackend>) -> Listener {
        Listener(backend)
    }

    /// The next connection.
    pub fn accept(&self) -> Io<Result<Stream, NetError>> {
        self.0.accept()
    }

    /// The local address.
    pub fn local(&self) -> SocketAddr {
        self.0.local()
    }

    /// Stops listening.
    pub fn close(&self) {
        self.0.close();
    }
}
