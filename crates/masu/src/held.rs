//! Drives that another process holds: the array does not start without them, and waits for a process that is
//! ending.

#![expect(clippy::disallowed_methods, reason = "before the array has a world, time is the system's")]

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use array::{Config, DriveSpec};
use world_real::is_in_use;

/// The kernel releases the files of a killed process some time after its end, when its last operations have
/// completed: milliseconds, unless a drive is slow.
pub(crate) const WAIT_TIME: Duration = Duration::from_secs(5);
const WAIT_PAUSE: Duration = Duration::from_millis(10);
pub(crate) const IN_USE: &str = "in use by another process";
/// Threads that look at drives.
const LOOKING_MAX: usize = 8;

/// What other processes hold, by declared names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) drives: Vec<String>,
    /// Images that are written to.
    pub(crate) images: Vec<String>,
}

/// Waits until no other process holds a declared drive. Missing or failed drives do not matter here: the
/// array may continue without them; a drive that another array has open must not be taken for lost. It ends
/// early once `stop` is set.
///
/// # Errors
///
/// A drive that is still held after [`WAIT_TIME`].
pub(crate) fn wait_until_free(config: &Config, stop: &AtomicBool) -> Result<()> {
    // The array starts without an image that somebody else has open: that is said in its status.
    match still_held(config, stop, WAIT_TIME).drives.first() {
        Some(drive) => bail!("drive {drive:?}: {IN_USE}; stop the array that uses it"),
        None => Ok(()),
    }
}

/// The same, of images that are written to, too: they were open at a process that is to have ended. It waits
/// for at most so long, and [`WAIT_TIME`].
///
/// # Errors
///
/// What is still held then.
pub(crate) fn wait_until_all_free(config: &Config, stop: &AtomicBool, time: Duration) -> Result<()> {
    let held = still_held(config, stop, time.min(WAIT_TIME));
    match (held.drives.first(), held.images.first()) {
        (Some(drive), _) => bail!("drive {drive:?}: {IN_USE}; stop the array that uses it"),
        (None, Some(image)) => bail!("image {image:?}: {IN_USE}"),
        (None, None) => Ok(()),
    }
}

/// What is still held after so long at most. It ends early once `stop` is set.
pub(crate) fn still_held(config: &Config, stop: &AtomicBool, time: Duration) -> Held {
    let end = Instant::now() + time;
    let images = config.images.iter().filter(|image| !image.read_only);
    let of = |all: Vec<(&String, &DriveSpec)>| {
        let free = at_once(&all, |(_, spec)| becomes_free(spec, end, stop));
        let held = all.iter().zip(free).filter(|(_, is_free)| !is_free);
        held.map(|((name, _), _)| (*name).clone()).collect()
    };
    Held {
        drives: of(config.drives.iter().map(|drive| (&drive.name, &drive.spec)).collect()),
        images: of(images.map(|image| (&image.name, &image.spec)).collect()),
    }
}

/// The results for all of these, in order, several at a time: an RBD image takes a moment.
fn at_once<T: Sync, R: Send>(all: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let each = all.len().div_ceil(LOOKING_MAX).max(1);
    std::thread::scope(|scope| {
        let parts = all.chunks(each).map(|part| scope.spawn(|| part.iter().map(&work).collect::<Vec<_>>()));
        let threads: Vec<_> = parts.collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it does not panic")).collect()
    })
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
        DriveSpec::File { path, .. } | DriveSpec::Image { path, .. } | DriveSpec::Device { path } => {
            is_in_use(path)
        }
        DriveSpec::ImageWithin { folder, path } => is_in_use(&folder.join(path)),
        // Without an answer, the controllers find out that it does not answer.
        DriveSpec::Rbd(image) => world_real::rbd_holder(image, WAIT_TIME).is_some(),
        DriveSpec::ReadOnly { .. } | DriveSpec::Memory { .. } | DriveSpec::Modelled { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};

    use super::*;

    #[test]
    fn results_come_in_order_however_many_there_are() {
        for count in [0, 1, 7, 8, 9, 64, 65] {
            let all: Vec<u32> = (0..count).collect();
            assert_eq!(at_once(&all, |n| n * 2), all.iter().map(|n| n * 2).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_lock_is_seen_until_it_is_gone() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("d0.img");
        assert!(!is_in_use(&path), "nobody holds what is not there");
        let file = open(&path, OFlags::RDWR | OFlags::CREATE, Mode::RUSR | Mode::WUSR).expect("a file");
        assert!(!is_in_use(&path));
        flock(&file, FlockOperation::NonBlockingLockExclusive).expect("locked");
        assert!(is_in_use(&path));
        drop(file);
        assert!(!is_in_use(&path));
    }
}
