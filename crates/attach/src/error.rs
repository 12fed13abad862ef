//! Why a device cannot be attached, and the errno that the kernel gets for a failed operation.

use std::path::PathBuf;

use block::BlockError;
use fuser::Errno;

/// Why a device cannot be attached or detached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The kernel has no FUSE.
    #[error("/dev/fuse does not exist: load the FUSE module (modprobe fuse), or use a kernel with FUSE")]
    NoFuse,
    /// The mount point cannot be used.
    #[error("invalid mount point {}: {cause}", point.display())]
    MountPoint {
        /// The path given as the mount point.
        point: PathBuf,
        /// The reason.
        cause: String,
    },
    /// This user has no right to mount.
    #[error("cannot mount on {}: run as root, or install fusermount3: {cause}", point.display())]
    Privileges {
        /// The mount point.
        point: PathBuf,
        /// Error of the system.
        cause: std::io::Error,
    },
    /// A device whose size or sectors a file cannot represent.
    #[error("cannot present a disk of {len_bytes} bytes in sectors of {block_bytes} as a file")]
    Geometry {
        /// Its size.
        len_bytes: u64,
        /// Its sector size.
        block_bytes: u32,
    },
    /// Mounting or unmounting failed for another reason.
    #[error("{}: {what} failed: {cause}", point.display())]
    System {
        /// The mount point.
        point: PathBuf,
        /// The operation that failed.
        what: &'static str,
        /// Error of the system.
        #[source]
        cause: std::io::Error,
    },
}

/// The errno that the kernel gets for an error.
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
