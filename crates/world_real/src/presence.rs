//! Checks whether the file or disk of a drive is still present. A removed or replaced file and a pulled disk
//! keep an open descriptor, which seems alive until something is read.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{
    AtFlags, FileType, SeekFrom, Stat, StatxFlags, fstat, fstatfs, ftruncate, seek, stat, statx,
};
use rustix::io::Errno;

/// File systems that never block the submission of an operation (IOCB_NOWAIT), by their numbers in statfs(2):
/// ext4, XFS, Btrfs, F2FS, tmpfs.
const NEVER_WAIT: [u64; 5] = [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x0102_1994];

/// What was opened under which path.
pub(crate) struct Presence {
    path: PathBuf,
    node: Node,
    /// It has at least this length, unless somebody else cut it.
    least_bytes: AtomicU64,
    may_wait_to_hand_in: bool,
    file_id: Option<u64>,
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
        // A file system that is remote, or in another process, may number its files anew when it is mounted.
        let file_id = match node {
            Node::File { .. } if !may_wait_to_hand_in => file_id(&fd),
            _ => None,
        };
        let least_bytes = len_bytes.into();
        Ok(Presence { path: path.to_owned(), node, least_bytes, may_wait_to_hand_in, file_id })
    }

    /// What tells the file from others that had or will have its path, after a restart, too.
    pub(crate) fn file_id(&self) -> Option<u64> {
        self.file_id
    }

    /// Sets the length of the file.
    pub(crate) fn set_len(&self, fd: &OwnedFd, len_bytes: u64) -> rustix::io::Result<()> {
        self.least_bytes.fetch_min(len_bytes, Ordering::Relaxed);
        ftruncate(fd, len_bytes)?;
        self.least_bytes.store(len_bytes, Ordering::Relaxed);
        Ok(())
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
        if len < self.least_bytes.load(Ordering::Relaxed) {
            return Err(format!("truncated to {len} bytes while in use"));
        }
        Ok(())
    }
}

/// Inodes are used again, so the moment of the file's birth is a part of it.
fn file_id(fd: impl AsFd) -> Option<u64> {
    let facts = statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::INO | StatxFlags::BTIME).ok()?;
    let born = match StatxFlags::from_bits_retain(facts.stx_mask).contains(StatxFlags::BTIME) {
        true => (facts.stx_btime.tv_sec, facts.stx_btime.tv_nsec),
        false => (0, 0),
    };
    let bytes = [facts.stx_ino.to_le_bytes(), born.0.to_le_bytes(), u64::from(born.1).to_le_bytes()];
    Some(world::fnv1a(bytes.into_iter().flatten()))
}
