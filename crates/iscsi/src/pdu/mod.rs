//! The basic header segments of RFC 7143 clause 11, byte by byte: 48 bytes each, big-endian, read where they
//! lie.

mod request;
mod response;

pub use request::{
    DataOut, LoginRequest, LogoutRequest, NopOut, ScsiCommand, Snack, TaskRequest, TextRequest,
};
pub use response::{
    AsyncMessage, DataIn, LoginResponse, LogoutResponse, NopIn, R2t, Reject, ScsiResponse, TaskResponse,
    TextResponse,
};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Length of a basic header segment (11.2.1).
pub const BHS_LEN: usize = 48;
/// The reserved tag: no task, no transfer (11.2.1.8 and others).
pub const TAG_NONE: u32 = 0xffff_ffff;
/// The final bit, in byte 1 of most PDUs (11.2.1.3).
pub const FINAL: u8 = 0x80;
/// The continue bit of text and login PDUs (11.10.2, 11.12.3).
pub const CONTINUE: u8 = 0x40;
/// The transit bit of login PDUs (11.12.2).
pub const TRANSIT: u8 = 0x80;
/// The immediate bit in byte 0 of a request (11.2.1.1).
pub const IMMEDIATE: u8 = 0x40;
/// The bits of byte 0 that hold the opcode (11.2.1.2).
pub const OPCODE_MASK: u8 = 0x3f;

/// Opcodes (11.2.1.2).
pub mod opcode {
    /// NOP-Out.
    pub const NOP_OUT: u8 = 0x00;
    /// SCSI Command.
    pub const SCSI_COMMAND: u8 = 0x01;
    /// SCSI Task Management Function Request.
    pub const TASK_REQUEST: u8 = 0x02;
    /// Login Request.
    pub const LOGIN_REQUEST: u8 = 0x03;
    /// Text Request.
    pub const TEXT_REQUEST: u8 = 0x04;
    /// SCSI Data-Out.
    pub const DATA_OUT: u8 = 0x05;
    /// Logout Request.
    pub const LOGOUT_REQUEST: u8 = 0x06;
    /// SNACK Request.
    pub const SNACK: u8 = 0x10;
    /// NOP-In.
    pub const NOP_IN: u8 = 0x20;
    /// SCSI Response.
    pub const SCSI_RESPONSE: u8 = 0x21;
    /// SCSI Task Management Function Response.
    pub const TASK_RESPONSE: u8 = 0x22;
    /// Login Response.
    pub const LOGIN_RESPONSE: u8 = 0x23;
    /// Text Response.
    pub const TEXT_RESPONSE: u8 = 0x24;
    /// SCSI Data-In.
    pub const DATA_IN: u8 = 0x25;
    /// Logout Response.
    pub const LOGOUT_RESPONSE: u8 = 0x26;
    /// Ready To Transfer.
    pub const R2T: u8 = 0x31;
    /// Asynchronous Message.
    pub const ASYNC_MESSAGE: u8 = 0x32;
    /// Reject.
    pub const REJECT: u8 = 0x3f;
}

/// Reject reasons (11.17.1).
pub mod reject {
    /// A data PDU's digest was wrong.
    pub const DATA_DIGEST: u8 = 0x02;
    /// SNACK is refused.
    pub const SNACK: u8 = 0x03;
    /// A rule of the protocol was broken.
    pub const PROTOCOL: u8 = 0x04;
    /// The opcode is not supported.
    pub const NOT_SUPPORTED: u8 = 0x05;
    /// Too many immediate commands.
    pub const TOO_MANY_IMMEDIATE: u8 = 0x06;
    /// The initiator task tag is in use.
    pub const TASK_IN_PROGRESS: u8 = 0x07;
    /// A field of the PDU is invalid.
    pub const INVALID_FIELD: u8 = 0x09;
    /// Out of resources for a long operation.
    pub const OUT_OF_RESOURCES: u8 = 0x0a;
}

/// Task management functions (11.5.1).
pub mod function {
    /// ABORT TASK.
    pub const ABORT_TASK: u8 = 1;
    /// ABORT TASK SET.
    pub const ABORT_TASK_SET: u8 = 2;
    /// CLEAR ACA.
    pub const CLEAR_ACA: u8 = 3;
    /// CLEAR TASK SET.
    pub const CLEAR_TASK_SET: u8 = 4;
    /// LOGICAL UNIT RESET.
    pub const LUN_RESET: u8 = 5;
    /// TARGET WARM RESET.
    pub const TARGET_WARM_RESET: u8 = 6;
    /// TARGET COLD RESET.
    pub const TARGET_COLD_RESET: u8 = 7;
    /// TASK REASSIGN.
    pub const TASK_REASSIGN: u8 = 8;
}

/// Task management responses (11.6.1).
pub mod outcome {
    /// Function complete.
    pub const COMPLETE: u8 = 0;
    /// The task does not exist.
    pub const NO_SUCH_TASK: u8 = 1;
    /// The LUN does not exist.
    pub const NO_SUCH_LUN: u8 = 2;
    /// Task allegiance reassignment is not supported.
    pub const REASSIGN_NOT_SUPPORTED: u8 = 4;
    /// The function is not supported.
    pub const NOT_SUPPORTED: u8 = 5;
}

/// Asynchronous events (11.9.1).
pub mod event {
    /// SCSI: sense data is in the data segment.
    pub const SCSI: u8 = 0;
    /// The target requests logout within Parameter3 seconds.
    pub const REQUEST_LOGOUT: u8 = 1;
    /// The target drops this connection.
    pub const DROP_CONNECTION: u8 = 2;
    /// The target drops all connections of the session.
    pub const DROP_SESSION: u8 = 3;
}

/// A 24-bit length: the data segment's (11.2.1.5).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned,
)]
#[repr(C)]
pub struct Len24([u8; 3]);

/// The largest 24-bit length.
pub const LEN24_MAX: u32 = (1 << 24) - 1;

impl Len24 {
    /// A length of at most [`LEN24_MAX`].
    pub fn new(len: u32) -> Len24 {
        assert!(len <= LEN24_MAX, "a data segment of {len} bytes");
        let [_, a, b, c] = len.to_be_bytes();
        Len24([a, b, c])
    }

    /// The number.
    pub fn get(self) -> u32 {
        let [a, b, c] = self.0;
        u32::from_be_bytes([0, a, b, c])
    }
}

/// One kind of basic header segment.
pub trait Header: FromBytes + IntoBytes + Immutable + KnownLayout + Unaligned {
    /// Its opcode.
    const OPCODE: u8;

    /// Reads a header where it lies. The opcode is not looked at.
    fn of(bhs: &[u8; BHS_LEN]) -> &Self {
        Self::ref_from_bytes(bhs).expect("every header has 48 bytes and no alignment")
    }

    /// The header's bytes.
    fn bytes(&self) -> &[u8; BHS_LEN] {
        self.as_bytes().try_into().expect("every header has 48 bytes")
    }
}

/// Declares a header: its fields in order, its opcode, and that it has 48 bytes.
macro_rules! header {
    ($(#[$doc:meta])* $name:ident = $opcode:expr; $($(#[$fdoc:meta])* $field:ident: $type:ty,)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable,
            zerocopy::KnownLayout, zerocopy::Unaligned)]
        #[repr(C)]
        pub struct $name {
            $($(#[$fdoc])* pub $field: $type,)*
        }
        const _: () = assert!(size_of::<$name>() == crate::pdu::BHS_LEN);
        impl crate::pdu::Header for $name {
            const OPCODE: u8 = $opcode;
        }
    };
}
pub(crate) use header;

/// A whole PDU in the receive buffer.
#[derive(Clone, Copy, Debug)]
pub struct Pdu<'a> {
    /// The basic header segment.
    pub bhs: &'a [u8; BHS_LEN],
    /// The additional header segments, whole.
    pub ahs: &'a [u8],
    /// The data segment without its padding.
    pub data: &'a [u8],
}

impl<'a> Pdu<'a> {
    /// The opcode.
    pub fn opcode(&self) -> u8 {
        self.bhs[0] & OPCODE_MASK
    }

    /// Whether the immediate bit is set.
    pub fn is_immediate(&self) -> bool {
        self.bhs[0] & IMMEDIATE != 0
    }

    /// Whether the final bit is set.
    pub fn is_final(&self) -> bool {
        self.bhs[1] & FINAL != 0
    }

    /// The initiator task tag, at bytes 16 to 19 of every PDU.
    pub fn itt(&self) -> u32 {
        u32::from_be_bytes([self.bhs[16], self.bhs[17], self.bhs[18], self.bhs[19]])
    }

    /// CmdSN, at bytes 24 to 27 of every request that carries one.
    pub fn cmd_sn(&self) -> u32 {
        u32::from_be_bytes([self.bhs[24], self.bhs[25], self.bhs[26], self.bhs[27]])
    }

    /// The header as one of its kind.
    pub fn header<H: Header>(&self) -> &'a H {
        H::of(self.bhs)
    }
}

#[cfg(test)]
mod tests;
