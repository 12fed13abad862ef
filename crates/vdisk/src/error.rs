//! What can be wrong with an image, and with what is asked of it.

use block::BlockError;
use world::DriveError;

/// Why an image cannot be opened, used or changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VdiskError {
    /// The file is not what it was taken for.
    #[error("not a {format} image: {cause}")]
    Foreign {
        /// Which format was expected.
        format: &'static str,
        /// What does not fit.
        cause: String,
    },
    /// The metadata contradicts itself or a checksum: nothing is written to such an image.
    #[error("{place} is damaged: {cause}")]
    Damaged {
        /// Which structure.
        place: String,
        /// What does not fit.
        cause: String,
    },
    /// A feature that the image needs and that is not known here, or a size that is over a limit.
    #[error("not supported: {what}")]
    Unsupported {
        /// What.
        what: String,
    },
    /// Something that was asked for cannot be.
    #[error("{what}")]
    Refused {
        /// What, and what to do.
        what: String,
    },
    /// A change of the metadata failed: from then on the image is only read.
    #[error("read only since a change of its metadata failed: {cause}")]
    Poisoned {
        /// The first failure.
        cause: String,
    },
    /// The image is opened for reading only.
    #[error("the image is open for reading only")]
    ReadOnly,
    /// There is no room for a new block.
    #[error("no room for a new block: {cause}")]
    NoRoom {
        /// What is full.
        cause: String,
    },
    /// The parent of a differencing image.
    #[error("parent {name}: {cause}")]
    Parent {
        /// How it is called in the image.
        name: String,
        /// What is wrong with it.
        cause: String,
    },
    /// The file below.
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
            VdiskError::Poisoned { cause } => BlockError::Poisoned { component: "the image".into(), cause },
            VdiskError::Damaged { place, cause } => BlockError::Corrupt { place, cause },
            error => BlockError::Failed { cause: error.to_string() },
        }
    }
}
