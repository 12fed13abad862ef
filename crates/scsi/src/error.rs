//! Why a command did not end with GOOD.

use block::BlockError;
use serde::{Deserialize, Serialize};

use crate::attention::Attention;
use crate::sense::Asc;

/// Every way in which a command can fail. [`crate::sense::failure_of`] returns what the host gets.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum CommandError {
    /// The medium below failed.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// Another nexus holds a reservation that excludes the command.
    #[error("reservation conflict")]
    ReservationConflict,
    /// The LU is busy.
    #[error("busy")]
    Busy,
    /// Too many commands at once.
    #[error("task set full")]
    TaskSetFull,
    /// A task management function ended the command.
    #[error("aborted by a task management function")]
    Aborted,
    /// The operation code is not supported.
    #[error("invalid operation code")]
    InvalidOpcode,
    /// A field of the CDB.
    #[error("invalid field in cdb at byte {byte}")]
    InvalidField {
        /// The first byte of the field.
        byte: u16,
        /// The highest bit of the field.
        bit: Option<u8>,
    },
    /// A field of the parameter list.
    #[error("invalid field in parameter list at byte {byte}")]
    InvalidParameter {
        /// The first byte of the field.
        byte: u16,
        /// The highest bit of the field.
        bit: Option<u8>,
    },
    /// The parameter list is truncated where it must not be.
    #[error("parameter list length error")]
    ParameterListLength,
    /// The parameter is valid, but not supported.
    #[error("parameter not supported")]
    ParameterNotSupported,
    /// Saved mode pages were requested.
    #[error("saving parameters not supported")]
    SavingNotSupported,
    /// No room for another registration.
    #[error("insufficient registration resources")]
    InsufficientRegistrationResources,
    /// RELEASE with another scope or type than that of the reservation.
    #[error("invalid release of persistent reservation")]
    InvalidRelease,
    /// The blocks are not on the disk.
    #[error("logical block address out of range")]
    LbaOutOfRange,
    /// The data-out length does not match the CDB.
    #[error("data-out length does not fit the cdb")]
    DataOutLength,
    /// The transport has brought less of the data-out than the host has announced and the CDB requires.
    #[error("a part of the data-out has not come")]
    DataOutMissing,
    /// The LUN has no logical unit for this host.
    #[error("logical unit not supported")]
    LunNotSupported,
    /// COMPARE AND WRITE or VERIFY found a difference.
    #[error("miscompare at byte {offset}")]
    Miscompare {
        /// The offset of the first difference in the data-out.
        offset: u64,
    },
    /// The SWP bit of the control mode page is set.
    #[error("software write protected")]
    SoftwareWriteProtected,
    /// The LU is read-only.
    #[error("write protected")]
    WriteProtected,
    /// SET TARGET PORT GROUPS cannot be done now.
    #[error("set target port groups command failed")]
    PortGroupsNotSet,
    /// A sanitize operation runs.
    #[error("sanitize in progress")]
    SanitizeInProgress {
        /// Its progress, in 65,536ths.
        done: u16,
    },
    /// The last sanitize operation failed, and the failure mode was not exited.
    #[error("sanitize command failed")]
    SanitizeFailed,
    /// The LU is completing work that a power failure interrupted.
    #[error("becoming ready")]
    BecomingReady,
    /// The LU is mapped, and cannot be served until somebody has brought back what it lies on.
    #[error("logical unit unavailable")]
    Unavailable,
    /// An atomic write could be neither completed nor undone.
    #[error("an interrupted atomic write could not be undone")]
    NotRecovered,
    /// Reported instead of executing the command.
    #[error("unit attention {0:?}")]
    Attention(Attention),
    /// EXTENDED COPY: more target descriptors than the operating parameters allow.
    #[error("too many target descriptors")]
    TooManyTargetDescriptors,
    /// EXTENDED COPY: an unsupported type of target descriptor.
    #[error("unsupported target descriptor type code at byte {byte}")]
    UnsupportedTargetDescriptor {
        /// Its offset in the parameter list.
        byte: u16,
    },
    /// EXTENDED COPY: more segment descriptors than the operating parameters allow.
    #[error("too many segment descriptors")]
    TooManySegmentDescriptors,
    /// EXTENDED COPY: an unsupported type of segment descriptor.
    #[error("unsupported segment descriptor type code at byte {byte}")]
    UnsupportedSegmentDescriptor {
        /// Its offset in the parameter list.
        byte: u16,
    },
    /// EXTENDED COPY: inline data, which are not supported.
    #[error("inline data length exceeded")]
    InlineDataLength,
    /// A list identifier that is in use.
    #[error("operation in progress")]
    OperationInProgress,
    /// EXTENDED COPY: a segment failed after the list was accepted.
    #[error("copy aborted in segment {segment}")]
    CopyAborted {
        asc: Asc,
        /// The index of the segment descriptor, from 0.
        segment: u16,
    },
    /// An error of a token command.
    #[error("token operation: {0:?}")]
    Token(TokenFault),
}

/// Qualifiers of 23h, INVALID TOKEN OPERATION (SPC-5 annex D).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u16)]
#[expect(missing_docs, reason = "the names are the standard's")]
pub enum TokenFault {
    CauseNotReportable = 0x00,
    UnsupportedTokenType = 0x01,
    RemoteUsageNotSupported = 0x02,
    RemoteCreationNotSupported = 0x03,
    Unknown = 0x04,
    Corrupt = 0x05,
    Revoked = 0x06,
    Expired = 0x07,
    Cancelled = 0x08,
    Deleted = 0x09,
    InvalidLength = 0x0a,
}

impl CommandError {
    /// A CDB field that begins at `byte`.
    pub fn field(byte: u16) -> CommandError {
        CommandError::InvalidField { byte, bit: None }
    }

    /// A CDB field within one byte, by its highest bit.
    pub fn field_bit(byte: u16, bit: u8) -> CommandError {
        CommandError::InvalidField { byte, bit: Some(bit) }
    }

    /// A field of the parameter list that begins at `byte`.
    pub fn parameter(byte: usize) -> CommandError {
        CommandError::InvalidParameter { byte: u16::try_from(byte).unwrap_or(u16::MAX), bit: None }
    }

    /// A field of the parameter list within one byte, by its highest bit.
    pub fn parameter_bit(byte: usize, bit: u8) -> CommandError {
        CommandError::InvalidParameter { byte: u16::try_from(byte).unwrap_or(u16::MAX), bit: Some(bit) }
    }
}
