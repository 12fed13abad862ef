//! Drives that another process holds: the array does not start without them, and waits for a process that is
//! ending.

#![expect(clippy::disallowed_methods, reason = "before the array has a world, time is the system's")]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use array::{Config, DriveSpec};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;

/// The kernel releases the files of a killed process some time after its end, when its last operations have
/// completed: milliseconds, unless a drive is slow.
const WAIT_TIME: Duration = Duration::from_secs(5);
const WAIT_PAUSE: Duration = Duration::from_millis(10);

/// Waits until no other process holds a declared drive. Missing or failed drives do not matter here: the
/// array may continue without them; a drive that another array has open must not be taken for lost. It ends
/// early once `stop` is set.
///
/// # Errors
///
/// A drive that is still held after [`WAIT_TIME`].
pub(crate) fn wait_until_free(config: &Config, stop: &AtomicBool) -> Result<()> {
    let end = Instant::now() + WAIT_TIME;
    for drive in &config.drives {
        if !becomes_free(&drive.spec, end, stop) {
            bail!("drive {:?}: in use by another process; stop the array that uses it", drive.name);
        }
    }
    // The array starts without an image that somebody else has open: that is said in its status.
    config.images.iter().filter(|i| !i.read_only).for_each(|image| _ = becomes_free(&image.spec, end, stop));
    Ok(())
}

/// Waits until the file is free, until the deadline, or until nobody waits any more; returns whether the
/// deadline did not pass.
fn becomes_free(spec: &DriveSpec, until: Instant, stop: &AtomicBool) -> bool {
    while !stop.load(Relaxed) && is_held(spec) {
        if Instant::now() > until {
            return false;
        }
        sleep(WAIT_PAUSE);
    }
    true
}

fn is_held(spec: &DriveSpec) -> bool {
    match spec {
        DriveSpec::File { path, .. } | DriveSpec::Image { path, .. } => file_is_held(path),
        DriveSpec::ImageWithin { folder, path } => file_is_held(&folder.join(path)),
        DriveSpec::Device { path } => {
            open(path, OFlags::RDONLY | OFlags::EXCL, Mode::empty()).is_err_and(|e| e == Errno::BUSY)
        }
        // Without an answer, the controllers find out that it does not answer.
        DriveSpec::Rbd(image) => world_real::rbd_holder(image, WAIT_TIME).is_some(),
        DriveSpec::ReadOnly { .. } | DriveSpec::Memory { .. } | DriveSpec::Modelled { .. } => false,
    }
}

/// Whether another process has locked the file; this process's own lock is released on return.
fn file_is_held(path: &Path) -> bool {
    let Ok(file) = open(path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()) else { return false };
    flock(&file, FlockOperation::NonBlockingLockExclusive).is_err_and(|e| e == Errno::WOULDBLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_seen_until_it_is_gone() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("d0.img");
        assert!(!file_is_held(&path), "nobody holds what is not there");
        let file = open(&path, OFlags::RDWR | OFlags::CREATE, Mode::RUSR | Mode::WUSR).expect("a file");
        assert!(!file_is_held(&path));
        flock(&file, FlockOperation::NonBlockingLockExclusive).expect("locked");
        assert!(file_is_held(&path));
        drop(file);
        assert!(!file_is_held(&path));
    }
}
