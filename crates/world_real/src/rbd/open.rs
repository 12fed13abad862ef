//! Opens an image as a drive, with its exclusive lock, and fences whoever has it. These calls block.
//!
//! ```text
//!   who has the lock?  nobody ─────────────────────────────────────────> take it
//!                      a process of this machine that has ended ─fence─> take it
//!                      a client that Ceph no longer hears ───────fence─> take it
//!                      any other ──> refused, with its name
//! ```

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use world::{DriveInfo, OpenError, RbdImage};

use super::fenced;
use super::flights::{self, Flights};
use super::holder;
use super::image::{Errno, Image, Purpose};

/// The logical block of an image.
const BLOCK_BYTES: u32 = 512;
/// librbd's own caches that outlast a write.
const PERSISTENT_CACHE: &str = "rbd_persistent_cache_mode";
/// After a fence, how long librbd may take to see that the lock is free.
const FREE_TIME_MAX: Duration = Duration::from_secs(3);
const FREE_TIME_STEP: Duration = Duration::from_millis(50);

/// An image after opening, on any thread.
pub(crate) struct OpenImage {
    pub(super) flights: std::sync::Arc<Flights>,
    pub(super) info: DriveInfo,
    /// See [`fenced`].
    pub(super) key: String,
}

/// Opens an image and takes its lock.
pub(crate) fn open(spec: &RbdImage) -> Result<OpenImage, OpenError> {
    let refuse = |cause: String| OpenError { name: spec.to_string(), cause, is_absent: false };
    let key = fenced::key_of(spec);
    if fenced::is_fenced(&key) {
        let cause = "fenced: another client took the image over; restart the array to use it again";
        return Err(refuse(cause.to_owned()));
    }
    let image = Image::open(spec, Purpose::Use).map_err(refuse)?;
    take_lock(spec, &image).map_err(refuse)?;
    let failed = |what: &str, e: Errno| refuse(format!("{what}: {}", e.text()));
    let mode = image.option(PERSISTENT_CACHE).map_err(|e| failed("cannot read the image's options", e))?;
    if let Some(mode) = mode.filter(|mode| mode != "disabled") {
        return Err(refuse(format!(
            "{PERSISTENT_CACHE} = {mode}: a flush would end on this machine; remove it from the image's \
             configuration"
        )));
    }
    // The image's own configuration goes over masu's.
    let cache = image.option("rbd_cache").map_err(|e| failed("cannot read the image's options", e))?;
    let volatile_cache = cache.as_deref() != Some("false");
    let len = image.len_bytes().map_err(|e| failed("cannot read the size", e))?;
    let len_bytes = len / u64::from(BLOCK_BYTES) * u64::from(BLOCK_BYTES);
    if len_bytes == 0 {
        return Err(refuse(format!("too small: {len} bytes, less than one block of {BLOCK_BYTES} bytes")));
    }
    let info = DriveInfo {
        name: spec.to_string(),
        len_bytes,
        block_bytes: BLOCK_BYTES,
        volatile_cache,
        cheap_zero: true,
    };
    let flights = Flights::new(image, len_bytes);
    flights::watch(&flights).map_err(|e| failed("cannot watch the image", e))?;
    // A change before the watch.
    flights.read_len();
    Ok(OpenImage { flights, info, key })
}

/// The client that has the image, and answers Ceph; a process of this machine that has ended is none. `None`,
/// too, if it cannot be told within `time`. For the start of an array, which has no world yet; it blocks.
pub fn rbd_holder(spec: &RbdImage, time: Duration) -> Option<String> {
    let (tell, hear) = mpsc::channel();
    let spec = spec.clone();
    let look = move || {
        let holder = Image::open(&spec, Purpose::Fence).and_then(|image| holder_of(&image));
        let text = match holder {
            Ok(Some((_, Owner::Alive(text)))) => Some(text),
            _ => None,
        };
        // Nobody waits any more if that took too long.
        let _ = tell.send(text);
    };
    thread::Builder::new().name("rbd holder".to_owned()).spawn(look).ok()?;
    hear.recv_timeout(time).ok().flatten()
}

/// A client that has the lock.
enum Owner {
    /// In words.
    Alive(String),
    /// It has ended, or Ceph no longer hears it.
    Lost,
}

/// Address and state of the client that has the lock.
fn holder_of(image: &Image) -> Result<Option<(String, Owner)>, String> {
    let unread = |e: Errno| format!("cannot read who has the lock: {}", e.text());
    let Some(address) = image.owner().map_err(unread)? else { return Ok(None) };
    let holder = holder::of(image, &address);
    let is_heard = image.watchers().map_err(unread)?.contains(&address);
    let owner = if is_heard && !holder.has_ended { Owner::Alive(holder.text) } else { Owner::Lost };
    Ok(Some((address, owner)))
}

fn take_lock(spec: &RbdImage, image: &Image) -> Result<(), String> {
    let failed = |what: &str, e: Errno| format!("{what}: {}", e.text());
    if !image.has_exclusive_lock().map_err(|e| failed("cannot read the features", e))? {
        let path = spec.path();
        return Err(format!(
            "the image has no exclusive lock; run: rbd feature enable {path} exclusive-lock"
        ));
    }
    match holder_of(image)? {
        Some((_, Owner::Alive(text))) => return Err(in_use(&text)),
        Some((address, Owner::Lost)) => Image::open(spec, Purpose::Fence)?.fence(&address)?,
        None => {}
    }
    acquire(image)?;
    holder::note(image);
    Ok(())
}

fn in_use(holder: &str) -> String {
    format!("in use by the client {holder}; stop it there first")
}

/// Takes the lock that was seen to be free. librbd may have read the lock of the fenced client before.
fn acquire(image: &Image) -> Result<(), String> {
    let end = Instant::now() + FREE_TIME_MAX;
    loop {
        let e = match image.acquire() {
            Ok(()) => return Ok(()),
            Err(e) => e,
        };
        let owner = image.owner().ok().flatten();
        match (e.0, owner) {
            (libc::EROFS | libc::EBUSY | libc::EAGAIN, Some(owner)) => {
                return Err(in_use(&holder::of(image, &owner).text));
            }
            (libc::EROFS | libc::EBUSY | libc::EAGAIN, None) if Instant::now() < end => {
                thread::sleep(FREE_TIME_STEP);
            }
            (libc::EACCES | libc::EPERM, _) => {
                return Err("no permission to lock the image; the Ceph user needs the capabilities \
                            \"mon 'profile rbd' osd 'profile rbd'\""
                    .to_owned());
            }
            _ => return Err(format!("cannot take the exclusive lock: {}", e.text())),
        }
    }
}

/// Fences whoever has the image; returns who that was.
pub(crate) fn fence(spec: &RbdImage) -> Result<Option<String>, String> {
    let image = Image::open(spec, Purpose::Fence)?;
    let owner = image.owner().map_err(|e| format!("cannot read who has the lock: {}", e.text()))?;
    let text = owner.as_ref().map(|owner| holder::of(&image, owner).text);
    if let Some(owner) = owner {
        image.fence(&owner)?;
    }
    fenced::forget(&fenced::key_of(spec));
    Ok(text)
}
