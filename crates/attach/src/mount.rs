//! Mounting and unmounting.

use std::io;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use block::Geometry;
use fuser::{Config, MountOption, Session};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::serve::{Requests, channel};
use crate::{AttachError, FILE_NAME, file_system};

/// Properties of an attachment.
#[derive(Clone, Debug)]
pub struct Options {
    /// The source as `mount` shows it.
    pub name: String,
    /// Size and sectors of the device.
    pub geometry: Geometry,
    /// Whether it is read-only.
    pub read_only: bool,
}

/// The result of detaching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detached {
    /// Detached: requests end.
    Done,
    /// The mount point is released, but processes (a loop device, a file system on it) have the file open:
    /// requests end with the last of them.
    InUse,
}

/// A mounted file system. Dropping it detaches it, as far as possible.
#[derive(Debug)]
pub struct Mounted {
    point: PathBuf,
    attached: bool,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// Mounts a file system with the one file on a directory. [`serve`](crate::serve()) processes the returned
/// requests of the kernel.
pub fn mount(point: &Path, options: &Options) -> Result<(Mounted, Requests), AttachError> {
    let Geometry { len_bytes, block_bytes } = options.geometry;
    // Sectors of a request and a page; a file's addresses are signed.
    if i64::try_from(len_bytes).is_err()
        || !block_bytes.is_power_of_two()
        || block_bytes > file_system::REQUEST_BYTES_MAX
    {
        return Err(AttachError::Geometry { len_bytes, block_bytes });
    }
    let point = directory(point)?;
    if !Path::new("/dev/fuse").exists() {
        return Err(AttachError::NoFuse);
    }
    let mut config = Config::default();
    config.mount_options = vec![
        // A comma would start another mount option.
        MountOption::FSName(options.name.replace([',', '\\'], "_")),
        MountOption::Subtype("masu".into()),
        MountOption::DefaultPermissions,
        MountOption::NoDev,
        MountOption::NoSuid,
        MountOption::NoExec,
        if options.read_only { MountOption::RO } else { MountOption::RW },
    ];
    let (sender, requests) = channel();
    let files = file_system::FileSystem::new(sender, len_bytes, options.read_only);
    let session = Session::new(files, &point, &config).map_err(|cause| match cause.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound => {
            AttachError::Privileges { point: point.clone(), cause }
        }
        _ => AttachError::System { point: point.clone(), what: "mount", cause },
    })?;
    let started = std::thread::Builder::new().name("fuse".into()).spawn(move || session.run());
    let thread =
        started.map_err(|cause| AttachError::System { point: point.clone(), what: "thread", cause })?;
    Ok((Mounted { point, attached: true, thread: Some(thread) }, requests))
}

/// The canonical mount point, if it is a directory.
fn directory(point: &Path) -> Result<PathBuf, AttachError> {
    let refuse = |cause: String| AttachError::MountPoint { point: point.to_owned(), cause };
    let path = point.canonicalize().map_err(|cause| match Errno::from_io_error(&cause) {
        Some(Errno::NOTCONN) => {
            refuse("a file system without a server is mounted on it: run umount first".into())
        }
        _ => refuse(cause.to_string()),
    })?;
    match path.is_dir() {
        true => Ok(path),
        false => Err(refuse("not a directory".into())),
    }
}

impl Mounted {
    /// Path of the file.
    pub fn file(&self) -> PathBuf {
        self.point.join(FILE_NAME)
    }

    /// Detaches: removes the file. Processes that have it open keep it.
    pub fn detach(&mut self) -> Result<Detached, AttachError> {
        if !self.attached || self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
            // Unmounted from outside; another party owns what is mounted there now.
            return Ok(Detached::Done);
        }
        let failed = |cause: Errno| AttachError::System {
            point: self.point.clone(),
            what: "umount",
            cause: cause.into(),
        };
        self.attached = false;
        match unmount(&self.point, UnmountFlags::NOFOLLOW) {
            Ok(()) => Ok(Detached::Done),
            Err(Errno::BUSY) => {
                unmount(&self.point, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH).map_err(failed)?;
                Ok(Detached::InUse)
            }
            Err(cause) => Err(failed(cause)),
        }
    }

    /// Waits for the end of a file system whose requests have ended.
    pub fn join(mut self) -> Result<(), AttachError> {
        let ended = self.thread.take().map(JoinHandle::join);
        self.attached = false;
        match ended {
            Some(Ok(Err(cause))) => Err(AttachError::System {
                point: self.point.clone(),
                what: "processing requests of the kernel",
                cause,
            }),
            _ => Ok(()),
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Dropped after another error, which is the one to report.
        let _ = self.detach();
    }
}
