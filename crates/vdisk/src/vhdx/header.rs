//! The two headers: which one is valid, and how the other one is written.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{Guid, HEAD_BYTES, MIB, checksum};
use crate::VdiskError;

/// Their offsets.
pub(super) const HEADERS_AT: [u64; 2] = [64 << 10, 128 << 10];
pub(super) const HEADER_BYTES: usize = 4096;
const SIGNATURE: [u8; 4] = *b"head";
const VERSION: u16 = 1;
/// A longer log is refused, because it is read completely.
const LOG_BYTES_MAX: u32 = 32 << 20;
/// Limit of the sequence number, which every change increments: no file reaches it, so that it can be
/// incremented safely.
const SEQUENCE_MAX: u64 = 1 << 62;
/// A header closer to the limit is not written: the increments of one opening must not exceed it.
const SEQUENCE_MARGIN: u64 = 1 << 32;
/// Limit of file lengths: a disk of the largest size with its metadata.
pub(super) const FILE_BYTES_MAX: u64 = 128 << 40;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Raw {
    signature: [u8; 4],
    checksum: U32,
    sequence: U64,
    file_write: [u8; 16],
    data_write: [u8; 16],
    log: [u8; 16],
    log_version: U16,
    version: U16,
    log_len: U32,
    log_at: U64,
}

/// The content of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) sequence: u64,
    /// Changes before any other part of the file.
    pub(super) file_write: Guid,
    /// Changes before the content of the disk: children identify their parent by it.
    pub(super) data_write: Guid,
    /// The GUID of valid log entries; zero: none.
    pub(super) log: Guid,
    pub(super) log_at: u64,
    pub(super) log_len: u32,
}

impl Header {
    pub(super) fn parse(bytes: &[u8]) -> Result<Header, VdiskError> {
        let damaged = |cause: String| VdiskError::damaged("a header", cause);
        let (raw, _) = Raw::read_from_prefix(bytes).map_err(|_| damaged("it is truncated".into()))?;
        if raw.signature != SIGNATURE {
            return Err(damaged("missing signature".into()));
        }
        if bytes.len() != HEADER_BYTES || checksum(bytes, 4) != raw.checksum.get() {
            return Err(damaged("wrong checksum".into()));
        }
        if raw.version.get() != VERSION {
            return Err(VdiskError::unsupported(format!("version {} of VHDX", raw.version.get())));
        }
        if raw.log != [0; 16] && raw.log_version.get() != 0 {
            return Err(VdiskError::unsupported(format!("version {} of the log", raw.log_version.get())));
        }
        if raw.sequence.get() > SEQUENCE_MAX {
            return Err(damaged(format!("invalid sequence number {}", raw.sequence.get())));
        }
        let (log_at, log_len) = (raw.log_at.get(), raw.log_len.get());
        let fits = log_at.is_multiple_of(MIB) && u64::from(log_len).is_multiple_of(MIB);
        if !fits || !(HEAD_BYTES..=FILE_BYTES_MAX).contains(&log_at) || log_len == 0 {
            return Err(damaged(format!("invalid log of {log_len} bytes at byte {log_at}")));
        }
        if log_len > LOG_BYTES_MAX {
            return Err(VdiskError::unsupported(format!(
                "a log of {log_len} bytes; the limit is {LOG_BYTES_MAX}"
            )));
        }
        Ok(Header {
            sequence: raw.sequence.get(),
            file_write: Guid(raw.file_write),
            data_write: Guid(raw.data_write),
            log: Guid(raw.log),
            log_at,
            log_len,
        })
    }

    /// Why the header can no longer be changed, if so.
    pub(super) fn fault(&self) -> Option<String> {
        let is_last = self.sequence > SEQUENCE_MAX - SEQUENCE_MARGIN;
        is_last.then(|| format!("the header has the last possible sequence number {}", self.sequence))
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let raw = Raw {
            signature: SIGNATURE,
            checksum: U32::ZERO,
            sequence: U64::new(self.sequence),
            file_write: self.file_write.0,
            data_write: self.data_write.0,
            log: self.log.0,
            log_version: U16::ZERO,
            version: U16::new(VERSION),
            log_len: U32::new(self.log_len),
            log_at: U64::new(self.log_at),
        };
        let mut bytes = raw.as_bytes().to_vec();
        bytes.resize(HEADER_BYTES, 0);
        let sum = checksum(&bytes, 4);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}

/// The headers of a file: the valid one, and its place.
#[derive(Clone, Debug)]
pub(super) struct Headers {
    pub(super) current: Header,
    place: usize,
}

impl Headers {
    /// The newer of two intact ones.
    pub(super) fn choose(found: [Result<Header, VdiskError>; 2]) -> Result<Headers, VdiskError> {
        match found {
            [Ok(first), Ok(second)] => Ok(match first.sequence >= second.sequence {
                true => Headers { current: first, place: 0 },
                false => Headers { current: second, place: 1 },
            }),
            [Ok(current), Err(_)] => Ok(Headers { current, place: 0 }),
            [Err(_), Ok(current)] => Ok(Headers { current, place: 1 }),
            // A newer version is reported before damage.
            [Err(unsupported @ VdiskError::Unsupported { .. }), _] | [_, Err(unsupported)] => {
                Err(unsupported)
            }
        }
    }

    /// The write that changes the header, and leaves the previous one intact.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut Header)) -> (u64, Vec<u8>) {
        change(&mut self.current);
        self.current.sequence += 1;
        self.place = 1 - self.place;
        (HEADERS_AT[self.place], self.current.encode())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(sequence: u64) -> Header {
        let guid = Guid([5; 16]);
        Header {
            sequence,
            file_write: guid,
            data_write: guid,
            log: Guid::ZERO,
            log_at: MIB,
            log_len: 1 << 20,
        }
    }

    #[test]
    fn the_newer_of_two_whole_headers_counts_and_the_other_is_written_next() {
        let (old, new) = (header(3), header(4));
        let damaged = || Header::parse(&[0; HEADER_BYTES]);
        let read = |h: &Header| Header::parse(&h.encode());
        assert_eq!(read(&old).as_ref(), Ok(&old));
        let mut headers = Headers::choose([read(&old), read(&new)]).expect("two");
        assert_eq!(headers.current, new);
        let (at, bytes) = headers.change(|h| h.log = Guid([7; 16]));
        assert_eq!((at, read(&headers.current).map(|h| h.sequence)), (HEADERS_AT[0], Ok(5)));
        assert_eq!(Header::parse(&bytes).map(|h| h.log), Ok(Guid([7; 16])));
        assert_eq!(Headers::choose([damaged(), read(&old)]).map(|h| h.current), Ok(old));
        assert!(Headers::choose([damaged(), damaged()]).is_err());
    }
}
