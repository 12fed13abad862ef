//! Why a device cannot be attached, and what the kernel hears when an operation fails.

use std::path::PathBuf;

use block::BlockError;
use fuser::Errno;

/// Why a device cannot be attached or detached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The kernel has no FUSE.
    #[error("/dev/fuse is not there: the kernel has no FUSE, or its module is not loaded (modprobe fuse)")]
    NoFuse,
    /// There is nothing to mount on.
    #[error("{}: {cause}", point.display())]
    MountPoint {
        /// What was to be the mount point.
        point: PathBuf,
        /// Why it is none.
        cause: String,
    },
    /// The system does not let this user mount.
    #[error("{}: only root may mount here, or who has fusermount3: {cause}", point.display())]
    Privileges {
        /// The mount point.
        point: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// A device that no file can be like.
    #[error("a disk of {len_bytes} bytes in sectors of {block_bytes}: no file can be like it")]
    Geometry {
        /// Its size.
        len_bytes: u64,
        /// The unit of its addresses.
        block_bytes: u32,
    },
    /// Mounting or unmounting failed otherwise.
    #[error("{}: {what}: {cause}", point.display())]
    System {
        /// The mount point.
        point: PathBuf,
        /// What was asked for.
        what: &'static str,
        /// What the system said.
        #[source]
        cause: std::io::Error,
    },
}

/// What the kernel hears of an error.
pub(crate) fn errno(error: &BlockError) -> Errno {
    match error {
        BlockError::OutOfRange { .. } => Errno::EINVAL,
        BlockError::NoSpace { .. } | BlockError::NoRoom { .. } => Errno::ENOSPC,
        BlockError::Unreadable { .. }
        | BlockError::Failed { .. }
        | BlockError::Silent { .. }
        | BlockError::Poisoned { .. }
        | BlockError::Corrupt { .. } => Errno::EIO,
    }
}
