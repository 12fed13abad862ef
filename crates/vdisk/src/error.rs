//! Errors of images and of requests to them.

use block::BlockError;
use world::{DriveError, OpenError};

/// Why an image cannot be opened, used or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VdiskError {
    /// The file does not have the expected format.
    #[error("not a {format} image: {cause}")]
    Foreign {
        /// The expected format.
        format: &'static str,
        /// The mismatch.
        cause: String,
    },
    /// The metadata is inconsistent or has a wrong checksum: nothing is written to such an image.
    #[error("{place} is damaged: {cause}")]
    Damaged {
        /// The damaged structure.
        place: String,
        /// The mismatch.
        cause: String,
    },
    /// An unknown feature that the image requires, or a size over a limit.
    #[error("not supported: {what}")]
    Unsupported {
        /// The feature.
        what: String,
    },
    /// An invalid request.
    #[error("{what}")]
    Refused {
        /// What is wrong with it, and what to do.
        what: String,
    },
    /// A metadata write failed: from then on the image is read-only.
    #[error("read-only since a metadata write failed: {cause}")]
    Poisoned {
        /// The first failure.
        cause: String,
    },
    /// The image was opened read-only.
    #[error("the image is open read-only")]
    ReadOnly,
    /// There is no space for a new block.
    #[error("no space for a new block: {cause}")]
    NoRoom {
        /// What is full.
        cause: String,
    },
    /// The caller stopped the operation.
    #[error("interrupted")]
    Stopped,
    /// The parent of a differencing image cannot be used.
    #[error("parent {name}: {cause}")]
    Parent {
        /// Its name in the image.
        name: String,
        /// The reason.
        cause: String,
    },
    /// The file, or one that it needs, cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// An error of the file below.
    #[error(transparent)]
    Drive(#[from] DriveError),
}

impl VdiskError {
    pub(crate) fn damaged(place: impl Into<String>, cause: impl Into<String>) -> VdiskError {
        VdiskError::Damaged { place: place.into(), cause: cause.into() }
    }

    pub(crate) fn unsupported(what: impl Into<String>) -> VdiskError {
        VdiskError::Unsupported { what: what.into() }
    }

    pub(crate) fn refused(what: impl Into<String>) -> VdiskError {
        VdiskError::Refused { what: what.into() }
    }
}

impl From<VdiskError> for BlockError {
    fn from(error: VdiskError) -> BlockError {
        match error {
            VdiskError::Drive(DriveError::NoRoom { drive, .. }) => BlockError::NoSpace { pool: drive },
            VdiskError::Drive(error) => error.into(),
            VdiskError::NoRoom { cause } => BlockError::NoSpace { pool: cause },
            VdiskError::Poisoned { cause } => {
                BlockError::Poisoned { component: "the image".into(), cause: cause.into() }
            }
            VdiskError::Damaged { place, cause } => BlockError::Corrupt { place, cause },
            error => BlockError::Failed { cause: error.to_string().into() },
        }
    }
}
