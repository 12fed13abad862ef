//! The numbers and messages of the protocol, big-endian.

use block::BlockError;

pub(super) const GREETING: u64 = 0x4e42_444d_4147_4943;
pub(super) const OPTION: u64 = 0x4948_4156_454f_5054;
pub(super) const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
pub(super) const REQUEST: u32 = 0x2560_9513;
pub(super) const REPLY: u32 = 0x6744_6698;
pub(super) const REQUEST_BYTES: usize = 28;

/// Handshake flags: fixed newstyle, and no padding after NBD_OPT_EXPORT_NAME.
pub(super) const FIXED_NEWSTYLE: u16 = 1;
pub(super) const NO_ZEROES: u16 = 2;

/// Transmission flags: present; read-only; flush, FUA, trim, write zeroes; multiple connections.
pub(super) const HAS_FLAGS: u16 = 1;
pub(super) const READ_ONLY: u16 = 1 << 1;
pub(super) const WRITING: u16 = 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6;
pub(super) const MULTI_CONNECTION: u16 = 1 << 8;

/// A request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) flags: u16,
    pub(super) kind: u16,
    pub(super) handle: u64,
    pub(super) at: u64,
    pub(super) len: u32,
}

pub(super) const READ: u16 = 0;
pub(super) const WRITE: u16 = 1;
pub(super) const DISCONNECT: u16 = 2;
pub(super) const FLUSH: u16 = 3;
pub(super) const TRIM: u16 = 4;
pub(super) const WRITE_ZEROES: u16 = 6;
/// FUA: the command is durable at its end.
pub(super) const FUA: u16 = 1;

pub(super) const EPERM: u32 = 1;
pub(super) const EIO: u32 = 5;
pub(super) const EINVAL: u32 = 22;
pub(super) const ENOSPC: u32 = 28;

impl Header {
    /// None: not a valid request.
    pub(super) fn parse(bytes: &[u8; REQUEST_BYTES]) -> Option<Header> {
        (u32_at(bytes, 0) == REQUEST).then(|| Header {
            flags: u16_at(bytes, 4),
            kind: u16_at(bytes, 6),
            handle: u64_at(bytes, 8),
            at: u64_at(bytes, 16),
            len: u32_at(bytes, 24),
        })
    }
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes[at..at + 2].try_into().expect("2 bytes"))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// The error number for a client.
pub(super) fn errno(error: &BlockError) -> u32 {
    match error {
        BlockError::OutOfRange { .. } => EINVAL,
        BlockError::NoSpace { .. } | BlockError::NoRoom { .. } => ENOSPC,
        BlockError::Unreadable { .. }
        | BlockError::Failed { .. }
        | BlockError::Silent { .. }
        | BlockError::Poisoned { .. }
        | BlockError::Corrupt { .. } => EIO,
    }
}
