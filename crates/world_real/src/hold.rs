//! Locks on files and block devices: what masu has open, other programs must not open, and the reverse.
//!
//! | lock | who respects it |
//! |---|---|
//! | flock(2), on files only: udev takes it on devices for a moment | masu; backup and cluster tools |
//! | open file description locks (fcntl(2)), in the bytes of QEMU | masu; QEMU, libvirt; who takes record locks |
//!
//! QEMU locks one byte for each permission that a user of the image has, and one for each that it denies to
//! others; a lock is shared, and looked for with F_OFD_GETLK. Both are tests and not barriers: a program that
//! takes no lock is not kept out.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;

use crate::other_paths;

/// A user's permissions: the byte of "reads", "writes" and "resizes" (QEMU's block/file-posix.c).
const HAS: u64 = 100;
/// What it denies to others.
const DENIES: u64 = 200;
const READS: u64 = 0;
const WRITES: u64 = 1;
const RESIZES: u64 = 3;
/// Room for permissions of each kind.
const KINDS: u64 = 64;
/// A length to the end of all files (fcntl(2): 0).
const TO_THE_END: u64 = 0;

/// How a file is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Written, by nobody else. Others may look at it if they accept changes (`qemu-img info -U`).
    Alone,
    /// Read; others may read it, and not write it.
    Read,
}

/// A lock of bytes: shared or exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Shared,
    Exclusive,
}

/// The first byte and the length.
type Bytes = (u64, u64);

impl Use {
    fn taken(self) -> &'static [(Kind, Bytes)] {
        match self {
            // Exclusive below QEMU's bytes: a record lock of the first bytes conflicts, even a shared one.
            Use::Alone => &[
                (Kind::Exclusive, (0, HAS)),
                (Kind::Shared, (HAS, KINDS)),
                (Kind::Shared, (DENIES + WRITES, KINDS - WRITES)),
            ],
            Use::Read => &[
                (Kind::Shared, (HAS + READS, 1)),
                (Kind::Shared, (DENIES + WRITES, 1)),
                (Kind::Shared, (DENIES + RESIZES, 1)),
            ],
        }
    }

    /// The locks that would conflict with the use: such a lock of others is looked for.
    fn excluded(self) -> &'static [(Kind, Bytes)] {
        match self {
            // Who only reads, and denies nothing, is no obstacle.
            Use::Alone => &[
                (Kind::Exclusive, (0, HAS + READS)),
                (Kind::Exclusive, (HAS + READS + 1, TO_THE_END)),
                (Kind::Shared, (HAS + READS, 1)),
            ],
            Use::Read => &[
                (Kind::Exclusive, (HAS + WRITES, 1)),
                (Kind::Exclusive, (HAS + RESIZES, 1)),
                (Kind::Exclusive, (DENIES + READS, 1)),
                (Kind::Shared, (0, TO_THE_END)),
            ],
        }
    }
}

fn record(kind: libc::c_int, (start, len): Bytes) -> libc::flock {
    // SAFETY: a flock is plain numbers, for which zeros are valid.
    let mut record: libc::flock = unsafe { std::mem::zeroed() };
    record.l_type = kind as libc::c_short;
    record.l_whence = libc::SEEK_SET as libc::c_short;
    (record.l_start, record.l_len) = (start as libc::off_t, len as libc::off_t);
    record
}

fn kind_of(kind: Kind) -> libc::c_int {
    match kind {
        Kind::Shared => libc::F_RDLCK,
        Kind::Exclusive => libc::F_WRLCK,
    }
}

/// Takes the lock, or releases it. `Ok(false)`: another one conflicts.
fn set(fd: &impl AsFd, record: libc::flock) -> Result<bool, Errno> {
    // SAFETY: the record lives through the call.
    let failed = unsafe { libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_OFD_SETLK, &raw const record) };
    match (failed, std::io::Error::last_os_error().raw_os_error()) {
        (0, _) => Ok(true),
        (_, Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        (_, errno) => Err(Errno::from_raw_os_error(errno.unwrap_or_default())),
    }
}

/// The process that has a lock which conflicts, if it is known; `None`: nobody has.
fn holder(fd: &impl AsFd, kind: Kind, bytes: Bytes) -> Option<Option<u32>> {
    let mut record = record(kind_of(kind), bytes);
    // SAFETY: the record lives through the call.
    let failed = unsafe { libc::fcntl(fd.as_fd().as_raw_fd(), libc::F_OFD_GETLK, &raw mut record) };
    let found = failed == 0 && libc::c_int::from(record.l_type) != libc::F_UNLCK;
    // -1: the lock belongs to an open file, not to a process.
    found.then(|| u32::try_from(record.l_pid).ok().filter(|pid| *pid > 0))
}

/// Locks a file or a block device until it is closed or [`release`]d.
///
/// # Errors
/// Another process has it locked: "in use…". A file system without locks is no error.
pub(crate) fn hold(fd: &impl AsFd, how: Use, is_device: bool) -> Result<(), String> {
    if !is_device {
        let kind = match how {
            Use::Alone => FlockOperation::NonBlockingLockExclusive,
            Use::Read => FlockOperation::NonBlockingLockShared,
        };
        flock(fd, kind).map_err(|e| match e {
            Errno::WOULDBLOCK => "in use by another process, or by another array".to_owned(),
            e => format!("cannot be locked: {e}"),
        })?;
    }
    // First taken, then looked for: of two that open it at once, at least one sees the other.
    let taken = how.taken().iter().all(|(kind, bytes)| {
        // Without such locks (some network file systems), flock has to do.
        set(fd, record(kind_of(*kind), *bytes)).unwrap_or(true)
    });
    match how.excluded().iter().find_map(|(kind, bytes)| holder(fd, *kind, *bytes)) {
        None if taken => Ok(()),
        found => {
            release(fd, is_device);
            Err(match found.flatten() {
                Some(pid) => format!("in use: process {pid} has locked it; end that process first"),
                None => "in use: another process has locked it, as QEMU does; end that process first".into(),
            })
        }
    }
}

/// Locks a file or a block device to be written, if its medium is not in use through another node either.
///
/// # Errors
/// It is in use: nothing stays locked.
pub(crate) fn hold_alone(file: &File, is_device: bool) -> Result<(), String> {
    hold(file, Use::Alone, is_device)?;
    // A copy of the descriptor in a process that is just being started would keep the locks.
    other_paths::refuse_used(file).inspect_err(|_| release(file, is_device))
}

/// Releases the locks, also those that copies of the descriptor in other processes would keep.
pub(crate) fn release(fd: &impl AsFd, is_device: bool) {
    if !is_device {
        let _ = flock(fd, FlockOperation::Unlock);
    }
    let _ = set(fd, record(libc::F_UNLCK, (0, TO_THE_END)));
}

/// Whether somebody, also in this process, has a file locked against being written.
pub(crate) fn file_is_held(path: &Path) -> bool {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = open(path, flags, Mode::empty()) else { return false };
    // This lock is released on return.
    let is_locked =
        flock(&file, FlockOperation::NonBlockingLockExclusive).is_err_and(|e| e == Errno::WOULDBLOCK);
    is_locked || is_locked_in_bytes(&file)
}

/// Whether somebody has a lock of bytes against writing.
pub(crate) fn is_locked_in_bytes(fd: &impl AsFd) -> bool {
    Use::Alone.excluded().iter().any(|(kind, bytes)| holder(fd, *kind, *bytes).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Image(tempfile::TempDir);

    impl Image {
        fn new() -> Image {
            let image = Image(tempfile::tempdir().expect("a directory"));
            File::create(image.path()).and_then(|f| f.set_len(1 << 20)).expect("a file");
            image
        }

        fn path(&self) -> std::path::PathBuf {
            self.0.path().join("d.img")
        }

        fn open(&self) -> File {
            File::options().read(true).write(true).open(self.path()).expect("opens")
        }
    }

    /// The bytes that a user of QEMU locks, by what it does and what it allows to others.
    fn as_qemu(file: &File, has: &[u64], denies: &[u64]) -> bool {
        let taken = has.iter().map(|i| HAS + i).chain(denies.iter().map(|i| DENIES + i));
        let taken = taken.map(|at| set(file, record(libc::F_RDLCK, (at, 1)))).all(|set| set == Ok(true));
        // And then it looks: nobody does what it denies, nobody denies what it does.
        let looked = denies.iter().map(|i| HAS + i).chain(has.iter().map(|i| DENIES + i));
        taken && looked.map(|at| holder(file, Kind::Exclusive, (at, 1))).all(|found| found.is_none())
    }

    #[test]
    fn a_file_that_another_program_has_locked_is_in_use() {
        let all = |kind: libc::c_int, bytes: Bytes| move |f: &File| set(f, record(kind, bytes)) == Ok(true);
        type Lock = Box<dyn Fn(&File) -> bool>;
        let locks: [(&str, Lock); 6] = [
            ("a whole file", Box::new(all(libc::F_WRLCK, (0, 0)))),
            ("a whole file, shared", Box::new(all(libc::F_RDLCK, (0, 0)))),
            ("the first byte", Box::new(all(libc::F_WRLCK, (0, 1)))),
            ("QEMU that writes", Box::new(|f| as_qemu(f, &[0, 1], &[1, 3]))),
            ("QEMU that reads", Box::new(|f| as_qemu(f, &[0], &[1, 3]))),
            ("flock", Box::new(|f| flock(f, FlockOperation::LockExclusive).is_ok())),
        ];
        for (name, lock) in locks {
            let image = Image::new();
            let (theirs, ours) = (image.open(), image.open());
            assert!(!file_is_held(&image.path()) && lock(&theirs), "{name}");
            let refused = hold(&ours, Use::Alone, false).expect_err(name);
            assert!(refused.contains("in use"), "{name}: {refused}");
            assert!(file_is_held(&image.path()), "{name}");
            drop(theirs);
            assert!(!file_is_held(&image.path()), "{name}: the refused one keeps no lock");
            assert_eq!(hold(&ours, Use::Alone, false), Ok(()), "{name}");
        }
    }

    #[test]
    fn qemu_respects_what_masu_has_open() {
        let image = Image::new();
        let ours = image.open();
        assert_eq!(hold(&ours, Use::Alone, false), Ok(()));
        assert!(!as_qemu(&image.open(), &[0, 1], &[1, 3]), "a writer");
        assert!(!as_qemu(&image.open(), &[0], &[1, 3]), "a reader");
        assert!(as_qemu(&image.open(), &[0], &[]), "qemu-img info -U");
        assert_eq!(set(&image.open(), record(libc::F_WRLCK, (0, 0))), Ok(false));
        release(&ours, false);
        assert!(as_qemu(&image.open(), &[0, 1], &[1, 3]), "released, though it is still open");
    }

    #[test]
    fn readers_share_a_file_and_keep_writers_out() {
        let image = Image::new();
        let (ours, other) = (image.open(), image.open());
        assert_eq!(hold(&ours, Use::Read, false), Ok(()));
        assert_eq!(hold(&other, Use::Read, false), Ok(()));
        assert!(as_qemu(&image.open(), &[0], &[1, 3]), "a reader");
        assert!(!as_qemu(&image.open(), &[0, 1], &[1, 3]), "a writer");
        assert!(hold(&image.open(), Use::Alone, false).is_err());
        drop((ours, other));
        let theirs = image.open();
        assert!(as_qemu(&theirs, &[0, 1], &[1, 3]));
        assert!(hold(&image.open(), Use::Read, false).expect_err("it is written").contains("in use"));
    }

    #[test]
    fn who_only_looks_is_no_obstacle() {
        let image = Image::new();
        let theirs = image.open();
        assert!(as_qemu(&theirs, &[0], &[]), "qemu-img info -U");
        assert!(!file_is_held(&image.path()));
        assert_eq!(hold(&image.open(), Use::Alone, false), Ok(()));
    }
}
