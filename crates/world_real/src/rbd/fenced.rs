//! Images that were taken away from this process.
//!
//! An array looks for drives that went missing, and opens them again. An image that another client took over
//! must not come back in this way, even when that client has let go: what this process knows of its content
//! is old. Only a take-over ([`super::fence`]), after which everything is read again, makes it usable.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use world::RbdImage;

use crate::term;

/// By cluster and image. Bounded: at most the images that were open here.
static FENCED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

fn lock() -> MutexGuard<'static, BTreeSet<String>> {
    FENCED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The image, whichever user opens it.
pub(super) fn key_of(spec: &RbdImage) -> String {
    RbdImage { user: None, ..spec.clone() }.to_string()
}

/// Another client has the image's lock, or had it. A process that owns an array for a term ends, however it
/// has come to know: the group that loses the drive would ask it nothing more, and the process would stay the
/// owner.
pub(super) fn remember(key: &str) {
    lock().insert(key.to_owned());
    term::fenced(key);
}

pub(super) fn forget(key: &str) {
    lock().remove(key);
}

pub(super) fn is_fenced(key: &str) -> bool {
    lock().contains(key)
}
