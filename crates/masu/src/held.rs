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
const WAIT_TIME: Duration = Duration::from_secs(5);
const WAIT_PAUSE: Duration = Duration::from_millis(10);
/// Threads that look at drives.
const LOOKING_MAX: usize = 8;

/// Waits until no other process holds a declared drive. Missing or failed drives do not matter here: the
/// array may continue without them; a drive that another array has open must not be taken for lost. It ends
/// early once `stop` is set.
///
/// # Errors
///
/// A drive that is still held after [`WAIT_TIME`].
pub(crate) fn wait_until_free(config: &Config, stop: &AtomicBool) -> Result<()> {
    // The array starts without an image that somebody else has open: that is said in its status.
    wait_until_free_but(config, stop, WAIT_TIME).map(drop)
}

/// The same, of images that are written to, too: they were open at a process that is to have ended. It waits
/// for at most so long, and [`WAIT_TIME`].
///
/// # Errors
///
/// What is still held then.
pub(crate) fn wait_until_all_free(config: &Config, stop: &AtomicBool, time: Duration) -> Result<()> {
    match wait_until_free_but(config, stop, time.min(WAIT_TIME))? {
        None => Ok(()),
        Some(image) => bail!("image {image:?}: in use by another process"),
    }
}

/// Returns an image that is still held.
fn wait_until_free_but<'a>(config: &'a Config, stop: &AtomicBool, time: Duration) -> Result<Option<&'a str>> {
    let end = Instant::now() + time;
    let drives: Vec<&DriveSpec> = config.drives.iter().map(|drive| &drive.spec).collect();
    let free = at_once(&drives, |spec| becomes_free(spec, end, stop));
    if let Some((drive, _)) = config.drives.iter().zip(free).find(|(_, is_free)| !is_free) {
        bail!("drive {:?}: in use by another process; stop the array that uses it", drive.name);
    }
    let images: Vec<_> = config.images.iter().filter(|image| !image.read_only).collect();
    let free = at_once(&images, |image| becomes_free(&image.spec, end, stop));
    let held = images.into_iter().zip(free).find(|(_, is_free)| !is_free);
    Ok(held.map(|(image, _)| image.name.as_str()))
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
