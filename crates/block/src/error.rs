//! What can go wrong below a LU. One enum for all layers, so that it turns into sense data in exactly one place.

use std::time::Duration;

use world::{DriveError, World};

/// What failed and may pass is tried again after this time.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Why an operation on blocks failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// The range is not within the device.
    #[error("range {at}+{len} is past the end at {end}")]
    OutOfRange {
        /// First byte.
        at: u64,
        /// Bytes.
        len: u64,
        /// Size of the device in bytes.
        end: u64,
    },
    /// The pool has no free page for a write that needs one. Nothing was written beyond what was complete before.
    #[error("pool {pool} is full")]
    NoSpace {
        /// The pool's name.
        pool: String,
    },
    /// The blocks cannot be read, and no redundancy is left to rebuild them from.
    #[error("unrecoverable read error at byte {at}: {cause}")]
    Unreadable {
        /// First byte of the failed range on the device.
        at: u64,
        /// What the layer below said.
        cause: String,
    },
    /// Fewer drives are left than the layout needs, or the device below is gone.
    #[error("device failed: {cause}")]
    Failed {
        /// What the layer below said.
        cause: String,
    },
    /// The drives below do not answer in time, and there are no others that have the blocks. What was written may be written, or not. It may
    /// go on by itself.
    #[error("no answer: {cause}")]
    Silent {
        /// What the layer below said.
        cause: String,
    },
    /// There is no room below a drive: the write was not carried out, or a part of it. It may be as soon as there is room.
    #[error("no room: {cause}")]
    NoRoom {
        /// What the layer below said.
        cause: String,
    },
    /// A metadata write failed earlier; the component refuses everything from then on, for ever.
    #[error("{component} stopped after a failed metadata write: {cause}")]
    Poisoned {
        /// What was poisoned.
        component: String,
        /// The first failure.
        cause: String,
    },
    /// Stored data or metadata does not match its checksum.
    #[error("corruption in {place}: {cause}")]
    Corrupt {
        /// Where.
        place: String,
        /// What does not fit.
        cause: String,
    },
}

impl BlockError {
    /// Whether the same may succeed later, without a start: the state below is what it was, or what was asked for.
    pub fn may_pass(&self) -> bool {
        matches!(self, BlockError::Silent { .. } | BlockError::NoRoom { .. })
    }
}

/// Tries metadata I/O until it succeeds, or fails in a way that does not pass. `stalled` hears of each failure, and of its end: whoever waits
/// for the I/O is not to wait for what is below.
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

impl From<DriveError> for BlockError {
    fn from(error: DriveError) -> BlockError {
        match error {
            DriveError::Medium { at, .. } => BlockError::Unreadable { at, cause: error.to_string() },
            DriveError::Gone { .. } => BlockError::Failed { cause: error.to_string() },
            DriveError::Silent { .. } => BlockError::Silent { cause: error.to_string() },
            DriveError::NoRoom { .. } => BlockError::NoRoom { cause: error.to_string() },
        }
    }
}
