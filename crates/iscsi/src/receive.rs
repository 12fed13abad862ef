//! Receives into one large reusable buffer per connection, which holds many PDUs that are parsed in place.
//!
//! For an incomplete PDU, the receiver waits in this buffer or, if its data has a destination (a command's
//! own buffer), receives directly into it: [`Receiver::direct`].

use world::{Buf, NetError, Stream};

use crate::frame::{FrameError, Framing, Layout};

/// The receive buffer in steady state: 128 commands of 48 bytes with 4 KiB of immediate data each would be
/// 530 KiB, but one receive of 128 KiB is already cheap compared with the work that follows.
const BUFFER_LEN: usize = 128 << 10;
/// If less room than this is left behind the held bytes, they are moved to the front before the next receive.
const ROOM_LEN_MIN: usize = 64 << 10;

/// Why receiving ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReceiveError {
    #[error("the peer closed the connection")]
    Closed,
    #[error(transparent)]
    Net(#[from] NetError),
    #[error("malformed PDU: {0}")]
    Frame(#[from] FrameError),
}

/// The receiving end of a connection.
pub(crate) struct Receiver {
    pub stream: Stream,
    pub framing: Framing,
    buf: Option<Buf>,
    from: usize,
    to: usize,
}

impl Receiver {
    pub(crate) fn new(stream: Stream, framing: Framing) -> Receiver {
        Receiver { stream, framing, buf: None, from: 0, to: 0 }
    }

    /// The received and unconsumed bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.buf {
            Some(buf) => &buf[self.from..self.to],
            None => &[],
        }
    }

    /// Consumes the first `len` bytes.
    pub(crate) fn consume(&mut self, len: usize) {
        assert!(len <= self.to - self.from);
        self.from += len;
    }

    /// The layout of the PDU at the front, if its header is complete.
    pub(crate) fn layout(&self) -> Result<Option<Layout>, FrameError> {
        self.framing.layout(self.bytes())
    }

    /// Receives at least one more byte. `want_len` is the length of the PDU at the front, if known;
    /// `room_len_max` limits the receive, for a caller that prefers to receive what follows into its own
    /// buffers.
    pub(crate) async fn fill(&mut self, want_len: usize, room_len_max: usize) -> Result<(), ReceiveError> {
        let mut buf = self.make_room(want_len);
        let capacity = buf.len();
        let missing = want_len.saturating_sub(self.to - self.from);
        buf.truncate(self.to + room_len_max.max(missing).clamp(1, capacity - self.to));
        let received = self.stream.recv(buf, self.to).await;
        let mut buf = received.buf;
        buf.set_len(capacity);
        self.buf = Some(buf);
        match received.result? {
            0 => Err(ReceiveError::Closed),
            n => {
                self.to += n;
                Ok(())
            }
        }
    }

    /// The buffer, with the held bytes moved so that the rest of a PDU of `want_len` bytes fits.
    fn make_room(&mut self, want_len: usize) -> Buf {
        let held = self.to - self.from;
        let buf = self.buf.take();
        let capacity = buf.as_ref().map_or(0, |b| b.len());
        let need = want_len.max(held + 1).max(BUFFER_LEN);
        match buf {
            // A PDU larger than the buffer gets a larger one, which is released after the PDU.
            Some(mut buf)
                if need <= capacity && (capacity == BUFFER_LEN || held > 0 || want_len > BUFFER_LEN) =>
            {
                if held == 0 {
                    (self.from, self.to) = (0, 0);
                } else if self.from > 0 && (capacity - self.to < ROOM_LEN_MIN || self.from + need > capacity)
                {
                    buf.copy_within(self.from..self.to, 0);
                    (self.from, self.to) = (0, held);
                }
                buf
            }
            old => {
                let mut new = Buf::new(need);
                if let Some(old) = &old {
                    new[..held].copy_from_slice(&old[self.from..self.to]);
                }
                (self.from, self.to) = (0, held);
                new
            }
        }
    }

    /// Fills `buf[from..]`: first from the held bytes, then from the connection.
    pub(crate) async fn direct(&mut self, mut buf: Buf, from: usize) -> (Buf, Result<(), ReceiveError>) {
        let n = (self.to - self.from).min(buf.len() - from);
        buf[from..from + n].copy_from_slice(&self.bytes()[..n]);
        self.consume(n);
        let mut at = from + n;
        while at < buf.len() {
            let received = self.stream.recv(buf, at).await;
            buf = received.buf;
            match received.result {
                Ok(0) => return (buf, Err(ReceiveError::Closed)),
                Ok(n) => at += n,
                Err(e) => return (buf, Err(e.into())),
            }
        }
        (buf, Ok(()))
    }
}
