//! Checks whether the file or disk of a drive is still present. A removed or replaced file and a pulled disk
//! keep an open descriptor, which seems alive until something is read.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, SeekFrom, Stat, fstat, fstatfs, seek, stat};
use rustix::io::Errno;

/// File systems that never block the submission of an operation (IOCB_NOWAIT), by their numbers in statfs(2):
/// ext4, XFS, Btrfs, F2FS, tmpfs.
const NEVER_WAIT: [u64; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];

/// What was opened under which path.
pub(crate) struct Presence {
    path: PathBuf,
    node: Node,
    len_bytes: u64,
    may_wait_to_hand_in: bool,
}

/// The identity of a file or device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    /// A file: the file system and the inode.
    File { file_system: u64, inode: u64 },
    /// A block device: its number. Its node may be made anew meanwhile.
    Device { number: u64 },
}

impl Node {
    fn of(facts: &Stat) -> Node {
        match FileType::from_raw_mode(facts.st_mode) {
            FileType::BlockDevice => Node::Device { number: facts.st_rdev },
            _ => Node::File { file_system: facts.st_dev, inode: facts.st_ino },
        }
    }
}

impl Presence {
    /// Records the identity of `fd`, opened from `path`.
    pub(crate) fn new(path: &Path, fd: impl AsFd, len_bytes: u64) -> rustix::io::Result<Presence> {
        let node = Node::of(&fstat(&fd)?);
        let may_wait_to_hand_in = match node {
            Node::Device { .. } => false,
            Node::File { .. } => !NEVER_WAIT.contains(&(fstatfs(&fd)?.f_type as u64)),
        };
        Ok(Presence { path: path.to_owned(), node, len_bytes, may_wait_to_hand_in })
    }

    /// Whether submitting an operation may block: on FUSE and on remote file systems. Block devices never
    /// block.
    pub(crate) fn may_wait_to_hand_in(&self) -> bool {
        self.may_wait_to_hand_in
    }

    pub(crate) fn is_device(&self) -> bool {
        matches!(self.node, Node::Device { .. })
    }

    /// What it was opened as.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Checks the path and the size again. `Err`: why it counts as gone. Three system calls on metadata in
    /// memory; they may block on a remote file system.
    pub(crate) fn check(&self, fd: &OwnedFd) -> Result<(), String> {
        let facts = stat(&self.path).map_err(|e| match e {
            Errno::NOENT | Errno::NOTDIR => "removed".to_owned(),
            e => format!("cannot be examined: {e}"),
        })?;
        if Node::of(&facts) != self.node {
            return Err("its path now names another file".to_owned());
        }
        // Of a device the size, too: it is 0 when the disk behind it was pulled.
        let len = seek(fd, SeekFrom::End(0)).map_err(|e| format!("its size can no longer be read: {e}"))?;
        if len < self.len_bytes {
            return Err(format!("truncated to {len} bytes while in use"));
        }
        Ok(())
    }
}
