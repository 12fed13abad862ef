//! Errors below a LU. One enum for all layers, so that one function maps them to sense data.

use std::time::Duration;

use world::{DriveError, World};

use crate::Cause;

/// Pause before a temporary error is tried again.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Why an operation on blocks failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "self-explanatory names")]
pub enum BlockError {
    /// The range is beyond the device.
    #[error("range {at}+{len} is past the end at {end}")]
    OutOfRange {
        /// First byte.
        at: u64,
        /// Bytes.
        len: u64,
        /// Size of the device in bytes.
        end: u64,
    },
    /// The pool has no free page for a write. Nothing was written except what had completed before.
    #[error("pool {pool} is full")]
    NoSpace {
        /// The pool's name.
        pool: String,
    },
    /// Redundancy cannot reconstruct the blocks.
    #[error("unrecoverable read error at byte {at}: {cause}")]
    Unreadable {
        /// First byte of the failed range on the device.
        at: u64,
        /// The error of the layer below.
        cause: Cause,
    },
    /// Too few drives are left, or the device below is gone.
    #[error("device failed: {cause}")]
    Failed {
        /// The error of the layer below.
        cause: Cause,
    },
    /// The drives below are unresponsive, and no other drive has the blocks. A write may have been carried
    /// out or not, and may continue in the background.
    #[error("no response: {cause}")]
    Silent {
        /// The error of the layer below.
        cause: Cause,
    },
    /// The storage below a drive is out of space: the write was not, or only partly, carried out. It may
    /// succeed once there is room.
    #[error("no room: {cause}")]
    NoRoom {
        /// The error of the layer below.
        cause: Cause,
    },
    /// A metadata write failed earlier; the component refuses everything until it is opened again.
    #[error("{component} stopped after a failed metadata write: {cause}")]
    Poisoned {
        /// The component that was poisoned.
        component: String,
        /// The first failure.
        cause: Cause,
    },
    /// Stored data or metadata contradict their checksum or each other.
    #[error("corruption in {place}: {cause}")]
    Corrupt {
        place: String,
        /// What does not match.
        cause: String,
    },
}

impl BlockError {
    /// Whether the same operation may succeed later without a restart: the state below is unchanged, or as
    /// requested.
    pub fn may_pass(&self) -> bool {
        matches!(self, BlockError::Silent { .. } | BlockError::NoRoom { .. })
    }

    /// The drive that is to blame, by the name of its medium; none: not known, or not one drive.
    pub fn drive(&self) -> Option<&str> {
        match self {
            BlockError::Unreadable { cause, .. }
            | BlockError::Failed { cause }
            | BlockError::Silent { cause }
            | BlockError::NoRoom { cause }
            | BlockError::Poisoned { cause, .. } => cause.drive(),
            BlockError::OutOfRange { .. } | BlockError::NoSpace { .. } | BlockError::Corrupt { .. } => None,
        }
    }
}

/// Repeats metadata I/O until it succeeds, or fails permanently. `stalled` gets each error and the end of the
/// errors, so that callers need not wait for the storage below.
pub async fn persistently<T>(
    world: &World,
    attempt: impl AsyncFn() -> Result<T, BlockError>,
    stalled: impl Fn(Option<BlockError>),
) -> Result<T, BlockError> {
    loop {
        match attempt().await {
            Err(error) if error.may_pass() => {
                stalled(Some(error));
                world.sleep(RETRY_AFTER).await;
            }
            ended => {
                stalled(None);
                return ended;
            }
        }
    }
}

impl From<&BlockError> for Cause {
    fn from(error: &BlockError) -> Cause {
        Cause::of_drive(error.drive(), error.to_string())
    }
}

impl From<DriveError> for BlockError {
    fn from(error: DriveError) -> BlockError {
        match error {
            DriveError::Medium { at, .. } => BlockError::Unreadable { at, cause: (&error).into() },
            DriveError::Gone { .. } => BlockError::Failed { cause: (&error).into() },
            DriveError::Silent { .. } => BlockError::Silent { cause: (&error).into() },
            DriveError::NoRoom { .. } => BlockError::NoRoom { cause: (&error).into() },
        }
    }
}
