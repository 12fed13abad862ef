//! Messages on a TCP connection: one line of JSON each, of a bounded length.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest line: what a client did in a day, second by second, with all of its times.
const LINE_BYTES_MAX: usize = 4 << 20;
const RECEIVE_BYTES: usize = 64 << 10;
/// A peer that takes nothing for so long is gone.
const SEND_TIMEOUT: Duration = Duration::from_secs(20);

/// Why a line cannot be had.
#[derive(Debug, thiserror::Error)]
pub(super) enum LineError {
    /// The connection.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// It ended.
    #[error("the connection was closed")]
    Closed,
    /// Nothing came in time.
    #[error("no answer within {0:?}")]
    Late(Duration),
    /// What came is too long.
    #[error("a line is longer than {LINE_BYTES_MAX} bytes")]
    TooLong,
    /// An unexpected message.
    #[error("not understood: {0}")]
    Message(#[from] serde_json::Error),
}

/// A connection of lines.
pub(super) struct Lines {
    stream: TcpStream,
    /// Received bytes without a complete line.
    held: Vec<u8>,
}

impl Lines {
    pub(super) fn new(stream: TcpStream) -> Result<Lines, LineError> {
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(SEND_TIMEOUT))?;
        Ok(Lines { stream, held: Vec::new() })
    }

    pub(super) fn send(&mut self, message: &impl Serialize) -> Result<(), LineError> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        Ok(self.stream.write_all(&line)?)
    }

    /// The next message, within so long.
    pub(super) fn receive<M: DeserializeOwned>(&mut self, within: Duration) -> Result<M, LineError> {
        let line = self.line(within)?;
        Ok(serde_json::from_slice(&line)?)
    }

    fn line(&mut self, within: Duration) -> Result<Vec<u8>, LineError> {
        let end = Instant::now() + within;
        let mut searched = 0;
        loop {
            if let Some(at) = self.held[searched..].iter().position(|b| *b == b'\n') {
                let rest = self.held.split_off(searched + at + 1);
                return Ok(std::mem::replace(&mut self.held, rest));
            }
            searched = self.held.len();
            if searched > LINE_BYTES_MAX {
                return Err(LineError::TooLong);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(LineError::Late(within));
            }
            // A timeout of zero would mean none.
            self.stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            let mut part = [0; RECEIVE_BYTES];
            match self.stream.read(&mut part) {
                Ok(0) => return Err(LineError::Closed),
                Ok(len) => self.held.extend_from_slice(&part[..len]),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
}
